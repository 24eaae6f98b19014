"""Partial tallies: what one task of a distributed engine has counted, as a few rows of compressed bytes.

A task counts its record batches with the one counting function and returns a row for each group, plus a
row of facts. Rows of many tasks are merged group by group, on whichever machine, in as many steps as one
likes; the last step lays them out as an engine's result. Problems of the log travel as data too, so that
an error reads the same wherever it was found. Nothing here knows which engine moves the rows.

Counts of whole numbers are exact, in whatever order they are merged. Sums of weights are added up in the
order of the parts' numbers, so that a second run of the same partitions gives the same bits.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

import evenodds.errors as known_errors
from evenodds.engines.arrow import (
    COARSE_CELLS,
    FOLDS,
    Counted,
    Counter,
    Counts,
    Problems,
    check_size,
)
from evenodds.errors import EvenoddsError, LogError
from evenodds.grid import Grid
from evenodds.log import Roles

if TYPE_CHECKING:
    import pyarrow as pa

COLUMNS = ("part", "name", "facts", "body")
MISFIT = '{"misfit": true}'  # facts of a part that must be counted again, from columns as they are
_COUNTS, _SQUARES, _FOLDS, _SWAPS = range(4)
_ROWS = 1 << 16  # rows counted at a time: what they need fits the cache


@dataclass(frozen=True)
class Plan:
    """What to count, and how; the same for all parts of a log."""

    roles: Roles
    grid: Grid
    depth: int
    first_position: int | None = None

    @property
    def shapes(self) -> dict[int, tuple[int, ...]]:
        """The shape of each array of one group, positions laid out down to the depth."""
        labels = self.roles.outcomes + 1
        positions = 1 if self.roles.position is None else self.depth + 2
        coarse = int(self.grid.coarse(COARSE_CELLS)[-1]) + 1
        shapes: dict[int, tuple[int, ...]] = {
            _COUNTS: (labels, positions, self.grid.cells),
            _SQUARES: (labels, positions),
        }
        if self.roles.query is not None:
            shapes[_FOLDS] = (labels, positions, FOLDS, coarse)
        if self.roles.swap is not None:
            shapes[_SWAPS] = (FOLDS, self.depth + 2, 2, labels)
        return shapes


@dataclass(frozen=True)
class Part:
    """One row: counts of one group (`name`), or with no name what holds for all of them (`facts`)."""

    part: int
    name: str | None
    facts: str | None
    body: bytes


def counted_part(batches: Iterable[pa.RecordBatch], plan: Plan, part: int) -> Iterator[Part]:
    """Count the batches of one partition; a partition without rows returns nothing."""
    counter = Counter(plan.roles, plan.grid, plan.depth, plan.first_position, place=f" of partition {part}")
    try:
        for batch in batches:
            for start in range(0, batch.num_rows, _ROWS):
                counter.add(batch.slice(start, _ROWS))
        if counter.rows == 0:
            return
        if counter.problems.found:
            yield _facts(part, counter.rows, None, counter.problems)
            return
        counted = counter.finish()
    except EvenoddsError as error:
        yield failed_part(part, error)
        return
    weighted = plan.roles.weight is not None
    swaps = [] if counted.swaps is None else [(_SWAPS, counted.swaps)]
    yield _facts(part, counted.rows, counted.score_range, None, _packed(swaps, weighted))
    for place, group in enumerate(counted.groups):
        arrays = [(_COUNTS, counted.counts[place]), (_SQUARES, counted.squares[place])]
        if counted.folds is not None:
            arrays.append((_FOLDS, counted.folds[place]))
        yield Part(
            part, json.dumps(group), None, _packed([(n, _deep(a, plan, n)) for n, a in arrays], weighted)
        )


def failed_part(part: int, error: EvenoddsError) -> Part:
    """Return an error as data: it is raised where the parts are put together."""
    problems = list(error.problems) if isinstance(error, LogError) else [error.message]
    said = {"kind": type(error).__name__, "said": problems, "hint": error.hint}
    return Part(part, None, json.dumps({"error": said}), b"")


def merged_parts(parts: Iterable[Part], plan: Plan) -> Iterator[Part]:
    """Add up what belongs together: one row a group, and one of facts."""
    named: dict[str | None, list[Part]] = {}
    for part in parts:
        named.setdefault(part.name, []).append(part)
    for name in sorted(named, key=lambda name: name or ""):
        held = sorted(named.pop(name), key=lambda part: part.part)
        arrays = _added(held, plan)
        body = _packed(sorted(arrays.items()), plan.roles.weight is not None)
        yield Part(held[0].part, name, _merged_facts(held) if name is None else None, body)


def gathered(parts: Iterable[Part], plan: Plan) -> Counted:
    """Lay merged parts out as what an engine returns, or raise what was found wrong with the log."""
    rows = {part.name: part for part in merged_parts(parts, plan)}
    if None not in rows:
        raise LogError(["the log is empty: no rows"])
    head = rows.pop(None)
    facts = json.loads(head.facts or "{}")
    _raise(facts)
    names = sorted(name for name in rows if name is not None)
    used = 1
    for name in names:
        squares = _unpacked(rows[name].body, plan).get(_SQUARES)
        if squares is not None and squares.any():
            used = max(used, int(np.flatnonzero(squares.any(axis=0))[-1]) + 1)
    shapes = plan.shapes
    coarse = shapes[_FOLDS][-1] if _FOLDS in shapes else 0
    check_size(len(names), shapes[_SQUARES][0], used, plan.grid.cells, coarse)
    kind = np.float64 if plan.roles.weight is not None else np.int64

    def empty(number: int) -> Counts:
        labels, _, *rest = shapes[number]
        return np.zeros((len(names), labels, used, *rest), kind)

    whole = {number: empty(number) for number in shapes if number != _SWAPS}
    for place, name in enumerate(names):
        for number, array in _unpacked(rows[name].body, plan).items():
            whole[number][place] = array[:, :used]
    swaps = None
    if plan.roles.swap is not None:
        swaps = _unpacked(head.body, plan).get(_SWAPS, np.zeros(shapes[_SWAPS], kind))
    return Counted(
        groups=[tuple(json.loads(name)) for name in names],
        counts=whole[_COUNTS],
        squares=whole[_SQUARES],
        folds=whole.get(_FOLDS),
        swaps=swaps,
        score_range=(facts["low"], facts["high"]),
        rows=facts["rows"],
    )


def to_batch(parts: Iterable[Part]) -> pa.RecordBatch:
    """Return parts as Arrow rows."""
    import pyarrow as pa

    listed = list(parts)
    kinds = {"part": pa.int32(), "name": pa.string(), "facts": pa.string(), "body": pa.binary()}
    return pa.RecordBatch.from_arrays(
        [pa.array([getattr(part, name) for part in listed], kinds[name]) for name in COLUMNS],
        names=list(COLUMNS),
    )


def from_batches(batches: Iterable[pa.RecordBatch]) -> Iterator[Part]:
    """Return the parts of Arrow rows."""
    for batch in batches:
        for row in batch.to_pylist():
            yield Part(**row)


def _facts(
    part: int,
    rows: int,
    score_range: tuple[float, float] | None,
    problems: Problems | None,
    body: bytes = b"",
) -> Part:
    facts: dict[str, Any] = {"rows": rows, "problems": {} if problems is None else problems.found}
    if score_range is not None:
        facts["low"], facts["high"] = score_range
    return Part(part, None, json.dumps(facts), body)


def _merged_facts(parts: list[Part]) -> str:
    if any(part.facts == MISFIT for part in parts):
        return MISFIT
    whole: dict[str, Any] = {"rows": 0, "problems": {}}
    for part in parts:
        facts = json.loads(part.facts or "{}")
        if "error" in facts:
            whole.setdefault("error", facts["error"])
            continue
        whole["rows"] += facts["rows"]
        for what, (count, example) in facts["problems"].items():
            known, first = whole["problems"].get(what, (0, example))
            whole["problems"][what] = (known + count, first)
        if "low" in facts:
            whole["low"] = min(whole.get("low", facts["low"]), facts["low"])
            whole["high"] = max(whole.get("high", facts["high"]), facts["high"])
    return json.dumps(whole)


def _raise(facts: dict[str, Any]) -> None:
    Problems({what: (count, first) for what, (count, first) in facts.get("problems", {}).items()}).check()
    if "error" in facts:
        error = facts["error"]
        kind = getattr(known_errors, error["kind"])
        said = error["said"] if issubclass(kind, LogError) else error["said"][0]
        raise kind(said, hint=error["hint"])


def _deep(array: Counts, plan: Plan, number: int) -> Counts:
    """Lay a group's array out down to the depth: a task grows its arrays only as far as it must."""
    missing = plan.shapes[number][1] - array.shape[1]
    return np.pad(array, [(0, 0), (0, missing)] + [(0, 0)] * (array.ndim - 2)) if missing else array


def _packed(arrays: Iterable[tuple[int, Counts]], weighted: bool) -> bytes:
    """Keep what is not zero: places as differences, which take a byte or two each once compressed."""
    import pyarrow as pa

    numbers, places, values = [], [], []
    for number, array in arrays:
        flat = array.ravel()
        place = np.flatnonzero(flat)
        numbers.append(np.full(place.size, number, np.int8))
        places.append(np.diff(place, prepend=0))
        values.append(flat[place])
    if not numbers:
        return b""
    kind = np.float64 if weighted else np.int64
    batch = pa.RecordBatch.from_arrays(
        [
            pa.array(np.concatenate(column).astype(kind_of))
            for column, kind_of in ((numbers, np.int8), (places, np.int64), (values, kind))
        ],
        names=["array", "step", "value"],
    )
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema, options=pa.ipc.IpcWriteOptions(compression="zstd")) as writer:
        writer.write_batch(batch)
    return sink.getvalue().to_pybytes()


def _sparse(body: bytes) -> Iterator[tuple[int, Any, Counts]]:
    import pyarrow as pa

    if not body:
        return
    table = pa.ipc.open_stream(body).read_all()
    numbers, steps, values = (table[name].to_numpy() for name in ("array", "step", "value"))
    for number in np.unique(numbers):
        low, high = np.searchsorted(numbers, (number, number + 1))
        yield int(number), np.cumsum(steps[low:high]), values[low:high]


def _added(parts: list[Part], plan: Plan) -> dict[int, Counts]:
    """Add parts of one group up, one after the other: memory holds one group's arrays, laid out."""
    arrays: dict[int, Counts] = {}
    shapes = plan.shapes
    kind = np.float64 if plan.roles.weight is not None else np.int64
    for part in parts:
        for number, places, values in _sparse(part.body):
            if number not in arrays:
                arrays[number] = np.zeros(int(np.prod(shapes[number])), kind)
            arrays[number][places] += values  # no place comes twice within a part
    return {number: array.reshape(shapes[number]) for number, array in arrays.items()}


def _unpacked(body: bytes, plan: Plan) -> dict[int, Counts]:
    return _added([Part(0, None, None, body)], plan)
