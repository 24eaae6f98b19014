"""Tell whether a correction still holds."""

from __future__ import annotations

from typing import Any

import click

from evenodds.cli.console import print_result, progress
from evenodds.cli.options import column_options, open_like, parse_bias, take_columns
from evenodds.errors import DamagedFileError
from evenodds.reranker import Reranker, load
from evenodds.tally import Tally
from evenodds.tally_file import is_tally

GATES = ("unsure", "unfair", "drifted")


@click.command("drift")
@click.argument("old", type=click.Path())
@click.argument("new", nargs=-1, required=True)
@click.option(
    "--model", type=click.Path(), help="The correction in question. [default: OLD, if that is a model]"
)
@click.option(
    "--limit",
    type=float,
    default=0.05,
    show_default=True,
    help="Unfairness that is put up with, over what the fit left.",
)
@click.option(
    "--relative",
    type=float,
    default=0.1,
    show_default=True,
    help="By how much position bias or a rate has to change to matter.",
)
@click.option(
    "--level", type=float, default=0.05, show_default=True, help="Of the tests: the chance of a false alarm."
)
@click.option(
    "--fail-on",
    type=click.Choice(GATES),
    help="Exit with 1 if things are so, or worse: unsure < unfair < drifted (or changed, without a model).",
)
@click.option(
    "--position-bias",
    show_default="the model's method, else joint",
    help="A method to estimate it on both logs, or the weights themselves, as 1,0.63,0.5,...",
)
@column_options
@click.option("--json", "as_json", is_flag=True, help="Print the comparison as JSON (docs/drift.md).")
@click.pass_context
def drift_command(
    ctx: click.Context,
    /,
    old: str,
    new: tuple[str, ...],
    model: str | None,
    limit: float,
    relative: float,
    level: float,
    fail_on: str | None,
    position_bias: str | None,
    as_json: bool,
    **options: Any,
) -> int:
    """Tell whether a correction is still fair on NEW, and what has changed since OLD.

    OLD is the tally that the model was fitted on, or the model itself; NEW tallies, or logs, which are
    counted in the score cells of OLD. NEW may be ranked by the fair score: what is compared does not
    depend on the ranking.

    \b
      evenodds drift monday.tally tuesday.parquet --model model.json
      evenodds drift model.json today.tally --fail-on unfair && echo "still fair"
    """
    from evenodds.drift import drift

    was = _opened(old)
    fitted = load(model) if model else None
    tallies = [path for path in new if is_tally(path)]
    if tallies and len(tallies) < len(new):
        raise click.UsageError("NEW holds tallies and logs; expected one or the other", ctx)
    known: dict[str, Any] = {
        "limit": limit,
        "relative": relative,
        "level": level,
        "position_bias": None if position_bias is None else parse_bias(position_bias),
    }
    if tallies:
        result = drift(was, [Tally.load(path) for path in tallies], fitted, **known)
    else:
        roles = was.fitted_on_["roles"] if isinstance(was, Reranker) else was.roles.to_dict()
        log = open_like(ctx, roles, new, take_columns(options), scored_only=False)
        with progress("counting", log.rows) as tick:
            result = drift(was, log, fitted, progress=tick, **known)
    print_result(result, as_json=as_json)
    if fail_on is None or not result.at_least(fail_on):
        return 0
    click.echo(f"evenodds: {result.status}; --fail-on {fail_on}", err=True)
    return 1


def _opened(path: str) -> Tally | Reranker:
    """Open a tally or a model."""
    if is_tally(path):
        return Tally.load(path)
    try:
        return load(path)
    except DamagedFileError as error:
        if "is not a" not in error.message:
            raise
        raise DamagedFileError(
            f"{path} is neither a tally nor a model",
            hint="count the older log first: evenodds tally LOG -o old.tally",
        ) from None
