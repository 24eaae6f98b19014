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
from evenodds.errors import EvenoddsError, LogError, MissingExtraError
from evenodds.grid import Grid
from evenodds.log import Log

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


def _cores(session: Any) -> int:
    """Return how many tasks run at a time, which sets how wide partial tallies are merged."""
    try:
        return int(session.sparkContext.defaultParallelism)
    except Exception:  # noqa: BLE001  (Connect has no context, and says so by an error of its own)
        return _UNKNOWN_CORES


@contextmanager
def arrow_batches(session: Any, rows: int = _BATCH_ROWS) -> Iterator[None]:
    """Let Spark send larger batches to Python for as long as a job runs."""
    wanted = {"spark.sql.execution.arrow.maxRecordsPerBatch": str(rows)}
    known = {name: session.conf.get(name) for name in wanted}
    for name, value in wanted.items():
        session.conf.set(name, value)
    try:
        yield
    finally:
        for name, value in known.items():
            session.conf.set(name, value)


@contextmanager
def one_line_errors() -> Iterator[None]:
    """Say in one line what Spark says in a hundred."""
    from pyspark.errors import PySparkException

    try:
        yield
    except EvenoddsError:
        raise
    except PySparkException as error:
        raise said_by(str(error)) from None
    except Exception as error:
        if type(error).__module__.startswith("py4j."):
            raise said_by(str(error)) from None
        raise


def said_by(text: str) -> EvenoddsError:
    r"""Turn the text of a Spark exception into an error of one line: ours, where a task raised one.

    >>> said_by("Job aborted\n  Traceback ...\nevenodds.errors.LogError: null in column 'score'\n").message
    "null in column 'score'"
    """
    import evenodds.errors as known

    lines = [line.strip() for line in text.splitlines() if line.strip()]
    for line in lines:
        name, _, said = line.removeprefix("evenodds.errors.").partition(": ")
        kind = getattr(known, name, None) if line.startswith("evenodds.errors.") else None
        if isinstance(kind, type) and issubclass(kind, EvenoddsError):
            message, _, hint = said.removesuffix(")").partition(" (hint: ")
            hinted = hint or None
            return LogError([message], hint=hinted) if kind is LogError else kind(message, hint=hinted)
        if line.endswith("No module named 'evenodds'"):
            return MissingExtraError(
                "evenodds is not installed on Spark's executors",
                hint="install it there, or send an archive: spark.archives, or spark-submit --py-files",
            )
    causes = [line for line in lines if line.startswith(("Caused by: ", "[", "org.apache.spark"))]
    first = (causes or lines or ["Spark stopped without a word"])[0].removeprefix("Caused by: ")
    return LogError([f"Spark could not read the log: {first[:300]}"])
