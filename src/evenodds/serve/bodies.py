"""What comes in and what goes out: JSON, MessagePack and Arrow streams."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from evenodds.serve.problem import Problem

JSON, MSGPACK, ARROW = "application/json", "application/msgpack", "application/vnd.apache.arrow.stream"
_ALIASES = {
    "application/json": JSON,
    "application/msgpack": MSGPACK,
    "application/x-msgpack": MSGPACK,
    "application/vnd.msgpack": MSGPACK,
    "application/vnd.apache.arrow.stream": ARROW,
}
MEDIA_TYPES = f"{JSON}, {MSGPACK}, {ARROW}"

GroupValue = str | int | float | bool | None


class CandidateList(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """One list to rank: equally long columns, one entry a candidate.

    `key` repeats draws and tells the arm of a ramp, and may be a person's id; `query` names this list alone,
    for feedback, where the key does not.
    """

    scores: list[float]
    groups: list[GroupValue] | dict[str, list[GroupValue]]
    ids: list[str | int] | None = None
    key: str | int | None = None
    query: str | int | None = None


class RerankBody(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """One list, or several under `requests`."""

    scores: list[float] | None = None
    groups: list[GroupValue] | dict[str, list[GroupValue]] | None = None
    ids: list[str | int] | None = None
    key: str | int | None = None
    query: str | int | None = None
    requests: list[CandidateList] | None = None

    def lists(self) -> Sequence[CandidateList | RerankBody]:
        """Return the lists to rank."""
        if self.requests is None:
            if self.scores is None or self.groups is None:
                raise Problem(
                    422,
                    "the body has no scores and groups, and no requests",
                    hint='{"key": "request-1", "ids": ["a", "b"], "scores": [0.3, 0.7], "groups": ["women", "men"]}',
                )
            return (self,)
        if any(part is not None for part in (self.scores, self.groups, self.ids, self.key, self.query)):
            raise Problem(
                422, "the body has requests, and a list of its own beside them: expected one of the two"
            )
        return self.requests


class Ranked(msgspec.Struct, kw_only=True):
    """The answer for one list."""

    arm: str
    scores: list[float]
    order: list[int]
    unknown: int


class OneAnswer(msgspec.Struct, kw_only=True):
    """The answer to one list, with the version of the model that gave it."""

    model: str
    arm: str
    scores: list[float]
    order: list[int]
    unknown: int


class ManyAnswer(msgspec.Struct, kw_only=True):
    """The answers to several lists, all by one model."""

    model: str
    results: list[Ranked]


_from_json = msgspec.json.Decoder(RerankBody).decode
_from_msgpack = msgspec.msgpack.Decoder(RerankBody).decode
_to_json = msgspec.json.Encoder().encode
_to_msgpack = msgspec.msgpack.Encoder().encode


def decode(body: bytes, media_type: str) -> RerankBody:
    """Read a JSON or MessagePack body."""
    return read(body, _from_json if media_type == JSON else _from_msgpack)


def read(body: bytes, decoder: Any) -> Any:
    """Decode a body, and say in one line what is wrong with it."""
    try:
        return decoder(body)
    except msgspec.ValidationError as error:
        raise Problem(422, str(error)) from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise Problem(400, str(error)) from None
    except RecursionError:
        raise Problem(400, "the body is nested too deeply") from None


def encode(answer: msgspec.Struct, media_type: str) -> bytes:
    """Write an answer."""
    return _to_json(answer) if media_type == JSON else _to_msgpack(answer)


def kind_of(content_type: bytes | None) -> str:
    """Return the media type of a body."""
    if content_type is None or content_type == b"application/json":
        return JSON
    name = content_type.partition(b";")[0].strip().lower().decode("latin-1")
    known = _ALIASES.get(name)
    if known is None:
        raise Problem(
            415,
            f"the content type {name[:80]!r} is not read here; expected {MEDIA_TYPES}",
            hint="curl -H 'content-type: application/json'",
        )
    return known


def wanted(accept: bytes | None, sent: str) -> str:
    """Return the media type to answer in: the best that the client accepts, what it sent if all are as good."""
    if accept is None or accept == b"*/*":
        return sent
    best, best_weight = None, 0.0
    for part in accept.decode("latin-1").lower().split(","):
        name, *parameters = (piece.strip() for piece in part.split(";"))
        weight = 1.0
        for parameter in parameters:
            if parameter.startswith("q="):
                try:
                    weight = float(parameter[2:])
                except ValueError:
                    weight = 0.0
        kind = sent if name in {"*/*", "application/*"} else _ALIASES.get(name)
        if kind is not None and weight > best_weight:
            best, best_weight = kind, weight
    if best is None:
        raise Problem(406, f"none of the accepted types is written here; expected {MEDIA_TYPES}")
    return best
