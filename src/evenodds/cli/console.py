"""What the terminal sees: errors and notes on one line, progress on long work."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TextIO

import click

_NOTES: list[str] = []


def one_line(text: str) -> None:
    """Print an error to standard error."""
    click.echo(f"evenodds: {' '.join(text.split())}", err=True)


def explain_warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,  # noqa: ARG001  (the signature of warnings.showwarning)
    lineno: int,  # noqa: ARG001
    file: TextIO | None = None,  # noqa: ARG001
    line: str | None = None,  # noqa: ARG001
) -> None:
    """Print our own warnings as notes, and hide where in the code they arose."""
    from evenodds.errors import EvenoddsWarning

    label = "note" if issubclass(category, EvenoddsWarning) else "warning"
    _NOTES.append(f"evenodds: {label}: {message}")


def print_notes() -> None:
    """Print the notes of a command that went well; an error stands alone, on one line."""
    for note in _NOTES:
        click.echo(note, err=True)
    _NOTES.clear()


def discard_notes() -> None:
    """Forget the notes of an earlier call in the same process."""
    _NOTES.clear()


def command_line(context: click.Context) -> str:
    """Return the command as it was typed."""
    typed: list[str] = context.find_root().obj or []
    return shlex.join(["evenodds", *typed])


def print_json(value: object) -> None:
    """Print JSON for programs."""
    click.echo(json.dumps(value, indent=2, ensure_ascii=False))


def print_result(result: Any, *, as_json: bool) -> None:
    """Print what a command found, for people or for programs."""
    if as_json:
        print_json(result.to_dict())
    else:
        click.echo(str(result))


@contextmanager
def progress(what: str, total: int | None) -> Iterator[Callable[[int], None]]:
    """Show a bar on a terminal while long work runs; elsewhere nothing."""
    if not sys.stderr.isatty():
        yield lambda _rows: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns: tuple[Any, ...] = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(what, total=total)
        yield lambda rows: bar.advance(task, rows)
