"""Options that say which model to fit, and the model that they ask for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from evenodds.cli.options import parse_bias
from evenodds.reranker import Reranker

Command = TypeVar("Command", bound=Callable[..., Any])

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


def model_options(command: Command) -> Command:
    """Add the settings of both criteria."""
    for option in reversed(
        (
            click.option(
                "--criterion",
                type=click.Choice(["opportunity", "odds"]),
                default="opportunity",
                show_default=True,
                help="Equal for positives only, or given each label.",
            ),
            click.option(
                "--alpha",
                type=float,
                default=1.0,
                show_default=True,
                help="How far to go: 0 not at all, 1 all the way.",
            ),
            click.option(
                "--min-positives",
                type=int,
                default=50,
                show_default=True,
                help="Groups with fewer share one map.",
            ),
            click.option(
                "--unknown",
                type=click.Choice(["pooled", "keep", "error"]),
                default="pooled",
                show_default=True,
                help="What null or unseen groups get when the model is applied.",
            ),
            click.option(
                "--scale",
                type=click.Choice(["original", "unit"]),
                default="original",
                show_default=True,
                help="[opportunity] Scale of the fair score.",
            ),
            click.option(
                "--points",
                type=int,
                default=10_000,
                show_default=True,
                help="[opportunity] Points that stand for each map.",
            ),
            click.option(
                "--interpolation",
                type=click.Choice(["linear", "cubic"]),
                default="linear",
                show_default=True,
                help="[opportunity] What lies between them.",
            ),
            click.option("--bins", type=int, default=100, show_default=True, help="[odds] Score bins."),
            click.option(
                "--binning",
                type=click.Choice(["quantile", "equal"]),
                default="quantile",
                show_default=True,
                help="[odds] Bins of equal mass or of equal width.",
            ),
            click.option(
                "--objective",
                type=click.Choice(["movement", "auc"]),
                default="movement",
                show_default=True,
                help="[odds] Move scores least, or reach the best shared ROC curve.",
            ),
            click.option(
                "--order",
                type=click.Choice(["likelihood", "score"]),
                default="likelihood",
                show_default=True,
                help="[odds, auc] Exact in the bins, or true to the order of scores.",
            ),
            click.option(
                "--target",
                type=click.Choice(["merit", "observed"]),
                default="merit",
                show_default=True,
                help="[odds] Labels at the top position, or as they will be logged.",
            ),
            click.option(
                "--epsilon",
                help="[odds] Allow ratios up to exp(epsilon): one number, or one a label as inf,0.1.",
            ),
            click.option(
                "--cost",
                type=click.Choice(["score", "rank"]),
                default="score",
                show_default=True,
                help="[odds] What a move costs.",
            ),
            click.option(
                "--within",
                type=click.Choice(["empirical", "uniform"]),
                default="empirical",
                show_default=True,
                help="[odds] How the point in a bin is drawn.",
            ),
            click.option(
                "--keep-order",
                is_flag=True,
                help="[odds] Leave items that stay in their bin in order, where harmless.",
            ),
            click.option(
                "--gap",
                type=float,
                default=1e-4,
                show_default=True,
                help="[odds] Certified gap of the movement.",
            ),
            click.option(
                "--time-limit",
                type=float,
                default=120.0,
                show_default=True,
                help="[odds] Seconds for the solver.",
            ),
        )
    ):
        command = option(command)
    return command


def unfitted(context: click.Context, criterion: str, options: dict[str, Any]) -> Reranker:
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
