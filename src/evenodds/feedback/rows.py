"""A store read as a log: settled lists, joined with their labels, as Arrow record batches.

All passes over one `Rows` see the same state of the store, held by a read transaction, so that a grid and
its counts, or a forecast's two passes, belong together.
"""

from __future__ import annotations

import json
import time
import weakref
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from evenodds.errors import DamagedFileError, LogError, SettingsError, StoreError
from evenodds.feedback import ids, schema
from evenodds.feedback.database import Database, Row
from evenodds.feedback.events import Status
from evenodds.feedback.ids import Stored
from evenodds.feedback.meta import Meta
from evenodds.feedback.store import NO_GROUP, connect

if TYPE_CHECKING:
    import pyarrow as pa

SETTLE = 3600.0
EVER = 2**62
_FETCH = 500  # lists at a time: a batch of some 50,000 rows where lists hold 100
_SERVED_BY = ("model", "arm")
_FIXED = ("query", "item", "position", "score", "label", "served_at", *_SERVED_BY)


class Joined:
    """Lays lists out as rows with their labels, inside a transaction that is open already."""

    def __init__(self, database: Database, meta: Meta) -> None:
        import pyarrow as pa

        self._database, self.meta = database, meta
        self.name = database.name
        # A column that has a name of ours keeps it behind a prefix.
        self.group_columns = tuple(
            f"group_{column}" if column in _FIXED else column for column in meta.group_columns
        )
        numbers = database.execute(schema.GET_NAMES)
        self._models = {number: tuple(json.loads(name)) for number, kind, name in numbers if kind == "model"}
        self._groups = {number: tuple(json.loads(name)) for number, kind, name in numbers if kind == "group"}
        identity = pa.int64() if meta.kind == "hashed" else pa.string()
        text = pa.dictionary(pa.int32(), pa.string())
        self.schema: pa.Schema = pa.schema(
            {
                "query": identity,
                "item": identity,
                **dict.fromkeys(self.group_columns, text),
                "score": pa.float64(),
                "position": pa.int32(),
                "label": pa.int8(),
                "model": text,
                "arm": text,
                "served_at": pa.timestamp("ms", tz="UTC"),
            }
        )

    def batch(self, lists: Sequence[Row], columns: Sequence[str] | None = None) -> pa.RecordBatch:
        """Lay lists out as rows; they are in the order of their keys, and all lists of a key are there."""
        import pyarrow as pa

        try:
            laid = _laid_out(lists, self.meta)
        except (ValueError, TypeError):
            raise DamagedFileError(f"{self.name} is damaged: a list cannot be read") from None
        self._join(lists, laid)
        wanted = list(columns) if columns is not None else self.schema.names
        chosen = np.flatnonzero(laid.first & (laid.codes != NO_GROUP))
        return pa.RecordBatch.from_arrays(
            [self._column(name, laid, chosen) for name in wanted],
            schema=pa.schema([self.schema.field(name) for name in wanted]),
        )

    def _column(self, name: str, laid: _Laid, chosen: npt.NDArray[np.intp]) -> pa.Array:
        import pyarrow as pa

        kind = self.schema.field(name).type
        if name in {"query", "item"}:
            stored = laid.keys if name == "query" else laid.items
            if self.meta.kind == "hashed":
                return pa.array(np.array(stored, dtype=np.int64)[chosen])
            return pa.array([stored[place] for place in chosen.tolist()], kind)
        if name in self.group_columns:
            return self._names(laid.codes[chosen], self._groups, self.group_columns.index(name))
        if name in _SERVED_BY:
            return self._names(laid.models[chosen], self._models, _SERVED_BY.index(name))
        columns: dict[str, npt.NDArray[np.generic]] = {
            "score": laid.scores,
            "position": laid.positions,
            "label": laid.labels,
            "served_at": laid.served,
        }
        return pa.array(columns[name][chosen], kind)

    def _names(
        self, codes: npt.NDArray[np.int64], names: dict[int, tuple[str, ...]], place: int
    ) -> pa.DictionaryArray:
        import pyarrow as pa

        distinct, index = np.unique(codes, return_inverse=True)
        try:
            texts = [names[int(code)][place] for code in distinct]
        except (KeyError, IndexError):
            raise DamagedFileError(f"{self.name} is damaged: a name is missing") from None
        values = sorted(set(texts))  # crossed groups share names of one column
        to_value = np.array([values.index(text) for text in texts], dtype=np.int32)
        return pa.DictionaryArray.from_arrays(
            pa.array(to_value[index.reshape(-1)] if texts else np.empty(0, np.int32)),
            pa.array(values, pa.string()),
        )

    def _join(self, lists: Sequence[Row], laid: _Laid) -> None:
        """Put labels where their items stand."""
        found = self._database.execute(schema.READ_LABELS, (lists[0][0], lists[-1][0]))
        for key, labels in groupby(found, key=itemgetter(0)):
            start, stop = laid.spans.get(key, (0, 0))
            if start == stop:  # it waits for its list, or the list is not settled yet
                continue
            where = {item: start + place for place, item in reversed(list(enumerate(laid.items[start:stop])))}
            for _, item, label, position in labels:
                place = where.get(item)
                if place is not None:
                    laid.labels[place] = label
                    if position is not None:
                        laid.positions[place] = position


class Rows:
    """The rows of a store that are settled now.

    Parameters
    ----------
    target
        A file, or a URL of PostgreSQL.
    settle
        Seconds after which a list counts, an item without feedback as label 0.
    """

    def __init__(self, target: str | Path, settle: float = SETTLE) -> None:
        self.until = cutoff(settle)
        self._database, self.meta = opened(target)
        stack = ExitStack()
        stack.callback(self._database.close)
        self.close = weakref.finalize(self, stack.close)
        stack.enter_context(self._database.reading())
        self.name = self._database.name
        self._joined = Joined(self._database, self.meta)
        self.schema = self._joined.schema
        self.group_columns = self._joined.group_columns
        folded = self._database.execute(schema.GET_FOLDED)
        self.folded: bytes | None = bytes(folded[0][0]) if folded else None

    @property
    def rows(self) -> int:
        """How many settled impressions there are, before those without a group are left out."""
        return int(self._database.execute(schema.COUNT_LISTS, (self.until,))[0][1] or 0)

    @property
    def open_rows(self) -> int:
        """How many impressions are not settled yet."""
        return int(self._database.execute(schema.COUNT_LISTS, (EVER,))[0][1] or 0) - self.rows

    def batches(self, columns: Sequence[str] | None = None) -> Iterator[pa.RecordBatch]:
        """Read the rows by key; within a key in the order in which they were served and shown."""
        held: list[Row] = []
        for fetched in self._database.stream(schema.READ_LISTS, (self.until,), _FETCH):
            lists = [*held, *fetched]
            cut = whole_keys(lists)
            held = lists[cut:]
            if cut:
                yield self._joined.batch(lists[:cut], columns)
        if held:
            yield self._joined.batch(held, columns)


def whole_keys(lists: Sequence[Row]) -> int:
    """Return where the last key begins: its lists may go on in the next block."""
    return next((k for k in range(len(lists) - 1, 0, -1) if lists[k - 1][0] != lists[-1][0]), 0)


class _Laid:
    """Lists laid out, one entry a row."""

    def __init__(self, rows: int) -> None:
        self.keys: list[Stored] = []
        self.items: list[Stored] = []
        self.scores = np.empty(rows)
        self.codes = np.empty(rows, np.int64)
        self.models = np.empty(rows, np.int64)
        self.served = np.empty(rows, np.int64)
        self.positions = np.empty(rows, np.int32)
        self.labels = np.zeros(rows, np.int8)
        self.first = np.ones(rows, bool)  # an item's first appearance under its key
        self.spans: dict[Stored, tuple[int, int]] = {}


def _laid_out(lists: Sequence[Row], meta: Meta) -> _Laid:
    laid = _Laid(sum(len(codes) // 4 for *_, codes in lists))
    start = 0
    for key, served, model, packed, scores, codes in lists:
        items = ids.unpack(meta.kind, packed)
        stop = start + len(items)
        laid.keys += [key] * len(items)
        laid.items += items
        laid.scores[start:stop] = np.frombuffer(scores, "<f8")
        laid.codes[start:stop] = np.frombuffer(codes, "<i4")
        laid.models[start:stop] = model
        laid.served[start:stop] = served
        laid.positions[start:stop] = np.arange(meta.first_position, meta.first_position + len(items))
        from_here = laid.spans.get(key, (start, start))[0]
        laid.spans[key] = (from_here, stop)
        if from_here < start or len(set(items)) < len(items):
            known = set(laid.items[from_here:start])
            for place, item in enumerate(items, start):
                laid.first[place] = item not in known
                known.add(item)
        start = stop
    return laid


def cutoff(settle: float) -> int:
    """Return the moment before which lists are settled, in milliseconds since 1970."""
    if not 0 <= settle < 1e11:
        raise SettingsError(f"settle must be a number of seconds from 0 on, got {settle}")
    return int((time.time() - settle) * 1000)


def opened(target: str | Path) -> tuple[Database, Meta]:
    """Open a store for reading."""
    database = connect(target, write=False)
    with ExitStack() as stack:
        stack.callback(database.close)
        if not database.has_tables():
            raise StoreError(
                f"{database.name} holds no feedback store yet", hint="evenodds serve --feedback makes one"
            )
        meta = Meta.read(database)
        stack.pop_all()
    database.kind = meta.kind
    return database, meta


def status(database: Database, meta: Meta, settle: float) -> Status:
    """Return what a store holds."""
    lists, rows, oldest, newest = database.execute(schema.COUNT_LISTS, (EVER,))[0]
    settled_lists, settled_rows, *_ = database.execute(schema.COUNT_LISTS, (cutoff(settle),))[0]
    names = database.execute(schema.GET_NAMES)
    folded = database.execute(schema.GET_FOLDED)
    return Status(
        name=database.name,
        kind=meta.kind,
        group_columns=meta.group_columns,
        outcomes=meta.outcomes,
        lists=int(lists),
        rows=int(rows or 0),
        settled_lists=int(settled_lists),
        settled_rows=int(settled_rows or 0),
        labels={int(label): int(count) for label, count in database.execute(schema.COUNT_LABELS)},
        waiting=int(database.execute(schema.COUNT_UNLISTED)[0][0]),
        folded_lists=int(folded[0][1]) if folded else 0,
        folded_rows=int(folded[0][2]) if folded else 0,
        oldest=None if oldest is None else oldest / 1000,
        newest=None if newest is None else newest / 1000,
        models=tuple(sorted({json.loads(name)[0] for _, kind, name in names if kind == "model"})),
        groups=tuple(sorted(tuple(json.loads(name)) for _, kind, name in names if kind == "group")),
        bytes=database.size(),
    )


def check_some(rows: Rows) -> None:
    """Refuse a store in which nothing is settled yet."""
    if rows.rows == 0 and rows.folded is None:
        still = rows.open_rows
        rows.close()
        raise LogError(
            [
                f"{rows.name} holds no settled impressions"
                + (f"; {still:,} were served too recently" if still else "")
            ],
            hint="settle=0 (--settle 0) takes all of them; labels that come later count in the next fit",
        )


__all__ = ["EVER", "SETTLE", "Joined", "Rows", "check_some", "cutoff", "opened", "status", "whole_keys"]
