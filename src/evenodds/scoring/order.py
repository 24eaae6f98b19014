"""Keep the old order among items that stay in their bin, in bins where that is harmless.

Which bins those are is found by the fit, see :mod:`evenodds.odds.order`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from evenodds.grid import Grid
from evenodds.maps import CdfMaps

Floats = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]


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
