"""Where rows are: files of a known type, Arrow streams that pass again or once, feedback stores.

Each source tells its schema, reads record batches in order, and draws the same sample of a column
every time.
"""

from __future__ import annotations

import glob
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal, cast

import numpy as np
import numpy.typing as npt

from evenodds.errors import LogError

if TYPE_CHECKING:
    import pyarrow as pa

Floats = npt.NDArray[np.float64]
SUFFIXES = {
    ".parquet": "parquet",
    ".pq": "parquet",
    ".csv": "csv",
    ".csv.gz": "csv",
    ".arrow": "ipc",
    ".feather": "ipc",
    ".ipc": "ipc",
}
SAMPLE = 250_000  # scores that make a grid: 25 a cell at 10,000 cells
_SAMPLED_BLOCKS = 16  # row groups read for it, spread evenly over the log
_BATCH = 65_536


class Files:
    """A dataset of files of one format."""

    def __init__(self, paths: list[str]) -> None:
        import pyarrow as pa
        import pyarrow.dataset as ds

        formats = {path: format_of(path) for path in paths}
        if len(set(formats.values())) > 1:
            raise LogError(
                [f"files of several formats in one log: {', '.join(sorted(set(formats.values())))}"]
            )
        self.paths = paths
        self.format: Literal["parquet", "csv", "ipc"] = next(iter(formats.values()))
        try:
            dataset = ds.dataset(paths, format=self.format)
            differing = [
                p for p in paths[1:] if _differs(ds.dataset(p, format=self.format).schema, dataset.schema)
            ]
            if differing:
                raise LogError([f"{differing[0]} has other columns or types than {paths[0]}"])
            if self.format == "parquet":  # text is read as dictionary codes: less to decode and to count
                text = [f.name for f in dataset.schema if f.type in {pa.string(), pa.large_string()}]
                dataset = ds.dataset(paths, format=_parquet(set(text)))
            self._dataset = dataset
        except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
            raise LogError(
                [f"cannot read {paths[0] if len(paths) == 1 else 'the log'}: {_first_line(error)}"]
            ) from None

    @property
    def schema(self) -> pa.Schema:
        """The Arrow schema of the rows."""
        return self._dataset.schema

    @property
    def names(self) -> tuple[str, ...]:
        """Where the rows come from."""
        return tuple(self.paths)

    @property
    def rows(self) -> int | None:
        """How many rows there are, where that is known without reading them."""
        # Known from the footers; a CSV would have to be read.
        return None if self.format == "csv" else int(self._dataset.count_rows())

    def batches(self, columns: list[str] | None) -> Iterator[pa.RecordBatch]:
        """Read the rows in order."""
        import pyarrow as pa

        # A reader that runs far ahead buys no speed on two cores, and memory that grows with the log.
        scanner = self._dataset.scanner(
            columns=columns, batch_size=_BATCH, batch_readahead=1, fragment_readahead=1
        )
        try:
            yield from scanner.to_batches()
        except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
            raise LogError([f"cannot read the log: {_first_line(error)}"]) from None

    def sample(self, column: str) -> Floats:
        """Return values of a column from all over the rows, the same ones every time."""
        import pyarrow as pa

        if self.format != "parquet":
            return _thin(self.batches([column]))
        try:
            return self._sample_blocks(column)
        except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
            raise LogError([f"cannot read the log: {_first_line(error)}"]) from None

    def _sample_blocks(self, column: str) -> Floats:
        import pyarrow.parquet as pq

        blocks = [
            (path, group, rows)
            for path in self.paths
            for group, rows in enumerate(_row_groups(pq.read_metadata(path)))
        ]
        picked = (
            [blocks[i] for i in sorted({len(blocks) * k // _SAMPLED_BLOCKS for k in range(_SAMPLED_BLOCKS)})]
            if blocks
            else []
        )
        share = SAMPLE / max(1, sum(rows for _, _, rows in picked))
        parts, seen = [np.empty(0)], 0
        for path, group, rows in picked:
            values = pq.ParquetFile(path).read_row_group(group, columns=[column])[column]
            parts.append(_floats(values)[_lot(seen, rows) < share])
            seen += rows
        return np.concatenate(parts)


def _parquet(text: set[str]) -> object:
    """Return how to read Parquet: text as codes, and nothing held beyond the row groups being decoded.

    By default whole files are buffered ahead, which is for object stores; locally it made memory grow
    with the log, and reading slower.
    """
    import pyarrow.dataset as ds

    scan = ds.ParquetFragmentScanOptions(pre_buffer=False)
    return ds.ParquetFileFormat(dictionary_columns=text, default_fragment_scan_options=scan)


class Stream:
    """An object in memory that can export its rows again and again."""

    def __init__(self, source: object) -> None:
        import pyarrow as pa

        self._source = source
        self.names = (f"<{type(source).__module__.split('.')[0]} {type(source).__name__}>",)
        self.schema: pa.Schema = pa.RecordBatchReader.from_stream(source).schema
        length = getattr(source, "__len__", None)
        self.rows: int | None = int(length()) if length is not None else None

    def batches(self, columns: list[str] | None) -> Iterator[pa.RecordBatch]:
        """Read the rows in order."""
        import pyarrow as pa

        for batch in pa.RecordBatchReader.from_stream(self._source):
            wanted = batch if columns is None else batch.select(columns)
            for start in range(0, wanted.num_rows, _BATCH):
                yield wanted.slice(start, _BATCH)

    def sample(self, column: str) -> Floats:
        """Return values of a column from all over the rows, the same ones every time."""
        return _thin(self.batches([column]))


class Reader:
    """A reader that can be read once: what is sampled from its head is kept and read again."""

    def __init__(self, source: pa.RecordBatchReader) -> None:
        self._reader = source
        self._head: list[pa.RecordBatch] = []
        self._spent = False
        self.schema = source.schema
        self.names = ("<arrow stream>",)
        self.rows: int | None = None

    def batches(self, columns: list[str] | None) -> Iterator[pa.RecordBatch]:
        """Read the rows in order."""
        if self._spent:
            raise LogError(["this Arrow stream has been read already"], hint="pass a table or a file")
        self._spent = True
        head, self._head = self._head, []
        for source in (head, self._reader):
            for batch in source:
                yield batch if columns is None else batch.select(columns)

    def sample(self, column: str) -> Floats:
        """Return values of a column from all over the rows, the same ones every time."""
        held = 0
        while held < SAMPLE:
            try:
                batch = self._reader.read_next_batch()
            except StopIteration:
                break
            self._head.append(batch)
            held += batch.num_rows
        return _thin(batch.select([column]) for batch in self._head)


class Feedback:
    """A feedback store: what was served and has settled, with the labels that came back."""

    def __init__(self, target: str | Path, settle: float | None) -> None:
        from evenodds.feedback.rows import SETTLE, Rows, check_some

        self._rows = Rows(target, SETTLE if settle is None else settle)
        check_some(self._rows)
        self.schema: pa.Schema = self._rows.schema
        self.names = (self._rows.name,)
        self.folded = self._rows.folded
        self.group_columns = self._rows.group_columns
        self.outcomes = self._rows.meta.outcomes

    @property
    def rows(self) -> int | None:
        """How many rows there are."""
        return self._rows.rows

    def batches(self, columns: list[str] | None) -> Iterator[pa.RecordBatch]:
        """Read the rows in order."""
        return self._rows.batches(columns)

    def sample(self, column: str) -> Floats:
        """Return values of a column from all over the rows, the same ones every time."""
        return _thin(self.batches([column]))


Source = Files | Stream | Reader | Feedback


def open_source(source: object, *, settle: float | None = None) -> Source:
    """Open whatever a log can be read from; `settle` is for feedback stores."""
    import pyarrow as pa

    from evenodds.feedback.store import is_store

    if is_store(source):
        stores = source if isinstance(source, list | tuple) else [source]
        if len(stores) > 1:
            raise LogError(
                ["a feedback store is read alone"],
                hint="evenodds tally counts each store or log, with --grid-from; evenodds merge adds up",
            )
        return Feedback(cast("str | Path", stores[0]), settle)
    if isinstance(source, str | Path):
        return Files(_expand([source]))
    if isinstance(source, pa.RecordBatchReader):
        return Reader(source)
    if hasattr(source, "__arrow_c_stream__"):
        # What does not know its length may be a stream that can be exported once only.
        known = hasattr(source, "__len__")
        return Stream(source) if known else Reader(pa.RecordBatchReader.from_stream(source))
    if isinstance(source, Sequence) and source and all(isinstance(path, str | Path) for path in source):
        return Files(_expand(cast("Sequence[str | Path]", source)))
    raise LogError(
        [f"a log cannot be read from {type(source).__name__}"],
        hint="give a path, a glob, a list of paths, a Spark DataFrame, or a table that speaks Arrow "
        "(__arrow_c_stream__)",
    )


def _expand(sources: Sequence[str | Path]) -> list[str]:
    paths: list[str] = []
    problems: list[str] = []
    for source in map(str, sources):
        if Path(source).is_dir():
            found = sorted(
                str(p) for p in Path(source).rglob("*") if p.is_file() and format_of(str(p), strict=False)
            )
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
    if strict and path.lower().endswith(".tally"):
        raise LogError([f"{path} is a tally: this needs the rows of a log"])
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

    return cast(
        "Floats",
        values.cast(pa.float64()).to_numpy(zero_copy_only=False)
        if isinstance(values, pa.Array)
        else values.cast(pa.float64()).to_numpy(),
    )


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
        while sum(map(len, lots)) > 2 * SAMPLE:
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
