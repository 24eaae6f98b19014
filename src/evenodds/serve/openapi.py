"""The OpenAPI document, and the page to try it."""

from __future__ import annotations

from importlib.resources import files
from typing import TYPE_CHECKING, Any

from evenodds._version import __version__
from evenodds.serve.bodies import ARROW, JSON, MSGPACK

if TYPE_CHECKING:
    from evenodds.serve.app import Application

Json = dict[str, Any]

_ID: Json = {"oneOf": [{"type": "string"}, {"type": "integer", "minimum": -(2**63), "maximum": 2**63 - 1}]}
_GROUPS: Json = {"type": "array", "items": {"type": ["string", "number", "boolean", "null"]}}
_PROBLEMS = {
    400: "The body is not what its content type says.",
    401: "No token, or a wrong one; nothing was changed.",
    405: "Another method.",
    406: "None of the accepted types is written here.",
    408: "The body did not come in time.",
    409: "There is nothing to go back to; nothing was changed.",
    412: "Another model is served than the sender takes for the present one; nothing was changed.",
    413: "The body is too large.",
    415: "Another content type, or a compressed body.",
    422: "The body can be read, but not served.",
    500: "The server failed.",
    503: "Too many requests at a time, or out of time.",
}


def document(app: Application) -> Json:
    """Describe every path."""
    limits = app.settings
    columns = app.holder.live.loaded.columns
    paths = {**_ranking(limits.max_candidates, limits.max_lists, columns), **_control()}
    for extension in app.extensions:
        paths.update(extension.paths())
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "evenodds",
            "version": __version__,
            "description": "Fair scores for a ranker's candidates. What changes the server's state needs its token.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "paths": paths,
        "components": {
            "securitySchemes": {"bearer": {"type": "http", "scheme": "bearer"}},
            "schemas": {"Problem": _PROBLEM},
        },
    }


def page() -> bytes:
    """Return the page that shows the document and tries it: one file, nothing fetched from elsewhere."""
    return files("evenodds.serve").joinpath("docs.html").read_bytes()


_PROBLEM: Json = {
    "type": "object",
    "required": ["type", "title", "status", "detail"],
    "properties": {
        "type": {"type": "string"},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string", "description": "One line: what is wrong, where, what was expected."},
        "hint": {"type": "string"},
    },
}


def _problems(*statuses: int) -> Json:
    return {
        str(status): {
            "description": _PROBLEMS[status],
            "content": {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}},
        }
        for status in (*statuses, 405, 500)
    }


def _answer(description: str, schema: Json, *media: str) -> Json:
    return {
        "200": {
            "description": description,
            "content": {kind: {"schema": schema} for kind in media or (JSON,)},
        }
    }


def _ranking(most: int, most_lists: int, columns: tuple[str, ...]) -> Json:
    groups: Json = _GROUPS
    example: Any = ["women", "men"]
    if len(columns) > 1:
        groups = {
            "type": "object",
            "properties": dict.fromkeys(columns, _GROUPS),
            "required": list(columns),
            "additionalProperties": False,
        }
        example = {name: ["a", "b"] for name in columns}
    one: Json = {
        "type": "object",
        "description": "One list: columns of equal length, one entry a candidate.",
        "required": ["scores", "groups"],
        "additionalProperties": False,
        "properties": {
            "scores": {"type": "array", "items": {"type": "number"}, "maxItems": most},
            "groups": {
                **groups,
                "description": f"By {' and '.join(columns)}; a null or unseen one is unknown.",
            },
            "ids": {"type": "array", "items": _ID, "description": "All text or all whole numbers."},
            "key": {
                **_ID,
                "description": "The request's key, as in the log's query: draws repeat by key and id.",
            },
            "query": {**_ID, "description": "Names this list for feedback, where the key does not."},
        },
    }
    many: Json = {
        "type": "object",
        "description": "Several lists, all answered by one model.",
        "required": ["requests"],
        "additionalProperties": False,
        "properties": {"requests": {"type": "array", "items": one, "maxItems": most_lists}},
    }
    ranked: Json = {
        "arm": {
            "enum": ["fair", "original", "shadow"],
            "description": "fair; original: outside the ramp; shadow: computed, not shown.",
        },
        "scores": {"type": "array", "items": {"type": "number"}, "description": "In the order sent."},
        "order": {
            "type": "array",
            "items": {"type": "integer"},
            "description": "Places in the list that was sent, the best first.",
        },
        "unknown": {"type": "integer", "description": "How many have a null or unseen group."},
    }
    model: Json = {"type": "string", "description": "The version of the model that answered."}
    answered: Json = {
        "oneOf": [
            {
                "type": "object",
                "required": ["model", *ranked],
                "additionalProperties": False,
                "properties": {"model": model, **ranked},
            },
            {
                "type": "object",
                "required": ["model", "results"],
                "additionalProperties": False,
                "properties": {
                    "model": model,
                    "results": {
                        "type": "array",
                        "items": {"type": "object", "required": list(ranked), "properties": ranked},
                    },
                },
            },
        ]
    }
    body = {"schema": {"oneOf": [one, many]}}
    sample = {"key": "request-1", "ids": ["a", "b"], "scores": [0.3, 0.7], "groups": example}
    stream = {
        "schema": {"type": "string", "format": "binary"},
        # What Arrow columns mean has no place in a JSON schema.
    }
    return {
        "/rerank": {
            "post": {
                "summary": "Rank candidates fairly.",
                "description": "As an Arrow stream: a row a candidate, columns score, the groups', item, key; "
                "rows of one list stand together. The answer has fair_score, fair_position and arm.",
                "requestBody": {
                    "required": True,
                    "content": {JSON: {**body, "example": sample}, MSGPACK: body, ARROW: stream},
                },
                "responses": {
                    "200": {
                        "description": "Fair scores and the order.",
                        "content": {
                            JSON: {"schema": answered},
                            MSGPACK: {"schema": answered},
                            ARROW: stream,
                        },
                    },
                    **_problems(400, 406, 408, 413, 415, 422, 503),
                },
            }
        }
    }


def _control() -> Json:
    text: Json = {"type": "string"}
    state: Json = {
        "type": "object",
        "required": ["model", "previous", "ramp", "shadow", "generation", "workers"],
        "properties": {
            "model": text,
            "previous": {"type": "array", "items": text},
            "ramp": {"type": "number"},
            "shadow": {"type": "boolean"},
            "generation": {"type": "integer", "description": "Counts the changes of state."},
            "workers": {"type": "integer", "description": "Workers that have followed."},
        },
    }
    card: Json = {"type": "object", "required": ["version", "criterion", "settings", "groups", "serving"]}
    token: list[Json] = [{"bearer": []}]
    return {
        "/model": {
            "get": {
                "summary": "What is served: criterion, settings, groups, diagnostics, checksum.",
                "responses": {**_answer("The model's card.", card), **_problems()},
            },
            "post": {
                "summary": "Serve another model, in all workers.",
                "description": "A damaged file, or one of an older format than the model served, is refused.",
                "security": token,
                "parameters": [
                    {
                        "name": "if-match",
                        "in": "header",
                        "schema": text,
                        "description": "The version that must be the present one.",
                    }
                ],
                "requestBody": {"required": True, "content": {JSON: {"schema": {"type": "object"}}}},
                "responses": {**_answer("Served.", state), **_problems(400, 401, 408, 412, 413, 422)},
            },
        },
        "/model/rollback": {
            "post": {
                "summary": "Serve the model before this one again.",
                "security": token,
                "responses": {**_answer("Served.", state), **_problems(401, 409)},
            }
        },
        "/mode": {
            "post": {
                "summary": "Set the share of keys that are served fair, and shadow mode.",
                "security": token,
                "requestBody": {
                    "required": True,
                    "content": {
                        JSON: {
                            "schema": {
                                "type": "object",
                                "additionalProperties": False,
                                "properties": {
                                    "ramp": {"type": ["number", "null"], "minimum": 0, "maximum": 1},
                                    "shadow": {"type": ["boolean", "null"]},
                                },
                            },
                            "example": {"ramp": 0.1},
                        }
                    },
                },
                "responses": {**_answer("As it is now.", state), **_problems(400, 401, 408, 413, 422)},
            }
        },
        "/metrics": {
            "get": {
                "summary": "Figures of all workers, for Prometheus.",
                "responses": {**_answer("Figures.", text, "text/plain"), **_problems()},
            }
        },
        "/healthz": {
            "get": {
                "summary": "The process answers.",
                "responses": {**_answer("ok", text, "text/plain"), **_problems()},
            }
        },
        "/readyz": {
            "get": {
                "summary": "The model is loaded, and the worker is not stopping.",
                "responses": {**_answer("ready", text, "text/plain"), **_problems(503)},
            }
        },
    }
