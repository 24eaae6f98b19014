"""Learn a correction."""

from __future__ import annotations

from typing import Any

import click

from evenodds.cli.console import print_json
from evenodds.cli.options import (
    Counting,
    bias_options,
    column_options,
    count,
    counting_options,
    file_size,
    output_options,
    parse_bias,
)
from evenodds.files import check_output
from evenodds.reranker import Reranker


@click.command("fit")
@click.argument("logs", nargs=-1, required=True)
@output_options("the model (.json)")
@click.option(
    "--criterion",
    type=click.Choice(["opportunity"]),
    default="opportunity",
    show_default=True,
    help="What to make equal.",
)
@click.option(
    "--alpha",
    type=float,
    default=1.0,
    show_default=True,
    help="How far to go: 0 leaves scores, 1 is all the way.",
)
@click.option(
    "--scale",
    type=click.Choice(["original", "unit"]),
    default="original",
    show_default=True,
    help="Scale of the fair score.",
)
@click.option(
    "--points", type=int, default=10_000, show_default=True, help="Points that stand for each function."
)
@click.option(
    "--interpolation",
    type=click.Choice(["linear", "cubic"]),
    default="linear",
    show_default=True,
    help="What lies between them.",
)
@click.option(
    "--min-positives", type=int, default=50, show_default=True, help="Groups with fewer share the pooled map."
)
@click.option(
    "--unknown",
    type=click.Choice(["pooled", "keep", "error"]),
    default="pooled",
    show_default=True,
    help="What unseen groups get.",
)
@bias_options
@column_options
@counting_options
@click.option("--json", "as_json", is_flag=True, help="Print the diagnostics as JSON.")
def fit_command(
    logs: tuple[str, ...], out: str, force: bool, criterion: str, as_json: bool, **options: Any
) -> None:
    r"""Learn a correction from LOGS or tallies and write it as a model.

    Equality of opportunity: among positives, the fair score has one distribution for all groups,
    so that equally qualified people are shown alike at every threshold and every position.

    \b
      evenodds fit log.parquet -o model.json
      evenodds fit day*.tally -o model.json --alpha 0.5
    """
    from evenodds.opportunity import EqualOpportunity

    check_output(out, overwrite=force)
    counting = Counting.take(options)
    model = EqualOpportunity(**{**options, "position_bias": parse_bias(options["position_bias"])})
    model.check_settings()
    model.fit(count(logs, counting))
    model.save(out, overwrite=force)
    if as_json:
        print_json(
            {
                "out": out,
                "criterion": criterion,
                "diagnostics": model.diagnostics_,
                "position_bias": model.position_bias_.to_dict(),
            }
        )
        return
    describe(model)
    click.echo(f"wrote {out} ({file_size(out)})")


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
    click.echo(f"unfairness among positives: {unfair['before']:.4f} before, {unfair['after']:.4f} after")
    for note in diagnostics["notes"]:
        click.echo(f"note: {note}")
