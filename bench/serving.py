"""A server of its own for a benchmark: started, waited for, stopped."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

TOKEN = "only for the benchmark"  # noqa: S105  (of a server on loopback that lives for a minute)


@dataclass
class Server:
    """A running server."""

    process: subprocess.Popen[str]
    port: int

    def memory(self) -> float:
        """Return the resident memory of the process and its children, in MB."""
        pids = [self.process.pid, *_children(self.process.pid)]
        return sum(_resident(pid) for pid in pids)

    def cpu(self) -> float:
        """Return the seconds of processor that the process and its children have used."""
        total = 0.0
        for pid in (self.process.pid, *_children(self.process.pid)):
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            total += (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
        return total

    def get(self, path: str) -> bytes:
        """Fetch a path."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=10) as answer:
            content: bytes = answer.read()
        return content

    def post(self, path: str, body: bytes, token: str) -> int:
        """Post with a token; return the status."""
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.port}{path}", data=body, headers={"authorization": f"Bearer {token}"}
        )
        try:
            with urllib.request.urlopen(request, timeout=20) as answer:  # noqa: S310  (a fixed address)
                status: int = answer.status
        except urllib.error.HTTPError as error:
            return error.code
        return status


def _children(pid: int) -> list[int]:
    path = Path(f"/proc/{pid}/task/{pid}/children")
    try:
        direct = [int(child) for child in path.read_text().split()]
    except OSError:
        return []
    return [*direct, *(far for child in direct for far in _children(child))]


def _resident(pid: int) -> float:
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0.0
    found = re.search(r"VmRSS:\s+(\d+)", status)
    return int(found[1]) / 1024 if found else 0.0


@contextmanager
def server(model: Path, *options: str) -> Iterator[Server]:
    """Run `evenodds serve` on a free port."""
    with tempfile.TemporaryFile("w+") as said:
        process = subprocess.Popen(
            [sys.executable, "-m", "evenodds", "serve", str(model), "--port", "0", *options],
            stdout=subprocess.PIPE,
            stderr=said,
            text=True,
            env={**os.environ, "EVENODDS_TOKEN": TOKEN},
        )
        try:
            assert process.stdout is not None  # noqa: S101  (for the type checker)
            line = process.stdout.readline()
            found = re.search(r"http://127\.0\.0\.1:(\d+)", line)
            if found is None:
                process.wait(10)
                said.seek(0)
                raise SystemExit(f"the server did not start: {line}{said.read()}")
            running = Server(process, int(found[1]))
            _wait(running)
            yield running
        finally:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(40)
            except subprocess.TimeoutExpired:
                process.kill()
            if process.stdout is not None:
                process.stdout.close()


def _wait(running: Server) -> None:
    for _ in range(200):
        try:
            running.get("/readyz")
        except OSError:
            time.sleep(0.05)
        else:
            return
    raise SystemExit("the server did not become ready")
