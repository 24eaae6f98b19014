"""Bins in, kernels out: which solver for which setting, and what becomes of groups left aside."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from evenodds.exposure import Exposure
from evenodds.odds.bins import Bins
from evenodds.odds.frontier import Frontier, Order, find_frontier, solve_frontier
from evenodds.odds.movement import solve_movement
from evenodds.odds.observed import solve_observed
from evenodds.odds.problem import OddsProblem
from evenodds.position import PositionBias
from evenodds.tally import Tally

if TYPE_CHECKING:
    from evenodds.odds.equalized import EqualizedOdds

Floats = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]
Ints = npt.NDArray[np.int64]

ORDERS: tuple[Order, ...] = ("likelihood", "score")


@dataclass(frozen=True)
class Fitted:
    """Kernels for all groups of the tally and, last, for unknown ones.

    Attributes
    ----------
    rows
        One K x T matrix each.
    levels
        The share of all scores below each target bin's edges, T + 1 of them.
    solved
        What the solver has to say, for the diagnostics.
    """

    rows: tuple[sparse.csr_array, ...]
    levels: Floats
    solved: dict[str, Any] = field(default_factory=dict)


def fit_kernels(
    settings: EqualizedOdds, tally: Tally, bias: PositionBias, bins: Bins, own: Flags, labels: Ints
) -> Fitted:
    """Solve for the groups with enough rows; give the others the mean kernel."""
    cost = bins.cost(settings.cost, redrawn=not settings.keep_order)
    problem = bins.problem(own, labels, cost)
    solved: dict[str, Any]
    levels = bins.levels
    if settings.objective == "auc":
        kernels, levels, solved = _frontier(problem, settings, bins, own)
    else:
        relaxed = None if settings.epsilon is None else epsilons(settings, labels.size)
        solution = solve_movement(problem, epsilon=relaxed, time_limit=settings.time_limit, gap=settings.gap)
        kernels = solution.kernel.rows
        solved = {
            "method": solution.method,
            "residual": solution.breach,
            "movement": solution.objective,
            "bound": solution.bound,
            "gap": solution.gap,
            "certified": solution.certified,
        }
        if settings.target == "observed":
            share = bins.mass[own, 1].sum(axis=1) / bins.mass[own].sum(axis=(1, 2))
            observed = solve_observed(
                problem, solution.kernel, share, Exposure(tally, bias), time_limit=settings.time_limit
            )
            kernels = observed.kernel.rows
            solved = {
                "method": "observed",
                "residual": observed.residual,
                "missed": observed.missed,
                "rounds": observed.rounds,
            }
    pooled = mean_kernel(bins.visits[own], kernels)
    given = iter(kernels)
    rows = tuple(next(given) if has_own else pooled for has_own in own)
    return Fitted((*rows, pooled), levels, solved)


def epsilons(settings: EqualizedOdds, labels: int) -> list[float]:
    """Return one epsilon a label."""
    values = np.atleast_1d(np.asarray(settings.epsilon, dtype=np.float64)).tolist()
    return values * labels if len(values) == 1 else values


def mean_kernel(visits: Floats, kernels: tuple[sparse.csr_array, ...]) -> sparse.csr_array:
    """Treat an item of no known group as one drawn at random from the groups at its score."""
    total = visits.sum(axis=0)
    share = np.divide(visits, total, out=np.full_like(visits, 1 / len(visits)), where=total > 0)
    mean = sum(sparse.diags_array(part) @ rows for part, rows in zip(share, kernels, strict=True))
    return sparse.csr_array(mean)


def _frontier(
    problem: OddsProblem, settings: EqualizedOdds, bins: Bins, own: Flags
) -> tuple[tuple[sparse.csr_array, ...], Floats, dict[str, Any]]:
    """Reach the best shared ROC curve; its target bins share out the old scores from worst to best."""
    mass = bins.mass[own].sum(axis=(0, 2))
    shares = mass / mass.sum()

    def levels_of(frontier: Frontier) -> Floats:
        reached = np.concatenate(([0.0], np.cumsum(shares @ frontier.target)))
        return reached / reached[-1]

    def cost_of(frontier: Frontier) -> Floats:
        levels = levels_of(frontier)
        middle = (levels[1:] + levels[:-1]) / 2
        if settings.cost == "score":
            middle = np.interp(middle, bins.means[1], bins.means[0])
        return np.abs(bins.means[0 if settings.cost == "score" else 1][:, None] - middle[None, :])

    solution = solve_frontier(problem, cost=cost_of, order=settings.order, time_limit=settings.time_limit)
    frontier = solution.frontier
    visits = problem.visits
    reached = sum(part @ rows for part, rows in zip(visits, solution.kernel.rows, strict=True))
    levels = np.concatenate(([0.0], np.cumsum(reached)))
    solved = {
        "method": solution.method,
        "residual": solution.kernel.residual(problem),
        "movement": solution.movement,
        "gap": solution.gap,
        "auc": frontier.auc,
        "exact_auc": frontier.exact_auc,
        "auc_by_order": {order: find_frontier(problem, order=order).auc for order in ORDERS},
        "own_auc": frontier.own_auc.tolist(),
        "raw_auc": frontier.raw_auc.tolist(),
        "price": frontier.price.tolist(),
        "roc": {
            "false_positive_rate": frontier.false_positive_rate.tolist(),
            "true_positive_rate": frontier.true_positive_rate.tolist(),
        },
    }
    return solution.kernel.rows, levels / levels[-1], solved
