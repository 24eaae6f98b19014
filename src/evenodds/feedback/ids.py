"""Ids as they are stored: hashed under a secret that the store does not hold, or plain.

The hash is BLAKE2b with a key, 64 bits of it, of the id as it prints (7 and "7" are one id), with keys and
items apart. Whoever holds the store but not the secret cannot find out whether a person is in it by
hashing their id, which an unkeyed hash, or the public one of keyed draws (:mod:`evenodds.keys`), would allow.
Of n lists two share a key's hash with probability n**2 / 2**65: 3 in 100 for a thousand million; then the two
count as one query.

The secret is 32 random bytes in a file beside a SQLite store, readable by its owner only, or what
``EVENODDS_FEEDBACK_SECRET`` holds. Reading a store needs no secret.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
from collections.abc import Sequence
from contextlib import suppress
from numbers import Integral
from pathlib import Path
from typing import Literal, cast

import numpy as np

from evenodds.errors import SettingsError, StoreError

Id = str | int
Stored = int | str  # what a column holds: a hash, or the text
Kind = Literal["hashed", "plain"]

ENVIRONMENT = "EVENODDS_FEEDBACK_SECRET"
MAX_LENGTH = 1000
_SHORTEST = 16
_REMEMBERED = 100_000  # hashes of items in memory: some 20 MB,
_SHORT = 64  # of ids that are not longer


class Hasher:
    """Turns ids into what is stored."""

    def __init__(self, kind: Kind, secret: bytes = b"") -> None:
        self.kind = kind
        if kind == "hashed":
            short = hashlib.blake2b(secret, digest_size=32).digest()  # a secret may be longer than a key
            self._key = hashlib.blake2b(digest_size=8, key=short, person=b"evenodds key")
            self._item = hashlib.blake2b(digest_size=8, key=short, person=b"evenodds item")
        self._known: dict[Id, bytes] = {}

    def key(self, value: Id) -> Stored:
        """Return a request's key as it is stored."""
        return value_of(self._key, value) if self.kind == "hashed" else printed(value)

    def items(self, values: Sequence[Id]) -> list[Stored]:
        """Return items' ids as they are stored."""
        if self.kind == "plain":
            return [printed(value) for value in values]
        start = self._item
        return [value_of(start, value) for value in values]

    def packed(self, values: Sequence[Id]) -> bytes:
        """Return the items of a list as one value; items come again and again, so their hashes are kept."""
        if self.kind == "plain":
            return pack("plain", self.items(values))
        known = self._known
        try:
            return b"".join([known[value] for value in values])
        except KeyError:
            return b"".join([known.get(value) or self._hashed(value) for value in values])

    def _hashed(self, value: Id) -> bytes:
        found = digest_of(self._item, value)
        if not isinstance(value, str) or len(value) <= _SHORT:
            if len(self._known) >= _REMEMBERED:
                self._known.clear()
            self._known[value] = found
        return found

    @property
    def fingerprint(self) -> str:
        """Tell one secret from another, without telling the secret."""
        return "" if self.kind == "plain" else f"{self.key('evenodds: which secret is this?')}"


def value_of(start: hashlib.blake2b, value: Id) -> int:
    """Return 64 bits of a hash as a signed number, which is what databases store."""
    return int.from_bytes(digest_of(start, value), "little", signed=True)


def digest_of(start: hashlib.blake2b, value: Id) -> bytes:
    """Return the hash of an id."""
    state = start.copy()
    state.update((value if type(value) is str else printed(value)).encode("utf-8", "surrogatepass"))
    return state.digest()


def printed(value: Id) -> str:
    """Return an id as text: 7 and "7" name the same thing.

    >>> printed(7)
    '7'
    """
    return value if isinstance(value, str) else str(int(value))


def problem_of(value: object, what: str, kind: Kind) -> str | None:
    """Say what is wrong with an id, if anything."""
    if isinstance(value, bool) or not isinstance(value, str | Integral):
        return f"{what} is a {type(value).__name__}; expected text or a whole number"
    if isinstance(value, Integral):
        return None if -(2**63) <= int(value) < 2**64 else f"{what} has more than 64 bits"
    if not value:
        return f"{what} is empty text"
    if len(value) > MAX_LENGTH:
        return f"{what} has {len(value):,} characters; at most {MAX_LENGTH:,} are taken"
    # No id is in a message: messages are logged.
    return f"{what} is no text that can be stored" if kind == "plain" and unfit(value) else None


def problem_of_all(values: Sequence[object], kind: Kind) -> str | None:
    """Say what is wrong with the first id of a list that has a problem; quick where none has."""
    if set(map(type, values)) == {str}:
        texts = cast("Sequence[str]", values)
        lengths = set(map(len, texts))
        if (
            0 not in lengths
            and max(lengths) <= MAX_LENGTH
            and (kind == "hashed" or not unfit("".join(texts)))
        ):
            return None
    found = (problem_of(value, f"item {place}", kind) for place, value in enumerate(values))
    return next((problem for problem in found if problem is not None), None)


def unfit(text: str) -> bool:
    """Whether a database would refuse a text: it holds a zero character, or half a character."""
    if "\0" in text:
        return True
    try:
        text.encode()
    except UnicodeEncodeError:
        return True
    return False


def pack(kind: Kind, items: Sequence[Stored]) -> bytes:
    """Lay the ids of a list out in one value."""
    if kind == "hashed":
        return np.array(items, dtype="<i8").tobytes()
    return json.dumps(items, ensure_ascii=False, separators=(",", ":")).encode()


def unpack(kind: Kind, packed: bytes) -> list[Stored]:
    """Read what `pack` wrote.

    >>> unpack("plain", pack("plain", ["a", "b"]))
    ['a', 'b']
    """
    if kind == "hashed":
        hashes: list[Stored] = np.frombuffer(packed, dtype="<i8").tolist()
        return hashes
    texts: list[Stored] = json.loads(packed)
    return texts


def digest(packed: bytes) -> int:
    """Name a list by its items."""
    return int.from_bytes(hashlib.blake2b(packed, digest_size=8).digest(), "little", signed=True)


def given_secret(secret: str | bytes | None) -> bytes | None:
    """Return the secret that was given, here or in the environment."""
    found = os.environ.get(ENVIRONMENT) if secret is None else secret
    if found is None:
        return None
    raw = found.encode() if isinstance(found, str) else found
    if len(raw) < _SHORTEST:
        raise SettingsError(
            f"the feedback secret has {len(raw)} bytes; expected {_SHORTEST} or more, drawn at random",
            hint="python -c 'import secrets; print(secrets.token_hex())' makes one",
        )
    return raw


def secret_beside(path: Path, *, make: bool = True) -> bytes:
    """Return the secret in the file beside a store; the first process that asks makes it, for a new store."""
    held = path.with_name(f"{path.name}.secret")
    if not make and not held.exists():
        raise StoreError(
            f"{held} is not there: without it labels would not find their lists",
            hint=f"put it back, or set {ENVIRONMENT} to the secret that the store was made with",
        )
    try:
        if not held.exists():
            aside = held.with_name(f".{held.name}.{os.getpid()}")
            handle = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            try:
                os.write(handle, f"{secrets.token_hex(32)}\n".encode())
                os.fsync(handle)
            finally:
                os.close(handle)
            with suppress(FileExistsError):  # another worker was first: theirs counts
                os.link(aside, held)
            aside.unlink()
        found = held.read_bytes().strip()
    except OSError as error:
        raise StoreError(f"cannot use {held}: {error.strerror or error}") from None
    if len(found) < _SHORTEST:
        raise StoreError(f"{held} holds no secret", hint="put back the file that was made with the store")
    return found
