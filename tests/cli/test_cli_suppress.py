"""evenodds tally --suppress."""

import json

import pyarrow.parquet as pq
import pytest

import evenodds as eo
from evenodds.cli import main


def run(capsys, *arguments):
    """Run a command; return exit code and what it printed."""
    with pytest.raises(SystemExit) as stopped:
        main([*map(str, arguments)])
    shown = capsys.readouterr()
    return stopped.value.code, shown.out, shown.err


def test_a_log_and_its_tally_are_suppressed_alike(capsys, tmp_path, simulated):
    """From rows, from a tally, from merged ones: the same file, and its cost is printed."""
    pq.write_table(simulated, tmp_path / "log.parquet")
    counting = ["--cells", "500"]
    code, out, _ = run(
        capsys, "tally", tmp_path / "log.parquet", "-o", tmp_path / "a", "--suppress", 10, *counting
    )
    assert code == 0
    assert "k = 10: every count is 0 or stands for at least 10 rows" in out
    assert "effect on the fit of EqualOpportunity()" in out
    run(capsys, "tally", tmp_path / "log.parquet", "-o", tmp_path / "all", *counting)
    run(capsys, "tally", tmp_path / "all", "-o", tmp_path / "b", "--suppress", 10)
    code, out, _ = run(capsys, "merge", tmp_path / "all", "-o", tmp_path / "c", "--suppress", 10, "--json")
    body = json.loads(out)
    assert body["suppressed"]["k"] == 10
    assert body["suppressed"]["effect"]["suppressed"]["merit"]["positive"] < 0.1
    assert eo.Tally.load(tmp_path / "a") == eo.Tally.load(tmp_path / "b") == eo.Tally.load(tmp_path / "c")


def test_bad_k_writes_nothing(capsys, tmp_path, mixed):
    """Exit code 2 and one line."""
    pq.write_table(mixed.drop_columns(["weight"]), tmp_path / "log.parquet")
    for k, said in ((1, "at least 2"), (100_000, "nothing would be left")):
        code, _, err = run(capsys, "tally", tmp_path / "log.parquet", "-o", tmp_path / "a", "--suppress", k)
        assert (code, err.count("\n")) == (2, 1)
        assert said in err
        assert not (tmp_path / "a").exists()


def test_a_tally_that_cannot_be_fitted_says_so(capsys, tmp_path, mixed):
    """With one group there is no fit to have an effect on; the tally is made all the same."""
    table = mixed.drop_columns(["weight"])
    pq.write_table(table.filter(table["group"].to_numpy() == "a"), tmp_path / "log.parquet")
    code, out, _ = run(capsys, "tally", tmp_path / "log.parquet", "-o", tmp_path / "a", "--suppress", 3)
    assert code == 0
    assert "effect on a fit: none to show, only one group (a)" in out
