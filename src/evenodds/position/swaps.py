"""Randomly swapped neighbours: within a pair the two slots show the same items in random order.

    w_{j+1} / w_j = rate in the lower slot / rate in the upper slot, over pairs at (j, j + 1)

Both slots of a pair exist in the same lists, so lists of any length are compared with themselves.
(Joachims et al., "Unbiased Learning-to-Rank with Biased Feedback", 2017.)
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

MIN_POSITIVES = 20.0


def estimate(swaps: Floats, first: int, size: int) -> tuple[Floats, list[int]]:
    """Return w for `size` positions from `first`, and the pairs too thin to be used (ratio 1)."""
    pairs = swaps[first : first + size - 1]
    positives, impressions = pairs[..., 1:].sum(axis=-1), pairs.sum(axis=-1)
    rate = np.divide(positives, impressions, out=np.zeros_like(positives), where=impressions > 0)
    enough = positives.min(axis=1) >= MIN_POSITIVES
    ratio = np.divide(rate[:, 1], rate[:, 0], out=np.ones(len(pairs)), where=enough & (rate[:, 0] > 0))
    thin = [first + int(place) for place in np.flatnonzero(~enough)]
    return np.concatenate(([1.0], np.cumprod(ratio))), thin
