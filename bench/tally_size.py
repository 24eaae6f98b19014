"""What a tally weighs, by groups, positions and cells: `make bench-tally-size`.

One part is what one task of Spark sends over the network and what the driver holds of a whole log, in
compressed bytes; laid out are the arrays in the memory of whoever counts or fits. Takes 20 seconds.
"""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np
import pyarrow as pa

import evenodds as eo
from evenodds.engines.partial import Part, Plan, counted_part, merged_parts
from evenodds.log import Roles

QUERIES = 20_000
CASES = [
    (2, 10_000, False),
    (2, 1_000, False),
    (20, 10_000, False),
    (20, 1_000, False),
    (200, 1_000, False),
    (200, 1_000, True),
]
PARTS = 4


def parts_of(groups: int, cells: int, *, apart: bool) -> tuple[Plan, list[list[Part]], float]:
    """Count a simulated log, its rows given to so many groups, in parts; return those and seconds a row.

    The parts hold all groups, or groups of their own, as after `frame.repartition(n, "group")`.
    """
    log = eo.simulate(QUERIES, seed=1)
    rng = np.random.default_rng(0)
    names = np.array([f"g{number:03d}" for number in range(groups)])
    drawn = rng.integers(0, groups, log.num_rows)
    codes = pa.array((np.sort(drawn) if apart else drawn).astype(np.int32))
    group = pa.DictionaryArray.from_arrays(codes, pa.array(names))
    log = log.set_column(log.column_names.index("group"), "group", group)
    roles = Roles("score", ("group",), "label", "position", "query")
    plan = Plan(roles, eo.tally(log, cells=cells).grid, 100)
    size = log.num_rows // PARTS
    start = time.perf_counter()
    parts = [
        list(counted_part(log.select(roles.counted()).slice(n * size, size).to_batches(), plan, n))
        for n in range(PARTS)
    ]
    return plan, parts, (time.perf_counter() - start) / log.num_rows


def weight(parts: list[Part]) -> int:
    """Return the bytes of parts."""
    return sum(len(part.body) + len(part.name or "") + len(part.facts or "") for part in parts)


def main() -> None:
    """Measure, print."""
    print(f"{50 * QUERIES:,} rows in {PARTS} parts; 2 labels, 50 positions, 20 folds of 200 coarse cells")
    print(
        f"{'groups':>6} {'cells':>6} {'laid out':>9} {'kept':>10} {'a part':>9} {'merged':>9} "
        f"{'bytes/kept':>10} {'merge':>9} {'count':>8}"
    )
    for groups, cells, apart in CASES:
        plan, parts, a_row = parts_of(groups, cells, apart=apart)
        whole = sum(int(np.prod(shape)) for shape in replace(plan, depth=49).shapes.values()) * 8 * groups
        start = time.perf_counter()
        merged = list(merged_parts([part for group in parts for part in group], plan))
        took = (time.perf_counter() - start) / PARTS
        kept = _kept(merged)
        print(
            f"{groups:>6} {cells:>6} {whole / 1e6:>6.0f} MB {kept:>10,} {weight(parts[0]) / 1e6:>6.2f} MB "
            f"{weight(merged) / 1e6:>6.2f} MB {weight(merged) / kept:>10.2f} {1e3 * took:>6.0f} ms "
            f"{1e9 * a_row:>5.0f} ns"
            f"{'  parts by group' if apart else ''}"
        )
    print("kept: counts above 0. merge: a part, all its groups. count: a row, one core, laying out included.")


def _kept(parts: list[Part]) -> int:
    return sum(pa.ipc.open_stream(part.body).read_all().num_rows for part in parts if part.body)


if __name__ == "__main__":
    main()
