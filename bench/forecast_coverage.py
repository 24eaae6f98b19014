"""How often a forecast's 95 % intervals cover the truth, on the paper's simulation.

Each replicate draws a population, logs lists under the score, fits a model on that log and forecasts
on the same log (or, with --other-log, on a second one). The truth is the expected relative change of
positives on fresh lists of the same population, ranked by that model: the sum of w_j over items that
would be positive at the top, with the true w, so that no click is drawn. That is what the intervals
are for: further lists of the same kind, not the very lists of the log.

python bench/forecast_coverage.py                                  # both criteria, 100 replicates
python bench/forecast_coverage.py --criterion odds --queries 10000
"""

from __future__ import annotations

import argparse
import json
import warnings
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

import evenodds as eo
from evenodds.forecast import Forecast, forecast
from evenodds.simulate import (
    GROUP_NAMES,
    Lists,
    Population,
    draw_clicks,
    draw_lists,
    draw_population,
    position_weights,
    rank,
    to_batch,
)

Floats = npt.NDArray[np.float64]

LENGTH = 50
SHOWN = ("all", *GROUP_NAMES)


def logged(population: Population, queries: int, rng: np.random.Generator) -> pa.Table:
    """Log lists ranked by the score."""
    lists = draw_lists(population, queries, lengths=(LENGTH, LENGTH), rng=rng)
    position = rank(lists, lists.score)
    label = draw_clicks(population, lists, position, position_weights(LENGTH), rng)
    return pa.Table.from_batches([to_batch(population, lists, position, label)])


def truth(population: Population, model: eo.Reranker, queries: int, rng: np.random.Generator) -> Floats:
    """Return the relative change of expected positives on fresh lists: all, A, B."""
    lists: Lists = draw_lists(population, queries, lengths=(LENGTH, LENGTH), rng=rng)
    group = population.group[lists.item]
    names = np.array(GROUP_NAMES)[group.ravel()]
    fair = model.transform(lists.score.ravel(), names, seed=1).reshape(group.shape)
    merit, weights = population.merit[lists.item], position_weights(LENGTH)
    old, new = (merit * weights[rank(lists, scores) - 1] for scores in (lists.score, fair))
    parts = [np.ones_like(group, dtype=bool), group == 0, group == 1]
    return np.array([new[part].sum() / old[part].sum() - 1 for part in parts])


def replicate(
    criterion: str, queries: int, fresh: int, seed: int, other_log: bool
) -> tuple[Forecast, Floats]:
    """Fit, forecast, and look up the truth."""
    population = draw_population(seed=seed)
    rng = np.random.default_rng([seed, 11])
    log = logged(population, queries, rng)
    model: eo.Reranker = eo.EqualOpportunity() if criterion == "opportunity" else eo.EqualizedOdds()
    model = model.fit(eo.tally(log, cells=2_000))
    if other_log:
        log = logged(population, queries, rng)
    return forecast(model, log), truth(population, model, fresh, rng)


def coverage(
    criterion: str,
    queries: int,
    replicates: int,
    fresh: int = 20_000,
    *,
    seed: int = 0,
    other_log: bool = False,
) -> dict[str, Any]:
    """Count covered truths, and tell how large errors and intervals are."""
    covered: dict[str, int] = dict.fromkeys(SHOWN, 0)
    errors: dict[str, list[float]] = {name: [] for name in SHOWN}
    widths: dict[str, list[float]] = {name: [] for name in SHOWN}
    for number in range(replicates):
        found, true = replicate(criterion, queries, fresh, seed + number, other_log)
        for part, value in zip((found.overall, *found.groups), true, strict=True):
            low, high = part.positives.relative_interval or (np.nan, np.nan)
            covered[part.group] += bool(low <= value <= high)
            errors[part.group].append(part.positives.relative - float(value))
            widths[part.group].append(high - low)
    return {
        "criterion": criterion,
        "queries": queries,
        "replicates": replicates,
        "other_log": other_log,
        "covered": covered,
        "mean_error": {name: float(np.mean(part)) for name, part in errors.items()},
        "rms_error": {name: float(np.sqrt(np.mean(np.square(part)))) for name, part in errors.items()},
        "mean_width": {name: float(np.mean(part)) for name, part in widths.items()},
    }


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--criterion", choices=("opportunity", "odds", "both"), default="both")
    parser.add_argument("--queries", type=int, default=3_000)
    parser.add_argument("--replicates", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0, help="of the first replicate")
    parser.add_argument("--fresh", type=int, default=20_000)
    parser.add_argument("--other-log", action="store_true")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    warnings.simplefilter("ignore", eo.EvenoddsWarning)
    asked = ("opportunity", "odds") if options.criterion == "both" else (options.criterion,)
    for criterion in asked:
        result = coverage(
            criterion,
            options.queries,
            options.replicates,
            options.fresh,
            seed=options.seed,
            other_log=options.other_log,
        )
        if options.json:
            print(json.dumps(result))
            continue
        print(f"{criterion}, {options.queries:,} lists, {options.replicates} replicates")
        print("          covered  mean error  rms error  mean width")
        for name in SHOWN:
            print(
                f"{name:<8}  {result['covered'][name]:>7}  {result['mean_error'][name]:>10.4f}  "
                f"{result['rms_error'][name]:>9.4f}  {result['mean_width'][name]:>10.4f}"
            )


if __name__ == "__main__":
    main()
