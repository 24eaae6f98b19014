"""The counting function against counting row by row."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings, strategies as st

import evenodds as eo
from evenodds.engines.arrow import Counter
from evenodds.grid import Grid
from oracles import counting

ROLES = ("query", "position", "weight")


def agrees(table, *, cells=12, depth=100, **roles):
    """Count a table both ways and compare every number; return the tally."""
    counted = eo.tally(table, cells=cells, depth=depth, **roles)
    group = roles.get("group", "group")
    group = [group] if isinstance(group, str) else group
    named = {name: table[name].to_pylist() for name in table.column_names}
    rows = [dict(zip(named, values, strict=True)) for values in zip(*named.values(), strict=True)]
    for role in ROLES:
        if roles.get(role, role) is None:
            rows = [{name: value for name, value in row.items() if name != role} for row in rows]
    expected = counting.count(rows, counted.grid.boundaries.tolist(), group=group, depth=depth)
    counts, squares, folds, swaps = expected
    assert counting.as_dictionary(counted.counts, counted.groups) == counts
    assert counting.as_dictionary(counted.squares, counted.groups) == squares
    assert (counted.folds is None) == (roles.get("query", "query") is None or "query" not in named)
    if counted.folds is not None:
        assert counting.as_dictionary(counted.folds, counted.groups) == folds
    if counted.swaps is not None:
        assert counting.as_dictionary(counted.swaps) == swaps
    assert counted.rows == table.num_rows
    return counted


def test_every_number_is_what_counting_row_by_row_gives(mixed):
    """Counts, squares and folds with weights and two group columns equal those of the oracle."""
    counted = agrees(mixed, group=["group", "age"])
    assert counted.counts.dtype == np.float64
    assert counted.groups[0] == ("a", "false")


def test_counts_without_weights_are_whole_numbers(mixed):
    """Without weights, counts are integers and squares are the counts."""
    counted = agrees(mixed, weight=None)
    assert counted.counts.dtype == np.int64
    assert (counted.squares == counted.counts.sum(axis=3)).all()


@pytest.mark.parametrize("left_out", ROLES)
def test_optional_columns_may_be_left_out(mixed, left_out):
    """Without one of position, query, weight the other counts are still exact."""
    agrees(mixed, **{left_out: None})


@given(st.integers(0, 2**32), st.integers(1, 12), st.integers(1, 6), st.booleans())
@settings(max_examples=30)
def test_any_small_log_is_counted_exactly(seed, cells, depth, weighted):
    """Any small log, any number of cells and any depth: equal to counting row by row."""
    rng = np.random.default_rng(seed)
    size = int(rng.integers(1, 60))
    table = pa.table(
        {
            "score": rng.choice([0.1, 0.5, 0.5, 0.9, rng.random()], size),
            "group": rng.integers(-1, 2, size),
            "label": rng.random(size) < 0.5,
            "position": rng.integers(0, 9, size),
            "query": rng.integers(0, 2**40, size),
            **({"weight": rng.integers(0, 4, size).astype(float)} if weighted else {}),
        }
    )
    agrees(table, cells=cells, depth=depth)


GROUP_TYPES = {
    "text": pa.array,
    "large text": lambda g: pa.array(g).cast(pa.large_string()),
    "text view": lambda g: pa.array(g).cast(pa.string_view()),
    "dictionary": lambda g: pa.array(g).dictionary_encode(),
    "dictionary with spare values": lambda g: pa.DictionaryArray.from_arrays(
        pa.array([["z", "b", "a", "ß"].index(name) for name in g], pa.int8()), ["z", "b", "a", "ß"]
    ),
}


@pytest.mark.parametrize("kind", GROUP_TYPES)
@pytest.mark.parametrize("column", ["group", "query"])
def test_text_counts_alike_in_every_type(mixed, kind, column):
    """Groups and queries as text, large text, text view or dictionary give equal tallies."""
    whole = eo.tally(mixed, cells=12)
    values = GROUP_TYPES[kind if column == "group" else kind.replace(" with spare values", "")](
        mixed[column].to_pylist()
    )
    other = mixed.set_column(mixed.column_names.index(column), column, values)
    assert eo.tally(other, cells=12).equals(whole)


@pytest.mark.parametrize("kind", ["int8", "uint16", "int64", "bool"])
def test_groups_may_be_numbers_or_booleans(kind):
    """Groups that are numbers or booleans are named as they print."""
    values = np.array([1, 0, 1, 1, 0]).astype(kind)
    table = pa.table({"score": np.arange(5) / 5, "label": [1, 0, 1, 0, 1], "group": values})
    names = [("false",), ("true",)] if kind == "bool" else [("0",), ("1",)]
    assert list(agrees(table).groups) == names


@pytest.mark.parametrize("kind", ["bool", "int8", "uint8", "int64", "float32", "float64", "dictionary"])
def test_labels_count_alike_in_every_type(mixed, kind):
    """Labels as booleans, whole numbers, floats or a dictionary of them give equal tallies."""
    label = mixed["label"].to_numpy()
    values = pa.array(label).dictionary_encode() if kind == "dictionary" else pa.array(label.astype(kind))
    other = mixed.set_column(mixed.column_names.index("label"), "label", values)
    assert eo.tally(other, cells=12).equals(eo.tally(mixed, cells=12))


@pytest.mark.parametrize("kind", ["int8", "uint8", "int16", "uint64", "float32", "float64"])
@pytest.mark.parametrize("depth", [3, 300, 40_000])
def test_positions_count_alike_in_every_type(mixed, kind, depth):
    """Positions in any numeric type give equal tallies, also where the type cannot hold the depth."""
    values = mixed["position"].to_numpy().astype(kind)
    other = mixed.set_column(mixed.column_names.index("position"), "position", pa.array(values))
    assert eo.tally(other, cells=3, depth=depth).equals(eo.tally(mixed, cells=3, depth=depth))


def test_positions_past_the_depth_share_one_slot(mixed):
    """Positions past the depth are pooled in the slot after it, and none is lost."""
    counted = agrees(mixed, depth=4)
    deep = mixed["position"].to_numpy() > 4
    assert counted.counts.shape[2] == 6
    assert counted.counts[:, :, 5].sum() == mixed["weight"].to_numpy()[deep].sum()


@pytest.mark.parametrize("kind", ["float32", "float16", "int32", "dictionary"])
def test_scores_may_have_any_numeric_type(kind):
    """Scores that are narrow floats, whole numbers or a dictionary are counted by their value."""
    values = np.array([1, 3, 3, 2, 5, 1, 3])
    score = pa.array(values).dictionary_encode() if kind == "dictionary" else pa.array(values.astype(kind))
    agrees(pa.table({"score": score, "label": [1, 0, 1, 0, 1, 1, 0], "group": list("abababa")}))


def test_swapped_pairs_are_counted_by_pair_slot_and_label(mixed):
    """Rows of swapped pairs are counted by fold, pair, slot and label; rows in none are not."""
    position = mixed["position"].to_numpy().astype(int)
    upper = [None if p % 3 == 0 else int(p - (p % 3 == 2)) for p in position]
    agrees(mixed.append_column("swap", pa.array(upper, pa.int8())), swap="swap")


@given(st.lists(st.integers(1, 60), min_size=1, max_size=12), st.randoms(use_true_random=False))
@settings(max_examples=25)
def test_counts_do_not_depend_on_batches_or_row_order(mixed, sizes, random):
    """However rows are shuffled and cut into batches, the tally is the same to the last number."""
    rows = list(range(mixed.num_rows))
    random.shuffle(rows)
    shuffled = mixed.take(rows)
    parts, start = [], 0
    for size in [*sizes, mixed.num_rows]:
        parts += shuffled.slice(start, size).combine_chunks().to_batches()
        start += size
    assert eo.tally(pa.Table.from_batches(parts), cells=12).equals(eo.tally(mixed, cells=12))


def test_counts_survive_growth_and_flushing(mixed, monkeypatch):
    """New groups, deeper positions and full buffers in the middle of a log change no count."""
    monkeypatch.setattr("evenodds.engines.arrow._HELD_ROWS", 1)
    by_group = mixed.sort_by([("group", "descending"), ("position", "ascending")])
    deeper = pa.concat_tables(
        [
            by_group,
            by_group.set_column(
                by_group.column_names.index("position"),
                "position",
                pa.array(by_group["position"].to_numpy() + 80, pa.int16()),
            ),
        ]
    )
    batches = pa.Table.from_batches(deeper.to_batches(max_chunksize=37))
    agrees(batches, cells=4)


def test_integer_weights_equal_repeated_rows(mixed):
    """A row of weight k counts exactly as k copies of it; the squares tell the two apart."""
    weights = mixed["weight"].to_numpy().astype(int)
    repeated = mixed.take(np.repeat(np.arange(mixed.num_rows), weights))
    once = eo.tally(mixed, cells=12)
    many = eo.tally(repeated, weight=None, grid=once)
    assert (once.counts == many.counts).all()
    assert (once.folds == many.folds).all()
    assert once.squares.sum() == (weights**2).sum() > many.squares.sum()


def test_rows_of_weight_zero_count_for_nothing(mixed):
    """Rows of weight 0 leave counts as they would be without those rows."""
    weight = np.where(np.arange(mixed.num_rows) % 3 == 0, 0.0, 2.0)
    zeroed = mixed.set_column(mixed.column_names.index("weight"), "weight", pa.array(weight))
    grid = eo.tally(mixed, cells=12)
    kept = eo.tally(zeroed.filter(weight > 0), grid=grid)
    whole = eo.tally(zeroed, grid=grid)
    assert whole.counts.sum() == 2.0 * (weight > 0).sum()
    assert (whole.counts[:, :, : kept.counts.shape[2]] == kept.counts).all()


def test_too_many_cells_for_memory_are_refused():
    """A group column with a value for every row is refused before memory runs out, with a hint."""
    size = 100_000
    table = pa.table(
        {"score": np.arange(size) / size, "group": np.arange(size), "label": np.zeros(size, int)}
    )
    counter = Counter(eo.Log(table).roles, Grid.from_sample(np.linspace(0, 1, 10_000), 10_000), 100)
    with pytest.raises(eo.TallyError, match=r"100000 groups .*hint.*group column"):
        counter.add(table.combine_chunks().to_batches()[0])


BAD_VALUES = {
    "NaN score": (
        "score",
        [np.nan],
        "NaN or infinite score in column 'score' in 1 row (first: nan at row 2)",
    ),
    "infinite score": (
        "score",
        [np.inf],
        "NaN or infinite score in column 'score' in 1 row (first: inf at row 2)",
    ),
    "null score": ("score", [None], "null in column 'score' in 1 row (first: at row 2)"),
    "null group": ("group", [None], "null in column 'group' in 1 row (first: at row 2)"),
    "empty group": ("group", [""], "null or empty text in column 'group' in 1 row (first: at row 2)"),
    "label 2": ("label", [2.0], "label outside {0, 1} in column 'label' in 1 row (first: 2.0 at row 2)"),
    "label a half": ("label", [0.5], "label outside {0, 1} in column 'label' in 1 row (first: 0.5 at row 2)"),
    "label below 0": (
        "label",
        [-1.0],
        "label outside {0, 1} in column 'label' in 1 row (first: -1.0 at row 2)",
    ),
    "NaN label": ("label", [np.nan], "label outside {0, 1} in column 'label' in 1 row (first: nan at row 2)"),
    "null label": ("label", [None], "null in column 'label' in 1 row (first: at row 2)"),
    "position below": (
        "position",
        [-1.0],
        "position below the first in column 'position', positions start at 0 or 1",
    ),
    "part of a position": ("position", [1.5], "position not a whole number in column 'position' in 1 row"),
    "infinite position": ("position", [np.inf], "position not a whole number in column 'position' in 1 row"),
    "null position": ("position", [None], "null in column 'position' in 1 row"),
    "negative weight": ("weight", [-1.0], "negative or infinite weight in column 'weight' in 1 row"),
    "NaN weight": ("weight", [np.nan], "negative or infinite weight in column 'weight' in 1 row"),
    "null weight": ("weight", [None], "null in column 'weight' in 1 row"),
    "null query": ("query", [None], "null in column 'query' in 1 row"),
}


def spoilt(column, value, row=2):
    """Return a log of six rows, one value replaced."""
    good = {
        "score": [0.1, 0.2, 0.3, 0.4, 0.5, 0.6],
        "group": list("ababab"),
        "label": [1.0, 0.0, 1.0, 0.0, 1.0, 0.0],
        "position": [1.0, 2.0, 3.0, 1.0, 2.0, 3.0],
        "weight": [1.0] * 6,
        "query": [1, 1, 1, 2, 2, 2],
    }
    good[column][row] = value
    return pa.table({name: pa.array(values, from_pandas=False) for name, values in good.items()})


@pytest.mark.parametrize("case", BAD_VALUES)
def test_bad_values_are_named(case):
    """A bad value is reported with its column, how many there are, the first one, and its row."""
    column, (value,), message = BAD_VALUES[case]
    with pytest.raises(eo.LogError) as error:
        eo.tally(spoilt(column, value))
    assert message in str(error.value)
    assert len(error.value.problems) == 1


def test_a_position_below_the_named_first_one_is_refused():
    """With first_position=2 a row at position 1 is a problem."""
    with pytest.raises(eo.LogError, match=r"expected 2 or more, in 2 rows \(first: 1.0 at row 0\)"):
        eo.tally(eo.Log(spoilt("score", 0.3), first_position=2))


def test_problems_of_several_kinds_are_reported_together():
    """Every kind of problem in the log is found in one go, also behind a null in the same batch."""
    table = pa.table(
        {
            "score": [np.nan, 0.2, 0.3, 0.4, 0.5, 0.6],
            "group": ["a", None, "b", "a", "b", "a"],
            "label": [1, 0, 7, 0, 1, 0],
            "position": [1, 2, 3, -4, 2, 3],
            "weight": [1.0, 1.0, 1.0, 1.0, -2.0, -3.0],
        }
    )
    with pytest.raises(eo.LogError) as error:
        eo.tally(table)
    assert error.value.problems == (
        "null in column 'group' in 1 row (first: at row 1)",
        "NaN or infinite score in column 'score' in 1 row (first: nan at row 0)",
        "label outside {0, 1} in column 'label' in 1 row (first: 7 at row 2)",
        "position below the first in column 'position', positions start at 0 or 1, in 1 row (first: -4 at row 3)",
        "negative or infinite weight in column 'weight' in 2 rows (first: -2.0 at row 4)",
    )
    assert "\n" not in str(error.value)


def test_problems_are_added_up_over_batches():
    """A kind of problem is reported once for the whole log, with its number of rows and its first row."""
    parts = [spoilt("score", np.nan, row) for row in (5, 0, 3)]
    with pytest.raises(eo.LogError, match=r"in 3 rows \(first: nan at row 5\)"):
        eo.tally(pa.concat_tables(parts))


def test_a_null_hidden_in_a_dictionary_is_a_null_group():
    """A dictionary that holds null as a value is found out."""
    group = pa.DictionaryArray.from_arrays(pa.array([0, 1, 0, 0, 1, 0]), pa.array(["a", None]))
    table = spoilt("score", 0.3).set_column(1, "group", group)
    with pytest.raises(eo.LogError, match="null or empty text in column 'group' in 2 rows"):
        eo.tally(table)


def test_a_pair_that_a_row_is_not_in_is_refused():
    """A swap column that names a pair the row's position is not part of is a problem."""
    table = spoilt("score", 0.3).append_column("swap", pa.array([1, 1, None, 2, 1, None]))
    with pytest.raises(eo.LogError, match=r"neither the pair's upper one nor the next .*first: 2 at row 3"):
        eo.tally(table, swap="swap")


def test_an_empty_log_is_refused():
    """A log without rows is refused."""
    with pytest.raises(eo.LogError, match="the log is empty"):
        eo.tally(spoilt("score", 0.3).slice(0, 0))


def test_several_outcomes_are_counted_apart():
    """With outcomes=3, labels 1, 2 and 3 are counted each for itself, and 4 is refused."""
    table = spoilt("score", 0.3).set_column(2, "label", pa.array([0, 1, 2, 3, 3, 0]))
    counted = eo.tally(table, outcomes=3)
    assert counted.counts.sum(axis=(0, 2, 3)).tolist() == [2, 1, 1, 2]
    with pytest.raises(eo.LogError, match=r"label outside 0\.\.2"):
        eo.tally(table, outcomes=2)
