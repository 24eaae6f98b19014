"""Time the movement program against the same program given whole to HiGHS, and print what is certified.

    python bench/odds_movement.py               # every size; the whole program at 100 bins only
    python bench/odds_movement.py --whole-400   # and at 400 bins: half a minute or more

The whole program is written out here as it stands in the paper, with every p[c, k, t] for a variable and
HiGHS's own choice of method; building it is not counted. Sizes: bins x groups x labels.
"""

from __future__ import annotations

import argparse
import statistics
import time
from typing import Any, NamedTuple

import highspy
import numpy as np
from scipy import sparse

from evenodds.odds.movement import MovementSolution, solve_movement
from evenodds.odds.problem import OddsProblem
from evenodds.simulate import draw_population


class Case(NamedTuple):
    """One line of the table: a size, the gap asked for, and what to reach."""

    bins: int
    groups: int
    labels: int
    gap: float
    wanted: str


CASES = (
    Case(100, 2, 2, 1e-4, "optimum to 1e-7, at most 1.2 x the whole"),
    Case(400, 2, 2, 1e-4, "gap 1e-4, at least 10 x faster than the whole"),
    Case(1000, 2, 2, 1e-3, "gap 1e-3 in 60 s"),
    Case(200, 10, 2, 1e-3, "gap 1e-3 in 60 s"),
    Case(100, 10, 6, 1e-3, "a certified gap"),
)
WHOLE_LIMIT = 600.0


def paper_bins(bins: int) -> OddsProblem:
    """Draw the paper's simulation: 1 / (1 + exp(-score)) in equal bins, a million rows, merit labels."""
    population = draw_population(50_000, 0)
    rng = np.random.default_rng(7)
    item = rng.integers(0, 50_000, 1_000_000)
    score = population.relevance[item] + rng.normal(0.0, 0.1, item.size)
    place = (bins / (1.0 + np.exp(-score))).astype(np.int64)
    counts = np.zeros((2, 2, bins))
    np.add.at(counts, (population.group[item], population.merit[item], place), 1.0)
    return from_counts(counts)


def shifted_groups(bins: int, groups: int, labels: int) -> OddsProblem:
    """Draw normal scores whose means, spreads and base rates differ between groups; 200,000 rows."""
    rng = np.random.default_rng([bins, groups, labels])
    counts = np.zeros((groups, labels, bins))
    for c in range(groups):
        mean, spread = rng.uniform(-0.7, 0.7), rng.uniform(0.8, 1.2)
        rows = rng.multinomial(200_000 // groups, rng.dirichlet(np.full(labels, 5.0)))
        for y in range(labels):
            score = rng.normal(mean + 1.2 * y / max(labels - 1, 1) + rng.uniform(-0.1, 0.1), spread, rows[y])
            place = ((score + 4.0) / 9.0 * bins).clip(0, bins - 1).astype(np.int64)
            counts[c, y] = np.bincount(place, minlength=bins)
    return from_counts(counts)


def from_counts(counts: np.typing.NDArray[np.float64]) -> OddsProblem:
    """Return the problem, with the cost of moving between uniform points of bins in score units."""
    bins = counts.shape[2]
    middle = (np.arange(bins) + 0.5) / bins
    cost = np.abs(middle[:, None] - middle) + np.eye(bins) / (3 * bins)
    given = counts / counts.sum(axis=2, keepdims=True)
    return OddsProblem(given, counts.sum(axis=1) / counts.sum(), cost)


def solve_whole(problem: OddsProblem) -> tuple[float, float]:
    """Return the optimum of the whole program of two groups, and HiGHS's seconds."""
    bins = problem.bins
    rows = sparse.kron(sparse.eye_array(2 * bins), np.ones((1, bins)))
    images = [
        sparse.hstack(
            [
                sparse.kron(sign * problem.given[c, y][None, :], sparse.eye_array(bins))
                for c, sign in enumerate((1, -1))
            ]
        )
        for y in range(problem.labels)
    ]
    matrix = sparse.csc_array(sparse.vstack([rows, *images]))
    right = np.concatenate([np.ones(2 * bins), np.zeros(problem.labels * bins)])
    model = highspy.HighsLp()
    model.num_row_, model.num_col_ = matrix.shape
    model.col_cost_ = (problem.visits[:, :, None] * problem.cost).ravel()
    model.col_lower_, model.col_upper_ = np.zeros(matrix.shape[1]), np.full(matrix.shape[1], np.inf)
    model.row_lower_, model.row_upper_ = right, right
    model.a_matrix_.format_ = highspy.MatrixFormat.kColwise
    model.a_matrix_.start_, model.a_matrix_.index_ = matrix.indptr, matrix.indices
    model.a_matrix_.value_ = matrix.data
    make: Any = highspy.Highs
    solver = make()
    for name, value in (("output_flag", False), ("time_limit", WHOLE_LIMIT)):
        if solver.setOptionValue(name, value) != highspy.HighsStatus.kOk:
            raise SystemExit(f"HiGHS refused {name}")
    solver.passModel(model)
    started = time.perf_counter()
    solver.run()
    seconds = time.perf_counter() - started
    if solver.getModelStatus() != highspy.HighsModelStatus.kOptimal:
        raise SystemExit(f"HiGHS ended with {solver.getModelStatus().name} after {seconds:.0f} s")
    return float(solver.getInfo().objective_function_value), seconds


def measure(case: Case, *, whole: bool, repeats: int) -> str:
    """Return one line of the table; the median of the repeats, taken in turns with the whole program."""
    paper = (case.groups, case.labels) == (2, 2)
    problem = paper_bins(case.bins) if paper else shifted_groups(case.bins, case.groups, case.labels)
    optimum, apart, ratio = 0.0, "", ""
    solutions: list[MovementSolution] = []
    wholes: list[float] = []
    for _ in range(repeats):
        solutions.append(solve_movement(problem, gap=case.gap, time_limit=300.0))
        if whole:
            optimum, seconds = solve_whole(problem)
            wholes.append(seconds)
    solution = solutions[-1]
    seconds = statistics.median(found.seconds for found in solutions)
    if whole:
        ratio = f"{seconds / statistics.median(wholes):.3f}"
        apart = f"{solution.objective / optimum - 1.0:.1e}"
    size = f"{case.bins} x {case.groups} x {case.labels}"
    claim = f"{solution.gap:.1e}" if solution.certified else f"({solution.gap:.1e})"
    whole_seconds = f"{statistics.median(wholes):.2f}" if whole else ""
    entries = sum(rows.nnz for rows in solution.kernel.rows)
    return (
        f"{size:<12} {solution.method:<8} {seconds:>8.2f} {whole_seconds:>8} {ratio:>7} {apart:>9} {claim:>9} "
        f"{solution.kernel.residual(problem):>9.1e} {entries:>8} {solution.objective:.6f}  {case.wanted}"
    )


def main() -> None:
    """Print the table; a gap in brackets is larger than the one asked for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--whole-400", action="store_true", help="give HiGHS 400 bins whole too, once")
    chosen = parser.parse_args()
    print(
        f"{'size':<12} {'method':<8} {'seconds':>8} {'whole':>8} {'ratio':>7} {'optimum':>9} {'gap':>9} "
        f"{'residual':>9} {'entries':>8} movement  to reach"
    )
    solve_movement(paper_bins(20))  # imports HiGHS, so that no line pays for it
    for case in CASES:
        small = case.bins == 100 and case.groups == 2
        whole = small or (case.bins == 400 and chosen.whole_400)
        print(measure(case, whole=whole, repeats=7 if small else 1), flush=True)


if __name__ == "__main__":
    main()
