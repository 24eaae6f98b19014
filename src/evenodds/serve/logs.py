"""One JSON object a line, on standard error; keys and ids of people only where that was asked for."""

from __future__ import annotations

import os
import time
from datetime import UTC, datetime
from typing import Any

import msgspec

_HELD_BYTES = 1 << 15
_HELD_SECONDS = 0.2


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
        self._since = 0.0
        self._pid = os.getpid()

    def event(self, event: str, **said: Any) -> None:
        """Write at once that something happened."""
        if self._events:
            self._hold({"event": event, **said})
            self.flush()

    def request(self, said: dict[str, Any]) -> None:
        """Write soon what a request was."""
        self._hold(said)
        if self._size > _HELD_BYTES:
            self.flush()

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

    def _hold(self, said: dict[str, Any]) -> None:
        now = datetime.fromtimestamp(time.time(), UTC).isoformat(timespec="milliseconds")
        line = msgspec.json.encode({"time": now, "worker": self._pid, **said}) + b"\n"
        self._held.append(line)
        self._size += len(line)
