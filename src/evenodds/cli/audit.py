"""Measure unfairness."""

from __future__ import annotations

import math
from typing import Any

import click

from evenodds.cli.console import print_result
from evenodds.cli.options import (
    Counting,
    column_options,
    count,
    counting_options,
    engine_options,
    parse_bias,
)


@click.command("audit")
@click.argument("logs", nargs=-1, required=True)
@click.option("--model", type=click.Path(), help="Model whose fair scores to audit beside the old ones.")
@click.option(
    "--fail-above",
    type=float,
    help="Exit with 1 if unfairness may be larger: the upper end of its 95 % interval counts.",
)
@click.option(
    "--position-bias",
    show_default="as the model did, else joint",
    help="A method to estimate it on these logs, or the weights themselves, as 1,0.63,0.5,...",
)
@column_options
@counting_options
@engine_options
@click.option("--json", "as_json", is_flag=True, help="Print the audit as JSON (docs/audit-schema.md).")
def audit_command(
    logs: tuple[str, ...],
    model: str | None,
    fail_above: float | None,
    position_bias: str | None,
    as_json: bool,
    **options: Any,
) -> int:
    """Measure how unfair LOGS or tallies are, and with --model how unfair they would be.

    Unfairness is the largest Kolmogorov-Smirnov distance between two groups' scores given the label:
    0 when the label alone tells all, 1 when the groups do not overlap. "merit" undoes position bias.
    Intervals are of 95 % and respect queries, where the log names them. --fail-above looks at positives,
    with --model at the labels that the model makes fair; then column names default to the model's.

    \b
      evenodds audit log.parquet --model model.json
      evenodds audit day.tally --model model.json --fail-above 0.05 && deploy
    """
    from evenodds.audit import audit
    from evenodds.reranker import load

    if fail_above is not None and not 0.0 <= fail_above <= 1.0:
        raise click.UsageError(f"--fail-above {fail_above}: expected a distance in 0..1")
    fitted = load(model) if model else None
    method = None if position_bias is None else parse_bias(position_bias)
    like = None if fitted is None else fitted.fitted_on_["roles"]
    result = audit(count(logs, Counting.take(options), like), fitted, position_bias_method=method)
    print_result(result, as_json=as_json)
    if fail_above is None:
        return 0
    most = result.unfairness_at_most(after=fitted is not None)
    # Written so that NaN, nothing known, does not pass.
    if most <= fail_above:
        return 0
    said = "has no upper bound" if math.isnan(most) else f"may be as large as {most:.4f}"
    click.echo(f"evenodds: unfairness {said}; the limit is {fail_above}", err=True)
    return 1
