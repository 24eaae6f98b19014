"""Batches of a stream from Arrow tables, counted here: what an engine does, without one."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from evenodds.engines.arrow import Counter
from evenodds.engines.sieve import REASON, sieved
from evenodds.log import Roles
from evenodds.stream import Counts
from evenodds.tally import from_counted

ROLES = Roles(score="score", group=("group",), label="label", position="position", query="query")


class TableBatch:
    """One batch."""

    def __init__(self, number, table, clock=None, roles=ROLES):
        self.number, self._table, self._clock, self._roles = number, table, clock, roles

    def scores(self):
        """Return all scores."""
        values = self._table[self._roles.score].to_numpy().astype(float)
        return values[np.isfinite(values)]

    def count(self, grid, depth):
        """Count the good rows, remember the others."""
        refused, counter = {}, Counter(self._roles, grid, depth)
        self._bad = []
        for batch in self._table.combine_chunks().to_batches():
            good, bad = sieved(batch, self._roles, depth)
            counter.add(good)
            self._bad.append(bad)
            for why in bad[REASON].to_pylist():
                refused[why] = refused.get(why, 0) + 1
        rows = self._table.num_rows
        if counter.rows == 0:
            return Counts(None, rows, refused)
        return Counts(from_counted(counter.finish(), grid, self._roles, depth, ()), rows, refused)

    def clock(self):
        """Return the time that the batch was given."""
        return self._clock

    def set_aside(self, folder):
        """Write the refused rows."""
        Path(folder).mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.concat_tables(self._bad), Path(folder) / "refused.parquet")
