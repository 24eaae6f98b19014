"""Count a log on this machine, one record batch after the other."""

from __future__ import annotations

from collections.abc import Callable

from evenodds.engines.arrow import Counted, Counter
from evenodds.grid import Grid
from evenodds.log import Log


def count(log: Log, grid: Grid, depth: int, progress: Callable[[int], None] | None = None) -> Counted:
    """Count every row of the log; `progress` is told the number of rows after each batch."""
    counter = Counter(log.roles, grid, depth, log.first_position)
    for batch in log.batches(log.roles.counted()):
        counter.add(batch)
        if progress is not None:
            progress(batch.num_rows)
    return counter.finish()
