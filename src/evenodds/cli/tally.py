"""Count logs, and merge counts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from evenodds.cli.console import print_json
from evenodds.cli.options import (
    Counting,
    column_options,
    count,
    counting_options,
    engine_options,
    file_size,
    output_options,
)
from evenodds.errors import TallyError
from evenodds.files import check_output
from evenodds.groups import group_name
from evenodds.tally import Tally

if TYPE_CHECKING:
    from evenodds.privacy import Effect, Suppressed

suppress_option = click.option(
    "--suppress",
    type=int,
    metavar="K",
    help="Make it k-anonymous: no count for fewer than K rows; small ones are merged, then dropped.",
)


@click.command("tally")
@click.argument("logs", nargs=-1, required=True)
@output_options("the tally")
@column_options
@counting_options
@engine_options
@suppress_option
@click.option("--json", "as_json", is_flag=True, help="Print a summary as JSON.")
def tally_command(
    logs: tuple[str, ...], out: str, force: bool, suppress: int | None, as_json: bool, **options: Any
) -> None:
    """Count LOGS into a tally: a small file that is all the other commands need.

    Logs are Parquet, CSV or Arrow files, globs or folders. Days and shards are counted apart and
    merged later; for that they must share their score cells:

    \b
      evenodds tally monday.parquet -o monday.tally
      evenodds tally tuesday.parquet -o tuesday.tally --grid-from monday.tally
      evenodds merge monday.tally tuesday.tally -o week.tally

    A tally that leaves the house can be made k-anonymous, last of all: --suppress prints what that costs.

    \b
      evenodds tally week.tally -o public.tally --suppress 10
    """
    check_output(out, overwrite=force)
    _write(count(logs, Counting.take(options)), out, force, as_json, suppress)


@click.command("merge")
@click.argument("tallies", nargs=-1, required=True, type=click.Path(exists=True, dir_okay=False))
@output_options("the sum")
@click.option(
    "--half-life",
    type=float,
    help="Weigh older tallies down: half for every so many tallies of age; the last one counts fully.",
)
@suppress_option
@click.option("--json", "as_json", is_flag=True, help="Print a summary as JSON.")
def merge_command(
    tallies: tuple[str, ...],
    out: str,
    force: bool,
    half_life: float | None,
    suppress: int | None,
    as_json: bool,
) -> None:
    """Add TALLIES up, oldest first. Merging is exact: the same as counting all rows at once.

    \b
      evenodds merge day1.tally day2.tally day3.tally -o recent.tally --half-life 7
    """
    check_output(out, overwrite=force)
    if half_life is not None and not half_life > 0:
        raise click.UsageError(f"--half-life must be above 0, got {half_life}")
    merged: Tally | None = None
    for path in tallies:
        older = merged if merged is None or half_life is None else merged.decay(half_life=half_life)
        newer = Tally.load(path)
        merged = newer if older is None else older + newer
    if merged is not None:
        _write(merged, out, force, as_json, suppress)


def _write(tally: Tally, out: str, force: bool, as_json: bool, k: int | None) -> None:
    made = None if k is None else tally.suppress(k)
    tally = tally if made is None else made.tally
    tally.save(out, overwrite=force)
    groups = {
        group_name(g): float(n) for g, n in zip(tally.groups, tally.counts.sum(axis=(1, 2, 3)), strict=True)
    }
    positives = float(tally.counts[:, 1:].sum())
    if as_json:
        print_json(
            {
                "out": out,
                "rows": tally.rows,
                "positives": positives,
                "groups": groups,
                "cells": tally.grid.cells,
                "positions": int(tally.counts.shape[2]),
                "grid": tally.grid.fingerprint,
            }
            | ({} if made is None else {"suppressed": _plain(made)})
        )
        return
    listed = ", ".join(f"{name} {count:,.0f}" for name, count in groups.items())
    worth = float(tally.counts.sum())
    weighed = "" if abs(worth - tally.rows) < 0.5 else f" that weigh {worth:,.0f}"
    held = f"{positives:,.0f} positives, {tally.grid.cells:,} cells ({file_size(out)})"
    click.echo(f"wrote {out}: {tally.rows:,} rows{weighed}, {held}")
    click.echo(f"groups: {listed}")
    if made is not None:
        click.echo(str(made))
        found = _effect(made)
        click.echo(f"effect on a fit: none to show, {found}" if isinstance(found, str) else str(found))


def _plain(made: Suppressed) -> dict[str, Any]:
    found = _effect(made)
    return made.to_dict() | {"effect": found if isinstance(found, str) else found.to_dict()}


def _effect(made: Suppressed) -> Effect | str:
    """Return what suppressing does to a fit, or why nothing can be fitted."""
    try:
        return made.effect()
    except TallyError as error:
        return error.message
