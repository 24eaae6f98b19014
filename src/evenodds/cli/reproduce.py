"""Repeat the paper's studies."""

from __future__ import annotations

from pathlib import Path
from typing import cast

import click

from evenodds.cli.console import print_json, progress


@click.command("reproduce")
@click.option(
    "--study",
    type=click.Choice(["paper", "network"]),
    default="paper",
    show_default=True,
    help="The simulation study, or a simulated social network.",
)
@click.option(
    "--quick", is_flag=True, help="A small study, inside a minute; too small to decide every claim."
)
@click.option(
    "-o",
    "--out",
    default="reproduced",
    show_default=True,
    type=click.Path(),
    help="Folder for results.json and the pictures.",
)
@click.option("--seed", type=int, default=0, show_default=True, help="The same seed gives the same numbers.")
@click.option("--no-pictures", is_flag=True, help="Write results.json only.")
@click.option("--force", is_flag=True, help="Overwrite files in the folder.")
@click.option("--json", "as_json", is_flag=True, help="Print results.json instead of the claims.")
def reproduce_command(
    study: str, quick: bool, out: str, seed: int, no_pictures: bool, force: bool, as_json: bool
) -> None:
    """Repeat the paper's empirical section, and say which of its claims hold.

    Each claim is decided by a rule that stands in results.json, from replicates of the whole study.
    The pictures need the extra "report".

    \b
      evenodds reproduce --quick
      evenodds reproduce --study network -o network
    """
    from evenodds.reproduce.network_claims import table
    from evenodds.reproduce.pictures import draw
    from evenodds.reproduce.study import (
        Study,
        check_folder,
        reproduce,
        steps,
        timing_table,
        write_results,
    )

    folder, chosen = Path(out), cast("Study", study)
    check_folder(chosen, folder, pictures=not no_pictures, overwrite=force)
    with progress("replicates", steps(chosen, quick=quick)) as tick:
        found = reproduce(chosen, quick=quick, seed=seed, progress=tick)
    written = [write_results(found, folder, overwrite=force)]
    results, timings = found.document["results"], found.document["timings"]
    if as_json:
        print_json(found.document)
    else:
        if quick:
            click.echo("QUICK: fewer lists and replicates; a claim may fail here for want of numbers\n")
        if study == "network":
            click.echo("the paper's logs cannot be had: every number of ours is SIMULATED\n")
            click.echo(table(results) + "\n")
        else:
            size = results["size"]
            click.echo(
                f"{size['replicates']} replicates of {size['training']:,} training and "
                f"{size['validation']:,} validation queries\n"
            )
        for claim in found.claims:
            click.echo(f"{claim}\n")
        if timings is not None:
            click.echo(timing_table(timings) + "\n")
    if not no_pictures:
        written += draw(chosen, results, folder, overwrite=force)
    if not as_json:
        click.echo(f"wrote {', '.join(map(str, written))}")
