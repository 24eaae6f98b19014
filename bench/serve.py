"""The server's figures, as ratios measured in one run: `make bench-serve`."""

from __future__ import annotations

import argparse
import asyncio
import statistics
import tempfile
from pathlib import Path

import msgspec
import numpy as np

import evenodds as eo
from load import Load, drive, http_request
from run import four_groups
from serving import server

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


def measure(port: int, requests: list[bytes], seconds: float, connections: int) -> Load:
    """Load the server for a while."""
    try:
        import uvloop

        return uvloop.run(drive(port, requests, connections=connections, seconds=seconds))
    except ModuleNotFoundError:
        return asyncio.run(drive(port, requests, connections=connections, seconds=seconds))


def main() -> None:
    """Measure, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--connections", type=int, default=8)
    parser.add_argument("--log", default="all", choices=["all", "events", "none"])
    options = parser.parse_args()
    rng = np.random.default_rng(0)
    hello = [http_request("GET", "/healthz")]
    with tempfile.TemporaryDirectory() as folder:
        for name, unfitted in (("opportunity", eo.EqualOpportunity()), ("odds", eo.EqualizedOdds())):
            path = Path(folder, f"{name}.json")
            four_groups(10, rng, unfitted)[2].save(path)
            with server(path, "--log", options.log) as running:
                asked = reranks(rng)
                measure(running.port, asked, 0.5, options.connections)
                rounds = [
                    (
                        measure(running.port, hello, options.seconds, options.connections),
                        measure(running.port, asked, options.seconds, options.connections),
                    )
                    for _ in range(options.rounds)
                ]
            ratio = statistics.median(work.rate / idle.rate for idle, work in rounds)
            tail = statistics.median(work.quantile(0.99) / work.quantile(0.5) for _, work in rounds)
            idle, work = rounds[len(rounds) // 2]
            failed = sum(
                count
                for pair in rounds
                for load in pair
                for status, count in load.statuses.items()
                if status != 200
            )
            print(
                f"{name:<12} requests/s / hello's  {ratio:5.2f}  >= 0.35   "
                f"{work.rate:,.0f} / {idle.rate:,.0f}   p99 / p50  {tail:5.2f}  <= 5   "
                f"{work.quantile(0.99) * 1e6:,.0f} / {work.quantile(0.5) * 1e6:,.0f} us   failed {failed}",
                flush=True,
            )


if __name__ == "__main__":
    main()
