"""Arrow streams in and out: a row a candidate, as in a log.

Columns: ``score``; the model's group columns (or one named ``group``); ``item``, ``key`` and ``query`` where
there are ids, keys and queries. Rows of one list stand together: a new key or query starts a new list.
"""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
import numpy.typing as npt

from evenodds.serve.loaded import Live
from evenodds.serve.problem import Problem
from evenodds.serve.rerank import Served

_ROLES = ("score", "item", "key", "query")


class ArrowLists:
    """The lists of an Arrow stream.

    Parameters
    ----------
    body
        The stream's bytes.
    columns
        The model's group columns.
    most
        How many rows there may be.
    """

    def __init__(self, body: bytes, columns: tuple[str, ...], most: int) -> None:
        table = _table(body)
        if table.num_rows > most:  # before anything is made of them: a null column of any length is free
            raise Problem(422, f"{table.num_rows:,} candidates; this server takes {most:,} in a request")
        names = table.schema.names
        groups = columns if len(columns) > 1 or "group" not in names else ("group",)
        missing = [name for name in ("score", *groups) if name not in names]
        if missing:
            raise Problem(422, f"the stream has no column {missing[0]!r}; it has {', '.join(names)[:200]}")
        twice = [name for name in {*_ROLES, *groups} if names.count(name) > 1]
        if twice:
            raise Problem(422, f"the stream has the column {twice[0]!r} more than once")
        self.rows = table.num_rows
        self.scores = _scores(table["score"])
        self.groups = tuple(_values(table[name], name) for name in groups)
        self.ids = _ids(table["item"], "item") if "item" in names else None
        self.keys = _ids(table["key"], "key") if "key" in names else None
        self.queries = _ids(table["query"], "query") if "query" in names else None
        new = np.zeros(self.rows, dtype=bool)
        new[:1] = True
        for named in (self.keys, self.queries):
            if named is not None and self.rows:
                listed = np.asarray(named)
                new[1:] |= listed[1:] != listed[:-1]
        self.starts: list[int] = np.flatnonzero(new).tolist()

    def served(self, live: Live) -> list[Served]:
        """Rank every list."""
        served = []
        for start, stop in zip(self.starts, [*self.starts[1:], self.rows], strict=True):
            rows = slice(start, stop)
            key, query = (None if named is None else named[start] for named in (self.keys, self.queries))
            groups = tuple(column[rows] for column in self.groups)
            served.append(
                Served(
                    live,
                    _plain(key),
                    None if self.ids is None else self.ids[rows],
                    groups if len(groups) > 1 else groups[0],
                    self.scores[rows],
                    _plain(query),
                )
            )
        return served


def _plain(name: Any) -> str | int | None:
    return int(name) if isinstance(name, np.integer) else name


def answer(served: list[Served], model: str) -> bytes:
    """Return the rows in the order in which they came: fair_score, fair_position, arm."""
    import pyarrow as pa

    positions = []
    for part in served:
        place = np.empty(part.order.size, np.int32)
        place[part.order] = np.arange(1, part.order.size + 1)
        positions.append(place)
    table = pa.table(
        {
            "fair_score": np.concatenate([part.served for part in served]) if served else np.zeros(0),
            "fair_position": np.concatenate(positions) if served else np.zeros(0, np.int32),
            "arm": pa.array([part.arm for part in served for _ in range(part.order.size)], pa.string()),
        }
    ).replace_schema_metadata({"model": model})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())


def _table(body: bytes) -> Any:
    import pyarrow as pa

    _refuse_compression(body)
    try:
        table = pa.ipc.open_stream(body).read_all()
        table.validate(full=True)
    except (pa.ArrowException, OSError, ValueError, KeyError, MemoryError) as error:
        said = str(error).partition("\n")[0][:200]
        raise Problem(400, f"not an Arrow stream that can be read: {said}") from None
    return table


def _scores(column: Any) -> npt.NDArray[np.float64]:
    import pyarrow as pa

    try:
        whole = column.combine_chunks().cast(pa.float64())
    except (pa.ArrowException, ValueError, TypeError):
        raise Problem(422, f"the column 'score' holds {column.type}; expected numbers") from None
    scores: npt.NDArray[np.float64] = whole.to_numpy(zero_copy_only=False)  # a null becomes NaN
    return scores


def _values(column: Any, name: str) -> list[Any]:
    import pyarrow as pa

    kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    if not (
        pa.types.is_string(kind)
        or pa.types.is_large_string(kind)
        or pa.types.is_string_view(kind)
        or pa.types.is_integer(kind)
        or pa.types.is_boolean(kind)
        or pa.types.is_floating(kind)
        or pa.types.is_null(kind)
    ):
        raise Problem(
            422, f"the column {name!r} holds {column.type}; expected text, whole numbers or booleans"
        )
    values: list[Any] = column.to_pylist()
    return values


def _ids(column: Any, name: str) -> Any:
    import pyarrow as pa

    if column.null_count:
        raise Problem(422, f"null in the column {name!r}; expected text or a whole number for every row")
    if pa.types.is_integer(column.type):
        whole = column.combine_chunks().to_numpy(zero_copy_only=False)
        if whole.dtype == np.uint64 and whole.size and whole.max() > np.iinfo(np.int64).max:
            raise Problem(422, f"the column {name!r} does not fit in 64 signed bits", hint="send it as text")
        return whole.astype(np.int64)
    values = _values(column, name)
    if values and not isinstance(values[0], str):
        raise Problem(422, f"the column {name!r} holds {column.type}; expected text or whole numbers")
    return values


def _refuse_compression(body: bytes) -> None:
    """Walk the stream's messages, and refuse compressed ones: a few bytes could unpack to gigabytes."""
    place = 0
    while place + 8 <= len(body):
        mark, size = struct.unpack_from("<II", body, place)
        start = place + 8
        if mark != 0xFFFFFFFF:  # as written before Arrow 0.15
            size, start = mark, place + 4
        if size == 0 or start + size > len(body):
            return
        try:
            compressed, length = _message(memoryview(body)[start : start + size])
        except (struct.error, IndexError):
            raise Problem(400, "not an Arrow stream that can be read: a message is damaged") from None
        if compressed:
            raise Problem(
                415, "compressed Arrow streams are not read here", hint="write it without compression"
            )
        if length < 0:
            return
        place = start + size + length


def _message(data: memoryview) -> tuple[bool, int]:
    """Return whether a message's flatbuffer names a compression, and the length of the message's body."""
    table = struct.unpack_from("<I", data, 0)[0]
    kind = _field(data, table, 1)
    header = _field(data, table, 2)
    length = _field(data, table, 3)
    bytes_long = struct.unpack_from("<q", data, length)[0] if length else 0
    if not kind or not header:
        return False, bytes_long
    which = data[kind]
    inner = header + struct.unpack_from("<I", data, header)[0]
    if which == 2:  # DictionaryBatch: its record batch is the second field
        batch = _field(data, inner, 1)
        if not batch:
            return False, bytes_long
        inner = batch + struct.unpack_from("<I", data, batch)[0]
    elif which != 3:  # RecordBatch
        return False, bytes_long
    return _field(data, inner, 3) != 0, bytes_long


def _field(data: memoryview, table: int, number: int) -> int:
    """Return where a field of a flatbuffer's table lies; 0 if it is not there."""
    offsets = table - struct.unpack_from("<i", data, table)[0]
    if offsets < 0:
        raise IndexError
    size = struct.unpack_from("<H", data, offsets)[0]
    entry = 4 + 2 * number
    if entry >= size:
        return 0
    offset = struct.unpack_from("<H", data, offsets + entry)[0]
    return table + offset if offset else 0
