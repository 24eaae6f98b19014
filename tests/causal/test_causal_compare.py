"""A graph beside a log."""

import json

import numpy as np
import pyarrow as pa
import pytest

import evenodds as eo


def log(kind, rows=8_000):
    """Draw a log whose score depends on the group given both labels, negatives only, or neither."""
    rng = np.random.default_rng(2)
    group, label = rng.integers(0, 2, (2, rows))
    shift = {"both": 0.5, "negatives": 0.5 * (label == 0), "neither": 0.0}[kind]
    return pa.table(
        {"group": group, "label": label, "score": label + rng.standard_normal(rows) + shift * group}
    )


def test_agreement_in_words():
    """Each pair of verdict and log has its own sentence."""
    separated, connected = (
        eo.causal("group -> label -> score"),
        eo.causal("group -> label -> score; group -> score"),
    )
    found = {
        (name, kind): reading.compare(log(kind))
        for name, reading in (("separated", separated), ("connected", connected))
        for kind in ("both", "negatives", "neither")
    }
    said = {key: (one.agrees, one.verdict()) for key, one in found.items()}
    assert said["separated", "neither"] == (
        True, "the log agrees with the graph: no dependence of score and group given label beyond chance"
    )  # fmt: skip
    assert not said["separated", "both"][0]
    assert "an arrow or a common cause is missing" in said["separated", "negatives"][1]
    assert said["connected", "both"][1].endswith("score and group given label are dependent")
    assert "for negatives only: equality of opportunity holds here" in said["connected", "negatives"][1]
    assert "weak, cancelled by another, or not there" in said["connected", "neither"][1]
    assert "disagrees" in str(found["separated", "both"])
    assert [test.outcome for test in found["connected", "negatives"].tests] == ["not seen", "agree"]
    body = json.loads(json.dumps(found["separated", "both"].to_dict()))
    assert body["agrees"] is False
    assert [test["label"] for test in body["tests"]] == ["positive", "negative"]


def test_a_fair_ranking_cancels_its_paths(counted, fitted):
    """The merit labels of a log contradict a graph that says fair; columns may have the variables' names."""
    reading = eo.causal("group -> label -> score")
    assert not reading.compare(counted).agrees
    assert reading.compare(counted).kind == "merit"
    assert reading.compare(counted, kind="observed").kind == "observed"
    assert reading.compare(eo.audit(counted)).to_dict() == reading.compare(counted).to_dict()


def test_columns_are_found_by_the_variables_names():
    """Variables that are columns are taken for their roles; others keep the usual names; roles= overrules."""
    table = log("both")
    renamed = table.rename_columns(["gender", "label", "score"])
    reading = eo.causal("gender -> label -> s; gender -> s", group="gender", score="s")
    assert reading.compare(renamed).rows == table.num_rows
    assert reading.compare(table, group="group").rows == table.num_rows
    assert reading.compare(eo.Log(table)).rows == table.num_rows


def test_too_few_rows_are_not_tested():
    """With three queries there is no test, and that is said."""
    table = log("both", 60).append_column("query", pa.array(np.arange(60) % 3))
    found = eo.causal("group -> label -> score").compare(table)
    assert found.agrees
    assert "says nothing about the graph" in found.verdict()
    assert "not tested" in str(found)


def test_what_has_no_effect_is_refused(counted):
    """Roles on an audit or a tally, and other kinds of labels."""
    reading = eo.causal("C -> Y -> S")
    with pytest.raises(eo.SettingsError, match="counted already"):
        reading.compare(eo.audit(counted), score="s")
    with pytest.raises(eo.SettingsError, match="counted already"):
        reading.compare(counted, score="s")
    with pytest.raises(eo.SettingsError, match="kind must be merit or observed"):
        reading.compare(counted, kind="true")
    with pytest.raises(eo.LogError, match="no column 'label'"):
        reading.compare(pa.table({"C": ["a"], "S": [0.5]}))
