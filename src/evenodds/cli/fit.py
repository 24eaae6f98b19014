"""Learn a correction."""

from __future__ import annotations

from typing import Any

import click

from evenodds.cli.console import command_line, print_json
from evenodds.cli.model_options import model_options, unfitted
from evenodds.cli.options import (
    Counting,
    bias_options,
    column_options,
    count,
    counting_options,
    engine_options,
    file_size,
    output_options,
)
from evenodds.files import check_output
from evenodds.reranker import Reranker


@click.command("fit")
@click.argument("logs", nargs=-1, required=True)
@output_options("the model (.json)")
@model_options
@click.option(
    "--report", "page", type=click.Path(), help="Also write the page about this log and model (.html)."
)
@bias_options
@column_options
@counting_options
@engine_options
@click.option("--json", "as_json", is_flag=True, help="Print the diagnostics as JSON.")
@click.pass_context
def fit_command(
    context: click.Context,
    /,
    logs: tuple[str, ...],
    out: str,
    force: bool,
    criterion: str,
    page: str | None,
    as_json: bool,
    **options: Any,
) -> None:
    """Learn a correction from LOGS or tallies and write it as a model.

    opportunity: among positives, the fair score has one distribution for all groups, so that equally
    qualified people are shown alike at every threshold. Deterministic but for ties.

    odds: the same given each label, positive and negative. Scores move at random between bins; draws
    repeat by key when the model is applied.

    \b
      evenodds fit log.parquet -o model.json
      evenodds fit day*.tally -o model.json --criterion odds --objective auc
      evenodds fit log.parquet -o model.json --report report.html
    """
    check_output(out, overwrite=force)
    _check_page(page, force=force)
    counting = Counting.take(options)
    model = unfitted(context, criterion, options)
    model.check_settings()
    model.fit(count(logs, counting))
    model.save(out, overwrite=force)
    if page is not None:
        from evenodds.report.make import report

        report(model.tally_, model, page, overwrite=force, command=command_line(context))
    if as_json:
        written = {"out": out} | ({} if page is None else {"report": page})
        bias = model.position_bias_.to_dict()
        print_json(
            {**written, "criterion": criterion, "diagnostics": model.diagnostics_, "position_bias": bias}
        )
        return
    describe(model)
    click.echo(f"wrote {out} ({file_size(out)})")
    if page is not None:
        click.echo(f"wrote {page} ({file_size(page)})")


def _check_page(page: str | None, *, force: bool) -> None:
    """Say before any counting that a page cannot be written."""
    if page is not None:
        from evenodds.report.make import converter

        converter()
        check_output(page, overwrite=force)


def describe(model: Reranker) -> None:
    """Print what a fit found, in a few lines."""
    diagnostics = model.diagnostics_
    for group in diagnostics["groups"]:
        shared = "" if group["map"] == "own" else ", shares the pooled map"
        click.echo(
            f"group {group['group']}: {group['rows']:,.0f} rows, {group['positives']:,.0f} positives{shared}"
        )
    bias = model.position_bias_
    if bias.method != "none":
        last = len(bias.positions) - 1
        click.echo(
            f"position bias ({bias.method}): {bias.weights[0]:.2f} at position {bias.positions[0]}, "
            f"{bias.weights[last]:.2f} ± {1.96 * bias.standard_errors[last]:.2f} at position {bias.positions[last]}"
        )
    unfair = diagnostics["unfairness"]
    what = "among positives" if model.criterion == "opportunity" else "given each label"
    click.echo(f"unfairness {what}: {unfair['before']:.4f} before, {unfair['after']:.4f} after")
    expected = diagnostics["expected"]
    click.echo(
        f"expected: {100 * expected['positives']:.2f} % positives, AUC {expected['auc']:.4f}, "
        f"scores move by {expected['movement']:.3g} on average"
    )
    solver = diagnostics.get("solver", {})
    if "certified" in solver:
        proof = "to a millionth" if solver["gap"] < 1e-6 else f"within {100 * solver['gap']:.1g} %"
        certain = (
            f"certified {proof} of the optimum"
            if solver["certified"]
            else f"not certified, gap {solver['gap']:.2g}"
        )
        click.echo(f"least movement: {certain}")
    for note in diagnostics["notes"]:
        click.echo(f"note: {note}")
