"""The figures on the paper's simulation: what re-ranking does to fresh lists, and how exact w is.

python bench/fairness.py                   # both tables, five seeds
python bench/fairness.py --queries 20000   # one size of training log
"""

from __future__ import annotations

import argparse
import json
from typing import Any

import numpy as np
import numpy.typing as npt

import evenodds as eo
from evenodds.position import Method
from evenodds.simulate import Outcome, Population, draw_population, outcome_on_fresh_lists, position_weights

Floats = npt.NDArray[np.float64]


def on_fresh_lists(
    population: Population, model: eo.Reranker | None, seed: int, alpha: float = 1.0
) -> Outcome:
    """Re-rank fresh lists by a model, blended with the old score by alpha."""

    def rescore(scores: Floats, groups: npt.NDArray[np.str_]) -> Floats:
        return (
            scores
            if model is None
            else alpha * model.transform(scores, groups, seed=seed) + (1 - alpha) * scores
        )

    return outcome_on_fresh_lists(population, rescore, seed=seed)


def fairness(queries: int, seeds: int) -> dict[str, list[float]]:
    """Measure KS among observed positives on fresh lists by how w was found, and clicks over alpha."""
    found: dict[str, list[float]] = {}
    ways: dict[str, Method] = {
        "joint": "joint",
        "adjacent (T = 30)": "adjacent",
        "no correction": "none",
        "true w": position_weights(50),
    }
    for seed in range(seeds):
        population = draw_population(seed=seed)
        counts = eo.tally(eo.simulate(queries, seed=seed))
        models = {name: eo.EqualOpportunity(position_bias=way).fit(counts) for name, way in ways.items()}
        for name, model in models.items():
            found.setdefault(f"KS, {name}", []).append(on_fresh_lists(population, model, seed).observed[1])
        found.setdefault("KS, nothing done", []).append(on_fresh_lists(population, None, seed).observed[1])
        for alpha in (0.0, 0.2, 0.4, 0.6, 0.8, 1.0):
            rate = on_fresh_lists(population, models["joint"], seed, alpha).click_rate
            found.setdefault(f"click rate, alpha = {alpha}", []).append(rate)
    return found


def odds(queries: int, seeds: int) -> dict[str, list[float]]:
    """Measure KS given each label on fresh lists, for both targets of equalized odds and both objectives."""
    found: dict[str, list[float]] = {}
    ways: dict[str, dict[str, Any]] = {
        "nothing done": {},
        "target merit": {"target": "merit"},
        "target observed": {"target": "observed"},
        "objective auc": {"objective": "auc"},
    }
    for seed in range(seeds):
        population = draw_population(seed=seed)
        counts = eo.tally(eo.simulate(queries, seed=seed))
        for name, settings in ways.items():
            model = eo.EqualizedOdds(**settings).fit(counts) if settings else None
            outcome = on_fresh_lists(population, model, seed)
            for kind, distances in (("merit", outcome.merit), ("observed", outcome.observed)):
                for label in (0, 1):
                    found.setdefault(f"KS given {kind} {label}, {name}", []).append(distances[label])
    return found


def position_error(queries: int, seeds: int, lengths: int | tuple[int, int]) -> dict[str, list[float]]:
    """Measure the mean error of log w at positions 2 to 30, at several numbers of cells."""
    found: dict[str, list[float]] = {}
    truth = np.log(position_weights(30)[1:])
    for seed in range(seeds):
        log = eo.simulate(queries, seed=seed, list_length=lengths)
        for cells in (200, 4_000):
            counts = eo.tally(log, cells=cells)
            for method in ("joint", "adjacent"):
                weights = eo.position_bias(counts, method, cells=cells).weights
                error = float(np.abs(np.log(weights[1:30]) - truth).mean())
                found.setdefault(f"{method}, {cells:,} cells, lists of {lengths}", []).append(error)
    return found


def show(title: str, found: dict[str, list[float]], *, as_json: bool) -> None:
    """Print means over seeds, with their standard errors."""
    if as_json:
        print(json.dumps({title: found}))
        return
    print(f"\n{title}")
    for name, values in found.items():
        error = np.std(values, ddof=1) / np.sqrt(len(values)) if len(values) > 1 else 0.0
        print(f"  {name:<42} {np.mean(values):.4f}  (± {error:.4f} over {len(values)} seeds)")


def main() -> None:
    """Parse, run, print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--queries", type=int, nargs="*", default=[100_000, 20_000])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    for queries in options.queries:
        title = f"fresh lists after training on {queries:,} queries"
        show(title, fairness(queries, options.seeds), as_json=options.json)
    title = f"equalized odds on fresh lists after training on {max(options.queries):,} queries"
    show(title, odds(max(options.queries), min(options.seeds, 3)), as_json=options.json)
    for lengths in (50, (10, 50)):
        found = position_error(max(options.queries), options.seeds, lengths)
        show(
            f"mean error of log w, positions 2 to 30, {max(options.queries):,} queries",
            found,
            as_json=options.json,
        )


if __name__ == "__main__":
    main()
