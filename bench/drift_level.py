"""How often `eo.drift` raises a false alarm, and how often it finds a drift that is there.

python bench/drift_level.py                      # the table, about five minutes
python bench/drift_level.py --replicates 40      # a look

Each replicate draws a log ranked by the score, fits equality of opportunity on it, and draws a newer log
that is ranked by the fair score, with its clicks redrawn there. Queries differ in how ready they are to
click and in which group they show, so that their rows hang together. Without a drift both come from one
world; the drifts are: group b's scores fall by half a standard deviation, users look further down, group
b's merit rises by a third (which leaves the correction fair).
"""

from __future__ import annotations

import argparse
import json
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

import evenodds as eo
from evenodds.drift import Drift, drift

Floats = npt.NDArray[np.float64]

LENGTH = 10
NAMES = ("a", "b")
CELLS = 1_000


@dataclass(frozen=True)
class World:
    """Scores are N(gap g, 1); P(Y(1) = 1) = u level_g sigmoid(score - shift g); u has the mean 1.

    Attributes
    ----------
    shift
        How far the scores of group b's people lie above what they are worth.
    raised
        What group b's merit is multiplied by.
    flat
        The power to which position bias 1 / log2(1 + j) is taken: below 1 users look further down.
    """

    shift: float = 0.5
    raised: float = 1.0
    flat: float = 1.0

    def log(
        self, rng: np.random.Generator, queries: int, rescore: Callable[[Floats, list[str]], Floats] | None
    ) -> pa.Table:
        """Draw a log, ranked by `rescore`, or by the score."""
        portion = rng.beta(1.5, 1.5, queries)[:, None]
        ready = rng.choice([0.4, 1.6], queries)[:, None]
        group = (rng.random((queries, LENGTH)) < portion).astype(np.int64)
        score = rng.normal(self.shift * group, 1.0)
        by = score
        if rescore is not None:
            by = rescore(score.ravel(), np.array(NAMES)[group.ravel()].tolist()).reshape(score.shape)
        order = np.argsort(-by, axis=1)
        group, score = np.take_along_axis(group, order, 1), np.take_along_axis(score, order, 1)
        worth = 0.4 * self.raised**group / (1.0 + np.exp(-(score - self.shift * group)))
        weights = (1.0 / np.log2(1.0 + np.arange(1, LENGTH + 1))) ** self.flat
        label = rng.random(group.shape) < worth * ready * weights
        return pa.table(
            {
                "query": np.repeat(np.arange(queries), LENGTH),
                "position": np.tile(np.arange(1, LENGTH + 1), queries),
                "group": np.array(NAMES)[group.ravel()],
                "score": score.ravel(),
                "label": label.ravel().astype(np.int8),
            }
        )


BEFORE = World()
CASES = {
    "no drift": BEFORE,
    "scores of b fall": World(shift=0.0),
    "users look further down": World(flat=0.6),
    "merit of b up by a third": World(raised=1.33),
}


def compared(case: World, seed: int, queries: tuple[int, int], *, stored: bool, limit: float) -> Drift:
    """Draw both logs and compare them; `stored` keeps nothing of the old one but the model file."""
    rng = np.random.default_rng([seed, 77])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        old = eo.tally(BEFORE.log(rng, queries[0], None), cells=CELLS)
        model = eo.EqualOpportunity().fit(old)
        new = eo.tally(case.log(rng, queries[1], model.transform), grid=old)
        if stored:
            model.tally_ = None
            return drift(model, new, limit=limit)
        return drift(old, new, model, limit=limit)


def tallied(found: list[Drift]) -> dict[str, float]:
    """Count verdicts, and how often each kind of test rejects at 5 %."""

    def often(test: Callable[[Drift], bool]) -> float:
        return float(np.mean([test(one) for one in found]))

    def below(values: list[float | None]) -> bool:
        return any(value is not None and value < 0.05 for value in values)

    return {
        "drifted": often(lambda one: one.status == "drifted"),
        "unfair": often(lambda one: one.status == "unfair"),
        "unsure": often(lambda one: one.status == "unsure"),
        "holds": often(lambda one: one.status == "holds"),
        "unfairness changed": often(lambda one: below([pair.p_adjusted for pair in one.pairs])),
        "any change": often(
            lambda one: below(
                [
                    part.p_adjusted
                    for part in (*one.distributions, *([one.weights] if one.weights else []), *one.rates)
                ]
            )
        ),
        "a change that matters": often(lambda one: bool(one.changes)),
        "one distribution": float(
            np.mean([p < 0.05 for one in found for d in one.distributions if (p := d.p_value) is not None])
        ),
        "position bias": often(lambda one: one.weights is not None and below([one.weights.p_value])),
        "one rate (share, merit)": float(
            np.mean(
                [
                    p < 0.05
                    for one in found
                    for rate in one.rates
                    if rate.name != "positive_rate" and (p := rate.p_value) is not None
                ]
            )
        ),
    }


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--replicates", type=int, default=100)
    parser.add_argument("--queries", default="10000:10000", help="lists in the older and the newer log")
    parser.add_argument("--cases", action="append", choices=list(CASES), help="some of them only")
    parser.add_argument("--limit", type=float, default=0.05)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    queries = tuple(int(part) for part in options.queries.split(":"))
    table: dict[str, dict[str, Any]] = {}
    for name, case in CASES.items():
        if name not in (options.cases or CASES):
            continue
        for stored in (False, True):
            found = [
                compared(case, seed, (queries[0], queries[1]), stored=stored, limit=options.limit)
                for seed in range(options.replicates)
            ]
            table[f"{name}, {'model file' if stored else 'tally'}"] = tallied(found)
    if options.json:
        print(json.dumps(table, indent=2))
        return
    print(f"{options.replicates} replicates, {queries[0]:,} and {queries[1]:,} lists of {LENGTH}")
    width = max(map(len, table))
    names = list(next(iter(table.values())))
    for name in names:
        print(f"\n{name}")
        for case_name, row in table.items():
            print(f"  {case_name:{width}}  {100 * row[name]:5.1f} %")


if __name__ == "__main__":
    main()
