"""Applying a model to a log: the same rows in the same order, with two columns more."""

import numpy as np
import pyarrow as pa
import pyarrow.csv as pc
import pyarrow.feather as pf
import pyarrow.parquet as pq
import pytest

import evenodds as eo
from evenodds.apply import apply_to_log
from oracles import fairness
from worlds import draw


@pytest.fixture(scope="module")
def log():
    """Rank some lists, and scatter the rows of each over the log."""
    rng = np.random.default_rng(0)
    table = draw(rng, 150, lengths=(1, 12))
    shuffled = table.take(rng.permutation(table.num_rows))
    extra = pa.array([f"row {i}" if i % 3 else None for i in range(table.num_rows)])
    return shuffled.append_column("note", extra).append_column(
        "item", pa.array(rng.permutation(table.num_rows))
    )


@pytest.fixture(scope="module")
def model(log):
    return eo.EqualOpportunity(min_positives=10, position_bias="none").fit(eo.tally(log, cells=100))


def applied(model, log, path, **settings):
    rows = apply_to_log(model, eo.Log(log) if not isinstance(log, eo.Log) else log, path, **settings)
    readers = {".parquet": pq.read_table, ".csv": pc.read_csv, ".arrow": lambda p: pf.read_table(str(p))}
    table = readers[path.suffix](path)
    assert table.num_rows == rows
    return table


def test_rows_and_columns_stay_and_two_are_added(model, log, tmp_path):
    """The output has the log's rows in its order and its columns in theirs, then the two new ones."""
    found = applied(model, log, tmp_path / "fair.parquet")
    assert found.column_names == [*log.column_names, "fair_score", "fair_position"]
    assert found.select(log.column_names).equals(log)


def test_fair_scores_are_the_models(model, log, tmp_path):
    """fair_score is what transform gives for the same rows, bit for bit."""
    found = applied(model, log, tmp_path / "fair.parquet")
    assert found["fair_score"].to_numpy().tolist() == model.transform(log["score"], log["group"]).tolist()


def test_fair_positions_rank_each_query(model, log, tmp_path):
    """fair_position counts, within the query, the rows with a higher fair score: from 1, by pure Python."""
    found = applied(model, log, tmp_path / "fair.parquet")
    pairs = list(zip(log["query"].to_pylist(), found["fair_score"].to_pylist(), strict=True))
    assert found["fair_position"].to_pylist() == fairness.ranks(pairs)


def test_ties_stand_in_the_order_of_the_log(model, tmp_path):
    """Rows of equal fair score keep the order in which the log has them."""
    table = pa.table(
        {
            "query": [2, 1, 2, 1, 2, 1],
            "score": [0.4, 0.4, 0.4, 0.4, 0.9, 0.4],
            "group": ["a"] * 6,
            "label": [0] * 6,
        }
    )
    assert applied(model, table, tmp_path / "f.parquet")["fair_position"].to_pylist() == [2, 1, 3, 2, 1, 3]


def test_positions_start_where_the_logs_do(log, tmp_path):
    """A log whose positions start at 0 gets fair positions from 0."""
    from_zero = log.set_column(
        log.column_names.index("position"), "position", [log["position"].to_numpy() - 1]
    )
    model = eo.EqualOpportunity(min_positives=10).fit(eo.tally(from_zero, cells=100))
    found = applied(model, from_zero, tmp_path / "f.parquet")
    pairs = list(zip(log["query"].to_pylist(), found["fair_score"].to_pylist(), strict=True))
    assert found["fair_position"].to_pylist() == [place - 1 for place in fairness.ranks(pairs)]


@pytest.mark.parametrize("suffix", ["parquet", "csv", "arrow"])
def test_every_format_is_written(model, log, tmp_path, suffix):
    """Parquet, CSV and Arrow hold the same rows; scores come back to the last bit."""
    found = applied(model, log.drop_columns(["note"]), tmp_path / f"fair.{suffix}")
    assert found["fair_score"].to_pylist() == model.transform(log["score"], log["group"]).tolist()
    assert found["score"].to_pylist() == log["score"].to_pylist()


def test_text_ids_and_files_rank_alike(model, log, tmp_path):
    """Queries as text, or the log read from a file in several parts, give the same positions."""
    expected = applied(model, log, tmp_path / "plain.parquet")["fair_position"]
    as_text = log.set_column(0, "query", pa.array([f"q-{number}" for number in log["query"].to_pylist()]))
    assert applied(model, as_text, tmp_path / "text.parquet")["fair_position"].equals(expected)
    for part, cut in enumerate(((0, 0), (0, 400), (400,))):  # the first one holds no rows
        pq.write_table(as_text.slice(*cut), tmp_path / f"part-{part}.parquet", row_group_size=90)
    parts = eo.Log(str(tmp_path / "part-*.parquet"))
    assert applied(model, parts, tmp_path / "parts.parquet")["fair_position"].equals(expected)


def test_batches_change_nothing(model, log, tmp_path):
    """The output does not depend on how the rows come in batches."""
    expected = applied(model, log, tmp_path / "whole.parquet")
    cut = pa.Table.from_batches(log.combine_chunks().to_batches(13))
    assert applied(model, cut, tmp_path / "cut.parquet").equals(expected)


def test_without_queries_there_are_no_positions(model, log, tmp_path):
    """A log without a query column gets fair scores only."""
    found = applied(model, log.drop_columns(["query"]), tmp_path / "f.parquet")
    assert found.column_names[-1] == "fair_score"
    assert "fair_position" not in found.column_names


def test_draws_are_keyed_by_query_and_item(tied, tmp_path):
    """Tied scores are drawn by query and item, else by the named columns, else by row number and seed."""
    model = eo.EqualOpportunity().fit(tied)
    small = tied.slice(0, 400).append_column("query", pa.array(np.arange(400) // 8))
    scores, groups = small["score"], small["group"]

    def fair(log, name, **settings):
        return applied(model, log, tmp_path / f"{name}.parquet", **settings)["fair_score"].to_numpy()

    both = model.transform(scores, groups, keys=(small["query"], small["item"]))
    assert (fair(small, "both") == both).all()
    order = np.random.default_rng(0).permutation(400)
    assert (fair(small.take(order), "shuffled") == both[order]).all()
    named = model.transform(scores, groups, keys=small["item"])
    assert (fair(small, "named", keys=["item"]) == named).all()
    bare = small.drop_columns(["item"])
    assert (fair(bare, "seed 3", seed=3) == model.transform(scores, groups, seed=3)).all()
    cut = pa.Table.from_batches(bare.combine_chunks().to_batches(70))
    assert (fair(cut, "cut", seed=3) == model.transform(scores, groups, seed=3)).all()
    assert (fair(bare, "seed 4", seed=4) != fair(bare, "seed 3 again", seed=3)).any()


def test_null_groups_are_served(model, log, tmp_path):
    """Rows without a group are transformed by the model's policy; none is dropped."""
    groups = [None if i % 5 == 0 else name for i, name in enumerate(log["group"].to_pylist())]
    found = applied(
        model,
        log.set_column(log.column_names.index("group"), "group", pa.array(groups)),
        tmp_path / "f.parquet",
    )
    assert found.num_rows == log.num_rows
    assert found["fair_score"].to_pylist() == model.transform(log["score"], groups).tolist()


def test_progress_tells_every_row_twice(model, log, tmp_path):
    """Progress is told of each row once when it is scored and once when it is written."""
    told = []
    apply_to_log(model, eo.Log(log), tmp_path / "f.parquet", progress=told.append)
    assert sum(told) == 2 * log.num_rows


def spoilt(log, column, value):
    values = log[column].to_pylist()
    values[17] = value
    return log.set_column(log.column_names.index(column), column, pa.array(values))


@pytest.mark.parametrize(
    ("make", "settings", "message"),
    [
        (lambda log: log.slice(0, 0), {}, "the log is empty"),
        (
            lambda log: spoilt(log, "score", float("nan")),
            {},
            "NaN or infinite score in column 'score', first at row 17",
        ),
        (
            lambda log: spoilt(log, "score", None),
            {},
            "null, NaN or infinite score in column 'score', first at row 17",
        ),
        (lambda log: spoilt(log, "query", None), {}, "null in column 'query'"),
        (lambda log: log, {"keys": ["itm"]}, "no column 'itm' for key, did you mean 'item'"),
        (lambda log: log.rename_columns({"note": "fair_score"}), {}, "has a column 'fair_score' already"),
    ],
    ids=["empty", "NaN", "null score", "null query", "key", "column"],
)
def test_a_log_that_cannot_be_ranked_is_refused_whole(model, log, tmp_path, make, settings, message):
    """Bad rows are named, and no output is left behind."""
    with pytest.raises(eo.LogError, match=message):
        apply_to_log(model, eo.Log(make(log)), tmp_path / "f.parquet", **settings)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("name", "error", "message"),
    [
        ("f.txt", eo.LogError, "unknown file type"),
        ("f.csv.gz", eo.SettingsError, "compressed CSV is read, not written"),
    ],
)
def test_formats_that_are_not_written_are_refused_at_once(model, log, tmp_path, name, error, message):
    """A name that cannot be written is refused before a row is read."""
    told = []
    with pytest.raises(error, match=message):
        apply_to_log(model, eo.Log(log), tmp_path / name, progress=told.append)
    assert told == []
    assert list(tmp_path.iterdir()) == []


def test_a_failure_while_writing_keeps_the_old_file(model, log, tmp_path, monkeypatch):
    """When writing fails half-way, the old output stands, and no part of a new one."""
    target = tmp_path / "fair.parquet"
    target.write_bytes(b"old")

    def broken(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(pq.ParquetWriter, "write_batch", broken)
    with pytest.raises(eo.OutputError, match="No space left on device"):
        apply_to_log(model, eo.Log(log), target, overwrite=True)
    assert target.read_bytes() == b"old"
    assert [path.name for path in tmp_path.iterdir()] == ["fair.parquet"]
