"""The server: which path does what.

``/rerank`` is answered by :class:`Application` itself, since every microsecond of it counts; all other
paths are Starlette's. What other parts of a server add, such as a store of feedback, is an `Extension`.
"""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import AsyncIterator, Awaitable, Callable, MutableMapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, Protocol

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from evenodds.errors import OutputError
from evenodds.serve.arrow import ArrowLists, answer as arrow_answer
from evenodds.serve.bodies import (
    ARROW,
    ManyAnswer,
    OneAnswer,
    Ranked,
    decode,
    encode,
    kind_of,
    wanted,
)
from evenodds.serve.control import control_routes
from evenodds.serve.holder import Holder
from evenodds.serve.intake import Intake
from evenodds.serve.loaded import Live, Loaded
from evenodds.serve.logs import Log
from evenodds.serve.metrics import Metrics
from evenodds.serve.problem import MEDIA_TYPE, Problem
from evenodds.serve.rerank import Served
from evenodds.serve.settings import ServeSettings
from evenodds.serve.state import Store

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]


class Extension(Protocol):
    """What another part adds to the server."""

    def routes(self) -> list[Route]:
        """Return its paths; those that change state are wrapped in :func:`guarded`."""

    def paths(self) -> dict[str, Any]:
        """Return the same paths for the OpenAPI document."""

    def check(self, loaded: Loaded) -> None:
        """Refuse a model that this part cannot work with, before it is served."""

    def on_served(self, served: Sequence[Served]) -> Awaitable[None] | None:
        """Take note of the lists of a request that is about to be answered; must be quick.

        The answer waits for what is returned, which must not raise.
        """

    async def start(self, app: Application) -> None:
        """Begin, in a worker."""

    async def stop(self) -> None:
        """End; called after the last request was answered."""


class Application:
    """The ASGI application of one worker."""

    def __init__(self, settings: ServeSettings, extensions: Sequence[Extension] = ()) -> None:
        self.settings = settings
        self.extensions = tuple(extensions)
        self.log = Log(settings.log, ids=settings.log_ids)
        self.store = Store(settings, [part.check for part in extensions])
        self.store.prepare()
        self.metrics = Metrics(self.store.folder / "workers")
        self.holder = Holder(self.store, self.metrics, self.log)
        self.stopping = False
        self._active = 0
        self._parent = os.getppid()
        self._intake = Intake(settings.max_body, settings.timeout)
        routes = [*control_routes(self), *(route for part in extensions for route in part.routes())]
        self.routes = routes
        self._known = {route.path for route in routes}
        self._rest = Starlette(
            routes=routes,
            lifespan=self._lifespan,
            exception_handlers={Problem: _problem, HTTPException: _http_problem, Exception: _failed},
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] != "http":
            await self._rest(scope, receive, send)
            return
        start = time.perf_counter()
        path = scope["path"]
        if path == "/rerank":
            await self._rerank(scope, receive, send, start)
            return
        status = 500

        async def noted(message: MutableMapping[str, Any]) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self._rest(scope, receive, noted)
        except Exception as error:  # noqa: BLE001  (Starlette has answered 500 before it raises this)
            self.log.event("failed", path=path, error=f"{type(error).__name__}: {error}")
        finally:
            self._note(path if path in self._known else "other", status, start, {})

    async def _rerank(self, scope: Scope, receive: Receive, send: Send, start: float) -> None:
        said: dict[str, Any] = {}
        status, media_type, headers = 200, b"", {}
        self._active += 1
        try:
            asked = await self._asked(scope, receive)
            if asked is None:  # the client has gone
                status = 499
                return
            body, kind, answer_kind = asked
            waits: list[Awaitable[None]] = []
            out = self._answer(body, kind, answer_kind, start, said, waits)
            for noted in waits:
                await noted
            media_type = answer_kind.encode()
        except Problem as problem:
            status, out, media_type, headers = problem.status, problem.body(), MEDIA_TYPE, problem.headers
        except Exception as error:  # noqa: BLE001  (the last resort: an answer, and a line that tells of it)
            self.log.event("failed", path="/rerank", error=f"{type(error).__name__}: {error}")
            status, media_type = 500, MEDIA_TYPE
            out = Problem(500, "the server failed; it has been logged").body()
        finally:
            self._active -= 1
            if status == 499:
                self._note("/rerank", status, start, said)
        await send(
            {
                "type": "http.response.start",
                "status": status,
                "headers": [
                    (b"content-type", media_type),
                    (b"content-length", str(len(out)).encode()),
                    *((name.encode(), value.encode()) for name, value in headers.items()),
                ],
            }
        )
        await send({"type": "http.response.body", "body": out})
        self._note("/rerank", status, start, said)

    async def _asked(self, scope: Scope, receive: Receive) -> tuple[bytes, str, str] | None:
        """Return the body, and the media types of body and answer; None if the client has gone."""
        limits = self.settings
        if self._active > limits.max_concurrent:
            raise Problem(
                503, "too many requests at a time", hint="try again in a second", headers={"retry-after": "1"}
            )
        if scope["method"] != "POST":
            raise Problem(405, f"{scope['method']} /rerank; expected POST", headers={"allow": "POST"})
        headers = dict(scope["headers"])
        kind = kind_of(headers.get(b"content-type"))
        answer_kind = wanted(headers.get(b"accept"), kind)
        if b"content-encoding" in headers and headers[b"content-encoding"] != b"identity":
            raise Problem(415, "compressed bodies are not read here")
        body = await self._intake.body(receive, headers.get(b"content-length"))
        return None if body is None else (body, kind, answer_kind)

    def _answer(
        self,
        body: bytes,
        kind: str,
        answer_kind: str,
        start: float,
        said: dict[str, Any],
        waits: list[Awaitable[None]],
    ) -> bytes:
        live = self.holder.live  # once: whatever happens meanwhile, one model answers all of the request
        loaded = live.loaded
        one = False
        if kind == ARROW:
            served = ArrowLists(body, loaded.columns, self.settings.max_candidates).served(live)
        else:
            asked = decode(body, kind)
            one = asked.requests is None
            served = self._lists(live, asked.lists(), start)
        for part in served:
            self.metrics.served(loaded, part)
        for extension in self.extensions:
            noted = extension.on_served(served)
            if noted is not None:
                waits.append(noted)
        if self.log.requests:
            self.log.describe(said, served, loaded.version)
        if answer_kind == ARROW:
            return arrow_answer(served, loaded.version)
        if one:
            part = served[0]
            return encode(
                OneAnswer(
                    model=loaded.version,
                    arm=part.arm,
                    scores=part.served.tolist(),
                    order=part.order.tolist(),
                    unknown=part.unknown,
                ),
                answer_kind,
            )
        ranked = [
            Ranked(arm=part.arm, scores=part.served.tolist(), order=part.order.tolist(), unknown=part.unknown)
            for part in served
        ]
        return encode(ManyAnswer(model=loaded.version, results=ranked), answer_kind)

    def _lists(self, live: Live, lists: Sequence[Any], start: float) -> list[Served]:
        limits = self.settings
        if len(lists) > limits.max_lists:
            raise Problem(422, f"{len(lists):,} lists; this server takes {limits.max_lists:,} in a request")
        candidates = sum([len(part.scores) for part in lists])
        if candidates > limits.max_candidates:
            raise Problem(
                422, f"{candidates:,} candidates; this server takes {limits.max_candidates:,} in a request"
            )
        served = []
        for place, part in enumerate(lists):
            if time.perf_counter() - start > limits.timeout:
                raise Problem(503, f"not done within {limits.timeout:g} s", hint="send fewer lists at a time")
            try:
                served.append(Served.of(live, part.key, part.ids, part.groups, part.scores, part.query))
            except Problem as problem:
                if len(lists) > 1:
                    problem.detail = f"requests[{place}]: {problem.detail}"
                raise
        return served

    async def _sweep(self) -> None:
        while True:
            await asyncio.sleep(min(self.settings.timeout / 4, 1.0))
            self._intake.sweep()
            if self.settings.workers > 1 and os.getppid() != self._parent:
                os.kill(os.getpid(), signal.SIGTERM)  # the parent was killed: nobody would stop this worker

    def _note(self, path: str, status: int, start: float, said: dict[str, Any]) -> None:
        took = time.perf_counter() - start
        self.metrics.request(path, status, took)
        if self.log.requests:
            self.log.request(path, status, took, said)

    @asynccontextmanager
    async def _lifespan(self, _app: Starlette) -> AsyncIterator[None]:
        for extension in self.extensions:
            await extension.start(self)
        live = self.holder.live
        self.log.event("started", model=live.loaded.version, ramp=live.ramp, shadow=live.shadow)
        tasks = [asyncio.create_task(self.holder.follow()), asyncio.create_task(self._sweep())]
        try:
            yield
        finally:
            self.stopping = True
            for task in tasks:
                task.cancel()
            for extension in self.extensions:
                await extension.stop()
            self.holder.close()
            self.metrics.write(self.holder.live.generation)
            self.log.event("stopped")


def _response(problem: Problem) -> Response:
    return Response(problem.body(), problem.status, problem.headers, MEDIA_TYPE.decode())


async def _problem(_request: Request, error: Exception) -> Response:
    assert isinstance(error, Problem)  # noqa: S101  (Starlette hands over what it was told to)
    return _response(error)


async def _failed(_request: Request, error: Exception) -> Response:
    if isinstance(error, OutputError):  # the disk is full, or the state's folder has gone
        return _response(Problem(503, error.message, hint=error.hint))
    return _response(Problem(500, "the server failed; it has been logged"))


async def _http_problem(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)  # noqa: S101  (as above)
    detail = f"{request.method} {request.url.path[:100]}: {error.detail}"
    return _response(Problem(error.status_code, detail, headers=dict(error.headers or {})))
