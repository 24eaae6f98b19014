"""evenodds report and fit --report: pages on disk, one line when something is wrong."""

import json
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from reports import case, lists

import evenodds as eo
from evenodds.cli import main

pytestmark = pytest.mark.filterwarnings("ignore::evenodds.EvenoddsWarning")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Make a log whose columns have other names, its tally, and a model of it."""
    path = tmp_path_factory.mktemp("report")
    table = lists(500, [["a", "b"]]).rename_columns(["s", "clicked", "slot", "request", "who"])
    pq.write_table(table, path / "log.parquet")
    roles = {"score": "s", "label": "clicked", "position": "slot", "query": "request", "group": "who"}
    counts = eo.tally(path / "log.parquet", cells=200, **roles)
    counts.save(path / "day.tally")
    eo.EqualOpportunity(points=500).fit(counts).save(path / "model.json")
    return path


@pytest.fixture
def run(capsys):
    """Run a command; return its exit code, and what it printed."""

    def command(*arguments):
        with pytest.raises(SystemExit) as stop:
            main([str(argument) for argument in arguments])
        out, err = capsys.readouterr()
        return stop.value.code, out, err

    return command


def test_a_log_needs_no_column_names_again(run, folder, tmp_path):
    """From a model and its log the page is made with the model's columns, and names the command that made it."""
    out = tmp_path / "page.html"
    arguments = (
        "report",
        folder / "model.json",
        folder / "log.parquet",
        "-o",
        out,
        "--figures",
        tmp_path / "f",
    )
    code, printed, _ = run(*arguments, "--cells", 200)
    assert code == 0
    assert printed.startswith(f"wrote {out} (1.0 MB), and its figures in ")
    page = out.read_text("utf-8")
    assert f"evenodds report {folder / 'model.json'}" in page
    assert json.loads((folder / "model.json").read_text("utf-8"))["checksum"] in page
    assert (tmp_path / "f" / "tradeoff-unfairness.svg").exists()


def test_a_tally_gives_the_same_verdict(run, folder, tmp_path):
    """From the tally the numbers are those of the log that it counted."""
    for name in ("day.tally", "log.parquet"):
        code, _, _ = run("report", folder / "model.json", folder / name, "-o", tmp_path / f"{name}.html")
        assert code == 0
    shown = [
        page.read_text("utf-8").split('class="cards">')[1].split("</dl>")[0]
        for page in sorted(tmp_path.iterdir())
        if page.suffix == ".html"
    ]
    assert len(shown) == 2
    assert "Unfairness" in shown[0]


def test_fit_writes_the_page_too(run, folder, tmp_path):
    """Fit --report writes model and page, names both, and tells a program where they are."""
    model, page = tmp_path / "m.json", tmp_path / "r.html"
    arguments = ("fit", folder / "day.tally", "-o", model, "--report", page, "--points", 500)
    code, printed, _ = run(*arguments)
    assert code == 0
    assert printed.splitlines()[-1].startswith(f"wrote {page} (")
    assert json.loads(model.read_text("utf-8"))["checksum"] in page.read_text("utf-8")
    code, printed, _ = run(*arguments, "--force", "--json")
    assert json.loads(printed)["report"] == str(page)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["{f}/none.json", "{f}/day.tally", "-o", "{t}/x.html"], "no such file"),
        (["{f}/day.tally", "{f}/day.tally", "-o", "{t}/x.html"], "is not a whole model file"),
        (["{f}/model.json", "{f}/none.parquet", "-o", "{t}/x.html"], "no such file"),
        (["{f}/model.json", "{f}/day.tally", "-o", "{t}/none/x.html"], "there is no folder"),
        (["{f}/model.json", "{f}/day.tally", "-o", "{f}/log.parquet"], "exists already"),
        (["{f}/model.json", "{f}/day.tally", "-o", "{t}/x.html", "--cells", "9"], "counted already"),
        (["{f}/model.json", "-o", "{t}/x.html"], "LOGS"),
    ],
)
def test_bad_input_is_one_line(run, folder, tmp_path, arguments, said):
    """Each is refused with exit code 2 and one line, and nothing is written."""
    code, printed, err = run("report", *(text.format(f=folder, t=tmp_path) for text in arguments))
    assert code == 2
    assert printed == ""
    assert err.count("\n") == 1
    assert said in err
    assert list(tmp_path.iterdir()) == []


def test_a_missing_extra_is_said_before_any_counting(run, folder, tmp_path, monkeypatch):
    """Without vl-convert report, and fit --report, stop at once with one line; the demo goes on without a page."""
    monkeypatch.setitem(sys.modules, "vl_convert", None)
    for arguments in (
        ("report", folder / "model.json", folder / "day.tally", "-o", tmp_path / "x.html"),
        ("fit", folder / "day.tally", "-o", tmp_path / "m.json", "--report", tmp_path / "x.html"),
    ):
        code, _, err = run(*arguments)
        assert code == 2
        assert err.count("\n") == 1
        assert "evenodds[report]" in err
    assert list(tmp_path.iterdir()) == []


def test_figures_are_checked_before_any_is_written(tmp_path):
    """A folder that holds one of the figures is refused whole, without --force; neither page nor figure is new."""
    counts, model = case("plain")
    (tmp_path / "figures").mkdir()
    taken = tmp_path / "figures" / "seen.png"
    taken.write_bytes(b"mine")
    with pytest.raises(eo.OutputError, match=r"seen\.png exists already"):
        eo.report(counts, model, tmp_path / "x.html", figures=tmp_path / "figures")
    assert [path.name for path in tmp_path.rglob("*") if path.is_file()] == ["seen.png"]
    assert Path(taken).read_bytes() == b"mine"
