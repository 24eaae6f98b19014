"""Equality of opportunity in the request: a distribution function a group, then one way back for all."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, Self

import numpy as np

from evenodds.grid import Grid
from evenodds.groups import GroupIndex, Unknown
from evenodds.keys import Words, uniforms
from evenodds.maps import CdfMaps, Interpolation, ReturnScale
from evenodds.scoring.scorer import Codes, Floats, Scorer

Scale = Literal["original", "unit"]

_BLOCK = 32_768  # rows mapped at a time: temporaries stay in the second-level cache


def cdf_maps(
    grid: Grid,
    low: float,
    high: float,
    cdf: Floats,
    *,
    scale: Scale,
    points: int,
    interpolation: Interpolation,
) -> CdfMaps:
    """Return the maps to [0, 1], or to as many steps as there are points on the way back."""
    return CdfMaps(grid, low, high, cdf, interpolation, 1.0 if scale == "unit" else float(points))


class OpportunityScorer(Scorer):
    """``alpha F^-1(F~(F*_c(s))) + (1 - alpha) s``, see :class:`evenodds.EqualOpportunity`.

    Parameters
    ----------
    maps
        F*_c of each group, and last the pooled one.
    back
        F^-1(F~(.)), used unless `scale` is "unit".
    """

    criterion = "opportunity"

    def __init__(
        self,
        maps: CdfMaps,
        back: ReturnScale,
        index: GroupIndex,
        *,
        scale: Scale,
        alpha: float,
        unknown: Unknown,
    ) -> None:
        super().__init__(index, alpha, unknown, draws=maps.has_atoms)
        self.maps = maps
        self.back = back
        self.scale: Scale = scale

    def _fair(self, scores: Floats, codes: Codes, words: Callable[[], Words] | None) -> Floats:
        self.check_finite(scores)
        draws = None if words is None else self._drawn(scores, codes, words)
        if scores.size <= _BLOCK:
            return self._mapped(scores, codes, draws)
        fair = np.empty_like(scores)
        for start in range(0, scores.size, _BLOCK):
            rows = slice(start, start + _BLOCK)
            fair[rows] = self._mapped(scores[rows], codes[rows], None if draws is None else draws[rows])
        return fair

    def _mapped(self, scores: Floats, codes: Codes, draws: Floats | None) -> Floats:
        fair = self.maps(scores, codes, draws)
        if self.scale == "original":
            fair = self.back(fair)
        return self._blended(fair, scores, codes)

    def _drawn(self, scores: Floats, codes: Codes, words: Callable[[], Words]) -> Floats | None:
        """Draw where a score is tied; elsewhere keys change nothing."""
        tied = np.flatnonzero(self.maps.jumps(scores, codes))
        if tied.size == 0:
            return None
        draws = np.zeros(scores.size)
        draws[tied] = uniforms(words()[:, tied], self.salt)
        return draws

    def numbers(self) -> bytes:
        """Return what tells these tables from another model's."""
        return b"".join(part.tobytes() for part in (self.maps.edges, self.maps.cdf, self.back.values))

    def to_tables(self, names: list[str]) -> dict[str, Any]:
        """Return the model file's tables."""
        maps = self.maps
        return {
            "low": maps.low,
            "high": maps.high,
            "boundaries": maps.grid.boundaries.tolist(),
            "atoms": maps.grid.atoms.tolist(),
            "cdf": [
                {"group": name, "values": row} for name, row in zip(names, maps.cdf.tolist(), strict=True)
            ],
            "return_scale": self.back.values.tolist(),
        }

    @classmethod
    def from_tables(cls, body: dict[str, Any], index: Callable[[int], GroupIndex]) -> Self:
        """Make a scorer of a model file's content."""
        tables, settings = body["tables"], body["settings"]
        maps = cdf_maps(
            Grid(np.array(tables["boundaries"], np.float64), np.array(tables["atoms"], np.int64)),
            tables["low"],
            tables["high"],
            np.array([row["values"] for row in tables["cdf"]], np.float64),
            scale=settings["scale"],
            points=settings["points"],
            interpolation=settings["interpolation"],
        )
        back = ReturnScale(np.array(tables["return_scale"], np.float64))
        return cls(
            maps,
            back,
            index(maps.stride),
            scale=settings["scale"],
            alpha=settings["alpha"],
            unknown=settings["unknown"],
        )
