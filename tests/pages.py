"""Run what stands in a page, and put what it prints below it: the pages are true if nothing changes.

Three kinds of fenced block run, in the order in which they stand, in one folder a page that holds a copy
of `examples`:

- ``console``: lines that begin with ``$ ``, each followed by what the command prints;
- ``pycon``: Python with its prompts and its output, one namespace a page;
- ``python``: Python that has to run, in the same namespace, with warnings as errors.

A block that cannot run here has a comment before it, ``<!-- not run: why -->``.
"""

import doctest
import io
import os
import re
import shlex
import shutil
import subprocess
import sys
import traceback
import warnings
from contextlib import chdir, redirect_stderr, redirect_stdout, suppress
from pathlib import Path

ROOT = Path(__file__).parents[1]
FENCE = re.compile(r"^( *)```(console|pycon|python)([^\n]*)\n(.*?)^\1```$", re.DOTALL | re.MULTILINE)
NOT_RUN = re.compile(r"<!-- not run: [^\n]+ -->\s*$")
# The README calls the program as a stranger does; make and the folder of the environment are not under test.
SAME = {"make demo": "evenodds demo --force", ".venv/bin/evenodds": "evenodds"}


def pages():
    """Return every page: the README, and what the site is made of."""
    return [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def runs(text):
    """Return the blocks that run, as pairs of kind and body."""
    return [(m[2], m[4]) for m in FENCE.finditer(text) if not NOT_RUN.search(text, 0, m.start())]


def commands(body):
    """Split a console block into commands and the output that stands below each."""
    parts = re.split(r"^\$ ", body, flags=re.MULTILINE)[1:]
    return [(command.strip(), output) for command, _, output in (part.partition("\n") for part in parts)]


class Session:
    """Where the blocks of one page run."""

    def __init__(self, folder):
        self.folder = Path(folder)
        self.names = {"__name__": "__main__"}
        shutil.copytree(ROOT / "examples", self.folder / "examples", dirs_exist_ok=True)

    def console(self, command):
        """Run a command; return what a terminal shows. evenodds itself runs in this process, to save its start."""
        for shown, meant in SAME.items():
            command = command.replace(shown, meant)
        words = shlex.split(command)
        if words[0] == "evenodds" and not set(words) & {"|", ">", "&&", ";", "&"}:
            return self._evenodds(words[1:])
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        done = subprocess.run(
            ["bash", "-c", command],
            cwd=self.folder,
            env={**os.environ, "PATH": path},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        return done.stdout

    def _evenodds(self, arguments):
        from evenodds.cli import main

        shown = io.StringIO()
        with chdir(self.folder), redirect_stdout(shown), redirect_stderr(shown), warnings.catch_warnings():
            warnings.simplefilter("default")
            with suppress(SystemExit):
                main(arguments)
        return shown.getvalue()

    def pycon(self, body):
        """Run Python typed at a prompt; return the block with what it prints."""
        lines = []
        for part in doctest.DocTestParser().parse(body):
            if not isinstance(part, doctest.Example):
                lines.append(part if part.strip() == "" else "")
                continue
            prompt, *rest = part.source.rstrip("\n").split("\n")
            lines.append("\n".join([f">>> {prompt}", *(f"... {line}".rstrip() for line in rest)]) + "\n")
            lines.append(self._typed(part.source))
        return "".join(lines)

    def _typed(self, source):
        shown = io.StringIO()
        with chdir(self.folder), redirect_stdout(shown), warnings.catch_warnings():
            warnings.simplefilter("default")
            try:
                exec(compile(source, "<page>", "single"), self.names)
            except Exception as error:  # noqa: BLE001  (what a page shows may be an error)
                last = traceback.format_exception_only(error)[-1]
                shown.write(f"Traceback (most recent call last):\n  ...\n{last}")
        return shown.getvalue()

    def python(self, body):
        """Run Python as it stands."""
        with chdir(self.folder), redirect_stdout(io.StringIO()), warnings.catch_warnings():
            warnings.simplefilter("error")
            exec(compile(body, "<page>", "exec"), self.names)


class Transcript(Session):
    """A page whose commands all stand in a script: it runs once, and the page shows parts of what it prints."""

    def __init__(self, folder, script):
        super().__init__(folder)
        shown = super().console(f"bash {script}")
        self.left = commands(shown)

    def console(self, command):
        """Return what the script's next command printed, which must be this one."""
        if not self.left or self.left[0][0] != command:
            found = self.left[0][0] if self.left else "nothing more"
            raise AssertionError(f"the page shows `{command}` where the script runs `{found}`")
        return self.left.pop(0)[1]


def rendered(text, session):
    """Return a page with what its blocks print when they are run."""

    def renew(match):
        indent, kind, rest, body = match.groups()
        if NOT_RUN.search(text, 0, match.start()):
            return match[0]
        plain = re.sub(rf"^{indent}", "", body, flags=re.MULTILINE)
        if kind == "console":
            new = "".join(f"$ {command}\n{session.console(command)}" for command, _ in commands(plain))
        elif kind == "pycon":
            new = session.pycon(plain)
        else:
            session.python(plain)
            new = plain
        new = "".join(
            f"{indent}{line}".rstrip(" ") if line.strip() else line for line in new.splitlines(keepends=True)
        )
        return f"{indent}```{kind}{rest}\n{new}{indent}```"

    return FENCE.sub(renew, text)


def session_of(page, folder):
    """Return where a page's blocks run: those of the tutorial stand in its script."""
    if page.name == "tutorial.md":
        return Transcript(folder, "examples/tutorial/tutorial.sh")
    return Session(folder)
