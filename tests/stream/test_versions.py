"""Models by number: the newest is in use unless a person chose, and the way back is one step."""

import json

import numpy as np
import pytest

import evenodds as eo
from evenodds.cli import main
from evenodds.errors import EvenoddsError
from evenodds.stream import Versions
from worlds import draw


@pytest.fixture(scope="module")
def fitted():
    """Fit four models on four logs."""
    tallies = [eo.tally(draw(np.random.default_rng(place), 150), cells=20) for place in range(4)]
    return [(eo.EqualOpportunity(points=20, position_bias="none").fit(one), one) for one in tallies]


def kept(folder, fitted, keep=10, first=0):
    versions = Versions(folder / "models", keep)
    for batch, (model, tally) in enumerate(fitted, first):
        versions.add(model, tally, batch=batch, at="2026-01-01T00:00:00+00:00", reason="schedule")
    return versions


def shown(folder):
    return (folder / "models" / "current.json").read_bytes()


def stored(folder, number):
    return (folder / "models" / f"model-{number:06d}.json").read_bytes()


def test_the_newest_is_in_use_and_the_way_back_is_one_step(tmp_path, fitted):
    """Rollback puts the one before to use and pins it; newer ones wait until it is released."""
    versions = kept(tmp_path, fitted[:3])
    assert versions.current.number == 3
    assert shown(tmp_path) == stored(tmp_path, 3)
    assert versions.use().number == 2
    assert versions.pinned
    assert shown(tmp_path) == stored(tmp_path, 2)
    kept(tmp_path, fitted[3:], first=3)
    assert versions.current.number == 2
    assert shown(tmp_path) == stored(tmp_path, 2)
    assert versions.release().number == 4
    assert shown(tmp_path) == stored(tmp_path, 4)
    assert not versions.pinned


def test_a_pinned_model_outlives_the_others(tmp_path, fitted):
    """Only the last are kept, and the one in use however old; numbers are not used twice."""
    versions = kept(tmp_path, fitted[:2], keep=2)
    versions.use(1)
    kept(tmp_path, fitted[2:], keep=2, first=2)
    assert [version.number for version in versions.listed] == [1, 3, 4]
    assert not (tmp_path / "models" / "model-000002.json").exists()
    assert not (tmp_path / "models" / "model-000002.tally").exists()
    versions.release()
    kept(tmp_path, fitted[:1], keep=2, first=4)
    assert [version.number for version in versions.listed] == [4, 5]


def test_what_a_model_was_fitted_on_stands_beside_it(tmp_path, fitted):
    """The tally of each version is that of its fit."""
    versions = kept(tmp_path, fitted[:1])
    assert versions.counts(versions.current)[0].equals(fitted[0][1])
    assert versions.model(versions.current).to_dict() == fitted[0][0].to_dict()


def test_a_copy_that_was_lost_is_made_again(tmp_path, fitted):
    """A crash between index and copy is put right; a model that was edited is not put to use."""
    versions = kept(tmp_path, fitted[:2])
    (tmp_path / "models" / "current.json").unlink()
    versions.repair()
    assert shown(tmp_path) == stored(tmp_path, 2)
    path = tmp_path / "models" / "model-000001.json"
    path.write_text(path.read_text() + " ")
    with pytest.raises(eo.DamagedFileError, match="changed since it was fitted"):
        versions.use(1)


def test_numbers_that_are_not_there_are_refused(tmp_path, fitted):
    """One line each: no models, no earlier one, no such number, a damaged list."""
    (tmp_path / "models").mkdir()
    empty = Versions(tmp_path / "models")
    with pytest.raises(EvenoddsError, match="holds no models"):
        empty.use()
    with pytest.raises(EvenoddsError, match="holds no models"):
        empty.release()
    with pytest.raises(EvenoddsError, match="there is no folder"):
        Versions(tmp_path / "nowhere").use()
    versions = kept(tmp_path, fitted[:1])
    with pytest.raises(EvenoddsError, match="no model before number 1"):
        versions.use()
    with pytest.raises(EvenoddsError, match="no model number 7; kept are 1"):
        versions.use(7)
    (tmp_path / "models" / "versions.json").write_text("{")
    with pytest.raises(eo.DamagedFileError):
        versions.use()


def run(capsys, *arguments):
    with pytest.raises(SystemExit) as stopped:
        main(["versions", *map(str, arguments)])
    out, err = capsys.readouterr()
    return stopped.value.code, out, err


def test_the_command_lists_and_changes(tmp_path, fitted, capsys):
    """The list says which is in use and why; options change it; mistakes end with 2 and one line."""
    kept(tmp_path, fitted[:3])
    code, out, _ = run(capsys, tmp_path)
    assert code == 0
    assert out.splitlines()[-1].endswith("schedule <- in use")
    _, out, _ = run(capsys, tmp_path, "--rollback")
    assert out.splitlines()[1].endswith("<- in use, pinned")
    _, out, _ = run(capsys, tmp_path / "models", "--use", 1, "--json")
    told = json.loads(out)
    assert (told["current"], told["pinned"], len(told["versions"])) == (1, True, 3)
    _, out, _ = run(capsys, tmp_path, "--release")
    assert out.splitlines()[2].endswith("<- in use")
    for wrong in ([tmp_path, "--use", 9], [tmp_path / "no"], [tmp_path, "--use", 1, "--release"]):
        code, out, err = run(capsys, *wrong)
        assert (code, out, len(err.strip().splitlines())) == (2, "", 1)
    (tmp_path / "new").mkdir()
    assert run(capsys, tmp_path / "new")[1].startswith("no models in")
