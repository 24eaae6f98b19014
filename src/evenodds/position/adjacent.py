"""Adjacent-pair estimator: the paper's (section "Position Bias Estimation").

    eta_j = E[Y f_{j-1}(s) / f_j(s) | position j] / E[Y | position j - 1],   w_j = eta_2 ... eta_min(j, T)

with the densities f replaced by cell frequencies. The ratio of densities is capped, as LinkedIn's
LiFT does it, so that a nearly empty cell cannot blow up the mean.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]


def estimate(positives: Floats, impressions: Floats, truncate: int, cap: float) -> Floats:
    """Return w; `truncate` counts positions (T), past it w stays."""
    share = impressions / impressions.sum(axis=0)
    rate = np.divide(positives, impressions, out=np.zeros_like(positives), where=impressions > 0)
    ratio = np.divide(share[:, :-1], share[:, 1:], out=np.zeros_like(share[:, 1:]), where=share[:, 1:] > 0)
    above = (share[:, 1:] * rate[:, 1:] * np.minimum(ratio, cap)).sum(axis=0)
    below = positives.sum(axis=0)[:-1] / impressions.sum(axis=0)[:-1]
    # Where no score is shared by two neighbouring positions nothing can be said: w stays.
    eta = np.divide(above, below, out=np.ones_like(above), where=(below > 0) & (above > 0))
    eta[truncate - 1 :] = 1.0
    return np.concatenate(([1.0], np.cumprod(eta)))
