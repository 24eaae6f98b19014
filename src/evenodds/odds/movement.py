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
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy import sparse
from scipy.sparse import linalg as sparse_linalg

from evenodds.errors import EvenoddsError, SettingsError, TallyError
from evenodds.odds.lp import Program, Side, interior_prices, lower_bound, sides_of, solve_with_highs
from evenodds.odds.problem import Kernel, OddsProblem

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Rows = tuple[sparse.csr_array, ...]

WHOLE = 8_000  # columns up to which HiGHS gets the whole program
EXACT = 20_000  # columns up to which the optimum is found to seven digits, whatever the gap asked for
NEAR = 6  # moves from each bin that enter a restricted program, besides the coarser kernel's
FLOW = 1e-4
FACE = 16
ROUNDS = 25  # of pricing; two are usual
THIN = 1e-9
TINY = 1e-12  # a probability below this is an error of the solver


@dataclass(frozen=True)
class MovementSolution:
    """A kernel, and how far from the least movement it can be.

    Attributes
    ----------
    kernel
        Satisfies every constraint to 1e-9; a bin that holds no mass of a group moves as the
        nearest bin of that group which does.
    objective
        The kernel's movement, measured after all rounding.
    bound
        No feasible kernel moves less than this.
    gap
        (objective - bound) / objective.
    certified
        Whether the gap is at most the one asked for. If not, nothing is claimed.
    method
        ``"unmoved"``: each bin's cheapest move is feasible; ``"whole"``: the whole program in
        HiGHS; ``"refined"``: coarse bins to fine.
    seconds
        Wall time.
    """

    kernel: Kernel
    objective: float
    bound: float
    gap: float
    certified: bool
    method: str
    seconds: float


def solve_movement(problem: OddsProblem, *, time_limit: float = 120.0, gap: float = 1e-4) -> MovementSolution:
    """Return the kernel that equalizes odds over the bins at the least movement.

    Parameters
    ----------
    problem
        The bins, what each group's labels put there, and what moves cost.
    time_limit
        Seconds. When they are over the best kernel so far is returned, with its true gap.
    gap
        How far above the lower bound the movement may end, relative to itself. Programs of up to
        20,000 columns (100 bins, two groups) are solved to the optimum whatever the gap.

    Examples
    --------
    >>> import numpy as np
    >>> given = np.array([[[0.5, 0.5], [0.5, 0.5]], [[0.25, 0.75], [0.25, 0.75]]])
    >>> problem = OddsProblem(given, np.full((2, 2), 0.25), 1.0 - np.eye(2))
    >>> solution = solve_movement(problem)
    >>> round(solution.objective, 9), solution.certified
    (0.125, True)
    """
    started = time.monotonic()
    check_problem(problem)
    check_limits(gap, time_limit)
    deadline = started + time_limit
    every = range(problem.labels)
    rows = _tidy(problem, _cheapest(problem))
    prices = np.zeros_like(problem.given)
    method = "unmoved"
    if _mismatch(problem, rows, every) > TINY:
        thick = _thicken(problem)
        columns = problem.groups * problem.bins**2
        certain = False
        if columns > WHOLE:
            method = "refined"
            aim = gap if columns > EXACT else 1e-8
            rows, prices, reached = _refined(thick, aim, deadline)
        if columns <= WHOLE or (columns <= EXACT and reached > 5e-8):
            method = "whole"
            rows, prices = _whole(sides_of(thick), deadline)
        rows = settle(problem, rows, every)
    bound = lower_bound(sides_of(problem), prices)
    kernel = Kernel(rows, images_of(problem, rows).mean(axis=0))
    objective = kernel.movement(problem)
    reached = relative_gap(objective, bound, problem)
    return MovementSolution(
        kernel, objective, bound, reached, reached <= gap, method, time.monotonic() - started
    )


def relative_gap(objective: float, bound: float, problem: OddsProblem) -> float:
    """Return (objective - bound) / objective, where a movement that is nothing but rounding counts as zero."""
    floor = max(1e-6 * float(problem.cost.max()), 1e-300)
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
    worst = np.unravel_index(np.abs(given.sum(axis=2) - 1.0).argmax(), (groups, labels))
    if abs(float(given[worst].sum()) - 1.0) > TINY * bins:
        raise TallyError(
            f"the bins of group {worst[0]}, label {worst[1]} sum to {given[worst].sum():.12g}, expected 1",
            hint="does the group have any impressions with this label?",
        )


def _thicken(problem: OddsProblem) -> OddsProblem:
    """Drop bins and labels that are too thin for a solver."""
    share = problem.visits.sum(axis=1, keepdims=True)
    mass = (problem.given.sum(axis=1) + problem.visits / np.where(share > 0.0, share, 1.0)) / (problem.labels + 1)
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


# ---------------------------------------------------------------- the program, whole or restricted


def _columns_of(side: Side) -> Ints:
    """Return all moves from bins that hold mass, as from * K + to."""
    bins = side.costs.shape[1]
    return (side.bins[:, None] * bins + np.arange(bins)).ravel()


def _restrict(sides: tuple[Side, ...], columns: list[Ints]) -> Program:
    """Write the program down for some moves only; two groups need no variables for the shared target."""
    labels, bins = sides[0].rates.shape[0], sides[0].costs.shape[1]
    paired = len(sides) == 2
    first = sum(side.bins.size for side in sides)
    height = first + (1 if paired else len(sides)) * labels * bins
    offset, starts = 0, 0
    index, value, cost = [], [], []
    for number, (side, moves) in enumerate(zip(sides, columns, strict=True)):
        origin = np.searchsorted(side.bins, moves // bins)
        to = moves % bins
        image = first + (0 if paired else number * labels * bins) + np.arange(labels) * bins
        index.append(np.column_stack([offset + origin, image + to[:, None]]).ravel())
        rates = side.rates[:, origin].T * (-1.0 if paired and number == 1 else 1.0)
        value.append(np.column_stack([np.ones(moves.size), rates]).ravel())
        cost.append(side.costs[origin, to])
        offset += side.bins.size
        starts += moves.size
    pointer = np.arange(starts + 1) * (labels + 1)
    free = 0 if paired else labels * bins
    if free:
        targets = first + np.arange(len(sides)) * free + np.arange(free)[:, None]
        index.append(targets.ravel())
        value.append(np.full(targets.size, -1.0))
        cost.append(np.zeros(free))
        pointer = np.concatenate([pointer, pointer[-1] + (np.arange(free) + 1) * len(sides)])
    matrix = sparse.csc_array(
        (np.concatenate(value), np.concatenate(index), pointer), shape=(height, starts + free)
    )
    matrix.eliminate_zeros()
    masses = np.concatenate([*(side.mass for side in sides), np.zeros(height - first)])
    ceiling = np.full(starts + free, np.inf)
    return Program(np.concatenate(cost), matrix, masses, masses, np.zeros(starts + free), ceiling)


def _solve_restricted(
    sides: tuple[Side, ...], columns: list[Ints], deadline: float
) -> tuple[Rows, Floats, float] | None:
    """Return the best kernel on these moves, its prices and its movement; None if time ran out first."""
    labels, bins = sides[0].rates.shape[0], sides[0].costs.shape[1]
    program = _restrict(sides, columns)
    answer = solve_with_highs(program, time_limit=deadline - time.monotonic())
    if answer is None:
        return None
    flows = np.split(answer.values, np.cumsum([moves.size for moves in columns]))
    rows = []
    for side, moves, flow in zip(sides, columns, flows, strict=False):
        origin = np.searchsorted(side.bins, moves // bins)
        kept = flow > 0.0
        entries = (flow / side.mass[origin])[kept]
        rows.append(sparse.csr_array((entries, np.divmod(moves[kept], bins)), shape=(bins, bins)))
    duals = answer.duals[sum(side.bins.size for side in sides) :].reshape(-1, labels, bins)
    prices = np.concatenate([duals, -duals]) if len(sides) == 2 else duals - duals.mean(axis=0)
    return tuple(rows), prices, float(program.cost @ answer.values) / bins


def _whole(sides: tuple[Side, ...], deadline: float) -> tuple[Rows, Floats]:
    """Give HiGHS every column."""
    solved = _solve_restricted(sides, [_columns_of(side) for side in sides], deadline)
    if solved is None:
        raise EvenoddsError(
            "the linear program was not solved within its time limit, and no kernel was found",
            hint="raise time_limit, or use fewer bins",
        )
    return solved[:2]


# ---------------------------------------------------------------- from coarse bins to fine


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


def _refined(problem: OddsProblem, gap: float, deadline: float) -> tuple[Rows, Floats, float]:
    """Return a kernel, prices that bound its movement from below, and the gap between the two."""
    ladder = [problem]
    while ladder[-1].groups * ladder[-1].bins ** 2 > WHOLE:
        ladder.append(_coarsen(ladder[-1]))
    rows, prices = _whole(sides_of(ladder.pop()), deadline)
    while ladder:
        fine = ladder.pop()
        sides = sides_of(fine)
        rows = _prolong(rows, fine.bins)
        prices = np.repeat(prices, 2, axis=2)[:, :, : fine.bins]
        left = deadline - time.monotonic()
        if left > 0.0:
            aim = max(gap, 1e-3) if ladder else gap
            inner = interior_prices(sides, gap=aim / 2, deadline=deadline - 0.3 * left)
            rows, prices = _price(sides, rows, inner, aim, deadline)
    bound = lower_bound(sides, prices)
    return rows, prices, relative_gap(Kernel(rows, prices[0]).movement(problem), bound, problem)


def _price(
    sides: tuple[Side, ...], rows: Rows, inner: tuple[Floats, float, tuple[Floats,...]], gap: float, deadline: float
) -> tuple[Rows, Floats]:
    """Improve a kernel on few columns, adding those that prices near the best ones make cheap."""
    best, bound, flows = inner
    columns = [
        np.union1d(_support(matrix, side), near)
        for matrix, side, near in zip(rows, sides, _nearest(sides, best), strict=True)
    ]
    used = [flow > FLOW * side.mass[:, None] for flow, side in zip(flows, sides, strict=True)]
    if sum(int(u.sum()) for u in used) < FACE * sum(side.bins.size for side in sides):
        columns = [np.union1d(a, _columns_of(side)[u.ravel()]) for a, side, u in zip(columns, sides, used)]
    for _ in range(ROUNDS):
        solved = _solve_restricted(sides, columns, deadline)
        if solved is None:
            break
        rows, own, movement = solved
        if movement - bound <= gap * movement or time.monotonic() > deadline:
            break
        # The restricted program's own prices are wild wherever it has no columns: stay close to the best.
        between = (own + best) / 2
        between_bound = lower_bound(sides, between)
        if between_bound > bound:
            best, bound = between, between_bound
        wider = [np.union1d(a, b) for a, b in zip(columns, _nearest(sides, between), strict=True)]
        if between_bound < bound and all(a.size == b.size for a, b in zip(columns, wider, strict=True)):
            break
        columns = wider
    return rows, best


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


# ---------------------------------------------------------------- making a solution exact


def images_of(problem: OddsProblem, rows: Rows) -> Floats:
    """Return each group's distribution over target bins given each label, shape (L, M, T)."""
    return np.stack([given @ matrix for given, matrix in zip(problem.given, rows, strict=True)])


def _mismatch(problem: OddsProblem, rows: Rows, tied: Iterable[int]) -> float:
    """Return the largest error of a row sum, or of a group's image against the groups' mean, if tied."""
    images = images_of(problem, rows)[:, list(tied)]
    errors = [float(np.abs(matrix.sum(axis=1) - 1.0).max()) for matrix in rows]
    return max(*errors, float(np.abs(images - images.mean(axis=0)).max(initial=0.0)))


def _tidy(problem: OddsProblem, rows: Rows) -> Rows:
    """Drop what is negative or rounding, rescale rows to 1, and fill those of bins without mass.

    Such a row is bound by nothing. It copies the nearest bin with mass of its group (the lower of
    two), so that a score never seen before is moved like those beside it.
    """
    tidied = []
    for given, visits, matrix in zip(problem.given, problem.visits, rows, strict=True):
        entries = matrix.tocoo()
        kept = entries.data > TINY
        where = (entries.row[kept], entries.col[kept])
        cleaned = sparse.csr_array((entries.data[kept], where), shape=matrix.shape)
        total = cleaned.sum(axis=1)
        held = np.flatnonzero((total > 0.0) & (given.any(axis=0) | (visits > 0.0)))
        scaled = sparse.csr_array(sparse.diags_array(1.0 / np.where(total > 0.0, total, 1.0)) @ cleaned)
        nearest = held[np.abs(np.arange(problem.bins)[:, None] - held).argmin(axis=1)]
        tidied.append(sparse.csr_array(scaled[nearest]))
    return tuple(tidied)


def settle(problem: OddsProblem, rows: Rows, tied: Iterable[int]) -> Rows:
    """Make a solver's kernel satisfy its constraints to rounding error.

    `tied` are the labels whose images all groups share. Solvers leave errors of 1e-9 and more; here
    they are spread over the support in proportion to it, which keeps it sparse. Where the
    support has no room for that, a little of every row is mixed in.
    """
    tied = list(tied)
    best = rows = _tidy(problem, rows)
    error = _mismatch(problem, rows, tied)
    for _ in range(5):
        if error <= TINY:
            return best
        rows = _tidy(problem, _nudge(problem, rows, tied))
        latest = _mismatch(problem, rows, tied)
        if latest < error:
            best, error = rows, latest
    return best if error <= 1e-10 else _mix(problem, best, tied)


def _nudge(problem: OddsProblem, rows: Rows, tied: list[int]) -> Rows:
    """Solve the constraints on the support, for changes that are smallest relative to the entries."""
    bins, groups = problem.bins, problem.groups
    entries = [matrix.tocoo() for matrix in rows]
    data = np.concatenate([e.data for e in entries])
    first = groups * bins
    height = first + (groups - 1) * len(tied) * bins
    index, column, value = [], [], []
    start = 0
    for number, (given, e) in enumerate(zip(problem.given, entries, strict=True)):
        own = start + np.arange(e.data.size)
        start += e.data.size
        index.append(number * bins + e.row)
        value.append(np.ones(e.data.size))
        column.append(own)
        for place, label in enumerate(tied):
            # Each group's image less the next one's: a group is in one such row or in two.
            for link, sign in ((number, 1.0), (number - 1, -1.0)):
                if 0 <= link < groups - 1:
                    index.append(first + (link * len(tied) + place) * bins + e.col)
                    value.append(sign * given[label, e.row])
                    column.append(own)
    matrix = sparse.csr_array(
        (np.concatenate(value), (np.concatenate(index), np.concatenate(column))), shape=(height, start)
    )
    matrix.eliminate_zeros()
    wanted = np.concatenate([np.ones(first), np.zeros(height - first)])
    weighted = sparse.csr_array(matrix @ sparse.diags_array(np.sqrt(data)))
    length = np.sqrt(np.asarray(weighted.multiply(weighted).sum(axis=1)))
    scale = sparse.diags_array(1.0 / np.where(length > 0.0, length, 1.0))
    scaled = sparse.csr_array(scale @ weighted)
    normal = sparse.csc_array(scaled @ scaled.T + 1e-13 * sparse.eye_array(height))
    factor = sparse_linalg.splu(normal, permc_spec="MMD_AT_PLUS_A", options={"SymmetricMode": True})
    for _ in range(3):
        error = scale @ (wanted - matrix @ data)
        data = data + np.sqrt(data.clip(0.0)) * (scaled.T @ factor.solve(error))
    pieces = np.split(data, np.cumsum([e.data.size for e in entries])[:-1])
    return tuple(
        sparse.csr_array((piece, (e.row, e.col)), shape=e.shape)
        for piece, e in zip(pieces, entries, strict=True)
    )


def _mix(problem: OddsProblem, rows: Rows, tied: list[int]) -> Rows:
    """Correct every image exactly, and mix in just enough of one distribution to stay positive.

    With H_c a right inverse of group c's shares, H_c (target - image_c) corrects the image and leaves row
    sums alone. Its negative entries are covered by a common row n, in all rows of all groups; then
    everything is divided by 1 + sum(n).
    """
    shares = problem.given[:, tied]
    inverses = np.linalg.pinv(shares, rcond=1e-9)
    # Only targets that every group can reach: proportional labels stay proportional.
    reachable = sum(share @ inverse for share, inverse in zip(shares, inverses, strict=True))
    weights, axes = np.linalg.eigh((reachable + reachable.T) / 2)
    basis = axes[:, weights > problem.groups - 1e-9]
    images = images_of(problem, rows)[:, tied]
    target = basis @ (basis.T @ images.mean(axis=0))
    moved = [
        matrix.toarray() + inverse @ (target - image)
        for matrix, inverse, image in zip(rows, inverses, images, strict=True)
    ]
    cover = np.max([-corrected.min(axis=0) for corrected in moved], axis=0).clip(0.0)
    mixed = [(corrected + cover).clip(0.0) for corrected in moved]
    return tuple(sparse.csr_array(m / m.sum(axis=1, keepdims=True)) for m in mixed)
