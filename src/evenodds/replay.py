"""Score a log of any size with a model and rank each query's rows anew, in flat memory.

Rows are scored as they stream by. (row, query, fair score) goes to disk in buckets by query, so that
a query's rows end up in one bucket however they were spread over the log; then each bucket is ranked.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from evenodds.errors import LogError, nearest
from evenodds.keys import Words, key_words
from evenodds.log import Log, Roles
from evenodds.reranker import Reranker

if TYPE_CHECKING:
    import pyarrow as pa

Floats = npt.NDArray[np.float64]
Places = npt.NDArray[np.int32]
Hashes = npt.NDArray[np.uint64]

_FEWEST_BITS, _MOST_BITS = 5, 9  # 32 to 512 buckets: as many as files may be open at a time
_LAST = np.iinfo(np.int32).max
_BUCKET_ROWS = 1 << 20
_RANKED = np.dtype([("row", "<i8"), ("query", "<u8"), ("fair", "<f8"), ("old", "<i4")])


def check_keys(log: Log, keys: Sequence[str]) -> list[str]:
    """Return what is wrong with the columns that make up a draw's key."""
    names = log.schema.names
    return [_no_key(name, names) for name in keys if name not in names]


def _no_key(name: str, names: Sequence[str]) -> str:
    close = nearest(name, names)
    return f"no column {name!r} for key" + (f", did you mean {close!r}?" if close else "")


def default_keys(log: Log) -> list[str]:
    """Return query and item where the log has both, else nothing: draws then go by row number."""
    both = (log.roles.query, log.roles.item)
    return [name for name in both if name is not None] if all(both) else []


def scored_columns(roles: Roles, keys: Sequence[str]) -> list[str]:
    """Return the columns that scoring and ranking read, each once."""
    ranked = [name for name in (roles.query, roles.position) if roles.query is not None and name is not None]
    return list(dict.fromkeys([roles.score, *roles.group, *ranked, *keys]))


def fair_scores(
    model: Reranker, roles: Roles, batch: pa.RecordBatch, keys: Sequence[str], seed: int, first: int
) -> Floats:
    """Transform a batch whose first row has the number `first` in the log."""
    import pyarrow as pa

    column = batch.column(roles.score)
    scores = column.cast(pa.float64()).to_numpy(zero_copy_only=False)
    wrong = np.flatnonzero(~np.isfinite(scores))
    if wrong.size:
        raise LogError(
            [f"null, NaN or infinite score in column {roles.score!r}, first at row {first + int(wrong[0])}"]
        )
    groups = tuple(batch.column(name) for name in roles.group)
    words = (
        key_words(tuple(_key_column(batch.column(name)) for name in keys)) if keys and model.draws_ else None
    )
    return model.transform_words(
        scores, groups if len(groups) > 1 else groups[0], words, seed=seed, first=first
    )


def _key_column(column: pa.Array) -> Any:
    import pyarrow as pa

    if pa.types.is_integer(column.type) and not column.null_count:
        return column.to_numpy(zero_copy_only=False)
    return column.to_pylist()


def check_queries(roles: Roles, batch: pa.RecordBatch) -> None:
    """Refuse a batch with a row that is in no list."""
    if roles.query is not None and batch.column(roles.query).null_count:
        raise LogError([f"null in column {roles.query!r}: a row without a query has no place in a ranking"])


def query_hashes(roles: Roles, batch: pa.RecordBatch) -> Hashes | None:
    """Return a hash of each row's query id; None if the log has no queries."""
    if roles.query is None:
        return None
    check_queries(roles, batch)
    column = batch.column(roles.query)
    words: Words = key_words(_key_column(column))
    return words[0] | words[1] << np.uint64(32)


def old_places(roles: Roles, batch: pa.RecordBatch) -> Places | None:
    """Return the positions at which rows stood, which decide between equal fair scores; unknown ones last."""
    if roles.query is None or roles.position is None:
        return None
    position = batch.column(roles.position).fill_null(_LAST).to_numpy(zero_copy_only=False)
    return np.nan_to_num(position, nan=_LAST).clip(-_LAST, _LAST).astype(np.int32)


def first_place(model: Reranker, roles: Roles) -> int:
    """Return the number of the top slot: 0 where the model was fitted on such positions, else 1."""
    return 0 if int(model.position_bias_.positions[0]) == 0 and roles.position is not None else 1


class Replay:
    """Fair scores on disk in row order, and in buckets by query until they are ranked.

    Attributes
    ----------
    rows, queries
        How many there are; queries are known once ranked.
    cut_off
        Queries whose old positions are not first, first + 1, ... without a gap or a double.
    example
        The number of a row in one of them, -1 for none.
    """

    def __init__(self, folder: Path, *, ranked: bool, expected: int | None = None) -> None:
        self.rows = self.queries = self.cut_off = 0
        self.example = -1
        self._folder = folder
        self._fair = (folder / "fair").open("wb")
        wanted = ((expected or 0) // _BUCKET_ROWS).bit_length()
        self._bits = min(max(wanted, _FEWEST_BITS), _MOST_BITS)
        self._buckets = (
            [(folder / f"bucket-{i}").open("wb") for i in range(1 << self._bits)] if ranked else []
        )

    def add(self, fair: Floats, queries: Hashes | None, old: Places | None = None) -> None:
        """Append the rows of a batch, with the positions at which they stood if those matter."""
        fair.tofile(self._fair)
        if queries is not None:
            rows = np.empty(fair.size, _RANKED)
            rows["row"] = np.arange(self.rows, self.rows + fair.size)
            rows["query"], rows["fair"] = queries, fair
            rows["old"] = 0 if old is None else old
            bucket = (queries * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(64 - self._bits)
            order = np.argsort(bucket, kind="stable")
            ends = np.cumsum(np.bincount(bucket.astype(np.intp), minlength=len(self._buckets)))
            for file, part in zip(self._buckets, np.split(rows[order], ends[:-1]), strict=True):
                part.tofile(file)
        self.rows += fair.size

    def close(self) -> None:
        """Close the files; the folder's owner removes them."""
        for file in (self._fair, *self._buckets):
            file.close()

    def finish(self, first: int, *, slots: bool = False) -> tuple[Floats, Places | None]:
        """Rank every bucket; return fair scores and positions as files mapped into memory.

        Positions count from `first`; with `slots` a query's rows share out the positions at which they
        stood, which is the same for a whole list.
        """
        self._fair.close()
        fair = np.memmap(self._folder / "fair", np.float64, "r", shape=(self.rows,))
        if not self._buckets:
            return fair, None
        position = np.memmap(self._folder / "position", np.int32, "w+", shape=(self.rows,))
        for file in self._buckets:
            file.close()
            rows = np.fromfile(file.name, _RANKED)
            Path(file.name).unlink()
            if not rows.size:
                continue
            # Ties stay as they stood; rows of a bucket ascend, so a stable sort leaves the rest of them in
            # the order of the log.
            order = np.lexsort((rows["old"], -rows["fair"], rows["query"]))
            query = rows["query"][order]
            starts = np.flatnonzero(np.concatenate(([True], query[1:] != query[:-1])))
            self.queries += starts.size
            place = np.arange(rows.size) - np.repeat(starts, np.diff(np.append(starts, rows.size))) + first
            if slots:
                stood = np.lexsort((rows["old"], rows["query"]))
                held = rows["old"][stood]
                broken = np.logical_or.reduceat(held != place, starts)
                if self.example < 0 and broken.any():
                    self.example = int(rows["row"][stood][starts[np.argmax(broken)]])
                self.cut_off += int(broken.sum())
                place = held
            position[rows["row"][order]] = place
        return fair, position
