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


def chosen_penalty(theta: Floats, curvature: Floats, positions: Ints) -> Floats:
    """Return the roughness matrix times the strength with the largest evidence.

    Near its maximum the log likelihood is ``-(t - theta)' H (t - theta) / 2``; with a Gaussian prior
    of precision ``strength * P`` the evidence is then known in closed form.
    """
    matrix = roughness(positions)
    if positions.size < 4:
        return np.zeros_like(matrix)
    # The first weight is 1 by definition, so its row and column take no part.
    free, penalty, known = theta[1:], matrix[1:, 1:], curvature[1:, 1:]
    rank = positions.size - 2
    pull = known @ free
    best, strength = -np.inf, 0.0
    for candidate in _STRENGTHS:
        precision = known + candidate * penalty
        mean = np.linalg.solve(precision, pull)
        fit = -0.5 * (mean - free) @ known @ (mean - free) - 0.5 * candidate * mean @ penalty @ mean
        evidence = fit + 0.5 * rank * np.log(candidate) - 0.5 * np.linalg.slogdet(precision)[1]
        if evidence > best:
            best, strength = evidence, candidate
    return strength * matrix
