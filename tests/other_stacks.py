"""Runs exports where they are meant to run: each takes a model and items, and returns fair scores, NaN for none."""

from contextlib import closing

import duckdb
import numpy as np
import onnxruntime
import pandas as pd
import pyarrow as pa

from evenodds.export import uniform_draws
from evenodds.export.onnx import onnx_bytes
from evenodds.export.sql import sql_text


def session(content, level=None):
    """Open an ONNX file on one thread."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    if level is not None:
        options.graph_optimization_level = level
    return onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])


def feed(model, items, keys=None):
    """Return the inputs of an ONNX file."""
    given = {"scores": items.scores, "groups": items.codes.astype(np.int64)}
    if model.draws_:
        given["draws"] = uniform_draws(model, items.both if keys is None else keys)
    return given


def onnx(model, items):
    """Run in onnxruntime."""
    return session(onnx_bytes(model)).run(None, feed(model, items))[0]


def database(model, items, **names):
    """Open a DuckDB database with the items, and the script run in it."""
    con = duckdb.connect(config={"threads": 1})
    columns = [pa.array(column) for column in items.columns]
    columns = [column.cast(pa.string()) if pa.types.is_null(column.type) else column for column in columns]
    given = {
        "row": np.arange(items.scores.size),
        "score": items.scores,
        "text": pa.array(items.keys),
        "whole": items.numbers,
        **{f"g{place}": column for place, column in enumerate(columns)},
    }
    con.register("given", pa.table(given))
    con.execute("CREATE TABLE items AS FROM given")
    con.execute(sql_text(model, **names))
    return con


def ask(con, model, keys="text, whole", name="fair_score", score="score"):
    """Return the fair scores that a database's macro gives."""
    groups = ", ".join(f"g{place}" for place in range(len(model.group_columns_)))
    call = f"{name}({', '.join([score, groups, *([keys] if model.draws_ else [])])})"
    rows = con.execute(f"SELECT {call} FROM items ORDER BY row").fetchall()
    return np.array([np.nan if value is None else value for (value,) in rows])


def in_duckdb(model, items):
    """Run in DuckDB."""
    with closing(database(model, items)) as con:
        return ask(con, model)


def spark_session():
    """Return the Spark that the fixture `spark` started."""
    from pyspark.sql import SparkSession

    return SparkSession.builder.getOrCreate()


def in_spark(model, items):
    """Run in Spark, one statement at a time, as `spark-sql -f` does."""
    spark = spark_session()
    groups = [f"g{place}" for place in range(len(items.columns))]
    frame = pd.DataFrame(
        {
            "row": np.arange(items.scores.size),
            "score": items.scores,
            "text": items.keys,
            "whole": items.numbers,
            **{
                name: pd.Series(column, dtype=object)
                for name, column in zip(groups, items.columns, strict=True)
            },
        }
    )
    spark.createDataFrame(frame).createOrReplaceTempView("items")
    script = sql_text(model, dialect="spark", table="items", group=groups, keys=["text", "whole"])
    for statement in script.split(";\n"):
        if statement:
            spark.sql(statement)
    view = spark.table("items_fair_score")
    assert view.columns == [*frame.columns, "fair_score"]
    found = view.toPandas().sort_values("row")
    assert found["row"].tolist() == frame["row"].tolist()
    return found["fair_score"].to_numpy()
