"""Joint estimator: one rank-one Poisson model over all positions at once.

Given the stratum b (group and score cell) the item's position does not matter but for the bias,

    E[Y | b, j] = w_j r_b,

so positives are Poisson with mean n_bj w_j r_b. Given a stratum's positives, their positions are
multinomial with probabilities proportional to n_bj w_j: the rates r_b drop out, and with them the
bias that thousands of nuisance parameters would bring. What is left is concave in log w.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from evenodds.position.smooth import chosen_penalty

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

_RIDGE = 1e-3  # positives' worth of "no change from one position to the next"
_LARGEST_STEP = 2.0
_UNTHREADED = 200_000  # multiplications; OpenBLAS starts threads at 262,144


def estimate(
    positives: Floats,
    impressions: Floats,
    start: Floats | None = None,
    penalty: Floats | None = None,
    steps: int = 50,
) -> Floats:
    """Return w by Newton's method on the conditional likelihood, w[0] = 1.

    A whisper of smoothness (a thousandth of one positive) decides where the data are silent, for
    instance when no score cell was seen both above and below some position. `penalty` is a matrix P
    for a term ``theta' P theta / 2`` that is taken from the log likelihood.
    """
    size = positives.shape[1]
    theta = np.zeros(size) if start is None else np.log(start)
    held = _ridge(size) if penalty is None else _ridge(size) + penalty
    totals, by_position = positives.sum(axis=1), positives.sum(axis=0)
    for _ in range(steps):
        expected, curvature = _information(impressions, theta, totals)
        gradient = by_position - expected - held @ theta
        curvature += held
        step = np.zeros(size)
        step[1:] = np.linalg.solve(curvature[1:, 1:], gradient[1:])
        theta = theta + np.clip(step, -_LARGEST_STEP, _LARGEST_STEP)
        if np.abs(step).max() < 1e-10:
            break
    return np.exp(theta)


def smoothing(
    positives: Floats, impressions: Floats, weights: Floats, positions: Ints
) -> tuple[Floats, Floats]:
    """Return the penalty that suits an unpenalised estimate best, and what it adds to the error of log w."""
    theta = np.log(weights)
    _, curvature = _information(impressions, theta, positives.sum(axis=1))
    curvature += _ridge(weights.size)
    return chosen_penalty(theta, curvature, positions)


def _information(impressions: Floats, theta: Floats, totals: Floats) -> tuple[Floats, Floats]:
    """Return expected positives by position, and minus the log likelihood's second derivative."""
    share = _shares(impressions, theta)
    weighted = share * totals[:, None]
    expected = weighted.sum(axis=0)
    return expected, np.diag(expected) - _product(share, weighted)


def _product(one: Floats, other: Floats) -> Floats:
    """Return ``one.T @ other`` in slices too small for the linear algebra library to start threads.

    Its threads wait for each other actively: on a machine with other work to do that made this
    step fifty times slower.
    """
    rows, size = one.shape
    count = max(1, rows * size * size // _UNTHREADED)
    whole = rows // count * count
    first, second = (part[:whole].reshape(count, -1, size) for part in (one, other))
    product: Floats = np.matmul(first.swapaxes(1, 2), second).sum(axis=0) + one[whole:].T @ other[whole:]
    return product


def _ridge(size: int) -> Floats:
    difference = np.diff(np.eye(size), axis=0)
    matrix: Floats = _RIDGE * difference.T @ difference
    return matrix


def _shares(impressions: Floats, theta: Floats) -> Floats:
    share = impressions * np.exp(theta)
    share /= np.maximum(share.sum(axis=1, keepdims=True), 1e-300)
    return share
