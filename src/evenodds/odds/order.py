"""Keep the old order among items that stay in their bin, where that is harmless.

An item that stays could be put where it stood among its group in the bin, instead of at a random
point. Among all of the group's items that is uniform too; among those of one label it is nearly so.
How nearly is counted, and a bin takes part only if no group's distribution moves by more than the
tolerance.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from evenodds.maps import CdfMaps
from evenodds.merit import merit_mass
from evenodds.odds.bins import Bins
from evenodds.odds.fit import Fitted
from evenodds.position import PositionBias
from evenodds.scoring.order import InBinOrder
from evenodds.tally import Tally

Floats = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]
Ints = npt.NDArray[np.int64]

TOLERANCE = 0.0005


def harmless_order(
    tally: Tally, bias: PositionBias, bins: Bins, fitted: Fitted, own: Flags, labels: Ints
) -> InBinOrder:
    """Find the bins that can keep their order."""
    everyone = tally.counts.sum(axis=(1, 2), dtype=np.float64)
    below = np.hstack((np.zeros((len(everyone), 1)), np.cumsum(everyone, axis=1)))
    below /= below[:, -1:]
    mass = merit_mass(tally, bias, bins.starts)[:, labels]
    atom = tally.grid.is_atom()
    ends = np.append(bins.starts, tally.grid.cells)
    kept = np.zeros((len(everyone) + 1, bins.count), dtype=bool)
    for c in np.flatnonzero(own):
        stays = fitted.rows[c].diagonal()
        label_cdf = np.hstack((np.zeros((labels.size, 1)), np.cumsum(mass[c], axis=1)))
        label_cdf /= label_cdf[:, -1:]
        for k in np.flatnonzero(stays > 0):
            cells = slice(ends[k], ends[k + 1] + 1)
            kept[c, k] = (
                _harm(label_cdf[:, cells], below[c, cells], atom[ends[k] : ends[k + 1]]) * stays[k]
                < TOLERANCE
            )
    maps = CdfMaps(tally.grid, *tally.score_range, below, "linear")
    return InBinOrder(kept.ravel(), below[:, ends], maps)


def _harm(label_cdf: Floats, group_cdf: Floats, atom: Flags) -> float:
    """Return how far any label's distribution function moves if the bin's items keep their place.

    `label_cdf` holds a row a label; all of them end at the bin's cells. Ties keep one place, the lower.
    """
    width = group_cdf[-1] - group_cdf[0]
    if width <= 0:
        return 0.0
    place = (group_cdf - group_cdf[0]) / width
    rise = label_cdf - label_cdf[:, :1]
    even = rise[:, -1:] * place
    worst = float(np.abs(rise - even).max())
    tied = np.flatnonzero(atom)
    if tied.size:
        worst = max(worst, float(np.abs(rise[:, tied + 1] - even[:, tied]).max()))
    return worst
