"""How often a forecast's 95 % intervals cover the truth, on the paper's simulation.

Each replicate draws a population, logs lists under the score, fits a model on that log, and forecasts
on the same log, on another one of that size, and on a small one of a fifth of it, where the model's own
position bias is used. The truth is the expected relative change of positives on fresh lists of the same
population, ranked by that model: the sum of w_j over items that would be positive at the top, with the
true w, so that no click is drawn. That is what the intervals are for: further lists of the same kind,
not the very lists of the log.

python bench/forecast_coverage.py                                  # both criteria, 100 replicates
python bench/forecast_coverage.py --criterion odds --queries 10000
"""

from __future__ import annotations

import argparse
import json
import warnings
from collections.abc import Sequence
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
LOGS = ("fitted", "other", "small")
TITLES = {
    "fitted": "forecast on the log of the fit",
    "other": "on another log",
    "small": "on another log, a fifth as long",
}


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
    criterion: str, queries: int, fresh: int, seed: int, logs: Sequence[str] = LOGS
) -> tuple[dict[str, Forecast], Floats]:
    """Fit, forecast on each of the logs, and look up the truth."""
    population = draw_population(seed=seed)
    rng = np.random.default_rng([seed, 11])
    own = logged(population, queries, rng)
    model: eo.Reranker = eo.EqualOpportunity() if criterion == "opportunity" else eo.EqualizedOdds()
    model = model.fit(eo.tally(own, cells=2_000))
    drawn = {
        "fitted": lambda: own,
        "other": lambda: logged(population, queries, rng),
        "small": lambda: logged(population, max(queries // 5, 20), rng),
    }
    return {name: forecast(model, drawn[name]()) for name in logs}, truth(population, model, fresh, rng)


def coverage(
    criterion: str,
    queries: int,
    replicates: int,
    fresh: int = 20_000,
    *,
    seed: int = 0,
    logs: Sequence[str] = LOGS,
) -> list[dict[str, Any]]:
    """Count covered truths, and tell how large errors and intervals are, by log."""
    errors: dict[str, list[list[float]]] = {name: [] for name in logs}
    widths: dict[str, list[list[float]]] = {name: [] for name in logs}
    covered: dict[str, list[list[bool]]] = {name: [] for name in logs}
    for number in range(replicates):
        found, true = replicate(criterion, queries, fresh, seed + number, logs)
        for name, one in found.items():
            parts = [part.positives for part in (one.overall, *one.groups)]
            ends = np.array([part.relative_interval or (np.nan, np.nan) for part in parts])
            errors[name].append([part.relative - value for part, value in zip(parts, true, strict=True)])
            widths[name].append((ends[:, 1] - ends[:, 0]).tolist())
            covered[name].append(((ends[:, 0] <= true) & (true <= ends[:, 1])).tolist())

    def named(values: Any) -> dict[str, Any]:
        return dict(zip(SHOWN, values.tolist(), strict=True))

    return [
        {
            "criterion": criterion,
            "log": name,
            "queries": queries,
            "replicates": replicates,
            "covered": named(np.sum(covered[name], axis=0)),
            "mean_error": named(np.mean(errors[name], axis=0)),
            "rms_error": named(np.sqrt(np.mean(np.square(errors[name]), axis=0))),
            "mean_width": named(np.mean(widths[name], axis=0)),
        }
        for name in logs
    ]


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--criterion", choices=("opportunity", "odds", "both"), default="both")
    parser.add_argument("--queries", type=int, default=3_000)
    parser.add_argument("--replicates", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0, help="of the first replicate")
    parser.add_argument("--fresh", type=int, default=20_000)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    warnings.simplefilter("ignore", eo.EvenoddsWarning)
    asked = ("opportunity", "odds") if options.criterion == "both" else (options.criterion,)
    for criterion in asked:
        for result in coverage(
            criterion, options.queries, options.replicates, options.fresh, seed=options.seed
        ):
            if options.json:
                print(json.dumps(result))
                continue
            print(
                f"{criterion}, {options.queries:,} lists, {options.replicates} replicates, {TITLES[result['log']]}"
            )
            print("          covered  mean error  rms error  mean width")
            for name in SHOWN:
                print(
                    f"{name:<8}  {result['covered'][name]:>7}  {result['mean_error'][name]:>10.4f}  "
                    f"{result['rms_error'][name]:>9.4f}  {result['mean_width'][name]:>10.4f}"
                )


if __name__ == "__main__":
    main()
