"""Apply a model to a log."""

from __future__ import annotations

from typing import Any

import click

from evenodds.cli.console import progress
from evenodds.cli.options import (
    Engine,
    column_options,
    engine_options,
    file_size,
    open_like,
    output_options,
    take_columns,
)
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
@engine_options
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
    needed. Column names default to those that MODEL was fitted on. On Spark rows come in no order, and
    what is written is a folder of files (.parquet, .csv, .json, .orc).

    \b
      evenodds apply model.json log.parquet -o fair.parquet
    """
    from evenodds.apply import apply_to_log
    from evenodds.reranker import load
    from evenodds.spark_replay import check_folder

    engine = Engine.take(options)
    if engine.name == "local":
        check_output(out, overwrite=force)
    else:
        check_folder(out, overwrite=force)
    fitted = load(model)
    columns = take_columns(options)
    log = open_like(ctx, fitted.fitted_on_["roles"], logs, columns, scored_only=True, engine=engine)
    with progress("applying", None if log.rows is None else 2 * log.rows) as tick:
        rows = apply_to_log(fitted, log, out, keys=key, seed=seed, overwrite=force, progress=tick)
    added = "fair_score and fair_position" if log.roles.query else "fair_score"
    size = "" if "://" in out else f" ({file_size(out)})"
    click.echo(f"wrote {out}: {rows:,} rows with {added}{size}")
