"""Export a model to another stack."""

from __future__ import annotations

import click
from click.core import ParameterSource

from evenodds.cli.options import file_size, output_options

TARGETS = ("onnx", "sql", "json-schema")
_OF_SQL = ("dialect", "name", "table", "score", "group", "key")
_OF_SPARK = ("table", "score", "group", "key")


@click.command("export")
@click.argument("model", type=click.Path())
@click.option("--to", "target", required=True, metavar="|".join(TARGETS), help="What to make.")
@output_options("the file (.onnx, .sql), or the folder of a json-schema")
@click.option("--dialect", default="duckdb", show_default=True, help="For sql: duckdb or spark.")
@click.option(
    "--name",
    default="fair_score",
    show_default=True,
    help="For sql: the macro, or the view's new column; tables begin with it.",
)
@click.option("--table", default="log", show_default=True, help="For Spark: the table to be scored.")
@click.option("--score", show_default="the model's", help="For Spark: its column with the score.")
@click.option(
    "--group", multiple=True, show_default="the model's", help="For Spark: its columns with the group."
)
@click.option(
    "--key",
    multiple=True,
    show_default="query and item",
    help="For Spark: columns that make a random draw repeat itself.",
)
@click.pass_context
def export_command(
    ctx: click.Context,
    /,
    model: str,
    target: str,
    out: str,
    force: bool,
    dialect: str,
    name: str,
    table: str,
    score: str | None,
    group: tuple[str, ...],
    key: tuple[str, ...],
) -> None:
    """Write MODEL for another stack; each gives the fair scores that evenodds gives.

    \b
    onnx          scores and group codes in, fair scores out (pip install 'evenodds[export]')
    sql           a script for DuckDB (a macro) or Spark (a view), keyed draws included
    json-schema   a folder: the schema of model files, and golden vectors of this model,
                  to write a reader in any language and to check every step of it

    \b
      evenodds export model.json --to onnx -o model.onnx
      evenodds export model.json --to sql -o model.sql
      evenodds export model.json --to sql --dialect spark --table log -o model.sql
      evenodds export model.json --to json-schema -o reader
    """
    from evenodds.errors import nearest
    from evenodds.files import check_output
    from evenodds.reranker import load

    if target not in TARGETS:
        close = nearest(target, TARGETS)
        hint = f"did you mean {close}?" if close else f"targets: {', '.join(TARGETS)}"
        raise click.UsageError(f"no export to {target!r} (hint: {hint})", ctx)
    _refuse(ctx, _OF_SQL if target != "sql" else _OF_SPARK if dialect == "duckdb" else (), target, dialect)
    if target == "json-schema":
        from evenodds.export.reader import NAMES, check_folder, to_json_schema

        check_folder(out, overwrite=force)
        to_json_schema(load(model), out, overwrite=force)
        click.echo(f"wrote {out}: {', '.join(NAMES)}")
        return
    check_output(out, overwrite=force)
    fitted = load(model)
    if target == "onnx":
        from evenodds.export.onnx import to_onnx

        to_onnx(fitted, out, overwrite=force)
        inputs = "scores, groups and draws" if fitted.draws_ else "scores and groups"
        click.echo(f"wrote {out}: {inputs} in, fair_scores out ({file_size(out)})")
    else:
        from evenodds.export.sql import to_sql, view_name

        to_sql(
            fitted,
            out,
            dialect=dialect,
            name=name,
            table=table,
            score=score,
            group=group,
            keys=key,
            overwrite=force,
        )
        made = f"the macro {name}" if dialect == "duckdb" else f"the view {view_name(table, name)}"
        click.echo(f"wrote {out}: {made} ({file_size(out)})")


def _refuse(context: click.Context, names: tuple[str, ...], target: str, dialect: str) -> None:
    """Say that an option has no effect here."""
    given = [name for name in names if context.get_parameter_source(name) is ParameterSource.COMMANDLINE]
    if given:
        listed = ", ".join(f"--{name}" for name in given)
        what = (
            f"--to {target}"
            if target != "sql"
            else f"--dialect {dialect}: the macro takes columns as arguments"
        )
        raise click.UsageError(f"{listed} has no effect with {what}", context)
