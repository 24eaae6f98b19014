"""Read a causal graph."""

from __future__ import annotations

import click

from evenodds.cli.console import print_json
from evenodds.files import check_output


@click.command("causal")
@click.argument("graph")
@click.option("--group", show_default="group, or C", help="Variable that is the group.")
@click.option("--label", show_default="label, or Y", help="Variable that is the label.")
@click.option("--score", show_default="score, or S", help="Variable that is the score.")
@click.option(
    "--log",
    "logs",
    multiple=True,
    type=click.Path(),
    help="Log or tally to hold the graph against; may be given again.",
)
@click.option(
    "--labels",
    type=click.Choice(["merit", "observed"]),
    show_default="merit, if there are positions",
    help="Which labels of the log the graph speaks of.",
)
@click.option("--picture", type=click.Path(), help="Draw the graph, open paths marked: .svg, .png or .dot.")
@click.option("--force", is_flag=True, help="Overwrite the picture if it exists.")
@click.option("--limit", type=int, default=100, show_default=True, help="The most open paths to list.")
@click.option("--json", "as_json", is_flag=True, help="Print the reading as JSON.")
def causal_command(
    graph: str,
    group: str | None,
    label: str | None,
    score: str | None,
    logs: tuple[str, ...],
    labels: str | None,
    picture: str | None,
    force: bool,
    limit: int,
    as_json: bool,
) -> None:
    """Read GRAPH: whether it implies equalized odds, and which open paths break it.

    GRAPH is arrows as text, or a file of them, or a DOT file. Equalized odds is independence of score and
    group given the label, which in a causal graph is d-separation. Each path that is open with the
    label held fixed is listed with its kind, and what the score would have to stop using to close them.

    \b
      evenodds causal "C -> Y -> S; C -> X2 -> S"
      evenodds causal graph.dot --group gender --label hired --score score --picture graph.svg

    With --log the graph is held against data: an audit's distances beside what the arrows imply. The log's
    columns are those named as the variables, or else score, group and label; a log with other names is
    counted first, with evenodds tally.
    """
    from evenodds.causal import causal

    if picture:
        check_output(picture, overwrite=force)
    reading = causal(graph, group=group, label=label, score=score, limit=limit)
    against = reading.compare(_open(list(logs)), **({"kind": labels} if labels else {})) if logs else None
    if picture:
        reading.picture(picture, overwrite=force)
    if as_json:
        print_json(reading.to_dict() | ({"log": against.to_dict()} if against else {}))
        return
    click.echo(str(reading))
    if against:
        click.echo(str(against))
    if picture:
        click.echo(f"wrote {picture}")


def _open(paths: list[str]) -> object:
    """Return tallies, or the paths of a log."""
    from evenodds.tally import Tally
    from evenodds.tally_file import is_tally

    counted = [is_tally(path) for path in paths]
    if any(counted) and not all(counted):
        raise click.UsageError("--log takes logs or tallies, not both", click.get_current_context())
    return [Tally.load(path) for path in paths] if any(counted) else paths
