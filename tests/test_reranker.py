"""The fitted thing: settings, unknown groups, updating."""

import numpy as np
import pyarrow as pa
import pytest

import evenodds as eo
from worlds import draw


@pytest.fixture(scope="module")
def log():
    return draw(np.random.default_rng(0), 800)


@pytest.fixture(scope="module")
def counts(log):
    return eo.tally(log, cells=300)


@pytest.fixture(scope="module")
def model(counts):
    return eo.EqualOpportunity().fit(counts)


@pytest.fixture(scope="module")
def with_small_group(log):
    """Add a third group with a dozen positives."""
    rng = np.random.default_rng(1)
    group = np.array(log["group"].to_pylist(), dtype=object)
    group[rng.random(group.size) < 0.006] = "c"
    return eo.tally(log.set_column(log.column_names.index("group"), "group", [pa.array(group)]), cells=300)


# Fitting


def test_anything_that_can_be_counted_can_be_fitted(log, counts, model):
    """A tally, a list of tallies, a Log, and a table with roles all give the same model."""
    halves = [eo.tally(log.slice(*cut), grid=counts) for cut in ((0, 3_000), (3_000,))]
    renamed = log.rename_columns({"score": "s"})
    for data, roles in (
        (halves, {}),
        (eo.Log(log), {}),
        (renamed, {"score": "s"}),
    ):
        grid = {} if data is halves else {"grid": counts.grid}
        other = (
            eo.EqualOpportunity().fit(data, **roles)
            if data is halves
            else eo.EqualOpportunity().fit(eo.tally(data, **roles, **grid))
        )
        scores, groups = np.linspace(0, 1, 50), ["a", "b"] * 25
        assert (other.transform(scores, groups) == model.transform(scores, groups)).all()
    assert eo.EqualOpportunity().fit(log).fitted_on_["rows"] == log.num_rows
    assert eo.EqualOpportunity().fit(renamed, score="s").fitted_on_["roles"]["score"] == "s"


def test_fit_returns_the_model_and_keeps_its_settings(counts):
    """Fitting returns self; settings stay as they were given; fitted state ends in an underscore."""
    estimator = eo.EqualOpportunity(alpha=0.5, points=100)
    assert estimator.fit(counts) is estimator
    assert (estimator.alpha, estimator.points) == (0.5, 100)
    assert estimator.groups_ == (("a",), ("b",))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"alpha": 1.5}, r"alpha must lie in 0\.\.1, got 1.5"),
        ({"alpha": -0.1}, "alpha must lie in"),
        ({"alpha": float("nan")}, "alpha must lie in"),
        ({"scale": "log"}, "scale must be 'original' or 'unit', got 'log'"),
        ({"points": 1}, "points must lie in"),
        ({"interpolation": "quintic"}, "interpolation must be"),
        ({"min_positives": 0}, "min_positives must be at least 1"),
        ({"unknown": "drop"}, "unknown must be one of pooled, keep, error, got 'drop'"),
        ({"unknown": "keep", "scale": "unit"}, "mixes scores of two scales"),
        ({"position_bias": "joimt"}, "unknown position-bias method"),
    ],
    ids=str,
)
def test_settings_outside_their_range_are_refused(counts, settings, message):
    """Each setting is checked when fitting, with what was expected."""
    with pytest.raises(eo.SettingsError, match=message):
        eo.EqualOpportunity(**settings).fit(counts)


def test_a_model_that_is_not_fitted_says_so():
    """Transforming or saving before fitting is refused in words."""
    for call in (lambda m: m.transform([0.5], ["a"]), lambda m: m.save("x.json")):
        with pytest.raises(eo.EvenoddsError, match=r"this EqualOpportunity is not fitted.*call fit first"):
            call(eo.EqualOpportunity())


def test_a_small_group_takes_the_pooled_map(with_small_group):
    """A group under the floor is transformed as all groups together; a warning and the diagnostics say so."""
    with pytest.warns(
        eo.SmallGroupWarning, match=r"group c has \d+ positives, fewer than 50: it takes the map"
    ):
        model = eo.EqualOpportunity().fit(with_small_group)
    scores = np.linspace(0, 1, 200)
    as_c, as_unseen, as_a = (model.transform(scores, [name] * 200) for name in ("c", "unseen", "a"))
    assert (as_c == as_unseen).all()
    assert (as_c != as_a).any()
    maps = {group["group"]: group["map"] for group in model.diagnostics_["groups"]}
    assert maps == {"a": "own", "b": "own", "c": "pooled"}
    assert any(note.startswith("group c has") for note in model.diagnostics_["notes"])


def test_the_floor_can_be_lowered(with_small_group):
    """With a lower floor the same group gets a map of its own, without a warning."""
    model = eo.EqualOpportunity(min_positives=5).fit(with_small_group)
    scores = np.linspace(0, 1, 200)
    assert (model.transform(scores, ["c"] * 200) != model.transform(scores, ["unseen"] * 200)).any()


def test_the_floor_counts_evidence_not_weight(log, counts):
    """Weights that are all doubled lend no more evidence: 30 positives stay 30."""
    rows = log.slice(0, 250)
    heavy = rows.append_column("weight", [np.full(250, 1_000.0)])
    fewest = eo.tally(rows).effective_positives().min()
    assert eo.tally(heavy).effective_positives().min() == pytest.approx(fewest)
    with pytest.raises(eo.TallyError, match="no group has 500 positives"):
        eo.EqualOpportunity(min_positives=500).fit(heavy)


def test_a_group_without_positives_is_served_and_named(log):
    """A group without a single positive takes the pooled map, and the diagnostics say 0 positives."""
    label = np.where(np.array(log["group"].to_pylist()) == "a", 0, log["label"].to_numpy())
    spoilt = log.set_column(log.column_names.index("label"), "label", [label])
    with pytest.warns(eo.SmallGroupWarning, match="group a has 0 positives"):
        model = eo.EqualOpportunity().fit(eo.tally(spoilt, cells=300))
    assert np.isfinite(model.transform([0.1, 0.9], ["a", "b"])).all()
    assert np.isfinite(model.diagnostics_["unfairness"]["after"])


def test_a_group_of_weight_zero_does_no_harm(log):
    """Rows that weigh nothing, even a whole group of them, make no NaN anywhere."""
    weight = (np.array(log["group"].to_pylist()) != "a").astype(float)
    group = np.where(np.arange(log.num_rows) % 2, "c", np.array(log["group"].to_pylist()))
    weighted = log.append_column("weight", [np.where(group == "c", 1.0, weight)])
    weighted = weighted.set_column(log.column_names.index("group"), "group", [pa.array(group)])
    with pytest.warns(eo.SmallGroupWarning, match="group a has 0 positives"):
        model = eo.EqualOpportunity().fit(eo.tally(weighted, cells=300))
    assert np.isfinite(model.transform(np.linspace(0, 1, 30), ["a", "b", "c"] * 10)).all()


def test_one_group_and_no_positives_are_refused(log):
    """A log with one group, or without positives, is refused before anything is fitted."""
    with pytest.raises(eo.TallyError, match="only one group"):
        eo.EqualOpportunity().fit(log.filter(np.array(log["group"].to_pylist()) == "a"))
    zeros = log.set_column(log.column_names.index("label"), "label", [np.zeros(log.num_rows)])
    with pytest.raises(eo.TallyError, match="no positive label"):
        eo.EqualOpportunity().fit(zeros)


# Applying


@pytest.mark.parametrize("missing", [None, float("nan"), "unseen"], ids=repr)
def test_unknown_groups_are_pooled_kept_or_refused(counts, missing):
    """Null and unseen groups get the pooled map, keep their score, or are refused; no row is dropped."""
    scores, groups = np.linspace(0, 1, 5), np.array(["a", missing, "b", missing, missing], dtype=object)
    fair = {}
    for policy in ("pooled", "keep"):
        model = eo.EqualOpportunity(unknown=policy).fit(counts)
        fair[policy] = model.transform(scores, groups)
        assert fair[policy].shape == scores.shape
    assert (fair["keep"][[1, 3, 4]] == scores[[1, 3, 4]]).all()
    assert (fair["keep"][[0, 2]] == fair["pooled"][[0, 2]]).all()
    assert (fair["pooled"][[1, 3]] != scores[[1, 3]]).all()
    with pytest.raises(eo.UnknownGroupError, match="for 3 of 5 items, first at 1; known: a, b"):
        eo.EqualOpportunity(unknown="error").fit(counts).transform(scores, groups)


def test_the_pooled_map_is_that_of_all_groups_together(log, counts, model):
    """An unseen group is transformed as if all groups were one."""
    together = log.set_column(
        log.column_names.index("group"), "group", [pa.array(["all", "other"] * (log.num_rows // 2))]
    )
    bias = model.position_bias_
    one = eo.EqualOpportunity(scale="unit", position_bias=bias).fit(eo.tally(together, grid=counts))
    unit = eo.EqualOpportunity(scale="unit", position_bias=bias).fit(counts)
    scores = np.linspace(0, 1, 101)
    assert unit.transform(scores, ["unseen"] * 101) == pytest.approx(
        one.transform(scores, ["unseen"] * 101), abs=1e-9
    )


def test_crossed_groups(mixed):
    """Two group columns make crossed groups: transform takes a tuple of columns, any containers."""
    model = eo.EqualOpportunity(min_positives=5, position_bias="none").fit(mixed, group=["group", "age"])
    assert len(model.groups_) == 6
    scores, names, ages = mixed["score"], mixed["group"], mixed["age"]
    fair = model.transform(scores, (names, ages), keys=mixed["item"])
    again = model.transform(scores, (names.to_pylist(), np.array(ages)), keys=mixed["item"])
    assert (fair == again).all()
    alone = model.transform(scores[3:4], (names[3:4], ages[3:4]), keys=mixed["item"][3:4])
    assert alone[0] == fair[3]


@pytest.mark.parametrize(
    ("scores", "groups", "keys", "message"),
    [
        ([0.5, float("nan")], ["a", "b"], None, "score nan at place 1; expected finite numbers"),
        ([float("inf"), 0.5], ["a", "b"], None, "score inf at place 0; expected finite numbers"),
        ([0.1] * 4_000 + [float("nan")], ["a"] * 4_001, None, "score nan at place 4000"),
        ([0.1] * 4_000 + [float("-inf")], ["a"] * 4_001, None, "score -inf at place 4000"),
        ([None, 0.5], ["a", "b"], None, "score nan at place 0"),
        (["x", 0.5], ["a", "b"], None, "scores are not all numbers"),
        ([[0.5]], ["a"], None, "scores have 2 dimensions"),
        ([0.5], ["a", "b"], None, "1 scores but 2 groups"),
        ([0.5, 0.6], ["a", "b"], ["k"], "2 scores but 1 keys"),
    ],
    ids=str,
)  # fmt: skip
def test_input_that_cannot_be_transformed_is_refused(model, scores, groups, keys, message):
    """Scores that are no finite numbers, and columns of other lengths, are refused with the place."""
    with pytest.raises(eo.SettingsError, match=message):
        model.transform(scores, groups, keys=keys)


def test_extreme_but_finite_scores_are_served(model):
    """Scores far outside the log are finite in, finite out, in order, without a numerical warning."""
    for size in (1, 3_000):
        fair = model.transform([-1.7e308, 1.7e308] + [0.5] * size, ["a"] * (size + 2))
        assert fair[0] <= fair[2] <= fair[1]
        assert np.isfinite(fair).all()


def test_an_empty_request_is_answered(model):
    """No candidates, no scores."""
    assert model.transform([], []).shape == (0,)


# Updating


def test_update_is_a_fit_on_the_sum(log, counts):
    """Updating with newer counts, or a newer log, equals fitting on the merged tally."""
    old, new = (eo.tally(log.slice(*cut), grid=counts, depth=60) for cut in ((0, 4_000), (4_000,)))
    whole = eo.EqualOpportunity().fit(old + new)
    scores, groups = np.linspace(0, 1, 100), ["a", "b"] * 50
    for newer in (new, [new], log.slice(4_000), eo.Log(log.slice(4_000))):
        model = eo.EqualOpportunity().fit(old).update(newer)
        assert (model.transform(scores, groups) == whole.transform(scores, groups)).all()
        assert model.fitted_on_["rows"] == log.num_rows


def test_decay_weighs_the_past_down(log, counts):
    """With decay, an update equals fitting on old counts times the factor plus the new ones."""
    old, new = (eo.tally(log.slice(*cut), grid=counts) for cut in ((0, 4_000), (4_000,)))
    updated = eo.EqualOpportunity().fit(old).update(new, decay=0.3)
    merged = eo.EqualOpportunity().fit(old.decay(0.3) + new)
    scores, groups = np.linspace(0, 1, 100), ["a", "b"] * 50
    assert (updated.transform(scores, groups) == merged.transform(scores, groups)).all()
    plain = eo.EqualOpportunity().fit(old).update(new)
    assert (updated.transform(scores, groups) != plain.transform(scores, groups)).any()


def test_a_refitted_model_draws_anew(log, counts):
    """The salt follows the tables: after a fit on other counts, keys draw other numbers."""
    model = eo.EqualOpportunity().fit(counts)
    first = model.salt_
    assert model.fit(counts).salt_ == first
    assert model.fit(eo.tally(log.slice(0, 4_000), grid=counts)).salt_ != first


def test_other_cells_are_no_update(log, counts):
    """Counts on another grid cannot be added."""
    with pytest.raises(eo.GridMismatchError, match="cannot be merged"):
        eo.EqualOpportunity().fit(counts).update(eo.tally(log, cells=10))


@pytest.mark.parametrize(
    ("kind", "settings"),
    [
        (eo.EqualOpportunity, {"alpha": "1"}),
        (eo.EqualOpportunity, {"points": 100.5}),
        (eo.EqualOpportunity, {"min_positives": None}),
        (eo.EqualizedOdds, {"bins": 10.5}),
        (eo.EqualizedOdds, {"bins": True}),
        (eo.EqualizedOdds, {"keep_order": "yes"}),
    ],
    ids=str,
)
def test_a_setting_of_the_wrong_kind_is_one_line(counted, kind, settings):
    """A word for a number, a fraction for a whole number: refused by name before any work."""
    name = next(iter(settings))
    with pytest.raises(eo.SettingsError, match=f"{name} must be "):
        kind(**settings).fit(counted)
