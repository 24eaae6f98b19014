"""evenodds causal."""

import json

import pytest

import evenodds as eo
from evenodds.cli import main


def run(capsys, *arguments):
    """Run the command; return exit code and what it printed."""
    with pytest.raises(SystemExit) as stopped:
        main(["causal", *map(str, arguments)])
    shown = capsys.readouterr()
    return stopped.value.code, shown.out, shown.err


def test_it_prints_the_reading_and_draws_it(capsys, tmp_path):
    """Text on the terminal, a picture in a file, refused the second time."""
    graph = "C -> X1 <- X2 -> S; X1 -> Y"
    code, out, err = run(capsys, graph, "--picture", tmp_path / "graph.svg")
    assert (code, err) == (0, "")
    assert out == f"{eo.causal(graph)}\nwrote {tmp_path}/graph.svg\n"
    assert (tmp_path / "graph.svg").exists()
    code, out, err = run(capsys, graph, "--picture", tmp_path / "graph.svg")
    assert (code, out) == (2, "")
    assert "exists already" in err
    assert run(capsys, graph, "--picture", tmp_path / "graph.svg", "--force")[0] == 0


def test_json_and_roles(capsys, tmp_path):
    """A DOT file with names of its own, read as JSON."""
    (tmp_path / "g.dot").write_text("digraph { gender -> hired -> rating; gender -> rating }")
    roles = ["--group", "gender", "--label", "hired", "--score", "rating"]
    code, out, _ = run(capsys, tmp_path / "g.dot", *roles, "--json")
    assert code == 0
    assert json.loads(out)["closing"] == ["gender"]


def test_a_log_and_a_tally_say_the_same(capsys, tmp_path, counted, simulated):
    """--log takes either; JSON holds both parts."""
    import pyarrow.parquet as pq

    counted.save(tmp_path / "day.tally")
    pq.write_table(simulated, tmp_path / "log.parquet")
    code, out, _ = run(capsys, "group -> label -> score", "--log", tmp_path / "day.tally", "--json")
    assert code == 0
    assert json.loads(out)["log"]["agrees"] is False
    code, out, _ = run(capsys, "group -> label -> score", "--log", tmp_path / "log.parquet")
    assert "in the log: 200,000 rows, merit labels; the log disagrees" in out
    _, out, _ = run(
        capsys, "group -> label -> score", "--log", tmp_path / "day.tally", "--labels", "observed"
    )
    assert "observed labels" in out
    code, _, err = run(
        capsys, "group -> label -> score", "--log", tmp_path / "day.tally", "--log", tmp_path / "log.parquet"
    )
    assert code == 2
    assert "logs or tallies, not both" in err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["C -> Y -> C"], "cycle"),
        (["C -> Y -> S", "--score", "score"], "no variable 'score'"),
        (["C -> Y -> S", "--limit", "0"], "limit must be at least 1"),
        (["C -> Y -> S", "--picture", "no/graph.svg"], "there is no folder"),
        (["C -> Y -> S", "--picture", "graph.pdf"], "ending in .svg, .png or .dot"),
        (["C -> Y -> S", "--log", "nothing.parquet"], "no such file"),
        ([], "Missing argument"),
    ],
)
def test_bad_input_is_one_line(capsys, tmp_path, monkeypatch, arguments, said):
    """Exit code 2, one line, nothing written."""
    monkeypatch.chdir(tmp_path)
    code, out, err = run(capsys, *arguments)
    assert (code, out) == (2, "")
    assert said in err
    assert err.count("\n") == 1
    assert list(tmp_path.iterdir()) == []
