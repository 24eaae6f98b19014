import json
from dataclasses import replace

import numpy as np
import pytest

from evenodds.reproduce.ab_test import METRICS, read_out
from evenodds.reproduce.network import FREQUENT_SHARE, SHOWN, WEIGHTS, draw_members, logistic, sigmoid, week
from evenodds.reproduce.network_claims import decide_network, table
from evenodds.reproduce.trial import QUICK_NETWORK, run_network

SMALL = replace(QUICK_NETWORK, members=1_500, queries=400, feedback_weeks=1, replicates=1)
RULE = np.array([-2.0, 1.0, 0.3, 0.2])


def served(**settings):
    members = draw_members(3_000, 1)
    return [part for _, part in week(members, 500, RULE, {"": None}, luck=[1, 2], **settings)]


@pytest.fixture(scope="module")
def small():
    return run_network(SMALL, seed=2)


def test_lists_hold_distinct_members_in_the_order_of_their_scores():
    """Without a reranker the hundred best are shown, best first, no one twice."""
    (part,) = served()
    assert part.score.shape == (500, SHOWN)
    assert (np.diff(part.score, axis=1) <= 0).all()
    assert all(np.unique(row).size == SHOWN for row in part.item)


def test_invitations_thin_out_with_the_position_and_only_there():
    """Of those who would invite, a share w_j does; acceptance needs an invitation."""
    (part,) = served()
    assert not (part.sent & ~part.merit).any()
    assert not (part.accepted & ~part.sent).any()
    expected = (part.merit * WEIGHTS).sum()
    assert part.sent.sum() == pytest.approx(expected, abs=4 * np.sqrt(expected))


def test_the_groups_differ_in_activity_and_not_in_appeal():
    """What the world says of its members is so."""
    members = draw_members(40_000, 3)
    assert members.frequent.mean() == pytest.approx(FREQUENT_SHARE, abs=0.01)
    appeal = [members.appeal[members.frequent == code].mean() for code in (0, 1)]
    assert appeal[0] == pytest.approx(appeal[1], abs=0.04)
    assert members.activity[members.frequent == 1].mean() > 0.9


def test_logistic_regression_finds_the_coefficients():
    """On data drawn from a logistic model it finds it, within three standard errors or so."""
    rng = np.random.default_rng(5)
    features = np.column_stack((np.ones(40_000), rng.normal(size=(40_000, 2))))
    truth = np.array([-1.0, 0.8, -0.4])
    found = logistic(features, rng.random(40_000) < sigmoid(features @ truth))
    assert found == pytest.approx(truth, abs=0.05)


def test_arms_are_compared_by_the_mean_per_member():
    """The lift is that of invitations per member who came, and an arm against itself shows none."""
    rng = np.random.default_rng(6)
    arm = np.array(["none", "EOpp"])[rng.integers(0, 2, 500)]
    totals = rng.poisson(rng.gamma(0.5, 4.0, 500), (2, 2, 500)).astype(float)
    used = rng.random(500) < 0.9
    found = read_out(arm, totals, used, "none")["EOpp"]
    means = [totals[1, 0, used & (arm == name)].mean() for name in ("EOpp", "none")]
    assert found["accepted IM"]["lift"] == pytest.approx(means[0] / means[1] - 1)
    assert 0 < found["accepted IM"]["p_value"] <= 1
    assert set(found) == {*METRICS, "sent in all", "accepted in all"}


def test_the_same_seed_gives_the_same_network(small):
    """Two runs agree in every number, and are plain JSON."""
    assert json.loads(json.dumps(small)) == small == run_network(SMALL, seed=2)


def test_the_table_says_that_it_is_simulated(small):
    """Ours and the paper's stand side by side, ours marked."""
    told = table(small)
    assert told.startswith("SIMULATED")
    assert "+5.72%" in told
    assert "Neutral" in told


def test_claims_follow_the_tests(small):
    """A significant loss of frequent members in one world breaks the claim that there is none."""
    made_up = json.loads(json.dumps(small))
    for part in made_up["experiment"]["replicates"]:
        for lifts in part["lifts"].values():
            for metric, found in lifts.items():
                found.update(lift=0.05, p_value=0.001 if metric.endswith("IM") else 0.4)
    verdicts = {claim.key: claim.holds for claim in decide_network(made_up)}
    assert verdicts["n1"]
    assert verdicts["n2"]
    made_up["experiment"]["replicates"][-1]["lifts"]["EOdds"]["sent FM"].update(lift=-0.04, p_value=0.01)
    assert not {claim.key: claim.holds for claim in decide_network(made_up)}["n2"]
