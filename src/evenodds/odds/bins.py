"""From a tally to the bins of equalized odds: their edges, masses given the merit label, and costs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from evenodds.merit import clipped, unclipped_mass
from evenodds.odds.problem import OddsProblem
from evenodds.position import PositionBias
from evenodds.tally import Tally

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]
Binning = Literal["quantile", "equal"]
Cost = Literal["score", "rank"]


@dataclass(frozen=True)
class Bins:
    """Runs of score cells, and what the tally knows of each.

    Attributes
    ----------
    starts
        The first cell of each bin.
    edges
        The bins' ends on the score scale, K + 1 of them.
    levels
        The share of all scores below each edge.
    mass
        ``mass[group, label, bin]`` given the merit label, negatives clipped at zero.
    visits
        ``visits[group, bin]``: impressions.
    means
        The mean score, and the mean level, of each bin.
    spreads
        E|s - s'| of two scores drawn from the same bin, in scores and in levels.
    clipped
        The share of each group's negatives that clipping added.
    """

    starts: Ints
    edges: Floats
    levels: Floats
    mass: Floats
    visits: Floats
    means: tuple[Floats, Floats]
    spreads: tuple[Floats, Floats]
    clipped: Floats

    @property
    def count(self) -> int:
        """K."""
        return int(self.starts.size)

    def cost(self, kind: Cost, *, redrawn: bool) -> Floats:
        """Return what a move costs: E|s - s'| in scores or in ranks; within a bin, that of a redraw."""
        means = self.means[0 if kind == "score" else 1]
        cost = np.abs(means[:, None] - means[None, :])
        if redrawn:
            np.fill_diagonal(cost, self.spreads[0 if kind == "score" else 1])
        return cost

    def problem(self, groups: Flags, labels: Ints, cost: Floats) -> OddsProblem:
        """Return the problem of some groups and labels."""
        mass = self.mass[groups][:, labels]
        visits = self.visits[groups]
        return OddsProblem(mass / mass.sum(axis=2, keepdims=True), visits / visits.sum(), cost)


def bin_tally(tally: Tally, bias: PositionBias, bins: int, binning: Binning) -> Bins:
    """Cut the tally's cells into at most `bins` runs, none of them empty."""
    everyone = tally.counts.sum(axis=(1, 2), dtype=np.float64)
    by_cell = everyone.sum(axis=0)
    edges = tally.edges
    total = np.concatenate(([0.0], np.cumsum(by_cell)))
    total /= total[-1]
    if binning == "quantile":
        place = (total[:-1] + total[1:]) / 2
    else:
        unit = unit_scale(edges)
        place = (unit[:-1] + unit[1:]) / 2
        place = (place - unit[0]) / max(unit[-1] - unit[0], 1e-300)
    number = np.minimum((place * bins).astype(np.int64), bins - 1)
    number = np.maximum.accumulate(number)
    filled = np.bincount(number, weights=by_cell, minlength=bins) > 0
    number = (np.cumsum(filled) - 1).clip(0)[number]  # a bin without rows joins the one before it
    starts = np.flatnonzero(np.diff(number, prepend=-1))
    merit = np.add.reduceat(unclipped_mass(tally, bias), starts, axis=2)
    mass, added = clipped(merit)
    visits = np.add.reduceat(everyone, starts, axis=1)
    ends = np.append(starts, tally.grid.cells)
    rows = np.maximum(np.add.reduceat(by_cell, starts), 1e-300)
    means = tuple(
        np.add.reduceat(by_cell * (values[:-1] + values[1:]) / 2, starts) / rows for values in (edges, total)
    )
    spreads = (_spread(edges, total, starts), np.diff(total[ends]) / 3.0)
    return Bins(starts, edges[ends], total[ends], mass, visits, (means[0], means[1]), spreads, added)


def _spread(edges: Floats, total: Floats, starts: Ints) -> Floats:
    """Return E|s - s'| within each bin: twice the integral of F (1 - F), F the bin's distribution function."""
    ends = np.append(starts, edges.size - 1)
    sizes = np.diff(ends)
    below = np.repeat(total[starts], sizes)
    mass = np.maximum(np.repeat(np.diff(total[ends]), sizes), 1e-300)
    low, high = (total[:-1] - below) / mass, (total[1:] - below) / mass
    inside = (low + high) / 2 - (low * low + low * high + high * high) / 3
    return np.add.reduceat(2.0 * np.diff(edges) * inside, starts)


def unit_scale(scores: Floats) -> Floats:
    """Bring scores to the unit interval: as they are if they lie there, else by the inverse logit."""
    if scores[0] >= 0.0 and scores[-1] <= 1.0:
        return scores
    return 1.0 / (1.0 + np.exp(-np.clip(scores, -700, 700)))
