"""Wherever the rows come from, the tally is the same."""

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.csv as pc
import pyarrow.feather as pf
import pyarrow.parquet as pq
import pytest

import evenodds as eo
from evenodds.distance import ks_distance
from evenodds.sources import open_source


@pytest.fixture(scope="module")
def table(mixed):
    """Return the mixed log, with group names that every format keeps."""
    return mixed


@pytest.fixture(scope="module")
def folder(table, tmp_path_factory):
    """Write the log in every format, whole and in two parts."""
    made = tmp_path_factory.mktemp("logs")
    head, tail = table.slice(0, 300), table.slice(300)
    writers = {
        "parquet": lambda part, path: pq.write_table(part, path, row_group_size=100),
        "csv": pc.write_csv,
        "arrow": lambda part, path: pf.write_feather(part, str(path)),
    }
    for suffix, write in writers.items():
        write(table, made / f"log.{suffix}")
        (made / suffix / "deep").mkdir(parents=True)
        write(head, made / suffix / f"part-0.{suffix}")
        write(tail, made / suffix / "deep" / f"part-1.{suffix}")
    pc.write_csv(table, pa.CompressedOutputStream(made / "log.csv.gz", "gzip"))
    return made


@pytest.fixture(scope="module")
def whole(table):
    return eo.tally(table, cells=12)


@pytest.mark.parametrize("suffix", ["parquet", "csv", "csv.gz", "arrow"])
def test_every_file_format_gives_the_same_tally(folder, whole, suffix):
    """Parquet, CSV, compressed CSV and Arrow IPC give the tally that the table in memory gives."""
    assert eo.tally(folder / f"log.{suffix}", cells=12).equals(whole)


@pytest.mark.parametrize("suffix", ["parquet", "csv", "arrow"])
def test_folders_globs_and_lists_are_one_log(folder, whole, suffix):
    """A folder and all below it, a glob, a list of paths and a mix of them are read as one log."""
    parts = folder / suffix
    paths = [parts / f"part-0.{suffix}", str(parts / "deep" / f"part-1.{suffix}")]
    for source in (
        parts,
        str(parts / "**" / "part-*"),
        paths,
        tuple(paths[::-1]),
        [parts / "deep", paths[0]],
    ):
        assert eo.tally(source, cells=12).equals(whole)


FRAMES = {
    "pandas": lambda table: table.to_pandas(),
    "pandas, NumPy objects": lambda table: table.to_pandas().astype({"group": object, "query": object}),
    "pandas, categories": lambda table: table.to_pandas().astype({"group": "category"}),
    "polars": pl.from_arrow,
    "polars, categories": lambda table: pl.from_arrow(table).with_columns(
        pl.col("group").cast(pl.Categorical)
    ),
    "polars, enum": lambda table: pl.from_arrow(table).with_columns(
        pl.col("group").cast(pl.Enum(["ß", "b", "a"]))
    ),
    "pyarrow": lambda table: table,
    "pyarrow, many chunks": lambda table: pa.Table.from_batches(table.combine_chunks().to_batches(17)),
    "DuckDB": lambda table: duckdb.connect().from_arrow(table),
}


@pytest.mark.parametrize("library", FRAMES)
def test_every_library_gives_the_same_tally(table, whole, library):
    """pandas, polars, pyarrow and a DuckDB relation are read as they are, without conversion by hand."""
    assert eo.tally(FRAMES[library](table), cells=12).equals(whole)


def test_a_file_read_by_any_library_gives_the_tally_of_the_file(folder, whole):
    """Reading the Parquet file by pandas, polars, pyarrow or DuckDB changes nothing."""
    path = folder / "log.parquet"
    for frame in (
        pd.read_parquet(path),
        pl.read_parquet(path),
        pq.read_table(path),
        duckdb.sql(f"select * from '{path}'"),  # the path is the test's own
    ):
        assert eo.tally(frame, cells=12).equals(whole)


def test_a_stream_that_passes_once_is_sampled_and_counted(table, whole):
    """A RecordBatchReader gives grid and counts in its one pass; a second one is refused."""
    reader = pa.RecordBatchReader.from_batches(table.schema, iter(table.to_batches(max_chunksize=50)))
    log = eo.Log(reader)
    assert log.rows is None
    assert eo.tally(log, cells=12).equals(whole)
    with pytest.raises(eo.LogError, match="has been read already"):
        eo.tally(log, grid=whole)


def test_an_object_that_exports_once_is_read_once(table, whole):
    """An object of another library that hands out its stream once, as ADBC's do, is counted whole."""

    class Once:
        def __init__(self):
            self._reader = pa.RecordBatchReader.from_batches(table.schema, table.to_batches(max_chunksize=40))

        def __arrow_c_stream__(self, requested_schema=None):
            return self._reader.__arrow_c_stream__(requested_schema)

    assert eo.tally(Once(), cells=12).equals(whole)


def test_the_head_of_a_stream_is_not_lost(table, whole, monkeypatch):
    """When the sample stops before the stream ends, both what it held and what follows are counted."""
    monkeypatch.setattr("evenodds.sources.SAMPLE", 100)
    reader = pa.RecordBatchReader.from_batches(table.schema, iter(table.to_batches(max_chunksize=30)))
    counted = eo.tally(eo.Log(reader), cells=12)
    assert counted.rows == whole.rows
    assert counted.counts.sum() == whole.counts.sum()


def test_an_empty_file_among_others_adds_nothing(table, folder, whole, tmp_path):
    """A part without rows is read and changes nothing."""
    pq.write_table(table.slice(0, 0), tmp_path / "empty.parquet")
    assert eo.tally([tmp_path / "empty.parquet", folder / "log.parquet"], cells=12).equals(whole)


def test_a_large_file_is_sampled_as_the_same_rows_every_time(tmp_path, monkeypatch):
    """A log larger than the sample gives the same grid every time, and about as many scores as wanted."""
    monkeypatch.setattr("evenodds.sources.SAMPLE", 2_000)
    scores = np.random.default_rng(0).random(20_000)
    table = pa.table({"score": scores})
    pq.write_table(table, tmp_path / "log.parquet", row_group_size=500)
    for source in (tmp_path / "log.parquet", table):
        first, again = (open_source(source).sample("score") for _ in range(2))
        assert (first == again).all()
        assert 1_000 < first.size <= 4_000
        assert np.isin(first, scores).all()
    assert abs(first.mean() - 0.5) < 5 * 0.29 / np.sqrt(first.size)


def test_rows_are_known_where_they_can_be(table, folder):
    """The number of rows is known for Parquet, Arrow and frames; a CSV would have to be read."""
    assert eo.Log(folder / "log.parquet").rows == eo.Log(table).rows == table.num_rows
    assert eo.Log(folder / "log.csv").rows is None


def test_where_rows_came_from_is_kept(folder, table):
    """A tally names its files, or the kind of frame that it was counted from."""
    path = str(folder / "log.parquet")
    assert eo.tally(path).sources == (path,)
    assert eo.tally(table).sources == ("<pyarrow Table>",)
    assert eo.tally(pl.from_arrow(table)).sources == ("<polars DataFrame>",)


def test_what_cannot_be_read_is_named(tmp_path, folder):
    """Missing files, empty folders, unknown types and things that are no log are refused by name."""
    (tmp_path / "notes.txt").write_text("hello")
    (tmp_path / "empty").mkdir()
    for source, message in (
        (tmp_path / "nowhere.parquet", "no such file: .*nowhere.parquet"),
        (str(tmp_path / "*.parquet"), r"no such file: .*\*.parquet"),
        (tmp_path / "empty", "no Parquet, CSV or Arrow file in folder"),
        (tmp_path / "notes.txt", r"notes.txt: unknown file type \(hint: expected one of .parquet"),
        ([folder / "log.parquet", folder / "log.csv"], "files of several formats in one log: csv, parquet"),
        (17, "cannot be read from int"),
        ([], "cannot be read from list"),
        (np.zeros(3), "cannot be read from ndarray"),
    ):
        with pytest.raises(eo.LogError, match=message):
            eo.Log(source)


def test_all_missing_files_are_named_together(tmp_path):
    """Several missing files are reported in one error."""
    with pytest.raises(
        eo.LogError, match=r"2 problems in the log: no such file: .*a.parquet; no such file: .*b.csv"
    ):
        eo.Log([tmp_path / "a.parquet", tmp_path / "b.csv"])


def test_damaged_files_are_one_line(tmp_path, table):
    """A truncated file, one with damaged pages, an empty CSV and a ragged CSV are refused in one line."""
    path = tmp_path / "log.parquet"
    pq.write_table(table, path)
    content = path.read_bytes()
    pages = bytearray(content)
    for place in range(100, 3_000, 3):
        pages[place] ^= 0xFF
    damage = {
        "cut.parquet": content[:-100],
        "pages.parquet": bytes(pages),
        "empty.csv": b"",
        "ragged.csv": b"score,group,label\n0.5,a,1\n0.5\n",
    }
    for name, broken in damage.items():
        (tmp_path / name).write_bytes(broken)
        with pytest.raises(eo.LogError, match="cannot read") as error:
            eo.tally(tmp_path / name)
        assert "\n" not in str(error.value)


def test_files_with_other_columns_are_refused(tmp_path, table):
    """A part whose columns or types differ from the first one's is named."""
    pq.write_table(table, tmp_path / "a.parquet")
    pq.write_table(table.set_column(0, "query", pa.array(range(table.num_rows))), tmp_path / "b.parquet")
    with pytest.raises(eo.LogError, match=r"b.parquet has other columns or types than .*a.parquet"):
        eo.Log(tmp_path)


@pytest.mark.parametrize("stored", ["parquet", "memory"])
def test_the_sample_does_not_line_up_with_the_lists(simulated, tmp_path, monkeypatch, stored):
    """One row in twenty of a log of lists of 50 looks like the whole log, not like every twentieth slot."""
    monkeypatch.setattr("evenodds.sources.SAMPLE", 10_000)
    if stored == "parquet":
        pq.write_table(simulated, tmp_path / "log.parquet", row_group_size=50_000)
    source = tmp_path / "log.parquet" if stored == "parquet" else simulated
    sample = eo.Log(source).score_sample()
    distance = ks_distance(sample, simulated["score"].to_numpy())
    assert 8_000 < sample.size < 22_000
    assert distance < 1.95 / np.sqrt(sample.size)
