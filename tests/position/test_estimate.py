"""Choosing an estimator, and what all of them share."""

import numpy as np
import pyarrow as pa
import pytest

import evenodds as eo
from evenodds.position import METHODS
from worlds import decay, draw


@pytest.fixture(scope="module")
def log():
    return draw(np.random.default_rng(10), 3_000)


@pytest.fixture(scope="module")
def tally(log):
    return eo.tally(log, cells=200)


def shifted(log, positions):
    return log.set_column(log.column_names.index("position"), "position", [positions])


@pytest.mark.parametrize("method", ["joint", "adjacent", "randomized"])
def test_positions_may_start_at_zero(log, tally, method):
    """Positions from 0 give the weights of positions from 1, and the notes say where they start."""
    from_one = eo.position_bias(tally, method)
    from_zero = eo.position_bias(eo.tally(shifted(log, log["position"].to_numpy() - 1), cells=200), method)
    assert from_zero.positions.tolist() == list(range(10))
    assert (from_zero.weights == from_one.weights).all()
    assert "positions start at 0: weights are relative to position 0" in from_zero.notes


@pytest.mark.parametrize("method", ["joint", "adjacent", "randomized", "none"])
def test_gaps_are_stepped_over_and_said(log, method):
    """Slots without rows take no part; those that are there keep their own weights."""
    position = log["position"].to_numpy()
    counted = eo.tally(shifted(log, position + 3 * (position > 5)), cells=200)
    bias = eo.position_bias(counted, method)
    assert bias.positions.tolist() == [1, 2, 3, 4, 5, 9, 10, 11, 12, 13]
    assert np.isfinite(bias.weights).all()
    assert any("3 positions between 1 and 13 without rows" in note for note in bias.notes)


def test_thin_positions_share_a_weight():
    """Positions with fewer than 20 positives are joined with neighbours until there are enough."""
    log = draw(np.random.default_rng(1), 90, lengths=(12, 12))
    counted = eo.tally(log, cells=50)
    bias = eo.position_bias(counted)
    positives = counted.counts[:, 1].sum(axis=(0, 2))[1:]
    for weight in set(bias.weights):
        assert positives[bias.weights == weight].sum() >= 20
    assert len(set(bias.weights)) < 12
    assert any("share a weight with their neighbours" in note for note in bias.notes)


def test_too_few_positives_mean_no_correction():
    """With hardly any positives at all no position can be told from another: w = 1, and it is said."""
    log = draw(np.random.default_rng(2), 4)
    bias = eo.position_bias(eo.tally(log, cells=5))
    assert bias.method == "none"
    assert (bias.weights == 1).all()
    assert "too few positives to tell positions apart" in bias.notes


def test_pooled_positions_share_one_weight(log):
    """Positions past the depth have one weight together, and it is said."""
    bias = eo.position_bias(eo.tally(log, cells=200, depth=6))
    assert bias.positions.tolist() == [1, 2, 3, 4, 5, 6, 7]
    assert "positions past 6 are pooled and share one weight" in bias.notes
    assert decay(10)[9] < bias.weights[-1] < decay(10)[5]


def test_no_position_column_means_no_position_bias(log):
    """Without positions, w = 1 for everyone, and it is said."""
    bias = eo.position_bias(eo.tally(log, cells=20, position=None))
    assert bias.weights.tolist() == [1.0]
    assert bias.notes == ("no position column: no position bias assumed",)


def test_no_query_column_is_said(log):
    """Without queries, impressions are taken as independent; estimates stay, and it is said."""
    counted = eo.tally(log, cells=200, query=None)
    bias = eo.position_bias(counted)
    assert bias.weights == pytest.approx(eo.position_bias(eo.tally(log, cells=200)).weights)
    assert (bias.standard_errors[1:] > 0).all()
    assert "no query column: standard errors take impressions as independent" in bias.notes


@pytest.mark.parametrize("method", METHODS)
def test_the_same_tally_gives_the_same_estimate(log, method):
    """Every method repeats itself to the last bit."""
    upper = log["position"].to_numpy() - (log["position"].to_numpy() + 1) % 2
    counted = eo.tally(log.append_column("swap", pa.array(upper)), cells=100, swap="swap", query=None)
    first, again = (eo.position_bias(counted, method) for _ in range(2))
    assert (first.weights == again.weights).all()
    assert (first.standard_errors == again.standard_errors).all()


def test_rows_of_weight_zero_only_are_refused(log):
    """A log whose rows all weigh nothing is refused in words."""
    weightless = log.append_column("weight", [np.zeros(log.num_rows)])
    with pytest.raises(eo.TallyError, match="all rows have the weight 0"):
        eo.position_bias(eo.tally(weightless, cells=5))


@pytest.mark.parametrize(
    ("given", "positions"),
    [
        ([2.0, 1.0, 0.5], [1, 2, 3]),
        (np.array([1.0, 0.5, 0.25]), [1, 2, 3]),
        ({3: 0.25, 1: 1.0, 2: 0.5}, [1, 2, 3]),
    ],
    ids=["list", "array", "mapping"],
)
def test_weights_may_be_given(tally, given, positions):
    """Given weights are used as they are, relative to the first; they have no standard error."""
    bias = eo.position_bias(tally, given)
    assert bias.method == "given"
    assert bias.positions.tolist() == positions
    assert bias.weights.tolist() == [1.0, 0.5, 0.25]
    assert (bias.standard_errors == 0).all()
    assert eo.position_bias(tally, bias) is bias


def test_given_weights_start_at_the_logs_first_position(log):
    """A list of weights is for positions from the log's first one on, be it 0 or 1."""
    counted = eo.tally(shifted(log, log["position"].to_numpy() - 1), cells=20)
    assert eo.position_bias(counted, [1.0, 0.5]).positions.tolist() == [0, 1]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"method": "joimt"}, r"unknown position-bias method 'joimt'.*did you mean 'joint'"),
        ({"method": []}, "numbers above 0"),
        ({"method": [1.0, 0.0]}, "numbers above 0"),
        ({"method": [1.0, -0.5]}, "numbers above 0"),
        ({"method": [1.0, float("nan")]}, "numbers above 0"),
        ({"method": [[1.0]]}, "numbers above 0"),
        ({"method": ["one"]}, "numbers above 0"),
        ({"method": {}}, "numbers above 0"),
        ({"cells": 0}, "cells must be at least 1"),
        ({"truncate": 0}, "truncate and cap must be at least 1"),
        ({"cap": 0.5}, "truncate and cap must be at least 1"),
        ({"cap": float("nan")}, "truncate and cap must be at least 1"),
    ],
    ids=str,
)
def test_senseless_settings_are_refused(tally, settings, message):
    """Unknown methods, weights that are none, and settings outside their range are refused."""
    with pytest.raises(eo.SettingsError, match=message):
        eo.position_bias(tally, **settings)


def test_weights_between_and_past_known_positions():
    """Between known positions w is interpolated on a log scale; past the last one it stays."""
    bias = eo.PositionBias("given", np.array([1, 3]), np.array([1.0, 0.25]), np.zeros(2))
    assert bias.at(range(5)).tolist() == pytest.approx([1.0, 1.0, 0.5, 0.25, 0.25])


def test_an_estimate_comes_back_from_its_dictionary(tally):
    """to_dict and from_dict keep positions and notes, weights to 12 and errors to 6 digits."""
    bias = eo.position_bias(tally)
    again = eo.PositionBias.from_dict(bias.to_dict())
    assert again.positions.tolist() == bias.positions.tolist()
    assert again.weights == pytest.approx(bias.weights, rel=1e-11)
    assert again.standard_errors == pytest.approx(bias.standard_errors, rel=1e-5)
    assert again.goodness.degrees == bias.goodness.degrees
    assert again.to_dict() == bias.to_dict()


def test_it_prints_as_a_table(tally):
    """One line a position, then what the test of the assumption says."""
    lines = str(eo.position_bias(tally)).splitlines()
    assert lines[:2] == ["position bias (joint)", "position  weight  std. error"]
    assert lines[2].split() == ["1", "1.0000", "0.0000"]
    assert lines[12].startswith("homogeneity not rejected: p = ")


def test_given_weights_that_end_early_say_what_deeper_positions_get(counted):
    """A given list shorter than the log's positions is noted, with the last weight for the rest."""
    bias = eo.position_bias(counted, [1.0, 0.5])
    assert bias.notes == ("weights are given up to position 2: those down to 50 take the last one",)
    assert bias.at([1, 2, 50]).tolist() == [1.0, 0.5, 0.5]
