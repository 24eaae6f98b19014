"""Where a fair score puts an item."""

import numpy as np
import pyarrow as pa
import pytest
from scipy.stats import binom

import evenodds as eo
from evenodds.exposure import Exposure, companions, misplaced
from evenodds.position import PositionBias


def tally_of_lists(lengths):
    """Count a log with the given lists, one label and group pattern; only positions matter."""
    position = np.concatenate([np.arange(1, n + 1) for n in lengths])
    query = np.repeat(np.arange(len(lengths)), lengths)
    rows = position.size
    return eo.tally(
        pa.table(
            {
                "score": np.linspace(0, 1, rows),
                "group": np.where(np.arange(rows) % 2, "a", "b"),
                "label": np.arange(rows) % 2,
                "position": position,
                "query": query,
            }
        ),
        cells=10,
    )


def bias_of(weights):
    return PositionBias("given", np.arange(1, len(weights) + 1), np.asarray(weights), np.zeros(len(weights)))


@pytest.mark.parametrize("lengths", [[6] * 5, [1, 3, 3, 8]])
def test_it_is_the_binomial_mean_over_list_lengths(lengths):
    """E[w] is the mean over items of sum_j w_j P(1 + Binomial(J - 1, above) = j)."""
    weights = 1 / np.log2(1 + np.arange(1, max(lengths) + 1))
    exposure = Exposure(tally_of_lists(lengths), bias_of(weights))
    for above in (0.0, 0.13, 0.5, 1.0):
        by_list = [binom.pmf(np.arange(n), n - 1, above) @ weights[:n] for n in lengths]
        assert exposure.at(np.array([above]))[0] == pytest.approx(
            np.average(by_list, weights=lengths), abs=1e-6
        )


def test_between_is_the_mean_over_the_stretch():
    """The mean over a stretch of shares equals a fine average of the values in it."""
    exposure = Exposure(tally_of_lists([10] * 4), bias_of(1 / np.arange(1.0, 11.0)))
    fine = exposure.at(np.linspace(0.2, 0.7, 20_001)[:-1] + 0.25 / 20_000).mean()
    assert exposure.between(np.array([0.2]), np.array([0.7]))[0] == pytest.approx(fine, abs=1e-6)
    assert exposure.between(np.array([0.3]), np.array([0.3]))[0] == pytest.approx(
        exposure.at(np.array([0.3]))[0]
    )


def test_pooled_positions_stand_for_longer_lists():
    """With positions pooled past the depth, the deepest items still get the last weight, not more."""
    tally = eo.tally(eo.simulate(queries=50, list_length=30), cells=50, depth=10)
    bias = PositionBias("given", np.arange(1, 12), np.linspace(1, 0.4, 11), np.zeros(11))
    exposure = Exposure(tally, bias)
    assert exposure.at(np.array([1.0]))[0] == pytest.approx(0.4)
    assert exposure.at(np.array([0.0]))[0] == pytest.approx(1.0)


def test_companions_are_found_from_where_items_stood():
    """Viewers who are mostly shown one group: half as many of the others as there are, to within three points."""
    rng = np.random.default_rng(5)
    portion = rng.choice([0.1, 0.9], 3_000)[:, None]
    group = (rng.random((3_000, 20)) < portion).astype(int)
    score = rng.normal(0.8 * group, 1.0)
    order = np.argsort(-score, axis=1)
    log = pa.table(
        {
            "query": np.repeat(np.arange(3_000), 20),
            "position": np.tile(np.arange(1, 21), 3_000),
            "group": np.array(["a", "b"])[np.take_along_axis(group, order, 1).ravel()],
            "score": np.take_along_axis(score, order, 1).ravel(),
            "label": rng.integers(0, 2, 60_000),
        }
    )
    found = companions(eo.tally(log, cells=500))
    assert found == pytest.approx(np.array([[0.82, 0.18], [0.18, 0.82]]), abs=0.03)
    shuffled = log.set_column(
        1, "position", [rng.permuted(log["position"].to_numpy().reshape(-1, 20), axis=1).ravel()]
    )
    alone = companions(eo.tally(shuffled, cells=500))  # not ranked by the score: nothing can be told
    assert alone[0] == pytest.approx(alone[1])


def test_the_reckoning_is_right_where_lists_are_drawn_at_random():
    """Shares of the logged positions come out to within chance; those of a log that was not ranked are left alone."""
    rng = np.random.default_rng(8)
    group = rng.integers(0, 2, (4_000, 10))
    score = rng.normal(0.6 * group, 1.0)
    order = np.argsort(-score, axis=1)
    log = pa.table(
        {
            "query": np.repeat(np.arange(4_000), 10),
            "position": np.tile(np.arange(1, 11), 4_000),
            "group": np.array(["a", "b"])[np.take_along_axis(group, order, 1).ravel()],
            "score": np.take_along_axis(score, order, 1).ravel(),
            "label": rng.integers(0, 2, 40_000),
        }
    )
    assert np.abs(misplaced(eo.tally(log, cells=500))).max() < 4 * 0.5 / 4_000**0.5
    mixed = log.set_column(
        1, "position", [rng.permuted(np.tile(np.arange(1, 11), (4_000, 1)), axis=1).ravel()]
    )
    assert not misplaced(eo.tally(mixed, cells=500)).any()
