"""What a command names, as a DataFrame: files here or anywhere that Spark reaches, or a table."""

from __future__ import annotations

import glob
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from evenodds.engines.spark_session import spark_session
from evenodds.errors import LogError
from evenodds.spark_frame import SparkFrame, one_line_errors

SUFFIXES = {
    ".parquet": "parquet",
    ".pq": "parquet",
    ".csv": "csv",
    ".json": "json",
    ".jsonl": "json",
    ".ndjson": "json",
    ".orc": "orc",
}
_COMPRESSED = (".gz", ".bz2", ".zst")
_OPTIONS = {"csv": {"header": "true", "inferSchema": "true"}}


def read_log(sources: Sequence[str], master: str | None = None, form: str | None = None) -> SparkFrame:
    """Read files, folders, globs, addresses or one table name; the format is told by the name, or is `form`.

    Files of this machine are listed here, as the local engine lists them, so that a tally names the same
    files wherever it was counted.
    """
    problems = (
        [] if form else [f"{name}: Spark does not read Arrow files" for name in sources if _arrow(name)]
    )
    if problems:
        raise LogError(problems, hint="the local engine does, without --engine spark")
    session = spark_session(master)
    if len(sources) == 1 and form is None and _may_be_table(sources[0]):
        return _table(session, sources[0])
    listed = [path for source in sources for path in _expanded(source, form)]
    here = all("://" not in path for path in listed)
    kinds = sorted({form or _format_of(path) for path in listed})
    if len(kinds) > 1:
        raise LogError([f"files of several formats in one log: {', '.join(kinds)}"])
    with one_line_errors():
        reader = session.read.format(kinds[0]).options(**_OPTIONS.get(kinds[0], {}))
        frame = reader.load([path if "://" in path else f"file://{Path(path).resolve()}" for path in listed])
        return SparkFrame(frame, names=listed if here and not form else None)


def _table(session: Any, name: str) -> SparkFrame:
    with one_line_errors():
        if not session.catalog.tableExists(name):
            raise LogError([f"no such file or table: {name}"])
        return SparkFrame(session.table(name))


def _may_be_table(name: str) -> bool:
    plain = "/" not in name and not glob.has_magic(name) and not Path(name).exists()
    return plain and _format_of(name, "") == ""


def _expanded(source: str, form: str | None) -> list[str]:
    """List the files that a name stands for; what another file system has, Spark lists itself."""
    if "://" in source:
        return [source]
    path = Path(source)
    if form and path.exists():  # a table of some format is a folder with an order of its own
        return [source]
    if path.is_dir():
        found = sorted(
            str(file)
            for file in path.rglob("*")
            if file.is_file() and not file.name.startswith(("_", ".")) and _format_of(str(file), "")
        )
        if not found:
            raise LogError([f"no Parquet, CSV, JSON or ORC file in folder {source}"])
        return found
    if path.is_file():
        return [source]
    found = sorted(glob.glob(source, recursive=True)) if glob.has_magic(source) else []
    if not found:
        raise LogError([f"no such file: {source}"])
    return found


def _arrow(name: str) -> bool:
    return name.lower().endswith((".arrow", ".feather", ".ipc"))


def _format_of(name: str, otherwise: str = "parquet") -> str:
    """Tell a format by the name; addresses of folders are taken for Parquet."""
    path = Path(name.lower())
    if path.suffix in _COMPRESSED:
        path = path.with_suffix("")
    return SUFFIXES.get(path.suffix, otherwise)
