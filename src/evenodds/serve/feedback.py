"""`POST /feedback`, and the record of what was served: the server's side of a feedback store.

An answer waits until its list is safe in the store (unless `feedback_wait` is off), so that feedback for any
list that was answered finds it, whatever happens to the server. A store that is locked, full or away does
not stop the ranking: the answer goes out, and the list that could not be recorded is counted and logged.
Feedback itself is only acknowledged when it is safe; else the answer is 503, and the client sends it again.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections import Counter
from collections.abc import Awaitable, Sequence
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from evenodds.errors import EvenoddsError, SettingsError, StoreError
from evenodds.feedback.events import Event, Fate, Names, ServedList
from evenodds.feedback.store import Store
from evenodds.feedback.writer import Writer
from evenodds.groups import printed_group
from evenodds.serve.bodies import ARROW, JSON, MSGPACK, encode, kind_of, read, wanted
from evenodds.serve.intake import guarded, read_body
from evenodds.serve.loaded import Loaded
from evenodds.serve.problem import Problem
from evenodds.serve.rerank import Served
from evenodds.serve.settings import ServeSettings

if TYPE_CHECKING:
    from evenodds.serve.app import Application

_PATIENCE = 0.5  # seconds that an answer waits for its record
_LARGE = 50_000  # bytes of feedback that are not read between two requests
_SWITCH = 0.0005
_SAY_EVERY = 1.0  # seconds between two log lines about lists that are lost


class FeedbackEvent(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """What came of one item of a list."""

    item: str | int
    label: int | bool
    key: str | int | None = None
    query: str | int | None = None
    position: int | None = None


class FeedbackBody(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """One event, or several under `events`."""

    item: str | int | None = None
    label: int | bool | None = None
    key: str | int | None = None
    query: str | int | None = None
    position: int | None = None
    events: list[FeedbackEvent] | None = None


class FeedbackAnswer(msgspec.Struct, kw_only=True):
    """How many events were news, known already, or wait for their list; all of them are stored."""

    counted: int
    repeated: int
    waiting: int


_from_json = msgspec.json.Decoder(FeedbackBody).decode
_from_msgpack = msgspec.msgpack.Decoder(FeedbackBody).decode


class Feedback:
    """The part of a server that keeps a feedback store."""

    def __init__(self, settings: ServeSettings) -> None:
        self.settings = settings
        self.target = settings.feedback or ""
        self._writer: Writer | None = None
        self._app: Application | None = None
        self._store: Store | None = None
        self._said = 0.0

    def check(self, loaded: Loaded) -> None:
        """Refuse a model whose rows would not go with those that the store holds."""
        if self._store is not None:
            self._store.bind(*_fitted(loaded))
        else:
            self._open(loaded).close()

    def _open(self, loaded: Loaded) -> Store:
        columns, outcomes, first = _fitted(loaded)
        return Store(
            self.target,
            group_columns=columns,
            outcomes=outcomes,
            first_position=first,
            kind="plain" if self.settings.plain_ids else None,
        )

    async def start(self, app: Application) -> None:
        """Open the store, in this worker."""
        # Two threads share the interpreter: with the default of 5 ms a request would wait that long for the other.
        sys.setswitchinterval(_SWITCH)
        self._app = app
        self._store = await asyncio.to_thread(self._open, app.holder.live.loaded)
        self._writer = Writer(self._store)

    async def stop(self) -> None:
        """Write what is queued, and close the store."""
        if self._writer is not None:
            await asyncio.to_thread(self._writer.close)

    # What is served

    def on_served(self, served: Sequence[Served]) -> Awaitable[None] | None:
        """Record the lists of a request; the answer waits for what is returned."""
        app, writer = self._app, self._writer
        if app is None or writer is None:
            return None
        lists = [self._list(part) for part in served if part.list_id is not None and part.ids is not None]
        if len(lists) < len(served):
            app.metrics.event("list not recorded: no key or no ids", len(served) - len(lists))
        if not lists:
            return None
        try:
            written = writer.submit(lists)
        except EvenoddsError as error:
            self._lost(len(lists), error)
            return None
        if self.settings.feedback_wait:
            return self._recorded(written, len(lists))
        loop = asyncio.get_running_loop()
        written.add_done_callback(lambda done: loop.call_soon_threadsafe(self._note, done, len(lists)))
        return None

    def _list(self, part: Served) -> ServedList:
        order = part.order[: self.settings.feedback_top] if self.settings.feedback_top else part.order
        places = order.tolist()
        ids = part.ids.tolist() if hasattr(part.ids, "tolist") else part.ids
        return ServedList(
            key="" if part.list_id is None else part.list_id,
            items=list(map(ids.__getitem__, places)),
            scores=part.scores[order],
            groups=_names(part.groups, places),
            model=part.model,
            arm=part.arm,
        )

    async def _recorded(self, written: Future[list[Fate]], lists: int) -> None:
        waiting = asyncio.wrap_future(written)
        try:
            async with asyncio.timeout(_PATIENCE):
                await asyncio.shield(waiting)
        except TimeoutError:
            waiting.add_done_callback(lambda done: self._note(done, lists))
            return
        except Exception:  # noqa: BLE001, S110  (said below)
            pass
        self._note(waiting, lists)

    def _note(self, done: Future[list[Fate]] | asyncio.Future[list[Fate]], lists: int) -> None:
        app = self._app
        error = None if done.cancelled() else done.exception()
        if error is not None:
            self._lost(lists, error)
        elif app is not None:
            app.metrics.event("list recorded", lists)

    def _lost(self, lists: int, error: BaseException) -> None:
        app = self._app
        if app is None:
            return
        app.metrics.event("list lost: the store failed", lists)
        self._say(error)

    def _say(self, error: BaseException) -> None:
        now = time.monotonic()
        if self._app is not None and now - self._said > _SAY_EVERY:  # it fails for every request
            self._said = now
            self._app.log.event("feedback store failed", error=str(error))

    # What came of it

    def routes(self) -> list[Route]:
        """Return the path."""
        return [Route("/feedback", guarded(self.settings.token)(self._feedback), methods=["POST"])]

    async def _feedback(self, request: Request) -> Response:
        app, writer, limits = self._app, self._writer, self.settings
        if app is None or writer is None:
            raise Problem(503, "this worker is starting", headers={"retry-after": "1"})
        kind = kind_of(request.headers.get("content-type", JSON).encode())
        if kind == ARROW:
            raise Problem(415, "feedback comes as JSON or MessagePack, not as an Arrow stream")
        answer_kind = wanted(request.headers.get("accept", "*/*").encode(), kind)
        declared = request.headers.get("content-length", "").encode()
        body = await read_body(request.receive, limits.max_body, declared, limits.timeout)
        if body is None:
            raise Problem(400, "the body did not come to its end; nothing was stored")
        if request.headers.get("content-encoding", "identity") != "identity":
            raise Problem(415, "compressed bodies are not read here")
        if len(body) > _LARGE:  # other requests go on meanwhile
            written = await asyncio.to_thread(self._handed_over, writer, body, kind)
        else:
            written = self._handed_over(writer, body, kind)
        fates = Counter(await self._stored(written))
        for fate, count in fates.items():
            app.metrics.event(f"feedback {fate.value}", count)
        if fates[Fate.REFUSED]:
            raise Problem(
                429,
                f"{fates[Fate.REFUSED]:,} of {fates.total():,} events were not stored: too many wait for lists that "
                "were not served here",
                hint="are key and item those of the request? sending all of them again later harms nothing",
                headers={"retry-after": "60"},
            )
        answer = FeedbackAnswer(
            counted=fates[Fate.COUNTED], repeated=fates[Fate.REPEATED], waiting=fates[Fate.WAITING]
        )
        return Response(encode(answer, answer_kind), media_type=answer_kind)

    def _handed_over(self, writer: Writer, body: bytes, kind: str) -> Future[list[Fate]]:
        """Read a body, check its events, and hand them to the writer."""
        asked: FeedbackBody = read(body, _from_json if kind == JSON else _from_msgpack)
        try:
            return writer.submit([], _events(asked, self.settings.max_candidates))
        except SettingsError as error:
            raise Problem.of(error) from None
        except StoreError as error:
            raise self._failed(error) from None

    async def _stored(self, written: Future[list[Fate]]) -> list[Fate]:
        """Wait for events; when this returns, they are safe."""
        try:
            async with asyncio.timeout(self.settings.timeout):
                return await asyncio.shield(asyncio.wrap_future(written))
        except EvenoddsError as error:
            raise self._failed(error) from None
        except TimeoutError:
            raise Problem(
                503,
                f"not stored within {self.settings.timeout:g} s; it may be later",
                hint="send it again: an event that is stored twice counts once",
                headers={"retry-after": "1"},
            ) from None

    def _failed(self, error: EvenoddsError) -> Problem:
        self._say(error)
        return Problem(503, error.message, hint=error.hint, headers={"retry-after": "1"})

    def paths(self) -> dict[str, Any]:
        """Return the path for the OpenAPI document."""
        name: dict[str, Any] = {
            "oneOf": [{"type": "string", "minLength": 1, "maxLength": 1000}, {"type": "integer"}]
        }
        event = {
            "type": "object",
            "required": ["item", "label"],
            "additionalProperties": False,
            "properties": {
                "key": {**name, "description": "The request's key."},
                "query": {**name, "description": "The request's query, where it had one: beats the key."},
                "item": {**name, "description": "The candidate's id."},
                "label": {
                    "description": "1 (or true): a positive; 0: none. Of several labels the highest counts.",
                    "oneOf": [{"type": "integer", "minimum": 0}, {"type": "boolean"}],
                },
                "position": {
                    "description": "Where the item was shown, if not where it was served.",
                    "type": ["integer", "null"],
                },
            },
        }
        many = {
            "type": "object",
            "required": ["events"],
            "additionalProperties": False,
            "properties": {"events": {"type": "array", "items": event}},
        }
        count = {"type": "integer", "minimum": 0}
        answer = {
            "type": "object",
            "required": ["counted", "repeated", "waiting"],
            "properties": {"counted": count, "repeated": count, "waiting": count},
        }
        example = {"key": "request-1", "item": "b", "label": 1, "position": 1}
        problems = {
            "400": "Not JSON or MessagePack.",
            "401": "No token, or a wrong one; nothing was changed.",
            "405": "Another method.",
            "406": "None of the accepted types is written here.",
            "408": "The body did not come in time.",
            "413": "The body is too large.",
            "415": "Another content type.",
            "422": "Not events that can be stored; none of them was.",
            "429": "Too many labels wait for lists that were not served here.",
            "500": "The server failed.",
            "503": "The store is locked, full or away: nothing was acknowledged, send it again.",
        }
        failed = {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}}
        document = {
            "summary": "Say what came of items that were served.",
            "description": "Acknowledged once it is safe; an event that is sent again counts once.",
            "security": [{"bearer": []}],
            "requestBody": {
                "required": True,
                "content": {
                    media: {"schema": {"oneOf": [event, many]}, "example": example}
                    for media in (JSON, MSGPACK)
                },
            },
            "responses": {
                "200": {
                    "description": "Stored.",
                    "content": {media: {"schema": answer} for media in (JSON, MSGPACK)},
                },
                **{status: {"description": text, "content": failed} for status, text in problems.items()},
            },
        }
        return {"/feedback": {"post": document}}


def _events(asked: FeedbackBody, most: int) -> list[Event]:
    """Return the events of a body."""
    own = (asked.item, asked.label, asked.key, asked.query, asked.position)
    if asked.events is None:
        if asked.item is None or asked.label is None:
            raise Problem(
                422,
                "the body has no item and label, and no events",
                hint='{"key": "request-1", "item": "a", "label": 1, "position": 3}',
            )
        return [_event(asked.key, asked.query, asked.item, asked.label, asked.position, "")]
    if any(part is not None for part in own):
        raise Problem(422, "the body has events, and one of its own beside them: expected one of the two")
    if len(asked.events) > most:
        raise Problem(422, f"{len(asked.events):,} events; this server takes {most:,} in a request")
    return [
        _event(one.key, one.query, one.item, one.label, one.position, f"events[{place}]: ")
        for place, one in enumerate(asked.events)
    ]


def _event(
    key: str | int | None,
    query: str | int | None,
    item: str | int,
    label: int | bool,
    position: int | None,
    where: str,
) -> Event:
    name = key if query is None else query
    if name is None:
        raise Problem(
            422, f"{where}no key", hint="the key of the request, or its query where the request had one"
        )
    return Event(name, item, label, position)


def _fitted(loaded: Loaded) -> tuple[tuple[str, ...], int, int]:
    """Return what rows that this model serves are like: group columns, outcomes, first position."""
    roles = loaded.card["fitted_on"]["roles"]
    from_zero = "position" in roles and int(loaded.card["position_bias"]["positions"][0]) == 0
    return loaded.columns, int(roles.get("outcomes", 1)), 0 if from_zero else 1


def _names(groups: Any, places: list[int]) -> list[Names]:
    """Return groups as they print, in an order."""
    if isinstance(groups, tuple):
        return [tuple(printed_group(column[place]) or None for column in groups) for place in places]
    values = list(map(groups.__getitem__, places))
    if set(map(type, values)) == {str}:
        return list(zip(values, strict=True))
    return [(printed_group(value) or None,) for value in values]
