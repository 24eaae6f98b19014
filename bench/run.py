"""One table of ratios, all measured in one run: `make bench`.

Machines differ and are noisy, so nothing here is a bare time: each row is divided by a yardstick
that the same run measured beside it, round after round.
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import numpy.typing as npt

import evenodds as eo
from evenodds.simulate import write_simulated

Floats = npt.NDArray[np.float64]
COLUMNS = ["score", "group", "label", "position", "query"]


def seconds(work: Callable[[], object], rounds: int) -> float:
    """Return the median time of some work."""
    times = []
    for _ in range(rounds):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def microseconds(work: Callable[[], object], calls: int = 2_000, rounds: int = 15) -> float:
    """Return the median over rounds of the mean time of a call."""

    def many() -> None:
        for _ in range(calls):
            work()

    return seconds(many, rounds) / calls * 1e6


def beside(
    yardstick: Callable[[], object],
    work: Callable[[], object],
    limit: str,
    calls: int = 200,
    rounds: int = 101,
) -> tuple[float, str, str]:
    """Return how often the yardstick fits into the work; the limit; and both times.

    Measured in turns, the best round of each: other work on the machine can only add to a time, and adds
    more to the longer one.
    """
    pairs = [(microseconds(yardstick, calls, 1), microseconds(work, calls, 1)) for _ in range(rounds)]
    yard, taken = (min(times) for times in zip(*pairs, strict=True))
    return taken / yard, limit, f"{taken:.1f} us / {yard:.1f} us"


def bare_scan(path: Path) -> int:
    """Read the same columns and do nothing with them."""
    import pyarrow.dataset as ds

    return sum(batch.num_rows for batch in ds.dataset(path).scanner(columns=COLUMNS).to_batches())


def log_to_model(path: Path, model: Path) -> None:
    """Count, estimate position bias, fit, save."""
    eo.EqualOpportunity().fit(eo.Log(path)).save(model, overwrite=True)


def peak_memory() -> float:
    """Return this process's peak memory in MB; on Linux without what it inherited from its parent."""
    status = Path("/proc/self/status")
    if status.exists():
        line = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM"))
        return int(line.split()[1]) / 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def in_fresh_process(path: Path, model: Path) -> tuple[float, float]:
    """Return seconds and peak memory (MB) of log_to_model in a process of its own, imports excluded."""
    code = (
        "import sys, time, json, pathlib; sys.path.insert(0, sys.argv[1]); import run;"
        "import pyarrow.dataset, pyarrow.parquet, scipy.special, evenodds.odds.problem;"
        "t = time.perf_counter(); run.log_to_model(pathlib.Path(sys.argv[2]), pathlib.Path(sys.argv[3]));"
        "t = time.perf_counter() - t;"
        "print(json.dumps([t, run.peak_memory()]))"
    )
    arguments = [sys.executable, "-c", code, str(Path(__file__).parent), str(path), str(model)]
    out = subprocess.run(arguments, capture_output=True, text=True, check=True).stdout
    took, memory = json.loads(out)
    return took, memory


def four_groups(
    size: int, rng: np.random.Generator, unfitted: eo.Reranker | None = None
) -> tuple[Floats, npt.NDArray[np.str_], eo.Reranker]:
    """Return scores, groups as strings, and a model of four groups."""
    import pyarrow as pa

    names = np.array(["women", "men", "other", "unsaid"])
    rows = 400_000
    group = rng.integers(0, 4, rows)
    score = rng.normal(group * 0.3, 1.0)
    label = rng.random(rows) < 1 / (1 + np.exp(-score))
    table = pa.table({"score": score, "group": names[group], "label": label})
    model = (unfitted or eo.EqualOpportunity()).fit(table)
    return rng.normal(0.5, 1.0, size), names[rng.integers(0, 4, size)], model


def main() -> None:
    """Measure, print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--large", action="store_true", help="also 50 million rows (needs 1 GB of disk, two minutes)"
    )
    parser.add_argument("--json", type=Path, help="write the table there too")
    options = parser.parse_args()
    rows: list[tuple[str, float, str, str]] = []

    def row(what: str, ratio: float, limit: str, note: str = "") -> None:
        rows.append((what, ratio, limit, note))
        print(f"{what:<64} {ratio:>7.2f}  {limit:<10} {note}", flush=True)

    print(f"{'what':<64} {'ratio':>7}  {'limit':<10}")
    with tempfile.TemporaryDirectory() as folder:
        small, model_path = Path(folder, "5m.parquet"), Path(folder, "model.json")
        write_simulated(small, 100_000)
        bare_scan(small)
        log_to_model(small, model_path)
        rounds = [
            (seconds(lambda: bare_scan(small), 1), seconds(lambda: log_to_model(small, model_path), 1))
            for _ in range(9)
        ]
        scan, whole = (statistics.median(column) for column in zip(*rounds, strict=True))
        row(
            "5 million rows: Parquet to saved model / bare scan",
            whole / scan,
            "<= 6",
            f"{whole:.2f} s / {scan:.3f} s",
        )
        if options.large:
            large = Path(folder, "50m.parquet")
            write_simulated(large, 1_000_000)
            bare_scan(large)
            many = [
                (seconds(lambda: bare_scan(large), 1), in_fresh_process(large, model_path)) for _ in range(3)
            ]
            few = [in_fresh_process(small, model_path) for _ in range(5)]
            scan = statistics.median(s for s, _ in many)
            whole, memory = (statistics.median(column) for column in zip(*(m for _, m in many), strict=True))
            small_whole, small_memory = (statistics.median(column) for column in zip(*few, strict=True))
            row(
                "50 million rows: Parquet to saved model / bare scan",
                whole / scan,
                "<= 4",
                f"{whole:.2f} s / {scan:.2f} s",
            )
            row(
                "time at 50 / 5 million rows",
                whole / small_whole,
                "<= 11",
                f"{whole:.2f} s / {small_whole:.2f} s",
            )
            row(
                "peak memory at 50 / 5 million rows",
                memory / small_memory,
                "<= 1.3",
                f"{memory:.0f} MB / {small_memory:.0f} MB",
            )
    rng = np.random.default_rng(0)
    points, heights = np.linspace(-4, 5, 10_001), np.sort(rng.random(10_001))
    scores, groups, model = four_groups(100, rng)
    listed = groups.tolist()
    scorer = model.scorer_
    against_interp = partial(beside, lambda: np.interp(scores, points, heights))
    row(
        "Scorer, 100 candidates, 4 groups / np.interp of 100 points",
        *against_interp(lambda: scorer.transform(scores, listed), "<= 5"),
    )
    scores, groups, odds = four_groups(100, rng, eo.EqualizedOdds())
    listed = groups.tolist()
    viewers, items = np.full(100, 12_345), np.arange(100) * 7_919
    for what, keys in (
        ("text keys", [f"viewer12345/{item}" for item in items]),
        ("whole-number keys", items),
        ("keys of two columns", (viewers, items)),
        ("a request's key and text ids", ("request-12345", [f"item{item}" for item in items])),
    ):
        work = partial(odds.scorer_.transform, scores, listed, keys)
        row(f"Scorer, equalized odds, {what} / np.interp", *against_interp(work, "<= 10"))
    scores, groups, model = four_groups(10_000_000, rng)

    def interp_by_group() -> Floats:
        fair = np.empty_like(scores)
        for name in np.unique(groups[:1000]):
            mask = groups == name
            fair[mask] = np.interp(scores[mask], points, heights)
        return fair

    pairs = [
        (seconds(interp_by_group, 1), seconds(lambda: model.transform(scores, groups), 1)) for _ in range(3)
    ]
    by_group, taken = (statistics.median(column) for column in zip(*pairs, strict=True))
    row(
        "10 million rows: np.interp per group / transform",
        by_group / taken,
        ">= 0.7",
        f"{by_group:.2f} s / {taken:.2f} s",
    )
    split = [(scores[groups == name]) for name in np.unique(groups[:1000])]
    bare = seconds(lambda: [np.interp(part, points, heights) for part in split], 3)
    row(
        "  the same, groups split beforehand for np.interp only",
        bare / taken,
        "",
        f"{bare:.2f} s / {taken:.2f} s",
    )
    if options.json:
        options.json.write_text(
            json.dumps(
                [{"what": w, "ratio": r, "limit": limit, "note": n} for w, r, limit, n in rows], indent=1
            )
        )
    print(f"peak memory of this run: {peak_memory():.0f} MB")


if __name__ == "__main__":
    main()
