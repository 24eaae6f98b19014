"""How often the audit's 95 % intervals cover the truth: logs drawn anew, each audited, figure by figure.

python bench/audit_coverage.py                      # the tables, 200 logs each
python bench/audit_coverage.py --replicates 1000    # tells 95 from 93 %
python bench/audit_coverage.py --only "paper's"     # the studies whose title holds this
python bench/audit_coverage.py --time               # how long an audit takes

Of 200 intervals that cover with 95 % 187 to 195 do so in two tables of three lines, and of 30 figures
one falls outside 92 to 98 % by chance now and then; --replicates 1000 tells. The last line of each table
is what the whole is about: the range over all figures.

A distance between groups that are alike is zero, and no estimate of it is; there an interval can miss on
one side only, and aims at 97.5 %. On the log that a model was fitted on, a distance after it can only
be read as a bound.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import evenodds as eo
from audit_worlds import AnyWorld, PaperWorld, World, log_of, truth_after, truth_of
from evenodds.audit.intervals import Figure

DIFFER = World()
ALIKE = World(gains=(0.0, 0.0), shifts=(0.0, 0.0))
NEAR = World(gains=(0.0, 0.0), shifts=(0.0, 0.05))
SPREAD = World(gains=(0.0, 0.0), shifts=(0.0, 0.0), spreads=(1.0, 1.3))
THREE = World(shifts=(0.0, 0.15, 0.3), gains=(0.0, 0.3, 0.6), spreads=(1.0, 1.0, 0.8))


def found_in(audit: eo.Audit) -> dict[str, Figure]:
    """Name the audit's figures as the truth's."""
    found: dict[str, Figure | None] = {}
    for one in audit.distances:
        name = f"{'positive' if one.label else 'negative'} ({one.kind}) {'/'.join(one.groups)}"
        found[f"KS {name}"], found[f"W1 {name}"] = one.logged.ks, one.logged.wasserstein
        if one.fair is not None:
            found[f"after: KS {name}"], found[f"after: W1 {name}"] = one.fair.ks, one.fair.wasserstein
    for cross in audit.auc:
        name = f"AUC {cross.positives_of} over {cross.negatives_of} ({cross.kind})"
        found[name], found[f"after: {name}"] = cross.before, cross.after
    for group in audit.groups:
        for key in group.before:
            if not key.startswith("auc"):  # told above
                name = f"{key.replace('_', ' ')} {group.group}"
                found[name] = group.before[key]
                found[f"after: {name}"] = None if group.after is None else group.after[key]
    for pair in audit.parity:
        name = f"parity {' over '.join(pair.groups)}"
        found[name], found[f"after: {name}"] = pair.before, pair.after
    for position in audit.positions:
        for group_name, share in position.before.items():
            name = f"share of {group_name} at {position.position}"
            found[name] = share
            found[f"after: {name}"] = None if position.after is None else position.after[group_name]
    return {name: figure for name, figure in found.items() if figure is not None}


@dataclass
class Tested:
    """What many audits said of one figure."""

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
    world: AnyWorld,
    replicates: int,
    queries: int,
    *,
    prepare: Callable[[pa.Table], pa.Table] = lambda log: log,
    fit: eo.Reranker | None = None,
    fit_queries: int | None = None,
    first: int = 0,
) -> tuple[dict[str, Tested], list[float]]:
    """Audit logs drawn anew; return the coverage by figure, and the p-values of merit positives.

    `fit` is fitted on each log and audited on it, or, with `fit_queries`, fitted on another of that size.
    """
    tested: dict[str, Tested] = {}
    chances = []
    for number in range(first, first + replicates):
        counted = eo.tally(prepare(log_of(world, np.random.default_rng([3, number]), queries)), cells=1_000)
        expected = truth_of(world)
        model = None
        if fit is not None:
            learned = counted
            if fit_queries is not None:
                other = log_of(world, np.random.default_rng([4, number]), fit_queries)
                learned = eo.tally(other, cells=1_000)
            model = fit.fit(learned)
            expected = expected | truth_after(world, model)
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
        f"{'figure':<38} {'covers':>7}  {'truth above':>11}  {'truth below':>11}  {'width':>7}  {'bias':>8}"
    )
    for name, one in tested.items():
        print(
            f"{name:<38} {100 * one.coverage:>6.1f}%  {one.below:>11}  {one.above:>11}  "
            f"{one.wide / one.total:>7.4f}  {one.off / one.total:>8.4f}"
        )
    reached = [100 * one.coverage for one in tested.values()]
    outside = sum(not 92.0 <= value <= 98.0 for value in reached)
    print(
        f"all {len(reached)} figures: {min(reached):.1f} to {max(reached):.1f} %, mean "
        f"{np.mean(reached):.1f} %, {outside} outside 92 to 98 %; {note}"
    )


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
    parser.add_argument("--only", help="the studies whose title holds this")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--time", action="store_true", help="only time an audit of 5 million rows")
    options = parser.parse_args()
    warnings.simplefilter("ignore", eo.EvenoddsWarning)
    if options.time:
        timing()
        return
    odds = eo.EqualizedOdds(bins=50)
    studies: list[tuple[str, dict[str, Any]]] = [
        ("groups differ", {"world": DIFFER}),
        ("groups alike: every distance is zero", {"world": ALIKE}),
        ("groups nearly alike", {"world": NEAR}),
        ("one group more spread out: the distance has two peaks", {"world": SPREAD}),
        ("three groups", {"world": THREE}),
        ("the paper's simulation", {"world": PaperWorld(), "queries": options.queries // 4}),
        ("model audited on the log it was fitted on", {"world": DIFFER, "fit": eo.EqualOpportunity()}),
        (
            "model audited on another log",
            {"world": DIFFER, "fit": eo.EqualOpportunity(), "fit_queries": options.queries},
        ),
        (
            "model audited on a log an eighth the size of its own",
            {
                "world": DIFFER,
                "fit": eo.EqualOpportunity(),
                "fit_queries": 2 * options.queries,
                "queries": options.queries // 4,
            },
        ),
        (
            "half-way model audited on another log",
            {"world": DIFFER, "fit": eo.EqualOpportunity(alpha=0.5), "fit_queries": options.queries},
        ),
        ("equalized odds audited on the log it was fitted on", {"world": DIFFER, "fit": odds}),
        (
            "equalized odds audited on another log",
            {"world": DIFFER, "fit": odds, "fit_queries": options.queries},
        ),
        (
            "no query column (rows do hang together: intervals are expected to fail)",
            {"world": DIFFER, "prepare": lambda log: log.drop_columns(["query"])},
        ),
    ]
    for title, given in studies:
        if options.only and options.only not in title:
            continue
        start = time.perf_counter()
        arguments = {"replicates": options.replicates, "queries": options.queries, **given}
        tested, chances = study(**arguments)
        took = time.perf_counter() - start
        rejected = float(np.mean(np.array(chances) < 0.05)) if chances else 0.0
        note = f"the test of no difference rejects {100 * rejected:.1f} % ({took:.0f} s)"
        if options.json:
            print(
                json.dumps({title: {name: one.coverage for name, one in tested.items()}, "rejects": rejected})
            )
        else:
            size = f"{options.replicates} logs of {arguments['queries']:,} queries"
            show(f"{title}: {size}", tested, note)


if __name__ == "__main__":
    main()
