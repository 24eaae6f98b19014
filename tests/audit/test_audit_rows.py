"""Every figure of the audit against its definition on raw rows."""

from itertools import product

import numpy as np
import pyarrow as pa
import pytest

import evenodds as eo
from evenodds.keys import fold_of
from oracles import audit_rows as slow

W = [1.0, 0.7, 0.5, 0.4]


@pytest.fixture(scope="module")
def log():
    """Three groups, five scores, each an atom, so that cells are exact; 300 lists of four."""
    rng = np.random.default_rng(3)
    queries = 300
    score = -np.sort(-rng.choice([0.1, 0.2, 0.4, 0.5, 0.9], (queries, 4)), axis=1)
    group = rng.choice(["a", "b", "c"], (queries, 4), p=[0.5, 0.3, 0.2])
    chance = 0.2 + 0.6 * score - 0.1 * (group == "b")
    label = rng.random(score.shape) < chance * np.array(W)
    return pa.table(
        {
            "query": np.repeat(np.arange(queries), 4),
            "position": np.tile(np.arange(1, 5), queries),
            "group": group.ravel(),
            "score": score.ravel(),
            "label": label.ravel().astype(np.int8),
        }
    )


@pytest.fixture(scope="module")
def rows(log):
    return log.to_pylist()


@pytest.fixture(scope="module")
def audit(log):
    return eo.audit(log, position_bias_method=W)


@pytest.fixture(scope="module")
def w():
    return dict(enumerate(W, start=1))


def test_distances_are_those_of_the_rows(audit, rows, w):
    """KS and Wasserstein-1 of every pair, label and kind are those of the definition."""
    assert len(audit.distances) == 3 * 2 * 2
    for found in audit.distances:
        one, other = (
            slow.distribution(slow.of(rows, name), found.label, found.kind, w) for name in found.groups
        )
        assert found.before == pytest.approx(slow.ks(one, other), abs=1e-12)
        assert found.logged.wasserstein.value == pytest.approx(slow.wasserstein(one, other), abs=1e-12)


def test_auc_within_and_across_groups_is_that_of_the_rows(audit, rows, w):
    """AUC of every pair of groups and kind, ties counting half, is that of the definition."""
    assert len(audit.auc) == 9 * 2
    for found in audit.auc:
        positive = slow.distribution(slow.of(rows, found.positives_of), 1, found.kind, w)
        negative = slow.distribution(slow.of(rows, found.negatives_of), 0, found.kind, w)
        assert found.before.value == pytest.approx(slow.auc(positive, negative), abs=1e-12)


def test_rates_exposure_and_parity_are_those_of_the_rows(audit, rows, w):
    """Rates, exposure and v_obs / M of each group, and the ratios between groups, are those of the definition."""
    ratio = {}
    for found in audit.groups:
        own = slow.of(rows, found.group)
        ratio[found.group] = slow.parity(own, w)
        assert found.rows == len(own)
        assert found.before["positive_rate"].value == pytest.approx(slow.positive_rate(own))
        assert found.before["merit_rate"].value == pytest.approx(slow.merit_rate(own, w))
        assert found.before["exposure"].value == pytest.approx(slow.exposure(own, w))
        assert found.before["parity"].value == pytest.approx(ratio[found.group])
    for found in audit.parity:
        one, other = found.groups
        assert found.before.value == pytest.approx(ratio[one] / ratio[other])


def test_shares_by_position_are_those_of_the_rows(audit, rows):
    """Each group's share of the impressions at each position is counted."""
    assert [found.position for found in audit.positions] == [1, 2, 3, 4]
    for found, name in product(audit.positions, "abc"):
        assert found.before[name].value == pytest.approx(slow.share_at(rows, name, found.position))


def test_intervals_are_those_of_leaving_out_folds_of_queries(audit, rows, w):
    """With w given, the log-scale interval of a group's parity is Student's t times the jackknife on rows."""
    fold = fold_of(np.arange(300), 20)
    folds = [set(np.flatnonzero(fold == number).tolist()) for number in range(20)]
    own = slow.of(rows, "b")
    error = slow.jackknife(own, folds, lambda left: slow.parity(left, w))
    found = next(group for group in audit.groups if group.group == "b").before["parity"]
    reach = np.exp(2.093 * error / found.value)  # t of 19 degrees of freedom
    assert (found.low, found.high) == pytest.approx((found.value / reach, found.value * reach), rel=1e-3)


def test_figures_after_a_model_are_those_of_its_fair_scores(log):
    """After a model without ties: KS, AUC and W1 of the fair scores of the very rows, up to the width of cells."""
    rng = np.random.default_rng(5)
    score = log["score"].to_numpy() + 0.05 * rng.random(log.num_rows)
    finer = log.set_column(3, "score", pa.array(score))
    model = eo.EqualOpportunity(position_bias="none", alpha=0.5, min_positives=5).fit(finer)
    audit = eo.audit(finer, model)
    fair = model.transform(score, finer["group"].to_pylist())
    rows = finer.set_column(3, "score", pa.array(fair)).to_pylist()
    w = dict.fromkeys(range(1, 5), 1.0)
    for found in audit.distances:
        one, other = (
            slow.distribution(slow.of(rows, name), found.label, "observed", w) for name in found.groups
        )
        assert found.after == pytest.approx(slow.ks(one, other), abs=0.02)
        assert found.fair.wasserstein.value == pytest.approx(slow.wasserstein(one, other), abs=0.01)
    for found in audit.auc:
        positive = slow.distribution(slow.of(rows, found.positives_of), 1, "observed", w)
        negative = slow.distribution(slow.of(rows, found.negatives_of), 0, "observed", w)
        assert found.after.value == pytest.approx(slow.auc(positive, negative), abs=0.01)
