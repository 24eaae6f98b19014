"""The command line: parse, call, print, exit code. Nothing here computes.

Exit codes: 0 done, 1 an audit or a comparison crossed its threshold, 2 bad input or usage.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Sequence

import click

from evenodds._version import __version__
from evenodds.cli.console import discard_notes, explain_warning, one_line, print_notes
from evenodds.errors import EvenoddsError

COMMANDS = {
    "demo": ("evenodds.cli.demo", "the paper's simulation, start to finish"),
    "simulate": ("evenodds.cli.simulate", "write a simulated log"),
    "tally": ("evenodds.cli.tally", "count a log: all that is ever learned from rows"),
    "merge": ("evenodds.cli.tally", "add tallies up"),
    "audit": ("evenodds.cli.audit", "how unfair is it, and how sure is that?"),
    "fit": ("evenodds.cli.fit", "learn the correction"),
    "report": ("evenodds.cli.report", "one page for people: what is unfair, and what a fix costs"),
    "forecast": ("evenodds.cli.forecast", "before launch: what the correction will do"),
    "apply": ("evenodds.cli.apply", "add fair scores and positions to a log"),
    "serve": ("evenodds.cli.serve", "fair scores over HTTP, inside a request"),
    "feedback": ("evenodds.cli.feedback", "look after what a server has recorded"),
    "export": ("evenodds.cli.export", "the correction for another stack: ONNX, SQL, JSON"),
    "experiment": ("evenodds.cli.experiment", "after launch: read out an A/B test"),
    "drift": ("evenodds.cli.drift", "is the correction still fair?"),
    "stream": ("evenodds.cli.stream", "keep counts and models current, on Spark"),
    "versions": ("evenodds.cli.versions", "the models of a stream: list, pin, roll back"),
    "causal": ("evenodds.cli.causal", "why it is unfair: open paths in a graph"),
    "reproduce": ("evenodds.cli.reproduce", "the paper's study, claim by claim"),
}


class _Lazy(click.Group):
    """Imports a command when it is called, so that --help answers at once."""

    def list_commands(self, _ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, _ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        from importlib import import_module

        command: click.Command = getattr(import_module(COMMANDS[cmd_name][0]), f"{cmd_name}_command")
        return command

    def format_commands(self, _ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, said) for name, (_, said) in COMMANDS.items()])

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        from evenodds.errors import nearest

        if args and args[0] not in COMMANDS and not args[0].startswith("-"):
            close = nearest(args[0], COMMANDS)
            hint = f"did you mean {close}?" if close else f"commands: {', '.join(COMMANDS)}"
            raise click.UsageError(f"no command {args[0]!r} (hint: {hint})", ctx)
        return super().resolve_command(ctx, args)


@click.group(cls=_Lazy, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, message="evenodds %(version)s")
def cli() -> None:
    """Make any ranking fair to equally qualified people, from nothing but its logs.

    \b
    A log has one row for each time an item was shown: its score, its group,
    its label (1 = clicked, hired, ...), and where known its position and query.

    \b
      evenodds demo                              the whole story on simulated data
      evenodds audit log.parquet                 how unfair is it?
      evenodds fit log.parquet -o model.json     learn the correction
      evenodds report model.json log.parquet -o report.html
      evenodds apply model.json log.parquet -o fair.parquet

    Columns named score, group, label, position, query, item and weight are found by themselves;
    other names are given as --score NAME and so on.
    """


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and exit."""
    discard_notes()
    warnings.showwarning = explain_warning
    try:
        typed = list(sys.argv[1:] if arguments is None else arguments)
        code = cli.main(list(typed), prog_name="evenodds", standalone_mode=False, obj=typed)
    except EvenoddsError as error:
        one_line(str(error))
        sys.exit(2)
    except click.exceptions.NoArgsIsHelpError as error:
        error.show()
        sys.exit(2)
    except click.ClickException as error:
        where = error.ctx.command_path if isinstance(error, click.UsageError) and error.ctx else "evenodds"
        known = error.format_message().rstrip(".")
        one_line(known if "(hint:" in known else f"{known} (hint: {where} --help)")
        sys.exit(2)
    except click.Abort:
        one_line("stopped; nothing was written")
        sys.exit(130)
    except (BrokenPipeError, KeyboardInterrupt):
        sys.exit(130)
    except MemoryError:
        one_line("out of memory (hint: fewer cells, or a smaller depth)")
        sys.exit(2)
    print_notes()
    sys.exit(code if isinstance(code, int) else 0)
