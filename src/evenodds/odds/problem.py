"""The bins, what is known of them, and what a solution is."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy import sparse

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class OddsProblem:
    """Equalized odds over K bins, L groups and M labels, with everything that an objective needs.

    Attributes
    ----------
    given
        ``given[c, y, k] = P(bin k | group c, label y)``, shape (L, M, K); each row sums to 1.
    visits
        ``visits[c, k] = P(group c, bin k)`` over all impressions, shape (L, K); sums to 1 in all.
    cost
        ``cost[k, t]``: what moving an item from bin k to bin t costs, shape (K, K), not negative;
        the diagonal is the cost of a redraw within the bin.
    """

    given: Floats
    visits: Floats
    cost: Floats

    @property
    def groups(self) -> int:
        """L."""
        return int(self.given.shape[0])

    @property
    def labels(self) -> int:
        """M."""
        return int(self.given.shape[1])

    @property
    def bins(self) -> int:
        """K."""
        return int(self.given.shape[2])


@dataclass(frozen=True)
class Kernel:
    """A randomised transition for each group from its K bins to T shared target bins.

    Attributes
    ----------
    rows
        One K x T matrix a group, ``rows[c][k, t] = P(to t | from k, group c)``; rows sum to 1.
    target
        ``target[y, t]``: the distribution over target bins that all groups share given label y.
    """

    rows: tuple[sparse.csr_array, ...]
    target: Floats

    def residual(self, problem: OddsProblem) -> float:
        """Return the largest error of any constraint: row sums, and each group's target distribution."""
        worst = 0.0
        for given, rows in zip(problem.given, self.rows, strict=True):
            worst = max(worst, float(np.abs(rows.sum(axis=1) - 1.0).max()))
            worst = max(worst, float(np.abs(given @ rows - self.target).max()))
            if rows.nnz:
                worst = max(worst, -float(rows.data.min()))
        return worst

    def movement(self, problem: OddsProblem) -> float:
        """Return E of the cost of moving, over all impressions; needs T = K."""
        total = 0.0
        for visits, rows in zip(problem.visits, self.rows, strict=True):
            entries = rows.tocoo()
            total += float(
                (visits[entries.row] * problem.cost[entries.row, entries.col] * entries.data).sum()
            )
        return total
