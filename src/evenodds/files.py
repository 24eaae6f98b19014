"""Whole files or none: write aside, then rename."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from evenodds.errors import OutputError

PathLike = str | os.PathLike[str]


def check_output(path: PathLike, *, overwrite: bool) -> Path:
    """Refuse a path that exists or that cannot be written, before any work is done for it."""
    target = Path(path)
    if target.is_dir():
        raise OutputError(f"{target} is a folder; expected a file name")
    if target.exists() and not overwrite:
        raise OutputError(
            f"{target} exists already", hint="choose another name, or overwrite it with --force"
        )
    folder = target.parent
    if not folder.is_dir():
        raise OutputError(f"cannot write {target}: there is no folder {folder}")
    if not os.access(folder, os.W_OK):
        raise OutputError(f"cannot write {target}: no permission to write in {folder}")
    return target


@contextmanager
def written_aside(path: PathLike, *, overwrite: bool = False, durable: bool = False) -> Iterator[Path]:
    """Give a temporary path beside the target; rename it on success, remove it on failure.

    `durable` asks the disk to hold the content before the name, and the name before returning: after a
    power cut there is the old file or the new one.
    """
    target = check_output(path, overwrite=overwrite)
    try:
        handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.", suffix=".part")
    except OSError as error:
        raise OutputError(f"cannot write {target}: {error.strerror or error}") from error
    os.close(handle)
    aside = Path(name)
    try:
        yield aside
        # mkstemp makes files that only the owner may read; give what a plain open() would have given.
        umask = os.umask(0)
        os.umask(umask)
        aside.chmod(0o666 & ~umask)
        if durable:
            _synced(aside)
        aside.replace(target)
        if durable:
            _synced(target.parent)
    except OSError as error:
        raise OutputError(f"cannot write {target}: {error.strerror or error}") from error
    finally:
        with suppress(FileNotFoundError):
            aside.unlink()


def _synced(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
