"""Randomly swapped neighbours."""

import numpy as np
import pytest

import evenodds as eo
from oracles import positions
from worlds import decay, draw, rows_of, z_scores


def swapped(seed, queries=6_000, **world):
    return draw(np.random.default_rng(seed), queries, order="swapped", **world)


def test_it_is_the_product_of_ratios_within_pairs():
    """The estimate is the product of lower over upper rates, pair by pair, row by row."""
    log = swapped(0, 3_000, lengths=(4, 7))
    slow = positions.swaps(rows_of(log))
    assert eo.position_bias(eo.tally(log, cells=5, swap="swap"), "swaps").weights == pytest.approx(
        list(slow.values()), rel=1e-12
    )


@pytest.mark.parametrize("first", [0, 1])
@pytest.mark.parametrize(
    "world",
    [{}, {"lengths": (4, 12)}, {"lengths": (4, 12), "long_lists": 0.7}],
    ids=["equal lists", "unequal lists", "long lists of low scores"],
)
def test_known_weights_are_recovered(world, first):
    """Every w is within four standard errors of the truth, whatever the lengths of lists and the first slot."""
    log = swapped(1, first=first, **world)
    bias = eo.position_bias(eo.tally(log, cells=100, swap="swap"), "swaps")
    assert bias.positions[0] == first
    assert np.abs(z_scores(bias, decay(12))).max() < 4
    assert np.abs(np.log(bias.weights / decay(bias.weights.size))).mean() < 0.2


def test_standard_errors_are_calibrated():
    """Over ten logs the errors in units of their standard errors have a root mean square of about 1."""
    z = [
        z_scores(eo.position_bias(eo.tally(swapped(seed, 3_000), cells=5, swap="swap"), "swaps"), decay(10))
        for seed in range(10, 20)
    ]
    assert 0.7 < np.sqrt(np.mean(np.square(z))) < 1.4


def test_without_queries_errors_are_those_of_independent_rows():
    """Without a query column the standard errors are Poisson's, close to those by folds of queries."""
    log = swapped(2)
    by_fold, poisson = (
        eo.position_bias(eo.tally(log, cells=5, swap="swap", query=query), "swaps")
        for query in ("query", None)
    )
    assert (by_fold.weights == poisson.weights).all()
    ratio = poisson.standard_errors[1:] / by_fold.standard_errors[1:]
    assert 0.6 < ratio.mean() < 1.6


def test_thin_pairs_count_as_equal_and_are_named():
    """A pair with hardly any positives is taken as equal, and the notes name it."""
    log = swapped(3, 1_500)
    label = np.where(log["swap"].to_pandas().to_numpy() == 4, 0, log["label"].to_numpy())
    log = log.set_column(log.column_names.index("label"), "label", [label])
    bias = eo.position_bias(eo.tally(log, cells=5, swap="swap"), "swaps")
    assert bias.weights[4] == bias.weights[3]
    assert np.isfinite(bias.weights).all()
    assert any("1 pairs with fewer than 20 positives" in note and "position 4" in note for note in bias.notes)


def test_the_method_needs_the_column():
    """Without a swap column the method is refused, with a hint."""
    log = swapped(4, 200)
    with pytest.raises(eo.SettingsError, match=r"needs the column that names the swapped pairs.*swap=COLUMN"):
        eo.position_bias(eo.tally(log, cells=5), "swaps")


def test_row_weights_are_heard():
    """Negatives thinned to one in ten, with weight 10, give the same w within the standard errors."""
    log = swapped(5, 8_000)
    label = log["label"].to_numpy()
    kept = (label == 1) | (np.random.default_rng(6).random(label.size) < 0.1)
    thinned = log.filter(kept).append_column("weight", [np.where(label[kept] == 1, 1.0, 10.0)])
    bias = eo.position_bias(eo.tally(thinned, cells=5, swap="swap"), "swaps")
    assert np.abs(z_scores(bias, decay(10))).max() < 4
