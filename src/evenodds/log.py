"""What a log is: where the rows are, and which column plays which role.

A log is read as Arrow record batches, from files or from anything that speaks the Arrow PyCapsule
stream protocol, so that no dataframe library is a dependency. Columns are checked here, before a
row is read; values are checked by the counting engine, batch by batch.
"""

from __future__ import annotations

import glob
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, cast

import numpy as np
import numpy.typing as npt

from evenodds.errors import LogError, SettingsError, nearest

if TYPE_CHECKING:
    import pyarrow as pa

Floats = npt.NDArray[np.float64]
AUTO: Final = "auto"
SUFFIXES = {
    ".parquet": "parquet",
    ".pq": "parquet",
    ".csv": "csv",
    ".csv.gz": "csv",
    ".arrow": "ipc",
    ".feather": "ipc",
    ".ipc": "ipc",
}
_SAMPLE = 250_000  # scores that make a grid: 25 a cell at 10,000 cells
_SAMPLED_BLOCKS = 16  # row groups read for it, spread evenly over the log
_BATCH = 131_072


@dataclass(frozen=True)
class Roles:
    """Which column is what; None where the log has no such column."""

    score: str
    group: tuple[str, ...]
    label: str
    position: str | None = None
    query: str | None = None
    item: str | None = None
    weight: str | None = None
    swap: str | None = None

    def counted(self) -> list[str]:
        """Return the columns that counting reads, each once."""
        optional = (self.position, self.query, self.weight, self.swap)
        names = [self.score, *self.group, self.label, *(name for name in optional if name is not None)]
        return list(dict.fromkeys(names))

    def to_dict(self) -> dict[str, object]:
        """Return the roles that are filled, as plain JSON values."""
        named = {"score": self.score, "group": list(self.group), "label": self.label}
        optional = ("position", "query", "item", "weight", "swap")
        return named | {name: getattr(self, name) for name in optional if getattr(self, name) is not None}


class Log:
    """An impression log: one row for each time an item was shown.

    Parameters
    ----------
    source
        A path, a glob, a list of paths (Parquet, CSV, Arrow IPC), or an object with
        ``__arrow_c_stream__``: a pandas or Polars frame, a pyarrow table, a DuckDB relation.
    score, group, label
        Column names. Several `group` columns are crossed: their combinations are the groups.
    position, query, item, weight
        Optional columns; "auto" takes the column of that name if there is one, None goes without.
    swap
        For logs of randomly swapped neighbours: the upper position of the pair that a row was in,
        null for rows that were in none.
    first_position
        The number of the top slot. None takes the smallest one in the log, so that both 0 and 1 work.

    Examples
    --------
    >>> import pyarrow as pa
    >>> table = pa.table({"s": [0.9, 0.2], "group": ["a", "b"], "clicked": [1, 0]})
    >>> Log(table, score="s", label="clicked").roles.label
    'clicked'
    """

    def __init__(
        self,
        source: object,
        *,
        score: str = "score",
        group: str | Sequence[str] = "group",
        label: str = "label",
        position: str | None = AUTO,
        query: str | None = AUTO,
        item: str | None = AUTO,
        weight: str | None = AUTO,
        swap: str | None = None,
        first_position: int | None = None,
    ) -> None:
        self._source = _open(source)
        self.first_position = first_position
        names = self._source.schema.names
        problems: list[str] = []

        def required(role: str, name: str) -> str:
            if name not in names:
                problems.append(_missing(role, name, names))
            return name

        def optional(role: str, name: str | None) -> str | None:
            if name == AUTO:
                return role if role in names else None
            return name if name is None else required(role, name)

        groups = (group,) if isinstance(group, str) else tuple(group)
        if not groups:
            raise SettingsError("group is an empty list; expected one or more column names")
        self.roles = Roles(
            score=required("score", score),
            group=tuple(required("group", name) for name in groups),
            label=required("label", label),
            position=optional("position", position),
            query=optional("query", query),
            item=optional("item", item),
            weight=optional("weight", weight),
            swap=optional("swap", swap),
        )
        problems += _wrong_types(self.roles, self._source.schema)
        if self.roles.swap is not None and self.roles.position is None:
            problems.append("column roles: swap needs a position column")
        if problems:
            raise LogError(problems, hint=f"columns: {', '.join(names)}")

    @property
    def schema(self) -> pa.Schema:
        """The Arrow schema of the rows."""
        return self._source.schema

    @property
    def rows(self) -> int | None:
        """How many rows there are, where that is known without reading them."""
        return self._source.rows

    @property
    def names(self) -> tuple[str, ...]:
        """Where the rows come from, for provenance."""
        return self._source.names

    def batches(self, columns: Sequence[str] | None = None) -> Iterator[pa.RecordBatch]:
        """Read the rows in order; text in `columns` may arrive dictionary-encoded."""
        return self._source.batches(list(columns) if columns is not None else None)

    def score_sample(self) -> Floats:
        """Return scores from all over the log, the same ones every time; missing values left out."""
        scores = self._source.sample(self.roles.score)
        return scores[np.isfinite(scores)]


def _missing(role: str, name: str, names: Sequence[str]) -> str:
    close = nearest(name, names)
    return f"no column {name!r} for {role}" + (f", did you mean {close!r}?" if close else "")


def _wrong_types(roles: Roles, schema: pa.Schema) -> list[str]:
    from pyarrow import types

    def kind(name: str) -> pa.DataType:
        found = schema.field(name).type
        return found.value_type if types.is_dictionary(found) else found

    def numeric(found: pa.DataType) -> bool:
        return cast("bool", types.is_integer(found) or types.is_floating(found))

    def named(found: pa.DataType) -> bool:
        text = types.is_string(found) or types.is_large_string(found) or types.is_string_view(found)
        return bool(text or types.is_integer(found) or types.is_boolean(found))

    wanted = {
        "score": (numeric, "numbers"),
        "label": (lambda found: numeric(found) or types.is_boolean(found), "0 and 1, or booleans"),
        "position": (numeric, "whole numbers"),
        "weight": (numeric, "numbers"),
        "swap": (numeric, "whole numbers"),
        "query": (named, "text or whole numbers"),
    }
    columns = [(role, getattr(roles, role), *check) for role, check in wanted.items()]
    columns += [("group", name, named, "text, whole numbers or booleans") for name in roles.group]
    return [
        f"column {name!r} ({role}) has type {kind(name)}; expected {expected}"
        for role, name, fits, expected in columns
        if name in schema.names and not fits(kind(name))
    ]


class _Files:
    """A dataset of files of one format."""

    def __init__(self, paths: list[str]) -> None:
        import pyarrow as pa
        import pyarrow.dataset as ds

        formats = {path: format_of(path) for path in paths}
        if len(set(formats.values())) > 1:
            raise LogError([f"files of several formats in one log: {', '.join(sorted(set(formats.values())))}"])
        self.paths = paths
        self.format: Literal["parquet", "csv", "ipc"] = next(iter(formats.values()))
        try:
            dataset = ds.dataset(paths, format=self.format)
            differing = [p for p in paths[1:] if _differs(ds.dataset(p, format=self.format).schema, dataset.schema)]
            if differing:
                raise LogError([f"{differing[0]} has other columns or types than {paths[0]}"])
            if self.format == "parquet":  # text is read as dictionary codes: less to decode and to count
                text = [f.name for f in dataset.schema if f.type in {pa.string(), pa.large_string()}]
                dataset = ds.dataset(paths, format=ds.ParquetFileFormat(dictionary_columns=set(text)))
            self._dataset = dataset
        except (pa.ArrowInvalid, OSError) as error:
            raise LogError([f"cannot read {paths[0] if len(paths) == 1 else 'the log'}: {_first_line(error)}"]) from None

    @property
    def schema(self) -> pa.Schema:
        return self._dataset.schema

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self.paths)

    @property
    def rows(self) -> int | None:
        # Known from the footers; a CSV would have to be read.
        return None if self.format == "csv" else int(self._dataset.count_rows())

    def batches(self, columns: list[str] | None) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        # A reader that runs far ahead buys no speed on two cores, and memory that grows with the log.
        scanner = self._dataset.scanner(
            columns=columns, batch_size=_BATCH, batch_readahead=4, fragment_readahead=1
        )
        try:
            yield from scanner.to_batches()
        except (pa.ArrowInvalid, OSError) as error:
            raise LogError([f"cannot read the log: {_first_line(error)}"]) from None

    def sample(self, column: str) -> Floats:
        import pyarrow.parquet as pq

        if self.format != "parquet":
            return _thin(self.batches([column]))
        blocks = [
            (path, group, rows)
            for path in self.paths
            for group, rows in enumerate(_row_groups(pq.read_metadata(path)))
        ]
        picked = [blocks[i] for i in sorted({len(blocks) * k // _SAMPLED_BLOCKS for k in range(_SAMPLED_BLOCKS)})] if blocks else []
        share = _SAMPLE / max(1, sum(rows for _, _, rows in picked))
        parts, seen = [np.empty(0)], 0
        for path, group, rows in picked:
            values = pq.ParquetFile(path).read_row_group(group, columns=[column])[column]
            parts.append(_floats(values)[_lot(seen, rows) < share])
            seen += rows
        return np.concatenate(parts)


class _Stream:
    """An object in memory that can export its rows again and again."""

    def __init__(self, source: object) -> None:
        import pyarrow as pa

        self._source = source
        self.names = (f"<{type(source).__module__.split('.')[0]} {type(source).__name__}>",)
        self.schema: pa.Schema = pa.RecordBatchReader.from_stream(source).schema
        length = getattr(source, "__len__", None)
        self.rows: int | None = int(length()) if length is not None else None

    def batches(self, columns: list[str] | None) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        for batch in pa.RecordBatchReader.from_stream(self._source):
            wanted = batch if columns is None else batch.select(columns)
            for start in range(0, wanted.num_rows, _BATCH):
                yield wanted.slice(start, _BATCH)

    def sample(self, column: str) -> Floats:
        return _thin(self.batches([column]))


class _Reader:
    """A reader that can be read once: what is sampled from its head is kept and read again."""

    def __init__(self, source: pa.RecordBatchReader) -> None:
        self._reader = source
        self._head: list[pa.RecordBatch] = []
        self._spent = False
        self.schema = source.schema
        self.names = ("<arrow stream>",)
        self.rows: int | None = None

    def batches(self, columns: list[str] | None) -> Iterator[pa.RecordBatch]:
        if self._spent:
            raise LogError(["this Arrow stream has been read already"], hint="pass a table or a file")
        self._spent = True
        head, self._head = self._head, []
        for source in (head, self._reader):
            for batch in source:
                yield batch if columns is None else batch.select(columns)

    def sample(self, column: str) -> Floats:
        held = 0
        while held < _SAMPLE:
            try:
                batch = self._reader.read_next_batch()
            except StopIteration:
                break
            self._head.append(batch)
            held += batch.num_rows
        return _thin(batch.select([column]) for batch in self._head)


def _open(source: object) -> _Files | _Stream | _Reader:
    import pyarrow as pa

    if isinstance(source, str | Path):
        return _Files(_expand([source]))
    if isinstance(source, pa.RecordBatchReader):
        return _Reader(source)
    if hasattr(source, "__arrow_c_stream__"):
        return _Stream(source)
    if isinstance(source, Sequence) and source and all(isinstance(path, str | Path) for path in source):
        return _Files(_expand(cast("Sequence[str | Path]", source)))
    raise LogError(
        [f"a log cannot be read from {type(source).__name__}"],
        hint="give a path, a glob, a list of paths, or a table that speaks Arrow (__arrow_c_stream__)",
    )


def _expand(sources: Sequence[str | Path]) -> list[str]:
    paths: list[str] = []
    problems: list[str] = []
    for source in map(str, sources):
        if Path(source).is_dir():
            found = sorted(str(p) for p in Path(source).rglob("*") if p.is_file() and format_of(str(p), strict=False))
            problems += [] if found else [f"no Parquet, CSV or Arrow file in folder {source}"]
        elif Path(source).is_file():
            found = [source]
        else:
            found = sorted(glob.glob(source, recursive=True)) if glob.has_magic(source) else []
            problems += [] if found else [f"no such file: {source}"]
        paths += found
    if problems:
        raise LogError(problems)
    return paths


def format_of(path: str, *, strict: bool = True) -> Literal["parquet", "csv", "ipc"]:
    """Tell a file's format by its name."""
    for suffix, name in SUFFIXES.items():
        if path.lower().endswith(suffix):
            return cast("Literal['parquet', 'csv', 'ipc']", name)
    if strict:
        raise LogError([f"{path}: unknown file type"], hint=f"expected one of {', '.join(SUFFIXES)}")
    return cast("Literal['parquet', 'csv', 'ipc']", "")


def _differs(one: pa.Schema, other: pa.Schema) -> bool:
    return {field.name: field.type for field in one} != {field.name: field.type for field in other}


def _row_groups(metadata: object) -> list[int]:
    known = cast("pa.parquet.FileMetaData", metadata)
    return [known.row_group(i).num_rows for i in range(known.num_row_groups)]


def _floats(values: pa.ChunkedArray | pa.Array) -> Floats:
    import pyarrow as pa

    return cast("Floats", values.cast(pa.float64()).to_numpy(zero_copy_only=False) if isinstance(values, pa.Array) else values.cast(pa.float64()).to_numpy())


def _thin(batches: Iterator[pa.RecordBatch]) -> Floats:
    """Draw rows by lot, halving the share whenever twice the wanted sample is held."""
    scores: list[Floats] = [np.empty(0)]
    lots: list[Floats] = [np.empty(0)]
    share, seen = 1.0, 0
    for batch in batches:
        lot = _lot(seen, batch.num_rows)
        seen += batch.num_rows
        scores.append(_floats(batch.column(0))[lot < share])
        lots.append(lot[lot < share])
        if sum(map(len, lots)) > 2 * _SAMPLE:
            share /= 2
            lot = np.concatenate(lots)
            scores, lots = [np.concatenate(scores)[lot < share]], [lot[lot < share]]
    return np.concatenate(scores)


def _lot(first: int, rows: int) -> Floats:
    """Give each row number a fixed number in [0, 1).

    Every k-th row would not do: lists have a regular length, and k may hit the same positions in all.
    """
    mixed = np.arange(first, first + rows, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    mixed ^= mixed >> np.uint64(29)
    mixed *= np.uint64(0xBF58476D1CE4E5B9)
    mixed ^= mixed >> np.uint64(32)
    return (mixed >> np.uint64(11)).astype(np.float64) * 2.0**-53


def _first_line(error: BaseException) -> str:
    return str(error).splitlines()[0].rstrip(".") if str(error) else type(error).__name__
