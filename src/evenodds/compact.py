"""Keep a feedback store from growing for ever: fold old lists into a tally that the store keeps.

Lists go in blocks, a transaction each: what a block holds is counted by the one counting function, added to
the tally, and deleted with its labels, and only then does the transaction end. A crash at any moment leaves
each row either there or counted. Whoever serves waits for a block, not for all of them, and has its turn
between two.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from evenodds.feedback import schema
from evenodds.feedback.database import Database, Row
from evenodds.feedback.meta import Meta
from evenodds.feedback.rows import Joined, cutoff, opened, whole_keys
from evenodds.feedback.store import connect
from evenodds.grid import MAX_CELLS, Grid
from evenodds.log import Log
from evenodds.tally import DEPTH, Tally, tally
from evenodds.tally_file import from_bytes, to_bytes

OLDER_THAN = 30 * 86_400.0
_LISTS = 500  # a transaction: some 50,000 impressions, a tenth of a second
_PAUSE = 0.05  # and a pause: a machine with few cores has other work, too


@dataclass(frozen=True)
class Compacted:
    """What one run folded: lists, the impressions in them, and the positives among these."""

    lists: int
    rows: int
    positives: int


def compact(
    target: str | Path,
    *,
    older_than: float = OLDER_THAN,
    cells: int = MAX_CELLS,
    depth: int = DEPTH,
    progress: Callable[[int], None] | None = None,
) -> Compacted:
    """Fold all lists of a feedback store that are older than `older_than` seconds into its tally.

    Parameters
    ----------
    target
        The store's file, or the URL of its PostgreSQL.
    older_than
        Age in seconds. Labels that come later than that are not counted.
    cells, depth
        How the tally is cut (see :func:`evenodds.tally`); settled when the first list is folded.
    progress
        Called with the number of impressions after each block.
    """
    until = cutoff(older_than)
    opened(target)[0].close()  # compacting makes no store
    with closing(connect(target, write=True)) as database:
        meta = Meta.read(database)
        database.kind = meta.kind
        first = database.execute(schema.FIRST_KEY)[0][0]
        grid = _grid(target, database, older_than, cells) if first is not None else None
        lists = rows = positives = 0
        while first is not None and grid is not None:
            if lists:
                time.sleep(_PAUSE)
            with database.folding():
                block = database.execute(schema.FOLD_LISTS, (first, until, until, _LISTS))
                if len(block) == _LISTS:
                    # The last key may go on; a key that alone has more lists than a block is one block.
                    cut = whole_keys(block)
                    block = block[:cut] if cut else database.execute(schema.LISTS_OF_KEY, (block[0][0],))
                if not block:
                    break
                counted = _fold(database, meta, block, grid, depth, until)
            first = block[-1][0]
            lists += len(block)
            rows += 0 if counted is None else counted.rows
            positives += 0 if counted is None else int(counted.counts[:, 1:].sum())
            if progress is not None:
                progress(0 if counted is None else counted.rows)
        if lists:
            database.tidy()
    return Compacted(lists, rows, positives)


def _grid(target: str | Path, database: Database, older_than: float, cells: int) -> Grid | None:
    """Return the score cells of what was folded before, or cut them from all that will be folded now."""
    folded = database.execute(schema.GET_FOLDED)
    if folded:
        return from_bytes(bytes(folded[0][0]), f"the tally in {database.name}").grid
    if not database.execute(schema.COUNT_LISTS, (cutoff(older_than),))[0][0]:
        return None
    sample = Log(target, settle=older_than).score_sample()
    # Nothing in it: no item has a known group, and nothing will be counted.
    return Grid.from_sample(sample if sample.size else np.zeros(1), cells)


def _fold(
    database: Database, meta: Meta, block: list[Row], grid: Grid, depth: int, until: int
) -> Tally | None:
    import pyarrow as pa

    joined = Joined(database, meta)
    table = pa.Table.from_batches([joined.batch(block)])
    folded = database.execute(schema.GET_FOLDED)
    known = from_bytes(bytes(folded[0][0]), f"the tally in {database.name}") if folded else None
    counted = None
    if table.num_rows:
        log = Log(table, group=joined.group_columns, outcomes=meta.outcomes, item=None)
        counted = tally(log, grid=grid, depth=depth if known is None else known.depth)
        counted = replace(counted, sources=(database.name,))
        total = counted if known is None else known + counted
        lists, rows = (int(folded[0][1]), int(folded[0][2])) if folded else (0, 0)
        values = (to_bytes(total), lists + len(block), rows + counted.rows, until)
        database.execute(schema.PUT_FOLDED, values)
    database.delete(list(dict.fromkeys(row[0] for row in block)))
    return counted
