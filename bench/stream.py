"""How many rows a second a stream takes in, and how long a row takes from its file to the tally.

python bench/stream.py                # 20 files of 500,000 rows, then a file every second for half a minute
python bench/stream.py --quick

Both on local[2], with `evenodds stream` as a process of its own, from Parquet files. Ingest: all files are
there at the start, batches of two files, `--once`; from the moment at which the first batch is committed to
that of the last, everything between batches included. Delay: files of 20,000 rows are put into the folder
one by one by renaming, and the time is taken until a state that holds all rows up to that file is in place;
the trigger is one second.
"""

from __future__ import annotations

import argparse
import json
import re
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

import evenodds as eo
from evenodds.stream import State

SAID = re.compile(r"batch (\d+): ([\d,]+) rows counted")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        table = eo.simulate(4_000, seed=1)
        eo.tally(table).save(folder / "grid.tally")
        found = {
            "ingest": ingest(folder, files=4 if options.quick else 20, queries=10_000),
            "delay": delay(folder, table, files=8 if options.quick else 30),
        }
    if options.json:
        print(json.dumps(found, indent=2))
        return
    taken, late = found["ingest"], found["delay"]
    print(f"ingest, {taken['rows']:,} rows in {taken['batches']} batches, local[2], string groups")
    print(f"  after the first batch   {taken['rows_a_second']:>12,.0f} rows/s")
    print(f"  from start to end       {taken['with_start']:>12,.0f} rows/s  (Spark's start included)")
    print(
        f"from file to tally, {late['files']} files of {late['rows_a_file']:,} rows, one a second, trigger 1 second"
    )
    print(f"  median {late['median']:.2f} s, 95 % within {late['p95']:.2f} s, at most {late['most']:.2f} s")


def command(source: Path, out: Path, grid: Path, *more: str) -> list[str]:
    """Return the command."""
    known = [sys.executable, "-m", "evenodds", "stream", str(source), "-o", str(out)]
    return [*known, "--grid-from", str(grid), "--master", "local[2]", *more]


def ingest(folder: Path, *, files: int, queries: int) -> dict[str, Any]:
    """Take in files that are all there."""
    source, out = folder / "many", folder / "many-out"
    source.mkdir()
    rows = 0
    for place in range(files):
        table = eo.simulate(queries, seed=place + 2)
        rows += table.num_rows
        pq.write_table(table, source / f"{place:03}.parquet")
    began = time.monotonic()
    taken: list[tuple[float, int]] = []
    process = subprocess.Popen(
        command(source, out, folder / "grid.tally", "--once", "--max-files", "2"),
        stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        text=True,
    )
    for line in process.stderr or ():
        told = SAID.search(line)
        if told is not None:  # said when the batch has been committed
            taken.append((time.monotonic(), int(told[2].replace(",", ""))))
    if process.wait() != 0:
        raise SystemExit(f"the stream ended with {process.returncode}")
    whole = time.monotonic() - began
    held = State.load(out)
    if held is None or held.tally.rows != rows:
        raise SystemExit(f"counted {held and held.tally.rows} of {rows} rows")
    later = sum(count for _, count in taken[1:])
    return {
        "rows": rows,
        "batches": len(taken),
        "rows_a_second": later / (taken[-1][0] - taken[0][0]),
        "with_start": rows / whole,
    }


def delay(folder: Path, table: pa.Table, *, files: int) -> dict[str, Any]:
    """Put files one by one and watch the state."""
    source, out = folder / "few", folder / "few-out"
    source.mkdir()
    size = 20_000
    parts = [table.slice(size * (place % 10), size) for place in range(files + 1)]
    pq.write_table(parts[0], source / "start.parquet")
    grid = folder / "grid.tally"
    with (folder / "said").open("w") as said:
        process = subprocess.Popen(command(source, out, grid, "--trigger", "1 second"), stderr=said)
    put: list[float] = []
    reached: dict[int, float] = {}
    over = threading.Event()

    def watch() -> None:
        last = -1
        while not over.is_set():
            try:
                stamp = (out / "state.tally").stat().st_mtime_ns
            except FileNotFoundError:
                stamp = -1
            if stamp != last:
                now, last = time.monotonic(), stamp
                held = State.load(out)
                for place in range(files + 1):
                    if held is not None and held.tally.rows >= size * (place + 1):
                        reached.setdefault(place, now)
            time.sleep(0.01)

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        until = time.monotonic() + 300
        while 0 not in reached and time.monotonic() < until and process.poll() is None:
            time.sleep(0.05)
        for place in range(1, files + 1):
            pq.write_table(parts[place], source / ".aside")
            (source / ".aside").rename(source / f"{place:03}.parquet")
            put.append(time.monotonic())
            time.sleep(1.0)
        until = time.monotonic() + 60
        while files not in reached and time.monotonic() < until and process.poll() is None:
            time.sleep(0.05)
    finally:
        over.set()
        watcher.join()
        if process.poll() is None:
            process.terminate()
            process.wait()
    if len(reached) <= files:
        raise SystemExit((folder / "said").read_text())
    took = sorted(reached[place] - put[place - 1] for place in range(1, files + 1))
    return {
        "files": files,
        "rows_a_file": size,
        "median": statistics.median(took),
        "p95": took[max(0, int(0.95 * len(took)) - 1)],
        "most": took[-1],
    }


if __name__ == "__main__":
    main()
