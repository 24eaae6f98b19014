"""How a server was asked to run."""

from __future__ import annotations

import msgspec


class ServeSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of one server, the same in all its workers.

    Attributes
    ----------
    model
        The model file, watched for changes.
    state
        The folder in which workers agree: what is served, how far it is ramped, their counters.
    token
        What every request that changes state must bear; without one, none of them is let through.
    ramp, shadow
        The share of request keys that are served the fair order; whether all are only computed for.
    max_body, max_model
        The largest body of a request, and of a posted model, in bytes.
    max_candidates, max_lists
        How many candidates a request may hold in all its lists, and how many lists.
    timeout
        Seconds for reading a request, and for answering it.
    max_concurrent
        Requests at a time in one worker; more are turned away with 503.
    poll
        Seconds between two looks at the model file and at the state.
    workers
        How many processes serve.
    log
        "all": a line a request and an event; "events"; "none".
    log_ids
        Whether lines hold request keys and item ids, which may be those of people.
    feedback
        The store of what was served and what came of it: a file, or the URL of a PostgreSQL database.
    plain_ids
        Whether that store holds ids as they are, not their hashes.
    feedback_top
        How many items from the top of an answer are shown, and so recorded; 0 is all of them.
    feedback_wait
        Whether an answer waits until its list is stored, so that feedback always finds it.
    """

    model: str
    state: str
    token: str | None = None
    ramp: float = 1.0
    shadow: bool = False
    max_body: int = 4 << 20
    max_model: int = 256 << 20
    max_candidates: int = 10_000
    max_lists: int = 1_000
    timeout: float = 10.0
    max_concurrent: int = 1_000
    poll: float = 0.25
    workers: int = 1
    log: str = "all"
    log_ids: bool = False
    feedback: str | None = None
    plain_ids: bool = False
    feedback_top: int = 0
    feedback_wait: bool = True
