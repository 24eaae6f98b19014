"""Read a request's body within its limits, and let only those change state who may."""

from __future__ import annotations

import asyncio
import hmac
import time
from collections.abc import Awaitable, Callable, MutableMapping
from functools import wraps
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from evenodds.serve.problem import Problem

_TOGETHER = 64 << 20  # bytes of bodies that are still coming, in one worker

Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Endpoint = Callable[[Request], Awaitable[Response]]


async def read_body(receive: Receive, limit: int, declared: bytes | None, seconds: float) -> bytes | None:
    """Return the body; None if the client has gone."""
    if declared is not None and declared.isdigit() and int(declared) > limit:
        raise _too_large(limit)
    try:
        async with asyncio.timeout(seconds):
            return await _whole(receive, limit, _Held(limit))
    except TimeoutError:
        raise late(seconds) from None


class _Held:
    """Bytes of bodies that have come in part."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.bytes = 0


async def _whole(receive: Receive, limit: int, held: _Held) -> bytes | None:
    message = await receive()
    body: bytes = message.get("body", b"")
    if not message.get("more_body", False):
        if len(body) > limit:
            raise _too_large(limit)
        return body if message["type"] == "http.request" else None
    parts, size = [body], len(body)
    held.bytes += size
    try:
        while message.get("more_body", False):
            message = await receive()
            if message["type"] != "http.request":
                return None
            parts.append(message.get("body", b""))
            size += len(parts[-1])
            held.bytes += len(parts[-1])
            if size > limit:
                raise _too_large(limit)
            if held.bytes > held.most:
                raise Problem(
                    503,
                    "too much is being sent at a time",
                    hint="try again in a second",
                    headers={"retry-after": "1", "connection": "close"},
                )
        return b"".join(parts)
    finally:
        held.bytes -= size


def late(seconds: float) -> Problem:
    """Say that a body did not come in time."""
    return Problem(408, f"the body did not come within {seconds:g} s", headers={"connection": "close"})


class Intake:
    """Reads the bodies of many requests, and ends those that do not come in time.

    A timer for each request costs as much as reading it; one look at all of them, now and then, does not.
    """

    def __init__(self, limit: int, seconds: float) -> None:
        self._limit, self._seconds = limit, seconds
        self._reading: dict[asyncio.Task[Any] | None, float] = {}
        self._late: set[asyncio.Task[Any]] = set()
        self._held = _Held(max(_TOGETHER, limit))

    async def body(self, receive: Receive, declared: bytes | None) -> bytes | None:
        """Return the body; None if the client has gone."""
        limit = self._limit
        if declared is not None and declared.isdigit() and int(declared) > limit:
            raise _too_large(limit)
        task = asyncio.current_task()
        self._reading[task] = time.monotonic()
        try:
            return await _whole(receive, limit, self._held)
        except asyncio.CancelledError:
            if task is None or task not in self._late:
                raise
            self._late.discard(task)
            task.uncancel()
            raise late(self._seconds) from None
        finally:
            del self._reading[task]

    def sweep(self) -> None:
        """End what has been read for too long."""
        oldest = time.monotonic() - self._seconds
        for task, since in self._reading.items():
            if since < oldest and task is not None and task not in self._late:
                self._late.add(task)
                task.cancel()


def _too_large(limit: int) -> Problem:
    # The connection is closed: what is left of the body is not read.
    return Problem(
        413,
        f"the body is larger than {limit:,} bytes",
        hint="send fewer candidates at a time",
        headers={"connection": "close"},
    )


def guarded(token: str | None) -> Callable[[Endpoint], Endpoint]:
    """Let a request through to an endpoint that changes state only if it bears the token."""

    def decorate(endpoint: Endpoint) -> Endpoint:
        @wraps(endpoint)
        async def checked(request: Request) -> Response:
            check_token(request.headers.get("authorization"), token)
            return await endpoint(request)

        return checked

    return decorate


def check_token(authorization: str | None, token: str | None) -> None:
    """Refuse a request without the token; compared in constant time."""
    if token is None:
        raise _unauthorized("this server was started without a token: nothing can be changed over HTTP")
    scheme, _, given = (authorization or "").partition(" ")
    right = hmac.compare_digest(given.strip().encode(), token.encode())
    if scheme.lower() != "bearer" or not right:
        raise _unauthorized("this changes the server's state and needs its token; nothing was changed")


def _unauthorized(detail: str) -> Problem:
    return Problem(
        401,
        detail,
        hint="evenodds serve --token-file FILE, and the header authorization: Bearer TOKEN",
        headers={"www-authenticate": "Bearer"},
    )
