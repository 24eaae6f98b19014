"""Sums by unit and group of an experiment's log, read in one pass."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from evenodds.errors import LogError
from evenodds.log import Log
from evenodds.sources import Source
from evenodds.tally import group_name

if TYPE_CHECKING:
    import pyarrow as pa

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

_HELD_ROWS = 1 << 20
_UNIT, _ARM, _COUNT = "unit", "arm", "rows"


@dataclass(frozen=True, eq=False)
class Sums:
    """What is known of each unit.

    Attributes
    ----------
    unit_arm
        The arm's number, by unit.
    impressions, totals
        Rows by unit and group; sums of the metrics by unit, group and metric.
    crossed, crossed_example
        How many units have rows in more than one arm, and one of them.
    """

    arms: tuple[str, ...]
    groups: tuple[str, ...]
    unit_arm: Ints
    impressions: Floats
    totals: Floats
    rows: int
    units: int
    crossed: int
    crossed_example: str

    @property
    def one_group_each(self) -> bool:
        """Whether no unit has rows of two groups."""
        return bool(((self.impressions > 0).sum(axis=1) <= 1).all())


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
    import pyarrow as pa

    keys = [_UNIT, _ARM, *(f"group {place}" for place in range(len(groups)))]
    sums = [f"metric {place}" for place in range(len(metrics))]
    known: pa.Table | None = None
    held: list[pa.Table] = []
    held_rows = rows = 0
    for batch in source.batches(list(dict.fromkeys([unit, arm, *groups, *metrics]))):
        named = [_named(batch, name, rows) for name in (unit, arm, *groups)]
        values = [_values(batch, name, rows, name in several) for name in metrics]
        ones = pa.array(np.ones(batch.num_rows, np.int64))
        part = pa.table([*named, *values, ones], names=[*keys, *sums, _COUNT])
        held.append(_summed(part, keys, sums))
        held_rows += held[-1].num_rows
        rows += batch.num_rows
        if held_rows > max(_HELD_ROWS, 0 if known is None else known.num_rows):
            known = _merged(known, held, keys, sums)
            held, held_rows = [], 0
        if progress is not None:
            progress(batch.num_rows)
    if rows == 0:
        raise LogError(["the log is empty: no rows"])
    return _laid_out(_merged(known, held, keys, sums), keys, sums, rows)


def _named(batch: pa.RecordBatch, name: str, first: int) -> pa.Array:
    """Return a column as text, or as whole numbers; null and empty text are refused."""
    import pyarrow as pa
    import pyarrow.compute as pc

    column = batch.column(name)
    if isinstance(column, pa.DictionaryArray):
        column = column.dictionary_decode()
    if pa.types.is_floating(column.type):
        raise LogError([f"column {name!r} has type {column.type}; expected text or whole numbers"])
    empty = column.is_null()
    if pa.types.is_integer(column.type):
        column = column.cast(pa.int64(), safe=not pa.types.is_uint64(column.type))
    else:
        column = column.cast(pa.large_string())
        empty = pc.or_kleene(empty, pc.fill_null(pc.equal(column, ""), fill_value=True))
    wrong = np.flatnonzero(empty.to_numpy(zero_copy_only=False))
    if wrong.size:
        raise LogError(
            [f"null or empty text in column {name!r}, first at row {first + int(wrong[0])}"],
            hint="every row needs its unit, its arm and its group",
        )
    return column


def _values(batch: pa.RecordBatch, name: str, first: int, several: bool) -> pa.Array:
    import pyarrow as pa

    column = batch.column(name)
    numeric = pa.types.is_integer(column.type) or pa.types.is_floating(column.type)
    if not numeric and not pa.types.is_boolean(column.type):
        raise LogError([f"column {name!r} (metric) has type {column.type}; expected numbers or booleans"])
    values = column.cast(pa.int8() if pa.types.is_boolean(column.type) else column.type)
    numbers = values.cast(pa.float64()).to_numpy(zero_copy_only=False)
    wrong = np.flatnonzero(~np.isfinite(numbers))
    if wrong.size:
        raise LogError(
            [f"null, NaN or infinite value in column {name!r}, first at row {first + int(wrong[0])}"]
        )
    return pa.array((numbers > 0).astype(np.float64) if several else numbers)


def _summed(table: pa.Table, keys: list[str], sums: list[str]) -> pa.Table:
    # One thread: sums of fractions then come out the same every time.
    found = table.group_by(keys, use_threads=False).aggregate([(name, "sum") for name in (*sums, _COUNT)])
    return found.select([*keys, *(f"{name}_sum" for name in (*sums, _COUNT))]).rename_columns(
        [*keys, *sums, _COUNT]
    )


def _merged(known: pa.Table | None, held: list[pa.Table], keys: list[str], sums: list[str]) -> pa.Table:
    import pyarrow as pa

    parts = held if known is None else [known, *held]
    return _summed(pa.concat_tables(parts), keys, sums)


def _laid_out(table: pa.Table, keys: list[str], sums: list[str], rows: int) -> Sums:
    """Lay the sums out as arrays by unit, group and metric."""
    arm, arms = _numbered(table[_ARM])
    columns = [_numbered(table[name]) for name in keys[2:]]
    sizes = [len(names) for _, names in columns]
    packed = np.ravel_multi_index([codes for codes, _ in columns], sizes)
    present, group = np.unique(packed, return_inverse=True)  # in the order of the names
    places = zip(*np.unravel_index(present, sizes), strict=True)
    groups = [
        tuple(names[int(code)] for (_, names), code in zip(columns, place, strict=True)) for place in places
    ]
    units = table[_UNIT].combine_chunks().dictionary_encode()
    unit = units.indices.to_numpy(zero_copy_only=False).astype(np.int64)
    size = len(units.dictionary)
    impressions = np.zeros((size, len(groups)))
    np.add.at(impressions, (unit, group), table[_COUNT].to_numpy())
    totals = np.zeros((size, len(groups), len(sums)))
    for place, name in enumerate(sums):
        np.add.at(totals[:, :, place], (unit, group), table[name].to_numpy())
    unit_arm = np.zeros(size, np.int64)
    unit_arm[unit] = arm
    wrong = np.unique(unit[unit_arm[unit] != arm])
    example = str(units.dictionary[int(wrong[0])]) if wrong.size else ""
    return Sums(
        arms=tuple(arms),
        groups=tuple(map(group_name, groups)),
        unit_arm=unit_arm,
        impressions=impressions,
        totals=totals,
        rows=rows,
        units=size,
        crossed=int(wrong.size),
        crossed_example=example,
    )


def _numbered(column: pa.ChunkedArray) -> tuple[Ints, list[str]]:
    """Return codes of a column's values in the order of their names, and the names."""
    encoded = column.combine_chunks().dictionary_encode()
    found: list[Any] = encoded.dictionary.to_pylist()
    names = [str(value) for value in found]
    order = sorted(range(len(names)), key=lambda place: names[place])
    code = np.empty(len(names), np.int64)
    code[order] = np.arange(len(names))
    return code[encoded.indices.to_numpy(zero_copy_only=False)], [names[place] for place in order]
