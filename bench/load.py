"""A bounded load generator for servers on this machine: keep-alive connections, raw bytes, no client library.

It shares two cores with the server it drives, so it does as little as it can: requests are made
beforehand, an answer is cut off by its content-length, and looked at only if somebody asked for that.
"""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np

Check = Callable[[int, int, bytes], None]  # request number, status, body


def http_request(method: str, path: str, body: bytes = b"", **headers: str) -> bytes:
    """Lay a request out as bytes; header names take _ for -."""
    named = {"host": "127.0.0.1", **{name.replace("_", "-"): value for name, value in headers.items()}}
    if body:
        named["content-length"] = str(len(body))
    lines = "".join(f"{name}: {value}\r\n" for name, value in named.items())
    return f"{method} {path} HTTP/1.1\r\n{lines}\r\n".encode() + body


@dataclass
class Load:
    """What came back.

    Attributes
    ----------
    seconds
        From the first request to the last answer.
    statuses
        How many answers had each status.
    broken
        Connections that ended in the middle of something.
    latencies
        Seconds from each request to its answer.
    """

    seconds: float = 0.0
    statuses: dict[int, int] = field(default_factory=dict)
    broken: int = 0
    latencies: list[float] = field(default_factory=list)

    @property
    def rate(self) -> float:
        """Answers a second."""
        return len(self.latencies) / self.seconds

    def quantile(self, share: float) -> float:
        """Return a quantile of the latencies."""
        return float(np.quantile(self.latencies, share))


class _Connection(asyncio.Protocol):
    def __init__(
        self,
        load: Load,
        source: Callable[[], tuple[int, bytes] | None],
        check: Check | None,
        done: asyncio.Future[None],
    ) -> None:
        self._load, self._source, self._check, self._done = load, source, check, done
        self._have = b""
        self._ends = 0
        self._number = -1
        self._sent = 0.0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport
        self._next()

    def _next(self) -> None:
        following = self._source()
        if following is None:
            self._number = -1
            self._transport.close()
            return
        self._number, data = following
        self._sent = time.perf_counter()
        self._transport.write(data)  # type: ignore[attr-defined]  # every stream transport writes

    def data_received(self, data: bytes) -> None:
        have = self._have = self._have + data if self._have else data
        if not self._ends:
            head = have.find(b"\r\n\r\n")
            if head < 0:
                return
            place = have.lower().find(b"content-length: ", 0, head)
            length = int(have[place + 16 : have.find(b"\r\n", place)]) if place >= 0 else 0
            self._head, self._ends = head + 4, head + 4 + length
        if len(have) < self._ends:
            return
        self._load.latencies.append(time.perf_counter() - self._sent)
        status = int(have[9:12])
        self._load.statuses[status] = self._load.statuses.get(status, 0) + 1
        if self._check is not None:
            self._check(self._number, status, have[self._head : self._ends])
        self._have, self._ends = b"", 0
        self._next()

    def connection_lost(self, exc: Exception | None) -> None:
        del exc
        if self._number >= 0:
            self._load.broken += 1
        if not self._done.done():
            self._done.set_result(None)


async def drive(
    port: int,
    requests: Sequence[bytes],
    *,
    connections: int = 8,
    count: int | None = None,
    seconds: float | None = None,
    check: Check | None = None,
) -> Load:
    """Send requests in turn over some connections until `count` are sent or `seconds` are over."""
    load = Load()
    stop = time.perf_counter() + (seconds if seconds is not None else 3_600.0)
    numbers = itertools.count()

    def source() -> tuple[int, bytes] | None:
        number = next(numbers)
        if (count is not None and number >= count) or time.perf_counter() >= stop:
            return None
        place = number % len(requests)
        return place, requests[place]

    loop = asyncio.get_running_loop()
    ends: list[asyncio.Future[None]] = [loop.create_future() for _ in range(connections)]
    start = time.perf_counter()
    for end in ends:
        await loop.create_connection(partial(_Connection, load, source, check, end), "127.0.0.1", port)
    await asyncio.gather(*ends)
    load.seconds = time.perf_counter() - start
    return load
