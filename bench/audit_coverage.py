"""How often the audit's 95 % intervals cover the truth: 200 logs drawn anew, each audited.

python bench/audit_coverage.py                     # the tables, about three minutes
python bench/audit_coverage.py --replicates 40     # a look
python bench/audit_coverage.py --time              # how long an audit takes

Queries differ: each has its own share of group b and its own readiness to click, so that its rows hang
together, and intervals that take rows as independent are too narrow. The truth is known: scores are
normal within a group, P(Y(1) = 1) is a function of score and group, w is 1 / log2(1 + position).

The KS distance of groups that are alike is zero, and no estimate of it is; there the table shows how
often the upper end lies above and the lower end at zero, and how often the test of no difference rejects.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

import evenodds as eo
from evenodds.audit.figures import area
from evenodds.audit.intervals import Figure
from evenodds.grid import Grid

Floats = npt.NDArray[np.float64]

LENGTH = 10
NAMES = ("a", "b")
WEIGHTS = 1.0 / np.log2(1.0 + np.arange(1, LENGTH + 1))
POINTS = np.linspace(-6.0, 7.0, 6_501)
_BIG = 400_000  # queries for truths that have no formula


@dataclass(frozen=True)
class World:
    """Scores are N(shift g, 1); P(Y(1) = 1) = u level sigmoid(score - shift g + gain g), u of mean 1.

    With neither shift nor gain the groups are alike in everything.
    """

    name: str
    shift: float = 0.5
    gain: float = 0.5
    level: float = 0.5
    unlike: bool = True

    def rate(self, score: Floats, group: npt.NDArray[np.int64] | int) -> Floats:
        """P(Y(1) = 1) of a query with the mean readiness."""
        return self.level / (1.0 + np.exp(-(score - self.shift * group + self.gain * group)))

    def draw(self, rng: np.random.Generator, queries: int) -> dict[str, npt.NDArray[Any]]:
        """Draw lists, ranked by score, with the clicks on them and the chances behind those."""
        portion = rng.beta(1.5, 1.5, queries)[:, None] if self.unlike else np.full((queries, 1), 0.5)
        readiness = rng.choice([0.4, 1.6], queries)[:, None] if self.unlike else np.ones((queries, 1))
        group = (rng.random((queries, LENGTH)) < portion).astype(np.int64)
        score = rng.normal(self.shift * group, 1.0)
        order = np.argsort(-score, axis=1)
        group, score = np.take_along_axis(group, order, 1), np.take_along_axis(score, order, 1)
        chance = self.rate(score, group)
        label = rng.random(group.shape) < chance * readiness * WEIGHTS
        return {"group": group, "score": score, "chance": chance, "label": label}

    def table(self, rng: np.random.Generator, queries: int) -> pa.Table:
        """Draw a log."""
        drawn = self.draw(rng, queries)
        return pa.table(
            {
                "query": np.repeat(np.arange(queries), LENGTH),
                "position": np.tile(np.arange(1, LENGTH + 1), queries),
                "group": pa.DictionaryArray.from_arrays(drawn["group"].ravel().astype(np.int8), list(NAMES)),
                "score": drawn["score"].ravel(),
                "label": drawn["label"].ravel().astype(np.int8),
            }
        )


@dataclass(frozen=True)
class Truth:
    """The true masses ``[group, label, cell]`` on fine cells, and the true figures."""

    edges: Floats
    merit: Floats
    figures: dict[str, float]


@cache
def truth_of(world: World) -> Truth:
    """Integrate what has a formula, and average over many lists what has none."""
    middle = (POINTS[1:] + POINTS[:-1]) / 2
    density = np.exp(-((middle[None, :] - world.shift * np.arange(2)[:, None]) ** 2) / 2)
    density /= density.sum(axis=1, keepdims=True)
    chance = np.stack([world.rate(middle, group) for group in range(2)])
    merit = np.stack((density * (1 - chance), density * chance), axis=1)
    drawn = world.draw(np.random.default_rng(7), _BIG)
    place = np.searchsorted(POINTS, drawn["score"].ravel()).clip(1, middle.size) - 1
    seen = drawn["chance"] * WEIGHTS
    observed = np.zeros_like(merit)
    for group in range(2):
        own = (drawn["group"] == group).ravel()
        for label, mass in ((0, 1 - seen), (1, seen)):
            counted = np.bincount(place[own], mass.ravel()[own], middle.size)
            # Draws fill cells unevenly; the ratio to the number of draws is smooth, the density is known.
            shown = np.maximum(np.bincount(place[own], minlength=middle.size), 1e-9)
            wide = np.ones(25) / 25
            smooth = np.convolve(counted, wide, "same") / np.maximum(np.convolve(shown, wide, "same"), 1e-9)
            observed[group, label] = density[group] * smooth
    figures = {}
    for kind, mass in (("merit", merit), ("observed", observed)):
        for label, name in ((1, "positive"), (0, "negative")):
            apart = _difference(mass[:, label])
            figures[f"KS {name} ({kind})"] = float(np.abs(apart).max())
            figures[f"W1 {name} ({kind})"] = float(area(np.diff(POINTS), apart))
        for i, j in ((0, 0), (1, 1), (0, 1), (1, 0)):
            below = np.cumsum(mass[j, 0]) - mass[j, 0] / 2
            wins = float(mass[i, 1] @ below / mass[i, 1].sum() / mass[j, 0].sum())
            figures[f"AUC {NAMES[i]} over {NAMES[j]} ({kind})"] = wins
    for group, name in enumerate(NAMES):
        own = drawn["group"] == group
        rate, worth = float(seen[own].mean()), float(merit[group, 1].sum())
        figures[f"positive rate {name}"] = rate
        figures[f"merit rate {name}"] = worth
        figures[f"parity {name}"] = rate / worth
        shown_at = np.broadcast_to(WEIGHTS, own.shape)
        figures[f"exposure {name}"] = float(shown_at[own].mean())
        figures[f"share of {name} at 1"] = float(own[:, 0].mean())
    figures["parity a over b"] = figures["parity a"] / figures["parity b"]
    return Truth(POINTS, merit, figures)


def _difference(mass: Floats) -> Floats:
    cdf = np.cumsum(mass, axis=1) / mass.sum(axis=1, keepdims=True)
    return np.concatenate(([0.0], cdf[0] - cdf[1]))


def found_in(audit: eo.Audit) -> dict[str, Figure]:
    """Name the audit's figures as the truth's."""
    found = {}
    for one in audit.distances:
        label = "positive" if one.label else "negative"
        found[f"KS {label} ({one.kind})"] = one.logged.ks
        found[f"W1 {label} ({one.kind})"] = one.logged.wasserstein
        if one.fair is not None:
            found[f"KS after, {label} ({one.kind})"] = one.fair.ks
            found[f"W1 after, {label} ({one.kind})"] = one.fair.wasserstein
    for cross in audit.auc:
        found[f"AUC {cross.positives_of} over {cross.negatives_of} ({cross.kind})"] = cross.before
    for group in audit.groups:
        for name, figure in group.before.items():
            found[f"{name.replace('_', ' ')} {group.group}"] = figure
    found["parity a over b"] = audit.parity[0].before
    for name in NAMES:
        found[f"share of {name} at 1"] = audit.positions[0].before[name]
    return found


def truth_after(model: eo.Reranker, counted: eo.Tally, truth: Truth) -> dict[str, float]:
    """Return the true distances of a model's fair scores given merit labels."""
    grid = Grid(truth.edges[1:-1], np.zeros(0, np.int64))
    cells = replace(counted, grid=grid, score_range=(truth.edges[0], truth.edges[-1]))
    figures = {}
    for label, name in ((1, "positive"), (0, "negative")):
        thresholds, cdf = model.fair_cdf(cells, truth.merit[:, label])
        apart = cdf[0] - cdf[1]
        figures[f"KS after, {name} (merit)"] = float(np.abs(apart).max())
        figures[f"W1 after, {name} (merit)"] = float(area(np.diff(thresholds), apart))
    return figures


@dataclass
class Tested:
    """What 200 audits said of one figure."""

    below: int = 0
    above: int = 0
    wide: float = 0.0
    total: int = 0
    off: float = 0.0

    def add(self, figure: Figure, truth: float) -> None:
        """Count a miss on either side."""
        self.total += 1
        if figure.value is None or figure.low is None or figure.high is None:
            self.below += 1
            return
        self.below += figure.high < truth - 1e-9
        self.above += figure.low > truth + 1e-9
        self.wide += figure.high - figure.low
        self.off += figure.value - truth

    @property
    def coverage(self) -> float:
        """The share of intervals that cover."""
        return 1.0 - (self.below + self.above) / self.total


def study(
    world: World,
    replicates: int,
    queries: int,
    *,
    prepare: Callable[[pa.Table], pa.Table] = lambda log: log,
    fit: eo.Reranker | None = None,
    elsewhere: bool = False,
    first: int = 0,
) -> tuple[dict[str, Tested], list[float]]:
    """Audit logs drawn anew; return the coverage by figure, and the p-values of positives.

    `fit` is fitted on each log and audited on it, or, if `elsewhere`, fitted on another of the same size.
    """
    truth = truth_of(world)
    tested: dict[str, Tested] = {}
    chances = []
    for number in range(first, first + replicates):
        counted = eo.tally(prepare(world.table(np.random.default_rng([3, number]), queries)), cells=1_000)
        expected = truth.figures
        model = None
        if fit is not None:
            other = world.table(np.random.default_rng([4, number]), queries) if elsewhere else None
            model = fit.fit(counted if other is None else eo.tally(other, cells=1_000))
            expected = truth_after(model, counted, truth)
        result = eo.audit(counted, model)
        for name, figure in found_in(result).items():
            if name in expected:
                tested.setdefault(name, Tested()).add(figure, expected[name])
        chances += [
            one.logged.p_value or 0.0 for one in result.distances if one.label and one.kind == "merit"
        ]
    return tested, chances


def show(title: str, tested: dict[str, Tested], note: str = "") -> None:
    """Print one table."""
    print(f"\n{title}")
    print(
        f"{'figure':<34} {'covers':>7}  {'truth above':>11}  {'truth below':>11}  {'width':>7}  {'bias':>8}"
    )
    for name, one in tested.items():
        print(
            f"{name:<34} {100 * one.coverage:>6.1f}%  {one.below:>11}  {one.above:>11}  "
            f"{one.wide / one.total:>7.4f}  {one.off / one.total:>8.4f}"
        )
    if note:
        print(note)


def timing(rounds: int = 7) -> None:
    """Time the audit of a tally of 5 million rows against reading the tally and fitting on it."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "5m.tally")
        eo.tally(eo.simulate(100_000)).save(path)
        found: list[tuple[float, float, float]] = []
        for _ in range(rounds):
            marks = [time.perf_counter()]
            model = eo.EqualOpportunity().fit(eo.Tally.load(path))
            marks.append(time.perf_counter())
            eo.audit(eo.Tally.load(path))
            marks.append(time.perf_counter())
            eo.audit(eo.Tally.load(path), model)
            marks.append(time.perf_counter())
            found.append((marks[1] - marks[0], marks[2] - marks[1], marks[3] - marks[2]))
    fit, bare, after = (statistics.median(column) for column in zip(*found, strict=True))
    print(f"5 million rows: read tally and fit {fit:.2f} s; read and audit / that (limit 3):")
    print(f"  as logged {bare / fit:.2f}; with the model, read from elsewhere {after / fit:.2f}")


def main() -> None:
    """Parse, run, print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--replicates", type=int, default=200)
    parser.add_argument("--queries", type=int, default=4_000)
    parser.add_argument("--only", help="run the studies whose title holds this")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--time", action="store_true", help="only time an audit of 5 million rows")
    options = parser.parse_args()
    warnings.simplefilter("ignore", eo.EvenoddsWarning)
    if options.time:
        timing()
        return
    differ, alike = World("differ"), World("alike", shift=0.0, gain=0.0)
    studies: list[tuple[str, dict[str, Any]]] = [
        ("groups differ", {"world": differ}),
        ("groups alike: every distance is zero", {"world": alike}),
        ("groups nearly alike", {"world": World("near", shift=0.05, gain=0.0)}),
        ("model audited on the log it was fitted on", {"world": differ, "fit": eo.EqualOpportunity()}),
        (
            "model audited on another log",
            {"world": differ, "fit": eo.EqualOpportunity(), "elsewhere": True},
        ),
        (
            "half-way model audited on another log",
            {"world": differ, "fit": eo.EqualOpportunity(alpha=0.5), "elsewhere": True},
        ),
        (
            "no query column (rows do hang together: intervals are expected to fail)",
            {"world": differ, "prepare": lambda log: log.drop_columns(["query"])},
        ),
    ]
    for title, arguments in studies:
        if options.only and options.only not in title:
            continue
        start = time.perf_counter()
        tested, chances = study(replicates=options.replicates, queries=options.queries, **arguments)
        took = time.perf_counter() - start
        rejected = float(np.mean(np.array(chances) < 0.05)) if chances else 0.0
        note = f"rejects at 5 %: {100 * rejected:.1f} % ({took:.0f} s)"
        if options.json:
            print(
                json.dumps({title: {name: one.coverage for name, one in tested.items()}, "rejects": rejected})
            )
        else:
            show(f"{title}: {options.replicates} logs of {options.queries:,} queries", tested, note)


if __name__ == "__main__":
    main()
