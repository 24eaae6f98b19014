"""Tallies add up: whatever the split and the order, the sum equals one pass."""

from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings, strategies as st

import evenodds as eo
from evenodds.groups import group_name
from evenodds.tally import as_tally, check_comparable


@pytest.fixture(scope="module")
def whole(mixed):
    return eo.tally(mixed, cells=12, weight=None)


def parts_of(table, cuts, whole):
    """Cut a table at row numbers and count every part that holds rows, on the cells of the whole."""
    bounds = [0, *sorted(cuts), table.num_rows]
    slices = [table.slice(low, high - low) for low, high in pairwise(bounds) if high > low]
    return [eo.tally(part, grid=whole, weight=whole.roles.weight) for part in slices]


@given(st.lists(st.integers(0, 700), max_size=6), st.randoms(use_true_random=False))
@settings(max_examples=40)
def test_any_split_merged_in_any_order_equals_one_pass(mixed, whole, cuts, random):
    """However the rows are cut, and in whatever order the parts are merged, the sum equals one pass."""
    parts = parts_of(mixed, [min(cut, mixed.num_rows) for cut in cuts], whole)
    random.shuffle(parts)
    assert sum(parts).equals(whole)


@given(st.integers(1, 300), st.integers(301, 600))
@settings(max_examples=25)
def test_merging_is_associative_and_commutative(mixed, whole, first, second):
    """(a + b) + c equals a + (b + c), and a + b equals b + a."""
    a, b, c = parts_of(mixed, [first, second], whole)
    assert ((a + b) + c).equals(a + (b + c))
    assert (a + b).equals(b + a)
    assert ((a + b) + c).counts.dtype == np.int64


def test_groups_and_positions_of_one_part_only_are_kept(mixed, whole):
    """A group and positions that only one part has are in the sum, at their place."""
    shallow = mixed.filter(
        (mixed["position"].to_numpy() <= 2) & (np.array(mixed["group"].to_pylist()) != "a")
    )
    deep = mixed.filter((mixed["position"].to_numpy() > 2) | (np.array(mixed["group"].to_pylist()) == "a"))
    few, many = (eo.tally(part, grid=whole, weight=None) for part in (shallow, deep))
    assert few.groups == (("b",), ("ß",))
    assert few.counts.shape[2] < many.counts.shape[2]
    assert (few + many).equals(whole)
    assert (many + few).equals(whole)


def test_weighted_counts_add_up(mixed):
    """With weights that are whole numbers, merged sums of weights are exact too."""
    weighted = eo.tally(mixed, cells=12)
    assert sum(parts_of(mixed, [100, 350], weighted)).equals(weighted)


def test_a_sum_of_swaps_equals_one_pass(mixed):
    """Counts of swapped pairs are merged like all others."""
    position = mixed["position"].to_numpy().astype(int)
    table = mixed.append_column("swap", pa.array(position - (position + 1) % 2))
    one = eo.tally(table, cells=5, swap="swap", weight=None)
    halves = [eo.tally(table.slice(*cut), grid=one, swap="swap", weight=None) for cut in ((0, 300), (300,))]
    assert one.swaps.sum() == table.num_rows
    assert sum(halves).equals(one)


def test_equality_sees_every_count(whole):
    """Two tallies that differ in one count are not equal."""
    from dataclasses import replace

    for name in ("counts", "squares", "folds"):
        changed = getattr(whole, name).copy()
        changed.flat[changed.size // 2] += 1
        assert not replace(whole, **{name: changed}).equals(whole)
    assert not replace(whole, rows=whole.rows + 1).equals(whole)


@pytest.mark.parametrize(
    ("other", "message"),
    [
        ({"cells": 11}, r"grids.*--grid-from"),
        ({"group": "age"}, r"group columns differ, \['group'\] and \['age'\]"),
        ({"depth": 5}, "pooled past 100 in one and past 5"),
        ({"query": None}, "only one of them has a query column"),
        ({"position": None}, "only one of them has a position column"),
        ({"outcomes": 2}, "one has 1 outcomes and the other 2"),
    ],
    ids=lambda value: str(value)[:20],
)
def test_tallies_that_do_not_fit_are_not_merged(mixed, whole, other, message):
    """Tallies of other cells, groups, depth or roles are refused, and the message says why."""
    roles = {"weight": None, **({"grid": whole} if "cells" not in other else {}), **other}
    with pytest.raises(eo.GridMismatchError, match=message):
        whole + eo.tally(mixed, **roles)


def test_only_tallies_are_added(whole):
    """Adding anything else is a type error, but for the 0 that sum() starts with."""
    with pytest.raises(TypeError):
        whole + 3
    with pytest.raises(TypeError):
        3 + whole
    assert (0 + whole) is whole


def test_a_reused_grid_is_the_same_grid(mixed, whole):
    """A later tally takes the cells of an earlier one, or a bare grid, as they are."""
    part = mixed.slice(0, 50)
    assert eo.tally(part, grid=whole).grid == whole.grid == eo.tally(part, grid=whole.grid).grid
    assert eo.tally(part, cells=12).grid != whole.grid


def test_decay_weighs_counts_and_squares(whole):
    """Decay by f multiplies counts and folds by f and squares by f^2, so evidence shrinks with age."""
    old = whole.decay(0.25)
    assert (old.counts == whole.counts * 0.25).all()
    assert (old.folds == whole.folds * 0.25).all()
    assert (old.squares == whole.squares / 16).all()
    assert old.weighted
    assert not whole.weighted
    mixed_age = old + whole
    total = whole.counts.sum(axis=(2, 3))
    assert mixed_age.effective() == pytest.approx((1.25 * total) ** 2 / (1.0625 * total))


def test_a_half_life_halves(whole):
    """half_life=7 over an age of 14 is the factor a quarter."""
    assert whole.decay(half_life=7, age=14).equals(whole.decay(0.25))
    assert whole.decay(half_life=3).counts.sum() == pytest.approx(whole.counts.sum() * 0.5 ** (1 / 3))


@pytest.mark.parametrize(
    "wrong",
    [
        {},
        {"factor": 0},
        {"factor": 1.1},
        {"factor": np.nan},
        {"half_life": 0},
        {"half_life": -1},
        {"half_life": 1, "age": -1},
        {"factor": 0.5, "half_life": 1},
    ],
    ids=str,
)
def test_senseless_decay_is_refused(whole, wrong):
    """Decay takes a factor in (0, 1], or a half-life above 0 and an age from 0 on, not both."""
    with pytest.raises(eo.SettingsError):
        whole.decay(**wrong)


def test_evidence_of_weights_is_kish_size(mixed):
    """effective() is (sum of weights)^2 / sum of squared weights by group and label."""
    counted = eo.tally(mixed)
    group, label = np.array(mixed["group"].to_pylist()), mixed["label"].to_numpy()
    weight = mixed["weight"].to_numpy()
    own = weight[(group == "b") & (label == 1)]
    assert counted.effective()[1, 1] == pytest.approx(own.sum() ** 2 / (own**2).sum())
    assert counted.effective_positives()[1] == pytest.approx(own.sum() ** 2 / (own**2).sum())


@pytest.mark.parametrize("depth", [0, -1, 1.5])
def test_a_senseless_depth_is_refused(mixed, depth):
    """The depth is a whole number of at least 1."""
    with pytest.raises(eo.SettingsError, match="depth must be a whole number of at least 1"):
        eo.tally(mixed, depth=depth)


def test_roles_are_not_given_twice(mixed, whole):
    """Column roles beside a Log, or beside a tally, would have no effect, so they are refused."""
    with pytest.raises(eo.SettingsError, match="belong to the Log: score"):
        eo.tally(eo.Log(mixed), score="score")
    for call in (eo.position_bias, eo.audit, eo.EqualOpportunity().fit):
        with pytest.raises(eo.SettingsError, match="counted already: weight would have no effect"):
            call(whole, weight="weight")


def test_lists_of_tallies_are_summed(mixed, whole):
    """Wherever a tally is taken, a list of tallies is taken as their sum."""
    assert as_tally(parts_of(mixed, [200], whole)).equals(whole)


def test_one_group_is_nothing_to_compare(mixed):
    """A log with one group is refused by name, before anything is estimated."""
    one = eo.tally(mixed.filter(np.array(mixed["group"].to_pylist()) == "b"))
    with pytest.raises(eo.TallyError, match=r"only one group \(b\) in column group"):
        check_comparable(one)


def test_no_positives_is_nothing_to_learn_from(mixed):
    """A log without any positive is refused."""
    zeros = mixed.set_column(
        mixed.column_names.index("label"), "label", pa.array(np.zeros(mixed.num_rows, int))
    )
    with pytest.raises(eo.TallyError, match="no positive label"):
        check_comparable(eo.tally(zeros))


def test_progress_tells_every_row(mixed):
    """The numbers that progress is told add up to the log's rows."""
    told = []
    eo.tally(mixed, progress=told.append)
    assert sum(told) == mixed.num_rows


def test_it_prints_what_it_holds(whole):
    """A tally prints its rows, groups and cells."""
    assert repr(whole) == f"Tally({whole.rows:,} rows, groups: a, b, ß; {whole.grid.cells} cells)"
    assert group_name(("f", "30-39")) == "f × 30-39"


def test_tallies_compare_by_what_they_hold(simulated):
    """Two counts of one log are equal and hash alike; counts of other rows are not."""
    whole = eo.tally(simulated, cells=100)
    assert whole == eo.tally(simulated, cells=100)
    assert hash(whole) == hash(eo.tally(simulated, cells=100))
    assert whole != eo.tally(simulated.slice(0, 1000), grid=whole)
