"""How long a report takes from a tally and a model, and how large it is.

python bench/report.py
"""

from __future__ import annotations

import tempfile
import time
import warnings
from pathlib import Path

import numpy as np
import pyarrow as pa

import evenodds as eo


def crossed(groups: int, *, queries: int = 8_000, length: int = 25) -> pa.Table:
    """Draw ranked lists of items of many groups, whose scores are off by a different amount each."""
    rng = np.random.default_rng(5)
    size = queries * length
    group = rng.choice(groups, size, p=rng.dirichlet(np.full(groups, 3.0)))
    merit = rng.random(size) < 0.25
    score = rng.normal(1.2 * merit, 1.0) + rng.normal(0.0, 0.3, groups)[group]
    query = np.repeat(np.arange(queries), length)
    order = np.lexsort((-score, query))
    position = np.tile(np.arange(1, length + 1), queries)
    label = merit[order] & (rng.random(size) < 1 / np.log2(1 + position))
    names = np.array([f"group {k:02d}" for k in range(groups)])
    return pa.table(
        {
            "score": score[order],
            "group": names[group[order]],
            "label": label.astype(np.int8),
            "position": position,
            "query": query,
        }
    )


def main() -> None:
    """Print one line a case: the faster of two runs, in seconds of this process and by the clock."""
    warnings.simplefilter("ignore")
    print("10,000 score cells; report() from a tally and a fitted model, the faster of two runs")
    print(f"{'groups':>6}  {'criterion':<12} {'CPU s':>6} {'clock s':>8} {'MB':>6}")
    with tempfile.TemporaryDirectory() as folder:
        for groups in (2, 12, 48):
            log = eo.simulate(20_000, seed=0) if groups == 2 else crossed(groups)
            counts = eo.tally(log)
            for name, unfitted in (
                ("opportunity", eo.EqualOpportunity()),
                ("odds", eo.EqualizedOdds(bins=50)),
            ):
                model, page = unfitted.fit(counts), Path(folder) / "report.html"
                runs = []
                for _ in range(2):
                    start = time.process_time(), time.perf_counter()
                    eo.report(counts, model, page, overwrite=True)
                    runs.append((time.process_time() - start[0], time.perf_counter() - start[1]))
                cpu, clock = (min(times) for times in zip(*runs, strict=True))
                size = page.stat().st_size / 1e6
                print(f"{groups:>6}  {name:<12} {cpu:>6.1f} {clock:>8.1f} {size:>6.2f}")


if __name__ == "__main__":
    main()
