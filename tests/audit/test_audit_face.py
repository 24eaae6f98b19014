"""The audit for people and for programs: the command, its exit codes, the table, the schema."""

import json
import re
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import evenodds as eo
from evenodds.cli.audit import audit_command

SCHEMA = (Path(__file__).parents[2] / "docs" / "audit-schema.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Write a tally, a model fitted on it, and one that goes hardly any way."""
    made = tmp_path_factory.mktemp("audit")
    counted = eo.tally(eo.simulate(1_500, list_length=10), cells=500)
    counted.save(made / "day.tally")
    eo.EqualOpportunity().fit(counted).save(made / "model.json")
    eo.EqualOpportunity(alpha=0.05).fit(counted).save(made / "weak.json")
    return made


def run(*arguments):
    done = CliRunner().invoke(audit_command, [str(part) for part in arguments], standalone_mode=False)
    assert done.exception is None, done.exception
    return done.return_value, done.output


def test_the_gate_compares_the_upper_end(folder):
    """The gate fails where the estimate passes but the upper end does not, and passes above the upper end."""
    code, output = run(folder / "day.tally", "--model", folder / "model.json", "--json")
    found = json.loads(output)["unfairness"]["after"]
    assert code == 0
    assert found["value"] < found["high"]
    between = (found["value"] + found["high"]) / 2
    model = ("--model", folder / "model.json")
    assert run(folder / "day.tally", *model, "--fail-above", between)[0] == 1
    assert run(folder / "day.tally", *model, "--fail-above", found["high"] + 1e-4)[0] == 0


def test_the_gate_looks_at_the_model_if_there_is_one(folder):
    """Without a model the logged ranking is judged, with one the fair score."""
    assert run(folder / "day.tally", "--fail-above", 0.3)[0] == 1
    assert run(folder / "day.tally", "--model", folder / "model.json", "--fail-above", 0.3)[0] == 0
    code, output = run(folder / "day.tally", "--model", folder / "weak.json", "--fail-above", 0.3)
    assert code == 1
    assert "the limit is 0.3" in output


def test_json_is_the_documented_schema(folder):
    """Every key that is printed is documented, and the version is named."""
    _, output = run(folder / "day.tally", "--model", folder / "model.json", "--json")
    body = json.loads(output)
    assert body["schema"] == "evenodds-audit/1"
    assert list(body) == re.findall(r"^\| `(\w+)` \|", SCHEMA, re.MULTILINE)[: len(body)]
    known = set(re.findall(r"[`\"](\w+)[`\"]", SCHEMA))
    entries = [body["intervals"], body["unfairness"]]
    entries += [body[name][0] for name in ("distances", "groups", "auc", "parity", "positions")]
    entries += [
        body["groups"][0]["before"],
        body["distances"][0]["before"],
        body["distances"][0]["before"]["ks"],
    ]
    assert {key for entry in entries for key in entry} - known == set()


def test_the_table_fits_a_screen(folder):
    """Twenty groups, crossed columns among them, still print in 45 lines; the rest is counted."""
    rng = np.random.default_rng(0)
    table = eo.simulate(1_500, list_length=10)
    table = table.append_column("age", [rng.integers(0, 5, table.num_rows).astype(str)])
    result = eo.audit(table, group=["group", "age"])
    lines = str(result).splitlines()
    assert len(result.groups) == 10
    assert len(lines) <= 45
    assert "A × 0" in str(result)
    assert any(line.startswith("... and") for line in lines)
    assert lines[0].startswith("groups differ among positives: unfairness 0.")
    assert "nan" not in str(result)


def test_a_limit_that_is_no_distance_is_refused(folder):
    """--fail-above takes a distance, 0 to 1."""
    done = CliRunner().invoke(audit_command, [str(folder / "day.tally"), "--fail-above", "5"])
    assert done.exit_code == 2
    assert "expected a distance in 0..1" in done.output
