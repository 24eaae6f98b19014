"""Equality of opportunity: what it promises, checked on raw rows."""

import warnings
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as pc
import pytest
from hypothesis import given, settings, strategies as st

import evenodds as eo
from evenodds.distance import ks_distance
from evenodds.keys import key_words, uniforms
from evenodds.simulate import draw_population, outcome_on_fresh_lists, position_weights
from oracles import fairness
from worlds import decay, draw

COMPAS = Path(__file__).parents[2] / "shared" / "data" / "compas" / "two_years.csv"


@pytest.fixture(scope="module")
def log():
    """Rank lists of two groups whose scores differ."""
    table = draw(np.random.default_rng(0), 1_500)
    score = table["score"].to_numpy() - 0.3 * (np.array(table["group"].to_pylist()) == "b")
    return table.set_column(table.column_names.index("score"), "score", [score])


@pytest.fixture(scope="module")
def columns(log):
    return {name: log[name].to_numpy(zero_copy_only=False) for name in log.column_names}


@pytest.fixture(scope="module")
def counts(log):
    return eo.tally(log)


@pytest.fixture(scope="module")
def unit(counts):
    return eo.EqualOpportunity(scale="unit", position_bias=decay(10)).fit(counts)


@pytest.fixture(scope="module")
def original(counts):
    return eo.EqualOpportunity(position_bias=decay(10)).fit(counts)


@pytest.fixture(scope="module")
def oracle(columns):
    """Transform by the paper's formula, with loops, on raw rows."""
    names = ("score", "group", "label", "position")
    scores, groups, labels, positions = (columns[name].tolist() for name in names)
    w = dict(enumerate(decay(10), start=1))
    by_unit = fairness.unit_scores(scores, groups, labels, positions, w)
    return np.array(by_unit), np.array(fairness.original_scale(by_unit, scores))


def test_unit_scores_are_the_papers(unit, columns, oracle):
    """On the unit scale a fair score is F*_c(s), the group's positives weighted by 1 / w, to a cell."""
    fair = unit.transform(columns["score"], columns["group"])
    for name in "ab":
        own = columns["group"] == name
        positive = own & (columns["label"] == 1)
        worth = 1 / decay(10)[columns["position"][positive] - 1]
        step = worth.max() / worth.sum()
        assert np.abs(fair[own] - oracle[0][own]).max() < 2 * step  # a cell holds two rows at most


def test_original_scores_are_the_papers(original, columns, oracle):
    """On the original scale a fair score is F^-1(F~(F*_c(s))), with F over all rows."""
    fair = original.transform(columns["score"], columns["group"])
    ordered = np.sort(columns["score"])
    ranks = [np.searchsorted(ordered, part) / ordered.size for part in (fair, oracle[1])]
    assert np.abs(ranks[0] - ranks[1]).max() < 0.008  # where the one group ends, in rows without positives
    assert np.abs(ranks[0] - ranks[1]).mean() < 0.0005


def test_fair_scores_are_distributed_as_all_scores_were(original, columns):
    """The original scale is that of all rows; fitted to positives alone it would be another."""
    fair = original.transform(columns["score"], columns["group"])
    assert fairness.ks(fair.tolist(), columns["score"].tolist()) < 0.005
    positives = columns["score"][columns["label"] == 1]
    assert ks_distance(columns["score"], positives) > 0.1


def test_positives_given_merit_are_uniform_on_the_unit_scale(unit, columns):
    """Weighted by 1 / w, each group's fair scores of positives are uniform on [0, 1]."""
    fair = unit.transform(columns["score"], columns["group"])
    for name in "ab":
        own = (columns["group"] == name) & (columns["label"] == 1)
        order = np.argsort(fair[own])
        weight = 1 / decay(10)[columns["position"][own][order] - 1]
        height = np.cumsum(weight) / weight.sum()
        assert np.abs(height - fair[own][order]).max() < 2.1 * weight.max() / weight.sum()


def test_fresh_lists_of_the_population_are_fair(fitted):
    """Fresh lists, ranked anew, clicks drawn anew: among observed positives the groups hardly differ."""
    population = draw_population(seed=0)
    before = outcome_on_fresh_lists(population, queries=4_000, seed=1)
    after = outcome_on_fresh_lists(population, fitted.transform, queries=4_000, seed=1)
    noise = np.sqrt(2 / (0.14 * 4_000 * 50 / 2))  # of a KS distance between samples of half the clicks each
    assert before.observed[1] > 0.5
    assert after.observed[1] < 0.02 + noise
    assert after.merit[1] < 0.02 + noise
    assert after.click_rate > before.click_rate


def test_without_correction_fresh_lists_are_unfair(counted):
    """Position bias matters: with w = 1 the same fit leaves a distance several times as large."""
    population = draw_population(seed=0)
    plain = eo.EqualOpportunity(position_bias="none").fit(counted)
    true = eo.EqualOpportunity(position_bias=position_weights(50)).fit(counted)
    left, right = (
        outcome_on_fresh_lists(population, model.transform, queries=4_000, seed=1).observed[1]
        for model in (plain, true)
    )
    assert left > 0.07
    assert right < 0.02


def test_a_down_sampled_log_gives_the_same_fair_scores(log, original, columns):
    """Negatives thinned to one in ten, with weight 10, give fair scores within the noise of the thinning."""
    kept = (columns["label"] == 1) | (np.random.default_rng(6).random(log.num_rows) < 0.1)
    thinned = log.filter(kept).append_column("weight", [np.where(columns["label"][kept] == 1, 1.0, 10.0)])
    scores, groups = columns["score"], columns["group"]
    whole = original.transform(scores, groups)
    # 1,000 rows stand for 10,000 negatives: shares of all scores have an error of 0.016 at most.
    noise = 0.5 / np.sqrt(kept.sum() - columns["label"].sum())
    weighted, deaf = (
        eo.EqualOpportunity(position_bias=decay(10)).fit(thinned, weight=weight)
        for weight in ("weight", None)
    )
    ordered = np.sort(scores)
    off = [
        np.abs(
            np.searchsorted(ordered, model.transform(scores, groups)) - np.searchsorted(ordered, whole)
        ).max()
        / ordered.size
        for model in (weighted, deaf)
    ]
    assert off[0] < 2 * noise  # Kolmogorov: p = 0.0007
    assert off[1] > 2.5 * noise  # without weights it would be another scale


def test_alpha_zero_leaves_scores_exactly(counts, columns):
    """With alpha 0 the fair score is the score, bit for bit."""
    model = eo.EqualOpportunity(alpha=0.0).fit(counts)
    assert (model.transform(columns["score"], columns["group"]) == columns["score"]).all()


@pytest.mark.parametrize("scale", ["unit", "original"])
def test_alpha_is_linear(counts, columns, scale):
    """Fair scores lie on the straight line from the score to the wholly fair score."""
    scores, groups = columns["score"], columns["group"]
    whole = eo.EqualOpportunity(scale=scale).fit(counts).transform(scores, groups)
    for alpha in (0.25, 0.8):
        model = eo.EqualOpportunity(scale=scale, alpha=alpha).fit(counts)
        assert model.transform(scores, groups) == pytest.approx(
            alpha * whole + (1 - alpha) * scores, abs=1e-14
        )


def test_alpha_trades_unfairness(counts):
    """The unfairness that is left falls as alpha rises."""
    left = [
        eo.EqualOpportunity(alpha=alpha).fit(counts).diagnostics_["unfairness"]["after"]
        for alpha in (0, 0.5, 1)
    ]
    assert left[0] > left[1] > left[2]
    assert left[2] < 1e-4


@given(st.integers(0, 10**6), st.sampled_from("ab"), st.sampled_from(["unit", "original"]))
@settings(max_examples=30)
def test_fair_scores_are_monotone_within_a_group(unit, original, seed, group, scale):
    """Within a group a higher score never gets a lower fair score, inside and outside the log's range."""
    scores = np.sort(np.random.default_rng(seed).uniform(-1, 2, 200))
    fair = (unit if scale == "unit" else original).transform(scores, [group] * 200)
    assert (np.diff(fair) >= 0).all()


def test_scores_that_differ_stay_apart(unit):
    """Within the log's range scores that differ by much stay different, also where a group has no positives."""
    scores = np.linspace(-0.25, 0.95, 100)
    for group in "ab":
        inside = scores > 0.02 if group == "a" else scores < 0.65
        assert (np.diff(unit.transform(scores[inside], [group] * int(inside.sum()))) > 0).all()


def test_scores_below_all_positives_stay_in_order():
    """Where a group has rows but no positives its map still rises, so that scores do not end up tied."""
    score = np.random.default_rng(5).random(4_000)
    label = (score > 0.4) & (np.arange(4_000) % 3 == 0)
    table = pa.table({"score": score, "group": ["a", "b"] * 2_000, "label": label})
    model = eo.EqualOpportunity(scale="unit").fit(eo.tally(table, cells=100))
    low = np.linspace(0.01, 0.38, 30)
    assert (np.diff(model.transform(low, ["a"] * 30)) > 0).all()


def test_cubic_and_linear_agree_between_many_points(counts, columns):
    """With 10,000 points the interpolations differ by less than a cell's height; with 20 by more."""
    scores, groups = columns["score"], columns["group"]
    for points, most, least in ((10_000, 1e-2, 0.0), (20, 0.1, 1e-3)):
        linear, cubic = (
            eo.EqualOpportunity(scale="unit", points=points, interpolation=kind)
            .fit(counts)
            .transform(scores, groups)
            for kind in ("linear", "cubic")
        )
        assert least <= np.abs(linear - cubic).max() < most


def test_fewer_points_give_a_smaller_model(counts, columns):
    """Points bound the size of the tables, at a small price in exactness."""
    few = eo.EqualOpportunity(points=200, position_bias=decay(10)).fit(counts)
    many = eo.EqualOpportunity(position_bias=decay(10)).fit(counts)
    assert few.maps_.grid.cells <= 201
    fair = [model.transform(columns["score"], columns["group"]) for model in (few, many)]
    assert np.abs(fair[0] - fair[1]).mean() < 0.01


# Ties


@pytest.fixture(scope="module")
def tied_model(tied):
    return eo.EqualOpportunity().fit(tied)


@pytest.mark.parametrize("scale", ["original", "unit"])
def test_ten_tied_scores_end_fair_among_positives(tied, scale):
    """A score of ten values ends with hardly any distance among positives: atoms are drawn by key."""
    model = eo.EqualOpportunity(scale=scale).fit(tied)
    group, label = np.array(tied["group"].to_pylist()), tied["label"].to_numpy()
    fair = model.transform(tied["score"], tied["group"], keys=tied["item"])
    parts = [(group == name) & (label == 1) for name in "ab"]
    noise = np.sqrt(sum(1 / part.sum() for part in parts))
    assert ks_distance(*(tied["score"].to_numpy()[part] for part in parts)) > 0.2
    assert ks_distance(*(fair[part] for part in parts)) < 1.8 * noise  # p = 0.003 for the draws alone
    assert model.diagnostics_["unfairness"]["after"] < 1e-4
    assert model.diagnostics_["tied_rows"] == 1.0


def test_draws_follow_the_distributional_transform(tied):
    """On the unit scale an atom's fair score is F(s-) + u (F(s) - F(s-)), with u the key's own number."""
    model = eo.EqualOpportunity(scale="unit").fit(tied)
    group, label, score = (
        np.array(tied["group"].to_pylist()),
        tied["label"].to_numpy(),
        tied["score"].to_numpy(),
    )
    own = score[(group == "a") & (label == 1)]
    below, at = (own < 0.5).mean(), (own <= 0.5).mean()
    keys = np.arange(1_000)
    fair = model.transform(np.full(1_000, 0.5), ["a"] * 1_000, keys=keys)
    assert fair == pytest.approx(below + uniforms(key_words(keys), model.salt_) * (at - below), abs=1e-5)


def test_draws_repeat_by_key(tied, tied_model):
    """The same keys give the same fair scores; other keys, and another model, give other ones."""
    scores, groups, keys = tied["score"].to_numpy(), tied["group"], tied["item"].to_numpy()
    first = tied_model.transform(scores, groups, keys=keys)
    assert (tied_model.transform(scores, groups, keys=keys) == first).all()
    assert (tied_model.transform(scores, groups, keys=keys + 1) != first).any()


def test_one_by_one_equals_one_batch_bit_for_bit(tied, tied_model, columns, original):
    """Items transformed alone, in a batch, or in a batch in another order get the same fair score."""
    tables = [
        (tied_model, tied["score"].to_numpy(), np.array(tied["group"].to_pylist()), tied["item"].to_numpy()),
        (original, columns["score"], columns["group"], np.arange(columns["score"].size)),
    ]
    for model, scores, groups, keys in tables:
        whole = model.transform(scores, groups, keys=keys)
        for i in range(0, 300, 7):
            assert model.transform(scores[i : i + 1], [groups[i]], keys=keys[i : i + 1])[0] == whole[i]
        order = np.random.default_rng(0).permutation(scores.size)
        assert (model.transform(scores[order], groups[order], keys=keys[order]) == whole[order]).all()


def test_draws_without_keys_are_said_and_repeat_by_seed(tied_model):
    """Without keys a warning names the seed that repeats the draws; with a seed nothing is warned of."""
    with pytest.warns(eo.RandomDrawWarning, match=r"seed=\d+ repeats them") as caught:
        fair = tied_model.transform([0.5] * 50, ["a"] * 50)
    seed = int(str(caught[0].message).split("seed=")[1].split()[0])
    assert (tied_model.transform([0.5] * 50, ["a"] * 50, seed=seed) == fair).all()
    assert (tied_model.transform([0.5] * 50, ["a"] * 50, seed=seed + 1) != fair).any()


def test_without_ties_nothing_is_drawn(original, columns):
    """A log without ties makes a deterministic model: keys change nothing, and none are asked for."""
    assert not original.draws_
    scores, groups = columns["score"][:100], columns["group"][:100]
    plain = original.transform(scores, groups)
    assert (original.transform(scores, groups, keys=[f"k{i}" for i in range(100)]) == plain).all()


def test_keys_do_not_touch_scores_beside_an_atom():
    """In a log with one tied value, keys move that value only."""
    rng = np.random.default_rng(1)
    scores = np.where(rng.random(6_000) < 0.3, 0.5, rng.random(6_000))
    table = {"score": scores, "group": ["a", "b"] * 3_000, "label": (rng.random(6_000) < scores).astype(int)}
    model = eo.EqualOpportunity().fit(pa.table(table))
    one, two = (
        model.transform(scores, table["group"], keys=np.arange(6_000) + shift) for shift in (0, 9_999)
    )
    assert (one == two)[scores != 0.5].all()
    assert (one != two)[scores == 0.5].mean() > 0.99
    assert np.ptp(one[scores == 0.5]) < 0.05  # the share of the atom differs a little between the groups


@pytest.mark.skipif(not COMPAS.exists(), reason="the COMPAS data are not there")
@pytest.mark.parametrize("column", ["race", "sex"])
def test_compas_scores_end_fair(column):
    """COMPAS deciles: 0.22 between the races before; after, hardly anything in any group large enough."""
    table = pc.read_csv(COMPAS)
    score, label, names = (
        table[name].to_numpy(zero_copy_only=False) for name in ("decile_score", "two_year_recid", column)
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", eo.SmallGroupWarning)  # a few Asians and Native Americans
        model = eo.EqualOpportunity().fit(table, score="decile_score", label="two_year_recid", group=column)
    fair = model.transform(score, names, keys=table["id"])
    large = [name for name in set(names) if ((names == name) & (label == 1)).sum() >= 200]
    assert len(large) >= 2
    for one in large:
        for other in large:
            parts = [(names == name) & (label == 1) for name in (one, other)]
            noise = np.sqrt(sum(1 / part.sum() for part in parts))
            assert ks_distance(*(fair[part] for part in parts)) < 1.9 * noise
    if column == "race":
        parts = [(names == name) & (label == 1) for name in ("African-American", "Caucasian")]
        assert ks_distance(*(score[part].astype(float) for part in parts)) == pytest.approx(0.2215, abs=1e-4)
