"""Rows that cannot be counted, told from those that can: the checks of the counting function, row by row."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from evenodds.engines.arrow import Codes, Counter, Problems
from evenodds.grid import Grid
from evenodds.log import Roles

if TYPE_CHECKING:
    import pyarrow as pa

REASON = "refused_because"
_ONE_CELL = Grid(np.empty(0), np.empty(0, np.int64))


@dataclass
class _Reasons(Problems):
    """Remembers each row's problem besides."""

    rows: dict[int, str] = field(default_factory=dict)

    def add(
        self,
        what: str,
        where: npt.NDArray[np.bool_],
        row: Codes,
        values: npt.NDArray[np.generic] | None = None,
    ) -> None:
        """Record the rows at which `where` holds."""
        super().add(what, where, row, values)
        for place in row[np.flatnonzero(where)]:
            self.rows.setdefault(int(place), what)


def reasons(
    batch: pa.RecordBatch, roles: Roles, depth: int, first_position: int | None = None
) -> list[str | None]:
    """Return why each row cannot be counted, None where it can."""
    found: list[str | None] = [None] * batch.num_rows
    left = np.arange(batch.num_rows)
    narrow = batch.select(roles.counted())
    while left.size:  # some problems hide others: once more without the rows that have one
        counter = Counter(roles, _ONE_CELL, depth, first_position)
        problems = counter.problems = _Reasons()
        counter.add(narrow.take(left))
        if not problems.rows:
            break
        for place, why in problems.rows.items():
            found[int(left[place])] = why
        left = np.delete(left, list(problems.rows))
    return found


def sieved(
    batch: pa.RecordBatch, roles: Roles, depth: int, first_position: int | None = None
) -> tuple[pa.RecordBatch, pa.Table]:
    """Return the rows that can be counted, and the others with the column `refused_because`."""
    import pyarrow as pa

    found = reasons(batch, roles, depth, first_position)
    bad = np.array([why is not None for why in found], dtype=bool)
    refused = pa.Table.from_batches([batch.filter(pa.array(bad))])
    said = pa.array([why for why in found if why is not None], pa.string())
    return batch.filter(pa.array(~bad)), refused.append_column(REASON, said)
