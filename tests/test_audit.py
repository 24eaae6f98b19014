"""Unfairness by label and pair of groups, before and after."""

import json

import numpy as np
import pyarrow as pa
import pytest

import evenodds as eo
from oracles import fairness
from worlds import decay, draw


@pytest.fixture(scope="module")
def log():
    table = draw(np.random.default_rng(0), 500)
    score = table["score"].to_numpy() - 0.25 * (np.array(table["group"].to_pylist()) == "b")
    return table.set_column(table.column_names.index("score"), "score", [score])


@pytest.fixture(scope="module")
def columns(log):
    return {name: log[name].to_numpy(zero_copy_only=False) for name in log.column_names}


@pytest.mark.parametrize("label", [0, 1])
def test_observed_distances_are_the_oracles(log, columns, label):
    """Given observed labels, the distance is KS between the groups' raw scores."""
    parts = [
        columns["score"][(columns["group"] == name) & (columns["label"] == label)].tolist() for name in "ab"
    ]
    found = eo.audit(log).unfairness(label, kind="observed")
    assert found == pytest.approx(fairness.ks(*parts), abs=1e-9)


def test_merit_distances_are_the_oracles(log, columns):
    """Given merit, the distance is KS with each positive weighted by 1 / w."""
    parts, weights = [], []
    for name in "ab":
        own = (columns["group"] == name) & (columns["label"] == 1)
        parts.append(columns["score"][own].tolist())
        weights.append((1 / decay(10)[columns["position"][own] - 1]).tolist())
    found = eo.audit(log, position_bias_method=decay(10)).unfairness(1, kind="merit")
    assert found == pytest.approx(fairness.ks(*parts, *weights), abs=1e-9)


def test_a_model_ends_unfairness_given_merit(log, columns):
    """After the model that was fitted on the log, positives given merit hardly differ; the fair scores agree."""
    model = eo.EqualOpportunity(position_bias=decay(10)).fit(log)
    result = eo.audit(log, model)
    assert result.unfairness(1) > 0.1
    assert result.unfairness(1, after=True) < 1e-3
    fair = model.transform(columns["score"], columns["group"])
    parts, weights = [], []
    for name in "ab":
        own = (columns["group"] == name) & (columns["label"] == 1)
        parts.append(fair[own].tolist())
        weights.append((1 / decay(10)[columns["position"][own] - 1]).tolist())
    # Raw rows step where cells are straight: two rows' weight in the smaller group is the most it makes.
    step = 2 * max(max(part) / sum(part) for part in weights)
    assert abs(result.unfairness(1, after=True) - fairness.ks(*parts, *weights)) < 2 * step


def test_half_way_is_measured_half_way(log, columns):
    """With alpha 0.5 the distance after agrees with KS between the transformed raw scores."""
    model = eo.EqualOpportunity(position_bias="none", alpha=0.5).fit(log)
    fair = model.transform(columns["score"], columns["group"])
    for label in (0, 1):
        parts = [fair[(columns["group"] == name) & (columns["label"] == label)].tolist() for name in "ab"]
        assert eo.audit(log, model).unfairness(label, after=True) == pytest.approx(
            fairness.ks(*parts), abs=0.01
        )


def test_ties_are_measured_as_they_are_drawn(tied):
    """For a tied score, the distance after is that of the drawn fair scores, up to the noise of drawing."""
    model = eo.EqualOpportunity().fit(tied)
    group, label = np.array(tied["group"].to_pylist()), tied["label"].to_numpy()
    fair = model.transform(tied["score"], tied["group"], keys=tied["item"])
    result = eo.audit(tied, model)
    for outcome in (0, 1):
        parts = [fair[(group == name) & (label == outcome)] for name in "ab"]
        noise = 1.9 * np.sqrt(sum(1 / part.size for part in parts))
        drawn = fairness.ks(*(part.tolist() for part in parts))
        assert result.unfairness(outcome, after=True) == pytest.approx(drawn, abs=noise)


def test_every_pair_of_groups_is_there(mixed):
    """Three groups make three pairs for each label; unfairness is the largest of them."""
    result = eo.audit(mixed, position_bias_method="none")
    named = [(one.label, one.groups) for one in result.distances]
    assert named == [(label, pair) for label in (1, 0) for pair in (("a", "b"), ("a", "ß"), ("b", "ß"))]


def test_without_positions_only_observed_labels_are_judged(tied):
    """Where no position is known there is one kind of label."""
    result = eo.audit(tied)
    assert {one.kind for one in result.distances} == {"observed"}
    assert result.main_kind == "observed"


def test_it_prints_as_a_table_and_as_json(log):
    """An audit prints groups and distances, and gives plain JSON values without NaN."""
    result = eo.audit(log, eo.EqualOpportunity().fit(log))
    text = str(result)
    assert "positive (merit)" in text
    assert "a / b" in text
    body = json.loads(json.dumps(result.to_dict(), allow_nan=False))
    assert body["rows"] == log.num_rows
    assert [group["group"] for group in body["groups"]] == ["a", "b"]


def test_a_group_without_positives_is_left_out_and_named(mixed):
    """A group without positives has no distance given positive; a note says so, the others are measured."""
    label = np.where(np.array(mixed["group"].to_pylist()) == "ß", 0, mixed["label"].to_numpy())
    spoilt = mixed.set_column(mixed.column_names.index("label"), "label", [label])
    result = eo.audit(spoilt, position_bias_method="none")
    assert [one.groups for one in result.distances if one.label == 1] == [("a", "b")]
    assert any("group ß has no positive" in note for note in result.notes)


def test_positives_in_one_group_only_are_nothing_to_compare(log):
    """Where fewer than two groups have positives the audit refuses, rather than print nothing at all."""
    label = np.where(np.array(log["group"].to_pylist()) == "b", 0, log["label"].to_numpy())
    one_sided = log.set_column(log.column_names.index("label"), "label", [label])
    with pytest.raises(eo.TallyError, match="fewer than two groups have positives"):
        eo.audit(one_sided, position_bias_method="none")


def test_a_log_of_one_group_or_no_positives_is_refused(log):
    """One group, and no positives, are refused in words."""
    with pytest.raises(eo.TallyError, match="only one group"):
        eo.audit(log.filter(np.array(log["group"].to_pylist()) == "a"))
    with pytest.raises(eo.TallyError, match="no positive label"):
        eo.audit(log.set_column(log.column_names.index("label"), "label", [pa.array([0] * log.num_rows)]))


def test_weights_reach_the_audit(log, columns):
    """Integer weights give the distances of repeated rows."""
    weight = np.random.default_rng(1).integers(1, 4, log.num_rows)
    weighted = log.append_column("weight", [weight.astype(float)])
    repeated = log.take(np.repeat(np.arange(log.num_rows), weight))
    grid = eo.tally(log)
    found = [
        eo.audit(eo.tally(table, grid=grid), position_bias_method="none").unfairness(1)
        for table in (weighted, repeated, log)
    ]
    assert found[0] == pytest.approx(found[1], abs=1e-12)
    assert found[0] != pytest.approx(found[2], abs=1e-6)


def test_groups_that_the_model_has_not_seen_are_named(log):
    """A new group is noted, refused under unknown='error', and a log of nothing but new groups is refused."""
    model = eo.EqualOpportunity().fit(log)
    group = np.array(log["group"].to_pylist(), dtype=object)
    group[::9] = "new"
    mixed = log.set_column(log.column_names.index("group"), "group", pa.array(group))
    assert any(
        "group new is not in the model: it takes the pooled map" in note
        for note in eo.audit(mixed, model).notes
    )
    with pytest.raises(eo.UnknownGroupError, match="new"):
        eo.audit(mixed, eo.EqualOpportunity(unknown="error").fit(log))
    other = log.set_column(
        log.column_names.index("group"), "group", pa.array(np.where(group == "a", "x", "y"))
    )
    with pytest.raises(eo.TallyError, match="none of the log's groups"):
        eo.audit(other, model)
