"""The store: opened by whoever serves, written in transactions that can be repeated."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from numbers import Integral
from pathlib import Path

import numpy as np

from evenodds.errors import EvenoddsError, SettingsError
from evenodds.feedback import ids, schema
from evenodds.feedback.database import Database, Row
from evenodds.feedback.events import Event, Fate, Names, ServedList, Status
from evenodds.feedback.ids import Hasher, Kind, Stored
from evenodds.feedback.meta import Meta
from evenodds.feedback.postgres import Postgres, is_url
from evenodds.feedback.sqlite import SQLite, is_sqlite

WAIT = 24 * 3600.0  # seconds that a label waits for its list
MAX_WAITING = 1_000_000
MAX_GROUPS = 10_000  # names of groups; a column of ids by mistake must not fill the store
MAX_POSITION = 2**31 - 1
NO_GROUP = -1
_TRIES = 3
_DEFAULTS = {"group_columns": '["group"]', "outcomes": "1", "first_position": "1"}


def connect(target: str | Path, *, write: bool) -> Database:
    """Open a SQLite file, or the PostgreSQL database of a URL."""
    if is_url(target):
        return Postgres(str(target), write=write)
    return SQLite(target, write=write)


def is_store(target: object) -> bool:
    """Whether this names a store, a URL of PostgreSQL or a SQLite file, or a list with one among others."""
    if isinstance(target, list | tuple):
        return any(map(is_store, target))
    return is_url(target) or (isinstance(target, str | Path) and is_sqlite(str(target)))


class Store:
    """A feedback store, open for writing by one thread.

    Parameters
    ----------
    target
        A file (SQLite), made if it is not there, or a URL like ``postgresql://host/database``.
    group_columns, outcomes, first_position
        What the model that serves was fitted on: settled when the store is made (by default one column
        `group`, one outcome, positions from 1), compared afterwards where they are given.
    kind
        "hashed" (default) or "plain" ids; settled when the store is made.
    secret
        For hashed ids: at least 16 bytes. None takes the environment's EVENODDS_FEEDBACK_SECRET, and without
        it, for SQLite, the file beside the store, which is made with it.

    Examples
    --------
    >>> import tempfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> store = Store(f"{folder.name}/feedback.db", group_columns=["gender"])
    >>> shown = ServedList("request 1", ["a", "b"], [0.9, 0.2], [("F",), ("M",)])
    >>> store.record([shown], [Event("request 1", "b", 1), Event("request 1", "b", 1), Event("no", "b", 1)])
    [<Fate.COUNTED: 'counted'>, <Fate.REPEATED: 'repeated'>, <Fate.WAITING: 'waiting'>]
    >>> store.status(settle=0).labels
    {1: 1}
    >>> store.close(); folder.cleanup()
    """

    def __init__(
        self,
        target: str | Path,
        *,
        group_columns: Sequence[str] | None = None,
        outcomes: int | None = None,
        first_position: int | None = None,
        kind: Kind | None = None,
        secret: str | bytes | None = None,
    ) -> None:
        if kind not in {None, "hashed", "plain"}:
            raise SettingsError(f"ids can be hashed or plain, not {kind!r}")
        self._database = connect(target, write=True)
        self.name = self._database.name
        try:
            self._open(target, kind, secret)
            self.bind(group_columns, outcomes, first_position)
            self._waiting = int(self._database.execute(schema.COUNT_WAITING)[0][0])
        except EvenoddsError:
            self._database.close()
            raise

    def _open(self, target: str | Path, kind: Kind | None, secret: str | bytes | None) -> None:
        database = self._database
        self._names: dict[tuple[str, str], int] = {}
        self._numbers: dict[Names, int] = {}
        found = Meta.read(database) if database.has_tables() else None
        if found is not None and kind not in {None, found.kind}:
            raise SettingsError(f"{self.name} holds {found.kind} ids; that is settled when a store is made")
        settled: Kind = found.kind if found is not None else (kind or "hashed")
        database.kind = settled
        self.hasher = Hasher(
            settled, b"" if settled == "plain" else self._secret(target, secret, new=found is None)
        )
        if found is None:
            with database.writing():
                database.create()
                for name, value in {
                    "version": str(schema.VERSION),
                    "ids": settled,
                    "secret": self.hasher.fingerprint,
                }.items():
                    database.execute(schema.PUT_META, (name, value))
            found = Meta.read(database)  # of several processes that make it, one was first
        if found.kind != settled:
            raise SettingsError(f"{self.name} holds {found.kind} ids; that is settled when a store is made")
        if found.fingerprint != self.hasher.fingerprint:
            raise SettingsError(
                f"the ids in {self.name} were hashed with another secret: labels would not find their lists",
                hint=f"give the same {ids.ENVIRONMENT} to all servers, or the file NAME.secret beside a copy",
            )
        self.meta = found

    def _secret(self, target: str | Path, secret: str | bytes | None, *, new: bool) -> bytes:
        given = ids.given_secret(secret)
        if given is not None:
            return given
        if is_url(target):
            raise SettingsError(
                f"{self.name} is for several servers, which must hash ids alike: {ids.ENVIRONMENT} is not set",
                hint="set it to 32 random characters, the same on all servers, or store plain ids",
            )
        return ids.secret_beside(Path(target), make=new)

    def bind(
        self, group_columns: Sequence[str] | None, outcomes: int | None, first_position: int | None
    ) -> None:
        """Settle what is not settled yet, and compare the rest: rows of two kinds do not mix."""
        given = {
            "group_columns": None
            if group_columns is None
            else json.dumps(list(group_columns), ensure_ascii=False),
            "outcomes": None if outcomes is None else str(outcomes),
            "first_position": None if first_position is None else str(first_position),
        }
        missing = {name: given[name] or _DEFAULTS[name] for name in given if name not in self.meta.raw}
        if missing:
            with self._database.writing():
                for name, value in missing.items():
                    self._database.execute(schema.PUT_META, (name, value))
            self.meta = Meta.read(self._database)
        for name, wanted in given.items():
            if wanted is not None and self.meta.raw[name] != wanted:
                raise SettingsError(
                    f"{self.name} was made for {name} {self.meta.raw[name]}, and the model has {wanted}",
                    hint="take another store for this model",
                )

    def problems(self, event: Event) -> str | None:
        """Say what is wrong with an event, if anything."""
        found = ids.problem_of(event.key, "key", self.meta.kind) or ids.problem_of(
            event.item, "item", self.meta.kind
        )
        if found is not None:
            return found
        if not _whole(event.label) or not 0 <= event.label <= self.meta.outcomes:
            expected = "0 or 1" if self.meta.outcomes == 1 else f"0 to {self.meta.outcomes}"
            return f"label {event.label!r:.40}; expected {expected}"
        first = self.meta.first_position
        if event.position is not None and (
            not _whole(event.position)
            or isinstance(event.position, bool)
            or not first <= event.position <= MAX_POSITION
        ):
            return f"position {event.position!r:.40}; expected a whole number from {first} on, or none"
        return None

    def unfit(self, shown: ServedList) -> str | None:
        """Say why a list cannot be recorded, if it cannot; in microseconds, since requests wait for it."""
        size = len(shown.items)
        if not len(shown.scores) == len(shown.groups) == size:
            return f"{size} items, {len(shown.scores)} scores and {len(shown.groups)} groups; expected as many of each"
        found = ids.problem_of(shown.key, "key", self.meta.kind) or ids.problem_of_all(
            shown.items, self.meta.kind
        )
        if found is not None:
            return found
        try:
            finite = np.isfinite(np.asarray(shown.scores, dtype=np.float64)).all()
        except (TypeError, ValueError):
            return "scores are not all numbers"
        if not finite:
            return "a score is NaN or infinite"
        wide = len(self.meta.group_columns)
        if set(map(len, shown.groups)) - {wide}:
            return f"a group does not have {wide} names, one for each of {', '.join(self.meta.group_columns)}"
        return None

    def check(self, shown: Sequence[ServedList], events: Sequence[Event]) -> None:
        """Refuse what cannot be stored."""
        for problem in (*map(self.unfit, shown), *map(self.problems, events)):
            if problem is not None:
                raise SettingsError(problem, hint="nothing was stored")

    def record(self, shown: Sequence[ServedList], events: Sequence[Event]) -> list[Fate]:
        """Write lists and labels in one transaction; when it returns, they are safe.

        Both may be repeated whole, for instance after an error: what is known already changes nothing.
        """
        self.check(shown, events)
        return self.write(shown, events)

    def write(self, shown: Sequence[ServedList], events: Sequence[Event]) -> list[Fate]:
        """Do the same for what has been checked already."""
        now = int(time.time() * 1000)
        lists = [(served, *self._packed(served)) for served in shown]
        pairs = [
            (self.hasher.key(event.key), stored)
            for event, stored in zip(events, self.hasher.items([e.item for e in events]), strict=True)
        ]
        for attempt in range(_TRIES):
            try:
                return self._write(lists, events, pairs, now)
            except EvenoddsError:
                self._names.clear()
                self._numbers.clear()  # numbers of names that were rolled back mean nothing
                if not self._database.again or attempt == _TRIES - 1:
                    raise
        raise AssertionError  # the loop returns or raises

    def _packed(self, shown: ServedList) -> tuple[Stored, bytes, bytes]:
        return (
            self.hasher.key(shown.key),
            self.hasher.packed(shown.items),
            np.asarray(shown.scores, dtype="<f8").tobytes(),
        )

    def _write(
        self,
        lists: Sequence[tuple[ServedList, Stored, bytes, bytes]],
        events: Sequence[Event],
        pairs: Sequence[tuple[Stored, Stored]],
        now: int,
    ) -> list[Fate]:
        with self._database.writing():
            if lists:
                rows: dict[tuple[Stored, int], Row] = {}
                for shown, key, items, scores in lists:
                    part = ids.digest(items)
                    served = now if shown.served is None else int(shown.served * 1000)
                    model = self._number("model", json.dumps([shown.model, shown.arm]))
                    row = (key, part, served, model, items, scores, self._codes(shown.groups))
                    rows.setdefault((key, part), row)
                self._database.put_lists(list(rows.values()))
            fates, waiting = self._merge(events, pairs, now)
        self._waiting += waiting
        return fates

    def _merge(
        self, events: Sequence[Event], pairs: Sequence[tuple[Stored, Stored]], now: int
    ) -> tuple[list[Fate], int]:
        if not events:
            return [], 0
        known = self._known(pairs)
        room = MAX_WAITING - self._waiting
        merged: dict[tuple[Stored, Stored], tuple[int, int | None]] = {}
        fates: list[Fate] = []
        waiting: set[tuple[Stored, Stored]] = set()
        for event, pair in zip(events, pairs, strict=True):
            label, position = int(event.label), None if event.position is None else int(event.position)
            if pair in merged:
                before = merged[pair]
                merged[pair] = (max(before[0], label), _nearer(before[1], position))
                news = merged[pair] != before
                fates.append(Fate.WAITING if pair in waiting else Fate.COUNTED if news else Fate.REPEATED)
                continue
            if pair not in known:
                if len(waiting) >= room:
                    fates.append(Fate.REFUSED)
                    continue
                waiting.add(pair)
            merged[pair] = (label, position)
            fates.append(Fate.WAITING if pair in waiting else Fate.COUNTED)
        rows = [(*pair, *merged[pair], now, int(pair in waiting)) for pair in sorted(merged)]
        changed = self._database.merge_labels(rows)
        return [
            Fate.REPEATED if fate is Fate.COUNTED and pair not in changed else fate
            for fate, pair in zip(fates, pairs, strict=True)
        ], len(waiting & changed)

    def _known(self, pairs: Sequence[tuple[Stored, Stored]]) -> set[tuple[Stored, Stored]]:
        """Return the pairs that have been served."""
        wanted: dict[Stored, set[Stored]] = {}
        for key, item in pairs:
            wanted.setdefault(key, set()).add(item)
        return {
            (key, item)
            for key, packed in self._database.items_of(list(wanted))
            for item in wanted[key].intersection(ids.unpack(self.hasher.kind, packed))
        }

    def _codes(self, groups: Sequence[Names]) -> bytes:
        known = self._numbers
        try:
            numbers = [known[names] for names in groups]
        except KeyError:
            numbers = [self._group(names) for names in groups]
        return np.array(numbers, dtype="<i4").tobytes()

    def _group(self, names: Names) -> int:
        """Return the number of a group, making one for a new group."""
        known = self._numbers.get(names)
        if known is not None:
            return known
        if any(name is None or not name or len(name) > ids.MAX_LENGTH or ids.unfit(name) for name in names):
            return NO_GROUP
        number = self._number("group", json.dumps(names, ensure_ascii=False))
        if number != NO_GROUP:
            self._numbers[names] = number
        return number

    def _number(self, kind: str, name: str) -> int:
        known = self._names
        if (kind, name) not in known:
            if not known:
                known.update({(k, n): number for number, k, n in self._database.execute(schema.GET_NAMES)})
            if (kind, name) not in known:
                if kind == "group" and len(known) >= MAX_GROUPS:
                    return NO_GROUP
                self._database.execute(schema.PUT_NAME, (kind, name))
                known[kind, name] = int(self._database.execute(schema.GET_NAME, (kind, name))[0][0])
        return known[kind, name]

    def tidy(self) -> None:
        """Drop labels that have waited for their list in vain, and count those that still wait."""
        with self._database.writing():
            self._database.execute(schema.STOP_WAITING)
            self._database.execute(schema.DROP_WAITING, (int((time.time() - WAIT) * 1000),))
            self._waiting = int(self._database.execute(schema.COUNT_WAITING)[0][0])

    @property
    def waiting(self) -> int:
        """About how many labels wait for their list."""
        return self._waiting

    def status(self, settle: float = 3600.0) -> Status:
        """Return what the store holds."""
        from evenodds.feedback.rows import status

        with self._database.reading():
            return status(self._database, self.meta, settle)

    def close(self) -> None:
        """Close the database."""
        self._database.close()


def _nearer(one: int | None, other: int | None) -> int | None:
    return other if one is None else one if other is None else min(one, other)


def _whole(value: object) -> bool:
    # True and False are labels, too; NumPy's whole numbers are whole.
    return type(value) is int or isinstance(value, Integral)
