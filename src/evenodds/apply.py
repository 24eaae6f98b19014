"""Apply a model to a log of any size: the same rows in the same order, with two columns more.

Three passes keep memory flat. Rows are scored as they stream by; (row, query, fair score) goes to
disk in buckets by query, so that a query's rows end up in one bucket however they were spread over
the log; each bucket is ranked; and the log is read again to be written out with its new columns.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import numpy.typing as npt

from evenodds.errors import LogError, SettingsError, nearest
from evenodds.files import written_aside
from evenodds.keys import Words, key_words
from evenodds.log import Log
from evenodds.reranker import Reranker
from evenodds.sources import format_of

if TYPE_CHECKING:
    import pyarrow as pa

Floats = npt.NDArray[np.float64]

ADDED = ("fair_score", "fair_position")
_BUCKETS = 32
_RANKED = np.dtype([("row", "<i8"), ("query", "<u8"), ("fair", "<f8")])


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
    names = log.schema.names
    problems = [f"the log has a column {name!r} already" for name in ADDED if name in names]
    problems += [_no_key(name, names) for name in keys or () if name not in names]
    if problems:
        raise LogError(problems)
    keys = list(keys) if keys else _default_keys(log)
    with (
        written_aside(path, overwrite=overwrite) as aside,
        tempfile.TemporaryDirectory(prefix="evenodds-") as folder,
    ):
        scored = _Scored(Path(folder), ranked=log.roles.query is not None)
        for batch in log.batches(_columns(log, keys)):
            scored.add(_fair_scores(model, log, batch, keys, seed, scored.rows), _queries(log, batch))
            if progress is not None:
                progress(batch.num_rows)
        if scored.rows == 0:
            raise LogError(["the log is empty: no rows"])
        first = 0 if int(model.position_bias_.positions[0]) == 0 and log.roles.position is not None else 1
        fair, position = scored.finish(first)
        _write(_extended(log, fair, position, progress), aside, os.fspath(path))
    return scored.rows


def _no_key(name: str, names: Sequence[str]) -> str:
    close = nearest(name, names)
    return f"no column {name!r} for key" + (f", did you mean {close!r}?" if close else "")


def _default_keys(log: Log) -> list[str]:
    both = (log.roles.query, log.roles.item)
    return [name for name in both if name is not None] if all(both) else []


def _columns(log: Log, keys: Sequence[str]) -> list[str]:
    query = [log.roles.query] if log.roles.query is not None else []
    return list(dict.fromkeys([log.roles.score, *log.roles.group, *query, *keys]))


def _fair_scores(
    model: Reranker, log: Log, batch: pa.RecordBatch, keys: Sequence[str], seed: int, first: int
) -> Floats:
    import pyarrow as pa

    column = batch.column(log.roles.score)
    scores = column.cast(pa.float64()).to_numpy(zero_copy_only=False)
    wrong = np.flatnonzero(~np.isfinite(scores))
    if wrong.size:
        raise LogError(
            [
                f"null, NaN or infinite score in column {log.roles.score!r}, first at row {first + int(wrong[0])}"
            ]
        )
    groups = tuple(batch.column(name) for name in log.roles.group)
    words = key_words(tuple(_key_column(batch.column(name)) for name in keys)) if keys else None
    return model.transform_words(
        scores, groups if len(groups) > 1 else groups[0], words, seed=seed, first=first
    )


def _key_column(column: pa.Array) -> Any:
    import pyarrow as pa

    if pa.types.is_integer(column.type) and not column.null_count:
        return column.to_numpy(zero_copy_only=False)
    return column.to_pylist()


def _queries(log: Log, batch: pa.RecordBatch) -> npt.NDArray[np.uint64] | None:
    if log.roles.query is None:
        return None
    column = batch.column(log.roles.query)
    if column.null_count:
        raise LogError(
            [f"null in column {log.roles.query!r}: a row without a query has no place in a ranking"]
        )
    words: Words = key_words(_key_column(column))
    return words[0] | words[1] << np.uint64(32)


class _Scored:
    """Fair scores on disk in row order, and in buckets by query until they are ranked."""

    def __init__(self, folder: Path, *, ranked: bool) -> None:
        self.rows = 0
        self._folder = folder
        self._fair = (folder / "fair").open("wb")
        self._buckets = [(folder / f"bucket-{i}").open("wb") for i in range(_BUCKETS)] if ranked else []

    def add(self, fair: Floats, queries: npt.NDArray[np.uint64] | None) -> None:
        """Append the rows of a batch."""
        fair.tofile(self._fair)
        if queries is not None:
            rows = np.empty(fair.size, _RANKED)
            rows["row"] = np.arange(self.rows, self.rows + fair.size)
            rows["query"], rows["fair"] = queries, fair
            bucket = (queries * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(64 - 5)
            order = np.argsort(bucket, kind="stable")
            ends = np.cumsum(np.bincount(bucket.astype(np.intp), minlength=_BUCKETS))
            for file, part in zip(self._buckets, np.split(rows[order], ends[:-1]), strict=True):
                part.tofile(file)
        self.rows += fair.size

    def finish(self, first: int) -> tuple[Floats, npt.NDArray[np.int32] | None]:
        """Rank every bucket; return fair scores and positions as files mapped into memory."""
        self._fair.close()
        fair = np.memmap(self._folder / "fair", np.float64, "r", shape=(self.rows,))
        if not self._buckets:
            return fair, None
        position = np.memmap(self._folder / "position", np.int32, "w+", shape=(self.rows,))
        for file in self._buckets:
            file.close()
            rows = np.fromfile(file.name, _RANKED)
            # Rows of a bucket ascend, so a stable sort leaves ties in the order of the log.
            order = np.lexsort((-rows["fair"], rows["query"]))
            query = rows["query"][order]
            starts = (
                np.flatnonzero(np.concatenate(([True], query[1:] != query[:-1])))
                if rows.size
                else np.zeros(0, np.intp)
            )
            place = np.arange(rows.size) - np.repeat(starts, np.diff(np.append(starts, rows.size)))
            position[rows["row"][order]] = place + first
            Path(file.name).unlink()
        return fair, position


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


def _write(batches: Iterator[pa.RecordBatch], aside: Path, name: str) -> None:
    import pyarrow as pa
    import pyarrow.csv
    import pyarrow.parquet as pq

    kind = format_of(name)
    if name.lower().endswith(".gz"):
        raise SettingsError(f"cannot write {name}: compressed CSV is read, not written", hint="use .parquet")
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
