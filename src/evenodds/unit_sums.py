"""Sums by unit and group of an experiment's log, read in one pass.

Rows are held until there are about as many as sums are known, then sorted by unit and added up, so
that memory grows with the number of units and not with the log.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from evenodds.errors import LogError
from evenodds.groups import Group, group_name
from evenodds.keys import key_words
from evenodds.log import Log
from evenodds.sources import Source

if TYPE_CHECKING:
    import pyarrow as pa

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Hashes = npt.NDArray[np.uint64]

_HELD_ROWS = 1 << 20
_MIX = (np.uint64(0x9E3779B97F4A7C15), np.uint64(0xBF58476D1CE4E5B9))


@dataclass(frozen=True, eq=False)
class Sums:
    """What is known of each unit.

    Attributes
    ----------
    unit_arm
        The arm's number, by unit.
    impressions, totals
        Rows by unit and group; sums of the metrics by unit, group and metric.
    crossed, crossed_row
        How many units have rows in more than one arm, and the first row of one of them.
    """

    arms: tuple[str, ...]
    groups: tuple[str, ...]
    unit_arm: Ints
    impressions: Floats
    totals: Floats
    rows: int
    units: int
    crossed: int
    crossed_row: int

    @property
    def one_group_each(self) -> bool:
        """Whether no unit has rows of two groups."""
        return bool(((self.impressions > 0).sum(axis=1) <= 1).all())


@dataclass(frozen=True, eq=False)
class _Part:
    """Sums of some rows by unit and code, a code standing for an arm and a group."""

    unit: Hashes
    code: npt.NDArray[np.int32]
    row: Ints  # the first one
    sums: Floats  # rows, then metrics

    def summed(self, *, in_order: bool = False) -> _Part:
        """Add up what belongs together, if asked in the order of units.

        Sorting by one mixed key is several times as fast. Should two units share a key, some of their
        sums stay in parts until the sort by units.
        """
        if in_order:
            order = np.lexsort((self.code, self.unit))
        else:
            order = np.argsort(self.unit * _MIX[0] + self.code.astype(np.uint64) * _MIX[1])
        unit, code = self.unit[order], self.code[order]
        starts = np.flatnonzero(np.concatenate(([True], (unit[1:] != unit[:-1]) | (code[1:] != code[:-1]))))
        return _Part(
            unit[starts],
            code[starts],
            np.minimum.reduceat(self.row[order], starts),
            np.add.reduceat(self.sums[order], starts, axis=0),
        )


@dataclass(eq=False)
class _Reader:
    """Adds batches up."""

    held: list[_Part] = field(default_factory=list)
    held_rows: int = 0
    known: int = 0
    rows: int = 0

    def add(self, unit: Hashes, code: npt.NDArray[np.int32], values: list[Floats]) -> None:
        row = np.arange(self.rows, self.rows + unit.size)
        self.rows += unit.size
        self.held.append(_Part(unit, code, row, np.stack((np.ones(unit.size), *values), axis=1)))
        self.held_rows += unit.size
        if self.held_rows > max(_HELD_ROWS, 2 * self.known):
            self.merge()

    def merge(self, *, in_order: bool = False) -> _Part:
        parts = [(part.unit, part.code, part.row, part.sums) for part in self.held]
        found = _Part(*map(np.concatenate, zip(*parts, strict=True))).summed(in_order=in_order)
        self.held, self.held_rows, self.known = [found], 0, found.unit.size
        return found


def read_sums(
    source: Source | Log,
    arm: str,
    unit: str,
    groups: Sequence[str],
    metrics: Sequence[str],
    several: set[str],
    progress: Callable[[int], None] | None = None,
) -> Sums:
    """Read the log once; of metrics in `several` any value above 0 counts as 1."""
    reader = _Reader()
    numbers: dict[Group, int] = {}
    for batch in source.batches(list(dict.fromkeys([unit, arm, *groups, *metrics]))):
        if batch.num_rows == 0:
            continue
        hashes = _hashes(_named(batch, unit, reader.rows))
        code = _codes([_named(batch, name, reader.rows) for name in (arm, *groups)], numbers)
        values = [_values(batch, name, reader.rows, name in several) for name in metrics]
        reader.add(hashes, code, values)
        if progress is not None:
            progress(batch.num_rows)
    if reader.rows == 0:
        raise LogError(["the log is empty: no rows"])
    return _laid_out(reader.merge(in_order=True), list(numbers), reader.rows)


def _named(batch: pa.RecordBatch, name: str, first: int) -> pa.Array:
    """Return a column of whole numbers, or of text in codes; null and empty text are refused."""
    import pyarrow as pa

    column = batch.column(name)
    if pa.types.is_floating(column.type):
        raise LogError([f"column {name!r} has type {column.type}; expected text or whole numbers"])
    empty = column.is_null().to_numpy(zero_copy_only=False) if column.null_count else None
    if not pa.types.is_integer(column.type):
        if pa.types.is_boolean(column.type):
            column = column.cast(pa.string())
        column = column.dictionary_encode()
        void = [place for place, text in enumerate(column.dictionary.to_pylist()) if text in {None, ""}]
        if void:  # CSV has no other null; a dictionary may hold null as a value
            places = column.indices.fill_null(void[0]).to_numpy(zero_copy_only=False)
            empty = np.isin(places, void)
    if empty is not None and empty.any():
        raise LogError(
            [f"null or empty text in column {name!r}, first at row {first + int(np.argmax(empty))}"],
            hint="every row needs its unit, its arm and its group",
        )
    return column


def _hashes(column: pa.Array) -> Hashes:
    """Return whole numbers as they are, and a 64-bit hash of each text."""
    import pyarrow as pa

    if pa.types.is_integer(column.type):
        whole: Hashes = column.to_numpy(zero_copy_only=False).astype(np.int64).view(np.uint64)
        return whole
    words = key_words([str(text) for text in column.dictionary.to_pylist()])
    return (words[0] | words[1] << np.uint64(32))[column.indices.to_numpy(zero_copy_only=False)]


def _codes(columns: list[pa.Array], numbers: dict[Group, int]) -> npt.NDArray[np.int32]:
    """Give each combination of names a number, in order of appearance."""
    encoded = [column.dictionary_encode() for column in columns]
    names: list[list[Any]] = [[str(name) for name in part.dictionary.to_pylist()] for part in encoded]
    places = [part.indices.to_numpy(zero_copy_only=False) for part in encoded]
    sizes = [len(part) for part in names]
    packed = np.ravel_multi_index(places, sizes)
    present, inverse = np.unique(packed, return_inverse=True)
    found = [
        tuple(part[int(place)] for part, place in zip(names, combination, strict=True))
        for combination in zip(*np.unravel_index(present, sizes), strict=True)
    ]
    return np.array([numbers.setdefault(name, len(numbers)) for name in found], dtype=np.int32)[inverse]


def _values(batch: pa.RecordBatch, name: str, first: int, several: bool) -> Floats:
    import pyarrow as pa

    column = batch.column(name)
    if pa.types.is_boolean(column.type):
        column = column.cast(pa.int8())
    if not pa.types.is_integer(column.type) and not pa.types.is_floating(column.type):
        raise LogError([f"column {name!r} (metric) has type {column.type}; expected numbers or booleans"])
    numbers: Floats = column.cast(pa.float64()).to_numpy(zero_copy_only=False)
    wrong = np.flatnonzero(~np.isfinite(numbers))
    if wrong.size:
        raise LogError(
            [f"null, NaN or infinite value in column {name!r}, first at row {first + int(wrong[0])}"]
        )
    return (numbers > 0).astype(np.float64) if several else numbers


def _laid_out(part: _Part, names: list[Group], rows: int) -> Sums:
    """Lay the sums out as arrays by unit, group and metric; names are sorted."""
    arms = sorted({name[0] for name in names})
    groups = sorted({name[1:] for name in names})
    arm = np.array([arms.index(name[0]) for name in names])[part.code]
    group = np.array([groups.index(name[1:]) for name in names])[part.code]
    new = np.concatenate(([True], part.unit[1:] != part.unit[:-1]))
    unit = np.cumsum(new) - 1  # ascending, as the sums are sorted by unit
    size = int(unit[-1]) + 1
    unit_arm = arm[new]
    wrong = np.flatnonzero(unit_arm[unit] != arm)
    sums = np.zeros((size, len(groups), part.sums.shape[1]))
    np.add.at(sums, (unit, group), part.sums)
    return Sums(
        arms=tuple(arms),
        groups=tuple(map(group_name, groups)),
        unit_arm=unit_arm,
        impressions=sums[:, :, 0],
        totals=sums[:, :, 1:],
        rows=rows,
        units=size,
        crossed=np.unique(unit[wrong]).size,
        crossed_row=int(part.row[wrong].min()) if wrong.size else -1,
    )
