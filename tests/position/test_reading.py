"""Which position bias a log is read with, and how far off that may be."""

import numpy as np
import pytest

import evenodds as eo
from evenodds.position import PositionBias, read_bias
from worlds import decay, draw


@pytest.fixture(scope="module")
def tally():
    return eo.tally(draw(np.random.default_rng(3), 2_000), cells=400)


@pytest.fixture(scope="module")
def stated():
    return eo.position_bias(eo.tally(draw(np.random.default_rng(4), 2_000), cells=400))


def variance(values):
    """Return the jackknife variance of values with one part left out at a time."""
    return (len(values) - 1) / len(values) * ((values - values.mean(axis=0)) ** 2).sum(axis=0)


def test_a_log_is_read_with_its_own_curve_unsmoothed(tally, stated):
    """With or without a model's curve: the estimate of this log, as it comes, and its changes by fold."""
    own = eo.position_bias(tally, smooth=False)
    for reading in (read_bias(tally), read_bias(tally, stated, rows=20_000.0)):
        assert reading.bias.weights.tolist() == own.weights.tolist()
        assert len(reading.left_out) == 20
        assert not len(reading.aside)
        assert reading.left_out[:, own.positions] == pytest.approx(own.left_out / own.weights)
    assert read_bias(tally, stated).other is stated
    assert eo.position_bias(tally).weights.tolist() != own.weights.tolist()


def test_errors_are_those_of_the_estimate_itself():
    """Unsmoothed, estimate and folds share their strata, so the spread over logs is the stated one."""
    found = [
        eo.position_bias(eo.tally(draw(np.random.default_rng(seed), 400), cells=1_000), smooth=False)
        for seed in range(60)
    ]
    spread = np.log([bias.weights[1:] for bias in found]).std(axis=0)
    told = np.mean([bias.standard_errors[1:] / bias.weights[1:] for bias in found], axis=0)
    assert np.mean(told / spread) == pytest.approx(1.0, abs=0.1)


def test_a_curve_from_many_more_rows_is_preferred(tally, stated):
    """From four times the rows on a model's curve is used, with the larger of its stated and its unsmoothed error."""
    assert read_bias(tally, stated, rows=3.9 * tally.rows).bias is not stated
    reading = read_bias(tally, stated, rows=4.0 * tally.rows)
    assert reading.bias is stated
    assert reading.left_out is None
    here = reading.other.standard_errors / reading.other.weights
    told = np.maximum(stated.standard_errors / stated.weights, here / 2)
    assert np.sqrt(variance(reading.aside))[stated.positions] == pytest.approx(told, rel=0.02)
    told = stated.standard_errors / stated.weights
    surer = read_bias(tally, stated, rows=1e12)
    assert np.sqrt(variance(surer.aside))[stated.positions] == pytest.approx(told, rel=0.02)


def test_weights_that_were_given_are_exact(tally):
    """A list of weights is used as it is and has no error."""
    for reading in (
        read_bias(tally, method=decay(10)),
        read_bias(tally, PositionBias("given", np.arange(1, 11), decay(10), np.zeros(10))),
    ):
        assert reading.bias.weights == pytest.approx(decay(10))
        assert reading.left_out is None
        assert not len(reading.aside)


@pytest.mark.parametrize("method", ["randomized", "swaps"])
def test_what_took_an_experiment_is_not_repeated_on_a_log_that_is_none(tally, method):
    """Weights from shuffled slots are kept for an ordinary log, where the same method would be wrong."""
    errors = np.append(0.0, np.full(9, 0.02))
    known = PositionBias(method, np.arange(1, 11), decay(10), errors)
    reading = read_bias(tally, known, rows=10.0)
    assert reading.bias is known
    assert np.sqrt(variance(reading.aside))[1:] == pytest.approx(errors / decay(10), rel=0.02)


def test_a_log_too_small_to_tell_takes_the_models_curve(stated):
    """With hardly a positive the model's curve stands, and all its positions err together."""
    few = eo.tally(draw(np.random.default_rng(1), 12), cells=20)
    reading = read_bias(few, stated, rows=1.0)
    assert reading.bias is stated
    assert len(reading.aside) == 2
    told = np.interp(np.arange(11), stated.positions, stated.standard_errors / stated.weights)
    assert np.sqrt(variance(reading.aside)) == pytest.approx(told)


def test_a_curve_can_be_handed_over(tally, stated):
    """A `PositionBias` as the method is used, with its own error."""
    assert read_bias(tally, method=stated).bias is stated
