"""Equalized odds, end to end."""

import numpy as np
import pyarrow as pa
import pytest

import evenodds as eo
from evenodds.distance import ks_distance
from evenodds.simulate import draw_population, outcome_on_fresh_lists

NAMES = np.array(["a", "b", "c", "d"])


def table_of(rng, rows=40_000, groups=2, shift=0.5, outcomes=1):
    group = rng.integers(0, groups, rows)
    merit = rng.normal(0.2 * group, 1.0)
    label = np.minimum(
        (rng.random(rows) < 1 / (1 + np.exp(-merit))) * rng.integers(1, outcomes + 1, rows), outcomes
    )
    score = merit + shift * group + rng.normal(0, 0.5, rows)
    return pa.table({"score": score, "group": NAMES[group], "label": label.astype(np.int8)})


def distances(model, table, label_values=(0, 1)):
    """Return the largest KS between groups given each label, on drawn fair scores."""
    group, label = table["group"].to_numpy(), table["label"].to_numpy()
    fair = model.transform(table["score"].to_numpy(), group, keys=np.arange(len(table)))
    found = []
    for y in label_values:
        parts = [fair[(label == y) & (group == g)] for g in np.unique(group)]
        found.append(max(ks_distance(parts[0], part) for part in parts[1:]))
    return found


def noise(table, labels=2):
    """Four times the spread of a two-sample KS between the smallest groups: a safe bound on chance."""
    return 4 * np.sqrt(2 / (len(table) / 4 / labels))


@pytest.fixture(scope="module")
def trained():
    return table_of(np.random.default_rng(0))


@pytest.fixture(scope="module")
def simulated():
    return eo.tally(eo.simulate(queries=20_000))


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"binning": "equal"},
        {"objective": "auc"},
        {"cost": "rank"},
        {"within": "uniform"},
        {"keep_order": True},
        {"bins": 10},
    ],
    ids=str,
)
def test_groups_are_alike_given_each_label(trained, settings):
    """On fresh rows of the same kind, drawn fair scores differ between groups by no more than chance."""
    model = eo.EqualizedOdds(**{"bins": 40, **settings}).fit(trained)
    fresh = table_of(np.random.default_rng(1))
    assert max(distances(model, fresh)) < noise(fresh)
    assert max(distances(eo.EqualizedOdds(bins=40, alpha=0.0).fit(trained), fresh)) > 2 * noise(fresh)


def test_four_groups_and_three_outcomes():
    """Every label of three outcomes is equalized over four groups."""
    model = eo.EqualizedOdds(bins=15).fit(
        eo.Log(table_of(np.random.default_rng(2), 60_000, 4, 0.3, 3), outcomes=3)
    )
    fresh = table_of(np.random.default_rng(3), 60_000, 4, 0.3, 3)
    assert max(distances(model, fresh, range(4))) < noise(fresh, labels=8)
    assert model.diagnostics_["solver"]["certified"]
    assert model.diagnostics_["solver"]["residual"] < 1e-9


def test_stored_constraints_hold_to_nine_digits(trained, tmp_path):
    """The kernel in a saved file satisfies its constraints to 1e-9 on the tally it was fitted on."""
    model = eo.EqualizedOdds(bins=60).fit(trained)
    model.save(tmp_path / "m.json")
    tally = eo.tally(trained)
    loaded = eo.load(tmp_path / "m.json")
    for label in (0, 1):
        _, cdf = loaded.fair_cdf(tally, tally.counts.sum(axis=2)[:, label].astype(float))
        assert np.ptp(cdf, axis=0).max() < 1e-9


def test_diagnostics_state_the_residual_of_each_constraint(trained):
    """For each group: its rows' sums, and each label's image against the shared one; all to 1e-9."""
    for settings in ({}, {"objective": "auc"}, {"epsilon": (0.3, 0.1)}):
        residuals = eo.EqualizedOdds(bins=30, **settings).fit(trained).diagnostics_["residuals"]
        assert [part["group"] for part in residuals] == ["a", "b"]
        assert all(part[name] < 1e-9 for part in residuals for name in ("row_sums", "negative", "positive"))
    observed = eo.EqualizedOdds(bins=30, alpha=0.5).fit(trained).diagnostics_
    assert observed["residuals"][0]["positive"] < 1e-9 < observed["unfairness"]["after"]


def test_merit_target_on_fresh_lists(simulated):
    """target="merit": KS given either merit label is chance on re-ranked lists; observed negatives keep 0.03."""
    model = eo.EqualizedOdds().fit(simulated)
    found = outcome_on_fresh_lists(
        draw_population(), lambda s, g: model.transform(s, g, seed=1), queries=20_000
    )
    assert max(found.merit.values()) < 0.02
    assert found.observed[0] > 0.025
    assert model.diagnostics_["expected"]["observed"]["negative"] == pytest.approx(
        found.observed[0], abs=0.01
    )


def test_observed_target_on_fresh_lists(simulated):
    """target="observed": KS given either observed label is chance on re-ranked lists."""
    model = eo.EqualizedOdds(bins=60, target="observed").fit(simulated)
    found = outcome_on_fresh_lists(
        draw_population(), lambda s, g: model.transform(s, g, seed=1), queries=20_000
    )
    assert max(found.observed.values()) < 0.02
    assert found.merit[0] > 0.03
    assert model.diagnostics_["solver"]["missed"] < 1e-4


def test_a_score_depends_on_its_key_only(trained):
    """The same items in another order, one by one, or after saving, get the same fair scores to the bit."""
    model = eo.EqualizedOdds(bins=30).fit(trained)
    scores, groups = trained["score"].to_numpy()[:300], trained["group"].to_numpy()[:300].tolist()
    keys = [f"viewer/{i}" for i in range(300)]
    whole = model.transform(scores, groups, keys)
    order = np.random.default_rng(4).permutation(300)
    shuffled = model.transform(scores[order], [groups[i] for i in order], [keys[i] for i in order])
    assert (shuffled == whole[order]).all()
    assert [model.transform(scores[i : i + 1], [groups[i]], [keys[i]])[0] for i in range(20)] == whole[
        :20
    ].tolist()
    other = model.transform(scores, groups, [f"other/{i}" for i in range(300)])
    assert (other != whole).mean() > 0.9


def test_without_keys_the_seed_is_said_and_repeats(trained):
    """Draws without keys warn with the seed that repeats them."""
    model = eo.EqualizedOdds(bins=10).fit(trained)
    with pytest.warns(eo.RandomDrawWarning, match=r"seed=(\d+)") as caught:
        first = model.transform([0.1, 0.2], ["a", "b"])
    seed = int(str(caught[0].message).split("seed=")[1].split()[0])
    assert (model.transform([0.1, 0.2], ["a", "b"], seed=seed) == first).all()


def test_fair_scores_are_distributed_as_scores_were(trained):
    """The fair score of all rows has the distribution of all old scores, to chance and a bin's width."""
    scores, groups = trained["score"].to_numpy(), trained["group"].to_numpy()
    model = eo.EqualizedOdds(bins=50, objective="auc").fit(trained)
    fair = model.transform(scores, groups, keys=np.arange(scores.size))
    assert ks_distance(fair, scores) < 0.01


def test_alpha_is_linear_in_the_fair_score(trained):
    """With alpha = 0 scores stay; between, the fair score is the blend of old and new under the same draw."""
    scores, groups = trained["score"].to_numpy()[:100], trained["group"].to_numpy()[:100]
    full = eo.EqualizedOdds(bins=20).fit(trained)
    half = eo.EqualizedOdds(bins=20, alpha=0.5).fit(trained)
    none = eo.EqualizedOdds(bins=20, alpha=0.0).fit(trained)
    fair = full.transform(scores, groups, keys=np.arange(100))
    np.testing.assert_allclose(
        half.transform(scores, groups, keys=np.arange(100)), (fair + scores) / 2, rtol=1e-12
    )
    assert (none.transform(scores, groups, keys=np.arange(100)) == scores).all()


def test_identical_groups_stay_where_they_are():
    """Groups with one distribution get the identity kernel: nothing changes bins."""
    half = table_of(np.random.default_rng(5), 5_000, 1)
    both = pa.concat_tables([half, half.set_column(1, "group", pa.array(np.full(5_000, "z")))])
    model = eo.EqualizedOdds(bins=25).fit(both)
    assert all(np.allclose(rows.toarray(), np.eye(25)) for rows in model.kernel_)
    assert model.diagnostics_["moved"] == 0


def test_all_scores_tied_is_a_correct_degenerate_answer():
    """A model that returns one score for everyone stays at that score."""
    rng = np.random.default_rng(6)
    table = pa.table(
        {
            "score": np.full(2_000, 0.5),
            "group": NAMES[rng.integers(0, 2, 2_000)],
            "label": rng.integers(0, 2, 2_000),
        }
    )
    for objective in ("movement", "auc"):
        model = eo.EqualizedOdds(objective=objective).fit(table)
        fair = model.transform(np.full(100, 0.5), ["a"] * 100, keys=np.arange(100))
        assert np.abs(fair - 0.5).max() < 1e-5


def test_a_group_worse_than_chance_is_handled():
    """One group's scores rank its positives last: odds are still equal given each label."""
    rng = np.random.default_rng(7)
    table = table_of(rng)
    flipped = np.where(
        table["group"].to_numpy() == "b", -table["score"].to_numpy(), table["score"].to_numpy()
    )
    table = table.set_column(0, "score", pa.array(flipped))
    for objective in ("movement", "auc"):
        model = eo.EqualizedOdds(bins=30, objective=objective).fit(table)
        assert max(distances(model, table)) < noise(table)


def test_a_small_group_takes_the_mean_kernel_and_says_so(trained):
    """A group with too few rows of a label is warned of, noted, and scored, not dropped."""
    few = pa.table({"score": [0.1, 0.5, 0.9], "group": ["tiny"] * 3, "label": pa.array([0, 1, 1], pa.int8())})
    with pytest.warns(eo.SmallGroupWarning, match="tiny"):
        model = eo.EqualizedOdds(bins=20).fit(pa.concat_tables([trained, few]))
    assert [g["map"] for g in model.diagnostics_["groups"]] == ["own", "own", "pooled"]
    keys = np.arange(50)
    tiny = model.transform(np.linspace(-1, 1, 50), ["tiny"] * 50, keys=keys)
    unseen = model.transform(np.linspace(-1, 1, 50), ["never seen"] * 50, keys=keys)
    np.testing.assert_allclose(tiny, unseen, rtol=1e-9)


def test_thin_bins_are_warned_of():
    """More bins than a group's rows can fill give a warning that names the group."""
    rng = np.random.default_rng(8)
    table = table_of(rng, 1_000)
    with pytest.warns(eo.SmallGroupWarning, match="unreliable, use fewer bins"):
        eo.EqualizedOdds(bins=200).fit(table)


def test_epsilon_bounds_the_ratio_of_distribution_functions(trained):
    """With epsilon the groups' distribution functions at every bin edge differ by at most exp(epsilon)."""
    model = eo.EqualizedOdds(bins=25, epsilon=(np.inf, 0.2)).fit(trained)
    tally = eo.tally(trained)
    bound = np.exp(0.2) * (1 + 1e-9)
    for label, limit in ((1, bound), (0, None)):
        _, cdf = model.fair_cdf(tally, tally.counts.sum(axis=2)[:, label].astype(float))
        ratio = cdf[0, :-1] / cdf[1, :-1]
        if limit is None:
            assert max(ratio.max(), 1 / ratio.min()) > bound  # a free label is left alone
        else:
            assert max(ratio.max(), 1 / ratio.min()) <= bound + 1e-9


def test_explain_tells_how_a_score_came_about(trained):
    """The explanation's row sums to one, and its draw leads to the fair score that transform gives."""
    model = eo.EqualizedOdds(bins=30).fit(trained)
    told = model.explain(0.3, "b", key="viewer/7")
    assert sum(part["probability"] for part in told["kernel"]) == pytest.approx(1)
    drawn = next(part for part in told["kernel"] if part["target"] == told["target"])
    low, high = drawn["target_scores"]
    assert low <= told["fair_score"] <= high
    assert told["fair_score"] == model.transform([0.3], ["b"], keys=["viewer/7"])[0]


def test_keep_order_keeps_the_order_of_items_that_stay(simulated):
    """Two items of one group that stay in a harmless bin come out in their old order, whatever is drawn."""
    model = eo.EqualizedOdds(keep_order=True).fit(simulated)
    bins = model.table_.bins
    kept = np.flatnonzero(model.order_.kept[bins : 2 * bins] & (model.kernel_[1].diagonal() > 0.3))
    assert kept.size > 5
    low, high = model.edges_[kept[2] : kept[2] + 2]
    scores = np.sort(np.random.default_rng(9).uniform(low, high, 400))
    fair = model.transform(scores, ["B"] * 400, keys=np.arange(400))
    edges = model.score_at(model.levels_[kept[2] : kept[2] + 2])
    stayed = (fair >= edges[0]) & (fair < edges[1])
    assert stayed.sum() > 100
    assert (np.diff(fair[stayed]) >= 0).all()
    assert model.diagnostics_["unfairness"]["after"] < 0.005


def test_the_same_log_gives_the_same_bytes(trained, tmp_path):
    """Two fits of one log write byte-identical files, for both objectives."""
    for objective in ("movement", "auc"):
        for name in ("one", "two"):
            eo.EqualizedOdds(bins=30, objective=objective).fit(trained).save(
                tmp_path / f"{objective}{name}.json"
            )
        one, two = ((tmp_path / f"{objective}{name}.json").read_bytes() for name in ("one", "two"))
        assert one == two


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"bins": 0}, "bins must lie"),
        ({"epsilon": -0.1}, "epsilon must not be negative"),
        ({"epsilon": (0.1, 0.1, 0.1)}, "epsilon"),
        ({"epsilon": float("nan")}, "epsilon must not be negative"),
        ({"objective": "speed"}, "objective must be one of"),
        ({"objective": "auc", "epsilon": 0.1}, "epsilon relaxes the movement"),
        ({"objective": "auc", "target": "observed"}, "goes with objective='movement'"),
        ({"objective": "auc", "keep_order": True}, "keep_order needs"),
        ({"time_limit": 0}, "time_limit"),
        ({"alpha": 1.5}, "alpha must lie"),
    ],
    ids=str,
)
def test_wrong_settings_are_one_line(trained, settings, said):
    """Settings out of range or in contradiction are refused before any work, in one line."""
    with pytest.raises(eo.SettingsError, match=said) as caught:
        eo.EqualizedOdds(**settings).fit(trained)
    assert "\n" not in str(caught.value)


def test_one_label_only_is_refused(trained):
    """A log without negatives, or without positives, has no odds to equalize."""
    for label in (0, 1):
        part = trained.filter(pa.compute.equal(trained["label"], label))
        with pytest.raises(eo.TallyError):
            eo.EqualizedOdds().fit(part)


def test_scores_that_are_not_finite_are_refused(trained):
    """NaN and infinite scores raise and name the place."""
    model = eo.EqualizedOdds(bins=10).fit(trained)
    with pytest.raises(eo.SettingsError, match="at place 1"):
        model.transform([0.1, np.nan], ["a", "b"], seed=1)
    with pytest.raises(eo.SettingsError, match="at place 0"):
        model.transform([np.inf, 0.2], ["a", "b"], seed=1)
