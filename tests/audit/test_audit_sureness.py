"""How sure the audit says it is: coverage, tests, small groups, logs without queries."""

import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import evenodds as eo
from evenodds.audit.intervals import area_under_curve, holm, positive, share

sys.path.insert(0, str(Path(__file__).parents[2] / "bench"))
import audit_coverage

REPLICATES = 50
QUERIES = 1_500


def least(nominal: float, replicates: int) -> float:
    """Return the nominal coverage less three binomial standard errors."""
    return nominal - 3 * (nominal * (1 - nominal) / replicates) ** 0.5


@pytest.fixture(scope="module")
def differ():
    return audit_coverage.study(audit_coverage.DIFFER, REPLICATES, QUERIES)[0]


@pytest.mark.parametrize(
    "figure", ["KS", "W1", "AUC", "positive rate", "merit rate", "parity", "exposure", "share"]
)
def test_intervals_cover_the_truth(differ, figure):
    """Where groups differ, each 95 % interval covers in 92 % of logs or more, less three binomial errors."""
    tested = {name: one.coverage for name, one in differ.items() if name.startswith(figure)}
    assert tested
    assert min(tested.values()) >= least(0.92, REPLICATES), tested


def test_intervals_are_no_wider_than_they_need_be(differ):
    """Over all figures together the intervals cover 95 %, within three points: their misses are not all one log's."""
    assert np.mean([one.coverage for one in differ.values()]) == pytest.approx(0.955, abs=0.03)


def test_figures_have_no_bias_to_speak_of(differ):
    """Errors of w do not lean: what is smooth in the truth is off by less than a sixth of its standard error."""
    for name, one in differ.items():
        if not name.startswith(("KS", "W1")):
            error = one.wide / one.total / 4
            assert abs(one.off / one.total) < error / 6 + 3 * error / REPLICATES**0.5, name


@pytest.mark.filterwarnings("ignore::evenodds.HomogeneityWarning")  # one log in 500 fails that test by chance
def test_groups_alike_are_not_called_different():
    """Where groups are alike the upper end is a bound, the lower end is zero, and the test rejects 5 % of logs."""
    tested, chances = audit_coverage.study(audit_coverage.ALIKE, REPLICATES, QUERIES)
    for name, one in tested.items():
        if name.startswith(("KS", "W1")):
            assert one.below == 0, name
            assert one.coverage >= least(0.95, REPLICATES), name
    assert np.mean(np.array(chances) < 0.05) <= 0.05 + 3 * (0.05 * 0.95 / REPLICATES) ** 0.5


def test_a_model_audited_on_its_own_log_is_not_taken_at_its_word():
    """On the log it was fitted on a model looks better than it is; the upper end bounds what is left elsewhere."""
    tested, _ = audit_coverage.study(audit_coverage.DIFFER, 15, QUERIES, fit=eo.EqualOpportunity())
    found = tested["after: KS positive (merit) a/b"]
    assert found.off / found.total < -0.01
    assert found.coverage >= least(0.95, 15)


def log(queries=800, *, seed=0, groups=("a", "b"), alike=False, copies=1):
    """Draw lists of five, scores by group; `copies` of every row in its query."""
    rng = np.random.default_rng(seed)
    group = rng.integers(0, len(groups), (queries, 5))
    score = rng.normal(0.0 if alike else 0.4 * group, 1.0, group.shape)
    label = rng.random(score.shape) < 0.4 / (1 + np.exp(-score))
    table = pa.table(
        {
            "query": np.repeat(np.arange(queries), 5),
            "group": np.array(groups)[group.ravel()],
            "score": score.ravel(),
            "label": label.ravel().astype(np.int8),
        }
    )
    return table.take(np.repeat(np.arange(table.num_rows), copies))


def test_repeating_every_row_within_its_query_adds_no_certainty():
    """Rows that are copies in one query leave intervals and p-values as they were; without queries they shrink."""
    once, often = eo.audit(log()), eo.audit(log(copies=4))
    first, second = once.distances[0].logged, often.distances[0].logged
    assert (second.ks.low, second.ks.high) == pytest.approx((first.ks.low, first.ks.high), abs=0.01)
    assert second.p_value == pytest.approx(first.p_value, abs=0.02)
    blind = eo.audit(log(copies=4).drop_columns(["query"])).distances[0].logged.ks
    assert blind.high - blind.low < 0.7 * (second.ks.high - second.ks.low)


def test_without_queries_it_is_said_what_the_intervals_assume():
    """Without a query column the unit is the impression, and a note says which figures that touches."""
    result = eo.audit(log().drop_columns(["query"]))
    assert result.to_dict()["intervals"]["unit"] == "impression"
    assert any("every interval and p-value" in note for note in result.notes)
    assert eo.audit(log()).to_dict()["intervals"] == {"level": 0.95, "unit": "query", "folds": 20}


def test_too_few_queries_leave_no_intervals():
    """With fewer than five folds figures have no interval, a note says so, and the gate does not pass."""
    few = eo.audit(log(4, seed=3))
    assert few.distances[0].logged.ks.high is None
    assert any("no figure has an interval" in note for note in few.notes)
    assert np.isnan(few.unfairness_at_most())


def test_small_groups_are_flagged_and_do_not_count():
    """A group with 20 rows is flagged with its reason, and unfairness is that of the others."""
    table = log(seed=1)
    group = np.array(table["group"].to_pylist(), dtype=object)
    group[:20] = "tiny"
    result = eo.audit(table.set_column(1, "group", pa.array(group)))
    flagged = {one.groups: one.small for one in result.distances if one.label == 1}
    assert flagged["a", "b"] is None
    assert "fewer than 50" in flagged["a", "tiny"]
    assert result.unfairness(1) == next(one.before for one in result.distances if one.groups == ("a", "b"))


def test_many_pairs_are_corrected_for():
    """Groups that are alike, ten of them: of 90 comparisons hardly one is below 5 % after the correction."""
    result = eo.audit(log(3_000, seed=4, groups=[f"g{number}" for number in range(10)], alike=True))
    raw = [one.logged.p_value for one in result.distances]
    adjusted = [one.logged.p_adjusted for one in result.distances]
    assert len(raw) == 90
    assert min(raw) < 0.05
    assert sum(value < 0.05 for value in adjusted) <= 1
    assert all(one >= two for one, two in zip(adjusted, raw, strict=True))


def test_an_audit_repeats_itself():
    """The same tally gives the same audit, draws included."""
    counted = eo.tally(log())
    assert eo.audit(counted).to_dict() == eo.audit(counted).to_dict()


def test_a_loaded_model_gives_the_audit_of_the_fitted_one(tmp_path):
    """Saving and loading a model changes no figure, no interval: position bias is estimated anew from the tally."""
    counted = eo.tally(eo.simulate(600, list_length=10), cells=500)
    model = eo.EqualOpportunity().fit(counted)
    model.save(tmp_path / "model.json")
    one, two = (eo.audit(counted, fitted) for fitted in (model, eo.load(tmp_path / "model.json")))
    for first, second in zip(one.distances, two.distances, strict=True):
        assert second.fair.ks.high == pytest.approx(first.fair.ks.high, rel=1e-4)
        assert second.logged.ks.low == pytest.approx(first.logged.ks.low, rel=1e-4)


def test_predicted_positions_add_up():
    """After a model the expected impressions of all groups add up to those of each position."""
    counted = eo.tally(eo.simulate(1_000, list_length=(5, 12)), cells=500)
    result = eo.audit(counted, eo.EqualOpportunity().fit(counted))
    for position in result.positions:
        assert sum(figure.value for figure in position.after.values()) == pytest.approx(1.0, abs=1e-9)
        assert sum(figure.value for figure in position.before.values()) == pytest.approx(1.0, abs=1e-9)


def test_the_corollary_holds_of_the_model():
    """The paper's corollary: after the model exposure over merit is the same for all groups, before it is not."""
    counted = eo.tally(eo.simulate(4_000), cells=1_000)
    found = eo.audit(counted, eo.EqualOpportunity().fit(counted)).parity[0]
    assert found.before.high < 0.8
    assert found.after.value == pytest.approx(1.0, abs=0.01)
    assert found.after.low <= 1.0 <= found.after.high


def test_holm_is_the_textbook_procedure():
    """Sorted p-values are multiplied by how many are left, and never fall."""
    assert holm([0.01, 0.02, 0.03, 0.5]) == pytest.approx([0.04, 0.06, 0.06, 0.5])


def test_intervals_stay_where_figures_can_be():
    """The interval of a probability stays in 0..1, that of a ratio above 0, whatever the error."""
    assert 0 <= share(0.999, 0.2, 2.0, 100.0).low <= share(0.999, 0.2, 2.0, 100.0).high <= 1
    assert area_under_curve(1.002, 0.01, 2.0).high == 1.0
    assert area_under_curve(0.98, 0.1, 2.0).high == 1.0
    assert positive(0.1, 5.0, 2.0).low > 0
    assert share(float("nan"), 0.1, 2.0, 100.0).value is None


def test_a_share_of_nothing_is_not_nothing_for_certain():
    """Of 1,000 rows none: the share may be up to 0.25 %; of more hits the interval is the usual one."""
    none = share(0.0, 0.0, 2.0, 1000.0)
    assert none.low == 0.0
    assert 0.001 < none.high < 0.004
    usual = share(0.3, 0.01, 1.96, np.inf)
    assert (usual.low, usual.high) == pytest.approx((0.3 - 0.0196, 0.3 + 0.0196), abs=0.001)
    assert share(0.3, 0.01, 2.2, np.inf).high > usual.high  # a spread from few folds is not sure itself


def test_where_groups_differ_much_distances_are_as_sure_as_their_noise():
    """Far from zero the interval of W1 is about as wide on both sides, and KS's is no wider than pointwise."""
    counted = eo.tally(
        audit_coverage.log_of(audit_coverage.World(shifts=(0.0, 2.0)), np.random.default_rng(1), 3_000)
    )
    for one in eo.audit(counted).distances:
        w1 = one.logged.wasserstein
        assert (w1.value - w1.low) == pytest.approx(w1.high - w1.value, rel=0.25)
