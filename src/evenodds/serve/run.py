"""Run the server: one process, or several that share one address and one state."""

from __future__ import annotations

import gc
import inspect
import os
import signal
import socket
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import msgspec
import uvicorn
from uvicorn.supervisors import Multiprocess

from evenodds.errors import EvenoddsError
from evenodds.serve.app import Application, Extension
from evenodds.serve.settings import ServeSettings
from evenodds.serve.state import Store

_SETTINGS = "EVENODDS_SERVE_SETTINGS"
_TOKEN = "EVENODDS_TOKEN"  # noqa: S105  (the name of the variable, not a token)
_GRACE = 30  # seconds that requests in flight have to finish


def extensions_of(settings: ServeSettings) -> Sequence[Extension]:
    """Return what goes with the server under these settings."""
    if settings.feedback is None:
        return ()
    from evenodds.serve.feedback import Feedback

    return (Feedback(settings),)


def application() -> Application:
    """Make a worker's application, from the settings that its parent left in the environment."""
    settings = msgspec.json.decode(os.environ[_SETTINGS], type=ServeSettings)
    settings = msgspec.structs.replace(settings, token=os.environ.get(_TOKEN) or None)
    made = Application(settings, extensions_of(settings))
    gc.freeze()  # what is there now stays: collections need not look at it while requests wait
    return made


def bind(host: str, port: int) -> socket.socket:
    """Take the address, before anything else is done."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    taken = socket.socket(family, socket.SOCK_STREAM)
    taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        taken.bind((host, port))
    except OSError as error:
        taken.close()
        raise EvenoddsError(
            f"cannot listen on {host}:{port}: {error.strerror or error}",
            hint="another --port, or 0 for any free one",
        ) from None
    taken.set_inheritable(True)
    return taken


def prepare(settings: ServeSettings) -> None:
    """Say what keeps the server from serving, before any worker starts."""
    parts = extensions_of(settings)
    store = Store(settings, [part.check for part in parts])
    store.prepare()
    store.forget_workers()
    state = store.open()
    for part in parts:  # a model that was served before is not checked again when it is opened
        part.check(store.load(state.current))


def serve(settings: ServeSettings, taken: socket.socket) -> None:
    """Serve until a signal says stop; requests in flight are answered first."""
    # Not in the settings: a worker's environment is its own, its arguments are for all to see.
    os.environ[_SETTINGS] = msgspec.json.encode(msgspec.structs.replace(settings, token=None)).decode()
    if settings.token is not None:
        os.environ[_TOKEN] = settings.token
    config = uvicorn.Config(
        "evenodds.serve.run:application",
        factory=True,
        workers=settings.workers,
        log_level="critical",
        access_log=False,
        server_header=False,
        date_header=False,
        timeout_keep_alive=75,
        timeout_graceful_shutdown=_GRACE,
        backlog=2048,
    )
    server = uvicorn.Server(config)
    with _quiet_stop():
        if settings.workers == 1:
            server.run(sockets=[taken])
            return
        # Older versions of uvicorn ask for what a child is to run.
        asked = inspect.signature(Multiprocess).parameters
        child: dict[str, Any] = {"target": server.run} if "target" in asked else {}
        Multiprocess(config, sockets=[taken], **child).run()


@contextmanager
def _quiet_stop() -> Iterator[None]:
    """Let a signal end the server and nothing else: uvicorn raises it once more when it is done."""
    before = {number: signal.signal(number, lambda *_: None) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
