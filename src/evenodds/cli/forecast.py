"""Forecast what a model will do."""

from __future__ import annotations

from typing import Any

import click

from evenodds.cli.console import print_result, progress
from evenodds.cli.options import Engine, column_options, engine_options, open_like, parse_bias, take_columns


@click.command("forecast")
@click.argument("model", type=click.Path())
@click.argument("logs", nargs=-1, required=True)
@click.option(
    "--position-bias",
    show_default="the model's",
    help="A method to estimate it on this log, or the weights themselves, as 1,0.63,0.5,...",
)
@click.option(
    "--max-cut-off",
    type=float,
    default=0.05,
    show_default=True,
    help="Share of lists that may lack positions.",
)
@click.option(
    "--confidence", type=float, default=0.95, show_default=True, help="Confidence of the intervals."
)
@click.option(
    "--key",
    multiple=True,
    show_default="query and item, else the row number",
    help="Column that makes a random draw repeat itself; several make one key.",
)
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of draws by row number.")
@column_options
@click.option("--json", "as_json", is_flag=True, help="Print the forecast as JSON.")
@engine_options
@click.pass_context
def forecast_command(
    ctx: click.Context,
    /,
    model: str,
    logs: tuple[str, ...],
    position_bias: str | None,
    max_cut_off: float,
    confidence: float,
    key: tuple[str, ...],
    seed: int,
    as_json: bool,
    **options: Any,
) -> None:
    """Forecast what MODEL will do to each group's positives, by re-ranking the lists in LOGS.

    LOGS need their query and position columns, and every row that was shown: lists that were cut off
    or thinned out cannot be re-ranked. Column names default to those that MODEL was fitted on.

    \b
      evenodds forecast model.json log.parquet
    """
    from evenodds.forecast import forecast
    from evenodds.reranker import load

    fitted = load(model)
    engine, columns = Engine.take(options), take_columns(options)
    log = open_like(ctx, fitted.fitted_on_["roles"], logs, columns, scored_only=False, engine=engine)
    with progress("re-ranking", None if log.rows is None else 2 * log.rows) as tick:
        result = forecast(
            fitted,
            log,
            keys=key,
            seed=seed,
            position_bias=None if position_bias is None else parse_bias(position_bias),
            max_cut_off=max_cut_off,
            confidence=confidence,
            progress=tick,
        )
    print_result(result, as_json=as_json)
