import copy
import json
import xml.etree.ElementTree as ET
from importlib import import_module

import pytest

from evenodds.cli import main
from evenodds.errors import MissingExtraError
from evenodds.reproduce import paper, pictures

# So few rows that bins are thin: said by the fits, and no matter here.
pytestmark = pytest.mark.filterwarnings("ignore::evenodds.SmallGroupWarning")


@pytest.fixture
def ready(monkeypatch, tiny):
    """Take the measuring as done; it has tests of its own."""

    def measured(size, **_):
        assert size is paper.QUICK
        return copy.deepcopy(tiny)

    monkeypatch.setattr(paper, "run_paper", measured)


def run(*arguments):
    with pytest.raises(SystemExit) as stopped:
        main(["reproduce", *map(str, arguments)])
    return stopped.value.code


def test_quick_writes_files_that_parse_and_prints_every_claim(ready, tmp_path, capsys):
    """results.json is JSON, the SVG are XML, the PNG are PNG; claims are printed with a verdict."""
    assert run("--quick", "-o", tmp_path) == 0
    told = capsys.readouterr().out
    document = json.loads((tmp_path / "results.json").read_text(encoding="utf-8"))
    assert [claim["key"] for claim in document["claims"]] == list("abcdefgh")
    for claim in document["claims"]:
        verdict = "holds" if claim["holds"] else "does not hold"
        assert f"({claim['key']}) {claim['text']}: {verdict}" in told
    for path in pictures.paths("paper", tmp_path):
        if path.suffix == ".svg":
            assert ET.parse(path).getroot().tag.endswith("svg")
        else:
            assert path.read_bytes().startswith(b"\x89PNG")
    assert sorted(tmp_path.iterdir()) == sorted(
        [tmp_path / "results.json", *pictures.paths("paper", tmp_path)]
    )


def test_without_the_extra_the_numbers_are_written_all_the_same(ready, tmp_path, capsys, monkeypatch):
    """One line names the extra; results.json is there, no half of a picture is."""

    def missing(name):
        if name in {"altair", "vl_convert"}:
            raise ImportError(name=name)
        return import_module(name)

    monkeypatch.setattr(pictures, "import_module", missing)
    assert run("--quick", "-o", tmp_path) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert "evenodds[report]" in error
    assert [path.name for path in tmp_path.iterdir()] == ["results.json"]
    assert issubclass(MissingExtraError, ImportError)


def test_files_that_are_there_are_refused_before_the_work(tmp_path, capsys, monkeypatch):
    """No study is run for files that could not be written."""
    (tmp_path / "results.json").write_text("mine", encoding="utf-8")
    monkeypatch.setattr(paper, "run_paper", lambda *_, **__: pytest.fail("it ran"))
    assert run("--quick", "-o", tmp_path) == 2
    assert "exists already" in capsys.readouterr().err
    assert (tmp_path / "results.json").read_text(encoding="utf-8") == "mine"


def test_json_is_all_that_is_printed(ready, tmp_path, capsys):
    """With --json standard output is one JSON document, the one in the file."""
    assert run("--quick", "--json", "--no-pictures", "-o", tmp_path) == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed == json.loads((tmp_path / "results.json").read_text(encoding="utf-8"))
    assert printed["quick"] is True
