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

OPPORTUNITY = ("scale", "points", "interpolation")
ODDS = (
    "bins",
    "binning",
    "objective",
    "target",
    "epsilon",
    "cost",
    "within",
    "keep_order",
    "gap",
    "time_limit",
)


@click.command("fit")
@click.argument("logs", nargs=-1, required=True)
@output_options("the model (.json)")
@click.option(
    "--criterion",
    type=click.Choice(["opportunity", "odds"]),
    default="opportunity",
    show_default=True,
    help="Equal for positives only, or given each label.",
)
@click.option(
    "--alpha", type=float, default=1.0, show_default=True, help="How far to go: 0 not at all, 1 all the way."
)
@click.option(
    "--min-positives", type=int, default=50, show_default=True, help="Groups with fewer share one map."
)
@click.option(
    "--unknown",
    type=click.Choice(["pooled", "keep", "error"]),
    default="pooled",
    show_default=True,
    help="What null or unseen groups get when the model is applied.",
)
@click.option(
    "--scale",
    type=click.Choice(["original", "unit"]),
    default="original",
    show_default=True,
    help="[opportunity] Scale of the fair score.",
)
@click.option(
    "--points",
    type=int,
    default=10_000,
    show_default=True,
    help="[opportunity] Points that stand for each map.",
)
@click.option(
    "--interpolation",
    type=click.Choice(["linear", "cubic"]),
    default="linear",
    show_default=True,
    help="[opportunity] What lies between them.",
)
@click.option("--bins", type=int, default=100, show_default=True, help="[odds] Score bins.")
@click.option(
    "--binning",
    type=click.Choice(["quantile", "equal"]),
    default="quantile",
    show_default=True,
    help="[odds] Bins of equal mass or of equal width.",
)
@click.option(
    "--objective",
    type=click.Choice(["movement", "auc"]),
    default="movement",
    show_default=True,
    help="[odds] Move scores least, or reach the best shared ROC curve.",
)
@click.option(
    "--order",
    type=click.Choice(["likelihood", "score"]),
    default="likelihood",
    show_default=True,
    help="[odds, auc] Exact in the bins, or true to the order of scores.",
)
@click.option(
    "--target",
    type=click.Choice(["merit", "observed"]),
    default="merit",
    show_default=True,
    help="[odds] Labels at the top position, or as they will be logged.",
)
@click.option(
    "--epsilon", help="[odds] Allow ratios up to exp(epsilon): one number, or one a label as inf,0.1."
)
@click.option(
    "--cost",
    type=click.Choice(["score", "rank"]),
    default="score",
    show_default=True,
    help="[odds] What a move costs.",
)
@click.option(
    "--within",
    type=click.Choice(["empirical", "uniform"]),
    default="empirical",
    show_default=True,
    help="[odds] How the point in a bin is drawn.",
)
@click.option(
    "--keep-order", is_flag=True, help="[odds] Leave items that stay in their bin in order, where harmless."
)
@click.option(
    "--gap", type=float, default=1e-4, show_default=True, help="[odds] Certified gap of the movement."
)
@click.option(
    "--time-limit", type=float, default=120.0, show_default=True, help="[odds] Seconds for the solver."
)
@bias_options
@column_options
@counting_options
@click.option("--json", "as_json", is_flag=True, help="Print the diagnostics as JSON.")
@click.pass_context
def fit_command(
    context: click.Context,
    /,
    logs: tuple[str, ...],
    out: str,
    force: bool,
    criterion: str,
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
    """
    check_output(out, overwrite=force)
    counting = Counting.take(options)
    model = _unfitted(context, criterion, options)
    model.check_settings()
    model.fit(count(logs, counting))
    model.save(out, overwrite=force)
    if as_json:
        bias = model.position_bias_.to_dict()
        print_json(
            {"out": out, "criterion": criterion, "diagnostics": model.diagnostics_, "position_bias": bias}
        )
        return
    describe(model)
    click.echo(f"wrote {out} ({file_size(out)})")


def _unfitted(context: click.Context, criterion: str, options: dict[str, Any]) -> Reranker:
    """Make the model that the options ask for; refuse options of the other criterion."""
    own, other = (ODDS, OPPORTUNITY) if criterion == "odds" else (OPPORTUNITY, ODDS)
    given = click.core.ParameterSource.COMMANDLINE
    stray = [name for name in other if context.get_parameter_source(name) == given]
    if stray:
        listed = ", ".join(f"--{name.replace('_', '-')}" for name in stray)
        raise click.UsageError(f"{listed} does not go with --criterion {criterion}", context)
    settings = {name: options[name] for name in (*own, "alpha", "min_positives", "unknown")}
    settings["position_bias"] = parse_bias(options["position_bias"])
    if criterion == "opportunity":
        from evenodds.opportunity import EqualOpportunity

        return EqualOpportunity(**settings)
    from evenodds.odds.equalized import EqualizedOdds

    return EqualizedOdds(**{**settings, "epsilon": _epsilon(options["epsilon"])})


def _epsilon(text: str | None) -> float | list[float] | None:
    if text is None:
        return None
    try:
        values = [float(part) for part in text.split(",")]
    except ValueError:
        raise click.UsageError(f"--epsilon {text!r}: expected a number, or one a label as inf,0.1") from None
    return values[0] if len(values) == 1 else values


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
