"""Keep the old order among items that stay in their bin, where that is harmless.

An item that stays could be put where it stood among its group in the bin, instead of at a random
point. Among all of the group's items that is uniform too; among those of one label it is nearly so.
How nearly is counted, and a bin takes part only if no group's distribution moves by more than the
tolerance.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from evenodds.grid import Grid
from evenodds.maps import CdfMaps
from evenodds.merit import merit_mass
from evenodds.odds.bins import Bins
from evenodds.odds.fit import Fitted
from evenodds.position import PositionBias
from evenodds.tally import Tally

Floats = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]
Ints = npt.NDArray[np.int64]

TOLERANCE = 0.0005


@dataclass(frozen=True)
class InBinOrder:
    """Where items that stay lie in their bin.

    Attributes
    ----------
    kept
        For each kernel row, whether items that stay keep their order.
    below
        ``below[group, edge]``: the group's share of scores below each bin edge.
    maps
        Each group's distribution function.
    """

    kept: Flags
    below: Floats
    maps: CdfMaps

    @classmethod
    def where_harmless(
        cls, tally: Tally, bias: PositionBias, bins: Bins, fitted: Fitted, own: Flags, labels: Ints
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
        return cls(kept.ravel(), below[:, ends], maps)

    def within(self, scores: Floats, groups: npt.NDArray[np.intp], bins: npt.NDArray[np.intp]) -> Floats:
        """Return how far into its bin each score lies among its group's."""
        level = self.maps(scores, groups * self.maps.stride)
        low, high = self.below[groups, bins], self.below[groups, bins + 1]
        width = high - low
        far = np.divide(level - low, width, out=np.full(scores.size, 0.5), where=width > 0)
        return np.clip(far, 0.0, 1.0 - 2.0**-36)

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON values."""
        maps = self.maps
        return {
            "kept": np.flatnonzero(self.kept).tolist(),
            "rows": self.kept.size,
            "below": self.below.tolist(),
            "low": maps.low,
            "high": maps.high,
            "boundaries": maps.grid.boundaries.tolist(),
            "atoms": maps.grid.atoms.tolist(),
            "cdf": maps.cdf.tolist(),
        }

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> InBinOrder:
        """Read what `to_dict` wrote."""
        kept = np.zeros(values["rows"], dtype=bool)
        kept[values["kept"]] = True
        grid = Grid(np.array(values["boundaries"], np.float64), np.array(values["atoms"], np.int64))
        maps = CdfMaps(grid, values["low"], values["high"], np.array(values["cdf"], np.float64), "linear")
        return cls(kept, np.array(values["below"], np.float64), maps)


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
