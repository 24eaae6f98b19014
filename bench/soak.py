"""Hours of mixed load in minutes: does the server's memory stay flat? `make soak`.

A bounded number of requests, as many as a server of 60 requests a second answers in two hours: lists of
2 to 1,000 candidates in every format, batches, groups nobody has seen, bodies that are no requests, feedback,
scrapes of the metrics, and swaps of the model.
"""

from __future__ import annotations

import argparse
import asyncio
import io
import tempfile
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa

from load import Load, drive, http_request
from reload import models
from serve import bodies
from serving import TOKEN, Server, server

_SAMPLES = 40
_JSON, _MSGPACK = "application/json", "application/msgpack"
_ARROW = "application/vnd.apache.arrow.stream"


def stream(body: dict[str, Any]) -> bytes:
    """Lay a list out as an Arrow stream."""
    size = len(body["scores"])
    table = pa.table(
        {
            "score": body["scores"],
            "group": body["groups"],
            "item": body["ids"],
            "key": [body["key"]] * size,
        }
    )
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue()


def mixture(rng: np.random.Generator, count: int = 3_000) -> list[bytes]:
    """Return so many different requests."""

    def rerank(body: bytes, kind: str = _JSON) -> bytes:
        return http_request("POST", "/rerank", body, content_type=kind)

    sizes = rng.choice([2, 20, 100, 100, 100, 1_000], count)
    requests = []
    for number, size in enumerate(sizes.tolist()):
        body: dict[str, Any] = bodies(rng, size, 1)[0]
        body["key"] = f"request{number}"
        which = number % 12
        if which == 0:
            body["groups"] = [f"never seen {value}" for value in rng.integers(0, 10**9, size)]
        whole = msgspec.json.encode(body)
        if which == 1:
            requests.append(rerank(msgspec.msgpack.encode(body), _MSGPACK))
        elif which == 2:
            requests.append(rerank(stream(body), _ARROW))
        elif which == 3:
            requests.append(rerank(msgspec.json.encode({"requests": bodies(rng, 20, 10)})))
        elif which == 4:
            requests.append(rerank(whole[: len(whole) // 2]))
        elif which == 5:
            requests.append(rerank(msgspec.json.encode({**body, "ids": body["ids"][:-1]})))
        elif which == 6:
            events = [{"key": body["key"], "item": item, "label": 1} for item in body["ids"][:20]]
            requests.append(
                http_request(
                    "POST",
                    "/feedback",
                    msgspec.json.encode({"events": events}),
                    content_type=_JSON,
                    authorization=f"Bearer {TOKEN}",
                )
            )
        elif which == 7 and number % 10 == 7:
            requests.append(http_request("GET", "/metrics"))
        elif which == 8 and number % 10 == 8:
            requests.append(http_request("GET", f"/no/such/path/{number}"))
        else:
            requests.append(rerank(whole))
    return requests


async def soaked(
    running: Server, requests: list[bytes], paths: list[Path], count: int
) -> tuple[Load, list[float]]:
    """Send all, sample the memory at even steps, swap the model now and then."""
    total = Load()
    memory = []
    for step in range(_SAMPLES):
        load = await drive(running.port, requests, count=count // _SAMPLES)
        total.latencies = load.latencies
        total.broken += load.broken
        total.seconds += load.seconds
        for status, answers in load.statuses.items():
            total.statuses[status] = total.statuses.get(status, 0) + answers
        raw = await asyncio.to_thread(paths[step % len(paths)].read_bytes)
        await asyncio.to_thread(running.post, "/model", raw, TOKEN)
        memory.append(await asyncio.to_thread(running.memory))
    return total, memory


def main(arguments: list[str] | None = None) -> None:
    """Soak, print, fail if the memory grows."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--requests", type=int, default=432_000)
    parser.add_argument("--most", type=float, default=0.05, help="growth of memory over the second half")
    options = parser.parse_args(arguments)
    rng = np.random.default_rng(2)
    with tempfile.TemporaryDirectory() as name:
        paths = models(Path(name), rng)
        store = str(Path(name, "feedback.db"))
        with server(paths[0], "--log", "events", "--feedback", store, "--no-feedback-wait") as running:
            load, memory = asyncio.run(soaked(running, mixture(rng), paths, options.requests))
    half = memory[_SAMPLES // 2 :]
    slope = float(np.polyfit(np.arange(len(half)), half, 1)[0]) * len(half)
    growth = slope / float(np.mean(half))
    statuses = ", ".join(f"{status}: {count:,}" for status, count in sorted(load.statuses.items()))
    answers = sum(load.statuses.values())
    print(
        f"{answers:,} answers in {load.seconds:.0f} s ({statuses}), connections broken {load.broken}\n"
        f"memory: {memory[0]:.0f} MB after the first part, {memory[_SAMPLES // 2]:.0f} MB half way, "
        f"{memory[-1]:.0f} MB at the end; "
        f"trend over the second half {100 * growth:+.1f} % (at most {100 * options.most:.0f} %)"
    )
    if growth > options.most or load.broken or any(status >= 500 for status in load.statuses):
        raise SystemExit("the server did not hold")


if __name__ == "__main__":
    main()
