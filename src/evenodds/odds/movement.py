"""Equalized odds with the least movement: the linear program, whole or from coarse bins to fine.

Source: the optimisation problem of section "Equalized Odds in Rankings" of Nandy et al. (FAccT
2022), with E|s - s'| as the objective (minimised; each side of a constraint carries its own
group's kernel). A few bins go to HiGHS whole. Many bins take four steps a level, from coarse to fine:

1. the coarser kernel, each bin split in two, is a feasible kernel on the finer bins;
2. an interior point method on all columns gives prices, and these a lower bound on the optimum;
3. HiGHS solves the program on the columns of 1 and the cheapest moves by the prices of 2;
4. all columns are priced again, between the prices of 2 and 3, until the bound is near enough.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
from scipy import sparse

from evenodds.errors import EvenoddsError, SettingsError, TallyError
from evenodds.odds.lp import Side, interior_prices, sides_of, solve_with_highs
from evenodds.odds.problem import Kernel, OddsProblem
from evenodds.odds.relax import TINY, Agreement, check_epsilon, images_of, settle, tidy

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Rows = tuple[sparse.csr_array, ...]

WHOLE = 8_000  # columns up to which HiGHS gets the whole program at once
RELAXED = 400_000  # the same for ratio constraints, for which there is no interior point method
EXACT = 20_000  # columns up to which the optimum is found to seven digits, whatever the gap asked for
SEVEN_DIGITS = 5e-8
LARGEST = 4_000  # prices a group (labels times bins) up to which the interior point method fits
NEAR = 6  # moves from each bin that enter a restricted program, besides the coarser kernel's
USED = 1e-4  # share of a bin that the interior point method still moves along an optimal column
FACE = 16  # such columns a bin, above which there are so many optimal kernels that few columns do
ROUNDS = 25  # of pricing; two are usual
NOTHING = 1e-6  # of the dearest move: a movement that solvers cannot tell from none
THIN = 1e-9  # mass, relative to an average bin, that a solver cannot see


@dataclass(frozen=True)
class MovementSolution:
    """A kernel, and how far from the least movement it can be.

    Attributes
    ----------
    kernel
        Satisfies every constraint to 1e-9. A bin that holds no mass of a group moves as the nearest
        bin of that group which does. The target is the mean of the groups' images, weighted by visits.
    images
        Each group's distribution over target bins given each label, shape (L, M, T): all groups' are
        the target, except where an epsilon lets them differ.
    breach
        The largest error of a constraint between groups: the difference of two images, or, with an
        epsilon, how far exp(-epsilon) times one group's cumulative image exceeds another's.
    objective
        The kernel's movement, measured after all rounding.
    bound
        No kernel that satisfies the constraints to the letter moves less than this.
    gap
        (objective - bound) / objective; a movement below a millionth of the dearest move counts as that.
    certified
        Whether the gap is at most the one asked for. If not, nothing is claimed.
    method
        ``"unmoved"``: each bin's cheapest move satisfies the constraints; ``"whole"``: the whole
        program in HiGHS; ``"refined"``: coarse bins to fine.
    seconds
        Wall time.
    """

    kernel: Kernel
    images: Floats
    breach: float
    objective: float
    bound: float
    gap: float
    certified: bool
    method: str
    seconds: float


def solve_movement(
    problem: OddsProblem,
    *,
    epsilon: Sequence[float] | None = None,
    time_limit: float = 120.0,
    gap: float = 1e-4,
) -> MovementSolution:
    """Return the kernel that equalizes odds over the bins at the least movement.

    Parameters
    ----------
    problem
        The bins, what each group's labels put there, and what moves cost.
    epsilon
        One number a label: how far the groups' cumulative distributions may differ, as the
        logarithm of their ratio; 0 (and anything below 1e-6) asks for equality, inf for nothing. None
        asks for equality throughout.
    time_limit
        Seconds. When they are over the best kernel so far is returned, with its true gap.
    gap
        How far above the lower bound the movement may end, relative to itself. Programs of up to
        20,000 columns (100 bins, two groups) are solved to seven digits whatever the gap.

    Examples
    --------
    >>> import numpy as np
    >>> given = np.array([[[0.5, 0.5], [0.5, 0.5]], [[0.25, 0.75], [0.25, 0.75]]])
    >>> problem = OddsProblem(given, given.sum(axis=1) / 4, 1.0 - np.eye(2))
    >>> solution = solve_movement(problem)
    >>> round(solution.objective, 9), solution.certified
    (0.125, True)
    """
    started = time.monotonic()
    check_problem(problem)
    check_limits(gap, time_limit)
    epsilons = np.array(check_epsilon(epsilon, problem.labels))
    finite = np.isfinite(epsilons)
    asked = OddsProblem(problem.given[:, finite], problem.visits, problem.cost)
    agreement = Agreement(tuple(epsilons[finite].tolist()), problem.groups, problem.bins)
    rows, bound, method = tidy(problem, _cheapest(problem)), 0.0, "unmoved"
    if agreement.breach(images_of(asked, rows)) > TINY:
        rows, duals, method = _search(_thicken(asked), agreement, gap, started + time_limit)
        rows = settle(asked, agreement, rows)
        bound = agreement.bound(sides_of(asked), duals)
    images = images_of(problem, rows)
    kernel = Kernel(rows, np.tensordot(problem.visits.sum(axis=1) / problem.visits.sum(), images, axes=1))
    objective = kernel.movement(problem)
    bound = objective if method == "unmoved" else bound
    reached = relative_gap(objective, bound, problem)
    return MovementSolution(
        kernel,
        images,
        agreement.breach(images[:, finite]),
        objective,
        bound,
        reached,
        reached <= gap,
        method,
        time.monotonic() - started,
    )


def relative_gap(objective: float, bound: float, problem: OddsProblem) -> float:
    """Return (objective - bound) / objective, where a movement that is nothing but rounding counts as zero."""
    floor = max(NOTHING * float(problem.cost.max()), 1e-300)
    return max(objective - bound, 0.0) / max(objective, floor)


def check_limits(gap: float, time_limit: float) -> None:
    """Refuse a gap or a time limit that means nothing."""
    if not 0.0 < gap < 1.0:
        raise SettingsError(f"gap must lie between 0 and 1, got {gap}", hint="the default is 1e-4")
    if not time_limit > 0.0:
        raise SettingsError(f"time_limit must be a positive number of seconds, got {time_limit}")


def check_problem(problem: OddsProblem) -> None:
    """Refuse bins from which no kernel can be learnt."""
    given, visits, cost = problem.given, problem.visits, problem.cost
    groups, labels, bins = given.shape
    if groups < 2 or labels < 1 or visits.shape != (groups, bins) or cost.shape != (bins, bins):
        raise TallyError(
            f"the bins do not fit together: given {given.shape}, visits {visits.shape}, cost {cost.shape}",
            hint="expected (L, M, K), (L, K) and (K, K), with at least two groups",
        )
    for name, table in (("given", given), ("visits", visits), ("cost", cost)):
        if not (np.isfinite(table).all() and (table >= 0.0).all()):
            raise TallyError(f"{name} must be finite and not negative in every bin")
    if not visits.any():
        raise TallyError("visits are 0 in every bin of every group")
    worst = np.unravel_index(np.abs(given.sum(axis=2) - 1.0).argmax(), (groups, labels))
    if abs(float(given[worst].sum()) - 1.0) > TINY * bins:
        raise TallyError(
            f"the bins of group {worst[0]}, label {worst[1]} sum to {given[worst].sum():.12g}, expected 1",
            hint="does the group have any impressions with this label?",
        )


def _search(
    problem: OddsProblem, agreement: Agreement, gap: float, deadline: float
) -> tuple[Rows, Floats, str]:
    """Return a kernel, duals that bound its movement from below, and how they were found."""
    columns = problem.groups * problem.bins**2
    found = None
    if columns > (RELAXED if agreement.bounded else WHOLE):
        aim = gap if columns > EXACT else SEVEN_DIGITS / 5
        rows, duals = found = _refined(problem, agreement, aim, deadline)
        movement = Kernel(rows, problem.given[0]).movement(problem)
        reached = relative_gap(movement, agreement.bound(sides_of(problem), duals), problem)
        if columns > EXACT or reached < SEVEN_DIGITS:
            return rows, duals, "refined"
    try:
        return *_whole(agreement, problem, deadline), "whole"
    except EvenoddsError:
        if found is None:
            raise
        return *found, "refined"


def _thicken(problem: OddsProblem) -> OddsProblem:
    """Empty the bins, and the labels within a bin, that hold too little for a solver; `settle` mends the rest."""
    share = problem.visits.sum(axis=1, keepdims=True)
    mass = (problem.given.sum(axis=1) + problem.visits / np.where(share > 0.0, share, 1.0)) / (
        problem.labels + 1
    )
    thin = mass < THIN / problem.bins
    given = np.where(thin[:, None] | (problem.given < THIN * mass[:, None]), 0.0, problem.given)
    return OddsProblem(
        given / given.sum(axis=2, keepdims=True), np.where(thin, 0.0, problem.visits), problem.cost
    )


def _cheapest(problem: OddsProblem) -> Rows:
    """Send every bin where the move costs least: to itself if nothing costs less."""
    bins = np.arange(problem.bins)
    to = problem.cost.argmin(axis=1)
    to = np.where(problem.cost[bins, to] < problem.cost.diagonal(), to, bins)
    kernel = sparse.csr_array((np.ones(bins.size), (bins, to)), shape=problem.cost.shape)
    return (kernel,) * problem.groups


def _columns_of(side: Side) -> Ints:
    """Return all moves from bins that hold mass, as from * K + to."""
    bins = side.costs.shape[1]
    return (side.bins[:, None] * bins + np.arange(bins)).ravel()


def _solve(
    agreement: Agreement, sides: tuple[Side, ...], columns: list[Ints], deadline: float
) -> tuple[Rows, Floats, float] | None:
    """Return the best kernel that moves so, the duals, and the movement; None if time ran out first."""
    bins = agreement.bins
    program = agreement.program(sides, columns)
    answer = solve_with_highs(program, deadline=deadline)
    if answer is None:
        return None
    flows = np.split(answer.values, np.cumsum([moves.size for moves in columns]))
    rows = []
    for side, moves, flow in zip(sides, columns, flows, strict=False):
        kept = flow > 0.0
        origin, to = np.divmod(moves[kept], bins)
        entries = flow[kept] / side.mass[np.searchsorted(side.bins, origin)]
        rows.append(sparse.csr_array((entries, (origin, to)), shape=(bins, bins)))
    duals = answer.duals[sum(side.bins.size for side in sides) :]
    return tuple(rows), duals, float(program.cost @ answer.values) / bins


def _whole(agreement: Agreement, problem: OddsProblem, deadline: float) -> tuple[Rows, Floats]:
    """Give HiGHS every column."""
    sides = sides_of(problem)
    solved = _solve(agreement, sides, [_columns_of(side) for side in sides], deadline)
    if solved is None:
        raise EvenoddsError(
            "the linear program was not solved within its time limit, and no kernel was found",
            hint="raise time_limit, or use fewer bins",
        )
    return solved[:2]


def _coarsen(problem: OddsProblem) -> OddsProblem:
    """Merge neighbouring bins in pairs; a last odd bin stays alone."""
    first = np.arange(0, problem.bins, 2)
    size = np.diff(np.append(first, problem.bins))
    cost = np.add.reduceat(np.add.reduceat(problem.cost, first, axis=0), first, axis=1)
    return OddsProblem(
        np.add.reduceat(problem.given, first, axis=2),
        np.add.reduceat(problem.visits, first, axis=1),
        cost / np.outer(size, size),
    )


def _prolong(rows: Rows, bins: int) -> Rows:
    """Carry a kernel over to bins of half the width: what reached a bin is halved between its parts.

    All groups halve alike, so that their distributions over the finer bins stay equal.
    """
    parent = np.arange(bins) // 2
    share = 1.0 / np.bincount(parent)[parent]
    spread = sparse.csr_array((share, (parent, np.arange(bins))), shape=(parent[-1] + 1, bins))
    return tuple(sparse.csr_array(matrix[parent] @ spread) for matrix in rows)


def _refined(problem: OddsProblem, agreement: Agreement, gap: float, deadline: float) -> tuple[Rows, Floats]:
    """Return a kernel, and duals that bound its movement from below."""
    ladder = [problem]
    # A quarter of RELAXED: its time grows faster than the columns, and two levels are still to come.
    while ladder[-1].groups * ladder[-1].bins ** 2 > (RELAXED / 4 if agreement.bounded else WHOLE):
        ladder.append(_coarsen(ladder[-1]))
    coarsest = ladder.pop()
    agreement = replace(agreement, bins=coarsest.bins)
    rows, duals = _whole(agreement, coarsest, deadline)
    while ladder:
        fine = ladder.pop()
        finer = replace(agreement, bins=fine.bins)
        rows, duals, agreement = _prolong(rows, fine.bins), agreement.carry(duals, finer), finer
        if time.monotonic() < deadline:
            aim = max(gap, 1e-3) if ladder else gap
            rows, duals = _price(agreement, sides_of(fine), rows, duals, aim, deadline)
    return rows, duals


def _price(
    agreement: Agreement, sides: tuple[Side, ...], rows: Rows, duals: Floats, gap: float, deadline: float
) -> tuple[Rows, Floats]:
    """Improve a kernel on few columns, adding those that prices near the best ones make cheap."""
    columns = [_support(matrix, side) for matrix, side in zip(rows, sides, strict=True)]
    if not agreement.bounded and agreement.bins * len(agreement.epsilon) <= LARGEST:
        now = time.monotonic()
        prices, flows = interior_prices(sides, gap=gap / 2, deadline=now + 0.7 * (deadline - now))
        duals = max(duals, agreement.duals_of(prices), key=lambda found: agreement.bound(sides, found))
        used = [flow > USED * side.mass[:, None] for flow, side in zip(flows, sides, strict=True)]
        if sum(int(u.sum()) for u in used) < FACE * sum(side.bins.size for side in sides):
            columns = [
                np.union1d(moves, _columns_of(side)[u.ravel()])
                for moves, side, u in zip(columns, sides, used, strict=True)
            ]
    floor = NOTHING * max(float(side.costs.max()) for side in sides)
    bound, between, improved = agreement.bound(sides, duals), duals, True
    for _ in range(ROUNDS):
        known = sum(moves.size for moves in columns)
        near = _nearest(sides, agreement.prices(between)[0])
        columns = [np.union1d(moves, few) for moves, few in zip(columns, near, strict=True)]
        if known == sum(moves.size for moves in columns) and not improved:
            break
        try:
            solved = _solve(agreement, sides, columns, deadline)
        except EvenoddsError:  # HiGHS errs on bins of hardly any mass: the kernel before stands
            solved = None
        if solved is None:
            break
        rows, own, movement = solved
        if movement - bound <= gap * max(movement, floor) or time.monotonic() > deadline:
            break
        # The restricted program's own duals are wild wherever it has no columns: stay close to the best.
        between = (own + duals) / 2
        latest = agreement.bound(sides, between)
        improved = latest > bound
        if improved:
            duals, bound = between, latest
    return rows, duals


def _support(matrix: sparse.csr_array, side: Side) -> Ints:
    """Return a kernel's moves from bins that hold mass."""
    origin, to = matrix.nonzero()
    moves: Ints = origin.astype(np.int64) * matrix.shape[1] + to
    return moves[np.isin(origin, side.bins)]


def _nearest(sides: tuple[Side, ...], prices: Floats) -> list[Ints]:
    """Return the cheapest few moves from every bin, by prices, and the move to itself."""
    chosen = []
    for side, own in zip(sides, prices, strict=True):
        bins = side.costs.shape[1]
        few = min(NEAR, bins)
        to = np.argpartition(side.reduced(own), few - 1, axis=1)[:, :few]
        chosen.append((side.bins[:, None] * bins + np.column_stack([to, side.bins])).ravel())
    return chosen
