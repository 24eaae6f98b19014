"""What a page says is what the audit says, and what the rows say."""

import copy
import json
import warnings

import numpy as np
import pytest
from reports import CASES, about, case, facts_of, lists

import evenodds as eo
from evenodds.position import PositionBias
from evenodds.report.gather import gather
from evenodds.report.shapes import PARTS

pytestmark = pytest.mark.filterwarnings("ignore::evenodds.EvenoddsWarning")


def at(facts, alpha):
    """Return the state at an alpha."""
    return next(state for state in facts.after if state.alpha == alpha)


@pytest.mark.parametrize("name", ["plain", "odds", "no queries", "observed", "unit"])
def test_the_models_own_state_is_that_of_the_audit(name):
    """Before and at the model's own strength, distances and their intervals are those of the audit."""
    counts, model = case(name)
    facts, audit = facts_of(name), eo.audit(counts, model)
    assert facts.main == audit.main_kind
    assert facts.promised == audit.gated
    own = facts.after[facts.own]
    for state, after in ((facts.before, False), (own, True)):
        values = [audit.unfairness(label, after=after) for label in audit.gated]
        assert state.unfairness.value == max(values)
        assert [figure.value for figure in state.by_label] == values
        assert state.unfairness.high == audit.unfairness_at_most(after=after)
    assert [gap.ks for gap in own.gaps] == [one.fair.ks for one in audit.distances]
    assert [gap.p for gap in facts.before.gaps] == [one.logged.p_adjusted for one in audit.distances]


@pytest.mark.parametrize("name", ["plain", "odds"])
@pytest.mark.parametrize("alpha", [0.0, 0.3, 1.0])
def test_every_alpha_is_audited(name, alpha):
    """At each alpha, distances, rates and exposure are those of an audit of a model of that alpha."""
    counts, model = case(name)
    there = copy.copy(model)
    there.alpha = alpha
    audit, state = eo.audit(counts, there), at(facts_of(name), alpha)
    for gap, one in zip(state.gaps, audit.distances, strict=True):
        assert gap.ks.value == pytest.approx(one.fair.ks.value, abs=1e-9 if alpha else 0.01)
    for group, one in zip(state.groups, audit.groups, strict=True):
        assert group.exposure.value == one.after["exposure"].value
        assert group.seen.value == one.after["parity"].value
    rows = np.array([one.rows for one in audit.groups])
    rates = np.array([one.after["positive_rate"].value for one in audit.groups])
    assert state.positives.value == pytest.approx(rates @ rows / rows.sum())
    for place, position in enumerate(facts_of(name).positions):
        shares = next(one.after for one in audit.positions if one.position == position)
        known = [getattr(share, "value", share) for share in shares.values()]
        assert state.shares[:, place] == pytest.approx(known)


def test_more_correction_is_less_unfairness():
    """Along alpha unfairness falls, scores move further, and change is counted from the old scores."""
    for name in ("plain", "odds"):
        facts = facts_of(name)
        assert [state.alpha for state in facts.after] == [k / 10 for k in range(11)]
        unfair = [state.unfairness.value for state in facts.after]
        assert unfair == sorted(unfair, reverse=True)
        assert unfair[0] == facts.before.unfairness.value
        moved = [state.movement for state in facts.after]
        assert moved == sorted(moved)
        assert facts.after[0].change.value == 0.0
        assert all(state.change.low <= state.change.value <= state.change.high for state in facts.after)


def test_the_cut_is_where_the_shares_differ_by_the_distance():
    """Counted over the rows, weighted by 1 / w, the groups' shares above the cut-off differ by the distance."""
    table = lists(600, [["a", "b"]])
    counts = eo.tally(table, cells=300)
    truth = 1 / np.log2(1 + np.arange(1, 13))
    model = eo.EqualOpportunity(position_bias=truth.tolist()).fit(counts)
    cut = gather(counts, model, about(model)).before.cut
    score, label = table["score"].to_numpy(), table["label"].to_numpy()
    group = np.array(table["group"].to_pylist())
    weight = label / truth[table["position"].to_numpy() - 1]
    shares = [
        weight[(group == name) & (score >= cut.score)].sum() / weight[group == name].sum()
        for name in cut.groups
    ]
    assert shares == pytest.approx(list(cut.passing), abs=0.01)
    assert cut.groups == ("b", "a")
    assert cut.passing[1] - cut.passing[0] == pytest.approx(eo.audit(counts, model).unfairness(), abs=1e-9)


@pytest.mark.parametrize("name", ["plain", "odds", "ties"])
def test_distributions_are_those_of_the_rows(name):
    """The histogram of fair scores is that of the rows of the log, transformed one by one."""
    counts, _ = case(name)
    table = lists(600, [["a", "b"]])
    score = table["score"].to_numpy()
    score = np.round(score) if name == "ties" else score
    kind = type(case(name)[1])
    settings = {"bins": 20} if kind is eo.EqualizedOdds else {}
    model = kind(position_bias="none", alpha=0.6, **settings).fit(counts)
    facts = gather(counts, model, about(model))
    groups = np.array(table["group"].to_pylist())
    fair = model.transform(score, groups, keys=np.arange(score.size))
    state = facts.after[facts.own]
    for place, label in enumerate(facts.labels):
        for column, name_ in enumerate(facts.names):
            rows = (groups == name_) & (table["label"].to_numpy() == label)
            for density, values in ((facts.before.density, score), (state.density, fair)):
                drawn = np.histogram(values[rows], facts.edges)[0] / rows.sum()
                error = 2 / np.sqrt(rows.sum()) + 0.01  # of the rows, and of scores spread evenly
                assert np.abs(np.cumsum(drawn) - np.cumsum(density[place, column])).max() < error


def test_the_flow_of_ranks_is_that_of_the_rows():
    """Where the items of a twentieth of the ranks go is what drawing every row's fair score gives."""
    _, model = case("odds")
    table = lists(600, [["a", "b"]])
    score, groups = table["score"].to_numpy(), np.array(table["group"].to_pylist())
    state = at(facts_of("odds"), 1.0)
    assert np.allclose(state.flow.sum(axis=2)[:, 1:-1], 1.0)
    fair = model.transform(score, groups, keys=np.arange(score.size))
    old, new = (np.argsort(np.argsort(values)) * PARTS // values.size for values in (score, fair))
    for place, name in enumerate(facts_of("odds").names):
        drawn = np.zeros((PARTS, PARTS))
        np.add.at(drawn, (old[groups == name], new[groups == name]), 1)
        drawn /= drawn.sum(axis=1, keepdims=True)
        assert np.abs(drawn.cumsum(axis=1) - state.flow[place].cumsum(axis=1)).mean() < 0.03


def test_nothing_moves_at_alpha_zero():
    """Without a correction every item keeps its rank, whatever the criterion, and no one rises or falls."""
    for name in ("plain", "odds"):
        facts = facts_of(name)
        first = facts.after[0]
        for group, before in zip(first.groups, facts.before.groups, strict=True):
            assert group.rank == pytest.approx(before.rank, abs=1e-3)
            assert max(group.rising, group.falling) < 0.03
        if first.flow is not None:
            assert np.abs(first.flow - np.eye(PARTS)).max() < 0.1


def test_the_curve_is_the_transform():
    """The curve of equality of opportunity is what transform gives at those scores."""
    _, model = case("plain")
    facts = facts_of("plain")
    there = copy.copy(model)
    there.alpha = 0.5
    for place, name in enumerate(facts.names):
        low, high = at(facts, 0.5).curve[place]
        known = np.isfinite(low)
        fair = there.transform(facts.scores, [name] * facts.scores.size, keys=np.arange(facts.scores.size))
        assert known.sum() > 60
        assert low[known] == pytest.approx(fair[known])
        assert (low[known] <= high[known]).all()


def test_tied_scores_have_a_range():
    """A tied score becomes a range of fair scores, and the axis stands on the scores that are tied."""
    _, model = case("ties")
    facts = facts_of("ties")
    low, high = at(facts, 1.0).curve[0]
    assert (high > low).any()
    assert facts.tied > 0.9
    assert set(facts.scores) <= set(np.round(facts.scores))
    drawn = model.transform(np.full(200, 1.0), ["a"] * 200, keys=np.arange(200))
    place = list(facts.scores).index(1.0)
    assert low[place] <= drawn.min() <= drawn.max() <= high[place]


def test_crossed_groups_are_also_told_apart_by_one_column():
    """The distance by one column is that of a tally with this column alone."""
    facts = facts_of("crossed")
    table = lists(900, [["man", "woman"], ["18-29", "30-49", "50+"]], columns=("gender", "age"))
    stated = eo.audit(*case("crossed")).position_bias
    given = PositionBias("given", stated.positions, stated.weights, np.zeros(stated.weights.size))
    for place, column in enumerate(("gender", "age")):
        alone = eo.tally(table, cells=300, group=column)
        known = eo.audit(alone, position_bias_method=given).unfairness()
        assert facts.before.columns[place] == pytest.approx(known, abs=1e-9)
    assert all(now < before for now, before in zip(at(facts, 1.0).columns, facts.before.columns, strict=True))


def test_many_groups_are_cut_down_to_those_that_matter():
    """Charts show twelve groups: among them the pair furthest apart; the verdict looks at all pairs."""
    facts = facts_of("many")
    assert len(facts.drawn) == 12
    assert len(facts.groups) == 25
    worst = max((gap for gap in facts.before.gaps if gap.small is None), key=lambda gap: gap.ks.value)
    judged = [
        gap for gap in facts.before.gaps if gap.kind == facts.main and gap.label == 1 and gap.small is None
    ]
    assert facts.before.unfairness.value == max(gap.ks.value for gap in judged)
    top = max(judged, key=lambda gap: gap.ks.value)
    assert {facts.names.index(name) for name in top.groups} <= set(facts.drawn)
    assert worst.ks.high is not None
    assert facts.after[0].density.shape[1] == 12


def test_small_groups_carry_their_reason():
    """A group with few positives says so, and its pairs do not count."""
    facts = facts_of("small group")
    reasons = {group.group: group.small for group in facts.groups}
    assert reasons["a"] is None
    assert "fewer than 50 positives" in reasons["rare"]
    assert facts.before.unfairness.value < max(
        gap.ks.value for gap in facts.before.gaps if gap.kind == facts.main and gap.label == 1
    )


def test_unknown_groups_and_clipping_are_told():
    """A group that the model has not seen is told apart from one that shares the pooled map."""
    _, model = case("plain")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        later = eo.tally(lists(300, [["a", "b", "new"]], seed=9), cells=100)
        facts = gather(later, model, about(model))
    assert [group.own for group in facts.groups] == [True, True, None]
    assert all(0.0 <= group.clipped < 0.5 for group in facts.groups)
    assert not facts.about.in_sample
    assert facts_of("plain").about.in_sample


@pytest.mark.parametrize("name", CASES)
def test_facts_are_plain(name):
    """Facts become JSON without a number that JSON does not have."""
    text = json.dumps(facts_of(name).to_dict(), allow_nan=False)
    assert json.loads(text)["schema"] == "evenodds-report/1"
