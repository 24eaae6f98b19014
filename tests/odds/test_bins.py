"""From a tally to bins."""

import numpy as np
import pyarrow as pa
import pytest

import evenodds as eo
from evenodds.odds.bins import bin_tally, unit_scale
from evenodds.position import PositionBias

NO_BIAS = PositionBias("none", np.array([0]), np.ones(1), np.zeros(1))


def tally_of(scores, **extra):
    rng = np.random.default_rng(0)
    size = len(scores)
    table = {"score": scores, "group": rng.choice(["a", "b"], size), "label": rng.integers(0, 2, size)}
    return eo.tally(pa.table(table), **extra)


def test_quantile_bins_have_equal_mass():
    """Each of 20 quantile bins holds a twentieth of the rows, to a cell's share."""
    bins = bin_tally(tally_of(np.random.default_rng(1).normal(size=20_000)), NO_BIAS, 20, "quantile")
    share = bins.visits.sum(axis=0) / bins.visits.sum()
    assert bins.count == 20
    assert np.abs(share - 0.05).max() < 2e-4


def test_equal_bins_have_equal_width_on_the_unit_scale():
    """Equal bins cut the inverse logit of unbounded scores evenly, to a cell's width."""
    bins = bin_tally(tally_of(np.random.default_rng(2).normal(size=50_000)), NO_BIAS, 10, "equal")
    widths = np.diff(unit_scale(bins.edges))
    assert np.abs(widths - widths.mean()).max() < 0.02 * widths.mean()


def test_no_bin_is_empty_and_no_row_is_lost():
    """Scores with a wide gap give fewer bins, none empty, with all rows in them."""
    scores = np.concatenate(
        (np.random.default_rng(3).uniform(0, 0.1, 5_000), np.random.default_rng(4).uniform(0.9, 1, 5_000))
    )
    bins = bin_tally(tally_of(scores), NO_BIAS, 50, "equal")
    assert (bins.visits.sum(axis=0) > 0).all()
    assert bins.visits.sum() == 10_000
    assert bins.count < 20


@pytest.mark.parametrize("kind", ["score", "rank"])
def test_the_cost_of_a_move_is_the_mean_distance(kind):
    """Cost between two bins is the mean |s - s'| over pairs, in scores or in ranks; a redraw costs E|U - U'|."""
    scores = np.sort(np.random.default_rng(5).beta(2, 5, 40_000))
    bins = bin_tally(tally_of(scores), NO_BIAS, 8, "quantile")
    cost = bins.cost(kind, redrawn=True)
    values = scores if kind == "score" else np.arange(scores.size) / scores.size
    part = np.searchsorted(bins.edges[1:-1], scores, side="right")
    apart = abs(values[part == 6].mean() - values[part == 2].mean())
    assert cost[2, 6] == pytest.approx(apart, rel=2e-3)
    held = values[part == 7][::5]  # the widest bin, far from evenly filled
    assert cost[7, 7] == pytest.approx(np.abs(held[:, None] - held).mean(), rel=0.02)


def test_merit_masses_undo_position_bias(small_biased):
    """Adjusted negatives and positives of each bin add up to the group's impressions."""
    tally, bias = small_biased
    bins = bin_tally(tally, bias, 20, "quantile")
    added = bins.clipped * bins.mass[:, 0].sum(axis=1)
    np.testing.assert_allclose(bins.mass.sum(axis=(1, 2)) - added, bins.visits.sum(axis=1), rtol=1e-9)
    assert (bins.mass >= 0).all()


@pytest.fixture(scope="module")
def small_biased():
    tally = eo.tally(eo.simulate(queries=1_000), cells=500)
    return tally, eo.position_bias(tally)
