"""Apply a model to a log."""

from __future__ import annotations

from typing import Any

import click
from click.core import ParameterSource

from evenodds.cli.console import progress
from evenodds.cli.options import column_options, file_size, open_log, output_options, take_columns
from evenodds.files import check_output


@click.command("apply")
@click.argument("model", type=click.Path())
@click.argument("logs", nargs=-1, required=True)
@output_options("the rows (.parquet, .csv, .arrow)")
@column_options
@click.option(
    "--key",
    multiple=True,
    show_default="query and item, else the row number",
    help="Column that makes a random draw repeat itself; several make one key.",
)
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of draws by row number.")
@click.pass_context
def apply_command(
    ctx: click.Context,
    /,
    model: str,
    logs: tuple[str, ...],
    out: str,
    force: bool,
    key: tuple[str, ...],
    seed: int,
    **options: Any,
) -> None:
    """Add fair_score, and fair_position within each query, to LOGS.

    Rows keep their order and their columns; a log larger than memory passes. The label column is not
    needed. Column names default to those that MODEL was fitted on.

    \b
      evenodds apply model.json log.parquet -o fair.parquet
    """
    from evenodds.apply import apply_to_log
    from evenodds.reranker import load

    check_output(out, overwrite=force)
    fitted = load(model)
    columns = _columns(ctx, fitted.fitted_on_["roles"], take_columns(options), logs)
    log = open_log(logs, columns)
    with progress("applying", None if log.rows is None else 2 * log.rows) as tick:
        rows = apply_to_log(fitted, log, out, keys=key, seed=seed, overwrite=force, progress=tick)
    added = "fair_score and fair_position" if log.roles.query else "fair_score"
    click.echo(f"wrote {out}: {rows:,} rows with {added} ({file_size(out)})")


def _columns(
    ctx: click.Context, fitted: dict[str, Any], columns: dict[str, Any], logs: tuple[str, ...]
) -> dict[str, Any]:
    """Fill in what the command does not name from the model; optional columns where the log has them."""
    from evenodds.sources import open_source

    names = open_source(list(logs)).schema.names
    for role in ("score", "group", "position", "query", "item"):
        asked = ctx.get_parameter_source(role) is not ParameterSource.DEFAULT
        if not asked and role in fitted and (role in {"score", "group"} or fitted[role] in names):
            columns[role] = fitted[role]
    return {**columns, "label": None, "weight": None, "swap": None}
