"""Group commit: what arrives while a transaction is synced to disk shares the next one.

A store is written by one thread. Callers hand over lists and events and get a future that is done once
these are safe. A disk that syncs 500 times a second so takes as many events a second as a transaction holds,
times 500.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field

from evenodds.errors import StoreError
from evenodds.feedback.events import Event, Fate, ServedList
from evenodds.feedback.store import Store

MAX_QUEUED = 500_000  # impressions and events in memory
_AT_ONCE = 50_000  # and in one transaction
_TIDY_EVERY = 60.0


@dataclass(slots=True)
class _Job:
    shown: Sequence[ServedList]
    events: Sequence[Event]
    size: int
    done: Future[list[Fate]] = field(default_factory=Future)


class Writer:
    """Writes a store in a thread of its own.

    Parameters
    ----------
    store
        The store; it belongs to the writer from now on, and is closed with it.
    max_queued
        How many impressions and events may be in memory; more are refused at once.

    Examples
    --------
    >>> import tempfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> writer = Writer(Store(f"{folder.name}/feedback.db"))
    >>> writer.submit([ServedList("r1", ["a"], [0.5], [("F",)])], [Event("r1", "a", 1)]).result()
    [<Fate.COUNTED: 'counted'>]
    >>> writer.close(); folder.cleanup()
    """

    def __init__(self, store: Store, *, max_queued: int = MAX_QUEUED) -> None:
        self.store = store
        self._max_queued = max_queued
        self._jobs: deque[_Job] = deque()
        self._queued = 0
        self._changed = threading.Condition()
        self._closing = False
        self._tidied = time.monotonic()
        self._thread = threading.Thread(target=self._run, name="evenodds-feedback", daemon=True)
        self._thread.start()

    @property
    def queued(self) -> int:
        """How many impressions and events are not written yet."""
        return self._queued

    def submit(self, shown: Sequence[ServedList] = (), events: Sequence[Event] = ()) -> Future[list[Fate]]:
        """Hand over what has to be written; the future is done once it is safe, or says why it is not.

        What cannot be stored is refused here, before it shares a transaction with others.
        """
        self.store.check(shown, events)
        job = _Job(shown, events, len(events) + sum(len(one.items) for one in shown))
        with self._changed:
            if self._closing or not self._thread.is_alive():
                raise StoreError(f"{self.store.name} is closed")
            if self._queued and self._queued + job.size > self._max_queued:
                raise StoreError(
                    f"{self.store.name} is behind: {self._queued:,} impressions and events are not written yet",
                    hint="nothing was stored; try again",
                )
            self._jobs.append(job)
            self._queued += job.size
            self._changed.notify()
        return job.done

    def _run(self) -> None:
        while True:
            with self._changed:
                if not self._jobs and not self._closing:
                    self._changed.wait(_TIDY_EVERY)
                jobs = self._taken()
                if not jobs and self._closing:
                    break
            if jobs:
                self._write(jobs)
            if time.monotonic() - self._tidied > _TIDY_EVERY:
                self._tidied = time.monotonic()
                if self.store.waiting:
                    with suppress(Exception):  # the next minute will do
                        self.store.tidy()
        self.store.close()

    def _taken(self) -> list[_Job]:
        jobs: list[_Job] = []
        size = 0
        while self._jobs and (not jobs or size + self._jobs[0].size <= _AT_ONCE):
            jobs.append(self._jobs.popleft())
            size += jobs[-1].size
        return jobs

    def _write(self, jobs: list[_Job]) -> None:
        try:
            fates = self.store.write(
                [one for job in jobs for one in job.shown], [event for job in jobs for event in job.events]
            )
        except BaseException as error:  # noqa: BLE001  (whoever waits for the future has to be told)
            if len(jobs) > 1 and not isinstance(error, StoreError):
                for job in jobs:  # one of them cannot be written: the others are not to suffer for it
                    self._write([job])
                return
            self._settle(jobs, error)
            return
        self._settle(jobs, fates)

    def _settle(self, jobs: list[_Job], outcome: list[Fate] | BaseException) -> None:
        with self._changed:
            self._queued -= sum(job.size for job in jobs)
        start = 0
        for job in jobs:
            # A caller that has gone away has cancelled its future.
            if not job.done.set_running_or_notify_cancel():
                start += len(job.events)
                continue
            if isinstance(outcome, BaseException):
                job.done.set_exception(outcome)
            else:
                job.done.set_result(outcome[start : start + len(job.events)])
            start += len(job.events)

    def close(self, timeout: float = 30.0) -> None:
        """Write what is queued, then close the store."""
        with self._changed:
            self._closing = True
            self._changed.notify()
        self._thread.join(timeout)
