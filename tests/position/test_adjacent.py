"""The paper's adjacent-pair estimator."""

import numpy as np
import pytest

import evenodds as eo
from evenodds.position import adjacent
from oracles import positions
from worlds import decay, draw, rows_of, z_scores


@pytest.mark.parametrize("truncate", [30, 4])
def test_it_is_the_papers_formula(truncate):
    """The estimate is the product of the paper's eta, computed row by row, with its truncation."""
    log = draw(np.random.default_rng(0), 3_000, lengths=(6, 6))
    counted = eo.tally(log, cells=10)
    slow = positions.adjacent(rows_of(log, counted.grid.boundaries), truncate)
    fast = eo.position_bias(counted, "adjacent", cells=10, truncate=truncate, cap=1e9)
    assert fast.weights == pytest.approx(list(slow.values()), rel=1e-12)
    if truncate == 4:
        assert len(set(fast.weights[3:])) == 1


def test_the_truncation_counts_positions_from_the_first():
    """With T = 4, w changes up to the fourth position and stays from there on, also from position 0."""
    log = draw(np.random.default_rng(0), 3_000, lengths=(6, 6), first=0)
    weights = eo.position_bias(eo.tally(log, cells=10), "adjacent", cells=10, truncate=4).weights
    assert weights[3] == weights[4] == weights[5] != weights[2]


@pytest.mark.parametrize(
    "world",
    [{}, {"lengths": (4, 12)}, {"lengths": (4, 12), "long_lists": 0.5}],
    ids=["equal lists", "unequal lists", "long lists of low scores"],
)
def test_known_weights_are_recovered(world):
    """Every w is within four standard errors of the truth, whatever the lengths of lists."""
    counted = eo.tally(draw(np.random.default_rng(1), 8_000, **world), cells=1_000)
    bias = eo.position_bias(counted, "adjacent", cells=50)
    assert np.abs(z_scores(bias, decay(12))).max() < 4
    assert np.abs(np.log(bias.weights / decay(bias.weights.size))).mean() < 0.15


def test_standard_errors_are_calibrated():
    """Over ten logs the errors in units of their standard errors have a root mean square of about 1."""
    z = []
    for seed in range(10, 20):
        counted = eo.tally(draw(np.random.default_rng(seed), 4_000), cells=1_000)
        z.append(z_scores(eo.position_bias(counted, "adjacent", cells=50), decay(10)))
    assert 0.6 < np.sqrt(np.mean(np.square(z))) < 1.6


def test_the_cap_bounds_nearly_empty_cells():
    """A cell that hardly any item of the lower position is in weighs no more than the cap allows."""
    impressions = np.array([[50.0, 1.0], [50.0, 99.0]])
    positives = np.array([[25.0, 1.0], [25.0, 20.0]])
    free, capped = (adjacent.estimate(positives, impressions, 30, cap) for cap in (1e9, 2.0))
    below = 0.5
    assert free[1] == pytest.approx((0.5 * 1.0 + 0.5 * 20 / 99) / below)
    assert capped[1] == pytest.approx((0.01 * 2.0 + 0.5 * 20 / 99) / below)


def test_empty_cells_give_no_infinity():
    """Cells that one of two neighbours lacks, or positions without positives, give finite weights."""
    impressions = np.array([[10.0, 0.0, 5.0], [0.0, 10.0, 5.0]])
    positives = np.array([[5.0, 0.0, 0.0], [0.0, 5.0, 0.0]])
    assert np.isfinite(adjacent.estimate(positives, impressions, 30, 100.0)).all()


def test_row_weights_are_heard():
    """Negatives thinned to one in ten, with weight 10, give the same w within the standard errors."""
    log = draw(np.random.default_rng(2), 8_000)
    label = log["label"].to_numpy()
    kept = (label == 1) | (np.random.default_rng(3).random(label.size) < 0.1)
    thinned = log.filter(kept).append_column("weight", [np.where(label[kept] == 1, 1.0, 10.0)])
    bias = eo.position_bias(eo.tally(thinned, cells=1_000), "adjacent", cells=50)
    assert np.abs(z_scores(bias, decay(10))).max() < 4
