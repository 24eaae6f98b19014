"""The counting function: Arrow record batches in, counts out. There is no second definition.

Every value is checked before it is counted; once a problem is found nothing more is counted, and
the rest of the log is read on so that all problems are reported together.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import numpy.typing as npt

from evenodds.errors import LogError, TallyError
from evenodds.grid import Grid
from evenodds.keys import fold_of
from evenodds.log import Roles

if TYPE_CHECKING:
    import pyarrow as pa

Codes = npt.NDArray[np.int64]
Counts = npt.NDArray[Any]  # whole numbers, or floats where rows carry weights

FOLDS = 20
COARSE_CELLS = 200
_MAX_BYTES = 8 << 30
_HELD_ROWS = 1 << 20


@dataclass
class Counted:
    """What was counted; axes as in :class:`evenodds.tally.Tally`, groups in order of appearance."""

    groups: list[tuple[str, ...]]
    counts: Counts
    squares: Counts
    folds: Counts | None
    swaps: Counts | None
    score_range: tuple[float, float]
    rows: int


@dataclass
class Problems:
    """Problems by kind: how many rows, and the first one; `place` says where rows are numbered."""

    found: dict[str, tuple[int, str]] = field(default_factory=dict)
    place: str = ""

    def add(
        self,
        what: str,
        where: npt.NDArray[np.bool_],
        row: Codes,
        values: npt.NDArray[np.generic] | None = None,
    ) -> None:
        """Record the rows of a batch at which `where` holds; `row` numbers them within the log."""
        hits = np.flatnonzero(where)
        if hits.size == 0:
            return
        known, example = self.found.get(what, (0, ""))
        if not example:
            shown = "" if values is None else f"{values[hits[0]]} "
            example = f"first: {shown}at row {row[hits[0]]}{self.place}"
        self.found[what] = (known + hits.size, example)

    def check(self) -> None:
        """Raise everything that was found."""
        if self.found:
            raise LogError(
                f"{what} in {count} row{'s' if count != 1 else ''} ({example})"
                for what, (count, example) in self.found.items()
            )


class Counter:
    """Counts record batches into cells ``[group, label, position, score cell]``.

    A key packs the four numbers, `numpy.bincount` counts keys. Rows are held until there are about
    as many as cells, so that adding up the counts never costs more than counting.
    """

    def __init__(
        self, roles: Roles, grid: Grid, depth: int, first_position: int | None = None, *, place: str = ""
    ) -> None:
        self.roles = roles
        self.grid = grid
        self.depth = depth
        self.first_position = first_position
        self.problems = Problems(place=place)
        self._labels = roles.outcomes + 1
        self.rows = 0
        self._coarse = grid.coarse(COARSE_CELLS)
        self._coarse_cells = int(self._coarse[-1]) + 1
        self._names: dict[tuple[str, ...], int] = {}
        self._positions = 1 if roles.position is None else min(64, depth + 2)
        self._weighted = roles.weight is not None
        self._low, self._high = np.inf, -np.inf
        self._held: list[
            tuple[npt.NDArray[np.int32], npt.NDArray[np.int32], Codes | None, npt.NDArray[np.float64] | None]
        ] = []
        self._held_rows = 0
        kind = np.float64 if self._weighted else np.int64
        self._counts: Counts = np.zeros((0, self._positions, grid.cells), kind)
        self._squares: Counts = np.zeros((0, self._positions), kind)
        self._folds: Counts = np.zeros((0, self._positions, FOLDS, self._coarse_cells), kind)
        self._swaps: Counts | None = None
        if roles.swap is not None:
            self._swaps = np.zeros((FOLDS, depth + 2, 2, self._labels), kind)

    def add(self, batch: pa.RecordBatch) -> None:
        """Check a batch and count it."""
        rows = batch.num_rows
        if rows == 0:
            return
        row = np.arange(self.rows, self.rows + rows)
        self.rows += rows
        whole = np.ones(rows, dtype=bool)
        for name in self.roles.counted():
            if name != self.roles.swap and batch.column(name).null_count:
                nulls = batch.column(name).is_null().to_numpy(zero_copy_only=False)
                self.problems.add(f"null in column {name!r}", nulls, row)
                whole &= ~nulls
        if not whole.all():  # the other rows may hold problems of other kinds
            batch, row = batch.filter(whole), row[whole]
        if batch.num_rows == 0:
            return
        score = _numbers(batch.column(self.roles.score)).astype(np.float64, copy=False)
        low, high = float(score.min()), float(score.max())
        if not (np.isfinite(low) and np.isfinite(high)):  # NaN travels through min and max
            self.problems.add(
                f"NaN or infinite score in column {self.roles.score!r}", ~np.isfinite(score), row, score
            )
        label = self._label(batch, row)
        position = self._position(batch, row)
        weight = self._weight(batch, row)
        swap = self._swap(batch, position, row)
        if self.problems.found:
            return
        self._low, self._high = min(self._low, low), max(self._high, high)
        base = self._group_codes(batch, row)
        base *= self._labels
        base += label
        if position is not None:
            self._make_room(int(position.max()) + 1)
            base *= self._positions
            base += position
        query = None if self.roles.query is None else _folds(batch.column(self.roles.query))
        if self._swaps is not None and swap is not None and position is not None:
            self._count_swaps(swap, position, label, query, weight)
        self._held.append((base, self.grid.locate(score), query, weight))
        self._held_rows += rows
        if self._held_rows >= max(_HELD_ROWS, self._counts.size // 2):
            self._flush()

    def finish(self) -> Counted:
        """Return the counts, or raise every problem that was found."""
        self.problems.check()
        if self.rows == 0:
            raise LogError(["the log is empty: no rows"])
        self._flush()
        groups = list(self._names)
        shape = (len(groups), self._labels, self._positions)
        return Counted(
            groups=groups,
            counts=self._counts.reshape(*shape, self.grid.cells),
            squares=self._squares.reshape(shape),
            folds=None
            if self.roles.query is None
            else self._folds.reshape(*shape, FOLDS, self._coarse_cells),
            swaps=self._swaps,
            score_range=(self._low, self._high),
            rows=self.rows,
        )

    def _group_codes(self, batch: pa.RecordBatch, row: Codes) -> npt.NDArray[np.int32]:
        columns = [_dictionary(batch.column(name)) for name in self.roles.group]
        packed = columns[0][0].astype(np.int64)
        for codes, values in columns[1:]:
            packed = packed * len(values) + codes
        sizes = [len(values) for _, values in columns]
        lookup = np.zeros(int(np.prod(sizes)), dtype=np.int32)
        for present in np.flatnonzero(np.bincount(packed, minlength=lookup.size)):
            places = np.unravel_index(present, sizes)
            name = tuple(values[int(place)] for (_, values), place in zip(columns, places, strict=True))
            if None in name or "" in name:  # CSV has no other null; a dictionary may hold null as a value
                column = self.roles.group[name.index(None if None in name else "")]
                self.problems.add(f"null or empty text in column {column!r}", packed == present, row)
                continue
            lookup[present] = self._names.setdefault(name, len(self._names))
        self._make_room(self._positions)
        return lookup[packed]

    def _label(self, batch: pa.RecordBatch, row: Codes) -> npt.NDArray[np.int32]:
        label = _numbers(batch.column(self.roles.label))
        if label.dtype != np.bool_ and not (
            label.min() >= 0
            and label.max() < self._labels
            and (label.dtype.kind in "iu" or not np.any(label % 1))
        ):
            self.problems.add(
                f"label outside {self._expected_labels()} in column {self.roles.label!r}",
                ~np.isin(label, range(self._labels)),
                row,
                label,
            )
            return np.zeros(batch.num_rows, np.int32)
        return label.astype(np.int32)

    def _expected_labels(self) -> str:
        return "{0, 1}" if self._labels == 2 else f"0..{self._labels - 1}"

    def _position(self, batch: pa.RecordBatch, row: Codes) -> npt.NDArray[np.int32] | None:
        if self.roles.position is None:
            return None
        position = _numbers(batch.column(self.roles.position))
        name = self.roles.position
        if position.dtype.kind == "f":
            with np.errstate(invalid="ignore"):  # infinity has no remainder
                whole = position % 1 == 0
            self.problems.add(f"position not a whole number in column {name!r}", ~whole, row, position)
        first = self.first_position or 0
        if position.min() < first:
            expected = (
                f"expected {first} or more"
                if self.first_position is not None
                else "positions start at 0 or 1"
            )
            self.problems.add(
                f"position below the first in column {name!r}, {expected},",
                position < first,
                row,
                position,
            )
        if self.problems.found:
            return None
        # Positions past the depth share the last slot; a narrow type may not reach so far.
        last = self.depth + 1
        if position.dtype.kind == "f" or last <= np.iinfo(position.dtype).max:
            position = np.minimum(position, last)
        return position.astype(np.int32)

    def _weight(self, batch: pa.RecordBatch, row: Codes) -> npt.NDArray[np.float64] | None:
        if self.roles.weight is None:
            return None
        weight = _numbers(batch.column(self.roles.weight)).astype(np.float64, copy=False)
        wrong = ~((weight >= 0) & (weight < np.inf))
        self.problems.add(f"negative or infinite weight in column {self.roles.weight!r}", wrong, row, weight)
        return weight

    def _swap(
        self, batch: pa.RecordBatch, position: npt.NDArray[np.int32] | None, row: Codes
    ) -> npt.NDArray[np.int64] | None:
        if self.roles.swap is None or position is None:
            return None
        column = batch.column(self.roles.swap)
        upper = np.where(
            column.is_null().to_numpy(zero_copy_only=False), -1, _numbers(column.fill_null(-1))
        ).astype(np.int64)
        wrong = (upper >= 0) & (upper <= self.depth) & (position != upper) & (position != upper + 1)
        self.problems.add(
            f"position neither the pair's upper one nor the next in column {self.roles.swap!r}",
            wrong,
            row,
            upper,
        )
        return upper

    def _count_swaps(
        self,
        upper: Codes,
        position: npt.NDArray[np.int32],
        label: npt.NDArray[np.int32],
        fold: Codes | None,
        weight: npt.NDArray[np.float64] | None,
    ) -> None:
        used = (upper >= 0) & (upper < self.depth)
        fold = np.zeros_like(upper) if fold is None else fold
        key: npt.NDArray[Any] = (
            (fold * (self.depth + 2) + upper) * 2 + (position - upper)
        ) * self._labels + label
        swaps = cast("Counts", self._swaps)
        swaps += _count(key[used], None if weight is None else weight[used], swaps.size).reshape(swaps.shape)

    def _make_room(self, positions: int) -> None:
        """Grow the arrays when a new group or a deeper position comes along."""
        if positions > self._positions:
            self._flush()
            grown = min(max(positions, 2 * self._positions), self.depth + 2)
            self._counts = _padded(self._counts, 1, grown)
            self._squares = _padded(self._squares, 1, grown)
            self._folds = _padded(self._folds, 1, grown)
            self._positions = grown
        wanted = len(self._names) * self._labels
        if wanted > self._counts.shape[0]:
            fold_cells = 0 if self.roles.query is None else self._coarse_cells
            check_size(len(self._names), self._labels, self._positions, self.grid.cells, fold_cells)
            self._counts = _padded(self._counts, 0, wanted)
            self._squares = _padded(self._squares, 0, wanted)
            self._folds = _padded(self._folds, 0, wanted if self.roles.query is not None else 0)

    def _flush(self) -> None:
        if not self._held:
            return
        base = np.concatenate([held[0] for held in self._held]).astype(np.int64)
        cell = np.concatenate([held[1] for held in self._held])
        weight = (
            np.concatenate([cast("npt.NDArray[np.float64]", held[3]) for held in self._held])
            if self._weighted
            else None
        )
        self._counts += _count(base * self.grid.cells + cell, weight, self._counts.size).reshape(
            self._counts.shape
        )
        squared = None if weight is None else weight * weight
        self._squares += _count(base, squared, self._squares.size).reshape(self._squares.shape)
        if self.roles.query is not None:
            base *= FOLDS
            base += np.concatenate([cast("Codes", held[2]) for held in self._held])
            base *= self._coarse_cells
            base += self._coarse[cell]
            self._folds += _count(base, weight, self._folds.size).reshape(self._folds.shape)
        self._held.clear()
        self._held_rows = 0


def check_size(groups: int, labels: int, positions: int, cells: int, fold_cells: int = 0) -> None:
    """Refuse counts that would not fit into memory."""
    size = groups * labels * positions * (cells + FOLDS * fold_cells) * 8
    if size > _MAX_BYTES:
        raise TallyError(
            f"{groups} groups x {positions} positions x {cells} cells need {size / 2**30:.0f} GiB of counts",
            hint="fewer cells, a smaller depth, or fewer groups; is the group column the right one?",
        )


def _count(keys: Codes, weight: npt.NDArray[np.float64] | None, size: int) -> Counts:
    return np.bincount(keys, weights=weight, minlength=size)


def _padded(array: Counts, axis: int, size: int) -> Counts:
    widths = [(0, 0)] * array.ndim
    widths[axis] = (0, max(0, size - array.shape[axis]))
    return np.pad(array, widths) if widths[axis][1] else array


def _numbers(column: pa.Array) -> npt.NDArray[Any]:
    import pyarrow as pa

    if isinstance(column, pa.DictionaryArray):
        column = column.dictionary_decode()
    return column.to_numpy(zero_copy_only=False)


def _dictionary(column: pa.Array) -> tuple[npt.NDArray[np.int32], list[Any]]:
    """Return codes and the names they stand for."""
    import pyarrow as pa

    if pa.types.is_boolean(column.type):
        column = column.cast(pa.string())
    if not isinstance(column, pa.DictionaryArray):
        column = column.dictionary_encode()
    codes = cast("npt.NDArray[np.int32]", column.indices.to_numpy(zero_copy_only=False))
    return codes, column.dictionary.cast(pa.string()).to_pylist()


def _folds(column: pa.Array) -> Codes:
    """Hash query ids: whole numbers as they are, each text once."""
    import pyarrow as pa

    if pa.types.is_integer(column.type):
        return fold_of(column.to_numpy(zero_copy_only=False), FOLDS)
    codes, texts = _dictionary(column)
    return fold_of(texts, FOLDS)[codes]
