"""Feedback under fire: a real server, killed again and again, and every event counted exactly once.

`make bench-feedback`. Clients serve lists and send an event for every item of them; what is not acknowledged
they send again. Meanwhile the server is killed with SIGKILL at random moments and started again. In the
end the store is compared, row by row, with what was sent. A part of the events is sent twice on purpose.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
import numpy as np

import evenodds as eo
from evenodds.feedback import Event, ServedList, Store, Writer, ids
from evenodds.feedback.rows import opened

TOKEN = "a token for the benchmark"  # noqa: S105
ITEMS = 100  # a list
LISTS = 5  # a request
TWICE = 0.05  # share of batches of events that are sent again although they were acknowledged
CLIENTS = 4


@dataclass
class Report:
    """What happened."""

    events: int
    kills: int
    seconds: float = 0.0
    resent: int = 0
    wrong: list[str] = field(default_factory=list)
    waits: list[float] = field(default_factory=list)

    def __str__(self) -> str:
        found = "each counted exactly once" if not self.wrong else f"WRONG: {'; '.join(self.wrong[:5])}"
        return (
            f"{self.events:,} events and as many impressions, server killed {self.kills} times, "
            f"{self.resent:,} requests sent again: {found}\n"
            f"{self.seconds:.0f} s with the restarts, {self.events / self.seconds:,.0f} events/s; "
            f"a batch of {ITEMS * LISTS} acknowledged in {1e3 * float(np.median(self.waits)):.1f} ms at the median"
        )


class Server:
    """`evenodds serve` in a process of its own, on one port."""

    def __init__(self, folder: Path, store: str, workers: int) -> None:
        self._folder, self._store, self._workers = folder, store, workers
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = int(free.getsockname()[1])
        self._process: subprocess.Popen[bytes] | None = None
        self.start()

    def start(self) -> None:
        """Start it; clients try until it answers."""
        command = [sys.executable, "-c", "from evenodds.cli import main; main()", "serve", "model.json"]
        options = ["--port", str(self.port), "--state", "state", "--feedback", self._store, "--log", "none"]
        self._process = subprocess.Popen(
            [*command, *options, "--workers", str(self._workers)],
            cwd=self._folder,
            env={**os.environ, "EVENODDS_TOKEN": TOKEN},
            stdout=subprocess.DEVNULL,
            start_new_session=True,  # so that workers are killed with it
        )

    def end(self, how: signal.Signals) -> None:
        """Send a signal, and wait until the process and its workers are gone."""
        if self._process is None:
            return
        if how == signal.SIGKILL:
            os.killpg(self._process.pid, how)
        else:
            self._process.send_signal(how)
        self._process.wait(60)


class Client:
    """Sends requests until they are acknowledged."""

    def __init__(self, port: int, report: Report) -> None:
        self._port, self._report = port, report
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)

    def post(self, path: str, body: object) -> bytes:
        """Return the answer; whatever goes wrong, send it again."""
        content = json.dumps(body).encode()
        headers = {"content-type": "application/json", "authorization": f"Bearer {TOKEN}"}
        tries = 0
        while True:
            try:
                self._connection.request("POST", path, content, headers)
                answer = self._connection.getresponse()
                said = answer.read()
                if answer.status == 200:
                    self._report.resent += tries
                    return said
                if answer.status != 503:
                    raise SystemExit(f"{path}: {answer.status} {said[:300]!r}")
            except (OSError, http.client.HTTPException):
                self._connection.close()
            tries = 1
            time.sleep(0.02)

    def close(self) -> None:
        """Hang up."""
        self._connection.close()


def label_of(number: int, item: int) -> int:
    """Return the label of an item of a list: three in ten are clicked."""
    return int((number * 7919 + item * 104_729) % 10 < 3)


def position_of(place: int, number: int, item: int) -> int:
    """Return where an item is said to have been shown: mostly where it was served."""
    return place + (number + item) % 3


def play(numbers: range, server: Server, report: Report, done: list[int], seed: int) -> None:
    """Serve lists and send their events."""
    with closing(Client(server.port, report)) as client:
        _play(numbers, client, report, done, seed)


def _play(numbers: range, client: Client, report: Report, done: list[int], seed: int) -> None:
    dice = random.Random(seed)  # noqa: S311  (a benchmark)
    for first in range(numbers.start, numbers.stop, LISTS):
        some = range(first, min(first + LISTS, numbers.stop))
        rng = np.random.default_rng(first)
        asked = [
            {
                "key": f"request {number}",
                "ids": list(range(ITEMS)),
                "scores": rng.normal(size=ITEMS).tolist(),
                "groups": np.array(["A", "B"])[rng.integers(0, 2, ITEMS)].tolist(),
            }
            for number in some
        ]
        results = json.loads(client.post("/rerank", {"requests": asked}))["results"]
        events = [
            {
                "key": f"request {number}",
                "item": item,
                "label": label_of(number, item),
                "position": position_of(place, number, item),
            }
            for number, result in zip(some, results, strict=True)
            for place, item in enumerate(result["order"], 1)
        ]
        start = time.perf_counter()
        answer = json.loads(client.post("/feedback", {"events": events}))
        report.waits.append(time.perf_counter() - start)
        if answer["waiting"]:
            report.wrong.append(f"{answer['waiting']} events found no list")
        if dice.random() < TWICE:
            again = json.loads(client.post("/feedback", {"events": events}))
            if again["counted"]:
                report.wrong.append(f"{again['counted']} events were news the second time")
        done.append(len(events))


def compare(store: str, lists: int) -> Iterator[str]:
    """Say where the store differs from what was sent."""
    database, meta = opened(store)
    database.close()
    secret = ids.given_secret(None) or (b"" if meta.kind == "plain" else ids.secret_beside(Path(store)))
    hasher = ids.Hasher(meta.kind, secret)
    keys = {hasher.key(f"request {number}"): number for number in range(lists)}
    items = {stored: item for item, stored in enumerate(hasher.items(list(range(ITEMS))))}
    seen = np.zeros((lists, ITEMS), np.int64)
    orders: dict[int, list[int]] = {}
    wrong_labels = wrong_positions = 0
    for batch in eo.Log(store, settle=0).batches(["query", "item", "position", "label"]):
        columns = (column.to_pylist() for column in batch.columns)
        for query, item, position, label in zip(*columns, strict=True):
            number, place = keys[query], items[item]
            seen[number, place] += 1
            wrong_labels += label != label_of(number, place)
            # Rows of a list come in the order in which they were served.
            orders.setdefault(number, []).append(place)
            wrong_positions += position != position_of(len(orders[number]), number, place)
    for many, what in (
        (int((seen == 0).sum()), "impressions are missing"),
        (int((seen > 1).sum()), "impressions are there twice"),
        (wrong_labels, "labels are wrong"),
        (wrong_positions, "positions are wrong"),
    ):
        if many:
            yield f"{many:,} {what}"
    tally = eo.tally(store, settle=0)
    expected = sum(label_of(number, item) for number in range(lists) for item in range(ITEMS))
    positives = int(tally.counts[:, 1:].sum())
    if (tally.rows, positives) != (lists * ITEMS, expected):
        yield f"the tally has {tally.rows:,} rows and {positives:,} positives, not {lists * ITEMS:,} and {expected:,}"


def soak(store: str | None, events: int, kills: int, *, workers: int = 1, seed: int = 0) -> Report:
    """Run it all; `store` is a URL, or None for a new SQLite file."""
    lists = -(-events // ITEMS)
    report = Report(lists * ITEMS, kills)
    dice = random.Random(seed)  # noqa: S311
    with tempfile.TemporaryDirectory(prefix="evenodds-feedback-") as name:
        folder = Path(name)
        target = store or str(folder / "feedback.db")
        eo.EqualOpportunity(min_positives=10).fit(eo.simulate(300, seed=1)).save(folder / "model.json")
        server = Server(folder, target, workers)
        done: list[int] = []
        share = -(-lists // CLIENTS)
        players = [
            threading.Thread(
                target=play,
                args=(range(k * share, min((k + 1) * share, lists)), server, report, done, k),
            )
            for k in range(CLIENTS)
        ]
        start = time.perf_counter()
        for player in players:
            player.start()
        try:
            for at in sorted(dice.randrange(report.events) for _ in range(kills)):
                while sum(done) < at and any(player.is_alive() for player in players):
                    time.sleep(0.005)
                time.sleep(dice.random() * 0.05)  # anywhere between two transactions, or within one
                server.end(signal.SIGKILL)
                server.start()
            for player in players:
                player.join()
        finally:
            report.seconds = time.perf_counter() - start
            server.end(signal.SIGTERM)
        report.wrong += compare(target, lists)
    return report


@contextmanager
def postgres() -> Iterator[str]:
    """Start a PostgreSQL of its own; return its URL."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        os.environ.setdefault("XDG_RUNTIME_DIR", tempfile.gettempdir())
        from pgserver.postgres_server import get_server
    os.environ.setdefault(ids.ENVIRONMENT, "a secret of the benchmark")
    server = get_server(Path(tempfile.mkdtemp(prefix="pg")), cleanup_mode="delete")
    try:
        yield server.get_uri()
    finally:
        server.cleanup()


def rates(store: str) -> None:
    """Print how many events a second one writing process takes, by how they come."""
    writer = Writer(Store(store))
    lists = 2_000
    some = list(range(ITEMS))
    shown = [ServedList(f"r{n}", some, [0.5] * ITEMS, [("A",)] * ITEMS) for n in range(lists)]
    start = time.perf_counter()
    for future in [writer.submit([one]) for one in shown]:
        future.result()
    took = time.perf_counter() - start
    impressions = lists * ITEMS / took
    print(
        f"  {f'lists of {ITEMS}, many callers':<33} {lists / took:>10,.0f} lists/s, {impressions:,.0f} impressions/s"
    )
    events = [Event(f"r{n}", item, 1) for n in range(lists) for item in some]
    for size, how in ((1, "one caller, one at a time"), (1_000, "one caller, 1,000 at a time")):
        part = events[: 1_000 if size == 1 else len(events)]
        start = time.perf_counter()
        for first in range(0, len(part), size):
            writer.submit([], part[first : first + size]).result()
        print(f"  {how:<33} {len(part) / (time.perf_counter() - start):>10,.0f} events/s")
    start = time.perf_counter()
    for future in [writer.submit([], [event]) for event in events[:50_000]]:
        future.result()
    print(f"  {'many callers, one at a time':<33} {50_000 / (time.perf_counter() - start):>10,.0f} events/s")
    writer.close()


def recording(seconds: float = 2.0, rounds: int = 3) -> None:
    """Print what recording costs /rerank: the same server without a store, with one, and with one it waits for."""
    from load import http_request
    from run import four_groups
    from serve import bodies, measure
    from serving import server

    requests = [
        http_request("POST", "/rerank", msgspec.json.encode(body), content_type="application/json")
        for body in bodies(np.random.default_rng(0), count=6_000)
    ]
    rates: dict[str, list[float]] = {}
    halves: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory() as folder:
        model = Path(folder, "model.json")
        four_groups(10, np.random.default_rng(0), eo.EqualOpportunity())[2].save(model)
        for number in range(rounds):
            store = ("--log", "none", "--feedback", f"{folder}/{number}.db")
            for name, options in (
                ("no store", store[:2]),
                ("a store, not waited for", (*store, "--no-feedback-wait")),
                ("a store, waited for", (*store[:3], f"{folder}/{number}-waited.db")),
            ):
                with server(model, *options) as running:
                    load, _ = measure(running, requests, seconds, 8)
                rates.setdefault(name, []).append(load.rate)
                halves.setdefault(name, []).append(load.quantile(0.5))
    for name, found in rates.items():
        rate, half = float(np.median(found)), 1e3 * float(np.median(halves[name]))
        ratio = float(np.median(np.array(found) / rates["no store"]))
        print(
            f"  {name:<33} {rate:>10,.0f} requests/s, {ratio:.2f} of no store; {half:.1f} ms at the median",
            flush=True,
        )


def main() -> None:
    """Run it and print a report; exit with 1 if an event was lost or counted twice."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--postgres-events", type=int, default=100_000)
    parser.add_argument("--postgres-kills", type=int, default=5)
    options = parser.parse_args()
    wrong = False
    with tempfile.TemporaryDirectory() as folder:
        print("SQLite, one process:")
        rates(f"{folder}/feedback.db")
    print("POST /rerank, 100 candidates, 8 connections, one worker:", flush=True)
    recording()
    report = soak(None, options.events, options.kills, workers=options.workers)
    print(report, flush=True)
    wrong |= bool(report.wrong)
    with postgres() as url:
        print("PostgreSQL:")
        report = soak(url, options.postgres_events, options.postgres_kills, workers=options.workers)
        print(report)
        wrong |= bool(report.wrong)
    sys.exit(int(wrong))


if __name__ == "__main__":
    main()
