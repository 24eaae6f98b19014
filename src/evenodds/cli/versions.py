"""Models that a stream has fitted, and the way back."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import click

from evenodds.cli.console import print_json
from evenodds.errors import EvenoddsError


@click.command("versions")
@click.argument("folder", type=click.Path())
@click.option("--rollback", is_flag=True, help="Put the model before the one in use to use, and pin it.")
@click.option("--use", type=int, help="Put this model to use, and pin it.")
@click.option("--release", is_flag=True, help="Let newer models be put to use again, the newest at once.")
@click.option("--json", "as_json", is_flag=True, help="Print them as JSON.")
def versions_command(folder: str, rollback: bool, use: int | None, release: bool, as_json: bool) -> None:
    """List the models in FOLDER, of `evenodds stream`, or change which is in use.

    The model in use is models/current.json, replaced as a whole. A model that a person chose is pinned:
    newer ones are fitted and kept, and not put to use until it is released.

    \b
      evenodds versions live --rollback
    """
    from evenodds.stream.versions import Versions

    if rollback + (use is not None) + release > 1:
        raise click.UsageError("--rollback, --use and --release exclude each other")
    place = Path(folder)
    if not place.is_dir():
        raise EvenoddsError(f"there is no folder {folder}")
    kept = Versions(place / "models" if (place / "models").is_dir() else place)
    if rollback or use is not None:
        kept.use(use)
    elif release:
        kept.release()
    current, pinned = kept.current, kept.pinned
    if as_json:
        listed = [asdict(version) for version in kept.listed]
        print_json({"current": current and current.number, "pinned": pinned, "versions": listed})
        return
    if current is None:
        click.echo(f"no models in {kept.folder} yet")
        return
    for version in kept.listed:
        mark = (" <- in use, pinned" if pinned else " <- in use") if version == current else ""
        click.echo(f"{version.number:>6}  {version.at}  {version.rows:>14,} rows  {version.reason}{mark}")
