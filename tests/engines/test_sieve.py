"""Rows are refused for the reasons for which the counting function refuses them, and for no other."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, strategies as st

from evenodds.engines.arrow import Counter
from evenodds.engines.sieve import REASON, reasons, sieved
from evenodds.errors import LogError
from evenodds.grid import Grid
from evenodds.log import Roles

ROLES = Roles(
    score="score", group=("group",), label="label", position="position", query="query", weight="weight"
)
GRID = Grid(np.array([0.5]), np.empty(0, np.int64))
ROW = st.fixed_dictionaries(
    {
        "score": st.sampled_from([0.1, 0.9, float("nan"), float("inf"), None]),
        "group": st.sampled_from(["a", "b", "", None]),
        "label": st.sampled_from([0.0, 1.0, 2.0, 0.5, None]),
        "position": st.sampled_from([1.0, 7.0, 900.0, 1.5, -1.0, None]),
        "query": st.sampled_from(["q1", "q2", None]),
        "weight": st.sampled_from([1.0, 2.5, -1.0, float("inf"), None]),
    }
)
KINDS = {name: pa.float64() for name in ("score", "label", "position", "weight")} | {
    "group": pa.string(),
    "query": pa.string(),
}


def batch_of(rows):
    return pa.RecordBatch.from_arrays(
        [pa.array([row[name] for row in rows], kind) for name, kind in KINDS.items()], names=list(KINDS)
    )


def refused(batch):
    """Return what the counting function says about a batch."""
    counter = Counter(ROLES, GRID, 100)
    counter.add(batch)
    try:
        counter.finish()
    except LogError as error:
        return error.message
    return None


@given(st.lists(ROW, min_size=1, max_size=12))
def test_a_row_is_refused_if_and_only_if_the_count_refuses_it(rows):
    """Alone, each refused row fails the count for its reason; the others together pass it."""
    batch = batch_of(rows)
    found = reasons(batch, ROLES, 100)
    for place, why in enumerate(found):
        said = refused(batch.slice(place, 1))
        assert (why is None) == (said is None)
        if why is not None:
            assert why in said
    good, bad = sieved(batch, ROLES, 100)
    assert bad[REASON].to_pylist() == [why for why in found if why is not None]
    assert good.num_rows + bad.num_rows == len(rows)
    assert good.num_rows == 0 or refused(good) is None


def test_other_columns_stay_with_refused_rows():
    """What is set aside is the whole row, also columns that counting does not read."""
    batch = batch_of([{"score": None, "group": "a", "label": 1, "position": 1, "query": "q", "weight": 1}])
    batch = batch.append_column("note", pa.array(["kept"]))
    assert sieved(batch, ROLES, 100)[1].to_pylist()[0]["note"] == "kept"


@pytest.mark.parametrize("first", [None, 1])
def test_the_first_position_is_minded(first):
    """Where positions start at 1, a 0 is refused."""
    batch = batch_of([{"score": 0.1, "group": "a", "label": 1, "position": 0, "query": "q", "weight": 1}])
    assert (reasons(batch, ROLES, 100, first) == [None]) == (first is None)
