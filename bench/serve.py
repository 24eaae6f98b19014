"""The server's figures, as ratios measured in one run: `make bench-serve`."""

from __future__ import annotations

import argparse
import asyncio
import tempfile
from pathlib import Path

import msgspec
import numpy as np

import evenodds as eo
from load import Load, drive, http_request
from run import four_groups
from serving import Server, server

_REQUESTS = 200  # different bodies


def bodies(rng: np.random.Generator, size: int = 100, count: int = _REQUESTS) -> list[dict[str, object]]:
    """Return requests of so many candidates, with text ids and groups."""
    names = np.array(["women", "men", "other", "unsaid"])
    return [
        {
            "key": f"request{number}",
            "ids": [f"item{item}" for item in rng.integers(0, 1_000_000, size)],
            "scores": rng.normal(0.5, 1.0, size).tolist(),
            "groups": names[rng.integers(0, 4, size)].tolist(),
        }
        for number in range(count)
    ]


def reranks(rng: np.random.Generator) -> list[bytes]:
    """Return the same as HTTP requests."""
    return [
        http_request("POST", "/rerank", msgspec.json.encode(body), content_type="application/json")
        for body in bodies(rng)
    ]


def measure(running: Server, requests: list[bytes], seconds: float, connections: int) -> tuple[Load, float]:
    """Load the server for a while; return also the processor time of an answer."""
    before = running.cpu()
    driven = drive(running.port, requests, connections=connections, seconds=seconds)
    try:
        import uvloop

        load = uvloop.run(driven)
    except ModuleNotFoundError:
        load = asyncio.run(driven)
    return load, (running.cpu() - before) / len(load.latencies)


def main() -> None:
    """Measure, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--seconds", type=float, default=1.0)
    parser.add_argument("--connections", type=int, default=8)
    parser.add_argument("--log", default="all", choices=["all", "events", "none"])
    options = parser.parse_args()
    rng = np.random.default_rng(0)
    hello = [http_request("GET", "/healthz")]
    print(
        f"{'one worker, 100 candidates, ' + str(options.connections) + ' connections':<52} {'ratio':>6}  limit"
    )
    with tempfile.TemporaryDirectory() as folder:
        for name, unfitted in (("opportunity", eo.EqualOpportunity()), ("odds", eo.EqualizedOdds())):
            path = Path(folder, f"{name}.json")
            four_groups(10, rng, unfitted)[2].save(path)
            with server(path, "--log", options.log) as running:
                asked = reranks(rng)
                measure(running, asked, 0.5, options.connections)
                rounds = [
                    (
                        measure(running, hello, options.seconds, options.connections),
                        measure(running, asked, options.seconds, options.connections),
                    )
                    for _ in range(options.rounds)
                ]
            report(name, rounds)


def report(name: str, rounds: list[tuple[tuple[Load, float], tuple[Load, float]]]) -> None:
    """Print ratios of the best rounds: other work on the machine can only slow a round down."""
    idle = max((pair[0][0] for pair in rounds), key=lambda load: load.rate)
    work = max((pair[1][0] for pair in rounds), key=lambda load: load.rate)
    idle_cpu, work_cpu = (min(pair[which][1] for pair in rounds) for which in (0, 1))
    rate, cpu, tail = work.rate / idle.rate, idle_cpu / work_cpu, work.quantile(0.99) / work.quantile(0.5)
    failed = sum(
        count
        for pair in rounds
        for load, _ in pair
        for status, count in load.statuses.items()
        if status != 200
    )
    for what, ratio, limit, note in (
        ("requests a second / hello's", rate, ">= 0.35", f"{work.rate:,.0f} / {idle.rate:,.0f}"),
        (
            "  processor time of hello / of a request",
            cpu,
            "",
            f"{idle_cpu * 1e6:.0f} us / {work_cpu * 1e6:.0f} us",
        ),
        (
            "p99 / p50",
            tail,
            "<= 5",
            f"{work.quantile(0.99) * 1e6:,.0f} us / {work.quantile(0.5) * 1e6:,.0f} us",
        ),
    ):
        print(f"{name + ': ' + what:<52} {ratio:>6.2f}  {limit:<8} {note}", flush=True)
    if failed:
        raise SystemExit(f"{failed} requests failed")


if __name__ == "__main__":
    main()
