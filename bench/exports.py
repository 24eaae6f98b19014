"""Exports: how large, and how fast in onnxruntime, DuckDB and Spark: `make bench-exports`.

Each row is divided by `transform` of the same items in the same run, round after round; every row of SQL is
also compared with it. `--spark` adds Spark, whose start and first query take about a minute.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

import evenodds as eo
from evenodds.export import to_onnx, uniform_draws
from evenodds.export.sql import sql_text
from run import four_groups, microseconds, seconds

Floats = npt.NDArray[np.float64]
ROWS = 1_000_000
CORES = os.cpu_count() or 1


def models() -> dict[str, eo.Reranker]:
    """Return a model of each criterion, of four groups and 10,000 points."""
    rng = np.random.default_rng(0)
    return {
        "opportunity": four_groups(1, rng)[2],
        "odds": four_groups(1, rng, eo.EqualizedOdds())[2],
    }


def items(rows: int) -> dict[str, Any]:
    """Return items with text and whole-number keys."""
    rng = np.random.default_rng(1)
    names = np.array(["women", "men", "other", "unsaid", "unseen"])
    return {
        "row": np.arange(rows),
        "score": rng.normal(0.5, 1.0, rows),
        "name": names[rng.integers(0, 5, rows)],
        "viewer": np.array([f"viewer{place % 10_007}" for place in range(rows)]),
        "item": np.arange(rows) * 7_919,
    }


def row(what: str, ratio: float, note: str) -> None:
    """Print a row of the table."""
    print(f"{what:<58} {ratio:>7.2f}  {note}", flush=True)


def onnx(name: str, model: eo.Reranker, folder: Path) -> None:
    """Time a request of 100 candidates, and a batch."""
    import onnxruntime

    path = folder / f"{name}.onnx"
    to_onnx(model, path)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    started = time.perf_counter()
    session = onnxruntime.InferenceSession(path, options)
    opened = time.perf_counter() - started
    known = {group[0]: code for code, group in enumerate(model.groups_)}

    def given(table: dict[str, Any]) -> dict[str, Any]:
        codes = np.array([known.get(group, len(known)) for group in table["name"].tolist()])
        fed = {"scores": table["score"], "groups": codes}
        return fed | {"draws": uniform_draws(model, table["item"])} if model.draws_ else fed

    few, many = items(100), items(ROWS)
    fed, listed, all_fed = given(few), few["name"].tolist(), given(many)
    want = model.transform(many["score"], many["name"], keys=many["item"])
    if not np.array_equal(session.run(None, all_fed)[0], want):
        raise SystemExit(f"{name}: onnxruntime differs from transform")
    points = np.linspace(-4, 5, 10_001)
    interp = microseconds(lambda: np.interp(few["score"], points, points))
    taken = microseconds(lambda: session.run(None, fed))
    here = microseconds(lambda: model.transform(few["score"], listed, keys=few["item"]))
    size = path.stat().st_size / 1000
    row(
        f"{name}, ONNX, 100 candidates / np.interp of 100 points",
        taken / interp,
        f"{taken:.1f} / {interp:.1f} us",
    )
    row(
        f"{name}, ONNX, 100 candidates / transform",
        taken / here,
        f"{taken:.1f} / {here:.1f} us, {size:.0f} KB",
    )
    batch = seconds(lambda: session.run(None, all_fed), 5)
    here = seconds(lambda: model.transform(many["score"], many["name"], keys=many["item"]), 5)
    row(
        f"{name}, ONNX, a million items / transform",
        batch / here,
        f"{batch:.2f} / {here:.2f} s, opened in {opened:.2f} s",
    )


CALLS = {"whole-number keys": ["item"], "text and whole-number keys": ["viewer", "item"]}


def each_call(model: eo.Reranker, table: dict[str, Any]) -> list[tuple[str, list[str], Callable[[], Floats]]]:
    """Return what is timed: a title, the key columns, and the same by transform."""
    scores, names = table["score"], table["name"]
    if not model.draws_:
        return [("no keys", [], lambda: model.transform(scores, names))]
    keys = {"viewer": table["viewer"].tolist(), "item": table["item"]}
    return [
        (title, columns, partial(model.transform, scores, names, tuple(keys[column] for column in columns)))
        for title, columns in CALLS.items()
    ]


def duckdb(name: str, model: eo.Reranker, table: dict[str, Any]) -> None:
    """Time the macro over a table of a million rows."""
    import duckdb as db

    con = db.connect()
    con.register("given", pa.table(table))
    con.execute("CREATE TABLE items AS FROM given")
    script = sql_text(model)
    started = time.perf_counter()
    con.execute(script)
    made = time.perf_counter() - started
    for title, columns, transform in each_call(model, table):
        arguments = ", ".join(["score", "name", *columns])
        con.execute(f"CREATE OR REPLACE VIEW fair AS SELECT row, fair_score({arguments}) AS fair FROM items")
        found = con.execute("SELECT fair FROM fair ORDER BY row").fetchnumpy()["fair"]
        if not np.array_equal(found, transform()):
            raise SystemExit(f"{name}: DuckDB differs from transform")
        taken = seconds(lambda: con.execute("SELECT sum(fair) FROM fair").fetchall(), 5)
        here = seconds(transform, 5)
        note = f"{ROWS / taken / 1e6:.2f} million rows/s, {CORES} threads; {len(script) / 1000:.0f} KB, {made:.2f} s"
        row(f"{name}, DuckDB, {title} / transform", taken / here, note)
    con.close()


def spark(known: dict[str, eo.Reranker], table: dict[str, Any], folder: Path) -> None:
    """Time the view over a cached table of a million rows, all of them aggregated."""
    from pyspark.sql import SparkSession

    pq.write_table(pa.table(table), folder / "items.parquet")
    session = (
        SparkSession.builder.master(f"local[{CORES}]")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.shuffle.partitions", str(CORES))
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("ERROR")
    session.read.parquet(str(folder / "items.parquet")).repartition(CORES).createOrReplaceTempView("items")
    session.sql("CACHE TABLE items")
    for name, model in known.items():
        for title, columns, transform in each_call(model, table):
            started = time.perf_counter()
            for statement in sql_text(
                model, dialect="spark", table="items", group=["name"], keys=columns
            ).split(";\n"):
                if statement:
                    session.sql(statement)
            made = time.perf_counter() - started
            view = session.table("items_fair_score")
            rows: Any = view.select("row", "fair_score").toPandas()
            found = rows.sort_values("row")["fair_score"].to_numpy()
            if not np.array_equal(found, transform()):
                raise SystemExit(f"{name}: Spark differs from transform")
            taken = seconds(lambda: session.sql("SELECT sum(fair_score) FROM items_fair_score").collect(), 5)
            here = seconds(transform, 5)
            note = f"{ROWS / taken / 1e6:.2f} million rows/s, local[{CORES}]; tables made in {made:.1f} s"
            row(f"{name}, Spark, {title} / transform", taken / here, note)
    session.stop()


def main() -> None:
    """Measure, print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--spark", action="store_true", help="also Spark (needs pyspark and Java)")
    options = parser.parse_args()
    known, table = models(), items(ROWS)
    print(f"{'what':<58} {'ratio':>7}")
    with tempfile.TemporaryDirectory() as folder:
        for name, model in known.items():
            onnx(name, model, Path(folder))
        for name, model in known.items():
            duckdb(name, model, table)
        if options.spark:
            spark(known, table, Path(folder))


if __name__ == "__main__":
    main()
