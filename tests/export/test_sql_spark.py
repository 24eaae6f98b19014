"""SQL scripts give the fair scores of `transform`, to the bit, in Spark."""

import numpy as np
import pandas as pd
import pytest

from evenodds.export.dialect import SPARK
from evenodds.export.keyed_sql import LONGEST, add_draw, powers
from evenodds.export.query import Query
from evenodds.export.sql import sql_text
from evenodds.keys import key_words, uniforms
from fitted_models import Items, fitted

pytestmark = pytest.mark.spark

NAMES = [
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


@pytest.fixture(scope="module")
def spark():
    """Start Spark on one core."""
    from pyspark.sql import SparkSession

    session = (
        SparkSession.builder.master("local[1]")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "1")
        .config("spark.sql.session.timeZone", "UTC")
        .getOrCreate()
    )
    yield session
    session.stop()


def run(spark, script):
    """Run a script one statement at a time, as `spark-sql -f` does."""
    for statement in script.split(";\n"):
        if statement:
            spark.sql(statement)


def scored(spark, model, items, **names):
    """Return the fair scores of the view that the script makes, in the order of the items."""
    columns = {f"g{place}": pd.Series(column, dtype=object) for place, column in enumerate(items.columns)}
    frame = pd.DataFrame(
        {
            "row": np.arange(items.scores.size),
            "score": items.scores,
            "text": items.keys,
            "whole": items.numbers,
            **columns,
        }
    )
    spark.createDataFrame(frame).createOrReplaceTempView("items")
    groups = [f"g{place}" for place in range(len(items.columns))]
    run(spark, sql_text(model, dialect="spark", table="items", group=groups, keys=["text", "whole"], **names))
    view = spark.table("items_fair_score")
    assert view.columns == [*frame.columns, "fair_score"]
    found = view.toPandas().sort_values("row")
    assert found["row"].tolist() == frame["row"].tolist()
    return found["fair_score"].to_numpy()


@pytest.mark.parametrize("name", NAMES)
def test_the_same_fair_scores(spark, name):
    """Models of both criteria give the same numbers, to the bit, and every row of the table is there once."""
    model = fitted(name)
    items = Items(model, size=600)
    np.testing.assert_array_equal(scored(spark, model, items), items.fair(model))


def test_any_key_draws_as_in_python(spark):
    """Text of any script and size, whole numbers of any width, and both together."""
    texts = [
        "",
        "a",
        "ß",
        "中文",
        "😀!",
        "two\r\nlines",
        "tab\t",
        "nul\0l",
        "x" * LONGEST,
        "é" * (LONGEST // 2),
    ]
    numbers = np.array([0, 1, -1, 2**31, -(2**31), 2**32, 2**63 - 1, -(2**63), 7, -7])
    frame = pd.DataFrame(
        {"row": range(10), "text": texts, "whole": numbers, "narrow": numbers.astype(np.int8)}
    )
    frame["flag"] = frame["row"] % 2 == 0
    spark.createDataFrame(frame).createOrReplaceTempView("keys")
    spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW powers AS {powers(SPARK)}")
    for names in (["text"], ["whole"], ["narrow"], ["flag"], ["text", "whole"], ["whole", "text", "narrow"]):
        query = Query({"row": "row"} | {f"_{name}": name for name in names}, "keys")
        add_draw(query, SPARK, [f"_{name}" for name in names], "powers", 99)
        found = spark.sql(query.text).toPandas().sort_values("row")["_draw"].tolist()
        columns = tuple(frame[name].tolist() if name == "text" else frame[name].to_numpy() for name in names)
        assert found == uniforms(key_words(columns), 99).tolist(), names


def test_what_has_no_fair_score(spark):
    """Scores that are not finite, and keys that are NULL, give NULL; unknown groups stop a query if told to."""
    model = fitted("odds, movement")
    items = Items(model, size=600)
    want = items.fair(model)
    items.scores[:3] = np.nan, np.inf, -np.inf
    items.keys[3] = None
    found = scored(spark, model, items)
    assert np.isnan(found[:4]).all()
    np.testing.assert_array_equal(found[4:], want[4:])
    strict = fitted("opportunity, error")
    items = Items(strict, size=600)
    items.columns[0][5] = "nobody"
    with pytest.raises(Exception, match="unknown group nobody"):
        scored(spark, strict, items)
