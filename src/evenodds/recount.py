"""Count a log twice: where its rows stood, and where a model would put them. On this machine."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

import numpy as np

from evenodds.engines.arrow import Counted, Counter
from evenodds.engines.partial import Plan
from evenodds.log import Log
from evenodds.replay import Places, Replay, fair_scores, query_hashes
from evenodds.reranker import Reranker

Progress = Callable[[int], None]


@dataclass(frozen=True)
class Lists:
    """How many lists there are, how many of them lack positions, and the name of a row in such a one."""

    queries: int
    cut_off: int
    example: str


class Passes(Protocol):
    """Two passes over a log, wherever it is.

    Attributes
    ----------
    plan
        What is counted; pairs of swapped rows are not, since they are about old positions.
    old
        What was counted at the positions where the rows stood.
    """

    plan: Plan
    old: Counted

    def ranked(self, first: int) -> Lists:
        """Rank each list anew; its rows share out the positions at which they stood."""

    def recounted(self) -> Counted:
        """Count the log again, as if every row had stood at its new position."""


class Recount:
    """The passes over a log that is read here."""

    def __init__(
        self,
        log: Log,
        plan: Plan,
        replay: Replay,
        score: Callable[..., None],
        progress: Progress | None,
    ) -> None:
        self.plan = plan
        self._log, self._replay, self._progress = log, replay, progress
        self._positions: Places | None = None
        counter = Counter(plan.roles, plan.grid, plan.depth, plan.first_position)
        score(counter)
        self.old: Counted = counter.finish()

    def ranked(self, first: int) -> Lists:
        """Rank each list anew; its rows share out the positions at which they stood."""
        _, self._positions = self._replay.finish(first, slots=True)
        return Lists(self._replay.queries, self._replay.cut_off, f"row {self._replay.example}")

    def recounted(self) -> Counted:
        """Count the log again, as if every row had stood at its new position."""
        import pyarrow as pa

        roles = self.plan.roles
        counter = Counter(roles, self.plan.grid, self.plan.depth)
        row = 0
        for batch in self._log.batches(roles.counted()):
            moved = pa.array(np.asarray(self._positions)[row : row + batch.num_rows])
            row += batch.num_rows
            names = batch.schema.names
            columns = [moved if name == roles.position else batch.column(name) for name in names]
            counter.add(pa.RecordBatch.from_arrays(columns, names=names))
            if self._progress is not None:
                self._progress(batch.num_rows)
        return counter.finish()


@contextmanager
def recounting(
    model: Reranker,
    log: Log,
    plan: Plan,
    keys: Sequence[str],
    seed: int,
    progress: Progress | None,
) -> Iterator[Recount]:
    """Count the log and score it, in one pass; the rest is asked of what this gives."""
    plan = replace(plan, roles=replace(plan.roles, swap=None))
    roles = plan.roles
    position = str(roles.position)
    with tempfile.TemporaryDirectory(prefix="evenodds-") as folder:
        replay = Replay(Path(folder), ranked=True, expected=log.rows)

        def score(counter: Counter) -> None:
            for batch in log.batches(list(dict.fromkeys([*roles.counted(), *keys]))):
                counter.add(batch)
                if not counter.problems.found:  # else the rest is read for its problems only
                    stood = batch.column(position).to_numpy(zero_copy_only=False).astype(np.int32)
                    fair = fair_scores(model, roles, batch, keys, seed, replay.rows)
                    replay.add(fair, query_hashes(roles, batch), stood)
                if progress is not None:
                    progress(batch.num_rows)

        try:
            yield Recount(log, plan, replay, score, progress)
        finally:
            replay.close()
