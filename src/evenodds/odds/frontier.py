r"""The best ROC curve that all groups can share, and the kernels that reach it.

Randomising a group's bins turns its ROC curve into any concave curve under the upper concave hull of
its ROC points, and into no other (Hardt, Price and Srebro, NeurIPS 2016, for one threshold;
Blackwell 1953 for whole curves). Equalized odds asks for one curve that all groups reach. The best,
at every threshold at once, is therefore the pointwise minimum of the groups' hulls, which as a
minimum of concave functions is concave itself. It takes a sort, a sum and a minimum: O(L K log K).
The paper's appendix asks a solver for the same AUC, which is not concave in the kernel.

That much for bins that are known. Bins that are counted are noisy, and the thinner they are the more
the order of their likelihood ratios is the order of their noise: the frontier promises an AUC that
fresh data does not keep, and unequally so between groups. ``order="score"`` takes the hull of the
ROC points in the order of the scores instead (isotonic regression of the likelihood ratio): adjacent
bins that contradict the order are pooled and treated alike.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

import numpy as np

from evenodds.errors import SettingsError, TallyError
from evenodds.odds.coupling import GRID, Ints, couple, least_movement
from evenodds.odds.curve import area_under, hull, lower, simplify, tidy
from evenodds.odds.problem import Floats, Kernel, OddsProblem

Order = Literal["likelihood", "score"]

_PROVEN = 1e-6  # part of the movement that may be unproven if it is called the least


@dataclass(frozen=True)
class Frontier:
    """The shared ROC curve and what it costs each group.

    Attributes
    ----------
    false_positive_rate, true_positive_rate
        Vertices from (0, 0) to (1, 1), concave.
    auc
        Area under these vertices.
    exact_auc
        Area under the minimum of the hulls, of which the vertices are a subset.
    own_auc
        Area under each group's own hull: the best it could have by itself.
    raw_auc
        Area under each group's ROC curve as its scores stand; under one half for a reversed score.
    pools
        ``pools[c][k]``: which of group c's pools bin k belongs to; by likelihood, each its own.
    """

    false_positive_rate: Floats
    true_positive_rate: Floats
    auc: float
    exact_auc: float
    own_auc: Floats
    raw_auc: Floats
    pools: tuple[Ints, ...]

    @property
    def price(self) -> Floats:
        """What each group gives up: the AUC of its own hull less the shared AUC."""
        return self.own_auc - self.auc

    @property
    def target(self) -> Floats:
        """Return ``target[y, t]``, the mass of each segment given y, in increasing likelihood ratio."""
        return np.diff(np.stack([self.false_positive_rate, self.true_positive_rate]), axis=1)[:, ::-1]

    def edges(self, base_rate: float) -> Floats:
        """Return where the target bins begin and end in ranks, 0 the worst, if `base_rate` are positive.

        Laid out so, the fair scores keep the distribution that all scores have together.
        """
        share = (1.0 - base_rate) * self.target[0] + base_rate * self.target[1]
        return np.concatenate([[0.0], np.cumsum(share)])


@dataclass(frozen=True)
class FrontierSolution:
    """Kernels that reach the frontier.

    `kernel` has one matrix a group, all to the same T target bins, of which the last is the best.
    `method` is ``"least movement"`` if that is proven to a millionth, ``"bounded movement"`` if the
    proof has a wider `gap`, else ``"coupling"``. `movement` is E of the cost over all impressions,
    None without a cost; `gap` is movement less a proven lower bound of it, None for a coupling.
    """

    frontier: Frontier
    kernel: Kernel
    method: str
    movement: float | None
    gap: float | None


class Threshold(NamedTuple):
    """One decision on the shared curve: positive are the target bins from `first` on."""

    first: int
    false_positive_rate: float
    true_positive_rate: float
    accuracy: float


def find_frontier(
    problem: OddsProblem,
    *,
    order: Order = "likelihood",
    loss: float = 1e-7,
    max_targets: int | None = None,
) -> Frontier:
    """Return the best ROC curve that all groups can share: the minimum of their hulls.

    By likelihood a group whose scores rank its own positives below its negatives has a hull above
    the diagonal all the same: its bins enter in the order of their likelihood ratio, whatever their
    scores, so the kernels that reach the frontier turn that group's scores round. By score such a
    group is one pool, and the frontier the diagonal.

    Parameters
    ----------
    problem
        Two labels: index 0 negative, 1 positive. Bins without mass in a group are left out there.
    order
        ``"likelihood"``: the best that these bins allow, as if their masses were known.
        ``"score"``: the best that mixtures of score thresholds reach in all groups.
    loss
        The AUC that may be given up to have few target bins. Any subset of the vertices lies under
        all hulls, so it can be reached too. Segments are merged, as many as go, up to an equal loss
        each; for a smooth curve this is the least number asymptotically. 0 keeps all vertices.
    max_targets
        At most this many target bins, whatever they lose; ``exact_auc - auc`` says how much.

    Examples
    --------
    >>> given = np.array([[[0.5, 0.5], [0.25, 0.75]], [[0.75, 0.25], [0.5, 0.5]]])
    >>> frontier = find_frontier(OddsProblem(given, np.full((2, 2), 0.25), np.zeros((2, 2))))
    >>> frontier.false_positive_rate.round(9).tolist(), frontier.true_positive_rate.round(9).tolist()
    ([0.0, 0.4, 1.0], [0.0, 0.6, 1.0])
    >>> frontier.price.round(5).tolist()
    [0.025, 0.025]
    """
    _check(problem, order, loss, max_targets)
    given = problem.given / problem.given.sum(axis=2, keepdims=True)
    single = np.arange(problem.bins)
    pools = tuple(_pool(group) if order == "score" else single for group in given)
    hulls = [hull(_gather(group, pool)) for group, pool in zip(given, pools, strict=True)]
    shared = hulls[0]
    for other in hulls[1:]:
        shared = lower(shared, other)
    shared = tidy(shared)
    kept = simplify(shared, loss, max_targets)
    rates = np.stack([kept.along - kept.height, kept.along + kept.height]) / 2.0
    rates = np.rint(rates * GRID) / GRID  # bins lie on this grid already; now crossings do too
    false, true = np.maximum.accumulate(np.clip(rates, 0.0, 1.0), axis=1)
    below = np.cumsum(given[:, 0], axis=1) - 0.5 * given[:, 0]  # half of a tie counts as below
    return Frontier(
        false_positive_rate=false,
        true_positive_rate=true,
        auc=area_under(false, true),
        exact_auc=shared.auc,
        own_auc=np.array([own.auc for own in hulls]),
        raw_auc=(given[:, 1] * below).sum(axis=1),
        pools=pools,
    )


def reach(
    problem: OddsProblem,
    frontier: Frontier,
    cost: Floats | None = None,
    *,
    affordable_columns: int = 200_000,
    time_limit: float | None = None,
) -> FrontierSolution:
    """Return kernels that carry every group's bins to the frontier's target bins.

    Parameters
    ----------
    problem, frontier
        The bins, and `find_frontier` of them.
    cost
        What moving from bin k to target bin t costs, shape (K, T). Where the target bins lie on
        the score scale is for the caller to say; `Frontier.edges` is one answer.
    affordable_columns
        Up to this many pairs (k, t) a group the kernels are those of least movement; beyond, or
        without a cost, an explicit coupling, which moves more but takes milliseconds.
    time_limit
        Seconds for the least movement of all groups; when they are over the gap is not zero.
    """
    target = frontier.target
    shape = (problem.bins, target.shape[1])
    if cost is not None and (cost.shape != shape or not np.isfinite(cost).all() or cost.min() < 0.0):
        raise SettingsError(f"cost must be finite, not negative and of shape {shape}, got shape {cost.shape}")
    end = np.inf if time_limit is None else time.monotonic() + time_limit
    affordable = max(int(pool[-1]) + 1 for pool in frontier.pools) * shape[1] <= affordable_columns
    rows, bound = [], 0.0
    for c, pool in enumerate(frontier.pools):
        given = _gather(problem.given[c], pool)
        if cost is None or not affordable:
            rows.append(couple(given, target)[pool])
            continue
        visits = problem.visits[c]
        share = (end - time.monotonic()) / (problem.groups - c)
        own, proven = least_movement(
            given, _gather(visits, pool), target, _mean_cost(cost, visits, pool), time_limit=share
        )
        rows.append(own[pool])
        bound += proven
    kernel = Kernel(tuple(rows), target)
    movement = None if cost is None else kernel.movement(replace(problem, cost=cost))
    if movement is None or not affordable:
        return FrontierSolution(frontier, kernel, "coupling", movement, None)
    gap = max(movement - bound, 0.0)
    method = "least movement" if gap <= _PROVEN * movement + 1e-12 else "bounded movement"
    return FrontierSolution(frontier, kernel, method, movement, gap)


def _pool(given: Floats) -> Ints:
    """Return the pool of each bin: adjacent bins whose posteriors fall with the score, until none do."""
    from scipy.optimize import isotonic_regression

    mass = given.sum(axis=0)
    held = np.flatnonzero(mass > 0.0)
    blocks = isotonic_regression(given[1, held] / mass[held], weights=mass[held]).blocks
    first = held[blocks[:-1]]
    return np.maximum(np.searchsorted(first, np.arange(mass.size), side="right") - 1, 0)


def _gather(values: Floats, pool: Ints) -> Floats:
    """Sum over the bins of each pool, along the last axis."""
    starts = np.flatnonzero(np.diff(pool, prepend=-1))
    return np.add.reduceat(values, starts, axis=-1)


def _mean_cost(cost: Floats, visits: Floats, pool: Ints) -> Floats:
    """Return what it costs on average to move an item of each pool."""
    if pool[-1] + 1 == pool.size:
        return cost
    weight = visits + 1e-12 / pool.size  # a pool without visits costs the plain mean
    return _gather((weight[:, None] * cost).T, pool).T / _gather(weight, pool)[:, None]


def solve_frontier(
    problem: OddsProblem,
    *,
    cost: Callable[[Frontier], Floats] | None = None,
    order: Order = "likelihood",
    loss: float = 1e-7,
    max_targets: int | None = None,
    affordable_columns: int = 200_000,
    time_limit: float | None = None,
) -> FrontierSolution:
    """Find the frontier and reach it: `find_frontier`, then `reach` with ``cost(frontier)``.

    Examples
    --------
    >>> given = np.array([[[0.5, 0.5], [0.25, 0.75]], [[0.75, 0.25], [0.5, 0.5]]])
    >>> problem = OddsProblem(given, np.full((2, 2), 0.25), np.zeros((2, 2)))
    >>> solution = solve_frontier(problem)
    >>> solution.kernel.residual(problem) < 1e-12
    True
    """
    frontier = find_frontier(problem, order=order, loss=loss, max_targets=max_targets)
    return reach(
        problem,
        frontier,
        None if cost is None else cost(frontier),
        affordable_columns=affordable_columns,
        time_limit=time_limit,
    )


def best_threshold(frontier: Frontier, base_rate: float) -> Threshold:
    """Return the vertex of greatest accuracy, ``r TPR + (1 - r) (1 - FPR)`` with r the base rate.

    It is what Hardt et al. (2016) derive for one threshold under equalized odds.
    """
    if not 0.0 <= base_rate <= 1.0:
        raise SettingsError(f"base_rate must lie in 0..1, got {base_rate}")
    false, true = frontier.false_positive_rate, frontier.true_positive_rate
    accuracy = base_rate * true + (1.0 - base_rate) * (1.0 - false)
    best = int(accuracy.argmax())
    return Threshold(false.size - 1 - best, float(false[best]), float(true[best]), float(accuracy[best]))


def _check(problem: OddsProblem, order: str, loss: float, max_targets: int | None) -> None:
    if problem.labels != 2:
        raise SettingsError(
            f"the AUC objective needs two labels, got {problem.labels}", hint='use objective="movement"'
        )
    if order not in {"likelihood", "score"}:
        raise SettingsError(f'order must be "likelihood" or "score", got {order!r}')
    if not loss >= 0.0:
        raise SettingsError(f"loss must not be negative, got {loss}")
    if max_targets is not None and max_targets < 1:
        raise SettingsError(f"max_targets must be at least 1, got {max_targets}")
    sound = np.isfinite(problem.given).all(axis=2) & (problem.given >= 0.0).all(axis=2)
    sound &= np.abs(problem.given.sum(axis=2) - 1.0) <= 1e-9
    if not sound.all():
        group, label = np.argwhere(~sound)[0]
        raise TallyError(
            f"group {group} has no distribution over bins given label {label}",
            hint="every group needs positives and negatives",
        )
