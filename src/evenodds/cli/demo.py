"""The whole story on simulated data."""

from __future__ import annotations

from pathlib import Path

import click

from evenodds.cli.console import command_line, progress
from evenodds.errors import MissingExtraError, OutputError


@click.command("demo")
@click.option(
    "-o",
    "--out",
    default="demo",
    show_default=True,
    type=click.Path(),
    help="Folder for the log, tally, model and page.",
)
@click.option("--queries", type=int, default=100_000, show_default=True, help="Lists in the training log.")
@click.option("--seed", type=int, default=0, show_default=True, help="The same seed gives the same numbers.")
@click.option("--force", is_flag=True, help="Overwrite files in the folder.")
@click.pass_context
def demo_command(ctx: click.Context, /, out: str, queries: int, seed: int, force: bool) -> None:
    """Run the paper's simulation: log a biased ranking, learn the correction, rank fresh lists fairly.

    Two groups; the model scores one of them too high; users look at the top of the list. The clicks on
    the fresh lists are drawn anew, at the positions that the fair ranking gives. The page that it ends
    with needs the extra "report".

    \b
      evenodds demo --queries 20000
    """
    from evenodds.files import check_output
    from evenodds.opportunity import EqualOpportunity
    from evenodds.report.make import report
    from evenodds.simulate import draw_population, outcome_on_fresh_lists, write_simulated
    from evenodds.tally import tally

    folder = Path(out)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OutputError(f"cannot make the folder {folder}: {error.strerror}") from None
    log, counts, model_file = (
        folder / "impressions.parquet",
        folder / "impressions.tally",
        folder / "model.json",
    )
    page = folder / "report.html"
    for path in (log, counts, model_file, page):
        check_output(path, overwrite=force)
    with progress("simulating", queries * 50) as tick:
        write_simulated(log, queries, seed=seed, overwrite=force, progress=tick)
    with progress("counting", queries * 50) as tick:
        counted = tally(log, progress=tick)
    counted.save(counts, overwrite=force)
    model = EqualOpportunity().fit(counted)
    model.save(model_file, overwrite=force)
    population = draw_population(seed=seed)
    before = outcome_on_fresh_lists(population, seed=seed)
    after = outcome_on_fresh_lists(population, model.transform, seed=seed)
    bias = model.position_bias_
    at = {int(position): float(weight) for position, weight in zip(bias.positions, bias.weights, strict=True)}
    click.echo(f"simulated {counted.rows:,} impressions in {queries:,} lists, two groups, 50 slots")
    click.echo(
        f"position bias from these clicks: {at[2]:.3f} at slot 2 (truth 0.631), {at[10]:.3f} at slot 10 (truth 0.289)"
    )
    click.echo("50,000 fresh lists, ranked anew, clicks drawn anew:       before    after")
    click.echo(
        f"  unfairness among positives (Kolmogorov-Smirnov)         {before.observed[1]:.4f}   {after.observed[1]:.4f}"
    )
    click.echo(
        f"  share of items clicked                                  {before.click_rate:.4f}   {after.click_rate:.4f}"
    )
    click.echo(f"wrote {log}, {counts}, {model_file}")
    try:
        report(counted, model, page, overwrite=force, command=command_line(ctx))
    except MissingExtraError as error:
        click.echo(f"no page: {error}")
    else:
        click.echo(f"wrote {page}: open it in a browser")
