"""From group values, as a caller has them, to the rows of a model's tables."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, strategies as st

import evenodds as eo
from evenodds.groups import GroupIndex

NAMES = ("a", "b", "ß", "7")


@pytest.fixture
def index():
    return GroupIndex([(name,) for name in NAMES], ["group"], stride=10)


SHAPES = {
    "list": list,
    "tuple of one": lambda g: (list(g),),
    "NumPy text": np.array,
    "NumPy objects": lambda g: np.array(g, dtype=object),
    "pandas": pd.Series,
    "pandas category": lambda g: pd.Series(g, dtype="category"),
    "polars": pl.Series,
    "polars category": lambda g: pl.Series(g, dtype=pl.Categorical),
    "Arrow": pa.array,
    "Arrow chunks": lambda g: pa.chunked_array([g[:1], g[1:]]),
    "Arrow dictionary": lambda g: pa.array(g).dictionary_encode(),
    "Arrow text view": lambda g: pa.array(g).cast(pa.string_view()),
}


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("times", [1, 1_000], ids=["few", "many"])
def test_names_are_found_in_any_container(index, shape, times):
    """The same names get the same codes in any container, whether there are few of them or many."""
    names = ["b", "ß", "a", "zzz", "7"] * times
    assert index.codes(SHAPES[shape](names), len(names)).tolist() == [10, 20, 0, 40, 30] * times


@pytest.mark.parametrize("times", [1, 1_000], ids=["few", "many"])
@pytest.mark.parametrize(
    "missing",
    [None, float("nan"), np.nan, pd.NA, "", "unseen", 8, 7.5],
    ids=["None", "nan", "NaN", "NA", "empty", "unseen", "8", "7.5"],
)
def test_null_and_unseen_groups_get_the_last_code(index, missing, times):
    """None, NaN, NA, empty text and unseen values get the code past the known ones."""
    values = ["a", missing, "b"] * times
    assert index.codes(values, len(values)).tolist() == [0, 40, 10] * times
    assert index.codes(np.array(values, dtype=object), len(values)).tolist() == [0, 40, 10] * times


@pytest.mark.parametrize("value", [7, 7.0, np.int8(7), np.float32(7), "7"], ids=repr)
def test_what_prints_alike_is_the_same_group(index, value):
    """The number 7, also as a float that a null made of it, is the group "7"."""
    assert index.codes([value], 1).tolist() == [30]
    assert index.codes(np.array([value, value]), 2).tolist() == [30, 30]


@pytest.mark.parametrize("times", [1, 1_500], ids=["few", "many"])
@pytest.mark.parametrize("names", [("false", "true"), ("0", "1")], ids=["words", "numbers"])
def test_a_boolean_column_may_come_as_zeros_and_ones(names, times):
    """Where all of a column's groups are truth values, True, 1, 1.0 and "1" are one group, alone and crossed."""
    index = GroupIndex([(name,) for name in names], ["member"])
    crossed = GroupIndex([("f", name) for name in names], ["sex", "member"])
    for values in ([1, 0], [True, False], [1.0, 0.0], ["1", "0"], ["true", "false"]):
        column, sexes = values * times, ["f"] * 2 * times
        for given_as in (column, np.array(column)):
            assert index.codes(given_as, len(column)).tolist() == [1, 0] * times
            assert crossed.codes((sexes, given_as), len(column)).tolist() == [1, 0] * times


@pytest.mark.parametrize("times", [1, 1_500], ids=["few", "many"])
def test_booleans_are_not_the_numbers_one_and_zero_among_other_names(times):
    """With a third group, True is "true" and 1 is not, in any order of calls: what was asked before leaves no trace."""
    for calls in ([[1, 0], [True, False]], [[True, False], [1, 0]], [[1.0, 0.0], [True, False]]):
        index = GroupIndex([("false",), ("true",), ("unsaid",)], ["group"])
        for values in [call * times for call in calls]:
            expected = [1, 0] if values[0] is True else [3, 3]
            assert index.codes(values, len(values)).tolist() == expected * times
            assert index.codes(np.array(values), len(values)).tolist() == expected * times


def test_two_columns_are_crossed():
    """A pair of columns finds its crossed group; combinations that were not in the log are unseen."""
    index = GroupIndex([("f", "1"), ("m", "1"), ("m", "2")], ["sex", "age"])
    columns = (["m", "f", "f", "m", None, "x"], [2, 1, 2, 1, 1, 1])
    assert index.codes(columns, 6).tolist() == [2, 0, 3, 1, 3, 3]
    assert index.name(2) == "m × 2"
    assert index.name(3) == "unknown"


@given(
    st.lists(
        st.tuples(st.sampled_from(["f", "m", "x", None]), st.sampled_from([1, 2, True, None])), min_size=1
    )
)
def test_crossed_codes_do_not_depend_on_the_batch(pairs):
    """Each pair gets the code that it gets alone."""
    index = GroupIndex([("f", "1"), ("m", "1"), ("m", "2"), ("f", "true")], ["sex", "age"])
    whole = index.codes(([sex for sex, _ in pairs], [age for _, age in pairs]), len(pairs)).tolist()
    assert whole == [index.codes(([sex], [age]), 1)[0] for sex, age in pairs]


def test_many_unseen_values_fill_no_memory(index):
    """A server that sees a million new values does not remember them all."""
    for start in range(0, 30_000, 1_000):
        index.codes([f"new{i}" for i in range(start, start + 1_000)], 1_000)
    assert len(index._codes) <= 10_000


def test_more_distinct_texts_than_expected_are_still_found(index):
    """Long columns of fixed-width text with many distinct values are looked up correctly."""
    values = np.array([f"g{i % 100}" for i in range(5_000)] + ["ß", "b"])
    assert index.codes(values, values.size).tolist() == [40] * 5_000 + [20, 10]


def test_mixed_types_in_a_long_column_are_looked_up_one_by_one(index):
    """A long list of text and numbers together is no type error."""
    assert index.codes(["a", 7] * 1_500, 3_000).tolist() == [0, 30] * 1_500


@pytest.mark.parametrize(
    ("groups", "message"),
    [
        ("a", "groups is the text 'a'"),
        (5, "groups is a int; expected one group an item"),
        (["a"], "2 scores but 1 groups"),
        (np.array(["a"] * 3), "2 scores but 3 groups"),
    ],
    ids=str,
)
def test_groups_that_do_not_fit_are_refused(index, groups, message):
    """One text, a number, or too few or many groups are refused."""
    with pytest.raises(eo.SettingsError, match=message):
        index.codes(groups, 2)


def test_crossed_groups_need_a_tuple_of_columns():
    """A model with two group columns says that it wants a tuple of two."""
    index = GroupIndex([("f", "1")], ["sex", "age"])
    for wrong in (["f"], (["f"],), (["f"], [1], [1])):
        with pytest.raises(eo.SettingsError, match=r"groups by sex × age; expected a tuple of 2 columns"):
            index.codes(wrong, 1)


def test_an_unknown_group_is_named_with_its_place(index):
    """check_known names the first unknown value, how many there are, where, and what is known."""
    groups = ["a", "b", "zzz", None]
    with pytest.raises(
        eo.UnknownGroupError, match=r"unknown group 'zzz' for 2 of 4 items, first at 2; known: a, b, ß, 7"
    ):
        index.check_known(index.codes(groups, 4), groups)
    index.check_known(index.codes(["a"], 1), ["a"])
