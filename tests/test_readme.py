"""What the README shows is what the program does."""

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
FENCE = re.compile(r"```(console|python)\n(.*?)```", re.DOTALL)
# The README calls the program as a stranger does; make and the folder of the environment are not under test here.
SAME = {"make demo": "evenodds demo --force", ".venv/bin/evenodds": "evenodds"}


def commands(block: str) -> list[tuple[str, str]]:
    """Split a console block into commands and the output that stands below each."""
    parts = re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]
    return [(command.strip(), output) for command, _, output in (part.partition("\n") for part in parts)]


def run(command: str, folder: Path) -> str:
    for shown, meant in SAME.items():
        command = command.replace(shown, meant)
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        shlex.split(command),
        cwd=folder,
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("readme")
    shutil.copytree(ROOT / "examples", made / "examples")
    return made


def test_commands_print_what_the_readme_shows(folder):
    """Every command in the README runs, in order, and prints the lines that stand below it."""
    blocks = [body for kind, body in FENCE.findall(README) if kind == "console"]
    ran = [(command, shown, run(command, folder)) for block in blocks for command, shown in commands(block)]
    assert len(ran) >= 6
    for command, shown, printed in ran:
        assert shown == printed, command


def test_python_of_the_readme_runs(folder):
    """The Python in the README runs as it stands."""
    blocks = [body for kind, body in FENCE.findall(README) if kind == "python"]
    assert blocks
    for block in blocks:
        subprocess.run(
            [sys.executable, "-W", "error", "-c", block], cwd=folder, check=True, capture_output=True
        )


def test_links_of_the_readme_lead_somewhere():
    """Every file that the README links to exists."""
    for target in re.findall(r"\]\((?!https?:)([^)#]+)\)", README):
        assert (ROOT / target).exists(), target
