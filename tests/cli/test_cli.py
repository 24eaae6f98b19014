"""Every command on a small log: what it prints, what it writes, how it fails."""

import json
import subprocess
import sys
import warnings
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as pc
import pyarrow.parquet as pq
import pytest

import evenodds as eo
from evenodds.cli import COMMANDS, main
from evenodds.simulate import outcome_on_fresh_lists
from oracles import fairness

ISSUE_2 = ("demo", "simulate", "tally", "merge", "fit", "audit", "apply")


@pytest.fixture(scope="module")
def folder(tmp_path_factory, simulated):
    """Make a log, its halves, a tally and a model."""
    made = tmp_path_factory.mktemp("cli")
    log = simulated.slice(0, 20_000)
    pq.write_table(log, made / "log.parquet")
    pc.write_csv(log, made / "log.csv")
    counts = eo.tally(made / "log.parquet", cells=500)
    counts.save(made / "day.tally")
    for name, cut in (("head", (0, 9_000)), ("tail", (9_000,))):
        pq.write_table(log.slice(*cut), made / f"{name}.parquet")
    eo.EqualOpportunity().fit(counts).save(made / "model.json")
    return made


@pytest.fixture
def run(folder, capsys, monkeypatch):
    """Call the program in the folder; return its exit code, output and errors."""
    monkeypatch.chdir(folder)
    monkeypatch.setattr(warnings, "showwarning", warnings.showwarning)  # which the program replaces

    def call(*arguments):
        with pytest.raises(SystemExit) as end:
            main([str(argument) for argument in arguments])
        out, err = capsys.readouterr()
        return end.value.code, out, err

    return call


def done(result):
    """Expect success without a word on standard error."""
    code, out, err = result
    assert (code, err) == (0, "")
    return out


def refused(result, *said):
    """Expect exit code 2 and one clear line."""
    code, out, err = result
    assert code == 2
    assert out == ""
    assert err.startswith("evenodds: ")
    assert err.count("\n") == 1
    for part in said:
        assert part in err
    return err


# Help


@pytest.mark.parametrize("command", COMMANDS)
def test_help_teaches(run, command):
    """Each command's help says what it does, and shows a whole command line on a line of its own."""
    out = done(run(command, "--help"))
    lines = [line.strip() for line in out.splitlines()]
    assert lines[0].startswith(f"Usage: evenodds {command}")
    assert len(lines[2]) > 20
    assert any(line.startswith(f"evenodds {command}") for line in lines[1:])
    assert "\\b" not in out


def test_the_program_explains_itself(run):
    """The program's own help lists all commands and the way from a log to a fair ranking."""
    out = done(run("--help"))
    for command in ISSUE_2:
        assert f"\n  {command} " in out
    assert "evenodds fit log.parquet -o model.json" in out


def test_without_a_command_it_shows_its_help(run):
    """Called bare, the program shows its help and exits with 2."""
    code, _, err = run()
    assert code == 2
    assert "Commands:" in err


def test_version(run):
    """--version prints the package's version."""
    assert done(run("--version")) == f"evenodds {eo.__version__}\n"


# Counting


def test_simulate_writes_the_simulated_log(run, tmp_path):
    """Simulate writes what eo.simulate returns for the same numbers, list lengths as a range too."""
    out = done(
        run("simulate", "-o", tmp_path / "s.parquet", "--queries", 40, "--list-length", "3:6", "--seed", 4)
    )
    table = pq.read_table(tmp_path / "s.parquet")
    assert table.equals(eo.simulate(40, seed=4, list_length=(3, 6)))
    assert f"{table.num_rows} rows, 40 queries" in out


def test_tally_counts_a_log(run, tmp_path, folder):
    """Tally writes the tally that eo.tally counts, and says what is in it."""
    out = done(run("tally", "log.parquet", "-o", tmp_path / "t.tally", "--cells", 500))
    counted = eo.Tally.load(tmp_path / "t.tally")
    assert counted.equals(eo.tally(folder / "log.parquet", cells=500))
    assert "20,000 rows" in out
    assert "groups: A " in out


def test_tally_as_json(run, tmp_path):
    """With --json the summary is JSON."""
    body = json.loads(done(run("tally", "log.parquet", "-o", tmp_path / "t.tally", "--cells", 50, "--json")))
    assert body["rows"] == 20_000
    assert sum(body["groups"].values()) == 20_000
    assert body["cells"] == 50
    assert body["grid"] == eo.Tally.load(tmp_path / "t.tally").grid.fingerprint


def test_parts_merge_to_the_whole(run, tmp_path, folder):
    """Two halves, the second counted on the first one's cells, merge to the tally of all rows on these cells."""
    done(run("tally", "head.parquet", "-o", tmp_path / "a.tally", "--cells", 300))
    done(run("tally", "tail.parquet", "-o", tmp_path / "b.tally", "--grid-from", tmp_path / "a.tally"))
    out = done(run("merge", tmp_path / "a.tally", tmp_path / "b.tally", "-o", tmp_path / "c.tally", "--json"))
    whole = eo.tally(folder / "log.parquet", grid=eo.Tally.load(tmp_path / "a.tally"))
    assert eo.Tally.load(tmp_path / "c.tally").equals(whole)
    assert json.loads(out)["rows"] == 20_000


def test_merge_weighs_older_tallies_down(run, tmp_path):
    """With --half-life 1 the oldest of three tallies counts a quarter, the last one fully."""
    done(run("merge", *["day.tally"] * 3, "-o", tmp_path / "m.tally", "--half-life", 1))
    day, merged = eo.Tally.load("day.tally"), eo.Tally.load(tmp_path / "m.tally")
    assert merged.counts.sum() == pytest.approx(1.75 * day.counts.sum())


def test_column_options(run, tmp_path):
    """Columns go by any name; several --group are crossed; 'none' leaves an optional column out."""
    table = pq.read_table("log.parquet").rename_columns(["q", "i", "g", "s", "p", "l"])
    table = table.append_column("h", [np.arange(table.num_rows) % 2])
    pq.write_table(table, tmp_path / "named.parquet")
    columns = ["--score", "s", "--group", "g", "--group", "h", "--label", "l", "--position", "p"]
    done(
        run(
            "tally",
            tmp_path / "named.parquet",
            "-o",
            tmp_path / "t.tally",
            *columns,
            "--cells",
            20,
            "--depth",
            9,
        )
    )
    counted = eo.Tally.load(tmp_path / "t.tally")
    assert counted.groups[0] == ("A", "0")
    assert counted.folds is None
    assert counted.depth == 9
    done(run("tally", "log.parquet", "-o", tmp_path / "u.tally", "--query", "none", "--cells", 20))
    assert eo.Tally.load(tmp_path / "u.tally").roles.query is None


# Fitting and auditing


def test_fit_writes_the_model(run, tmp_path, folder):
    """Fit writes the model that Python fits on the same tally, and says what it found."""
    out = done(run("fit", "day.tally", "-o", tmp_path / "m.json"))
    assert (tmp_path / "m.json").read_bytes() == (folder / "model.json").read_bytes()
    for part in (
        "group A: ",
        "group B: ",
        "position bias (joint): 1.00 at position 1",
        "unfairness among positives: 0.",
    ):
        assert part in out


def test_fit_takes_logs_and_tallies_together(run, tmp_path):
    """Logs are counted on the cells of the tallies beside them and added up."""
    done(run("tally", "head.parquet", "-o", tmp_path / "a.tally", "--cells", 500))
    done(
        run("fit", tmp_path / "a.tally", "tail.parquet", "-o", tmp_path / "m.json", "--position-bias", "none")
    )
    assert eo.load(tmp_path / "m.json").fitted_on_["rows"] == 20_000


def test_fit_passes_its_settings_on(run, tmp_path):
    """Every setting of equality of opportunity reaches the model."""
    settings = {
        "alpha": 0.5, "scale": "unit", "points": 99, "interpolation": "cubic", "min_positives": 7, "unknown": "error",
    }  # fmt: skip
    options = [part for name, value in settings.items() for part in (f"--{name.replace('_', '-')}", value)]
    done(run("fit", "day.tally", "-o", tmp_path / "m.json", *options, "--position-bias", "1,0.63,0.5"))
    model = eo.load(tmp_path / "m.json")
    assert {name: getattr(model, name) for name in settings} == settings
    assert model.position_bias_.weights.tolist() == [1.0, 0.63, 0.5]


def test_fit_as_json(run, tmp_path):
    """With --json the diagnostics and the position bias are JSON."""
    body = json.loads(done(run("fit", "day.tally", "-o", tmp_path / "m.json", "--json")))
    assert body["criterion"] == "opportunity"
    assert body["diagnostics"]["unfairness"]["before"] > 0.4
    assert body["diagnostics"]["unfairness"]["after"] < 0.01
    assert body["position_bias"]["positions"][:2] == [1, 2]


def test_a_small_group_is_a_note_not_a_failure(run, tmp_path):
    """Warnings are notes on standard error; the program goes on."""
    table = pq.read_table("log.parquet")
    group = np.array(table["group"].to_pylist(), dtype=object)
    group[:40] = "rare"
    pq.write_table(table.set_column(2, "group", pa.array(group)), tmp_path / "rare.parquet")
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        code, out, err = run("fit", tmp_path / "rare.parquet", "-o", tmp_path / "m.json", "--cells", 300)
    assert code == 0
    assert err.startswith("evenodds: note: group rare has ")
    assert "group rare: 40 rows" in out
    assert "shares the pooled map" in out


def test_audit_prints_a_table_or_json(run):
    """Audit prints a table; with --json, JSON that holds rows and distances, also with a model."""
    assert "positive (merit)" in done(run("audit", "log.parquet", "--cells", 300))
    body = json.loads(done(run("audit", "day.tally", "--model", "model.json", "--json")))
    assert body["rows"] == 20_000
    assert body["distances"]


def test_audit_fails_above_its_threshold(run):
    """Unfairness above --fail-above exits with 1 and says so; below it, or with a good model, with 0."""
    code, out, err = run("audit", "day.tally", "--fail-above", 0.4)
    assert code == 1
    assert "positive (merit)" in out
    assert "0.4" in err
    assert err.count("\n") == 1
    assert run("audit", "day.tally", "--fail-above", 0.9)[0] == 0
    assert run("audit", "day.tally", "--model", "model.json", "--fail-above", 0.4)[0] == 0


def test_an_audit_that_measured_nothing_does_not_pass(run, tmp_path):
    """Where only one group has positives there is nothing to measure, and the gate does not open."""
    table = pq.read_table("log.parquet")
    label = np.where(np.array(table["group"].to_pylist()) == "A", 0, table["label"].to_numpy())
    pq.write_table(table.set_column(5, "label", [label]), tmp_path / "one.parquet")
    arguments = (
        "audit",
        tmp_path / "one.parquet",
        "--fail-above",
        0.5,
        "--position-bias",
        "none",
        "--cells",
        50,
    )
    refused(run(*arguments), "fewer than two groups have positives")


# Applying


def test_apply_adds_two_columns(run, tmp_path, simulated):
    """Apply keeps rows and columns and adds fair_score and fair_position, as ranked by the oracle."""
    log = pq.read_table("log.parquet").slice(0, 1_500)
    log = log.take(np.random.default_rng(0).permutation(1_500))  # rows of a query lie scattered
    pq.write_table(log, tmp_path / "log.parquet")
    out = done(run("apply", "model.json", tmp_path / "log.parquet", "-o", tmp_path / "fair.parquet"))
    assert "1,500 rows with fair_score and fair_position" in out
    fair = pq.read_table(tmp_path / "fair.parquet")
    assert fair.select(log.column_names).equals(log)
    assert (
        fair["fair_score"].to_pylist() == eo.load("model.json").transform(log["score"], log["group"]).tolist()
    )
    pairs = list(zip(log["query"].to_pylist(), fair["fair_score"].to_pylist(), strict=True))
    assert fair["fair_position"].to_pylist() == fairness.ranks(pairs)


def test_apply_needs_no_labels_and_no_positions(run, tmp_path):
    """Candidates that nobody has seen yet have no label and no position; they are ranked all the same."""
    table = pq.read_table("log.parquet")
    pq.write_table(table.drop_columns(["label", "position"]), tmp_path / "new.parquet")
    done(run("apply", "model.json", tmp_path / "new.parquet", "-o", tmp_path / "fair.parquet"))
    done(run("apply", "model.json", "log.parquet", "-o", tmp_path / "whole.parquet"))
    found, whole = (pq.read_table(tmp_path / f"{name}.parquet") for name in ("fair", "whole"))
    assert found["fair_position"].equals(whole["fair_position"])


def test_apply_takes_the_models_column_names(run, tmp_path):
    """Columns default to those that the model was fitted on; options override them."""
    table = pq.read_table("log.parquet").rename_columns(["q", "i", "g", "s", "p", "l"])
    pq.write_table(table, tmp_path / "named.parquet")
    columns = ["--score", "s", "--group", "g", "--label", "l", "--position", "p", "--query", "q"]
    done(run("fit", tmp_path / "named.parquet", "-o", tmp_path / "m.json", *columns, "--cells", 300))
    done(run("apply", tmp_path / "m.json", tmp_path / "named.parquet", "-o", tmp_path / "f.parquet"))
    assert "fair_position" in pq.read_schema(tmp_path / "f.parquet").names
    refused(
        run("apply", tmp_path / "m.json", "log.parquet", "-o", tmp_path / "g.parquet"),
        "no column 's' for score",
    )
    options = ["--score", "score", "--group", "group", "--query", "query"]
    done(run("apply", tmp_path / "m.json", "log.parquet", "-o", tmp_path / "g.parquet", *options))


def test_apply_draws_by_key(run, tmp_path, tied):
    """Draws at ties repeat by key: a shuffled log gets the same fair scores, and --key names other columns."""
    eo.EqualOpportunity().fit(tied).save(tmp_path / "m.json")
    log = tied.slice(0, 300)
    order = np.random.default_rng(1).permutation(300)
    pq.write_table(log, tmp_path / "a.parquet")
    pq.write_table(log.take(order), tmp_path / "b.parquet")
    fair = {}
    for name in "ab":
        arguments = [
            "apply",
            tmp_path / "m.json",
            tmp_path / f"{name}.parquet",
            "-o",
            tmp_path / f"f{name}.parquet",
        ]
        done(run(*arguments, "--key", "item"))
        fair[name] = pq.read_table(tmp_path / f"f{name}.parquet")["fair_score"].to_numpy()
    assert (fair["b"] == fair["a"][order]).all()
    expected = eo.load(tmp_path / "m.json").transform(log["score"], log["group"], keys=(log["item"],))
    assert (fair["a"] == expected).all()


def test_demo_runs_the_whole_story(run, tmp_path, monkeypatch):
    """Demo writes log, tally, model and page, prints unfairness before and after, and ends by naming the page."""
    fewer = partial(outcome_on_fresh_lists, queries=3_000)
    monkeypatch.setattr(sys.modules["evenodds.simulate"], "outcome_on_fresh_lists", fewer)
    out = done(run("demo", "-o", tmp_path / "demo", "--queries", 1_000))
    assert "position bias from these clicks" in out
    before, after = next(line.split()[-2:] for line in out.splitlines() if "Kolmogorov-Smirnov" in line)
    assert float(before) > 0.5
    assert float(after) < 0.06
    written = sorted(path.suffix for path in (tmp_path / "demo").iterdir())
    assert written == [".html", ".json", ".parquet", ".tally"]
    assert out.splitlines()[-1] == f"wrote {tmp_path / 'demo' / 'report.html'}: open it in a browser"
    refused(run("demo", "-o", tmp_path / "demo", "--queries", 1_000), "exists already")


def test_it_runs_as_a_program(folder):
    """The installed program runs in a process of its own, and its exit code is the shell's."""
    program = Path(sys.executable).parent / "evenodds"
    command = [program, "audit", "day.tally", "--fail-above", "0.1", "--json"]
    ran = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert ran.returncode == 1
    assert json.loads(ran.stdout)["rows"] == 20_000
