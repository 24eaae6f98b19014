"""Equalized odds given the labels as they will be logged, after the kernel has moved items.

The paper's theorem on equalized odds under position bias holds for y = 1; its proof does not cover
y = 0. Observed negatives mix true negatives with positives that nobody looked at, in shares that
depend on the group's merit rate M_c. With q1 the shared distribution of positives over the target
bins and omega(t) = E[w | fair score in bin t], the observed negatives of group c in bin t are

    (1 - M_c) q0_c(t) + M_c q1(t) (1 - omega(t)),

to be proportional to one shared curve: linear in the kernel while omega is held. So: solve, compute
omega anew from the kernel, solve again. Two or three rounds settle it.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy import sparse

from evenodds.errors import EvenoddsError
from evenodds.exposure import Exposure
from evenodds.odds.lp import Program, solve_with_highs
from evenodds.odds.problem import Kernel, OddsProblem

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

_ROUNDS = 8
_SETTLED = 1e-4  # missed by less than this: good enough, and a tenth of what sampling does
_WHOLE = 150  # bins up to which every move is allowed
_PENALTY = 1e3  # of missing the shared curve, in units of the dearest move
_TINY = 1e-11


@dataclass(frozen=True)
class ObservedSolution:
    """Kernels for observed labels.

    Attributes
    ----------
    kernel
        `target` holds the shared distributions given the observed label, 0 and 1.
    omega
        E[w] by target bin, under this kernel.
    residual
        The largest error of any constraint, at the omega that it was solved for.
    missed
        The largest difference between two groups' distribution functions given an observed label: 0
        where the criterion can be met.
    rounds
        How many programs were solved.
    """

    kernel: Kernel
    omega: Floats
    residual: float
    missed: float
    rounds: int


def solve_observed(
    problem: OddsProblem, start: Kernel, merit: Floats, exposure: Exposure, *, time_limit: float
) -> ObservedSolution:
    """Return the kernels of least movement that equalize odds given observed labels.

    Parameters
    ----------
    problem
        Bins given the merit label, labels 0 and 1.
    start
        A kernel for merit labels.
    merit
        M_c, each group's share of merit positives.
    exposure
        E[w] by the share of scores above.
    time_limit
        Seconds for all rounds.
    """
    deadline = time.monotonic() + time_limit
    kernel, omega = start, omega_of(problem, start, exposure)
    best: ObservedSolution | None = None
    for rounds in range(1, _ROUNDS + 1):
        positives = np.mean(
            [given[1] @ rows for given, rows in zip(problem.given, kernel.rows, strict=True)], axis=0
        )
        solved = _solve(problem, start, merit, omega, float(positives @ omega), deadline)
        if solved is None:
            break
        kernel, residual = solved
        omega = omega_of(problem, kernel, exposure)
        given = observed_distributions(problem, kernel, merit, omega)
        missed = float(np.ptp(np.cumsum(given, axis=2), axis=0).max())
        settled = best is not None and missed > best.missed / 2
        if best is None or missed < best.missed:
            best = ObservedSolution(Kernel(kernel.rows, given.mean(axis=0)), omega, residual, missed, rounds)
        if missed < _SETTLED or settled or time.monotonic() > deadline:
            break
    if best is None:
        raise EvenoddsError(
            "the linear program was not solved within its time limit, and no kernel was found",
            hint="raise time_limit, or use fewer bins",
        )
    return best


def omega_of(problem: OddsProblem, kernel: Kernel, exposure: Exposure) -> Floats:
    """Return E[w] by target bin: an item's rank is set by the share of all fair scores above its own."""
    share = sum(visits @ rows for visits, rows in zip(problem.visits, kernel.rows, strict=True))
    below = np.concatenate(([0.0], np.cumsum(share)))
    below /= below[-1]
    return exposure.between(1.0 - below[1:], 1.0 - below[:-1])


def observed_distributions(problem: OddsProblem, kernel: Kernel, merit: Floats, omega: Floats) -> Floats:
    """Return ``[group, observed label, target]``: where each group's logged labels will lie."""
    found = []
    for given, rows, share in zip(problem.given, kernel.rows, merit, strict=True):
        negative, positive = given[0] @ rows, given[1] @ rows
        unseen = (1 - share) * negative + share * positive * (1 - omega)
        seen = positive * omega
        found.append([unseen / unseen.sum(), seen / seen.sum()])
    return np.array(found)


def _solve(
    problem: OddsProblem, start: Kernel, merit: Floats, omega: Floats, looked_at: float, deadline: float
) -> tuple[Kernel, float] | None:
    groups, bins = problem.groups, problem.bins
    total = 1 - merit * looked_at  # share of a group's items that will be logged as negative
    moves = [_moves(rows, bins) for rows in start.rows]
    first = np.concatenate(([0], np.cumsum([own.shape[1] for own in moves])))
    columns = int(first[-1])
    # Unknowns: every move, the two shared curves, and how far each group stays off the second one.
    size = columns + 2 * bins + 2 * groups * bins
    rows_index, column_index, values = [], [], []

    def put(row: npt.NDArray[np.int64], column: npt.NDArray[np.int64], value: Floats) -> None:
        rows_index.append(row)
        column_index.append(column)
        values.append(np.broadcast_to(value, row.shape))

    targets = np.arange(bins)
    positive, negative = columns + targets, columns + bins + targets
    row = 0
    for c in range(groups):
        origin, to = moves[c]
        place = np.arange(first[c], first[c + 1])
        weight = (1 - merit[c]) / total[c]
        put(row + origin, place, np.ones(place.size))
        put(row + bins + to, place, problem.given[c, 1][origin])
        put(row + bins + targets, positive, -np.ones(bins))
        put(row + 2 * bins + to, place, weight * problem.given[c, 0][origin])
        put(row + 2 * bins + targets, positive, merit[c] * (1 - omega) / total[c])
        put(row + 2 * bins + targets, negative, -np.ones(bins))
        off = columns + 2 * bins + 2 * c * bins + targets
        put(row + 2 * bins + targets, off, np.ones(bins))
        put(row + 2 * bins + targets, off + bins, -np.ones(bins))
        row += 3 * bins
    matrix = sparse.csc_array(
        (np.concatenate(values), (np.concatenate(rows_index), np.concatenate(column_index))),
        shape=(row, size),
    )
    right = np.tile(np.repeat([1.0, 0.0, 0.0], bins), groups)
    dearest = max(float(problem.cost.max()), 1e-12)
    cost = np.concatenate(
        (
            *(visits[k] * problem.cost[k, t] for visits, (k, t) in zip(problem.visits, moves, strict=True)),
            np.zeros(2 * bins),
            np.full(2 * groups * bins, _PENALTY * dearest),
        )
    )
    program = Program(cost, matrix, right, right, np.zeros(size), np.full(size, np.inf))
    answer = solve_with_highs(program, deadline=deadline)
    if answer is None:
        return None
    polished = _polish(matrix, right, np.where(answer.values > _TINY, answer.values, 0.0))
    kernels = []
    for c in range(groups):
        own = slice(int(first[c]), int(first[c + 1]))
        rows = sparse.csr_array((polished[own], tuple(moves[c])), shape=(bins, bins))
        sums = rows.sum(axis=1)
        empty = np.flatnonzero(sums <= 0)  # no mass, and the solver left it empty
        if empty.size:
            rows = rows + sparse.csr_array((np.ones(empty.size), (empty, empty)), shape=rows.shape)
            sums[empty] = 1.0
        polished[own] /= np.where(sums > 0, sums, 1.0)[moves[c][0]]
        kernels.append(sparse.csr_array(sparse.diags_array(1.0 / sums) @ rows))
    residual = float(np.abs(matrix @ polished - right).max())
    return Kernel(tuple(kernels), np.stack((polished[negative], polished[positive]))), residual


def _moves(start: sparse.csr_array, bins: int) -> Ints:
    """Return the moves that the program may use, (from, to): all, or with many bins those near `start`'s."""
    if bins <= _WHOLE:
        return np.stack(np.divmod(np.arange(bins * bins), bins))
    near = np.zeros((bins, bins), dtype=bool)
    entries = start.tocoo()
    reach = max(6, bins // 25)
    for k in range(-1, 2):
        for t in range(-reach, reach + 1):
            near[np.clip(entries.row + k, 0, bins - 1), np.clip(entries.col + t, 0, bins - 1)] = True
    near[np.arange(bins), np.arange(bins)] = True
    return np.stack(np.nonzero(near))


def _polish(matrix: sparse.csc_array, right: Floats, values: Floats) -> Floats:
    """Take out what a solver's tolerance leaves: the smallest change of what is not zero."""
    for _ in range(3):
        error = right - matrix @ values
        if np.abs(error).max() < 1e-14:
            break
        used = np.flatnonzero(values > 1e-7)
        part = matrix[:, used]
        normal = (part @ part.T).toarray()
        multipliers = np.linalg.lstsq(normal, error, rcond=1e-12)[0]
        values = values.copy()
        values[used] = np.maximum(values[used] + part.T @ multipliers, 0.0)
    return values
