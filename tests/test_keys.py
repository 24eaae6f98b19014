"""Keyed draws: the documented hash, to the last bit, whatever the shape of the keys."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, strategies as st

import evenodds as eo
from evenodds.keys import fold_of, key_words, salt_of, seeded_words, uniforms
from oracles import hashing

GOLDEN = json.loads((Path(__file__).parent / "golden" / "keys.json").read_text(encoding="utf-8"))
texts = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=40)
wholes = st.integers(-(2**63), 2**63 - 1)
salts = st.integers(0, 2**64 - 1)


def as_key(value):
    return tuple(value) if isinstance(value, list) else value


@pytest.mark.parametrize("row", GOLDEN, ids=lambda row: repr(row["key"])[:40])
def test_golden_table(row):
    """A key's words, its uniform number and its fold are those of the committed table."""
    key = as_key(row["key"])
    columns = tuple([part] for part in key) if isinstance(key, tuple) else [key]
    words = key_words(columns)
    assert words[:, 0].tolist() == row["words"]
    assert uniforms(words, int(row["salt"], 16))[0].hex() == row["uniform"]
    assert fold_of(columns, 20).tolist() == [row["fold"]]


@pytest.mark.parametrize("row", GOLDEN, ids=lambda row: repr(row["key"])[:40])
def test_golden_table_is_what_the_description_gives(row):
    """The committed table is what plain whole-number arithmetic gives from the documented steps."""
    key, salt = as_key(row["key"]), int(row["salt"], 16)
    assert list(hashing.words(key)) == row["words"]
    assert hashing.uniform(key, salt).hex() == row["uniform"]
    assert hashing.fold(key) == row["fold"]


@given(st.lists(st.tuples(texts, wholes), min_size=1, max_size=8), salts)
def test_any_key_hashes_as_described(keys, salt):
    """Text, whole numbers and pairs of both hash as the description says, in any batch."""
    names, numbers = [name for name, _ in keys], [number for _, number in keys]
    for columns, single in ((names, names), (np.array(numbers), numbers), ((names, np.array(numbers)), keys)):
        assert uniforms(key_words(columns), salt).tolist() == [hashing.uniform(key, salt) for key in single]


@given(st.lists(texts, min_size=2, max_size=8))
def test_a_key_draws_the_same_alone_as_in_a_batch(keys):
    """A key's draw does not depend on what else is in the batch, nor on its order."""
    whole = uniforms(key_words(keys), 99)
    assert [uniforms(key_words([key]), 99)[0] for key in keys] == whole.tolist()
    assert uniforms(key_words(keys[::-1]), 99).tolist() == whole[::-1].tolist()


@pytest.mark.parametrize("width", [31, 32, 33, 5_000, 9_000])
def test_long_keys_count_to_their_last_letter(width):
    """Keys of any length hash as described, and differ when only their last letter does."""
    keys = ["k" * (width - 1) + letter for letter in "xy"]
    found = uniforms(key_words(keys), 5)
    assert found.tolist() == [hashing.uniform(key, 5) for key in keys]
    assert found[0] != found[1]


@pytest.mark.parametrize(
    "shape",
    [
        list,
        np.array,
        pd.Series,
        pa.array,
        lambda k: np.array(k, object),
        lambda k: np.array([t.encode() for t in k]),
    ],
    ids=["list", "NumPy", "pandas", "Arrow", "objects", "bytes"],
)
def test_text_keys_draw_alike_in_any_container(shape):
    """The same texts draw the same numbers as a list, an array, a series, or as bytes."""
    keys = ["anna", "béla", "", "job/7"]
    assert uniforms(key_words(shape(keys)), 1).tolist() == [hashing.uniform(key, 1) for key in keys]


@pytest.mark.parametrize("kind", ["int8", "int32", "uint16", "int64", "uint64"])
def test_whole_numbers_draw_alike_in_any_width(kind):
    """A whole number draws the same whatever type holds it."""
    assert (key_words(np.array([0, 7, 100], kind)) == key_words([0, 7, 100])).all()


@pytest.mark.parametrize(
    "keys",
    [[None], ["a", None], [1.5], ["a", 1.5], np.array([0.5]), [["a"]], (), (["a", "b"], [1])],
    ids=repr,
)
def test_keys_that_repeat_nothing_are_refused(keys):
    """Missing, fractional, nested or unequal keys are refused, wherever in the batch they stand."""
    with pytest.raises(eo.SettingsError, match="key"):
        key_words(keys)


def test_no_keys_are_no_words():
    """An empty batch has no words, whichever way it is empty."""
    assert key_words([]).shape == key_words(np.array([], dtype=object)).shape == (2, 0)


def test_uniforms_are_uniform():
    """Draws of a hundred thousand neighbouring keys are uniform, and those under two salts independent."""
    one, two = (np.sort(uniforms(key_words(np.arange(100_000)), salt)) for salt in (1, 2))
    even = (np.arange(100_000) + 0.5) / 100_000
    assert np.abs(one - even).max() < 2.7 / np.sqrt(100_000)  # Kolmogorov's bound, p < 1e-6
    assert np.abs(two - even).max() < 2.7 / np.sqrt(100_000)
    first, second = (uniforms(key_words([f"u{i}" for i in range(50_000)]), salt) for salt in (1, 2))
    assert abs(np.corrcoef(first, second)[0, 1]) < 5 / np.sqrt(50_000)


def test_columns_of_a_key_are_ordered():
    """(a, b) and (b, a) are different keys."""
    there = uniforms(key_words((["a"], ["b"])), 0)
    back = uniforms(key_words((["b"], ["a"])), 0)
    assert there[0] != back[0]


def test_folds_are_even():
    """Query ids spread evenly over folds: chi-square over 20 folds stays within its range."""
    counts = np.bincount(fold_of(np.arange(40_000), 20), minlength=20)
    assert ((counts - 2_000) ** 2 / 2_000).sum() < 51  # p = 0.0001 with 19 degrees of freedom


def test_seeded_words_continue_over_batches():
    """Row numbers under a seed are the same words in one batch or in several."""
    whole = seeded_words(100, seed=3)
    assert (np.hstack((seeded_words(40, 3), seeded_words(60, 3, first=40))) == whole).all()
    assert (seeded_words(100, seed=4) != whole).any()


def test_salt_is_the_head_of_a_digest():
    """The salt is the first 16 hexadecimal digits of SHA-256, so that other programs can check it."""
    assert salt_of(b"") == 0xE3B0C44298FC1C14
