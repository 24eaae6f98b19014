"""The page on file formats names every key of the real files, and no other."""

import json
import re
from dataclasses import fields

import numpy as np
import pyarrow.parquet as pq
import pytest

import evenodds as eo
from evenodds import model_file, tally_file
from evenodds.export.vectors import golden_vectors
from evenodds.report.facts import About
from evenodds.report.gather import gather
from fitted_models import fitted, plain, ties
from pages import ROOT

PAGE = (ROOT / "docs" / "formats.md").read_text("utf-8")


def section(heading):
    """Return what stands below a heading, up to the next one."""
    return re.search(rf"^#+ {re.escape(heading)}\n(.*?)(?=^#|\Z)", PAGE, re.DOTALL | re.MULTILINE)[1]


def keys(heading, table=0):
    """Return the names in the first column of a table below a heading."""
    tables = re.findall(r"(?:^\|.*\n)+", section(heading), re.MULTILINE)
    rows = tables[table].splitlines()[2:]
    return [name for row in rows for name in re.findall(r"`([^`]+)`", row.split("|")[1])]


def named(heading, key):
    """Return the names that the row of a key mentions."""
    rows = [line.split("|") for line in section(heading).splitlines() if line.startswith("|")]
    row = next(row for row in rows if f"`{key}`" in row[1])
    return set(re.findall(r"`([^`\"]+)`", row[2]))


@pytest.mark.parametrize("name", ["opportunity, ties", "odds, kept order"])
def test_model_files(name):
    """Keys of a model file, of its tables, and what stands in the smaller ones."""
    body = json.loads(fitted(name).to_text())
    model = "A model: `evenodds-model`, version 1"
    tables = f"Tables of `{body['criterion']}`"
    assert keys(model) == list(body)
    assert sorted(keys(tables)) == sorted(body["tables"])
    assert {"rows", "sources", "roles", "weighted"} == set(body["fitted_on"]) <= named(model, "fitted_on")
    assert set(body["position_bias"]) == named(model, "position_bias")
    if "order" in body["tables"]:
        assert set(body["tables"]["order"]) == named(tables, "order") - {"keep_order"}
    assert body["version"] == model_file.VERSION == 1


@pytest.mark.parametrize("tally", [plain, ties])
def test_tallies(tally, tmp_path):
    """Columns and metadata of a tally; the page's way to its counts gives the counts."""
    tally_file.write(tally(), tmp_path / "day.tally", extra={"batch": 7})
    table = pq.read_table(tmp_path / "day.tally")
    head = json.loads(table.schema.metadata[b"evenodds"])
    heading = "A tally: `evenodds-tally`, version 1"
    assert keys(heading) == table.column_names
    assert sorted(keys(heading, 1)) == sorted(head)
    tally().save(tmp_path / "plain.tally")
    plainly = json.loads(pq.read_schema(tmp_path / "plain.tally").metadata[b"evenodds"])
    assert set(head) - set(plainly) == {"extra"}
    assert set(head["arrays"]) == named(heading, "arrays") - {"null"}
    assert set(head["grid"]) == named(heading, "grid")
    assert head["version"] == tally_file.VERSION == 1
    array, place, count = (table[name].to_numpy() for name in table.column_names)
    for number, name in enumerate(head["arrays"]):
        kept = getattr(tally(), name)
        assert (kept is None) == (head["arrays"][name] is None)
        if kept is not None:
            dense = np.zeros(kept.size, count.dtype)
            dense[place[array == number]] = count[array == number]
            np.testing.assert_array_equal(dense.reshape(head["arrays"][name]), kept)


def test_report_facts():
    """Keys of a report's facts, of a state, and of what stands in them."""
    about = About("", "", "", *[None] * (len(fields(About)) - 3))
    told = gather(plain(), fitted("opportunity, plain"), about, (0.0, 1.0)).to_dict()
    heading = "What a report says: `evenodds-report/1`"
    assert sorted(keys(heading)) == sorted(told)
    assert json.loads(json.dumps(told, allow_nan=False)) == told
    for key in ("about", "bias"):
        assert set(told[key]) == named(heading, key)
    assert set(told["groups"][0]) == named(heading, "groups")
    for state in (told["before"], *told["after"]):
        assert sorted(keys("A state")) == sorted(state)
        assert set(state["gaps"][0]) == named("A state", "gaps")
        assert set(state["groups"][0]) == named("A state", "groups")
        for key in ("cut", "parity"):
            assert state[key] is None or set(state[key]) == named("A state", key) - {"null"}
    assert told["before"]["cut"] is not None


def test_vectors():
    """Keys of golden vectors, and of their entries."""
    every = [golden_vectors(fitted(name)) for name in ("opportunity, plain", "odds, movement")]
    for vectors in every:
        assert keys("Exports") == list(vectors)
        assert set(vectors["hash"][0]) <= named("Exports", "hash")
    inside = {key for vectors in every for item in vectors["items"] for key in item}
    assert inside == named("Exports", "items")
    assert named("Exports", "hash") == {*every[0]["hash"][0], "text", "whole"}
    assert set(every[0]["coefficients"]) == named("Exports", "coefficients")


def test_later_versions_are_refused(tmp_path):
    """As the page says, a file of a later version is no damaged file but a newer one."""
    body = {**json.loads(fitted("opportunity, plain").to_text()), "version": 2}
    (tmp_path / "m.json").write_text(json.dumps(body), encoding="utf-8")
    with pytest.raises(eo.NewerVersionError, match="model version 2"):
        eo.load(tmp_path / "m.json")
