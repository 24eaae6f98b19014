"""One JSON object a line, on standard error; keys and ids of people only where that was asked for."""

from __future__ import annotations

import os
import time
from datetime import UTC, datetime
from typing import Any

import msgspec

from evenodds.serve.rerank import Served, moved

_HELD_BYTES = 1 << 15
_encode = msgspec.json.Encoder().encode


class RequestLine(msgspec.Struct, kw_only=True, omit_defaults=True):
    """What a request was."""

    time: str
    worker: int
    path: str
    status: int
    ms: float
    model: str | None = None
    lists: int | None = None
    candidates: int | None = None
    unknown: int | None = None
    arm: str | list[str] | None = None
    moved: int | None = None
    keys: list[str | int | None] | None = None
    ids: list[Any] | None = None


class Log:
    """Writes lines, those of requests some at a time.

    Parameters
    ----------
    level
        "all", "events" or "none".
    ids
        Whether lines may hold request keys and item ids.
    """

    def __init__(self, level: str, *, ids: bool, descriptor: int = 2) -> None:
        self.requests = level == "all"
        self.ids = ids
        self._events = level != "none"
        self._descriptor = descriptor
        self._held: list[bytes] = []
        self._size = 0
        self._second = -1
        self._prefix = ""
        self._pid = os.getpid()

    def event(self, event: str, **said: Any) -> None:
        """Write at once that something happened."""
        if self._events:
            self._hold({"time": self._now(), "worker": self._pid, "event": event, **said})
            self.flush()

    def request(self, path: str, status: int, seconds: float, said: dict[str, Any]) -> None:
        """Write soon what a request was."""
        line = RequestLine(
            time=self._now(), worker=self._pid, path=path, status=status, ms=round(seconds * 1e3, 3), **said
        )
        self._hold(line)
        if self._size > _HELD_BYTES:
            self.flush()

    def describe(self, said: dict[str, Any], served: list[Served], model: str) -> None:
        """Say what was served: how many, and in which arm; who and what only if ids are logged."""
        said["model"], said["lists"] = model, len(served)
        if len(served) == 1:
            one = served[0]
            said["candidates"], said["unknown"], said["arm"] = one.scores.size, one.unknown, one.arm
        else:
            said["candidates"] = sum(part.scores.size for part in served)
            said["unknown"] = sum(part.unknown for part in served)
            said["arm"] = [part.arm for part in served]
        if any(part.arm == "shadow" for part in served):
            said["moved"] = sum(moved(part) for part in served)
        if self.ids:
            said["keys"] = [part.key for part in served]
            said["ids"] = [None if part.ids is None else list(part.ids) for part in served]

    def flush(self) -> None:
        """Write what is held."""
        if self._held:
            lines = b"".join(self._held)
            self._held.clear()
            self._size = 0
            try:
                while lines:
                    lines = lines[os.write(self._descriptor, lines) :]
            except OSError:  # nobody reads them: serving goes on
                pass

    def _hold(self, said: Any) -> None:
        line = _encode(said) + b"\n"
        self._held.append(line)
        self._size += len(line)

    def _now(self) -> str:
        """Return the time of day; most of it is that of the line before."""
        now = time.time()
        second = int(now)
        if second != self._second:
            self._second = second
            self._prefix = datetime.fromtimestamp(second, UTC).strftime("%Y-%m-%dT%H:%M:%S.")
        return f"{self._prefix}{int((now - second) * 1000):03d}Z"
