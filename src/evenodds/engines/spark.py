"""Count a log where Spark has it: the counting function inside `mapInArrow`, merged on the executors.

Each task counts its partition into a partial tally (see :mod:`evenodds.engines.partial`): a few compressed
rows. Rows of one group meet in one place, by two shuffles of these rows, and what reaches the driver is
one row a group: no more than a tally, however many tasks there were. Counts are in no accumulator, so
that a task that runs twice, after a failure or by speculation, is counted once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from math import isqrt
from typing import TYPE_CHECKING, Any

from evenodds.engines.arrow import Counted
from evenodds.engines.partial import (
    MISFIT,
    Part,
    Plan,
    counted_part,
    from_batches,
    gathered,
    merged_parts,
    to_batch,
)
from evenodds.engines.spark_wire import MisfitError, Wire, wire_for
from evenodds.errors import LogError
from evenodds.grid import Grid
from evenodds.log import Log
from evenodds.spark_frame import one_line_errors, quoted

if TYPE_CHECKING:
    import pyarrow as pa

_SCHEMA = "part int, name string, facts string, body binary"
_BATCH_ROWS = 1 << 18  # a batch on its way to Python; ten thousand, Spark's own, makes it three times as slow
_FEW_TASKS = 8  # so few partial tallies are merged in one step
_UNKNOWN_CORES = 16  # Connect does not tell how many there are


def count(log: Log, grid: Grid, depth: int, progress: Callable[[int], None] | None = None) -> Counted:
    """Count every row of a log that Spark holds."""
    frame = log.spark_frame
    if frame is None:
        raise LogError(["this log is not a Spark DataFrame"])
    plan = Plan(log.roles, grid, depth, log.first_position)
    counted = count_frame(frame.frame, plan, wire_for(frame, plan.roles))
    if progress is not None:
        progress(counted.rows)
    return counted


def count_frame(frame: Any, plan: Plan, wire: Wire | None = None) -> Counted:
    """Count the rows of a DataFrame: narrow columns to Python first, as they are if a row does not fit."""
    wire = wire or Wire.plain(plan.roles)
    parts = collected(frame, plan, wire)
    if any(part.facts == MISFIT for part in parts):
        parts = collected(frame, plan, Wire.plain(plan.roles))
    return gathered(parts, plan)


def collected(frame: Any, plan: Plan, wire: Wire) -> list[Part]:
    """Run the job: one row for each group, and one of facts."""
    session = frame.sparkSession
    cores = _cores(session)
    with arrow_batches(session), one_line_errors():
        counted = frame.selectExpr(*wire.expressions).mapInArrow(_counter(plan, wire), _SCHEMA)
        if cores > _FEW_TASKS:
            met = counted.selectExpr("*", f"part % {cores} as bucket")
            counted = (
                met.repartition(cores, "name", "bucket").drop("bucket").mapInArrow(_merger(plan), _SCHEMA)
            )
        merged = counted.repartition(max(1, isqrt(cores) // 2), "name").mapInArrow(_merger(plan), _SCHEMA)
        return list(from_batches(merged.toArrow().to_batches()))


def _counter(plan: Plan, wire: Wire) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        task = TaskContext.get()
        part = 0 if task is None else task.partitionId()
        try:
            yield to_batch(counted_part(wire.unpacked(batches), plan, part))
        except MisfitError:
            yield to_batch([Part(part, None, MISFIT, b"")])

    return run


def _merger(plan: Plan) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield to_batch(merged_parts(from_batches(batches), plan))

    return run


def with_numbers(frame: Any, name: str, function: Callable[[pa.RecordBatch], Any], columns: list[str]) -> Any:
    """Add a column of numbers that a function makes of batches of some columns."""
    from pyspark.sql.functions import arrow_udf  # type: ignore[attr-defined]  # hidden by its own stub

    def run(*arrays: pa.Array) -> pa.Array:
        import pyarrow as pa

        return pa.array(function(pa.RecordBatch.from_arrays(list(arrays), names=columns)), pa.float64())

    run.__annotations__ = {}  # Spark would look the names up, which exist for the type checker only
    return frame.withColumn(name, arrow_udf(run, "double")(*map(quoted, columns)))


def aggregated(frame: Any, by: list[str], expressions: list[str]) -> Any:
    """Aggregate by SQL expressions, each with a name."""
    from pyspark.sql.functions import expr

    return frame.groupBy(*map(expr, by)).agg(*map(expr, expressions))


def first_row(frame: Any) -> dict[str, Any]:
    """Return the first row of a small DataFrame."""
    with one_line_errors():
        return dict(frame.first().asDict())


def written(frame: Any, kind: str, path: str, *, overwrite: bool = False) -> int:
    """Write a DataFrame and return how many rows it had."""
    from pyspark.sql import Observation
    from pyspark.sql.functions import count, lit

    seen = Observation("evenodds")
    with one_line_errors():
        writer = frame.observe(seen, count(lit(1)).alias("rows")).write.format(kind)
        if kind == "csv":
            writer = writer.option("header", "true")
        writer.mode("overwrite" if overwrite else "errorifexists").save(path)
        return int(seen.get["rows"])


def _cores(session: Any) -> int:
    """Return how many tasks run at a time, which sets how wide partial tallies are merged."""
    try:
        return int(session.sparkContext.defaultParallelism)
    except Exception:  # noqa: BLE001  (Connect has no context, and says so by an error of its own)
        return min(_UNKNOWN_CORES, int(session.conf.get("spark.sql.shuffle.partitions")))


@contextmanager
def arrow_batches(session: Any, rows: int = _BATCH_ROWS) -> Iterator[None]:
    """Let Spark send larger batches to Python for as long as a job runs."""
    wanted = {
        "spark.sql.execution.arrow.maxRecordsPerBatch": str(rows),
        # With any bound but the largest, Spark adds a batch's bytes up after every row: half of all its work.
        "spark.sql.execution.arrow.maxBytesPerBatch": str(2**31 - 1),
    }
    known = {name: session.conf.get(name) for name in wanted}
    for name, value in wanted.items():
        session.conf.set(name, value)
    try:
        yield
    finally:
        for name, value in known.items():
            session.conf.set(name, value)
