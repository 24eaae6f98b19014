"""Write the output of every command in the README below it: run after anything they print has changed."""

from __future__ import annotations

import re
import shutil
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]


def main() -> None:
    """Run the console blocks in a folder of their own, and put what they print into the README."""
    sys.path.insert(0, str(ROOT / "tests"))
    from test_readme import commands, run  # type: ignore[import-not-found]  # the test that keeps it true

    with tempfile.TemporaryDirectory() as folder:
        shutil.copytree(ROOT / "examples", Path(folder, "examples"))

        def renew(block: re.Match[str]) -> str:
            shown = [f"$ {command}\n{run(command, Path(folder))}" for command, _ in commands(block.group(1))]
            return f"```console\n{''.join(shown)}```"

        readme = ROOT / "README.md"
        readme.write_text(
            re.sub(r"```console\n(.*?)```", renew, readme.read_text("utf-8"), flags=re.DOTALL), "utf-8"
        )


if __name__ == "__main__":
    main()
