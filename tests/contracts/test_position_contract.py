"""What every estimator of position bias must do. A new method joins by its name in METHODS and its log below."""

import numpy as np
import pyarrow as pa
import pytest

import evenodds as eo
from evenodds.position import METHODS
from worlds import decay, draw, z_scores

# The log that a method is made for: how its lists are ordered. "none" assumes that there is nothing to find.
MADE_FOR = {
    "joint": "ranked",
    "adjacent": "ranked",
    "randomized": "shuffled",
    "swaps": "swapped",
    "none": "shuffled",
}
METHOD = pytest.mark.parametrize("method", METHODS)


def drawn(method, seed=0, queries=3_000):
    flat = {"weights": np.ones(10)} if method == "none" else {}
    return draw(np.random.default_rng(seed), queries, order=MADE_FOR[method], **flat)


def counted(log, method, **settings):
    return eo.tally(log, cells=200, swap="swap" if MADE_FOR[method] == "swapped" else None, **settings)


def test_every_method_is_under_contract():
    """A method that is added to METHODS says here which log it is made for."""
    assert set(MADE_FOR) == set(METHODS)


@METHOD
def test_it_finds_the_truth_within_its_own_errors(method):
    """On the log it is made for no log w is more than four standard errors (or 5 %) from the truth."""
    bias = eo.position_bias(counted(drawn(method, queries=6_000), method), method)
    truth = np.ones(10) if method == "none" else decay(10)
    off = np.abs(np.log(bias.weights / truth))
    known = bias.standard_errors[1:] > 0
    assert off[1:][~known].max(initial=0) < 0.05
    with np.errstate(invalid="ignore"):  # "none" is sure of itself: 0 / 0
        z = np.abs(z_scores(bias, truth)[known])
    assert z.max(initial=0) < 4


@METHOD
def test_weights_are_positive_and_one_at_the_top(method):
    """The first weight is 1; every weight and every error is finite, weights above 0, errors not below."""
    bias = eo.position_bias(counted(drawn(method), method), method)
    assert bias.weights[0] == 1.0
    assert bias.standard_errors[0] == 0.0
    assert (np.isfinite(bias.weights) & (bias.weights > 0)).all()
    assert (np.isfinite(bias.standard_errors) & (bias.standard_errors >= 0)).all()
    assert bias.positions.tolist() == list(range(1, 11))


@METHOD
def test_the_order_of_rows_and_shards_changes_nothing(method):
    """Rows shuffled and counted in three parts give the same bits."""
    log = drawn(method, queries=800)
    whole = counted(log, method)
    shuffled = log.take(np.random.default_rng(1).permutation(log.num_rows))
    parts = [
        counted(shuffled.slice(start, 3_000), method, grid=whole.grid)
        for start in range(0, log.num_rows, 3_000)
    ]
    one, other = (eo.position_bias(tally, method) for tally in (whole, sum(parts)))
    assert one.weights.tobytes() == other.weights.tobytes()
    assert one.standard_errors.tobytes() == other.standard_errors.tobytes()


@pytest.mark.filterwarnings(
    "ignore::evenodds.errors.HomogeneityWarning"
)  # rows that stand twice do scatter more
@METHOD
def test_a_weight_of_two_is_two_rows(method):
    """Row weights reach the estimate: what is weighted twice counts as if it stood in the log twice."""
    log = drawn(method, queries=800)
    twice = pa.array(1.0 + (np.arange(log.num_rows) // 10 % 2))  # every second list
    grid = counted(log, method).grid
    weighted = counted(log.append_column("weight", twice), method, grid=grid)
    doubled = counted(pa.concat_tables([log, log.filter(pa.array(twice.to_numpy() == 2))]), method, grid=grid)
    one, other = (eo.position_bias(tally, method) for tally in (weighted, doubled))
    # joint widens its cells where rows carry weights, which moves w by less than its error.
    tolerance = np.maximum(0.5 * other.standard_errors, 1e-9)
    assert (np.abs(one.weights - other.weights) <= tolerance).all()


@METHOD
def test_a_model_can_be_fitted_with_it_saved_and_read(method, tmp_path):
    """The estimate goes into a model file and comes back, to the twelve digits that are written."""
    model = eo.EqualOpportunity(position_bias=method, points=100).fit(counted(drawn(method), method))
    model.save(tmp_path / "model.json")
    again = eo.load(tmp_path / "model.json")
    assert again.position_bias_.method == model.position_bias_.method
    assert again.position_bias_.weights == pytest.approx(model.position_bias_.weights, abs=1e-11)
