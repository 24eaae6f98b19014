"""Read out an A/B test."""

from __future__ import annotations

import click

from evenodds.cli.console import print_result, progress
from evenodds.cli.options import Duration


@click.command("experiment")
@click.argument("logs", nargs=-1, required=True)
@click.option("--arm", default="arm", show_default=True, help="Column with the arm a row was shown under.")
@click.option("--unit", default="member", show_default=True, help="Column with what was randomised.")
@click.option(
    "--group",
    multiple=True,
    show_default="group",
    help="Column with the group; several are crossed.",
)
@click.option(
    "--metric",
    default="label",
    show_default=True,
    help="Columns to compare, with commas between: outcomes, or any numbers.",
)
@click.option("--control", show_default="control, else the first by name", help="The arm to compare with.")
@click.option("--split", show_default="equal", help="Planned shares of units, as control=90,fair=10.")
@click.option(
    "--group-of",
    type=click.Choice(["auto", "item", "unit"]),
    default="auto",
    show_default=True,
    help="Whose groups they are: those of the items shown, or of the units.",
)
@click.option(
    "--confidence", type=float, default=0.95, show_default=True, help="Confidence of the intervals."
)
@click.option(
    "--settle",
    type=Duration(),
    show_default="1h",
    help="Feedback stores: age at which a served list counts, as 90s, 15m, 1h, 30d.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the readout as JSON.")
def experiment_command(
    logs: tuple[str, ...],
    arm: str,
    unit: str,
    group: tuple[str, ...],
    metric: str,
    control: str | None,
    split: str | None,
    group_of: str,
    confidence: float,
    settle: float | None,
    as_json: bool,
) -> None:
    """Read out an A/B test from LOGS: lift, interval and p-value by group and metric.

    Units are what was randomised, members for instance; rows of one unit belong together. p-values are
    corrected for all comparisons together (Holm), and the arms' sizes are checked against the plan.

    \b
      evenodds experiment log.parquet --arm arm --unit member --metric sent,accepted
    """
    from evenodds.experiment import experiment
    from evenodds.sources import open_source

    rows = open_source(list(logs), settle=settle).rows
    with progress("reading", rows) as tick:
        result = experiment(
            list(logs),
            arm=arm,
            unit=unit,
            group=group or None,
            metrics=[name.strip() for name in metric.split(",") if name.strip()],
            control=control,
            split=None if split is None else _split(split),
            group_of=group_of,
            confidence=confidence,
            settle=settle,
            progress=tick,
        )
    print_result(result, as_json=as_json)


def _split(text: str) -> dict[str, float]:
    try:
        parts = [part.rsplit("=", 1) for part in text.split(",")]
        return {name.strip(): float(share) for name, share in parts}
    except ValueError:
        raise click.UsageError(f"--split {text!r}: expected shares like control=90,fair=10") from None
