"""Distances between samples."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]


def ks_distance(one: Floats, other: Floats) -> float:
    """Return the two-sample Kolmogorov-Smirnov distance, max over t of |F_1(t) - F_2(t)|.

    >>> ks_distance(np.array([1.0, 2.0]), np.array([2.0, 3.0]))
    0.5
    """
    one, other = np.sort(one), np.sort(other)
    points = np.concatenate((one, other))
    shares = [np.searchsorted(sample, points, side="right") / max(sample.size, 1) for sample in (one, other)]
    return float(np.abs(shares[0] - shares[1]).max(initial=0.0))
