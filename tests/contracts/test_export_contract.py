"""What every export must do, run where it is meant to run. A new one joins with a runner in STACKS."""

import numpy as np
import pytest

from evenodds.export.onnx import onnx_bytes
from evenodds.export.sql import sql_text
from evenodds.export.vectors import golden_vectors
from fitted_models import NAMES, Items, fitted
from other_stacks import in_duckdb, in_spark, onnx

STACKS = {"onnx": onnx, "duckdb": in_duckdb, "spark": in_spark}
# A script takes Spark seconds: there one model of each kind.
ON_SPARK = [
    "opportunity, plain",
    "opportunity, half way, keep",
    "opportunity, ties, cubic, unit",
    "opportunity, awkward",
    "odds, movement",
    "odds, frontier",
    "odds, kept order",
    "odds, kept order, uniform",
    "odds, ties",
    "odds, awkward",
]
WRITERS = {
    "onnx": onnx_bytes,
    "duckdb": sql_text,
    "spark": lambda model: sql_text(model, dialect="spark", keys=["query", "item"]),
    "vectors": golden_vectors,
}


def on_each(names, on_spark):
    """Return every stack with its models."""
    return [
        pytest.param(
            stack, name, marks=[pytest.mark.spark] if stack == "spark" else [], id=f"{stack}: {name}"
        )
        for stack in STACKS
        for name in (on_spark if stack == "spark" else names)
    ]


@pytest.fixture
def run(request):
    """Run an export where it is meant to run; Spark is started for those that need it."""

    def call(stack, model, items):
        if stack == "spark":
            request.getfixturevalue("spark")
        return STACKS[stack](model, items)

    return call


@pytest.mark.parametrize(("stack", "name"), on_each(NAMES, ON_SPARK))
def test_the_fair_scores_of_transform(run, stack, name):
    """The same numbers, to the bit: at, beside and beyond the ends of cells, ties, unknown and missing groups."""
    model = fitted(name)
    items = Items(model, size=600 if stack == "spark" else 2_000)
    np.testing.assert_array_equal(run(stack, model, items), items.fair(model))


@pytest.mark.parametrize(
    ("stack", "name"),
    on_each(["opportunity, plain", "opportunity, ties", "odds, movement"], ["odds, movement"]),
)
def test_what_transform_refuses_has_no_fair_score(run, stack, name):
    """A score that is not finite has none, and touches no other item."""
    model = fitted(name)
    items = Items(model, size=600)
    want = items.fair(model)
    items.scores[:3] = np.nan, np.inf, -np.inf
    found = run(stack, model, items)
    assert np.isnan(found[:3]).all()
    np.testing.assert_array_equal(found[3:], want[3:])


@pytest.mark.parametrize("name", ["opportunity, plain", "odds, movement"])
@pytest.mark.parametrize("writer", WRITERS)
def test_the_same_model_gives_the_same_bytes(writer, name):
    """Exports repeat byte for byte."""
    assert WRITERS[writer](fitted(name)) == WRITERS[writer](fitted(name))
