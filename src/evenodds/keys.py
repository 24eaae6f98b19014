"""Draws that repeat: a uniform number from (model, key), the same in any batch, order or process.

The hash can be written with whole numbers below 2**63 in any language, SQL included, and then agrees
to the last bit.

1. A key becomes two 32-bit words. Text, over its UTF-8 bytes c_0, c_1, ...:
   ``sum(c_k * (M**(k + 1) mod P)) mod 2**32``, P = 2**31 - 1, for two multipliers M. A whole number:
   its low and its high 32 bits (two's complement). Several columns: words (v, w) and the next column's
   (a, b) become ``(v * C + a mod 2**32, w * C + b + v mod 2**32)``.
2. The words (v, w) give ``x = v * A + w * B + C mod 2**64``, with A, B and C made from the model's salt
   (see `coefficients`), so that two models draw independently; then ``x = x xor (x >> 32)`` and
   ``x = x * D mod 2**64``.
3. The upper 36 bits of x are the uniform number in [0, 1): so many that a row number of a table can
   be added to it without rounding.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import cache

import numpy as np
import numpy.typing as npt

from evenodds.errors import SettingsError

Floats = npt.NDArray[np.float64]
Words = npt.NDArray[np.uint64]

PRIME = (1 << 31) - 1
MULTIPLIERS = (1_103_515_245, 1_220_703_125)
COMBINE = 741_103_597  # below 2**31
# Both halves below 2**31, as those of A and B are, so that a product of 32-bit halves stays below 2**63.
MIXER = 0x6A5D_39EA_4E4B_7C15
_TO_UNIT = np.array(2.0**-36)
# Arrays of no dimension: in a request NumPy takes them in half the time that its scalars take.
_LOW, _HALF, _DROPPED, _MIXER = (np.array(number, dtype=np.uint64) for number in (0xFFFFFFFF, 32, 28, MIXER))
_STEP = np.array([[COMBINE, 0], [1, COMBINE]], dtype=np.uint64)  # from words to what the next are added to
_ONE_KEY = (str, int, np.integer)
_FIXED = {width: np.dtype(f"S{width}") for width in (16, 32)}
_LETTERS = {width: np.dtype((np.uint8, (width,))) for width in _FIXED}
_EXACT_WIDTH = 1 << 13
_float_powers: dict[int, Floats] = {}


def salt_of(content: bytes) -> int:
    """Return the 64-bit salt of a model: the first 16 hexadecimal digits of the SHA-256 of its tables."""
    return int(hashlib.sha256(content).hexdigest()[:16], 16)


def key_words(keys: object) -> Words:
    """Return the two words of each key, shape (2, n).

    `keys` is a column, or a tuple of columns, in which one value alone stands for all items.
    """
    if isinstance(keys, tuple):
        return _crossed_words(keys)
    if type(keys) is list and keys and type(keys[0]) is str:  # what a request handler has
        sums = _listed_sums(keys)
        if sums is not None:
            sums &= _LOW
            return sums
    return _column_words(keys)


def is_one_key(column: object) -> bool:
    """Whether this is one key rather than a column of them."""
    return isinstance(column, _ONE_KEY)


def _crossed_words(columns: tuple[object, ...]) -> Words:
    if not columns:
        raise SettingsError("keys is an empty tuple; expected one or more columns of keys")
    first, *rest = columns
    if len(rest) == 1 and type(first) is str and type(rest[0]) is list:
        # A request: its key and its items' ids, hashed in one go.
        both = _listed_sums([first, *rest[0]])
        if both is not None:
            joined: Words = both[:, 1:] + _STEP.dot(both[:, :1])
            joined &= _LOW
            return joined
    words = [_words_of(column) for column in columns]
    lengths = [part.shape[1] for part, column in zip(words, columns, strict=True) if not is_one_key(column)]
    if len(set(lengths)) > 1:
        raise SettingsError(f"key columns differ in length: {lengths}")
    whole = words[0]
    for part in words[1:]:
        whole = _joined(whole, part)
    return whole


def _words_of(column: object) -> Words:
    return key_words([column] if is_one_key(column) else column)


def _joined(words: Words, column: Words) -> Words:
    """Combine the words of the columns so far with those of the next; either may be one key's."""
    joined: Words = _STEP.dot(words)
    if joined.shape == column.shape:
        joined += column
    else:
        joined = joined + column
    joined &= _LOW
    return joined


def _listed_sums(texts: list[str]) -> Words | None:
    """Do what `_text_sums` does for a list that begins with text; None if not all is plain ASCII.

    A width guessed from the mean spares a look at every length.
    """
    try:
        whole = "".join(texts)  # which refuses all but text
        if "\0" in whole:
            return None
        width = 16 if len(whole) < 13 * len(texts) else 32
        laid = np.fromiter(texts, _FIXED[width], len(texts))
        if laid.tobytes()[width - 1 :: width].strip(b"\0"):  # something may have been cut off
            return _text_sums(np.array(texts, dtype=np.bytes_))
    except (UnicodeEncodeError, TypeError, ValueError):
        return None
    return _weighted(laid.view(_LETTERS[width]), width)


def _column_words(keys: object) -> Words:
    values = np.asarray(keys)
    if values.dtype.kind == "U" and isinstance(keys, list):  # one by one: NumPy prints what is no text
        values = np.array(keys, dtype=object)
    if values.size == 0 and values.ndim == 1:
        return np.zeros((2, 0), dtype=np.uint64)
    if values.ndim != 1:
        raise SettingsError(
            f"keys have {values.ndim} dimensions; expected one",
            hint="several columns make one key as a tuple: keys=(viewers, items)",
        )
    if values.dtype.kind in "iub":
        whole = values.astype(np.int64, copy=False).view(np.uint64)
        words = np.empty((2, values.size), dtype=np.uint64)
        np.bitwise_and(whole, _LOW, out=words[0])
        np.right_shift(whole, _HALF, out=words[1])
        return words
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
    return _text_sums(texts) & _LOW


def _text_sums(texts: npt.NDArray[np.bytes_]) -> Words:
    """Return the sums of letters times powers, before they are taken modulo 2**32."""
    if texts.size == 0:
        return np.zeros((2, 0), dtype=np.uint64)
    width = texts.dtype.itemsize
    # Padding is zero bytes, which add nothing, wherever the longest key of the batch ends.
    if not texts.flags.c_contiguous:
        texts = texts.copy()
    letters = texts.view(np.uint8).reshape(-1, width)
    if width <= _EXACT_WIDTH:
        return _weighted(letters, width)
    return _powers(width) @ letters.astype(np.uint64).T


def _weighted(letters: npt.NDArray[np.uint8], width: int) -> Words:
    """Sum letters times powers in double precision, in which these sums stay whole numbers."""
    powers = _float_powers.get(width)
    if powers is None:
        powers = _float_powers[width] = _powers(width).astype(np.float64)
    return powers.dot(letters.astype(np.float64).T).astype(np.uint64)


def _powers(width: int) -> npt.NDArray[np.uint64]:
    table = [[pow(m, k + 1, PRIME) for k in range(width)] for m in MULTIPLIERS]
    return np.array(table, dtype=np.uint64)


def uniforms(words: Words, salt: int) -> Floats:
    """Return one uniform number in [0, 1) a key.

    >>> words = key_words(["anna/job7", "ben/job7"])
    >>> uniforms(words, salt=1).tolist() == [uniforms(words[:, i : i + 1], salt=1)[0] for i in (0, 1)]
    True
    """
    mixed = _mixed(words, salt)
    mixed >>= _DROPPED
    unit = mixed.astype(np.float64)
    unit *= _TO_UNIT
    return unit


@cache
def coefficients(salt: int) -> tuple[np.uint64, np.uint64, np.uint64]:
    """Return A, B and C: bytes 0-7, 8-15 and 16-23 of the SHA-256 of the salt's 16 hexadecimal digits.

    Big-endian; bits 63 and 31 of A and B are cleared and bit 0 is set.
    """
    digest = hashlib.sha256(f"{salt:016x}".encode()).digest()
    first, second, third = (int.from_bytes(digest[place : place + 8], "big") for place in (0, 8, 16))
    halves = 0x7FFF_FFFF_7FFF_FFFF
    return np.uint64(first & halves | 1), np.uint64(second & halves | 1), np.uint64(third)


def _mixed(words: Words, salt: int) -> Words:
    factors, constant = _factors(salt)
    mixed: Words = factors.dot(words)
    mixed += constant
    mixed ^= mixed >> _HALF
    mixed *= _MIXER
    return mixed


@cache
def _factors(salt: int) -> tuple[Words, Words]:
    a, b, c = coefficients(salt)
    return np.array((a, b)), np.array(c)


def seeded_words(count: int, seed: int, first: int = 0) -> Words:
    """Return words that stand in for keys: the row number under a seed."""
    rows = np.arange(first, first + count, dtype=np.uint64)
    return np.stack((rows & _LOW, (rows >> np.uint64(32)) ^ np.uint64(seed & 0xFFFFFFFF)))


def fold_of(keys: Sequence[object] | npt.NDArray[np.generic], folds: int) -> npt.NDArray[np.int64]:
    """Return the fold of each query id: a hash, so that shards agree and order does not matter."""
    upper = _mixed(key_words(keys), 0) >> _HALF
    return ((upper * np.uint64(folds)) >> _HALF).astype(np.int64)
