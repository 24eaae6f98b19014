"""Draws that repeat: a uniform number from (model, key), the same in any batch, order or process.

The hash needs nothing but 64-bit integers and remainders, so that SQL, Java, Go and JavaScript can
repeat it to the last bit. All arithmetic below stays under 2**63.

1. A key becomes two 32-bit words. Text, over its UTF-8 bytes c_0, c_1, ...:
   ``sum((c_k + 1) * M**(k + 1)) mod (2**31 - 1)`` for two multipliers M. A whole number: its low and
   its high 32 bits (two's complement). Several columns: word by word, ``(w * 31 + next) mod 2**32``.
2. The words are mixed with the 64-bit salt and the number of the draw by Wellons' 32-bit mixer
   (https://github.com/skeeto/hash-prospector, multipliers below 2**31).
3. 53 of the 64 mixed bits are the uniform number in [0, 1).
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from evenodds.errors import SettingsError

Floats = npt.NDArray[np.float64]
Words = npt.NDArray[np.uint64]

PRIME = (1 << 31) - 1
MULTIPLIERS = (1_103_515_245, 1_220_703_125)
COMBINE = 31
MIX_1, MIX_2 = 0x21F0AAAD, 0x735A2D97
SECOND_WORD = 0x3C6EF372
_LOW = np.uint64(0xFFFFFFFF)
_power_cache: dict[int, Words] = {}


def salt_of(content: bytes) -> int:
    """Return the 64-bit salt of a model: the first 16 hexadecimal digits of the SHA-256 of its tables."""
    return int(hashlib.sha256(content).hexdigest()[:16], 16)


def key_words(keys: object) -> Words:
    """Return the two words of each key, shape (2, n); `keys` is a column, or a tuple of columns."""
    if isinstance(keys, tuple):
        if not keys:
            raise SettingsError("keys is an empty tuple; expected one or more columns of keys")
        columns = [key_words(column) for column in keys]
        if len({column.shape for column in columns}) > 1:
            raise SettingsError(f"key columns differ in length: {[column.shape[1] for column in columns]}")
        words = columns[0]
        for column in columns[1:]:
            words = (words * np.uint64(COMBINE) + column) & _LOW
        return words
    if isinstance(keys, list):  # the shape a request handler has: text, far oftener than numbers
        try:
            return (
                _text_words(np.array(keys, dtype=np.bytes_))
                if isinstance(keys[0], str)
                else _column_words(keys)
            )
        except (IndexError, UnicodeEncodeError):
            return _column_words(keys)
    return _column_words(keys)


def _column_words(keys: object) -> Words:
    values = np.asarray(keys)
    if values.ndim != 1:
        raise SettingsError(
            f"keys have {values.ndim} dimensions; expected one",
            hint="several columns make one key as a tuple: keys=(viewers, items)",
        )
    if values.dtype.kind in "iub":
        whole = values.astype(np.int64).view(np.uint64)
        return np.stack((whole & _LOW, whole >> np.uint64(32)))
    if values.dtype.kind == "S":
        return _text_words(values)
    if values.dtype.kind in "OUT":
        texts = [_as_text(value) for value in values.tolist()]
        return _text_words(np.array([text.encode() for text in texts], dtype=np.bytes_))
    raise SettingsError(f"keys of type {values.dtype} cannot repeat a draw; expected text or whole numbers")


def _as_text(value: object) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, bytes):
        return value.decode()
    if value is None or isinstance(value, float):
        raise SettingsError(f"a key is {value!r}; expected text or a whole number for every item")
    return str(value)


def _text_words(texts: npt.NDArray[np.bytes_]) -> Words:
    if texts.size == 0:
        return np.zeros((2, 0), dtype=np.uint64)
    width = texts.dtype.itemsize
    # Padding must not count, wherever the batch's longest key ends: zero bytes carry the weight 0.
    letters = np.ascontiguousarray(texts).view(np.uint8).reshape(texts.size, width).astype(np.uint64)
    letters += letters > 0
    words = _powers(width) @ letters.T
    words %= np.uint64(PRIME)
    return words


def _powers(width: int) -> Words:
    if width not in _power_cache:
        table = [[pow(m, k + 1, PRIME) for k in range(width)] for m in MULTIPLIERS]
        _power_cache[width] = np.array(table, dtype=np.uint64)
    return _power_cache[width]


def _mix(word: Words) -> Words:
    word ^= word >> np.uint64(16)
    word *= np.uint64(MIX_1)
    word &= _LOW
    word ^= word >> np.uint64(15)
    word *= np.uint64(MIX_2)
    word &= _LOW
    word ^= word >> np.uint64(15)
    return word


def uniforms(words: Words, salt: int, draw: int = 0) -> Floats:
    """Return one uniform number in [0, 1) a key.

    >>> words = key_words(["anna/job7", "ben/job7"])
    >>> uniforms(words, salt=1).tolist() == [uniforms(words[:, i : i + 1], salt=1)[0] for i in (0, 1)]
    True
    """
    low, high = np.uint64((salt + draw * 0x9E3779B9) & 0xFFFFFFFF), np.uint64((salt >> 32) & 0xFFFFFFFF)
    first = _mix(words[0] ^ low)
    first += words[1]
    first &= _LOW
    first = _mix(first ^ high)
    second = first + words[0]
    second += np.uint64(SECOND_WORD)
    second &= _LOW
    second = _mix(second ^ low)
    first <<= np.uint64(21)
    first |= second >> np.uint64(11)
    return first.astype(np.float64) * 2.0**-53


def seeded_words(count: int, seed: int, first: int = 0) -> Words:
    """Return words that stand in for keys: the row number under a seed."""
    rows = np.arange(first, first + count, dtype=np.uint64)
    return np.stack((rows & _LOW, (rows >> np.uint64(32)) ^ np.uint64(seed & 0xFFFFFFFF)))


def fold_of(keys: Sequence[object] | npt.NDArray[np.generic], folds: int) -> npt.NDArray[np.int64]:
    """Return the fold of each query id: a hash, so that shards agree and order does not matter."""
    words = key_words(keys)
    mixed = _mix(words[0] + words[1] * np.uint64(MIX_1) & _LOW)
    return ((mixed * np.uint64(folds)) >> np.uint64(32)).astype(np.int64)
