r"""Kernels that carry a group's bins to a given target: an explicit one, and the one of least movement.

With two labels a group's bins are a dichotomy: bin k holds the masses (p0, p1) given label 0 and 1.
Weigh it by p0 + p1 and place it at the posterior X = p1 / (p0 + p1). A kernel with
``given[y] @ rows = target[y]`` for both labels is then a martingale coupling of the law of X with
the law of the target's posterior Y: E[X \| Y] = Y. By Blackwell (1953) and Strassen (1965) there is
one iff Y lies below X in convex order, that is: the target's ROC curve lies under the group's hull.
"""

from __future__ import annotations

import time
from bisect import bisect_right
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import sparse

from evenodds.errors import EvenoddsError
from evenodds.odds.problem import Floats

Ints = npt.NDArray[np.int64]

GRID = 2.0**52  # masses are whole multiples of 1 / GRID, so that their sums are exact
_SLIVER = 1e-14  # mass (of a total of 2) below which a piece of a bin is rounding, not a piece
_TOUCH = 1e-15  # distance from hull to target, in mass, at which they meet
_ROUGH = 1e-11  # error of a mass or a moment above which a solution of the solver is not taken
_FEW = 24  # targets up to which the solver starts from the coupling alone
_MERGED = 3  # targets that are merged for a first, coarser solution
_PRICED = 6  # columns that may be priced in per stretch and round


class Line(NamedTuple):
    """Bins laid out along their cumulative mass in increasing posterior X."""

    edges: Floats  # cumulative mass, from 0
    heights: Floats  # cumulative mass of label 1 at the edges: convex
    slopes: Floats  # posterior X between two edges
    bins: Ints  # which bin lies there


def lay_out(given: Floats) -> Line:
    """Lay a group's bins, shape (2, K), out by likelihood ratio; bins without mass are left out.

    Masses are rounded to the grid and the largest bin takes the rest, so that running sums are
    exact in any order: where a group sets the frontier, the two curves meet to the bit.
    """
    source = np.rint(given / given.sum(axis=1, keepdims=True) * GRID) / GRID
    largest = source.argmax(axis=1)
    source[[0, 1], largest] += 1.0 - source.sum(axis=1)
    mass = source.sum(axis=0)
    held = np.flatnonzero(mass > 0.0)
    slopes = source[1, held] / mass[held]
    order = np.argsort(slopes, kind="stable")
    edges, heights = np.zeros((2, held.size + 1))
    np.cumsum(mass[held[order]], out=edges[1:])
    np.cumsum(source[1, held[order]], out=heights[1:])
    return Line(edges, heights, slopes[order], held[order])


def _root(excess: Callable[[float], float], low: float, high: float) -> float:
    """Return where a falling, continuous, piecewise linear function crosses zero; an end if it does not."""
    at_low, at_high = excess(low), excess(high)
    if at_low <= 0.0:
        return low
    if at_high >= 0.0:
        return high
    for step in range(200):
        # The secant is exact once both ends lie on one piece; every third step halves, lest it creep.
        middle = 0.5 * (low + high) if step % 3 == 2 else low + (high - low) * at_low / (at_low - at_high)
        if not low < middle < high:
            break
        at_middle = excess(middle)
        if abs(at_middle) <= 1e-16:
            return middle
        if at_middle > 0.0:
            low, at_low = middle, at_middle
        else:
            high, at_high = middle, at_middle
    return low if at_low < -at_high else high


def _cut(line: Line, masses: Floats, moments: Floats) -> tuple[Floats, Ints]:
    """Cut the line into intervals that go to one target each: the left-curtain coupling.

    Targets are taken in increasing Y, and each takes the one window, contiguous in what is left of
    the line, that has its mass and its mean (its "shadow": Beiglboeck and Juillet, Annals of
    Probability 44, 2016). A window lies to the right of the last one or around it, so what is left
    before the last window is a stack of intervals, and no more than three are made per target.

    Returns
    -------
    starts, owners
        Interval i is [starts[i], starts[i + 1]), the last one ends with the line; it goes to owners[i].
    """
    knots, values = line.edges.tolist(), line.heights.tolist()
    slopes, total, last = line.slopes.tolist(), knots[-1], line.bins.size

    def height(x: float) -> float:
        i = bisect_right(knots, x, 1, last) - 1
        return float(values[i] + (x - knots[i]) * slopes[i])

    pieces: list[tuple[float, float, int]] = []
    stack: list[tuple[float, float]] = []
    rho = knots[0]  # everything beyond is untouched
    wanted = list(zip(masses.tolist(), moments.tolist(), strict=True))
    for t, (mass, moment) in enumerate(wanted[:-1]):
        need, short = mass, -moment - height(rho)  # moment gathered so far, less what is wanted
        if rho + mass <= total and height(rho + mass) + short <= 0.0:

            def shortfall(x: float, mass: float = mass, moment: float = moment) -> float:
                return moment + height(x) - height(x + mass)

            start = _root(shortfall, rho, total - mass)
            if start > rho:
                stack.append((rho, start))
            rho = start + mass
            pieces.append((start, rho, t))
            continue
        while stack:
            a, b = stack[-1]
            rest = need - (b - a)
            if rest < 0.0:
                break
            taken = short + height(b) - height(a)
            if rho + rest <= total and taken + height(rho + rest) < 0.0:
                break
            stack.pop()
            pieces.append((a, b, t))
            need, short = rest, taken
        if stack:
            a, b = stack.pop()

            def surplus(
                s: float, b: float = b, end: float = rho + need, gathered: float = short + height(b)
            ) -> float:
                return gathered - height(b - s) + height(end - s)

            share = _root(surplus, max(0.0, need - (total - rho)), min(b - a, need))
            if share < b - a:
                stack.append((a, b - share))
            pieces.append((b - share, b, t))
            need -= share
        end = min(rho + need, total)
        pieces.append((rho, end, t))
        rho = end
    pieces.extend((a, b, len(wanted) - 1) for a, b in [*stack, (rho, total)])
    sliver = min(_SLIVER, max(b - a for a, b, _ in pieces) / 2.0)
    kept = sorted(piece for piece in pieces if piece[1] - piece[0] > sliver)
    starts = np.array([piece[0] for piece in kept])
    starts[0] = knots[0]
    return starts, np.array([piece[2] for piece in kept], dtype=np.int64)


def _overlaps(line: Line, starts: Floats, owners: Ints) -> tuple[Ints, Ints, Floats]:
    """Return (stretch of the line, target, mass) of every overlap of a bin's stretch and an interval."""
    cuts = np.union1d(line.edges, starts)
    stretch = np.searchsorted(line.edges, cuts[:-1], side="right") - 1
    owner = owners[np.searchsorted(starts, cuts[:-1], side="right") - 1]
    return stretch, owner, np.diff(cuts)


def _rows(bins: Ints, targets: Ints, mass: Floats, shape: tuple[int, int]) -> sparse.csr_array:
    """Turn flows into rows that sum to 1; a bin without flow takes the row of the nearest that has some."""
    flow = sparse.coo_array((mass, (bins, targets)), shape=shape).tocsr()
    total = flow.sum(axis=1)
    flow.data /= np.repeat(total, np.diff(flow.indptr))
    solid = np.flatnonzero(total)
    if solid.size == shape[0]:
        return flow
    every = np.arange(shape[0])
    above = np.minimum(np.searchsorted(solid, every), solid.size - 1)
    below = np.maximum(above - 1, 0)
    nearest = np.where(np.abs(solid[above] - every) < np.abs(every - solid[below]), above, below)
    return sparse.csr_array(flow[solid[nearest]])


def couple(given: Floats, target: Floats) -> sparse.csr_array:
    """Return an explicit kernel with ``given @ rows = target``: sparse, at most K + 3T entries.

    Where the target's ROC curve is not under the hull of the bins' the kernel misses the target, and
    ``Kernel.residual`` shows by how much. A bin without mass does as the nearest one that has some.

    Parameters
    ----------
    given
        One group's bins, shape (2, K): the mass of each given label 0 and label 1.
    target
        Target bins in increasing likelihood ratio, shape (2, T).

    Examples
    --------
    >>> couple(np.array([[0.75, 0.25], [0.25, 0.75]]), np.array([[1.0], [1.0]])).toarray().tolist()
    [[1.0], [1.0]]
    """
    line = lay_out(given)
    stretch, owner, mass = _overlaps(line, *_cut(line, target.sum(axis=0), target[1]))
    return _rows(line.bins[stretch], owner, mass, (given.shape[1], target.shape[1]))


def least_movement(
    given: Floats,
    visits: Floats,
    target: Floats,
    cost: Floats,
    *,
    tolerance: float = 1e-9,
    time_limit: float = np.inf,
) -> tuple[sparse.csr_array, float]:
    r"""Return the kernel with ``given @ rows = target`` that moves least, and a lower bound of its movement.

    .. math:: \min_P \sum_{k,t} v_k c_{kt} P_{kt} \text{ s.t. } \sum_t P_{kt} = 1,\;
              \sum_k p_{yk} P_{kt} = q_{yt},\; P \ge 0

    a transport problem with fixed margins and fixed means. Where the target's curve touches the
    group's hull nothing can cross, and the problem falls apart into blocks. Each block starts from
    the coupling and prices columns in; the multipliers (a, b) of mass and mean prove the lower bound
    :math:`\sum_t n_t a_t + \sum_k m_k \min_t [c'_{kt} - a_t - b_t (X_k - Y_t)]` (Lagrange).

    Parameters
    ----------
    given, target
        As for `couple`.
    visits
        How often the group's items are in each bin, shape (K,).
    cost
        What the move from bin k to target bin t costs, shape (K, T).
    tolerance
        Stop when movement and bound differ by this part of the movement.
    time_limit
        Seconds after which no more columns are priced in; the bound says what that may have cost.
    """
    deadline = time.monotonic() + time_limit
    line = lay_out(given)
    masses, moments = target.sum(axis=0), target[1]
    weight = np.zeros(visits.size)
    weight[line.bins] = visits[line.bins] / np.diff(line.edges)
    empty = np.setdiff1d(np.arange(visits.size), line.bins)
    cheapest = cost[empty].argmin(axis=1)
    found: list[tuple[Ints, Ints, Floats]] = [(empty, cheapest, np.ones(empty.size))]
    bound = float(visits[empty] @ cost[empty, cheapest])
    for part, first, stop in _blocks(line, masses, moments):
        price = weight[part.bins, None] * cost[part.bins, first:stop]
        wanted = masses[first:stop], moments[first:stop]
        stretch, owner, flow, proven = _transport(part, *wanted, price, tolerance, deadline)
        found.append((part.bins[stretch], owner + first, flow))
        bound += proven
    bins, owners, flow = (np.concatenate(column) for column in zip(*found, strict=True))
    return _rows(bins, owners, flow, cost.shape), bound


def _blocks(line: Line, masses: Floats, moments: Floats) -> Iterator[tuple[Line, int, int]]:
    """Split line and targets where their curves touch: (part of the line, first target, stop)."""
    along = np.concatenate([[0.0], np.cumsum(masses)])
    above = np.concatenate([[0.0], np.cumsum(moments)]) - np.interp(along, line.edges, line.heights)
    touch = np.union1d(np.flatnonzero(above <= _TOUCH), [0, masses.size])
    at = along[touch]
    near = np.clip(np.searchsorted(line.edges, at), 1, line.edges.size - 1)
    near -= at - line.edges[near - 1] < line.edges[near] - at
    at = np.where(np.abs(line.edges[near] - at) <= _SLIVER, line.edges[near], at)
    at[[0, -1]] = line.edges[[0, -1]]
    apart = np.diff(at, prepend=-1.0) > _SLIVER
    apart = (apart & (at[-1] - at > _SLIVER)) | (touch == masses.size)
    at, touch = at[apart], touch[apart]
    level = np.interp(at, line.edges, line.heights)
    lows = np.searchsorted(line.edges, at[:-1], side="right")
    highs = np.searchsorted(line.edges, at[1:], side="left")
    for i, (low, high) in enumerate(zip(lows, highs, strict=True)):
        edges = np.concatenate([at[i : i + 1], line.edges[low:high], at[i + 1 : i + 2]])
        heights = np.concatenate([level[i : i + 1], line.heights[low:high], level[i + 1 : i + 2]])
        inside = slice(low - 1, high)
        part = Line(edges, heights, line.slopes[inside], line.bins[inside])
        yield part, int(touch[i]), int(touch[i + 1])


def _transport(
    part: Line, masses: Floats, moments: Floats, price: Floats, tolerance: float, deadline: float
) -> tuple[Ints, Ints, Floats, float]:
    """Return one block's flows (stretch, target, mass) of least price, and a lower bound of the price."""
    mass = np.diff(part.edges)
    masses = masses * (mass.sum() / masses.sum())
    rise = float(part.heights[-1] - part.heights[0])
    moments = moments + (rise - moments.sum()) * (masses / mass.sum())
    start = _overlaps(part, *_cut(part, masses, moments))
    if masses.size == 1 or mass.size == 1:
        return *start, float((price[start[:2]] * start[2]).sum())
    k, t = start[:2]
    if masses.size > _FEW:  # merged targets are under the hull too, and say which columns to try
        cuts = np.arange(0, masses.size, _MERGED)
        merged = np.add.reduceat(masses, cuts), np.add.reduceat(moments, cuts)
        mean = np.add.reduceat(price * masses, cuts, axis=1) / merged[0]
        rough_k, rough_t, _, _ = _transport(part, *merged, mean, 1e-4, deadline)
        around = rough_t[:, None] * _MERGED + np.arange(-1, _MERGED + 1)
        k = np.concatenate([k, np.repeat(rough_k, around.shape[1])])
        t = np.concatenate([t, np.clip(around.ravel(), 0, masses.size - 1)])
    scale = float(mass @ price.mean(axis=1)) / float(mass.sum()) or 1.0
    master = _Master(mass, part.slopes, masses, moments / masses, price / scale, deadline)
    stretch, owner, flow, bound = master.solve(k, t, tolerance, deadline)
    sent = np.bincount(stretch, weights=flow, minlength=mass.size)
    flow *= np.divide(mass, sent, out=np.zeros(mass.size), where=sent > 0.0)[stretch]
    missed = np.bincount(owner, weights=flow, minlength=masses.size) - masses
    bent = np.bincount(owner, weights=flow * master.X[stretch], minlength=masses.size) - moments
    rough = max(np.abs(missed).max(), np.abs(bent).max()) > _ROUGH
    if rough or flow @ price[stretch, owner] > start[2] @ price[start[:2]]:
        return *start, bound * scale  # the solver gave up: the coupling stands
    return stretch, owner, flow, bound * scale


class _Master:
    """The transport problem over some of its columns: flow from stretch k to target t."""

    def __init__(
        self, mass: Floats, X: Floats, masses: Floats, Y: Floats, price: Floats, deadline: float
    ) -> None:
        import highspy

        self.mass, self.X, self.masses, self.Y, self.price = mass, X, masses, Y, price
        # The solver's tolerances are absolute, so everything is brought near 1: mass, the columns of
        # bins that are thin, and the differences of posteriors.
        self.unit = mass.size / float(mass.sum())
        self.thin = np.clip(1.0 / np.sqrt(mass * self.unit), 1.0, 1e8)
        self.lever = 1.0 / max(float(np.abs(X[[0, -1], None] - Y).max()), 1e-4)
        self.has = np.zeros(price.shape, dtype=np.bool_)
        self.columns: tuple[Ints, Ints] = (np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64))
        build: Any = highspy.Highs  # has no annotations
        self.highs = build()
        for option, value in (
            ("output_flag", False),
            ("simplex_strategy", 4),  # primal: new columns leave the basis feasible
            ("primal_feasibility_tolerance", 1e-9),
            ("dual_feasibility_tolerance", 1e-9),
            ("time_limit", max(deadline - time.monotonic(), 0.0)),
        ):
            if self.highs.setOptionValue(option, value) != highspy.HighsStatus.kOk:
                raise EvenoddsError(f"HiGHS refused the option {option}={value}")
        self.optimal = highspy.HighsModelStatus.kOptimal
        rows = highspy.HighsLp()
        rows.num_row_ = mass.size + 2 * masses.size
        sums = np.concatenate([mass * self.unit * self.thin, masses * self.unit, np.zeros(masses.size)])
        # The last of the masses and moments follow from the others, up to rounding: one row each is free.
        free = mass.size + int(masses.argmax()) + np.array([0, masses.size])
        bounds = np.stack([sums, sums])
        bounds[:, free] = [[-np.inf], [np.inf]]
        rows.row_lower_, rows.row_upper_ = bounds
        self.highs.passModel(rows)

    def add(self, k: Ints, t: Ints) -> None:
        """Give the solver the columns (k, t): one unit of mass from k, to t, off t's mean by X - Y."""
        K, T = self.price.shape
        self.has[k, t] = True
        self.columns = (np.concatenate([self.columns[0], k]), np.concatenate([self.columns[1], t]))
        index = np.column_stack([k, K + t, K + T + t]).astype(np.int32).ravel()
        small = 1.0 / self.thin[k]
        value = np.column_stack(
            [np.ones(k.size), small, small * self.lever * (self.X[k] - self.Y[t])]
        ).ravel()
        starts = np.arange(0, index.size, 3, dtype=np.int32)
        self.highs.addCols(
            k.size, self.price[k, t] * small, np.zeros(k.size), np.full(k.size, np.inf),
            index.size, starts, index, value,
        )  # fmt: skip

    def solve(self, k: Ints, t: Ints, tolerance: float, deadline: float) -> tuple[Ints, Ints, Floats, float]:
        """Price columns in until the bound meets the price; return (stretch, target, flow) and the bound."""
        K, T = self.price.shape
        self.has[k, t] = True
        self.add(*np.nonzero(self.has))
        held = np.zeros(T), np.zeros(T)  # the multipliers of the best bound so far
        bound = float((self.mass * self.price.min(axis=1)).sum())
        flow = np.zeros(0)
        many = min(_PRICED, T)
        while True:
            self.highs.run()
            if self.highs.getModelStatus() != self.optimal:
                break
            solution = self.highs.getSolution()
            flow = np.maximum(np.array(solution.col_value), 0.0) / (self.unit * self.thin[self.columns[0]])
            total = float((flow * self.price[self.columns]).sum())
            if total - bound <= tolerance * (total + 1e-3 * self.mass.sum()) or time.monotonic() > deadline:
                break
            slack, lift, tilt = np.split(np.array(solution.row_dual), [K, K + T])
            slack, tilt = slack * self.thin, tilt * self.lever
            fresh = self.price - lift - tilt * (self.X[:, None] - self.Y) - slack[:, None]
            # Halfway to the best multipliers so far first: the solver's own ones swing (Wentges 1997).
            for weight in (0.5, 0.0):
                a = weight * held[0] + (1.0 - weight) * lift
                b = weight * held[1] + (1.0 - weight) * tilt
                reduced = self.price - a - b * (self.X[:, None] - self.Y)
                proven = float((self.masses * a).sum() + (self.mass * reduced.min(axis=1)).sum())
                if proven > bound:
                    bound, held = proven, (a, b)
                reduced[self.has] = np.inf
                t = np.argpartition(reduced, many - 1, axis=1)[:, :many].ravel()
                k = np.repeat(np.arange(K), many)
                useful = (fresh[k, t] < -1e-10) & ~self.has[k, t]
                if useful.any():
                    break
            if not useful.any():
                break
            self.add(k[useful], t[useful])
        flow = np.pad(flow, (0, self.columns[0].size - flow.size))
        used = np.flatnonzero(flow > _SLIVER)
        return self.columns[0][used], self.columns[1][used], flow[used], bound
