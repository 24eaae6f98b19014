"""What only Spark can show of an SQL script."""

import numpy as np
import pandas as pd
import pytest

from evenodds.export.dialect import SPARK
from evenodds.export.keyed_sql import LONGEST, add_draw, powers
from evenodds.export.query import Query
from evenodds.keys import key_words, uniforms
from fitted_models import Items, fitted
from other_stacks import in_spark, spark_session

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("spark")]


def test_any_key_draws_as_in_python():
    """Text of any script and size, whole numbers of any width, booleans, and columns of them together."""
    spark = spark_session()
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


def test_missing_keys_and_unknown_groups():
    """A key that is NULL gives NULL; an unknown group stops the query where the model says so."""
    model = fitted("odds, movement")
    items = Items(model, size=300)
    want = items.fair(model)
    items.keys[3] = None
    found = in_spark(model, items)
    assert np.isnan(found[3])
    np.testing.assert_array_equal(np.delete(found, 3), np.delete(want, 3))
    strict = fitted("opportunity, error")
    items = Items(strict, size=300)
    items.columns[0][5] = "nobody"
    with pytest.raises(Exception, match="unknown group nobody"):
        in_spark(strict, items)


def test_without_the_ansi_mode():
    """Spark gives the same under its older rules of arithmetic."""
    spark = spark_session()
    spark.conf.set("spark.sql.ansi.enabled", "false")
    try:
        model = fitted("odds, kept order")
        items = Items(model, size=300)
        np.testing.assert_array_equal(in_spark(model, items), items.fair(model))
    finally:
        spark.conf.unset("spark.sql.ansi.enabled")
