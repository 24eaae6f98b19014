"""Write the paper's simulated log."""

from __future__ import annotations

import click

from evenodds.cli.console import progress
from evenodds.cli.options import file_size, output_options


@click.command("simulate")
@output_options("the log (.parquet)")
@click.option("--queries", type=int, default=100_000, show_default=True, help="How many lists are shown.")
@click.option(
    "--list-length", default="50", show_default=True, help="Items in a list: one number, or a range as 10:50."
)
@click.option("--population", type=int, default=50_000, show_default=True, help="How many items there are.")
@click.option("--seed", type=int, default=0, show_default=True, help="The same seed gives the same log.")
def simulate_command(
    out: str, force: bool, queries: int, list_length: str, population: int, seed: int
) -> None:
    """Simulate the paper's impression log: two groups, 50 slots, clicks with position bias.

    \b
      evenodds simulate -o log.parquet --queries 20000
    """
    from evenodds.simulate import write_simulated

    bounds = list_length.split(":")
    if not all(bound.isdigit() for bound in bounds) or len(bounds) > 2:
        raise click.UsageError(
            f"--list-length {list_length!r}: expected a number like 50, or a range like 10:50"
        )
    lengths = (int(bounds[0]), int(bounds[-1]))
    with progress("simulating", queries * sum(lengths) // 2) as tick:
        rows = write_simulated(
            out,
            queries,
            seed=seed,
            list_length=lengths,
            population_size=population,
            overwrite=force,
            progress=tick,
        )
    click.echo(f"wrote {out}: {rows:,} rows, {queries:,} queries ({file_size(out)})")
