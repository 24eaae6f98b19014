"""Models swapped under load: no failed answer, none of two models mixed. `make reload` takes 60 s and 20 swaps."""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import tempfile
import time
from collections import Counter
from pathlib import Path

import msgspec
import numpy as np

import evenodds as eo
from load import Check, Load, drive, http_request
from run import four_groups
from serve import bodies
from serving import TOKEN, Server, server

Answers = dict[str, list[list[float]]]


def models(folder: Path, rng: np.random.Generator) -> list[Path]:
    """Write three models whose scores differ everywhere, drawn and not."""
    paths = []
    for name, unfitted in (
        ("whole", eo.EqualOpportunity()),
        ("half", eo.EqualOpportunity(alpha=0.5)),
        ("odds", eo.EqualizedOdds(bins=50)),
    ):
        paths.append(folder / f"{name}.json")
        four_groups(10, rng, unfitted)[2].save(paths[-1])
    return paths


def version_of(path: Path) -> str:
    """Return what the server calls a model."""
    checksum: str = json.loads(path.read_text(encoding="utf-8"))["checksum"]
    return checksum.removeprefix("sha256:")[:16]


def expected_answers(paths: list[Path], asked: list[dict[str, object]]) -> Answers:
    """Return each model's fair scores of each list, by the model's version."""
    return {
        version_of(path): [
            eo.load(path)
            .transform(
                body["scores"],
                body["groups"],
                ([body["key"]] * len(body["ids"]), body["ids"]),  # type: ignore[arg-type]
            )
            .tolist()
            for body in asked
        ]
        for path in paths
    }


class Checker:
    """Holds each answer against the model that it names."""

    def __init__(self, expected: Answers, lists: int) -> None:
        self.expected = expected
        self.lists = lists
        self.wrong: list[str] = []
        self.seen: Counter[str] = Counter()

    def __call__(self, number: int, status: int, body: bytes) -> None:
        """Look at one answer; of a batch, at all of its lists."""
        if status != 200:
            self.wrong.append(f"status {status}: {body[:200]!r}")
            return
        said = msgspec.json.decode(body)
        known = self.expected.get(said["model"])
        self.seen[said["model"]] += 1
        if known is None:
            self.wrong.append(f"unknown model {said['model']}")
            return
        if "results" in said:
            first = number * self.lists
            wrong = [
                place
                for place, one in enumerate(said["results"])
                if one["scores"] != known[(first + place) % len(known)]
            ]
        else:
            wrong = [] if said["scores"] == known[number] else [0]
        if wrong:
            self.wrong.append(f"lists {wrong} of request {number} are not by {said['model']}")


def swapping(
    running: Server, paths: list[Path], file: Path, seconds: float, reloads: int
) -> tuple[int, list[str]]:
    """Swap models at even steps, by file and over HTTP in turn, and now and then by rollback."""
    said: list[str] = []
    done = 0
    start = time.perf_counter()
    turns = itertools.cycle(paths[1:] + paths[:1])

    def served() -> str:
        version: str = json.loads(running.get("/model"))["version"]
        return version

    for number in range(reloads):
        time.sleep(max(0.0, start + seconds * (number + 0.5) / reloads - time.perf_counter()))
        before = served()
        path = next(turns)
        if version_of(path) == before:
            path = next(turns)
        posted = 200
        if number % 5 == 4:
            posted = running.post("/model/rollback", b"", TOKEN)
        elif number % 2:
            posted = running.post("/model", path.read_bytes(), TOKEN)
        else:
            aside = file.with_name("aside")
            aside.write_bytes(path.read_bytes())
            aside.replace(file)
        if posted != 200:
            said.append(f"swap {number}: status {posted}")
        for _ in range(200):
            if served() != before:
                done += 1
                break
            time.sleep(0.025)
        if number % 4 == 2:  # a damaged file between two good ones must change nothing
            file.write_text("{", encoding="utf-8")
    return done, said


async def both(
    running: Server,
    paths: list[Path],
    file: Path,
    options: argparse.Namespace,
    requests: list[bytes],
    check: Check,
) -> tuple[Load, int, list[str]]:
    """Load the server and swap its models at once."""
    driving = asyncio.create_task(
        drive(running.port, requests, connections=options.connections, seconds=options.seconds, check=check)
    )
    done, said = await asyncio.to_thread(swapping, running, paths, file, options.seconds, options.reloads)
    return await driving, done, said


def main(arguments: list[str] | None = None) -> None:
    """Swap, load, check, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--reloads", type=int, default=20)
    parser.add_argument("--connections", type=int, default=8)
    parser.add_argument("--workers", type=int, default=2)
    options = parser.parse_args(arguments)
    rng = np.random.default_rng(1)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        paths = models(folder, rng)
        asked = bodies(rng, count=40)
        lists = 4
        file = folder / "served.json"
        file.write_bytes(paths[0].read_bytes())
        single = [msgspec.json.encode(body) for body in asked]
        batches = [
            msgspec.json.encode({"requests": [asked[(first + place) % 40] for place in range(lists)]})
            for first in range(0, 40 * lists, lists)
        ]
        requests = [
            http_request("POST", "/rerank", body, content_type="application/json")
            for pair in zip(single, batches, strict=True)
            for body in pair
        ]
        checker = Checker(expected_answers(paths, asked), lists)

        def check(number: int, status: int, body: bytes) -> None:
            checker(number // 2, status, body)

        with server(file, "--workers", str(options.workers), "--log", "none") as running:
            load, done, said = asyncio.run(both(running, paths, file, options, requests, check))
    wrong = checker.wrong + said
    print(
        f"{options.seconds:g} s, {options.workers} workers, {options.connections} connections: "
        f"{len(load.latencies):,} answers, {done} of {options.reloads} swaps, "
        f"by model {', '.join(f'{count:,}' for count in checker.seen.values())}; "
        f"failed or mixed {len(wrong)}, connections broken {load.broken}"
    )
    for line in wrong[:10]:
        print("  " + line)
    if wrong or load.broken or done < options.reloads:
        raise SystemExit("answers were lost or mixed")


if __name__ == "__main__":
    main()
