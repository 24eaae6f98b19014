"""Bad input on the command line: exit code 2, one line, nothing written."""

import warnings

import numpy as np
import pyarrow as pa
import pyarrow.csv as pc
import pyarrow.parquet as pq
import pytest

import evenodds as eo
from evenodds.cli import main


def columns(**changed):
    """Return a good log of 400 rows, with some columns changed."""
    rng = np.random.default_rng(0)
    good = {
        "query": np.repeat(np.arange(40), 10),
        "item": np.arange(400),
        "position": np.tile(np.arange(1, 11), 40),
        "group": np.array(["a", "b"])[rng.integers(0, 2, 400)],
        "score": rng.random(400),
        "label": rng.integers(0, 2, 400),
    }
    return pa.table({name: value for name, value in {**good, **changed}.items() if value is not None})


def with_value(kind, place, value, size=400):
    """Return a column of `size` rows with one value of another kind."""
    values = {
        "score": [0.5] * size,
        "label": [1, 0] * (size // 2),
        "group": ["a", "b"] * (size // 2),
        "position": [1.0] * size,
        "weight": [1.0] * size,
    }[kind]
    values = list(values)
    values[place] = value
    return pa.array(values)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Make good files and all kinds of bad ones."""
    made = tmp_path_factory.mktemp("errors")
    logs = {
        "good": columns(),
        "nan": columns(score=with_value("score", 3, float("nan"))),
        "infinite": columns(score=with_value("score", 3, float("inf"))),
        "null-group": columns(group=with_value("group", 3, None)),
        "label-2": columns(label=with_value("label", 3, 2)),
        "below": columns(position=with_value("position", 3, -1.0)),
        "not-whole": columns(position=with_value("position", 3, 1.5)),
        "weight": columns(weight=with_value("weight", 3, -1.0)),
        "empty": columns().slice(0, 0),
        "one-group": columns(group=pa.array(["a"] * 400)),
        "no-positives": columns(label=pa.array([0] * 400)),
        "no-score": columns(score=None, scoer=pa.array([0.5] * 400)),
        "text-score": columns(score=pa.array(["x"] * 400)),
        "several": columns(
            score=with_value("score", 3, float("nan")),
            group=with_value("group", 5, None),
            label=with_value("label", 9, 7),
        ),
    }
    for name, table in logs.items():
        pq.write_table(table, made / f"{name}.parquet")
    pc.write_csv(columns(group=with_value("group", 3, "")), made / "null-group.csv")
    (made / "empty.csv").write_text("")
    (made / "only-a-head.csv").write_text("score,group,label\n")
    (made / "note.txt").write_text("hello")
    counts = eo.tally(made / "good.parquet", cells=20)
    counts.save(made / "good.tally")
    eo.tally(made / "good.parquet", cells=10).save(made / "other.tally")
    model = eo.EqualOpportunity(min_positives=10).fit(counts)
    model.save(made / "good.json")
    for name, cut in (
        ("cut.tally", "good.tally"),
        ("cut.json", "good.json"),
        ("cut.parquet", "good.parquet"),
    ):
        content = (made / cut).read_bytes()
        (made / name).write_bytes(content[: len(content) * 2 // 3])
    text = (made / "good.json").read_text()
    (made / "edited.json").write_text(text.replace('"alpha": 1.0', '"alpha": 0.5'))
    (made / "newer.json").write_text(text.replace('"version": 1', '"version": 99'))
    table = pq.read_table(made / "good.tally")
    pq.write_table(table.slice(1), made / "edited.tally")
    return made


CASES = {
    # What a log may have wrong
    "tally no-score.parquet -o OUT": "no column 'score' for score, did you mean 'scoer'?",
    "tally text-score.parquet -o OUT": "column 'score' (score) has type string; expected numbers",
    "tally nan.parquet -o OUT": "NaN or infinite score in column 'score' in 1 row (first: nan at row 3)",
    "tally infinite.parquet -o OUT": "NaN or infinite score in column 'score' in 1 row (first: inf at row 3)",
    "tally null-group.parquet -o OUT": "null in column 'group' in 1 row (first: at row 3)",
    "tally null-group.csv -o OUT": "null or empty text in column 'group' in 1 row (first: at row 3)",
    "tally label-2.parquet -o OUT": "label outside {0, 1} in column 'label' in 1 row (first: 2 at row 3)",
    "tally below.parquet -o OUT": "position below the first in column 'position'",
    "tally not-whole.parquet -o OUT": "position not a whole number in column 'position' in 1 row (first: 1.5 at row 3)",
    "tally good.parquet -o OUT --first-position 2": "expected 2 or more",
    "tally good.parquet -o OUT --first-position -1": "first_position must be at least 0",
    "tally weight.parquet -o OUT": "negative or infinite weight in column 'weight' in 1 row",
    "tally empty.parquet -o OUT": "the log is empty: no rows",
    "tally empty.csv -o OUT": "cannot read empty.csv",
    "tally only-a-head.csv -o OUT": "column 'score' (score) has type null",
    "tally several.parquet -o OUT": "3 problems in the log: null in column 'group' in 1 row (first: at row 5); "
    "NaN or infinite score in column 'score' in 1 row (first: nan at row 3); "
    "label outside {0, 1} in column 'label' in 1 row (first: 7 at row 9)",
    "tally good.parquet -o OUT --score scor --label lable": "2 problems in the log: no column 'scor' for score",
    "fit one-group.parquet -o OUT": "only one group (a) in column group",
    "audit one-group.parquet": "only one group (a) in column group",
    "fit no-positives.parquet -o OUT": "no positive label in the log",
    "audit no-positives.parquet": "no positive label in the log",
    "tally nowhere.parquet -o OUT": "no such file: nowhere.parquet",
    "tally nowhere*.parquet -o OUT": "no such file: nowhere*.parquet",
    "tally note.txt -o OUT": "note.txt: unknown file type",
    "tally cut.parquet -o OUT": "cannot read cut.parquet",
    "tally good.parquet null-group.csv -o OUT": "files of several formats in one log",
    # Tallies
    "merge good.tally other.tally -o OUT": "their score cells (grids) differ (hint: count the second with --grid-from",
    "fit good.tally other.tally -o OUT": "their score cells (grids) differ",
    "fit cut.tally -o OUT": "cut.tally is not a whole tally file",
    "fit edited.tally -o OUT": "edited.tally has been changed since it was written",
    "fit nowhere.tally -o OUT": "no such file: nowhere.tally",
    "merge good.tally good.parquet -o OUT": "good.parquet is not a tally file",
    "merge good.tally nowhere.tally -o OUT": "'nowhere.tally' does not exist",
    "merge good.tally good.tally -o OUT --half-life 0": "half-life must be above 0",
    "tally good.parquet -o OUT --grid-from good.parquet": "good.parquet is not a tally file",
    "tally good.parquet -o OUT --grid-from nowhere": "'nowhere' does not exist",
    # Models
    "apply nowhere.json good.parquet -o OUT.parquet": "no such file: nowhere.json",
    "apply cut.json good.parquet -o OUT.parquet": "cut.json is not a whole model file",
    "apply edited.json good.parquet -o OUT.parquet": "edited.json has been changed since it was written",
    "apply newer.json good.parquet -o OUT.parquet": "model version 99; this program reads up to 1 (hint: upgrade",
    "apply good.tally good.parquet -o OUT.parquet": "good.tally is not a whole model file",
    "audit good.parquet --model cut.json": "cut.json is not a whole model file",
    # Applying
    "apply good.json nan.parquet -o OUT.parquet": "NaN or infinite score in column 'score', first at row 3",
    "apply good.json empty.parquet -o OUT.parquet": "the log is empty: no rows",
    "apply good.json good.parquet -o OUT.parquet --key itm": "no column 'itm' for key, did you mean 'item'?",
    "apply good.json good.parquet -o OUT.txt": "unknown file type",
    "apply good.json good.parquet -o OUT.csv.gz": "compressed CSV is read, not written",
    # Outputs
    "tally good.parquet -o good.tally": "good.tally exists already (hint: choose another name",
    "fit good.tally -o good.json": "good.json exists already",
    "merge good.tally -o other.tally": "other.tally exists already",
    "apply good.json good.parquet -o nan.parquet": "nan.parquet exists already",
    "simulate -o good.parquet --queries 5": "good.parquet exists already",
    "tally good.parquet -o nowhere/t.tally": "there is no folder nowhere",
    "fit good.tally -o .": "is a folder; expected a file name",
    "demo -o good.json": "cannot make the folder good.json",
    # Settings
    "fit good.tally -o OUT --alpha 2": "alpha must lie in 0..1, got 2.0",
    "fit nan.parquet -o OUT --alpha 2": "alpha must lie in 0..1, got 2.0",  # before any row is read
    "fit good.tally -o OUT --scale unit --unknown keep": "unknown='keep' mixes scores of two scales",
    "fit good.tally -o OUT --position-bias joimt": "unknown position-bias method 'joimt'",
    "fit good.tally -o OUT --position-bias 1,x": "expected a method or numbers like 1,0.63,0.5",
    "fit good.tally -o OUT --position-bias 1,-1": "given position weights must be",
    "fit good.tally -o OUT --position-bias swaps": "method 'swaps' needs the column that names the swapped pairs",
    "fit good.tally -o OUT --min-positives 100000": "no group has 100000 positives",
    "tally good.parquet -o OUT --cells 0": "cells must be a whole number in 1..10000, got 0",
    "tally good.parquet -o OUT --depth 0": "depth must be a whole number of at least 1, got 0",
    "simulate -o OUT --queries 0": "queries and population_size must be at least 1",
    "simulate -o OUT --list-length x": "expected a number like 50, or a range like 10:50",
    "simulate -o OUT --list-length 9:3": "list_length must lie in",
    # Usage
    "frobnicate": "no command 'frobnicate' (hint: commands: ",
    "fti": "no command 'fti' (hint: did you mean fit?)",
    "fit": "Missing argument",
    "fit good.tally": "Missing option '-o'",
    "fit good.tally -o OUT --alpah 1": "No such option",
    "fit good.tally -o OUT --depth 3 --label x": "--label, --depth has no effect on a tally",
    "merge good.tally -o OUT --half-life -3": "half-life must be above 0",
    "apply good.tally good.tally -o OUT": "good.tally is not a whole model file",
    # Notes of the work before it do not crowd an error
    "fit good.parquet -o OUT --min-positives 1000000": "no group has 1000000 positives",
    "audit good.tally --fail-above x": "'x' is not a valid float",
}


@pytest.mark.parametrize("command", CASES)
def test_bad_input_is_one_line_and_exit_code_2(folder, tmp_path, monkeypatch, capsys, command):
    """The command exits with 2, prints one line that says what is wrong, and leaves every file as it was."""
    monkeypatch.chdir(folder)
    monkeypatch.setattr(warnings, "showwarning", warnings.showwarning)  # which the program replaces
    before = {path.name: path.stat().st_mtime_ns for path in folder.iterdir()}
    arguments = command.replace("OUT", str(tmp_path / "out")).split()
    with pytest.raises(SystemExit) as end:
        main(arguments)
    out, err = capsys.readouterr()
    assert end.value.code == 2
    assert out == ""
    assert err.startswith("evenodds: ")
    assert err.count("\n") == 1
    assert "Traceback" not in err
    assert CASES[command] in err
    assert list(tmp_path.iterdir()) == []
    assert {path.name: path.stat().st_mtime_ns for path in folder.iterdir()} == before


def test_force_overwrites(folder, tmp_path, monkeypatch, capsys):
    """With --force the file is replaced."""
    monkeypatch.setattr(warnings, "showwarning", warnings.showwarning)
    target = tmp_path / "t.tally"
    target.write_text("old")
    with pytest.raises(SystemExit) as end:
        main(["tally", str(folder / "good.parquet"), "-o", str(target), "--force", "--cells", "20"])
    assert end.value.code == 0
    assert eo.Tally.load(target).rows == 400


def test_an_interrupted_run_says_that_nothing_was_written(folder, tmp_path, monkeypatch, capsys):
    """Ctrl-C ends the program without a traceback and without half a file."""
    monkeypatch.setattr(warnings, "showwarning", warnings.showwarning)

    def interrupted(*_arguments, **_settings):
        raise KeyboardInterrupt

    monkeypatch.setattr("evenodds.engines.arrow.Counter.add", interrupted)
    with pytest.raises(SystemExit) as end:
        main(["tally", str(folder / "good.parquet"), "-o", str(tmp_path / "t.tally")])
    assert end.value.code == 130
    assert "Traceback" not in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []
