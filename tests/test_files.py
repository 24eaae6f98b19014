"""Whole files or none."""

import os
import stat

import pytest

import evenodds as eo
from evenodds.files import check_output, written_aside


def listing(folder):
    return sorted(path.name for path in folder.iterdir())


def test_a_file_appears_when_it_is_whole(tmp_path):
    """Nothing stands under the target's name until the block ends; then it holds all that was written."""
    target = tmp_path / "out.txt"
    with written_aside(target) as aside:
        aside.write_text("half")
        assert not target.exists()
        assert aside.parent == tmp_path
    assert target.read_text() == "half"
    assert listing(tmp_path) == ["out.txt"]


def fail_half_way(target, error, **settings):
    with written_aside(target, **settings) as aside:
        aside.write_text("half")
        raise error


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_a_failure_leaves_nothing(tmp_path, error):
    """When the block fails, for whatever reason, neither a target nor a part of it is left."""
    with pytest.raises(error):
        fail_half_way(tmp_path / "out.txt", error)
    assert listing(tmp_path) == []


def test_a_failure_keeps_the_old_file(tmp_path):
    """When overwriting fails the old file is as it was."""
    target = tmp_path / "out.txt"
    target.write_text("old")
    with pytest.raises(ValueError, match="stop"):
        fail_half_way(target, ValueError("stop"), overwrite=True)
    assert target.read_text() == "old"
    assert listing(tmp_path) == ["out.txt"]


def test_trouble_with_the_disk_is_one_clear_line(tmp_path):
    """An OSError while writing becomes an OutputError that names the target."""
    with pytest.raises(eo.OutputError, match=r"cannot write .*out.txt: No space left"):
        fail_half_way(tmp_path / "out.txt", OSError(28, "No space left on device"))
    assert listing(tmp_path) == []


def test_existing_files_are_kept_unless_asked(tmp_path):
    """A path that exists is refused, with --force as the hint; with overwrite it is replaced."""
    target = tmp_path / "out.txt"
    target.write_text("old")
    with pytest.raises(eo.OutputError, match=r"exists already \(hint: .*--force"):
        check_output(target, overwrite=False)
    with written_aside(target, overwrite=True) as aside:
        aside.write_text("new")
    assert target.read_text() == "new"


def test_paths_that_cannot_be_written_are_refused_at_once(tmp_path):
    """A folder, and a name in a folder that is not there, are refused before any work."""
    with pytest.raises(eo.OutputError, match="is a folder; expected a file name"):
        check_output(tmp_path, overwrite=True)
    with pytest.raises(eo.OutputError, match="there is no folder"):
        check_output(tmp_path / "nowhere" / "out.txt", overwrite=False)


def test_a_folder_without_permission_is_refused(tmp_path, monkeypatch):
    """Where the folder may not be written to, that is said."""
    monkeypatch.setattr(os, "access", lambda *_: False)  # the tests may run as root, who may everything
    with pytest.raises(eo.OutputError, match="no permission to write in"):
        check_output(tmp_path / "out.txt", overwrite=False)


def test_files_are_readable_as_plain_open_makes_them(tmp_path):
    """The file gets the permissions of the umask, not the private ones of a temporary file."""
    old = os.umask(0o022)
    try:
        with written_aside(tmp_path / "out.txt") as aside:
            aside.write_text("x")
    finally:
        os.umask(old)
    assert stat.S_IMODE((tmp_path / "out.txt").stat().st_mode) == 0o644
