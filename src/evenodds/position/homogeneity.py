"""Test of the paper's homogeneity assumption, ``E[Y | stratum b, position j] = w_j r_b``.

Positives of each fold of queries are compared with what the model expects of them, stratum by stratum
and position by position, less what the fit took up; then residuals are added up over neighbouring
strata and positions until each sum expects some ten positives, so that few positives cost detail and
not honesty. Under the model the folds' residuals are independent with mean zero, whatever hangs
together within a query. Their sum of squares is compared with their own spread from fold to fold
(Bai and Saranadasa, "Effect of High Dimension", 1996, with Satterthwaite's degrees of freedom).

A chi-square on well-filled pairs alone, as it stood here first, rejected 14 to 30 % of small logs that
obey the model at a level of 5 %: it counted degrees of freedom that thin pairs had taken up, and wide
strata, which small logs need for it, hold better scores at the top than below.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from evenodds.position.result import Goodness

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

MIN_FOLDS = 5
_EXPECTED = 10.0  # positives in a sum of residuals
_DAMPING = 5.0  # positives' worth of variance, so that a sum that expects hardly any does not decide


def homogeneity(
    positives: Floats, impressions: Floats, weights: Floats, groups: int, scatter: tuple[float, float]
) -> Goodness | None:
    """Test the model.

    Parameters
    ----------
    positives, impressions
        By fold, stratum and position; the strata of one group stand together, in the order of the score.
    weights
        w as estimated from their sums.
    groups
        How many there are.
    scatter
        The mean squared weight over the mean weight of negatives and positives.
    """
    used = impressions.any(axis=(1, 2))
    if used.sum() < MIN_FOLDS or positives.shape[2] < 2:
        return None
    positives, impressions = positives[used], impressions[used]
    folds = len(positives)
    total, shown = positives.sum(axis=0), impressions.sum(axis=0)
    rate = total.sum(axis=1) / np.maximum(shown @ weights, 1e-300)
    mean = np.minimum(rate[:, None] * weights, 1.0)
    expected = shown * mean
    residual = _less_the_fit(positives - impressions * mean, expected)
    variance = scatter[1] * expected * (1 - mean) ** 2 + scatter[0] * (shown - expected) * mean**2
    sums = _sums(total / scatter[1], groups)
    if sums is None:
        return None
    residual, expected, variance = (_added(part, *sums) for part in (residual, expected, variance))
    spread = residual - residual.mean(axis=0)
    beyond = (residual.sum(axis=0) ** 2 - folds / (folds - 1) * (spread**2).sum(axis=0)).sum()
    excess = float(np.sqrt(max(beyond / (expected**2).sum(), 0.0)))
    scale = 1.0 / np.sqrt(variance + _DAMPING * scatter[1])
    found = _mean_is_zero((residual * scale).reshape(folds, -1))
    return None if found is None else Goodness(*found, excess)


def _less_the_fit(residual: Floats, expected: Floats) -> Floats:
    """Take from each fold's residuals what it contributed to the estimates of r and w.

    Weighted least squares on rows and columns: rows one by one, then columns given the rows.
    """
    held = expected.sum(axis=1)
    share = np.divide(expected, held[:, None], out=np.zeros_like(expected), where=held[:, None] > 0)
    within = residual - residual.sum(axis=2, keepdims=True) * share
    information = np.diag(expected.sum(axis=0)) - share.T @ expected
    moved = within.sum(axis=1) @ np.linalg.pinv(information, hermitian=True)  # [fold, position]
    left: Floats = within - expected * (moved[:, None, :] - (moved @ share.T)[:, :, None])
    return left


def _sums(positives: Floats, groups: int) -> tuple[Ints, Ints] | None:
    """Return which strata and which positions to add up: as fine in one as in the other, if it can be."""
    strata, positions = positives.shape
    blocks = positives.sum() / _EXPECTED / groups
    across = int(np.clip(np.sqrt(blocks), 1, positions))
    down = int(np.clip(blocks / across, 1, strata // groups))
    across = int(np.clip(blocks / down, 1, positions))
    if across < 2 and down < 2:
        return None
    by_cell = positives.reshape(groups, -1, positions).sum(axis=(0, 2))
    cell = _runs(by_cell, down)
    stratum = (np.arange(groups)[:, None] * (cell[-1] + 1) + cell).ravel()
    return stratum, _runs(positives.sum(axis=0), across)


def _runs(mass: Floats, wanted: int) -> Ints:
    """Cut into runs of about equal mass; numbers without a gap."""
    middle = (np.cumsum(mass) - mass / 2) / max(float(mass.sum()), 1e-300)
    place = np.minimum((middle * wanted).astype(np.int64), wanted - 1)
    return np.cumsum(np.diff(place, prepend=place[0]) > 0)


def _added(values: Floats, stratum: Ints, position: Ints) -> Floats:
    """Add up the last two axes."""
    rows = np.add.reduceat(values, np.flatnonzero(np.diff(stratum, prepend=-1)), axis=-2)
    added: Floats = np.add.reduceat(rows, np.flatnonzero(np.diff(position, prepend=-1)), axis=-1)
    return added


def _mean_is_zero(rows: Floats) -> tuple[float, int, float] | None:
    """Test that rows have mean zero; return statistic, degrees of freedom and p-value.

    The squared length of the sum is compared with the trace of the covariance; its degrees of freedom
    are (trace of S)^2 / trace of S^2, the latter estimated without bias from few rows.
    """
    from scipy.special import fdtrc

    count = len(rows)
    free = count - 1
    spread = rows - rows.mean(axis=0)
    gram = spread @ spread.T / free
    trace = float(np.trace(gram))
    if not trace > 0:
        return None
    square = free**2 / ((free + 2) * (free - 1)) * (float((gram**2).sum()) - trace**2 / free)
    degrees = float(np.clip(trace**2 / max(square, 1e-300), 1.0, rows.shape[1]))
    ratio = float((rows.sum(axis=0) ** 2).sum()) / (count * trace)
    return ratio * degrees, round(degrees), float(fdtrc(degrees, free * degrees, ratio))
