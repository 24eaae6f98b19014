"""Measure the exact AUC frontier against the whole movement LP at K = 100, in the same run.

    python bench/odds_frontier.py

The LP is written out here as it stands in the paper, and given whole to HiGHS.
"""

from __future__ import annotations

import statistics
import time
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from scipy import sparse
from scipy.optimize import linprog

from evenodds.odds.frontier import Frontier, Order, find_frontier, reach, solve_frontier
from evenodds.odds.problem import OddsProblem
from evenodds.simulate import draw_population

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy.typing as npt

    Floats = npt.NDArray[np.float64]
    Ints = npt.NDArray[np.int64]


def counted(group: Ints, label: Ints, score: Floats, bins: int) -> OddsProblem:
    """Count a sample into quantile bins."""
    edges = np.quantile(score, np.linspace(0, 1, bins + 1)[1:-1])
    counts = np.zeros((int(group.max()) + 1, 2, bins))
    np.add.at(counts, (group, label, np.searchsorted(edges, score)), 1)
    ranks = (np.arange(bins) + 0.5) / bins
    given = counts / counts.sum(axis=2, keepdims=True)
    return OddsProblem(given, counts.sum(axis=1) / counts.sum(), np.abs(ranks[:, None] - ranks))


def papers_groups(size: int, bins: int) -> OddsProblem:
    """Return the paper's population in bins."""
    people = draw_population(size)
    return counted(people.group, people.merit, people.relevance, bins)


def four_groups(size: int, bins: int) -> OddsProblem:
    """Return four groups whose ROC curves cross, in bins."""
    rng = np.random.default_rng(1)
    group = rng.integers(0, 4, size)
    label = (rng.random(size) < np.array([0.3, 0.4, 0.5, 0.35])[group]).astype(np.int64)
    shift = np.array([0, 0.3, -0.2, 0.1])[group] + label * np.array([1, 0.8, 1.2, 1.1])[group]
    return counted(
        group, label, rng.normal(shift, np.where(label == 1, np.array([1, 0.6, 1.4, 1])[group], 1.0)), bins
    )


def whole_movement_lp(problem: OddsProblem) -> float:
    """Solve the paper's movement LP for two groups, all columns at once; return the movement."""
    bins = problem.bins
    eye, row = sparse.eye_array(bins), np.ones((1, bins))
    blocks = [
        sparse.block_array([[sparse.kron(eye, row), None], [None, sparse.kron(eye, row)]]),
        *(
            sparse.hstack([sparse.kron(one[None], eye), -sparse.kron(other[None], eye)])
            for one, other in zip(problem.given[0], problem.given[1], strict=True)
        ),
    ]
    found = linprog(
        (problem.visits[:, :, None] * problem.cost).ravel(),
        A_eq=sparse.vstack(blocks).tocsc(),
        b_eq=np.concatenate([np.ones(2 * bins), np.zeros(2 * bins)]),
        method="highs-ds",
    )
    return float(found.fun)


def rank_cost(frontier: Frontier, bins: int, base_rate: float = 0.4) -> Floats:
    """Return the distance in ranks from each bin to each target bin."""
    edges = frontier.edges(base_rate)
    return np.abs((np.arange(bins)[:, None] + 0.5) / bins - (edges[1:] + edges[:-1]) / 2)


def median_time(run: Callable[[], object], times: int = 5) -> float:
    """Return the median of some runs, in seconds."""
    taken = []
    for _ in range(times):
        start = time.perf_counter()
        run()
        taken.append(time.perf_counter() - start)
    return statistics.median(taken)


def main() -> None:
    """Print the table."""
    small = papers_groups(50_000, 100)
    baseline = median_time(lambda: whole_movement_lp(small), 3)
    print(f"whole movement LP, K = 100, two groups                {baseline:8.3f} s")
    fine = four_groups(4_000_000, 10_000)
    orders: tuple[Order, ...] = ("likelihood", "score")
    for order in orders:

        def run(order: Order = order) -> object:
            return solve_frontier(fine, order=order)

        taken = median_time(run)
        solution = solve_frontier(fine, order=order)
        frontier = solution.frontier
        loss = frontier.exact_auc - frontier.auc
        print(f"frontier and coupling, K = 10,000, four groups, by {order:10} {taken:.3f} s")
        print(f"    that is {taken / baseline:.2f} of the LP; {frontier.target.shape[1]} target bins")
        print(f"    AUC {frontier.auc:.6f}, {loss:.1e} under the exact one")
        print(f"    residual {solution.kernel.residual(fine):.1e}, price {frontier.price.round(4).tolist()}")
    print("least movement to the frontier, all groups            seconds    gap / movement   coupling moves")
    for name, make in (("paper's two groups", papers_groups), ("four groups", four_groups)):
        for bins in (100, 400):
            problem = make(400_000 if make is four_groups else 50_000, bins)
            frontier = find_frontier(problem)
            cost = rank_cost(frontier, bins)
            start = time.perf_counter()
            solution = reach(problem, frontier, cost)
            taken = time.perf_counter() - start
            coupling = reach(problem, frontier, cost, affordable_columns=0)
            if solution.movement is None or solution.gap is None or coupling.movement is None:
                raise AssertionError("a cost was given")
            checked = solution.kernel.movement(replace(problem, cost=cost))
            print(
                f"    {name:20} K = {bins:4} T = {frontier.target.shape[1]:4}            {taken:8.3f}"
                f"    {solution.gap / solution.movement:.1e}          {coupling.movement / checked:.3f} times as much"
            )


if __name__ == "__main__":
    main()
