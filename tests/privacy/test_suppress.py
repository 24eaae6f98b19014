"""k-anonymous tallies: the sense in which they are, on any log, and what they cost."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings, strategies as st

import evenodds as eo
from evenodds.privacy.merging import roundest


def draw(seed, rows=600, *, groups=4, positions=12, ties=0.3, weights=False):
    """Draw a log with unequal groups, ties, deep positions that are rare, and maybe weights."""
    rng = np.random.default_rng(seed)
    score = np.where(rng.random(rows) < ties, rng.integers(0, 4, rows) / 4, rng.normal(0, 2, rows))
    table = {
        "group": np.array(["alpha", "beta", "gamma", "delta", "epsilon"])[
            np.minimum(rng.geometric(0.55, rows) - 1, groups - 1)
        ],
        "label": (rng.random(rows) < 0.3).astype(np.int8),
        "score": score,
        "position": np.minimum(rng.geometric(0.25, rows), positions),
        "query": rng.integers(0, 60, rows),
    }
    if weights:
        table["weight"] = rng.integers(1, 9, rows).astype(float)
    return pa.table(table)


def slices(table, kept):
    """Count rows by group, label and position, as the kept tally has them: a slow, obvious version."""
    found = {}
    names = {group[0] for group in kept.tally.groups}
    for row in table.to_pylist():
        group = row["group"] if row["group"] in names else "other"
        position = min(row["position"], kept.tally.depth + 1)
        key = (group, row["label"], position)
        found[key] = found.get(key, 0) + 1
    return found


@settings(max_examples=60)
@given(st.integers(0, 10_000), st.integers(2, 30), st.integers(50, 900))
def test_every_count_is_zero_or_stands_for_k_rows(seed, k, rows):
    """Counts under k do not occur; whole slices are kept to the row, or are under k and gone."""
    table = draw(seed, rows)
    tally = eo.tally(table, cells=200)
    try:
        kept = tally.suppress(k)
    except eo.TallyError as error:
        assert "nothing would be left" in str(error)  # noqa: PT017
        return
    counts = kept.tally.counts
    assert counts.dtype == np.int64
    assert counts[counts > 0].min() >= k
    assert kept.tally.rows == counts.sum()
    assert kept.tally.folds is None
    assert (kept.tally.squares == counts.sum(axis=3)).all()
    truth = slices(table, kept)
    totals = counts.sum(axis=3)
    for place, group in enumerate(kept.tally.groups):
        for label in (0, 1):
            for position in range(counts.shape[2]):
                rows_there = truth.get((group[0], label, position), 0)
                assert totals[place, label, position] == (rows_there if rows_there >= k else 0)
    share = counts.sum() / table.num_rows
    assert kept.dropped["rows"] == pytest.approx(1 - share, abs=1e-12)


@settings(max_examples=60)
@given(st.integers(0, 10_000), st.integers(2, 30))
def test_no_boundary_tells_a_score(seed, k):
    """Boundaries are rounded, unless k rows share the score; the range covers all scores, and is rounded too."""
    table = draw(seed, 800)
    tally = eo.tally(table, cells=300)
    kept = tally.suppress(k)
    scores = table["score"].to_numpy()
    grid = kept.tally.grid
    values, times = np.unique(scores, return_counts=True)
    shared = set(values[times >= k])
    atoms = {float(grid.boundaries[cell - 1]) for cell in grid.atoms}
    assert atoms <= shared
    allowed = atoms | {float(np.nextafter(value, np.inf)) for value in atoms} | shared
    told = (set(grid.boundaries.tolist()) | set(kept.tally.score_range)) & set(scores.tolist())
    assert told <= allowed
    assert kept.tally.score_range[0] <= scores.min()
    assert kept.tally.score_range[1] >= scores.max()
    assert (np.diff(grid.boundaries) > 0).all()
    assert grid.cells == kept.tally.counts.shape[3]


def test_a_tie_of_few_rows_is_no_cell_of_its_own():
    """Four rows of a small group that share a score weigh much in their group, and are still four rows."""
    rng = np.random.default_rng(11)
    size = 1_000
    table = pa.table(
        {
            "group": ["big"] * size + ["rare"] * 40,
            "label": [*rng.integers(0, 2, size).tolist(), *([0] * 24), *([1] * 16)],
            "score": [*rng.random(size).tolist(), *([0.25371946] * 4), *rng.random(36).tolist()],
        }
    )
    tally = eo.tally(table, cells=1_000)
    assert tally.grid.atoms.size == 1
    kept = tally.suppress(10, cells=50)
    assert kept.tally.grid.atoms.size == 0
    assert 0.25371946 not in kept.tally.grid.boundaries


def test_cells_keep_their_rows_but_for_rounding():
    """Where nothing had to be joined, a count is what lies between the rounded boundaries, within a twentieth."""
    table = draw(1, 20_000, positions=2, groups=2, ties=0)
    kept = eo.tally(table, cells=2_000).suppress(5, cells=20)
    assert kept.moved == {"rows": 0.0, "positives": 0.0}
    inside = np.histogram(table["score"].to_numpy(), kept.tally.edges)[0]
    counts = kept.tally.counts.sum(axis=(0, 1, 2))
    assert counts.sum() == inside.sum()
    assert np.abs(counts - inside).max() <= 0.1 * counts.max()


def test_small_groups_go_under_one_name(tmp_path):
    """Their names are in the report for who made it, and nowhere in the file; nor is where the log was."""
    table = draw(3, 900, groups=5)
    pq.write_table(table, tmp_path / "secret-place.parquet")
    tally = eo.tally(tmp_path / "secret-place.parquet", cells=100)
    kept = tally.suppress(25)
    assert set(kept.merged_groups) == {"delta", "epsilon"}
    assert ("other",) in kept.tally.groups
    kept.tally.save(tmp_path / "public.tally")
    raw = (tmp_path / "public.tally").read_bytes() + str(
        pq.read_schema(tmp_path / "public.tally").metadata
    ).encode()
    assert not any(name in raw for name in (b"delta", b"epsilon", b"secret-place"))
    assert eo.Tally.load(tmp_path / "public.tally") == kept.tally
    assert "groups merged into 'other'" in str(kept)


def test_a_group_too_small_even_for_that_is_dropped():
    """One small group has nobody to hide among."""
    table = pa.concat_tables(
        [draw(4, 800, groups=2), draw(5, 3, groups=1).set_column(0, "group", pa.array(["rare"] * 3))]
    )
    kept = eo.tally(table, cells=100).suppress(10)
    assert kept.dropped_groups == ("rare",)
    assert kept.merged_groups == ()
    assert ("rare",) not in kept.tally.groups
    assert kept.dropped["rows"] >= 3 / 803


def test_positions_that_are_gone_are_not_told():
    """Three rows far down leave no trace, not even in how many positions there are."""
    deep = draw(12, 3, positions=1).set_column(3, "position", pa.array([40] * 3))
    table = pa.concat_tables([draw(13, 900, positions=3), deep])
    tally = eo.tally(table, cells=50)
    assert tally.counts.shape[2] == 41
    kept = tally.suppress(10)
    assert kept.tally.counts.shape[2] == 4
    assert kept.dropped["rows"] >= 3 / 903


def test_crossed_groups_and_several_outcomes():
    """Names of several columns, labels of several kinds."""
    rng = np.random.default_rng(6)
    table = draw(6, 1_500)
    table = table.set_column(1, "label", pa.array(rng.integers(0, 4, 1_500)))
    table = table.append_column("age", pa.array(np.where(rng.random(1_500) < 0.05, "old", "young")))
    kept = eo.tally(table, cells=100, group=["group", "age"], outcomes=3).suppress(12)
    assert ("other", "other") in kept.tally.groups
    assert kept.tally.counts[kept.tally.counts > 0].min() >= 12
    assert kept.tally.counts.shape[1] == 4


@pytest.mark.parametrize("decayed", [False, True])
def test_weighted_rows_are_counted_at_their_least(decayed):
    """The fewest rows that could make up a released weight, the heaviest first, are at least k."""
    table = draw(7, 3_000, groups=2, positions=3, weights=True)
    tally = eo.tally(table, cells=200)
    tally = tally.decay(0.5) if decayed else tally
    kept = tally.suppress(6)
    rows = table.to_pylist()
    checked = 0
    for place, group in enumerate(kept.tally.groups):
        for label in (0, 1):
            for position in range(kept.tally.counts.shape[2]):
                weights = sorted(
                    (
                        row["weight"] * (0.5 if decayed else 1.0)
                        for row in rows
                        if row["group"] == group[0]
                        and row["label"] == label
                        and min(row["position"], kept.tally.depth + 1) == position
                    ),
                    reverse=True,
                )
                for count in kept.tally.counts[place, label, position]:
                    if count > 0:
                        assert np.searchsorted(np.cumsum(weights), count - 1e-9) + 1 >= 6
                        checked += 1
    assert checked > 20


def test_swapped_pairs_are_kept_only_where_they_are_many():
    """Counts of pairs, and what is left at their positions, are 0 or at least k."""
    rng = np.random.default_rng(8)
    size = 6_000
    upper = rng.integers(1, 6, size)
    turned = rng.integers(0, 2, size)
    table = pa.table(
        {
            "group": np.array(["a", "b"])[rng.integers(0, 2, size)],
            "label": (rng.random(size) < 0.3).astype(int),
            "score": rng.random(size),
            "position": upper + turned,
            "swap": pa.array(upper, mask=rng.random(size) < 0.5),
        }
    )
    tally = eo.tally(table, cells=50, swap="swap")
    kept = tally.suppress(20)
    swaps = kept.tally.swaps.sum(axis=0)
    assert swaps.sum() > 2_000
    assert swaps[swaps > 0].min() >= 20
    assert eo.position_bias(kept.tally, "swaps").weights.size >= 4
    assert not tally.suppress(300, cells=1).tally.swaps.any()


def test_the_same_tally_gives_the_same_bytes(tmp_path, counted):
    """Nothing is drawn."""
    for name in ("one", "two"):
        counted.suppress(10).tally.save(tmp_path / name)
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()


def test_a_large_log_loses_little(counted):
    """At 200,000 rows and k = 10 the fit leaves two hundredths more unfairness, judged on all counts."""
    kept = counted.suppress(10)
    found = kept.effect()
    assert kept.dropped["positives"] < 0.001
    assert found.full.merit["positive"] < 0.001
    assert found.suppressed.merit["positive"] < 0.03
    assert abs(found.suppressed.auc - found.full.auc) < 0.005
    assert abs(found.weights[0]) < 0.2
    assert "left by the fit, positives" in str(found)
    assert found.to_dict()["suppressed"]["merit"]["positive"] == found.suppressed.merit["positive"]


def test_the_effect_is_that_of_the_model_asked_for(counted):
    """Any criterion; the model itself is left alone; a worse k costs more."""
    model = eo.EqualizedOdds(bins=20)
    found = counted.suppress(10).effect(model)
    assert not hasattr(model, "tally_")
    assert found.model == repr(model)
    assert found.full.merit["negative"] < 0.01
    less, more = (counted.suppress(k).effect().suppressed.merit["positive"] for k in (5, 300))
    assert less < more


def test_what_is_left_goes_through_the_house(counted, tmp_path):
    """A suppressed tally is fitted, audited, saved, loaded and suppressed again."""
    kept = counted.suppress(10).tally
    audit = eo.audit(kept)
    assert any("tells no queries apart" in note for note in audit.notes)
    assert not any("no query column" in note for note in audit.notes)
    assert audit.unfairness() == pytest.approx(eo.audit(counted).unfairness(), abs=0.05)
    model = eo.EqualOpportunity().fit(kept)
    assert np.isfinite(model.transform([0.0, 1e9, -1e9], ["A", "B", "A"])).all()
    again = kept.suppress(10)
    assert again.tally.rows == kept.rows
    assert again.tally.counts[again.tally.counts > 0].min() >= 10


def test_cells_and_depth_may_be_set(counted):
    """More cells, or fewer positions, than it would choose."""
    kept = counted.suppress(5, cells=30, depth=8)
    assert kept.tally.depth == 8
    assert kept.tally.counts.shape[2] == 10
    assert 20 <= kept.tally.grid.cells <= 31
    assert "positions past 8 of 50 pooled" in str(kept)


def test_logs_without_positions_keep_more_cells(tied):
    """Nothing to pool; ties that k rows share keep their cells."""
    kept = eo.tally(tied).suppress(10)
    assert kept.tally.grid.atoms.size == 10
    assert kept.tally.counts.sum() == tied.num_rows
    assert kept.effect().weights is None


@pytest.mark.parametrize(
    ("settings_", "said"),
    [
        ({"k": 1}, "at least 2"),
        ({"k": True}, "at least 2"),
        ({"k": 2.5}, "whole number"),
        ({"k": 5, "cells": 0}, "cells must be at least 1"),
        ({"k": 5, "depth": 0}, "depth must lie in 1..100"),
        ({"k": 5, "depth": 101}, "depth must lie in 1..100"),
    ],
)
def test_settings_are_checked(counted, settings_, said):
    """One line each."""
    with pytest.raises(eo.SettingsError, match=said):
        counted.suppress(**settings_)


def test_nothing_left_is_said():
    """More k than rows; more k than rows of one label at a position."""
    tally = eo.tally(draw(9, 60), cells=20)
    with pytest.raises(eo.TallyError, match="no group has 1000 rows"):
        tally.suppress(1_000)


@given(st.floats(-1e6, 1e6), st.floats(1e-9, 1e5))
def test_the_roundest_number_lies_inside(low, width):
    """Rounding never leaves its interval, whatever the scale."""
    high = low + width
    assert low <= roundest(low, high) <= high
