"""How smooth a position-bias curve may be assumed, decided by the data.

The penalty is the integrated squared curvature of log w over x = log(1 + slots below the top), in
which power laws and logarithmic decay are nearly straight. Its strength maximises the marginal
likelihood (Laplace's approximation at the unpenalised estimate), so that a curve with real kinks, a
page fold for instance, is left as it is. On the paper's simulation with 20,000 queries this halves
the error of log w; `bench/fairness.py` prints it.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

_STRENGTHS = 10.0 ** np.arange(-6.0, 8.01, 0.25)
_LOOSER = 8  # steps of them: a hundredth of the strength


def roughness(positions: Ints) -> Floats:
    """Return P with ``theta' P theta`` = integral of the squared second derivative of log w over x."""
    x = np.log1p((positions - positions[0]).astype(np.float64))
    gap = np.diff(x)
    size = x.size
    second = np.zeros((max(size - 2, 0), size))
    rows = np.arange(size - 2) if size > 2 else np.zeros(0, np.intp)
    second[rows, rows] = 1 / gap[:-1] if size > 2 else 0.0
    second[rows, rows + 1] = -1 / gap[:-1] - 1 / gap[1:] if size > 2 else 0.0
    second[rows, rows + 2] = 1 / gap[1:] if size > 2 else 0.0
    width = (gap[:-1] + gap[1:]) / 2
    matrix: Floats = second.T @ (second / width[:, None])
    return matrix


def chosen_penalty(theta: Floats, curvature: Floats, positions: Ints) -> tuple[Floats, Floats]:
    """Return the roughness matrix times the strength with the largest evidence, and what it adds to the error.

    Near its maximum the log likelihood is ``-(t - theta)' H (t - theta) / 2``; with a Gaussian prior
    of precision ``strength * P`` the evidence is then known in closed form.

    A smoothed curve varies less from log to log than it is wrong: it leans towards a straight line by
    as much as one log said. So its error beyond the sampling error at the chosen strength is the
    posterior covariance, averaged over strengths by their evidence, less that sampling covariance
    (Nychka, "Bayesian Confidence Intervals for Smoothing Splines", 1988, for one strength). It comes as
    independent parts of the error of log w, ``[part, position]``. The first is what a hundredth of the
    strength would change: where the true curve bends one way all along, the posterior does not know.
    """
    matrix = roughness(positions)
    if positions.size < 4:
        return np.zeros_like(matrix), np.zeros((0, positions.size))
    # The first weight is 1 by definition, so its row and column take no part. In the basis B with
    # B'HB = 1 and B'PB diagonal every strength is solved at once.
    lower = np.linalg.cholesky(curvature[1:, 1:])
    half = np.linalg.solve(lower, matrix[1:, 1:])
    stiff, turned = np.linalg.eigh(np.linalg.solve(lower, half.T))
    basis = np.linalg.solve(lower.T, turned)
    shrink = 1.0 / (1.0 + _STRENGTHS[:, None] * np.maximum(stiff, 0.0))
    seen = turned.T @ (lower.T @ theta[1:])
    evidence = 0.5 * (positions.size - 2) * np.log(_STRENGTHS)
    evidence += 0.5 * np.log(shrink).sum(axis=1) - 0.5 * (1.0 - shrink) @ seen**2
    best = int(evidence.argmax())
    belief = np.exp(evidence - evidence[best])
    belief /= belief.sum()
    off = (shrink - shrink[best]) * seen
    beyond = np.diag(belief @ shrink - shrink[best] ** 2) + (belief[:, None] * off).T @ off
    value, vector = np.linalg.eigh(beyond)
    kept = value > 1e-3 * max(float(value[-1]), 0.0)
    parts = np.sqrt(value[kept])[:, None] * (basis @ vector[:, kept]).T
    # An eigenvector may point either way, and processors differ in it; intervals are drawn with seeded signs.
    parts *= np.sign(np.take_along_axis(parts, np.abs(parts).argmax(axis=1)[:, None], axis=1))
    looser = (shrink[max(best - _LOOSER, 0)] - shrink[best]) * seen
    parts = np.vstack((basis @ looser, parts))
    return _STRENGTHS[best] * matrix, np.hstack((np.zeros((len(parts), 1)), parts))
