"""Rows as they come, by Spark Structured Streaming: late labels, batches to count.

Spark decides which rows make a batch and writes that down before it hands the batch over; after a crash
it hands the same rows over under the same number. What is done once per number is done once per row.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from evenodds.engines.arrow import Counted
from evenodds.engines.partial import Plan
from evenodds.engines.sieve import REASON, reasons
from evenodds.engines.spark import arrow_batches, count_frame
from evenodds.engines.spark_wire import Wire
from evenodds.engines.streaming_source import CORRUPT
from evenodds.errors import EvenoddsError, LogError
from evenodds.spark_frame import SparkFrame, one_line_errors, quoted

if TYPE_CHECKING:
    import pyarrow as pa

Floats = npt.NDArray[np.float64]

NO_TIME = "no time, or one in the future"
EVENT_TIME = "_event_time"


@dataclass(frozen=True)
class Late:
    """How labels that come later find their impressions.

    Attributes
    ----------
    key
        The column that both streams have: the impression's id.
    time, label_time
        When the item was shown, and when the label came.
    label
        The label's column in the stream of labels.
    wait
        How long a label may take, as Spark writes spans of time; without one by then the label is 0.
    watermark
        How late rows of either stream may arrive.
    """

    key: str
    time: str
    label_time: str
    label: str
    wait: str
    watermark: str


def timed(frame: Any, time: str) -> Any:
    """Add the rows' time; what has none, or one to come, gets the year 1970 and is refused later.

    A single date far ahead would otherwise end the wait for all labels, and fade every count.
    """
    known = f"cast({quoted(time)} as timestamp)"
    fits = f"{known} <= current_timestamp() + interval 1 day and {known} > timestamp '1971-01-01 00:00:00'"
    guarded = f"case when {fits} then {known} else timestamp '1970-01-01 00:00:00' end as {EVENT_TIME}"
    return frame.selectExpr("*", guarded)


def without_doubles(frame: Any, key: str, watermark: str) -> Any:
    """Keep the first of rows with one id that come within the watermark of each other."""
    return frame.withWatermark(EVENT_TIME, watermark).dropDuplicatesWithinWatermark([key])


def labelled(impressions: Any, labels: Any, late: Late) -> Any:
    """Join impressions with their labels: Spark's left outer join within the watermark.

    An impression goes on as soon as its label is there, or with the label 0 when none can come any more.
    """
    asked = f"cast({quoted(late.label_time)} as timestamp) as _label_time"
    found = labels.selectExpr(
        f"{quoted(late.key)} as _label_key", asked, f"{quoted(late.label)} as _late_label"
    )
    found = found.where("cast(_late_label as double) > 0").withWatermark("_label_time", late.watermark)
    found = found.dropDuplicatesWithinWatermark(["_label_key"])
    shown = impressions.withWatermark(EVENT_TIME, late.watermark)
    within = (
        f"{quoted(late.key)} = _label_key and _label_time >= {EVENT_TIME} - interval {late.watermark} "
        f"and _label_time <= {EVENT_TIME} + interval {late.wait}"
    )
    from pyspark.sql import functions as sql

    joined = shown.join(found, sql.expr(within), "leftOuter")
    kept = [quoted(name) for name in impressions.columns if name != late.label]
    return joined.selectExpr(*kept, f"coalesce(cast(_late_label as int), 0) as {quoted(late.label)}")


def arrow_schema(frame: Any) -> pa.Schema:
    """Return the columns that batches will have, as Arrow names their types."""
    from pyspark.sql.pandas.types import to_arrow_schema

    return to_arrow_schema(frame.schema, timezone="UTC")


class Rows:
    """The rows of one batch.

    Parameters
    ----------
    frame, number
        As Spark hands them over.
    time
        The column with the rows' own time, if there is one.
    dirty
        Whether the batch before held rows that could not be counted: then rows are looked at one by one
        at once, instead of after the count has failed.
    wire
        How columns travel to Python.
    """

    def __init__(self, frame: Any, number: int, *, time: str | None, dirty: bool, wire: Wire | None) -> None:
        self.number = number
        self.dirty = dirty
        self._frame, self._time, self._wire = frame, time, wire
        self._judged: Any = None
        self._latest: float | None = None
        self._bad_times = 0
        if time is not None:
            self._look_at_times()

    def _look_at_times(self) -> None:
        missing = f"{EVENT_TIME} < timestamp '1971-01-01 00:00:00'"
        with one_line_errors():
            found = self._frame.selectExpr(
                f"max(cast({EVENT_TIME} as double)) as latest", f"count_if({missing}) as missing"
            ).collect()[0]
        self._bad_times = int(found["missing"])
        self._latest = None if found["latest"] is None else float(found["latest"])

    @property
    def latest(self) -> float | None:
        """The latest time of a row, in seconds since 1970."""
        return self._latest if self._latest and self._latest > 0 else None

    def scores(self, column: str, content: list[str]) -> Floats:
        """Return a sample of scores, the same every time."""
        with one_line_errors():
            found = SparkFrame(self._frame).sample(column, content)
        return found[np.isfinite(found)]

    def count(self, plan: Plan) -> tuple[Counted | None, int, dict[str, int]]:
        """Count what can be counted; return the counts, how many rows there were, and refused ones by reason."""
        if not self.dirty and not self._bad_times:
            try:
                counted = count_frame(self._frame, plan, self._wire)
            except LogError as error:
                if error.problems == ("the log is empty: no rows",):
                    return None, 0, {}
                found = self._sieved(plan)
                if not found[2]:  # something else was wrong
                    raise
                return found
            return counted, counted.rows, {}
        return self._sieved(plan)

    def _sieved(self, plan: Plan) -> tuple[Counted | None, int, dict[str, int]]:
        """Look at rows one by one."""
        session = self._frame.sparkSession
        schema = ", ".join(f"{quoted(f.name)} {f.dataType.simpleString()}" for f in self._frame.schema.fields)
        judge = _judge(plan, timed=self._time is not None)
        with arrow_batches(session), one_line_errors():
            self._judged = self._frame.mapInArrow(judge, f"{schema}, {REASON} string").persist()
            by_reason = {row[0]: int(row[1]) for row in self._judged.groupBy(REASON).count().collect()}
        seen, good = sum(by_reason.values()), by_reason.pop(None, 0)
        self.dirty = bool(by_reason)
        counted = None
        if good:
            counted = count_frame(self._judged.where(f"{REASON} is null").drop(REASON), plan, self._wire)
        return counted, seen, dict(sorted(by_reason.items()))

    def set_aside(self, folder: Path) -> None:
        """Write the refused rows as JSON, with their reasons; what an earlier try has written is replaced."""
        if self._judged is not None:
            hidden = [EVENT_TIME] if self._time is not None else []
            refused = self._judged.where(f"{REASON} is not null").drop(*hidden)
            with one_line_errors():
                refused.coalesce(1).write.mode("overwrite").json(str(folder.absolute()))

    def done(self) -> None:
        """Let go of what was held."""
        if self._judged is not None:
            self._judged.unpersist()


def _judge(plan: Plan, *, timed: bool) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Return the function that gives each row the reason why it cannot be counted, or null."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        for batch in batches:
            found = reasons(batch, plan.roles, plan.depth, plan.first_position)
            if timed:
                since = batch.column(EVENT_TIME).cast(pa.timestamp("us", "UTC")).cast(pa.int64())
                for place in np.flatnonzero(since.to_numpy(zero_copy_only=False) == 0).tolist():
                    found[place] = found[place] or NO_TIME
            if CORRUPT in batch.schema.names:
                known = batch.column(CORRUPT)
                for place, why in enumerate(found):
                    if why is not None and known[place].is_valid:
                        found[place] = "unreadable record"
            yield pa.RecordBatch.from_arrays(
                [*batch.columns, pa.array(found, pa.string())], names=[*batch.schema.names, REASON]
            )

    return run


class Running:
    """A streaming query that hands its batches over.

    Parameters
    ----------
    frame
        The stream.
    take
        Is called with each batch; what it raises ends the query.
    checkpoint
        Where Spark keeps which rows were handed over.
    trigger
        How often to look for rows; None takes what is there and ends.
    """

    def __init__(
        self, frame: Any, take: Callable[[Any, int], None], checkpoint: str, trigger: str | None
    ) -> None:
        self._take = take
        self._ready, self._busy, self._asked = threading.Event(), threading.Lock(), False
        self._error: BaseException | None = None
        self._told = -1
        # What a batch raises is told by `go`, in one line; Py4J would print it twice more, with its stack.
        logging.getLogger("py4j").setLevel(logging.CRITICAL + 1)
        writer = frame.writeStream.foreachBatch(self._batch).option("checkpointLocation", checkpoint)
        writer = (
            writer.trigger(availableNow=True) if trigger is None else writer.trigger(processingTime=trigger)
        )
        with one_line_errors():
            self.query = writer.start()

    @property
    def name(self) -> str:
        """The stream's name for itself, as long as its checkpoint lives."""
        return str(self.query.id)

    def go(self) -> None:
        """Let batches through, and wait until the stream ends, fails, or is asked to end."""
        self._ready.set()
        try:
            with one_line_errors():
                while not self.query.awaitTermination(1) and not self._asked:
                    pass
        except EvenoddsError:
            if self._error is not None:
                raise self._error from None
            raise

    def ask_to_end(self) -> None:
        """Let `go` return within a second; safe in a signal's handler, where Java must not be called."""
        self._asked = True

    def stop(self) -> None:
        """End the query after the batch that is at work; the next one is handed over next time."""
        self._asked = True
        self._ready.set()
        with self._busy:
            self.query.stop()

    def late(self) -> int:
        """Return how many rows were dropped since the last call because they came after the watermark."""
        dropped = 0
        for progress in self.query.recentProgress:
            if int(progress["batchId"]) > self._told:
                self._told = int(progress["batchId"])
                dropped += sum(int(one["numRowsDroppedByWatermark"]) for one in progress["stateOperators"])
        return dropped

    def _batch(self, frame: Any, number: int) -> None:
        self._ready.wait()
        with self._busy:
            if self._asked:
                raise RuntimeError("the stream is ending")
            try:
                self._take(frame, int(number))
            except BaseException as error:
                self._error = error
                raise
