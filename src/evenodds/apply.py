"""Apply a model to a log of any size: the same rows in the same order, with two columns more.

Memory stays flat: rows are scored and ranked through files on disk (see :mod:`evenodds.replay`), and
the log is read again to be written out with its new columns.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import numpy.typing as npt

from evenodds.errors import LogError, SettingsError
from evenodds.files import written_aside
from evenodds.log import Log
from evenodds.replay import (
    Replay,
    check_keys,
    default_keys,
    fair_scores,
    first_place,
    old_places,
    query_hashes,
    scored_columns,
)
from evenodds.reranker import Reranker
from evenodds.sources import format_of

if TYPE_CHECKING:
    import pyarrow as pa

Floats = npt.NDArray[np.float64]

ADDED = ("fair_score", "fair_position")


def apply_to_log(
    model: Reranker,
    log: Log,
    path: str | os.PathLike[str],
    *,
    keys: Sequence[str] | None = None,
    seed: int = 0,
    overwrite: bool = False,
    progress: Callable[[int], None] | None = None,
) -> int:
    """Write the log with fair_score, and fair_position within query if it has queries; return its rows.

    Parameters
    ----------
    model, log, path
        What to apply to what, and where to write (Parquet, CSV or Arrow IPC, by the file's name).
    keys
        Columns that make a random draw repeat itself; None takes query and item where both exist,
        else the row number and `seed`.
    progress
        Called with numbers of rows, twice the log's rows in all.
    """
    keys = _checked(log, keys)
    if log.spark_frame is not None:
        from evenodds.spark_replay import write_fair

        return write_fair(model, log, path, keys=keys, overwrite=overwrite)
    kind = _written_format(os.fspath(path))
    rows = 0
    with (
        written_aside(path, overwrite=overwrite) as aside,
        _applied(model, log, keys, seed, progress) as batches,
    ):

        def counted() -> Iterator[pa.RecordBatch]:
            nonlocal rows
            for batch in batches:
                rows += batch.num_rows
                yield batch

        _write(counted(), aside, kind)
    return rows


def apply(
    model: Reranker, log: object, *, keys: Sequence[str] | None = None, seed: int = 0, **roles: object
) -> Any:
    """Return a log's rows with fair_score, and fair_position within query if it has queries.

    A Spark DataFrame gives a Spark DataFrame, which is computed when it is used; any other log gives a
    pyarrow table. An item's draw is the same in both. Rows of a query are ranked by fair score; equal ones
    stay as they stood, by position if the log has one.

    Parameters
    ----------
    model
        A fitted reranker.
    log
        A :class:`Log`, or anything that `Log` takes, with its column roles; no label is needed.
    keys, seed
        What makes random draws repeat: columns, else query and item, else the row number under a seed.
        On Spark rows have no number, so that a model that draws needs keys.

    Examples
    --------
    >>> from evenodds import EqualOpportunity, simulate
    >>> log = simulate(queries=1000)
    >>> apply(EqualOpportunity().fit(log), log).column_names[-2:]
    ['fair_score', 'fair_position']
    """
    import pyarrow as pa

    known = log if isinstance(log, Log) and not roles else Log(log, **({"label": None} | roles))  # type: ignore[arg-type]
    columns = _checked(known, keys)
    if known.spark_frame is not None:
        from evenodds.spark_replay import fair_frame

        return fair_frame(model, known, columns)
    with _applied(model, known, columns, seed) as batches:
        return pa.Table.from_batches(batches)


def _checked(log: Log, keys: Sequence[str] | None) -> list[str]:
    """Return the key columns, or raise what is in the way."""
    problems = [f"the log has a column {name!r} already" for name in ADDED if name in log.schema.names]
    problems += check_keys(log, keys or ())
    if problems:
        raise LogError(problems)
    return list(keys) if keys else default_keys(log)


@contextmanager
def _applied(
    model: Reranker,
    log: Log,
    keys: Sequence[str],
    seed: int,
    progress: Callable[[int], None] | None = None,
) -> Iterator[Iterator[pa.RecordBatch]]:
    """Score and rank the log; give its rows with the new columns."""
    roles = log.roles
    with (
        tempfile.TemporaryDirectory(prefix="evenodds-") as folder,
        closing(Replay(Path(folder), ranked=roles.query is not None, expected=log.rows)) as scored,
    ):
        for batch in log.batches(scored_columns(roles, keys)):
            fair = fair_scores(model, roles, batch, keys, seed, scored.rows)
            scored.add(fair, query_hashes(roles, batch), old_places(roles, batch))
            if progress is not None:
                progress(batch.num_rows)
        if scored.rows == 0:
            raise LogError(["the log is empty: no rows"])
        yield _extended(log, *scored.finish(first_place(model, roles)), progress)


def write_log(log: Log, path: str | os.PathLike[str], *, overwrite: bool = False) -> int:
    """Write a log's rows as they are (Parquet, CSV or Arrow IPC, by the file's name); return how many."""
    kind = _written_format(os.fspath(path))
    rows = 0

    def counted() -> Iterator[pa.RecordBatch]:
        nonlocal rows
        for batch in log.batches():
            rows += batch.num_rows
            yield batch.from_arrays([_plain(column) for column in batch.columns], names=batch.schema.names)

    with written_aside(path, overwrite=overwrite) as aside:
        _write(counted(), aside, kind)
    return rows


def _extended(
    log: Log, fair: Floats, position: npt.NDArray[np.int32] | None, progress: Callable[[int], None] | None
) -> Iterator[pa.RecordBatch]:
    """Read the log again, with the new columns behind the old ones."""
    import pyarrow as pa

    row = 0
    for batch in log.batches():
        rows = slice(row, row + batch.num_rows)
        row += batch.num_rows
        added = {"fair_score": pa.array(np.asarray(fair[rows]))}
        if position is not None:
            added["fair_position"] = pa.array(np.asarray(position[rows]))
        yield pa.RecordBatch.from_arrays(
            [*(_plain(column) for column in batch.columns), *added.values()],
            names=[*batch.schema.names, *added],
        )
        if progress is not None:
            progress(batch.num_rows)


def _plain(column: pa.Array) -> pa.Array:
    """Undo the dictionary encoding that reading added."""
    import pyarrow as pa

    return column.dictionary_decode() if isinstance(column, pa.DictionaryArray) else column


def _written_format(name: str) -> str:
    """Tell the format by the name; refuse what is not written before any work is done for it."""
    if name.lower().endswith(".gz"):
        raise SettingsError(f"cannot write {name}: compressed CSV is read, not written", hint="use .parquet")
    return format_of(name)


def _write(batches: Iterator[pa.RecordBatch], aside: Path, kind: str) -> None:
    import pyarrow as pa
    import pyarrow.csv
    import pyarrow.parquet as pq

    first = next(batches)
    if kind == "parquet":
        writer: Any = pq.ParquetWriter(aside, first.schema, compression="zstd")
    elif kind == "csv":
        writer = pyarrow.csv.CSVWriter(aside, first.schema)
    else:
        writer = pa.ipc.new_file(cast("Any", str(aside)), first.schema)
    with writer:
        writer.write_batch(first)
        for batch in batches:
            writer.write_batch(batch)
