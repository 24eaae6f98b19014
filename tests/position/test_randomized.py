"""Ratio of rates, for logs of shuffled slots."""

import numpy as np
import pytest

import evenodds as eo
from oracles import positions
from worlds import decay, draw, rows_of, z_scores


def test_it_is_the_ratio_of_rates():
    """With equal lists the estimate is the rate at each position over that at the first."""
    log = draw(np.random.default_rng(0), 2_000, order="shuffled")
    slow = positions.randomized(rows_of(log))
    assert eo.position_bias(eo.tally(log, cells=50), "randomized").weights == pytest.approx(
        list(slow.values()), rel=1e-12
    )


@pytest.mark.parametrize(
    "world",
    [{}, {"lengths": (3, 12)}, {"lengths": (3, 12), "long_lists": 0.7}],
    ids=["equal lists", "unequal lists", "long lists of low scores"],
)
def test_known_weights_are_recovered(world):
    """Every w is within four standard errors of the truth, whatever the lengths of lists."""
    log = draw(np.random.default_rng(1), 6_000, order="shuffled", **world)
    bias = eo.position_bias(eo.tally(log, cells=500), "randomized")
    assert np.abs(z_scores(bias, decay(12))).max() < 4
    assert np.abs(np.log(bias.weights / decay(bias.weights.size))).mean() < 0.08


def test_the_plain_ratio_would_be_wrong_for_unequal_lists():
    """Where long lists hold low scores, the plain ratio is off by many standard errors, and ours is not."""
    log = draw(
        np.random.default_rng(2),
        8_000,
        order="shuffled",
        lengths=(3, 12),
        long_lists=0.9,
        rate=lambda score, _group: 0.05 + 0.9 * score,
    )
    bias = eo.position_bias(eo.tally(log, cells=500), "randomized")
    plain = positions.randomized(rows_of(log))[10]
    assert abs(np.log(plain / decay(10)[9])) > 5 * bias.standard_errors[9] / bias.weights[9]
    assert abs(z_scores(bias, decay(12))[8]) < 4
    assert "lists differ in length: rates are compared within group and score" in bias.notes


def test_standard_errors_are_calibrated():
    """Over ten logs the errors in units of their standard errors have a root mean square of about 1."""
    z = [
        z_scores(
            eo.position_bias(
                eo.tally(draw(np.random.default_rng(seed), 2_000, order="shuffled"), cells=100), "randomized"
            ),
            decay(10),
        )
        for seed in range(10, 20)
    ]
    assert 0.7 < np.sqrt(np.mean(np.square(z))) < 1.4


def test_row_weights_are_heard():
    """Negatives thinned to one in ten, with weight 10, give the same w within the standard errors."""
    log = draw(np.random.default_rng(3), 6_000, order="shuffled")
    label = log["label"].to_numpy()
    kept = (label == 1) | (np.random.default_rng(4).random(label.size) < 0.1)
    thinned = log.filter(kept).append_column("weight", [np.where(label[kept] == 1, 1.0, 10.0)])
    bias = eo.position_bias(eo.tally(thinned, cells=500), "randomized")
    assert np.abs(z_scores(bias, decay(10))).max() < 4
