"""The joint estimator: its optimum, its recovery of the truth, its test of the assumption."""

import warnings

import numpy as np
import pytest

import evenodds as eo
from evenodds.position import joint
from evenodds.position.smooth import chosen_penalty, roughness
from evenodds.simulate import position_weights
from oracles import positions
from worlds import decay, draw, rows_of, z_scores


def estimate(seed, queries=6_000, **world):
    settings = {name: world.pop(name) for name in ("smooth",) if name in world}
    log = draw(np.random.default_rng(seed), queries, **world)
    return eo.position_bias(eo.tally(log, cells=1_000), **settings)


def test_it_is_the_maximum_of_the_likelihood():
    """Newton's answer is that of the slow oracle, which takes turns between w and the rates of cells."""
    log = draw(np.random.default_rng(0), 1_000, lengths=(3, 6), order="shuffled")
    counted = eo.tally(log, cells=8)
    slow = positions.joint(rows_of(log, counted.grid.boundaries))
    fast = eo.position_bias(counted, "joint", cells=8, smooth=False)
    assert fast.positions.tolist() == list(slow)
    # The estimator's whisper of smoothness is worth a thousandth of a positive.
    assert fast.weights == pytest.approx(list(slow.values()), rel=1e-4)


@pytest.mark.parametrize("smooth", [True, False])
@pytest.mark.parametrize(
    "world",
    [{}, {"lengths": (3, 12)}, {"lengths": (3, 12), "long_lists": 0.5}],
    ids=["equal lists", "unequal lists", "long lists of low scores"],
)
def test_known_weights_are_recovered(world, smooth):
    """Every w is within four standard errors of the truth, also when lists differ in length and in scores."""
    bias = estimate(1, smooth=smooth, **world)
    z = z_scores(bias, decay(12))
    assert np.abs(z).max() < 4
    assert np.abs(np.log(bias.weights / decay(bias.weights.size))).mean() < 0.08
    assert bias.weights[0] == 1.0
    assert bias.standard_errors[0] == 0.0


@pytest.mark.parametrize(("smooth", "band"), [(True, (0.6, 1.5)), (False, (0.75, 1.3))])
def test_standard_errors_are_calibrated(smooth, band):
    """Over ten logs the errors in units of their standard errors have a root mean square of about 1."""
    z = [z_scores(estimate(seed, 6_000, smooth=smooth), decay(10)) for seed in range(20, 30)]
    assert band[0] < np.sqrt(np.mean(np.square(z))) < band[1]


def test_unequal_lists_cut_at_25_leave_the_estimate_at_25():
    """With half of the lists cut at 25, w at 25 stays where it was, within its standard errors.

    A ratio of rates by position over all rows moves from 0.19 to 0.095.
    """
    whole = eo.simulate(4_000, seed=5)
    cut = whole.filter((whole["query"].to_numpy() % 2 == 0) | (whole["position"].to_numpy() <= 25))
    before, after = (eo.position_bias(eo.tally(log, cells=1_000)) for log in (whole, cut))
    for place in (10, 24, 25):  # positions 11, 25, 26: before the cut, at it, behind it
        spread = np.hypot(before.standard_errors[place], after.standard_errors[place])
        assert abs(after.weights[place] - before.weights[place]) < 3 * spread
        assert abs(after.weights[place] - position_weights(50)[place]) < 4 * after.standard_errors[place]


def test_smoothing_halves_the_error_and_keeps_a_page_fold():
    """The evidence chooses much smoothing on a smooth curve, and little where the curve has a step."""
    smooth, rough = (estimate(2, 2_000, lengths=(20, 20), smooth=s) for s in (True, False))
    errors = [np.abs(np.log(bias.weights / decay(20))).mean() for bias in (smooth, rough)]
    assert errors[0] < 0.7 * errors[1]
    fold = np.where(np.arange(20) < 10, 1.0, 0.4)
    found = estimate(3, 6_000, lengths=(20, 20), weights=fold)
    assert found.weights[9] / found.weights[10] == pytest.approx(2.5, rel=0.15)


def test_roughness_is_zero_for_power_laws():
    """The penalty leaves log w alone that is straight in log(1 + slots below the top), and no other."""
    places = np.arange(1, 31)
    penalty = roughness(places)
    straight = -0.7 * np.log(places)
    assert straight @ penalty @ straight == pytest.approx(0, abs=1e-9)
    kinked = straight + 0.1 * (places > 10)
    assert kinked @ penalty @ kinked > 1e-3


@pytest.mark.parametrize("queries", [300, 3_000])
def test_under_the_model_the_test_keeps_its_level(queries):
    """Of 60 logs that obey the model it rejects 5 % at a level of 5 %, in small logs as in larger ones."""
    p_values = np.array([estimate(seed, queries).goodness.p_value for seed in range(60)])
    assert p_values.min() > 0.0005
    assert np.mean(p_values < 0.05) <= 0.05 + 3 * (0.05 * 0.95 / 60) ** 0.5
    assert 0.3 < np.mean(p_values < 0.5) < 0.7


@pytest.mark.parametrize(
    ("order", "weights"),
    [
        ("ranked", lambda place, _score, group: decay(10)[place] ** np.where(group == 0, 0.5, 1.5)),
        # Where lists are strictly ranked by score, a w that depends on the score looks like another rate.
        ("shuffled", lambda place, score, _group: decay(10)[place] ** (0.3 + 1.7 * score)),
    ],
    ids=["by group", "by score"],
)
def test_bias_that_differs_between_items_is_found_out(order, weights):
    """When w depends on the group or on the score, the test fails and a warning says so."""
    log = eo.tally(draw(np.random.default_rng(4), 8_000, weights=weights, order=order), cells=1_000)
    with pytest.warns(eo.HomogeneityWarning, match="position bias is not the same for all items"):
        bias = eo.position_bias(log)
    assert bias.goodness.fails
    assert bias.goodness.p_value < 1e-6
    assert any("not the same for all items" in note for note in bias.notes)
    assert "homogeneity fails" in str(bias)


def test_a_departure_too_small_to_matter_is_not_warned_of():
    """What is certain but under 3 % is measured and not complained about."""
    from evenodds.position.result import Goodness

    assert not Goodness(900.0, 500, 1e-20, 0.029).fails
    assert not Goodness(900.0, 500, 0.01, 0.2).fails
    assert Goodness(900.0, 500, 1e-20, 0.031).fails


def test_row_weights_do_not_disturb_the_test():
    """Down-sampled negatives with weights keep the test's level: its variance knows the weights."""
    p_values = []
    for seed in range(60, 68):
        log = draw(np.random.default_rng(seed), 4_000)
        label = log["label"].to_numpy()
        kept = (label == 1) | (np.random.default_rng(seed + 1).random(label.size) < 0.2)
        weighted = log.filter(kept).append_column("weight", [np.where(label[kept] == 1, 1.0, 5.0)])
        p_values.append(eo.position_bias(eo.tally(weighted, cells=1_000)).goodness.p_value)
    assert min(p_values) > 0.001
    assert max(p_values) < 1 - 1e-6  # no variance of more than there is, either


def test_down_sampled_negatives_recover_the_same_weights():
    """Negatives thinned to one in ten, with weight 10, give the same w within the standard errors."""
    log = draw(np.random.default_rng(6), 8_000)
    label = log["label"].to_numpy()
    kept = (label == 1) | (np.random.default_rng(7).random(label.size) < 0.1)
    thinned = log.filter(kept).append_column("weight", [np.where(label[kept] == 1, 1.0, 10.0)])
    bias = eo.position_bias(eo.tally(thinned, cells=1_000))
    assert np.abs(z_scores(bias, decay(10))).max() < 4
    unweighted = eo.position_bias(eo.tally(thinned, cells=1_000, weight=None))
    assert np.abs(z_scores(unweighted, decay(10))).max() > 6  # without weights it would be wrong


def test_positions_without_positives_give_no_infinity():
    """A position without a single positive shares its neighbours' weight: finite, and said."""
    log = draw(np.random.default_rng(8), 2_000)
    label = np.where(log["position"].to_numpy() == 7, 0, log["label"].to_numpy())
    log = log.set_column(log.column_names.index("label"), "label", [label])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", eo.HomogeneityWarning)
        bias = eo.position_bias(eo.tally(log, cells=200))
    assert np.isfinite(bias.weights).all()
    assert (bias.weights > 0).all()
    assert np.isfinite(bias.standard_errors).all()
    assert bias.weights[6] == bias.weights[7]
    assert any("positives share a weight with their neighbours, from position 7 on" in n for n in bias.notes)


def test_scores_never_seen_at_two_positions_leave_the_weights_finite():
    """Where no score cell is shared between positions, nothing can be said, and w stays put."""
    place = np.repeat(np.arange(4), 100)
    positives, impressions = np.zeros((4, 4)), np.zeros((4, 4))
    np.add.at(impressions, (place, place), 1)
    positives[np.arange(4), np.arange(4)] = [50, 40, 30, 20]
    assert joint.estimate(positives, impressions) == pytest.approx(1.0)


def test_the_parts_of_smoothing_point_the_same_way_on_every_processor(monkeypatch):
    """An eigenvector's sign is a matter of the processor; what smoothing adds to the error does not follow it."""
    positions = np.arange(1, 11)
    curvature = np.diag(np.linspace(400.0, 40.0, 10)) + 5.0
    theta = -0.4 * np.log(positions) + 0.05 * np.cos(positions)
    _, parts = chosen_penalty(theta, curvature, positions)
    usual = np.linalg.eigh
    monkeypatch.setattr(np.linalg, "eigh", lambda matrix: (usual(matrix)[0], -usual(matrix)[1]))
    _, turned = chosen_penalty(theta, curvature, positions)
    assert len(parts) > 1
    assert parts == pytest.approx(turned, abs=1e-12)
