"""Options that mean the same in every command, and what they make."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar, cast

import click
from click.core import ParameterSource

from evenodds.cli.console import progress
from evenodds.feedback.store import is_store
from evenodds.log import AUTO, Log, opened
from evenodds.tally import DEPTH, Tally

Command = TypeVar("Command", bound=Callable[..., Any])

ROLES = ("score", "group", "label", "position", "query", "item", "weight", "swap")
_NONE = "none"


class Duration(click.ParamType[float]):
    """A time, as 90s, 15m, 1h or 30d; a plain number is seconds."""

    name = "time"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Return seconds."""
        if isinstance(value, float):
            return value
        text = str(value).strip()
        units = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
        try:
            seconds = float(text[:-1]) * units[text[-1]] if text[-1:] in units else float(text)
        except ValueError:
            seconds = -1.0
        if not 0 <= seconds < 1e11:
            self.fail(f"{text!r} is no time; expected something like 90s, 15m, 1h or 30d", param, ctx)
        return seconds


def column_options(command: Command) -> Command:
    """Add the column roles; optional ones are found by name, and `none` goes without."""
    found = "'none' goes without"
    for option in reversed(
        (
            click.option(
                "--score", default="score", show_default=True, help="Column with the model's score."
            ),
            click.option(
                "--group",
                multiple=True,
                default=("group",),
                show_default="group",
                help="Column with the group; several are crossed.",
            ),
            click.option(
                "--label", default="label", show_default=True, help="Column with the outcome, 0 or 1."
            ),
            click.option(
                "--position",
                default=AUTO,
                show_default="position, if there",
                help=f"Column with the slot; {found}.",
            ),
            click.option(
                "--query",
                default=AUTO,
                show_default="query, if there",
                help=f"Column with the list's id; {found}.",
            ),
            click.option(
                "--item",
                default=AUTO,
                show_default="item, if there",
                help=f"Column with the item's id; {found}.",
            ),
            click.option(
                "--weight",
                default=AUTO,
                show_default="weight, if there",
                help=f"Column with row weights; {found}.",
            ),
            click.option("--swap", default=_NONE, help="Column with the upper position of a swapped pair."),
            click.option(
                "--outcomes",
                type=int,
                default=1,
                show_default=True,
                help="Kinds of positive: labels are 0 to this number.",
            ),
            click.option(
                "--first-position",
                type=int,
                help="Number of the top slot. [default: the smallest in the log]",
            ),
            click.option(
                "--settle",
                type=Duration(),
                show_default="1h",
                help="Feedback stores: age at which a served list counts, as 90s, 15m, 1h, 30d.",
            ),
        )
    ):
        command = option(command)
    return command


def engine_options(command: Command) -> Command:
    """Add where the rows are read."""
    for option in reversed(
        (
            click.option(
                "--engine",
                type=click.Choice(["local", "spark"]),
                default="local",
                show_default=True,
                help="Read the rows on this machine, or on Apache Spark.",
            ),
            click.option(
                "--master",
                help="[spark] Where Spark runs: local[4], spark://..., yarn, sc://... [default: what "
                "spark-submit or SPARK_REMOTE say, else local[*]]",
            ),
            click.option(
                "--format",
                "form",
                help="[spark] Format of the files, as Spark names it: orc, delta, ... [default: by the name]",
            ),
        )
    ):
        command = option(command)
    return command


@dataclass(frozen=True)
class Engine:
    """What `engine_options` adds, as one value."""

    name: str = "local"
    master: str | None = None
    form: str | None = None

    @classmethod
    def take(cls, options: dict[str, Any]) -> Engine:
        """Take them out of a command's keyword arguments."""
        engine = cls(options.pop("engine", "local"), options.pop("master", None), options.pop("form", None))
        late = [option for option, given in (("--master", engine.master), ("--format", engine.form)) if given]
        if engine.name == "local" and late:
            raise click.UsageError(f"{', '.join(late)} goes with --engine spark", click.get_current_context())
        return engine

    def source(self, paths: Sequence[str]) -> object:
        """Return what a log can be made of."""
        if self.name == "local":
            return list(paths)
        if is_store(list(paths)):
            raise click.UsageError("a feedback store is read without --engine spark")
        from evenodds.engines.spark_read import read_log

        return read_log(paths, self.master, self.form)


LOCAL = Engine()


def counting_options(command: Command) -> Command:
    """Add what decides how a log is counted."""
    for option in reversed(
        (
            click.option(
                "--cells", type=int, default=10_000, show_default=True, help="Score cells to count in."
            ),
            click.option(
                "--depth", type=int, default=DEPTH, show_default=True, help="Positions past it are pooled."
            ),
            click.option(
                "--grid-from",
                type=click.Path(exists=True, dir_okay=False),
                help="Tally whose score cells to reuse.",
            ),
        )
    ):
        command = option(command)
    return command


def output_options(what: str) -> Callable[[Command], Command]:
    """Add -o and --force."""

    def add(command: Command) -> Command:
        force = click.option("--force", is_flag=True, help="Overwrite the file if it exists.")
        out = click.option("-o", "--out", required=True, type=click.Path(), help=f"Where to write {what}.")
        return out(force(command))

    return add


def bias_options(command: Command) -> Command:
    """Add how position bias is estimated."""
    from evenodds.position import METHODS

    listed = ", ".join(METHODS)
    return click.option(
        "--position-bias",
        default="joint",
        show_default=True,
        help=f"{listed}; or the weights themselves, as 1,0.63,0.5,...",
    )(command)


def parse_bias(text: str) -> str | list[float]:
    """Read a method's name, or weights."""
    if "," not in text:
        return text
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        raise click.UsageError(
            f"--position-bias {text!r}: expected a method or numbers like 1,0.63,0.5"
        ) from None


@dataclass(frozen=True)
class Counting:
    """The options that `counting_options` and `column_options` add, as one value."""

    columns: dict[str, Any]
    cells: int
    depth: int
    grid_from: str | None
    engine: Engine = LOCAL

    @classmethod
    def take(cls, options: dict[str, Any]) -> Counting:
        """Take them out of a command's keyword arguments."""
        columns, engine = take_columns(options), Engine.take(options)
        return cls(columns, options.pop("cells"), options.pop("depth"), options.pop("grid_from"), engine)


def take_columns(options: dict[str, Any]) -> dict[str, Any]:
    """Take the column roles out of a command's keyword arguments, as `Log` wants them."""
    columns = {role: options.pop(role) for role in ROLES}
    columns["group"] = list(columns["group"])
    for role in ("position", "query", "item", "weight", "swap"):
        if columns[role] == _NONE:
            columns[role] = None
    columns["first_position"] = options.pop("first_position")
    columns["outcomes"] = options.pop("outcomes")
    columns["settle"] = options.pop("settle")
    return columns


def open_like(
    context: click.Context,
    fitted: dict[str, Any],
    logs: Sequence[str],
    columns: dict[str, Any],
    *,
    scored_only: bool,
    engine: Engine = LOCAL,
) -> Log:
    """Open a log with the columns that a model was fitted on, where the command names no others.

    Optional columns only where the log has them; a log that is only scored needs no label. A feedback store
    has columns of its own, whatever the model's log had.
    """
    source = engine.source(logs)
    fitted = {} if is_store(source) else fitted
    names = opened(source, columns["settle"]).schema.names
    needed = {"score", "group"} if scored_only else {"score", "group", "label", "outcomes"}
    for role in ("position", "query", "item", "weight", *sorted(needed)):
        named = context.get_parameter_source(role) is not ParameterSource.DEFAULT
        if not named and role in fitted and (role in needed or fitted[role] in names):
            columns[role] = fitted[role]
    unread = {"label": None, "weight": None} if scored_only else {}
    return Log(source, **{**columns, **unread, "swap": None})


def count(paths: Sequence[str], how: Counting, like: dict[str, Any] | None = None) -> Tally:
    """Load tallies, count logs on the first tally's cells, and add everything up.

    `like` are the columns that a model was fitted on, for where the command names no others.
    """
    from evenodds.tally import tally
    from evenodds.tally_file import is_tally

    tallies = [Tally.load(path) for path in paths if is_tally(path)]
    logs = [path for path in paths if not is_tally(path)]
    if not logs:
        _refuse_counting_options(click.get_current_context())
    if logs:
        grid = Tally.load(how.grid_from) if how.grid_from else (tallies[0] if tallies else None)
        if like is None:
            log = Log(how.engine.source(logs), **how.columns)
        else:
            context = click.get_current_context()
            log = open_like(context, like, logs, how.columns, scored_only=False, engine=how.engine)
        with progress("counting", log.rows) as tick:
            tallies.append(tally(log, cells=how.cells, depth=how.depth, grid=grid, progress=tick))
    return cast("Tally", sum(tallies))


def _refuse_counting_options(context: click.Context) -> None:
    """Say that an option comes too late: what a tally counted, and how, is settled."""
    late = (*ROLES, "outcomes", "first_position", "settle", "cells", "depth", "grid_from")
    given = [name for name in late if context.get_parameter_source(name) is ParameterSource.COMMANDLINE]
    if given:
        listed = ", ".join(f"--{name.replace('_', '-')}" for name in given)
        raise click.UsageError(f"{listed} has no effect on a tally: it is counted already", context)


def file_size(path: str) -> str:
    """Say how large a file is, or a folder of files."""
    whole = Path(path)
    files = [file for file in whole.rglob("*") if file.is_file()] if whole.is_dir() else [whole]
    return size_of(sum(file.stat().st_size for file in files))


def size_of(size: float) -> str:
    """Say how large something is.

    >>> size_of(861_000)
    '861 KB'
    """
    for unit in ("B", "KB", "MB"):
        if size < 1000:
            return f"{size:.0f} {unit}" if unit != "MB" else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} GB"
