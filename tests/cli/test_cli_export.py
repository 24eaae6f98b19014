"""`evenodds export`: what it prints, what it writes, how it fails."""

from types import SimpleNamespace

import duckdb
import onnx
import pytest

import evenodds as eo
from evenodds.cli import main
from evenodds.export import to_sql
from fitted_models import fitted


@pytest.fixture
def run(tmp_path, capsys, monkeypatch):
    """Call the program in a folder with two models; return its exit code, output and errors."""
    fitted("opportunity, plain").save(tmp_path / "model.json")
    fitted("odds, movement").save(tmp_path / "odds.json")
    monkeypatch.chdir(tmp_path)

    def call(line):
        with pytest.raises(SystemExit) as end:
            main(["export", *line.split()])
        return end.value.code, *capsys.readouterr()

    return call


def test_every_target(run, tmp_path):
    """Each target says in one line what was made, and it is there."""
    code, out, err = run("odds.json --to onnx -o odds.onnx")
    assert (code, err) == (0, "")
    assert out.startswith("wrote odds.onnx: scores, groups and draws in, fair_scores out (")
    assert onnx.load(tmp_path / "odds.onnx").producer_name == "evenodds"
    assert run("model.json --to onnx -o model.onnx")[1].startswith("wrote model.onnx: scores and groups in,")
    code, out, err = run("model.json --to sql --name fairer -o fair.sql")
    assert (code, err) == (0, "")
    assert out.startswith("wrote fair.sql: the macro fairer (")
    with duckdb.connect() as con:
        con.execute((tmp_path / "fair.sql").read_text())
        want = fitted("opportunity, plain").transform([0.4], ["b"])[0]
        assert con.execute("SELECT fairer(0.4, 'b')").fetchall() == [(want,)]
    code, out, err = run("odds.json --to sql --dialect spark --key id --table seen -o spark.sql")
    assert (code, err) == (0, "")
    assert out.startswith("wrote spark.sql: the view seen_fair_score (")
    assert run("model.json --to json-schema -o reader")[0] == 0


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("model.json --to onxx -o x", "no export to 'onxx' (hint: did you mean onnx?)"),
        ("model.json --to java -o x", "no export to 'java' (hint: targets: onnx, sql, json-schema)"),
        ("model.json --to onnx -o model.json", "model.json exists already"),
        ("model.json --to sql -o model.json", "model.json exists already"),
        ("model.json --to onnx -o no/where.onnx", "there is no folder no"),
        ("no.json --to onnx -o x.onnx", "no such file: no.json"),
        ("model.json --to onnx --dialect spark -o x", "--dialect has no effect with --to onnx"),
        ("model.json --to json-schema --key a -o x", "--key has no effect with --to json-schema"),
        ("model.json --to sql --score s -o x", "--score has no effect with --dialect duckdb"),
        ("model.json --to sql --dialect sparc -o x", "no SQL dialect 'sparc' (hint: did you mean spark?)"),
        ("odds.json --to sql --dialect spark -o x", "a key is needed"),
        (
            "odds.json --to sql --dialect spark --key a --group a --group b -o x",
            "2 group columns for a model",
        ),
        ("model.json -o x", "Missing option '--to'"),
    ],
)
def test_bad_usage_is_one_line(run, tmp_path, line, said):
    """Exit code 2, one line that says what is wrong, and nothing is written."""
    before = sorted(tmp_path.iterdir())
    code, out, err = run(line)
    assert (code, out) == (2, "")
    assert said in err
    assert err.startswith("evenodds: ")
    assert err.count("\n") == 1
    assert sorted(tmp_path.iterdir()) == before


def test_a_model_of_another_kind_is_refused(tmp_path, monkeypatch):
    """A criterion that exports do not know is refused in one line, and nothing is written."""
    model = fitted("opportunity, plain")
    monkeypatch.setattr(type(model), "scorer_", property(lambda _self: SimpleNamespace(draws=False)))
    with pytest.raises(
        eo.SettingsError, match=r"cannot be exported .hint: exports know opportunity and odds"
    ):
        to_sql(model, tmp_path / "x.sql")
    assert list(tmp_path.iterdir()) == []
