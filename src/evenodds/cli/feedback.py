"""Look after a feedback store."""

from __future__ import annotations

from datetime import UTC, datetime

import click

from evenodds.cli.console import print_json, progress
from evenodds.cli.options import Duration, file_size, output_options, size_of

_STORE = click.argument("store")


@click.group("feedback")
def feedback_command() -> None:
    """Look after a feedback store: what evenodds serve --feedback writes.

    STORE is a SQLite file, or the URL of a PostgreSQL database. Every command that reads a log reads a store:

    \b
      evenodds serve model.json --feedback feedback.db
      evenodds feedback status feedback.db
      evenodds fit feedback.db -o model.json --force
      evenodds feedback compact feedback.db --older-than 30d
    """


@feedback_command.command("status")
@_STORE
@click.option(
    "--settle", type=Duration(), default="1h", show_default=True, help="Age at which a served list counts."
)
@click.option("--json", "as_json", is_flag=True, help="Print it as JSON.")
def status_command(store: str, settle: float, as_json: bool) -> None:
    """Say what STORE holds."""
    from contextlib import closing
    from dataclasses import asdict

    from evenodds.feedback.rows import opened, status

    database, meta = opened(store)
    with closing(database), database.reading():
        found = status(database, meta, settle)
    if as_json:
        print_json(asdict(found))
        return
    click.echo(f"{found.name}: {found.rows:,} impressions in {_lists(found.lists)} ({size_of(found.bytes)})")
    if found.oldest is not None and found.newest is not None:
        click.echo(f"served: {_when(found.oldest)} to {_when(found.newest)}")
    click.echo(
        f"settled: {found.settled_rows:,} impressions in {_lists(found.settled_lists)}, older than {_span(settle)}"
    )
    listed = ", ".join(f"{count:,} with label {label}" for label, count in found.labels.items()) or "none"
    waiting = f"; {found.waiting:,} wait for their list" if found.waiting else ""
    click.echo(f"feedback: {listed}{waiting}")
    if found.folded_lists:
        click.echo(f"folded: {found.folded_rows:,} impressions in {_lists(found.folded_lists)}")
    names = ", ".join(" × ".join(map(str, group)) for group in found.groups) or "none yet"
    click.echo(f"groups by {' × '.join(found.group_columns)}: {names}; ids are {found.kind}")


@feedback_command.command("compact")
@_STORE
@click.option(
    "--older-than",
    type=Duration(),
    default="30d",
    show_default=True,
    help="Age of the lists to fold. Labels that come later than that are not counted.",
)
@click.option("--cells", type=int, default=10_000, show_default=True, help="Score cells, at the first time.")
@click.option(
    "--depth", type=int, default=100, show_default=True, help="Positions past it are pooled, likewise."
)
@click.option("--json", "as_json", is_flag=True, help="Print a summary as JSON.")
def compact_command(store: str, older_than: float, cells: int, depth: int, as_json: bool) -> None:
    """Fold old lists of STORE into a tally that it keeps, and delete them with their labels.

    tally, audit and fit read the tally together with the rows: nothing is lost or counted twice, even
    if this is killed. It can run while a server writes.

    \b
      evenodds feedback compact feedback.db --older-than 30d
    """
    from dataclasses import asdict

    from evenodds.compact import compact

    with progress("folding", None) as tick:
        done = compact(store, older_than=older_than, cells=cells, depth=depth, progress=tick)
    if as_json:
        print_json(asdict(done))
        return
    click.echo(
        f"folded {done.rows:,} impressions in {_lists(done.lists)}, {done.positives:,} positives, "
        f"older than {_span(older_than)}"
    )


@feedback_command.command("rows")
@_STORE
@output_options("the log (.parquet, .csv, .arrow)")
@click.option(
    "--settle", type=Duration(), default="1h", show_default=True, help="Age at which a served list counts."
)
def rows_command(store: str, out: str, force: bool, settle: float) -> None:
    """Write the settled rows of STORE as a log for other programs; what was folded has no rows left.

    \b
      evenodds feedback rows feedback.db -o log.parquet
    """
    from evenodds.apply import write_log
    from evenodds.log import Log

    rows = write_log(Log(store, settle=settle), out, overwrite=force)
    click.echo(f"wrote {out}: {rows:,} rows ({file_size(out)})")


def _lists(count: int) -> str:
    return f"{count:,} list{'s' if count != 1 else ''}"


def _when(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def _span(seconds: float) -> str:
    for unit, name in ((86_400, "d"), (3600, "h"), (60, "m")):
        if seconds >= unit and seconds % unit == 0:
            return f"{seconds / unit:g} {name}"
    return f"{seconds:g} s"
