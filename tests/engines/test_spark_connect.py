"""Spark Connect: the same counts and scores through a server, in a process that has no Java of its own."""

import json
import os
import subprocess
import sys
import textwrap

import pyarrow.parquet as pq
import pytest

import evenodds as eo

pytestmark = pytest.mark.spark

# A server on this machine, and a client that knows its address only.
PROGRAM = """
    import json, sys
    from evenodds.engines.java import use_java
    use_java()
    from pyspark.sql import SparkSession
    settings = {"spark.ui.enabled": "false", "spark.sql.shuffle.partitions": "2"}
    session = SparkSession.builder.remote("local[2]").config(map=settings).getOrCreate()

    import evenodds as eo
    path, model = sys.argv[1:]
    frame = session.read.parquet(path)
    moved = frame.repartition(5)
    def problem():
        try:
            eo.tally(frame.selectExpr("score", "`group`", "7 as label"))
        except eo.LogError as error:
            return str(error)
    counted = [eo.tally(log, cells=200) for log in (frame, moved, frame.where("position > 0"))]
    expected = eo.tally(path, cells=200)
    fair = eo.apply(eo.load(model), moved).orderBy("query", "item").toArrow()
    print(json.dumps({
        "equal": [found.equals(expected) for found in counted],
        "sources": counted[1].sources,
        "fair": fair["fair_score"].to_pylist(),
        "places": fair["fair_position"].to_pylist(),
        "problem": problem(),
    }))
"""


def test_everything_works_through_a_server(simulated, tmp_path):
    """Tallies at any partitioning, fair scores and positions, and errors, through Spark Connect."""
    log = simulated.slice(0, 5_000)
    pq.write_table(log, tmp_path / "log.parquet")
    model = eo.EqualOpportunity(position_bias="none").fit(eo.tally(log, cells=200))
    model.save(tmp_path / "model.json")
    command = [sys.executable, "-c", textwrap.dedent(PROGRAM)]
    done = subprocess.run(
        [*command, str(tmp_path / "log.parquet"), str(tmp_path / "model.json")],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
        env={**os.environ, "PYSPARK_PYTHON": sys.executable},
    )
    assert done.returncode == 0, done.stderr[-3_000:]
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["equal"] == [True, True, True]
    assert found["sources"] == [str(tmp_path / "log.parquet")]
    local = eo.apply(model, log).sort_by([("query", "ascending"), ("item", "ascending")])
    assert found["fair"] == local["fair_score"].to_pylist()
    assert found["places"] == local["fair_position"].to_pylist()
    assert found["problem"].startswith(
        "label outside {0, 1} in column 'label' in 5000 rows (first: 7 at row 0 of"
    )
