"""Keep a tally, and models, current from a stream."""

from __future__ import annotations

import re
from typing import Any

import click

from evenodds.cli.model_options import model_options, unfitted
from evenodds.cli.options import bias_options, column_options, take_columns
from evenodds.errors import SettingsError
from evenodds.grid import MAX_CELLS
from evenodds.tally import DEPTH, Tally


@click.command("stream")
@click.argument("source")
@click.option(
    "-o", "--out", required=True, type=click.Path(), help="Folder for the counts, models and refused rows."
)
@click.option(
    "--format",
    "form",
    type=click.Choice(["parquet", "json", "csv", "delta", "kafka"]),
    show_default="by the files",
    help="What SOURCE holds.",
)
@click.option(
    "--schema",
    show_default="of the first files",
    help="Columns as SQL names them: 'score double, label int'.",
)
@click.option("--once", is_flag=True, help="Take what is there, then end.")
@click.option("--trigger", default="10 seconds", show_default=True, help="How often to look for new rows.")
@click.option("--max-files", type=int, help="Files (or Kafka offsets) to take into a batch.")
@click.option(
    "--labels", help="Stream of labels that come by themselves: a folder, or kafka://host:port/topic."
)
@click.option("--labels-schema", help="Columns of --labels.")
@click.option("--impression", help="Column with the impression's id, by which labels find it.")
@click.option("--time", help="Column with the time at which a row was shown.")
@click.option("--label-time", show_default="as --time", help="Column with the time of a label.")
@click.option("--wait", default="1 hour", show_default=True, help="How long a label may take; then it is 0.")
@click.option("--watermark", default="10 minutes", show_default=True, help="How late rows may arrive.")
@click.option("--no-doubles", is_flag=True, help="Count impressions with one id once, within the watermark.")
@click.option("--half-life", help="Forget: a row counts half after so long, as '7 days'.")
@click.option("--fit-every", help="Fit a model after so many batches, as 20, or so long, as '30 minutes'.")
@click.option("--fit-on-drift", is_flag=True, help="Fit when the model in use is found to have drifted.")
@click.option(
    "--drift-every", type=int, default=10, show_default=True, help="Look for drift after so many batches."
)
@click.option(
    "--limit", type=float, default=0.05, show_default=True, help="Unfairness that a look puts up with."
)
@click.option("--keep", type=int, default=10, show_default=True, help="Models to keep for rollback.")
@click.option(
    "--max-bad",
    type=float,
    default=0.01,
    show_default=True,
    help="Share of a batch's rows that may be refused; ten always may.",
)
@click.option(
    "--cells", type=int, default=MAX_CELLS, show_default=True, help="Score cells to cut from the first rows."
)
@click.option("--depth", type=int, default=DEPTH, show_default=True, help="Positions past it are pooled.")
@click.option(
    "--grid-from",
    type=click.Path(exists=True, dir_okay=False),
    help="Tally whose score cells to use: safer than those of the first rows.",
)
@click.option("--master", show_default="local[*]", help="Spark's master.")
@click.option("--package", multiple=True, help="Spark package to load, as that of the Kafka connector.")
@click.option("--conf", multiple=True, help="Spark setting, as spark.driver.memory=4g.")
@click.option("--option", "more", multiple=True, help="Option of SOURCE, as kafka.security.protocol=SSL.")
@click.option("--checkpoint", show_default="in the folder", help="Where Spark keeps what it has handed over.")
@column_options
@model_options
@bias_options
@click.pass_context
def stream_command(
    ctx: click.Context,
    /,
    source: str,
    out: str,
    form: str | None,
    schema: str | None,
    once: bool,
    trigger: str,
    max_files: int | None,
    labels: str | None,
    labels_schema: str | None,
    impression: str | None,
    half_life: str | None,
    fit_every: str | None,
    grid_from: str | None,
    master: str | None,
    package: tuple[str, ...],
    conf: tuple[str, ...],
    more: tuple[str, ...],
    checkpoint: str | None,
    criterion: str,
    **options: Any,
) -> None:
    """Keep a tally current from SOURCE: a folder of files, a Delta table, or kafka://host:port/topic.

    Runs on Apache Spark, until it is stopped.

    Every row is counted once, whatever is killed when. The folder holds state.tally, which all other
    commands read; models/current.json, which a server may watch; status.json; and refused rows with
    their reasons under quarantine/. Labels may come later, in a stream of their own.

    \b
      evenodds stream impressions/ -o live --fit-every "30 minutes" --half-life "7 days"
      evenodds stream shown/ --labels clicks/ --impression id --time at --wait "1 hour" -o live
      evenodds serve live/models/current.json
      evenodds versions live --rollback
    """
    from evenodds.engines.streaming_source import Stream
    from evenodds.stream import StreamSettings
    from evenodds.stream.run import Feed, Master, run
    from evenodds.stream.settings import seconds

    columns = take_columns(options)
    if columns.pop("settle") is not None:
        raise click.UsageError("--settle goes with feedback stores; here it is --wait", ctx)
    told = {name: options.pop(name) for name in ("drift_every", "limit", "keep", "max_bad", "cells", "depth")}
    settings = StreamSettings(
        **told,
        fit_on_drift=options.pop("fit_on_drift"),
        half_life=None if half_life is None else seconds(half_life, "--half-life"),
        fit_every=_every(fit_every),
    )
    timing = {name: options.pop(name) for name in ("time", "label_time", "wait", "watermark", "no_doubles")}
    feed = Feed(
        Stream(source, form, schema, max_files, _pairs(more, "--option")),
        columns,
        labels=None if labels is None else Stream(labels, None, labels_schema, max_files),
        key=impression,
        **timing,
    )
    spark = {**_pairs(conf, "--conf"), **({"spark.jars.packages": ",".join(package)} if package else {})}
    unfitted(ctx, criterion, options).check_settings()
    job = run(
        feed,
        out,
        settings,
        lambda: unfitted(ctx, criterion, options),
        spark=Master(master, spark, checkpoint),
        grid=Tally.load(grid_from).grid if grid_from else None,
        trigger=None if once else trigger,
        say=lambda line: click.echo(line, err=True),
    )
    click.echo(f"{out}/state.tally: {job.state.tally.rows:,} rows, up to batch {job.state.facts.batch}")


def _every(text: str | None) -> int | float | None:
    """Read batches, or a span of time."""
    from evenodds.stream.settings import seconds

    if text is None:
        return None
    if re.fullmatch(r"\s*[1-9]\d*\s*", text):
        return int(text)
    try:
        return seconds(text, "--fit-every")
    except SettingsError:
        raise click.UsageError(
            f"--fit-every {text!r}: expected batches as 20, or time as '30 minutes'"
        ) from None


def _pairs(texts: tuple[str, ...], option: str) -> dict[str, str]:
    """Read NAME=VALUE."""
    found = {}
    for text in texts:
        name, sign, value = text.partition("=")
        if not sign or not name:
            raise click.UsageError(f"{option} {text!r}: expected NAME=VALUE")
        found[name] = value
    return found
