"""Partial tallies: merged in any order and any number of steps, they are what one count of all rows gives."""

from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings, strategies as st

import evenodds as eo
from evenodds.engines.arrow import Counter
from evenodds.engines.partial import (
    Plan,
    counted_part,
    from_batches,
    gathered,
    merged_parts,
    to_batch,
)
from evenodds.tally import from_counted


def plan_of(table, cells=12, depth=5, **roles):
    log = eo.Log(table, **roles)
    return Plan(log.roles, eo.tally(log, cells=cells).grid, depth)


def parts_of(table, plan, cuts):
    """Count slices of a table as parts, and send them through Arrow."""
    ends = [0, *sorted(cuts), table.num_rows]
    for number, (low, high) in enumerate(pairwise(ends)):
        batches = table.slice(low, high - low).select(plan.roles.counted()).to_batches(max_chunksize=50)
        yield list(from_batches([to_batch(counted_part(batches, plan, number))]))


def whole_of(table, plan):
    counter = Counter(plan.roles, plan.grid, plan.depth)
    for batch in table.select(plan.roles.counted()).to_batches():
        counter.add(batch)
    return from_counted(counter.finish(), plan.grid, plan.roles, plan.depth, ())


@given(st.lists(st.integers(0, 700), max_size=9), st.integers(1, 4), st.randoms(use_true_random=False))
@settings(max_examples=20)
def test_parts_add_up_to_the_whole_in_any_tree(mixed, cuts, fan, random):
    """However a log is cut into parts, and in whatever groups these are merged, every count is the same."""
    plan = plan_of(mixed, group=["group", "age"])
    parts = list(parts_of(mixed, plan, [min(cut, mixed.num_rows) for cut in cuts]))
    random.shuffle(parts)
    level = [
        [part for group in parts[start : start + fan] for part in group]
        for start in range(0, len(parts), fan)
    ]
    merged = [part for group in level for part in merged_parts(group, plan)]
    found = from_counted(gathered(merged, plan), plan.grid, plan.roles, plan.depth, ())
    assert found.equals(whole_of(mixed, plan))


def test_swaps_are_merged_too(mixed):
    """Counts of swapped pairs add up like the others."""
    position = mixed["position"].to_numpy().astype(int)
    upper = pa.array([None if p % 3 == 0 else int(p - (p % 3 == 2)) for p in position], pa.int8())
    table = mixed.append_column("swap", upper)
    plan = plan_of(table, swap="swap")
    parts = [part for group in parts_of(table, plan, [100, 300]) for part in group]
    assert (gathered(parts, plan).swaps == whole_of(table, plan).swaps).all()


def test_an_empty_part_returns_nothing(mixed):
    """A partition without rows sends no row, and a log of nothing else is said to be empty."""
    plan = plan_of(mixed)
    assert list(counted_part([], plan, 3)) == []
    with pytest.raises(eo.LogError, match="the log is empty: no rows"):
        gathered([], plan)


def test_rows_sent_do_not_grow_with_parts(mixed):
    """What is merged is one row a group and one of facts, whatever the number of parts."""
    plan = plan_of(mixed)
    parts = [part for group in parts_of(mixed, plan, range(20, 400, 20)) for part in group]
    merged = list(merged_parts(parts, plan))
    assert len(parts) > 60
    assert [part.name for part in merged] == [None, '["\\u00df"]', '["a"]', '["b"]']


def test_problems_of_all_parts_are_one_error(mixed):
    """Problems are added up over parts; the first one is that of the lowest part, told with its number."""
    score = mixed["score"].to_numpy().copy()
    score[[350, 420, 610]] = np.nan
    table = mixed.set_column(mixed.column_names.index("score"), "score", pa.array(score))
    plan = plan_of(mixed)
    parts = [part for group in parts_of(table, plan, [300, 600]) for part in group]
    with pytest.raises(eo.LogError) as error:
        gathered(list(merged_parts(reversed(parts), plan)), plan)
    assert error.value.problems == (
        "NaN or infinite score in column 'score' in 3 rows (first: nan at row 50 of partition 1)",
    )


def test_an_error_inside_a_part_keeps_its_kind_and_hint():
    """Too many groups in one task come back as the error that the local engine raises."""
    rows = 100_000
    table = pa.table(
        {"score": np.arange(rows) / rows, "group": np.arange(rows), "label": np.zeros(rows, int)}
    )
    plan = Plan(
        eo.Log(table).roles, eo.tally(table, cells=1, group="label").grid.from_sample(np.arange(1e4)), 100
    )
    parts = list(counted_part(table.to_batches(), plan, 0))
    with pytest.raises(eo.TallyError, match=r"65536 groups .*hint.*group column"):
        gathered(parts, plan)


def test_weights_are_added_up_in_the_order_of_the_parts():
    """Sums of weights that round come out the same, whatever order the parts arrive in."""
    rng = np.random.default_rng(0)
    rows = 4_000
    table = pa.table(
        {
            "score": rng.integers(0, 3, rows) / 10,
            "group": np.array(["a", "b"])[rng.integers(0, 2, rows)],
            "label": rng.integers(0, 2, rows),
            "weight": rng.random(rows) * 10.0 ** rng.integers(-9, 9, rows),
        }
    )
    plan = plan_of(table)
    parts = [part for group in parts_of(table, plan, [50, 900, 2_000, 3_500]) for part in group]
    one, other = (gathered(merged_parts(order, plan), plan) for order in (parts, parts[::-1]))
    assert one.counts.tobytes() == other.counts.tobytes()
    assert one.squares.tobytes() == other.squares.tobytes()
