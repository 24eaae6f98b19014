"""Ratio of rates, for logs of shuffled slots (the paper's equation for randomised data).

    w_j = (positives_j / impressions_j) / (positives_1 / impressions_1)

When lists differ in length, deep positions hold items of long lists only. If long lists hold other
items than short ones, the plain ratio mistakes that for position bias; so with unequal counts of
impressions the rates are compared within strata of group and score.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from evenodds.position import joint

Floats = npt.NDArray[np.float64]


def estimate(
    positives: Floats, impressions: Floats, *, stratify: bool, start: Floats | None = None
) -> Floats:
    """Return w, within strata or over all."""
    if stratify:
        return joint.estimate(positives, impressions, start=start)
    rate = positives.sum(axis=0) / impressions.sum(axis=0)
    return rate / rate[0] if rate[0] > 0 else np.ones_like(rate)
