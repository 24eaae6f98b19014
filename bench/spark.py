"""Counting on Spark, local[2], against Spark's own GROUP BY and against the local engine: `make bench-spark`.

Ratios of times measured in one run, in turns. Each size has processes of its own, so that peak memory is
that of the size. Machines are shared, so the processor time of all processes stands beside each time on the
clock; where something else ran, it is the steadier of the two.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import evenodds as eo
from evenodds.simulate import write_simulated

SETTINGS = {"spark.driver.memory": "2g", "spark.sql.shuffle.partitions": "2"}
ROUNDS = 3
Times = dict[str, list[list[float]]]


def processes() -> dict[int, tuple[str, int, float]]:
    """Return name, parent and processor seconds (with those of children that have ended) by process."""
    found = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            text = stat.read_text()
        except OSError:  # it has just ended
            continue
        name, fields = text[text.index("(") + 1 : text.rindex(")")], text[text.rindex(")") + 2 :].split()
        found[int(stat.parent.name)] = (name, int(fields[1]), sum(map(int, fields[11:15])) / 100)
    return found


def family() -> list[int]:
    """Return this process and all below it: Java, and the Python workers that it starts."""
    known = processes()
    members = [int(Path("/proc/self").resolve().name)]
    for member in members:
        members += [number for number, (_, parent, _) in known.items() if parent == member]
    return members


def seconds(work: Callable[[], object]) -> list[float]:
    """Return the time of some work, on the clock and of processors."""

    def used() -> float:
        known = processes()
        return sum(known[member][2] for member in family() if member in known)

    start, before = time.perf_counter(), used()
    work()
    return [time.perf_counter() - start, used() - before]


def peak(number: int | str) -> float:
    """Return a process's peak memory in MB, 0 if it has ended."""
    try:
        lines = Path(f"/proc/{number}/status").read_text().splitlines()
    except OSError:
        return 0.0
    return sum(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1024


def group_by(frame: Any, middle: float, width: float, *, folds: bool) -> None:
    """Count with SQL what a tally counts: in cells of about equal mass, by a curve and not by quantiles."""
    share = f"1 / (1 + exp(({middle} - score) / {width}))"
    cell = f"int(10000 * {share}) as cell"
    frame.selectExpr("`group`", "label", "position", cell).groupBy(
        "group", "label", "position", "cell"
    ).count().write.format("noop").mode("overwrite").save()
    if folds:
        fold, coarse = "pmod(xxhash64(query), 20) as fold", f"int(200 * {share}) as cell"
        frame.selectExpr("`group`", "label", "position", fold, coarse).groupBy(
            "group", "label", "position", "fold", "cell"
        ).count().write.format("noop").mode("overwrite").save()


def on_spark(path: str, few: str) -> dict[str, Any]:
    """Count a file in turns by SQL and on Spark, warmed up on one of few rows; return times and peaks."""
    from evenodds.engines.partial import gathered
    from evenodds.engines.spark_session import spark_session

    session = spark_session("local[2]", SETTINGS)
    frame = session.read.parquet(path)
    bytes_seen: list[int] = []

    def weighed(parts: list[Any], plan: Any) -> Any:
        bytes_seen.append(sum(len(part.body) for part in parts))
        return gathered(parts, plan)

    cells = eo.tally(frame).grid.boundaries
    low, middle, high = (float(cells[cells.size * part // 4]) for part in (1, 2, 3))
    sql = partial(
        group_by, middle=middle, width=(high - low) / 2.2
    )  # a logistic curve's quartiles lie at 1.1
    works: dict[str, Callable[[Any], object]] = {
        "sql": partial(sql, folds=False),
        "tally": eo.tally,
        "sql with folds": partial(sql, folds=True),
    }
    small = session.read.parquet(few)
    for _ in range(3):  # Java compiles what runs often
        for work in works.values():
            work(small)
    times: Times = {name: [] for name in works}
    with mock.patch("evenodds.engines.spark.gathered", weighed):
        for turn in range(ROUNDS):
            for name, work in works.items():
                if turn == 0 or name != "sql with folds":
                    times[name].append(seconds(partial(work, frame)))
    known = processes()
    return {
        "times": times,
        "driver": peak("self"),
        "java": max(peak(number) for number in family() if known.get(number, ("",))[0] == "java"),
        "bytes": max(bytes_seen),
        "workers": max((peak(n) for n in family()[1:] if known.get(n, ("",))[0] != "java"), default=0.0),
    }


def here(path: str) -> dict[str, Any]:
    """Count a file with the local engine."""
    import pyarrow.dataset  # noqa: F401  (whose import is not counting)

    eo.tally(path)
    return {"times": {"local": [seconds(lambda: eo.tally(path)) for _ in range(ROUNDS)]}}


def in_process(what: str, path: Path, few: Path) -> dict[str, Any]:
    """Run one of the two above in a process of its own."""
    command = [sys.executable, __file__, "--in-process", what, str(path), str(few)]
    out = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout
    return dict(json.loads(out))


def median(times: Times, name: str, which: int) -> float:
    """Return the median time: 0 on the clock, 1 of processors."""
    return statistics.median(entry[which] for entry in times[name])


def main() -> None:
    """Measure, print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=50_000_000, help="rows of the large log")
    parser.add_argument("--folder", type=Path, help="keep the logs there, for the next run")
    parser.add_argument("--json", type=Path, help="write what was measured there too")
    parser.add_argument("--in-process", nargs=3, metavar=("WHAT", "PATH", "FEW"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.in_process:
        what, log, small = options.in_process
        print(json.dumps(on_spark(log, small) if what == "spark" else here(log)))
        return
    with tempfile.TemporaryDirectory() as made:
        folder = options.folder or Path(made)
        logs = {rows: folder / f"{rows}.parquet" for rows in (options.rows // 10, options.rows)}
        for rows, path in logs.items():
            if not path.exists():
                write_simulated(path, rows // 50)
        found = {rows: in_process("spark", path, logs[options.rows // 10]) for rows, path in logs.items()}
        local = {rows: in_process("local", path, path) for rows, path in logs.items()}
    few, many = logs
    print(f"{'what':<66} {'clock':>6} {'processors':>11}  limit")

    def row(what: str, ratio: Callable[[int], float], limit: str, note: str) -> None:
        print(f"{what:<66} {ratio(0):>6.2f} {ratio(1):>11.2f}  {limit:<7} {note}", flush=True)

    def named(rows: int, name: str, which: int = 0) -> float:
        return median((found if name != "local" else local)[rows]["times"], name, which)

    millions = f"{many // 1_000_000} million rows"
    row(
        f"{millions}: tally on Spark / SQL GROUP BY of its main counts",
        lambda which: named(many, "tally", which) / named(many, "sql", which),
        "<= 0.6",
        f"{named(many, 'tally'):.1f} s / {named(many, 'sql'):.1f} s",
    )
    row(
        f"{millions}: tally on Spark / SQL GROUP BYs of main counts and folds",
        lambda which: named(many, "tally", which) / named(many, "sql with folds", which),
        "",
        f"{named(many, 'tally'):.1f} s / {named(many, 'sql with folds'):.1f} s",
    )
    row(
        f"tally on Spark: {many // 1_000_000} / {few // 1_000_000} million rows",
        lambda which: named(many, "tally", which) / named(few, "tally", which),
        "<= 11",
        f"{named(many, 'tally'):.1f} s / {named(few, 'tally'):.2f} s",
    )
    row(
        f"{millions}: tally on Spark / local engine",
        lambda which: named(many, "tally", which) / named(many, "local", which),
        ">= 5",
        f"{named(many, 'tally'):.1f} s / {named(many, 'local'):.2f} s",
    )
    for name, what in (("driver", "driver (Python)"), ("java", "Java, driver and executor in one")):
        small, large = found[few][name], found[many][name]
        print(
            f"{'peak memory, ' + what:<66} {large / small:>6.2f} {'':>11}  {'flat':<7} "
            f"{large:.0f} MB / {small:.0f} MB"
        )
    print(
        f"{'bytes that reach the driver':<66} {found[many]['bytes'] / found[few]['bytes']:>6.2f} "
        f"{'':>11}  {'':<7} {found[many]['bytes'] / 1e6:.2f} MB / {found[few]['bytes'] / 1e6:.2f} MB"
    )
    print(f"rows a second and core on Spark: {many / named(many, 'tally', 1):,.0f}")
    print(f"rows a second and core here: {many / named(many, 'local', 1):,.0f}")
    if options.json:
        options.json.write_text(json.dumps({"spark": found, "local": local}, indent=1))


if __name__ == "__main__":
    main()
