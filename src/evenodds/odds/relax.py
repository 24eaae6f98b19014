"""What the groups' distributions must agree on, to the letter or within epsilon; and kernels that do.

Strict equalized odds gives all groups one distribution over target bins a label. The relaxation
(definition of "epsilon_0, epsilon_1-differentially equalized odds", Nandy et al., FAccT 2022) bounds

    exp(-epsilon_y) <= P(bin <= t | group c1, label y) / P(bin <= t | group c2, label y) <= exp(epsilon_y)

for all pairs of groups and all t. It is written sparsely: cumulative variables F[c, t], each the
one before plus one image, and an envelope lo[t] <= F[c, t] <= hi[t] with exp(-epsilon) hi <= lo, so
that L groups need 2 L + 1 rows a bin and not L (L - 1) dense ones.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy import sparse
from scipy.sparse import linalg as sparse_linalg

from evenodds.errors import SettingsError
from evenodds.odds.lp import Program, Side, moves_value
from evenodds.odds.problem import OddsProblem

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Rows = tuple[sparse.csr_array, ...]

STRICT = 1e-6  # an epsilon below this is met by equality
TINY = 1e-12  # a probability below this is an error of the solver
MENDED = 1e-10  # the error that a kernel may keep; ten times less than is promised


def check_epsilon(epsilon: Sequence[float] | None, labels: int) -> tuple[float, ...]:
    """Return one epsilon a label; None asks for strict equalized odds."""
    if epsilon is None:
        return (0.0,) * labels
    values = tuple(float(value) for value in epsilon)
    if len(values) != labels:
        raise SettingsError(
            f"epsilon has {len(values)} values, expected {labels}, one a label",
            hint="0 asks for equality, inf for nothing",
        )
    for label, value in enumerate(values):
        if math.isnan(value) or value < 0.0:
            raise SettingsError(
                f"epsilon of label {label} is {value}, expected a number of at least 0",
                hint="0 asks for equality, inf for nothing",
            )
    return values


@dataclass(frozen=True)
class Agreement:
    """The constraints between groups, as rows of a linear program, and what the duals of these say.

    In units of mass (see `lp`), each label's rows after those of the label before: equal images
    (for two groups their difference, for more a shared target), or, over the K - 1 inner bin edges,
    the rows that define F, then F >= lo, hi >= F, and lo >= exp(-epsilon) hi.
    """

    epsilon: tuple[float, ...]
    groups: int
    bins: int

    @property
    def tied(self) -> list[int]:
        """Labels whose images must be equal."""
        return [label for label, value in enumerate(self.epsilon) if value < STRICT]

    @property
    def bounded(self) -> list[int]:
        """Labels whose cumulative images have bounded ratios."""
        return [label for label, value in enumerate(self.epsilon) if value >= STRICT]

    def _shape(self, label: int) -> tuple[int, int]:
        """Return a label's rows as a table: one line a kind and group, one place a bin or bin edge."""
        if label in self.bounded:
            return 3 * self.groups + 1, self.bins - 1
        return 1 if self.groups == 2 else self.groups, self.bins

    def _split(self, duals: Floats) -> list[Floats]:
        shapes = [self._shape(label) for label in range(len(self.epsilon))]
        pieces = np.split(duals, np.cumsum([height * width for height, width in shapes])[:-1])
        return [piece.reshape(shape) for piece, shape in zip(pieces, shapes, strict=True)]

    def _further(self, label: int) -> sparse.csc_array:
        """Return a label's rows in the variables that are not moves: its target, or F, lo and hi."""
        lines, width = self._shape(label)
        if label in self.tied:
            return sparse.csc_array(np.tile(-np.eye(width, 0 if lines == 1 else width), (lines, 1)))
        one = sparse.eye_array(width)
        each, every = sparse.eye_array(self.groups * width), sparse.vstack([one] * self.groups)
        step = sparse.kron(sparse.eye_array(self.groups), one - sparse.eye_array(width, k=-1))
        ratio = -math.exp(-self.epsilon[label]) * one
        blocks = [[-step, None, None], [each, -every, None], [-each, None, every], [None, one, ratio]]
        return sparse.csc_array(sparse.block_array(blocks))

    def program(self, sides: tuple[Side, ...], columns: list[Ints]) -> Program:
        """Write the program down for some moves of each group only, each as from * K + to."""
        rows = [side.bins.size for side in sides]
        heights = [math.prod(self._shape(label)) for label in range(len(self.epsilon))]
        starts = np.cumsum([sum(rows), *heights])
        index, column, value, cost = [], [], [], []
        row_upper = [side.mass for side in sides]
        first = width = 0
        for number, (side, moves) in enumerate(zip(sides, columns, strict=True)):
            origin, to = np.searchsorted(side.bins, moves // self.bins), moves % self.bins
            own = width + np.arange(moves.size)
            index.append(first + origin)
            column.append(own)
            value.append(np.ones(moves.size))
            cost.append(side.costs[origin, to])
            for label, start in enumerate(starts[:-1]):
                lines, length = self._shape(label)
                inner = to < length
                index.append(start + (number if lines > 1 else 0) * length + to[inner])
                column.append(own[inner])
                value.append(side.rates[label, origin[inner]] * (-1.0 if lines == 1 and number else 1.0))
            first += side.bins.size
            width += moves.size
        lower, upper = [np.zeros(width)], [np.full(width, np.inf)]
        for label, start in enumerate(starts[:-1]):
            lines, length = self._shape(label)
            equal = self.groups * length if label in self.bounded else lines * length
            row_upper.append(np.where(np.arange(lines * length) < equal, 0.0, np.inf))
            further = self._further(label).tocoo()
            index.append(start + further.row)
            column.append(width + further.col)
            value.append(further.data)
            width += further.shape[1]
            free = label in self.tied
            cost.append(np.zeros(further.shape[1]))
            lower.append(np.full(further.shape[1], -np.inf if free else 0.0))
            upper.append(np.full(further.shape[1], np.inf if free else float(self.bins)))
        entries = (np.concatenate(value), (np.concatenate(index), np.concatenate(column)))
        matrix = sparse.csc_array(entries, shape=(int(starts[-1]), width))
        matrix.eliminate_zeros()
        ends = np.concatenate(row_upper)
        begins = np.where(np.isfinite(ends), ends, 0.0)
        bounds = np.concatenate(lower), np.concatenate(upper)
        return Program(np.concatenate(cost), matrix, begins, ends, *bounds)

    def prices(self, duals: Floats) -> tuple[Floats, float]:
        """Return the prices v[c, y, t] that duals put on moves, and the least of the other variables' part.

        Any duals will do: those of equal images are made to sum to zero over the groups, those of
        inequalities not to be negative.
        """
        prices = np.zeros((self.groups, len(self.epsilon), self.bins))
        least = 0.0
        for label, own in enumerate(self._split(duals)):
            if label in self.tied:
                prices[:, label] = np.concatenate([own, -own]) if len(own) == 1 else own - own.mean(axis=0)
            else:
                signed = np.concatenate([own[: self.groups], own[self.groups :].clip(0.0)])
                prices[:, label, :-1] = own[: self.groups]
                reduced = self._further(label).T @ -signed.ravel()
                least += self.bins * float(np.minimum(reduced, 0.0).sum())
        return prices, least

    def bound(self, sides: tuple[Side, ...], duals: Floats) -> float:
        """Return the lower bound that duals put under the movement of every kernel that agrees."""
        prices, least = self.prices(duals)
        return (moves_value(sides, prices) + least) / self.bins

    def duals_of(self, prices: Floats) -> Floats:
        """Return the duals that put these prices on moves; for labels that are all tied."""
        groups = 1 if self.groups == 2 else self.groups
        return np.concatenate([prices[:groups, label].ravel() for label in self.tied])

    def carry(self, duals: Floats, finer: Agreement) -> Floats:
        """Carry duals over to bins of half the width: prices stay, and edges are edges again."""
        carried = []
        for label, own in enumerate(self._split(duals)):
            lines, width = finer._shape(label)
            if label in self.tied:
                carried.append(np.repeat(own, 2, axis=1)[:, :width].ravel())
                continue
            table = np.zeros((lines, width))
            closed = np.pad(own[: self.groups], ((0, 0), (0, 1)))
            table[: self.groups] = np.repeat(closed, 2, axis=1)[:, :width]
            table[self.groups :, 1 : 2 * own.shape[1] : 2] = own[self.groups :]
            carried.append(table.ravel())
        return np.concatenate(carried)

    def breach(self, images: Floats) -> float:
        """Return the largest error of an equality, or e^-epsilon F of one group above F of another."""
        ties = images[:, self.tied]
        worst = float(np.abs(ties - ties.mean(axis=0)).max(initial=0.0))
        for label in self.bounded:
            below = images[:, label].cumsum(axis=1)
            highest = math.exp(-self.epsilon[label]) * below.max(axis=0)
            worst = max(worst, float((highest - below.min(axis=0)).max()))
        return worst


def images_of(problem: OddsProblem, rows: Rows) -> Floats:
    """Return each group's distribution over target bins given each label, shape (L, M, T)."""
    return np.stack([given @ matrix for given, matrix in zip(problem.given, rows, strict=True)])


def settle(problem: OddsProblem, agreement: Agreement, rows: Rows) -> Rows:
    """Make a solver's kernel satisfy its constraints to rounding error.

    Solvers leave errors of 1e-9 and more. Here they are spread over the kernel's entries in
    proportion to these, which keeps it sparse; where the entries have no room for that, a little of
    one distribution is mixed into every row.
    """
    best = rows = tidy(problem, rows)
    error = _tie_error(problem, agreement, rows)
    for _ in range(5):
        if error <= TINY:
            break
        rows = tidy(problem, _nudge(problem, rows, agreement.tied))
        latest = _tie_error(problem, agreement, rows)
        if latest < error:
            best, error = rows, latest
    if error > MENDED:
        best = _mix(problem, agreement, best)
    return _lift(problem, agreement, best) if agreement.bounded else best


def _tie_error(problem: OddsProblem, agreement: Agreement, rows: Rows) -> float:
    """Return the largest error of an equality between groups, or of a row sum."""
    ties = images_of(problem, rows)[:, agreement.tied]
    sums = max(float(np.abs(matrix.sum(axis=1) - 1.0).max()) for matrix in rows)
    return max(sums, float(np.abs(ties - ties.mean(axis=0)).max(initial=0.0)))


def tidy(problem: OddsProblem, rows: Rows) -> Rows:
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


def _mix(problem: OddsProblem, agreement: Agreement, rows: Rows) -> Rows:
    """Correct every image, and mix in just enough of one distribution for rows to stay positive."""
    for cut in (1e-9, 1e-6, 1e-3):
        mixed = _correct(problem, agreement.tied, rows, cut)
        if _tie_error(problem, agreement, mixed) <= MENDED:
            return mixed
    alike = images_of(problem, rows)[:, agreement.tied].mean(axis=(0, 1))
    return (sparse.csr_array(np.tile(alike, (problem.bins, 1))),) * problem.groups


def _correct(problem: OddsProblem, tied: list[int], rows: Rows, cut: float) -> Rows:
    """Correct images by a right inverse of each group's shares, less singular values below a cut.

    With H_c the inverse, H_c (target - image_c) corrects the image and leaves row sums alone. Its
    negative entries are covered by a common row n, in all rows of all groups; then everything is
    divided by 1 + sum(n).
    """
    shares = problem.given[:, tied]
    inverses = np.linalg.pinv(shares, rcond=cut)
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
    totals = [np.maximum(m.sum(axis=1, keepdims=True), TINY) for m in mixed]
    return tuple(sparse.csr_array(m / total) for m, total in zip(mixed, totals, strict=True))


def _lift(problem: OddsProblem, agreement: Agreement, rows: Rows) -> Rows:
    """Mix in just enough of "everyone to the first bin" to bring every ratio within its epsilon.

    There F = 1 at every edge for every group, which leaves the most room and breaks no equality.
    """
    images = images_of(problem, rows)
    share = 0.0
    for label in agreement.bounded:
        over = Agreement((agreement.epsilon[label],), problem.groups, problem.bins).breach(images[:, [label]])
        share = max(share, over / (over - math.expm1(-agreement.epsilon[label])))
    if share <= 0.0:
        return rows
    first = sparse.csr_array(np.eye(1, problem.bins))
    everyone = sparse.csr_array(sparse.vstack([first] * problem.bins))
    return tuple(sparse.csr_array((1.0 - share) * matrix + share * everyone) for matrix in rows)
