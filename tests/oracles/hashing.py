"""The hash of keys in Python's own whole numbers, from its description in `evenodds.keys` alone."""

import hashlib

M = (1_103_515_245, 1_220_703_125)
PRIME = 2**31 - 1
COMBINE = 741_103_597
MIXER = 0x6A5D39EA4E4B7C15


def words(key):
    """Two 32-bit words of a text, a whole number, or a tuple of them."""
    if isinstance(key, tuple):
        v, w = words(key[0])
        for part in key[1:]:
            a, b = words(part)
            v, w = (v * COMBINE + a) % 2**32, (w * COMBINE + b + v) % 2**32
        return v, w
    if isinstance(key, int):
        return key % 2**32, (key // 2**32) % 2**32
    return tuple(sum(c * pow(m, k + 1, PRIME) for k, c in enumerate(key.encode())) % 2**32 for m in M)


def mixed(key, salt):
    """64 mixed bits: v * A + w * B + C with numbers from the salt's digest, folded once, times D."""
    digest = hashlib.sha256(f"{salt:016x}".encode()).hexdigest()
    a, b, c = (int(digest[place : place + 16], 16) for place in (0, 16, 32))
    a, b = ((number & 0x7FFFFFFF7FFFFFFF) | 1 for number in (a, b))
    v, w = words(key)
    x = (v * a + w * b + c) % 2**64
    x ^= x >> 32
    return x * MIXER % 2**64


def uniform(key, salt):
    """Return a number in [0, 1): the upper 36 bits."""
    return (mixed(key, salt) >> 28) / 2**36


def fold(query, folds=20):
    """Return the fold of a query id: the upper 32 bits, cut into equal parts."""
    return (mixed(query, 0) >> 32) * folds // 2**32
