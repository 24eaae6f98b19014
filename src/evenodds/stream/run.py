"""A streaming job from start to end: a source, a folder, and Spark between them."""

from __future__ import annotations

import fcntl
import os
import signal
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

from evenodds.errors import EvenoddsError, EvenoddsWarning, SettingsError
from evenodds.grid import Grid
from evenodds.log import Log
from evenodds.reranker import Reranker
from evenodds.stream.job import Counts, Floats, Job
from evenodds.stream.settings import StreamSettings, seconds
from evenodds.tally import from_counted

if TYPE_CHECKING:
    from evenodds.engines.streaming import Rows
    from evenodds.engines.streaming_source import Stream


@dataclass(frozen=True)
class Feed:
    """Where rows and labels come from, and which time they have.

    Attributes
    ----------
    source, labels
        The stream of impressions; that of labels, if they come by themselves.
    columns
        Column roles, as :class:`evenodds.Log` takes them.
    key
        The column with an impression's id: labels find their impressions by it.
    time, label_time
        Columns with the time of an impression, and of a label.
    wait, watermark
        How long a label may take; how late rows may arrive.
    no_doubles
        Whether to count impressions with the same id once.
    """

    source: Stream
    columns: dict[str, Any]
    labels: Stream | None = None
    key: str | None = None
    time: str | None = None
    label_time: str | None = None
    wait: str = "1 hour"
    watermark: str = "10 minutes"
    no_doubles: bool = False

    def __post_init__(self) -> None:
        """Refuse what does not go together."""
        for name in ("wait", "watermark"):
            seconds(getattr(self, name), name)
        if self.labels is not None and (self.key is None or self.time is None):
            raise SettingsError(
                "labels that come by themselves need the impression's id and the time of both",
                hint="--impression COLUMN --time COLUMN --label-time COLUMN",
            )
        if self.no_doubles and (self.key is None or self.time is None):
            raise SettingsError(
                "to count doubles once needs the id and the time", hint="--impression and --time"
            )


@dataclass(frozen=True)
class Master:
    """How to reach Spark."""

    master: str | None = None
    settings: dict[str, str] = field(default_factory=dict)
    checkpoint: str | None = None

    def defaults(self) -> dict[str, str]:
        """Return settings for one machine, where few tasks suffice for a join; a cluster has its own."""
        submitted = "PYSPARK_GATEWAY_PORT" in os.environ
        local = self.master is None or self.master.startswith("local")
        return {"spark.sql.shuffle.partitions": "4"} if local and not submitted else {}


def run(
    feed: Feed,
    folder: str | Path,
    settings: StreamSettings,
    unfitted: Callable[[], Reranker],
    *,
    spark: Master | None = None,
    grid: Grid | None = None,
    trigger: str | None = "10 seconds",
    say: Callable[[str], None] = lambda _line: None,
) -> Job:
    """Keep the counts in a folder current from a stream, until it is stopped.

    Parameters
    ----------
    feed, folder, settings, unfitted
        What comes in, where it goes, what the job is told, and what makes a model.
    spark
        How to reach Spark.
    grid
        Score cells to count in.
    trigger
        How often to look for rows; None takes those that are there, and ends.
    say
        Is told what happens.
    """
    from evenodds.engines.spark_session import spark_session
    from evenodds.engines.streaming import Running

    known = spark or Master()
    place = Path(folder)
    if trigger is not None:
        seconds(trigger, "trigger")
    place.mkdir(parents=True, exist_ok=True)
    with _alone(place):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what PySpark itself says while it starts
            session = spark_session(known.master, {**known.defaults(), **known.settings})
        if ".connect." in type(session).__module__:
            raise SettingsError(
                "a stream keeps its counts beside the driver, which Spark Connect has elsewhere",
                hint="run it by spark-submit, or with --master",
            )
        session.conf.set("spark.sql.session.timeZone", "UTC")
        frame, log = _frame(session, feed, place)
        taking = _Taking(log, feed)
        checkpoint = known.checkpoint or str((place / "checkpoint").absolute())
        running = Running(frame, taking, checkpoint, trigger)
        with _stopping(running.ask_to_end):
            try:
                taking.job = Job(
                    place,
                    settings,
                    roles=log.roles,
                    source=f"stream {feed.source.where}",
                    query=running.name,
                    unfitted=unfitted,
                    grid=grid,
                    say=say,
                )
                taking.late = running.late
                running.go()
                taking.job.finish(running.late())
            finally:
                running.stop()
    return taking.job


def _frame(session: Any, feed: Feed, folder: Path) -> tuple[Any, Log]:
    """Open the streams, join them, and check the columns before anything runs."""
    import pyarrow as pa

    from evenodds.engines import streaming
    from evenodds.engines.streaming_source import opened

    frame = opened(session, feed.source, folder / "schema.json")
    label = str(feed.columns.get("label") or "label")
    _there(frame.columns, {"--impression": feed.key, "--time": feed.time}, feed.source.where)
    if feed.time is not None:
        frame = streaming.timed(frame, feed.time)
    if feed.no_doubles:
        frame = streaming.without_doubles(frame, str(feed.key), feed.watermark)
    if feed.labels is not None:
        labels = opened(session, feed.labels, folder / "labels-schema.json")
        stamp = feed.label_time or str(feed.time)
        asked = {"--impression": feed.key, "--label-time": stamp, "--label": label}
        _there(labels.columns, asked, feed.labels.where)
        late = streaming.Late(str(feed.key), str(feed.time), stamp, label, feed.wait, feed.watermark)
        frame = streaming.labelled(frame, labels, late)
    empty = pa.Table.from_batches([], schema=streaming.arrow_schema(frame))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", EvenoddsWarning)
        return frame, Log(empty, **feed.columns)


def _there(columns: Sequence[str], wanted: dict[str, str | None], where: str) -> None:
    missing = {option: name for option, name in wanted.items() if name is not None and name not in columns}
    for option, name in missing.items():
        raise SettingsError(
            f"{where} has no column {name!r} for {option}", hint=f"columns: {', '.join(columns)}"
        )


class _Taking:
    """Takes batches from Spark to the job."""

    def __init__(self, log: Log, feed: Feed) -> None:
        self.job: Job | None = None
        self.late: Callable[[], int] = lambda: 0
        self._log, self._feed = log, feed
        self._dirty = False

    def __call__(self, frame: Any, number: int) -> None:
        from evenodds.engines.spark_wire import Wire
        from evenodds.engines.streaming import Rows

        job = self.job
        assert job is not None  # noqa: S101  (batches wait until it is there)
        job.late(self.late())
        stateful = self._feed.labels is not None or self._feed.no_doubles
        if stateful:  # each look at the batch would run the join again
            frame = frame.persist()
        wire = Wire.narrow(self._log.roles, self._log.schema, _common(job))
        rows = Rows(frame, number, time=self._feed.time, dirty=self._dirty, wire=wire)
        try:
            job.batch(_Handed(rows, self._log))
            self._dirty = rows.dirty
        finally:
            rows.done()
            if stateful:
                frame.unpersist()


def _common(job: Job) -> dict[str, list[Any]]:
    """Return the groups that are known so far, which then travel as numbers."""
    counts = job.state.tally.counts.sum(axis=(1, 2, 3))
    order = sorted(range(len(counts)), key=lambda place: -float(counts[place]))
    found: dict[str, list[Any]] = {}
    for place, column in enumerate(job.roles.group):
        values = dict.fromkeys(job.state.tally.groups[group][place] for group in order)
        found[column] = list(values)
    return found


class _Handed:
    """A batch of Spark as the job wants it."""

    def __init__(self, rows: Rows, log: Log) -> None:
        self._rows, self._log = rows, log
        self.number = rows.number

    def scores(self) -> Floats:
        """Return a sample of the scores."""
        roles = self._log.roles
        content = [name for name in (roles.query, roles.item, roles.position) if name is not None]
        return self._rows.scores(roles.score, content)

    def count(self, grid: Grid, depth: int) -> Counts:
        """Count the rows that can be counted."""
        from evenodds.engines.partial import Plan

        plan = Plan(self._log.roles, grid, depth, self._log.first_position)
        counted, seen, refused = self._rows.count(plan)
        if counted is None:
            return Counts(None, seen, refused)
        return Counts(from_counted(counted, grid, self._log.roles, depth, ()), seen, refused)

    def clock(self) -> float | None:
        """Return the latest time among the rows."""
        return self._rows.latest

    def set_aside(self, folder: Path) -> None:
        """Write the refused rows."""
        self._rows.set_aside(folder)


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Let one process work in a folder, and clear away what a killed one has left half written."""
    with (folder / ".lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise EvenoddsError(f"another stream is at work in {folder}") from None
        for left in (*folder.glob(".*.part"), *(folder / "models").glob(".*.part")):
            left.unlink()
        yield


@contextmanager
def _stopping(end: Callable[[], None]) -> Iterator[None]:
    """End in good order when asked to by a signal."""

    def asked(_number: int, _frame: FrameType | None) -> None:
        end()

    try:
        before = {number: signal.signal(number, asked) for number in (signal.SIGTERM, signal.SIGINT)}
    except ValueError:  # not in the main thread: whoever started the thread stops it
        before = {}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
