"""Linear programs of equalized odds: HiGHS behind checks, and prices from an interior point method.

Both work in units of mass. Group c's bin k holds the mass m_c(k), and the unknown is the mass that
goes from k to t, so that every coefficient is of order one however thin a bin is:

    minimise    sum_c sum_kt C_c[k, t] X_c[k, t]
    subject to  sum_t X_c[k, t] = m_c(k)                         for every c, k   (dual: u)
                sum_k R_c[y, k] X_c[k, t] = target[y, t]         for every c, y, t (dual: v)
                X >= 0, target free.

The duals v, the prices of reaching bin t under label y, must sum to zero over the groups. Any
such prices bound the optimum from below, by sum_c sum_k m_c(k) min_t (C_c[k, t] - R_c[:, k] v_c[:, t]).
"""

from __future__ import annotations

import time
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse
from scipy.linalg import blas, lapack

from evenodds.errors import EvenoddsError
from evenodds.odds.problem import OddsProblem

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

FEASIBLE_POINT = 2  # highspy's kSolutionStatusFeasible
STEPS = 150  # of the interior point method; 15 to 60 are usual
CORRECTIONS = 2  # Gondzio's, within a step


@dataclass(frozen=True)
class Side:
    """One group's share of the program, over its bins that hold any mass.

    Attributes
    ----------
    bins
        The n bins with mass, ascending.
    mass
        m_c(k) of these bins, in units of 1/K.
    rates
        R_c[y, k] = given[c, y, k] / m_c(k), shape (M, n).
    costs
        C_c[k, t], shape (n, K).
    """

    bins: Ints
    mass: Floats
    rates: Floats
    costs: Floats

    def reduced(self, prices: Floats) -> Floats:
        """Return C - R'v, the cost of each move after its prices, shape (n, K)."""
        moves: Floats = np.asarray(blas.dgemm(-1.0, prices.T, self.rates.T, trans_b=1)).T
        moves += self.costs
        return moves


def sides_of(problem: OddsProblem) -> tuple[Side, ...]:
    """Scale each group to units of mass; a bin's mass averages its labels' shares and its visits' share."""
    sides = []
    for given, visits in zip(problem.given, problem.visits, strict=True):
        share = float(visits.sum())
        visited = visits / share if share > 0 else visits
        mass = (given.sum(axis=0) + visited) * (problem.bins / (problem.labels + 1))
        bins = np.flatnonzero(mass > 0)
        scale = problem.bins / mass[bins]
        costs = (visits[bins] * scale)[:, None] * problem.cost[bins]
        sides.append(Side(bins, mass[bins], np.ascontiguousarray(given[:, bins] * scale), costs))
    return tuple(sides)


def moves_value(sides: tuple[Side, ...], prices: Floats) -> float:
    """Return sum_c sum_k m_c(k) min_t (C_c[k, t] - R_c[:, k] v_c[:, t]), in units of 1/K."""
    return sum(
        float(side.mass @ side.reduced(own).min(axis=1)) for side, own in zip(sides, prices, strict=True)
    )


@dataclass(frozen=True)
class Program:
    """Minimise cost @ x, subject to row_lower <= matrix @ x <= row_upper and lower <= x <= upper."""

    cost: Floats
    matrix: sparse.csc_array
    row_lower: Floats
    row_upper: Floats
    lower: Floats
    upper: Floats


@dataclass(frozen=True)
class Answer:
    """What HiGHS found: a feasible point, which need not be the optimum, and its row duals."""

    values: Floats
    duals: Floats


def solve_with_highs(program: Program, *, deadline: float) -> Answer | None:
    """Solve a program that is known to be feasible; None if no feasible point was found in time.

    The second attempt is for programs so badly scaled that the first one calls them infeasible, or fails.
    """
    for method, tolerance in (("ipx", 1e-9), ("simplex", 1e-7)):
        solver = _run_highs(program, method, tolerance, deadline)
        status = solver.getModelStatus().name
        if status in {"kOptimal", "kTimeLimit"}:
            break
    else:
        raise EvenoddsError(
            f"HiGHS finds no kernel for these bins, though one always exists; it ends with {status}",
            hint="the bins' probabilities may differ too much in size: merge the thinnest bins",
        )
    solution = solver.getSolution()
    if status != "kOptimal" and solver.getInfo().primal_solution_status != FEASIBLE_POINT:
        return None
    duals = np.array(solution.row_dual) if solution.dual_valid else np.zeros(program.matrix.shape[0])
    return Answer(np.array(solution.col_value), duals)


def _run_highs(program: Program, method: str, tolerance: float, deadline: float) -> Any:
    """Return HiGHS after its run, which may have failed: the model status tells."""
    import highspy

    def check(status: Any, what: str) -> None:
        if status == highspy.HighsStatus.kError:
            raise EvenoddsError(f"HiGHS refused {what}", hint="check the version of highspy, 1.11 or later")

    make: Any = highspy.Highs
    solver = make()
    options = {
        "output_flag": False,
        "solver": method,
        "time_limit": max(deadline - time.monotonic(), 0.0),
        "primal_feasibility_tolerance": tolerance,
        "dual_feasibility_tolerance": tolerance,
    }
    for name, value in options.items():
        check(solver.setOptionValue(name, value), f"the option {name}={value}")
    model = highspy.HighsLp()
    model.num_row_, model.num_col_ = program.matrix.shape
    model.col_cost_ = program.cost
    model.col_lower_, model.col_upper_ = program.lower, program.upper
    model.row_lower_, model.row_upper_ = program.row_lower, program.row_upper
    model.a_matrix_.format_ = highspy.MatrixFormat.kColwise
    model.a_matrix_.start_ = program.matrix.indptr
    model.a_matrix_.index_ = program.matrix.indices
    model.a_matrix_.value_ = program.matrix.data
    check(solver.passModel(model), "the linear program")
    solver.run()
    return solver


def one_blas_thread() -> AbstractContextManager[Any]:
    """Hold BLAS to one thread.

    The matrices here are too small to share: two threads gained nothing on idle cores, and lost a
    factor of ten or more when something else was running.
    """
    from threadpoolctl import threadpool_limits

    limits: AbstractContextManager[Any] = threadpool_limits(limits=1, user_api="blas")
    return limits


class _Block:
    """One side's iterate, the factors of its Newton equations, and its latest direction."""

    def __init__(self, side: Side, cost_unit: float) -> None:
        self.side = side
        self.labels, bins = side.rates.shape[0], side.costs.shape[1]
        self.costs = side.costs / cost_unit
        self.flow = np.repeat(side.mass[:, None] / bins, bins, axis=1)
        self.price = np.zeros((self.labels, bins))
        self.row_price = self.costs.min(axis=1) - 0.1
        self.slack = self.costs - self.row_price[:, None]

    def images(self, flow: Floats) -> Floats:
        """Return R @ flow, by the BLAS that everything else here uses."""
        return np.asarray(blas.dgemm(1.0, flow.T, self.side.rates.T)).T

    def measure(self, target: Floats) -> None:
        """Note how far the iterate is from the constraints."""
        self.row_error = self.side.mass - self.flow.sum(axis=1)
        self.image_error = target - self.images(self.flow)

    def condense(self) -> None:
        """Eliminate flows and row prices from Newton's equations; `normal` remains, for the prices."""
        rates = self.side.rates
        bins = self.costs.shape[1]
        self.ratio = self.flow / self.slack
        self.row_sum = self.ratio.sum(axis=1)
        spread = self.ratio[:, None, :] * rates.T[:, :, None]
        self.spread = spread.reshape(self.row_sum.size, self.labels * bins)
        scaled = self.spread / np.sqrt(self.row_sum)[:, None]
        normal = np.asarray(blas.dsyrk(-1.0, scaled.T, lower=1))
        diagonal = np.arange(bins)
        for y in range(self.labels):
            for z in range(y + 1):
                normal[y * bins + diagonal, z * bins + diagonal] += blas.dgemv(
                    1.0, self.ratio.T, rates[y] * rates[z]
                )
        # A price that is the same for every t changes nothing: pin it, or the matrix is singular.
        pin = float(normal.diagonal().mean()) / bins
        for y in range(self.labels):
            own = slice(y * bins, (y + 1) * bins)
            normal[own, own] += pin
        self.normal = normal

    def load(self, wanted: Floats) -> Floats:
        """Return the right-hand side of the price equations when slack dX + flow dZ = wanted."""
        self.part = wanted / self.slack
        self.row_load = self.row_error - self.part.sum(axis=1)
        image_load = self.image_error - self.images(self.part)
        load: Floats = image_load.ravel() - blas.dgemv(1.0, self.spread.T, self.row_load / self.row_sum)
        return load

    def direct(self, price_step: Floats) -> None:
        """Set the direction that follows from a step of the prices."""
        row_step = (self.row_load - blas.dgemv(1.0, self.spread.T, price_step, trans=1)) / self.row_sum
        price = price_step.reshape(self.labels, -1)
        slack = np.asarray(blas.dgemm(-1.0, price.T, self.side.rates.T, trans_b=1)).T - row_step[:, None]
        self.direction = (self.part - self.ratio * slack, slack, row_step, price)

    def longest(self) -> tuple[float, float]:
        """Return how far flow and slack can go along the direction before they touch zero."""
        fall = -float((self.direction[0] / self.flow).min())
        slack_fall = -float((self.direction[1] / self.slack).min())
        return 1.0 / max(fall, 1.0), 1.0 / max(slack_fall, 1.0)

    def move(self, primal: float, dual: float) -> None:
        """Go along the direction."""
        flow, slack, row_price, price = self.direction
        self.flow += primal * flow
        self.slack += dual * slack
        self.row_price += dual * row_price
        self.price += dual * price


def _factor(matrix: Floats, damping: float) -> Floats:
    """Return the lower Cholesky factor of a matrix that may be singular, damped as little as will do."""
    level = float(matrix.diagonal().mean())
    while damping < 1e-3:
        damped = matrix.copy(order="F")
        damped[np.diag_indices_from(damped)] += damping * level
        factor, failed = lapack.dpotrf(damped, lower=1, overwrite_a=1)
        if not failed:
            return np.asarray(factor)
        damping *= 100.0
    raise np.linalg.LinAlgError("the Newton equations have lost their accuracy")


class _Newton:
    """The price equations of all sides, coupled by the shared target: S_c dv_c - dtarget = load_c."""

    def __init__(self, blocks: list[_Block]) -> None:
        self.blocks = blocks
        for block in blocks:
            block.condense()
        if len(blocks) == 2:
            self.factor = _factor(blocks[0].normal + blocks[1].normal, 1e-13)
            return
        self.inverses = []
        for block in blocks:
            inverse, _ = lapack.dpotri(_factor(block.normal, 1e-13), lower=1, overwrite_c=1)
            self.inverses.append(np.asarray(inverse))
        self.factor = _factor(sum(self.inverses[1:], start=self.inverses[0]), 1e-15)

    def direct(self, wanted: list[Floats]) -> Floats:
        """Set every block's direction; return the target's. Prices go to where they sum to zero."""
        blocks = self.blocks
        loads = [block.load(part) for block, part in zip(blocks, wanted, strict=True)]
        surplus = np.sum([block.price for block in blocks], axis=0).ravel()
        if len(blocks) == 2:
            load = loads[0] - loads[1] - blas.dsymv(1.0, blocks[1].normal, surplus, lower=1)
            first, _ = lapack.dpotrs(self.factor, load, lower=1)
            steps = [first, -surplus - first]
            target = blas.dsymv(1.0, blocks[0].normal, first, lower=1) - loads[0]
        else:
            steps = [blas.dsymv(1.0, m, load, lower=1) for m, load in zip(self.inverses, loads, strict=True)]
            target, _ = lapack.dpotrs(self.factor, -surplus - sum(steps), lower=1)
            steps = [
                step + blas.dsymv(1.0, m, target, lower=1)
                for m, step in zip(self.inverses, steps, strict=True)
            ]
        for block, step in zip(blocks, steps, strict=True):
            block.direct(step)
        return np.asarray(target).reshape(blocks[0].price.shape)

    def longest(self) -> tuple[float, float]:
        """Return the longest primal and dual steps of all blocks together."""
        lengths = [block.longest() for block in self.blocks]
        return min(primal for primal, _ in lengths), min(dual for _, dual in lengths)


def interior_prices(
    sides: tuple[Side, ...], *, gap: float, deadline: float
) -> tuple[Floats, tuple[Floats, ...]]:
    """Return prices whose lower bound is within `gap` of the optimum, or the best ones by the deadline.

    A primal-dual interior point method (Mehrotra's predictor and corrector, Gondzio's further
    corrections) on the whole program. It starts feasible, since sending every bin everywhere alike is;
    and the equations of a step shrink to M K unknowns a group, since row sums and images
    each touch a flow once. So a step costs L (M K)^2 K multiplications, not the cube of L K^2.

    Returns
    -------
    prices
        v[c, y, t], shape (L, M, K), summing to zero over c.
    flows
        X_c[k, t] of each side. No use as a kernel, since they spread over every optimal one, but
        moves that no optimal kernel makes are nearly zero here.
    """
    unit = max(float(side.costs.max()) for side in sides) or 1.0
    blocks = [_Block(side, unit) for side in sides]
    target = np.ones_like(blocks[0].price)
    size = sum(block.flow.size for block in blocks)
    prices = np.zeros((len(sides), *target.shape))
    bound = moves_value(sides, prices)
    stalled, floor = 0, 1e-6 * unit * target.shape[1]
    with one_blas_thread(), np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        for _ in range(STEPS):
            latest = unit * np.stack([block.price for block in blocks])
            latest_bound = moves_value(sides, latest - latest.mean(axis=0))
            movement = unit * sum(float(np.vdot(b.flow, b.costs)) for b in blocks)
            stalled = 0 if latest_bound > bound else stalled + 1
            if latest_bound > bound:
                prices, bound = latest - latest.mean(axis=0), latest_bound
            if movement - bound <= gap * max(movement, floor) or stalled == 10 or time.monotonic() > deadline:
                break
            for block in blocks:
                block.measure(target)
            try:
                target += _step(_Newton(blocks), size)
            except (np.linalg.LinAlgError, ValueError):
                break
    return prices, tuple(block.flow for block in blocks)


def _step(newton: _Newton, size: int) -> Floats:
    """Move every block by one step; return the target's move."""
    blocks = newton.blocks
    product = [block.flow * block.slack for block in blocks]
    mean = sum(float(part.sum()) for part in product) / size
    newton.direct([-part for part in product])
    primal, dual = newton.longest()
    reached = sum(
        float(np.vdot(b.flow + primal * b.direction[0], b.slack + dual * b.direction[1])) for b in blocks
    )
    centre = mean * (reached / size / mean) ** 3
    wanted = [
        centre - part - b.direction[0] * b.direction[1] for part, b in zip(product, blocks, strict=True)
    ]
    target = newton.direct(wanted)
    primal, dual = newton.longest()
    for _ in range(CORRECTIONS):
        further, further_dual = min(1.0, primal + 0.3), min(1.0, dual + 0.3)
        kept = [block.direction for block in blocks]
        corrected = []
        for block, part in zip(blocks, wanted, strict=True):
            ahead = (block.flow + further * block.direction[0]) * (
                block.slack + further_dual * block.direction[1]
            )
            pull = np.clip(ahead, 0.1 * centre, 10.0 * centre) - ahead
            corrected.append(part + np.maximum(pull, -10.0 * centre))
        corrected_target = newton.direct(corrected)
        longer, longer_dual = newton.longest()
        if longer + longer_dual < primal + dual + 0.02:
            for block, direction in zip(blocks, kept, strict=True):
                block.direction = direction
            break
        wanted, target, primal, dual = corrected, corrected_target, longer, longer_dual
    for block in blocks:
        block.move(0.995 * primal, 0.995 * dual)
    return 0.995 * primal * target
