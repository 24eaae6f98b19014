"""Every path but ``/rerank``: health, metrics, the model's card, and what changes them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
from prometheus_client import CONTENT_TYPE_LATEST
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from evenodds.errors import EvenoddsError, OutputError
from evenodds.serve.bodies import read
from evenodds.serve.intake import guarded, read_body
from evenodds.serve.openapi import document, page
from evenodds.serve.problem import Problem
from evenodds.serve.state import State

if TYPE_CHECKING:
    from evenodds.serve.app import Application

_HELLO = b"ok\n"
_ONLY_HERE = (
    "default-src 'none'; connect-src 'self'; img-src data:; script-src 'unsafe-inline'; "
    "style-src 'unsafe-inline'"
)


class Mode(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """How much of the model is shown; what is left out stays as it is."""

    ramp: float | None = None
    shadow: bool | None = None


def control_routes(app: Application) -> list[Route]:
    """Return the routes."""
    settings, holder, store = app.settings, app.holder, app.store
    token = guarded(settings.token)

    async def healthz(_request: Request) -> Response:
        return Response(_HELLO, media_type="text/plain")

    async def readyz(_request: Request) -> Response:
        if app.stopping:
            raise Problem(503, "this worker is stopping")
        return Response(b"ready\n", media_type="text/plain")

    async def metrics(_request: Request) -> Response:
        text = await holder.apart(app.metrics.text, holder.live)
        return Response(text, headers={"content-type": CONTENT_TYPE_LATEST})

    async def card(_request: Request) -> Response:
        live = holder.live
        said = {
            **live.loaded.card,
            "serving": {
                "generation": live.generation,
                "ramp": live.ramp,
                "shadow": live.shadow,
                "previous": list(live.previous),
                "refused": holder.refused,
            },
        }
        return _json(said, {"etag": f'"{live.loaded.version}"'})

    @token
    async def publish(request: Request) -> Response:
        raw = await read_body(
            request.receive, settings.max_model, request.headers.get("content-length", "").encode(), 60.0
        )
        if raw is None:
            raise Problem(400, "the body did not come to its end; nothing was changed")
        expected = request.headers.get("if-match", "*").strip('" ')
        try:
            state = await holder.apart(store.publish, raw, None if expected == "*" else expected)
        except EvenoddsError as error:
            if isinstance(error, OutputError):  # no fault of the model's
                raise
            app.metrics.event("model refused")
            app.log.event("model refused", source="post", reason=str(error), kept=holder.live.loaded.version)
            raise Problem(
                422, f"{error.message}; {holder.live.loaded.version} is served as before", hint=error.hint
            ) from None
        return await changed(state)

    @token
    async def rollback(_request: Request) -> Response:
        return await changed(await holder.apart(store.rollback))

    @token
    async def mode(request: Request) -> Response:
        raw = await read_body(request.receive, 10_000, None, settings.timeout)
        asked: Mode = read(raw or b"", msgspec.json.Decoder(Mode).decode)
        if asked.ramp is not None and not 0.0 <= asked.ramp <= 1.0:
            raise Problem(422, f"ramp must lie in 0..1, got {asked.ramp}: nothing was changed")

        def change(state: State) -> State:
            return msgspec.structs.replace(
                state,
                ramp=state.ramp if asked.ramp is None else asked.ramp,
                shadow=state.shadow if asked.shadow is None else asked.shadow,
            )

        return await changed(await holder.apart(store.change, change))

    async def changed(state: State) -> Response:
        workers = await holder.everywhere(state.generation)
        return _json(
            {
                "model": state.current,
                "previous": state.previous,
                "ramp": state.ramp,
                "shadow": state.shadow,
                "generation": state.generation,
                "workers": workers,
            }
        )

    async def openapi(_request: Request) -> Response:
        return _json(document(app))

    async def docs(_request: Request) -> Response:
        return Response(page(), media_type="text/html", headers={"content-security-policy": _ONLY_HERE})

    return [
        Route("/openapi.json", openapi, methods=["GET"]),
        Route("/docs", docs, methods=["GET"]),
        Route("/healthz", healthz, methods=["GET"]),
        Route("/readyz", readyz, methods=["GET"]),
        Route("/metrics", metrics, methods=["GET"]),
        Route("/model", card, methods=["GET"]),
        Route("/model", publish, methods=["POST"]),
        Route("/model/rollback", rollback, methods=["POST"]),
        Route("/mode", mode, methods=["POST"]),
    ]


def _json(value: object, headers: dict[str, str] | None = None) -> Response:
    return Response(msgspec.json.encode(value) + b"\n", headers=headers, media_type="application/json")
