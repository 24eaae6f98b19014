"""Write the page that shows what is unfair and what a model does about it."""

from __future__ import annotations

from typing import Any

import click

from evenodds.cli.console import command_line
from evenodds.cli.options import (
    Counting,
    column_options,
    count,
    counting_options,
    engine_options,
    file_size,
    output_options,
)
from evenodds.files import check_output


@click.command("report")
@click.argument("model", type=click.Path())
@click.argument("logs", nargs=-1, required=True)
@output_options("the page (.html)")
@click.option(
    "--figures", type=click.Path(file_okay=False), help="Folder for the same figures as PNG and SVG."
)
@column_options
@counting_options
@engine_options
@click.pass_context
def report_command(
    ctx: click.Context,
    /,
    model: str,
    logs: tuple[str, ...],
    out: str,
    force: bool,
    figures: str | None,
    **options: Any,
) -> None:
    """Write one page about LOGS or tallies under MODEL: how unfair, to whom, how sure, and what it costs.

    The page is a single HTML file that needs no network: it opens from a mail attachment. A slider moves
    every figure to any strength of the correction. Column names default to those that MODEL was fitted on.

    \b
      evenodds report model.json day.tally -o report.html
      evenodds report model.json log.parquet -o report.html --figures figures
    """
    from evenodds.report.make import converter, report
    from evenodds.reranker import load

    converter()  # what is missing is said before anything is counted
    check_output(out, overwrite=force)
    fitted = load(model)
    counted = count(logs, Counting.take(options), fitted.fitted_on_["roles"])
    report(counted, model, out, figures=figures, overwrite=force, command=command_line(ctx))
    also = "" if figures is None else f", and its figures in {figures}"
    click.echo(f"wrote {out} ({file_size(out)}){also}")
