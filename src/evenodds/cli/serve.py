"""Serve a model over HTTP."""

from __future__ import annotations

import os
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import click

from evenodds.errors import MissingExtraError, SettingsError


@click.command("serve")
@click.argument("model", type=click.Path())
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=8000,
    show_default=True,
    help="Port; 0 takes any free one.",
)
@click.option(
    "--workers", type=click.IntRange(1, 64), default=1, show_default=True, help="How many processes serve."
)
@click.option(
    "--token-file",
    type=click.Path(),
    help="File with the token of requests that change state.  [default: $EVENODDS_TOKEN]",
)
@click.option(
    "--ramp",
    type=click.FloatRange(0, 1),
    default=1.0,
    show_default=True,
    help="Share of request keys that are served the fair order.",
)
@click.option("--shadow", is_flag=True, help="Compute and count fair scores, answer with the old order.")
@click.option(
    "--state", type=click.Path(), help="Folder for posted models and rollbacks that outlives the server."
)
@click.option(
    "--max-body", type=click.IntRange(1), default=4 << 20, show_default=True, help="Most bytes in a request."
)
@click.option(
    "--max-candidates",
    type=click.IntRange(1),
    default=10_000,
    show_default=True,
    help="Most candidates in a request.",
)
@click.option(
    "--timeout",
    type=click.FloatRange(0.01),
    default=10.0,
    show_default=True,
    help="Most seconds for a request.",
)
@click.option(
    "--max-concurrent",
    type=click.IntRange(1),
    default=1_000,
    show_default=True,
    help="Most requests at a time in a worker.",
)
@click.option(
    "--log",
    type=click.Choice(["all", "events", "none"]),
    default="all",
    show_default=True,
    help="JSON lines on standard error: with requests, or events alone.",
)
@click.option(
    "--feedback",
    envvar="EVENODDS_FEEDBACK",
    help="Store of what is served and what came of it: a file, or postgresql://...  [default: $EVENODDS_FEEDBACK]",
)
@click.option("--plain-ids", is_flag=True, help="Store ids as they are, not hashed, in a store that is made.")
@click.option(
    "--feedback-top",
    type=click.IntRange(0),
    default=0,
    show_default="all",
    help="Items of an answer that are shown, from its top: the others are not recorded.",
)
@click.option(
    "--feedback-wait/--no-feedback-wait",
    default=True,
    show_default=True,
    help="Answer once the list is safe in the store; else a crash may lose the last lists.",
)
@click.option("--log-ids", is_flag=True, help="Let lines hold request keys and item ids.")
def serve_command(
    model: str, host: str, port: int, token_file: str | None, state: str | None, **options: Any
) -> None:
    """Serve MODEL over HTTP: POST /rerank, and /docs tells the rest.

    MODEL is watched: a new file under its name is served within a second, a damaged one is refused and
    the old model kept. Requests that change state need the token; without one they are all refused.

    \b
      evenodds serve model.json --port 8000
      curl -s localhost:8000/rerank -H 'content-type: application/json' -d '{"key": "request-1",
        "ids": ["a", "b"], "scores": [0.3, 0.7], "groups": ["A", "B"]}'

    With --feedback, what is served is recorded and POST /feedback takes what came of it; evenodds fit
    reads the store.

    \b
      evenodds serve model.json --token-file token --feedback feedback.db
      evenodds fit feedback.db -o model.json --force
    """
    try:
        from evenodds.serve.run import bind, prepare, serve
        from evenodds.serve.settings import ServeSettings
    except ModuleNotFoundError as error:
        raise MissingExtraError(
            f"evenodds serve needs {error.name}, which is not installed", hint="pip install 'evenodds[serve]'"
        ) from None
    with ExitStack() as stack:
        folder = state or stack.enter_context(tempfile.TemporaryDirectory(prefix="evenodds-serve-"))
        settings = ServeSettings(model=model, state=folder, token=_token(token_file), **options)
        if settings.feedback is not None and settings.token is None:
            raise SettingsError(
                "--feedback without a token: nobody could send any",
                hint="--token-file FILE, or $EVENODDS_TOKEN",
            )
        prepare(settings)
        taken = stack.enter_context(bind(host, port))
        address, bound = taken.getsockname()[:2]
        shown = f"[{address}]" if ":" in address else address
        click.echo(f"serving {model} on http://{shown}:{bound} (docs: http://{shown}:{bound}/docs)")
        serve(settings, taken)


def _token(path: str | None) -> str | None:
    if path is None:
        return os.environ.get("EVENODDS_TOKEN") or None
    try:
        token = Path(path).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"cannot read the token file {path}: {error}") from None
    if not token:
        raise SettingsError(f"the token file {path} is empty")
    return token
