"""Undoing position bias on the counts."""

import numpy as np
import pytest

import evenodds as eo
from evenodds.merit import clipped, merit_mass, position_weights, unclipped_mass
from worlds import decay, draw


@pytest.fixture(scope="module")
def tally():
    return eo.tally(draw(np.random.default_rng(0), 4_000), cells=50)


def test_positives_weigh_one_over_w(tally):
    """A positive at position j counts 1 / w_j; what it gains is taken from the negatives of its cell."""
    bias = eo.position_bias(tally, decay(10))
    mass = unclipped_mass(tally, bias)
    counts = tally.counts
    for group, cell in ((0, 0), (1, 17), (0, 49)):
        worth = sum(counts[group, 1, j, cell] / decay(10)[j - 1] for j in range(1, 11))
        assert mass[group, 1, cell] == pytest.approx(worth)
        assert mass[group, :, cell].sum() == pytest.approx(counts[group, :, :, cell].sum())


def test_without_position_bias_nothing_is_adjusted(tally):
    """With w = 1 the merit mass is the counts."""
    bias = eo.position_bias(tally, "none")
    assert (merit_mass(tally, bias) == tally.counts.sum(axis=2)).all()


def test_weights_lie_along_the_position_axis(tally):
    """The weights have the length of the counts' position axis, slot 0 included."""
    weights = position_weights(tally, eo.position_bias(tally, decay(10)))
    assert weights.size == tally.counts.shape[2] == 11
    assert weights[1:] == pytest.approx(decay(10))
    assert weights[0] == 1.0


def test_clipping_says_how_much_it_added():
    """Negatives below zero become zero; the share of a group's negatives that this adds is returned."""
    merit = np.array([[[-2.0, 8.0], [5.0, 1.0]], [[4.0, 6.0], [1.0, 1.0]]])
    kept, added = clipped(merit)
    assert kept[:, 0].tolist() == [[0.0, 8.0], [4.0, 6.0]]
    assert added.tolist() == [0.25, 0.0]


def test_no_mass_is_negative_and_positives_stay(tally):
    """Whatever w, no merit mass is below zero, and positives are never clipped."""
    bias = eo.position_bias(tally, decay(10) ** 3)
    mass = merit_mass(tally, bias)
    assert (unclipped_mass(tally, bias)[:, 0] < 0).any()
    assert (mass >= 0).all()
    assert (mass[:, 1] == unclipped_mass(tally, bias)[:, 1]).all()


def test_the_share_of_merit_is_recovered():
    """The share of merit positives by group is the world's own: 0.15 + 0.5 / 2, and 0.2 more for group b."""
    tally = eo.tally(draw(np.random.default_rng(1), 8_000), cells=100)
    mass = merit_mass(tally, eo.position_bias(tally, decay(10))).sum(axis=2)
    share = mass[:, 1] / mass.sum(axis=1)
    # One row weighs at most 1 / w_10 = 3.5, so the share's standard error is below 3.5 * 0.5 / sqrt(40,000).
    assert share == pytest.approx([0.40, 0.60], abs=4 * 3.5 * 0.5 / np.sqrt(40_000))
