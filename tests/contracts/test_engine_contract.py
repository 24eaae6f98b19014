"""What every engine must do. A new one joins with a way to bring a table to it, in ENGINES."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import evenodds as eo
from oracles import counting


def by_batches(table, _request):
    """Feed the local engine a stream that is cut into batches of seven rows."""
    return pa.RecordBatchReader.from_batches(table.schema, table.to_batches(max_chunksize=7))


def by_files(table, request):
    """Feed the local engine two files of several row groups."""
    folder = request.getfixturevalue("tmp_path")
    for number, part in enumerate((table.slice(0, 300), table.slice(300))):
        pq.write_table(part, folder / f"part-{number}.parquet", row_group_size=100)
    return folder


def by_spark(table, request):
    """Feed Spark, with five partitions."""
    return request.getfixturevalue("spark").createDataFrame(table).repartition(5)


ENGINES = [by_batches, by_files, pytest.param(by_spark, marks=pytest.mark.spark)]
ENGINE = pytest.mark.parametrize("engine", ENGINES)
CASES = {
    "every role": {"group": ["group", "age"]},
    "one group column": {},
    "no weight": {"weight": None},
    "no query": {"query": None},
    "no position": {"position": None},
    "a shallow depth": {"depth": 4},
}


@ENGINE
@pytest.mark.parametrize("case", CASES)
def test_counts_are_those_of_counting_by_hand(engine, case, mixed, request):
    """Counts, squares, and counts in folds of queries equal those of a loop over rows in dictionaries."""
    roles = CASES[case]
    grid = eo.tally(mixed, cells=12).grid
    tally = eo.tally(engine(mixed, request), grid=grid, **roles)
    absent = {name for name, column in roles.items() if column is None}
    rows = [{name: value for name, value in row.items() if name not in absent} for row in mixed.to_pylist()]
    columns = (
        (roles["group"],) if isinstance(roles.get("group"), str) else tuple(roles.get("group", ["group"]))
    )
    slow = counting.count(rows, grid.boundaries.tolist(), group=columns, depth=roles.get("depth", 100))
    fast = (tally.counts, tally.squares, tally.folds)
    for by_hand, array in zip(slow[:3], fast, strict=True):
        assert (counting.as_dictionary(array, tally.groups) if array is not None else {}) == by_hand


@ENGINE
def test_bad_rows_are_refused_with_the_same_words(engine, mixed, request):
    """A score that is not a number, an impossible label, a null group: each is named with its column."""
    place = mixed.column_names.index

    def with_first(name, value):
        values = [value, *mixed[name].to_pylist()[1:]]
        return mixed.set_column(place(name), name, [pa.array(values, mixed.schema.field(name).type)])

    wrong = {
        "score": (np.nan, "score"),
        "label": (7, r"label outside \{0, 1\}"),
        "group": (None, "group"),
        "position": (-1, "position below the first"),
        "weight": (-1.0, "negative or infinite weight"),
    }
    for name, (value, said) in wrong.items():
        with pytest.raises(eo.LogError, match=said) as caught:
            eo.tally(engine(with_first(name, value), request), cells=12)
        assert repr(name) in str(caught.value)
        assert "\n" not in str(caught.value)
