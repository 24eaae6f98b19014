"""Write the reference when the site is built: every public name and every command, from the program itself."""

from __future__ import annotations

import inspect

import click
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

import evenodds
from evenodds.cli import COMMANDS, cli

# Public names that are imported from their own room, because they need an extra or are for a few only.
ELSEWHERE = (
    "evenodds.serve.Scorer",
    "evenodds.feedback.store.Store",
    "evenodds.feedback.events.ServedList",
    "evenodds.feedback.events.Event",
    "evenodds.feedback.writer.Writer",
    "evenodds.export.to_onnx",
    "evenodds.export.to_sql",
    "evenodds.export.to_json_schema",
    "evenodds.export.uniform_draws",
    "evenodds.causal.compare.Agreement",
    "evenodds.causal.compare.Tested",
    "evenodds.causal.paths.OpenPath",
    "evenodds.causal.graph.CausalGraph",
    "evenodds.causal.simulate.mechanisms",
    "evenodds.privacy.Effect",
)
_WIDTH = 100


def on_files(files: Files, *, config: MkDocsConfig) -> Files:
    """Add the generated pages."""
    for place, text in (("reference/python.md", python()), ("reference/commands.md", commands())):
        files.append(File.generated(config, place, content=text))
    return files


def python() -> str:
    """Return the page of the public names."""
    kinds: dict[str, list[str]] = {"Classes": [], "Functions": [], "Errors and warnings": []}
    for name in evenodds.__all__:
        found = getattr(evenodds, name)
        if inspect.isclass(found):
            kind = "Errors and warnings" if issubclass(found, Exception) else "Classes"
        elif callable(found):
            kind = "Functions"
        else:
            continue
        kinds[kind].append(f"{found.__module__}.{found.__qualname__}")
    for path in ELSEWHERE:
        kinds["Classes" if path.rpartition(".")[2][0].isupper() else "Functions"].append(path)
    parts = [
        "# Python",
        (
            "Every public name. `import evenodds as eo`; all of them are there as `eo.NAME`, but for those that say "
            "where they are. Estimators keep their settings as attributes, and what they learned in attributes that "
            "end in an underscore."
        ),
    ]
    for kind, paths in kinds.items():
        parts.append(f"## {kind}")
        parts += [f"::: {path}" for path in paths]
    return "\n\n".join(parts) + "\n"


def commands() -> str:
    """Return the page of the commands: what `--help` prints."""
    root = click.Context(cli, info_name="evenodds", max_content_width=_WIDTH, terminal_width=_WIDTH)
    parts = [
        "# Commands",
        (
            "What `evenodds COMMAND --help` prints. Exit codes: 0 done, 1 an audit or another gate crossed its "
            "threshold, 2 bad input or usage. An error is one line: what is wrong, where, what was expected, a hint."
        ),
        "## evenodds",
        _fenced(cli.get_help(root)),
    ]
    for name in COMMANDS:
        parts += _command(cli.get_command(root, name), name, root)
    return "\n\n".join(parts) + "\n"


def _command(command: click.Command | None, name: str, above: click.Context) -> list[str]:
    if command is None:
        raise LookupError(name)
    context = click.Context(
        command, info_name=name, parent=above, max_content_width=_WIDTH, terminal_width=_WIDTH
    )
    parts = [f"## {context.command_path}", _fenced(command.get_help(context))]
    if isinstance(command, click.Group):
        for inner in command.list_commands(context):
            parts += _command(command.get_command(context, inner), inner, context)
    return parts


def _fenced(text: str) -> str:
    return f"```text\n{text}\n```"
