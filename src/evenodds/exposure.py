"""Where a fair score puts an item, and how likely it is looked at there.

The position of an item whose score lies under a share a of all scores is 1 + Binomial(J - 1, a) in a
list of J; so the mean of w at its position is a Bernstein polynomial of the weights, averaged over
the list lengths in the log.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from evenodds.merit import position_weights
from evenodds.position import PositionBias
from evenodds.tally import Tally

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

_POINTS = 2_001
_CELLS = 200
_PRIOR_ROWS = 10.0  # rows' worth of "lists are drawn at random from all rows"
_FITS = 0.05  # of a list: the mean error past which a log was not ranked by its score


class Exposure:
    """The mean position weight of an item, by the share of scores above it.

    Parameters
    ----------
    tally
        Gives the lengths of the lists: a list of length J has a row at each position up to J.
    bias
        Gives w.
    """

    def __init__(self, tally: Tally, bias: PositionBias) -> None:
        slots, items = list_lengths(tally)
        self._above = np.linspace(0.0, 1.0, _POINTS)
        self._mean = _bernstein(position_weights(tally, bias)[slots], items, self._above)
        step = (self._mean[1:] + self._mean[:-1]) / 2 / (_POINTS - 1)
        self._integral = np.concatenate(([0.0], np.cumsum(step)))

    def at(self, above: Floats) -> Floats:
        """Return E[w] for items with the share `above` of all scores above theirs."""
        return np.interp(above, self._above, self._mean)

    def between(self, low: Floats, high: Floats) -> Floats:
        """Return the mean of E[w] over shares above that lie evenly between `low` and `high`."""
        width = high - low
        total = np.interp(high, self._above, self._integral) - np.interp(low, self._above, self._integral)
        return np.where(width > 1e-9, total / np.maximum(width, 1e-9), self.at((low + high) / 2))


def list_lengths(tally: Tally) -> tuple[Ints, Floats]:
    """Return the position of each slot of a list, and the share of items in lists of each length.

    A list of length J has a row at each position up to J, so the lengths follow from the rows by
    position. Pooled positions stand for as many slots as there are in lists on average.
    """
    shown = tally.counts.sum(axis=(0, 1, 3), dtype=np.float64)
    slots = np.flatnonzero(shown)
    shown = shown[slots]
    if slots.size > 1 and slots[-1] == tally.depth + 1:
        extra = int(np.ceil(shown[-1] / max(shown[-2], 1.0)))
        slots = np.concatenate((slots[:-1], np.full(extra, slots[-1])))
        shown = np.concatenate((shown[:-1], np.full(extra, shown[-1] / extra)))
    lists = np.maximum(shown - np.append(shown[1:], 0.0), 0.0)
    items = lists * np.arange(1, lists.size + 1)
    return slots, items / items.sum()


def companions(tally: Tally) -> Floats:
    """Return ``share[g, h]`` of group h among the others in a list that holds an item of group g.

    Where lists are drawn at random from all rows it is the share of h in the log. Where viewers differ in
    whom they are shown, items stand among more of their own group, and compete with these. The positions
    of a log that was ranked by its score tell how much: an item of g with the score s stands below the share
    ``sum over h of share[g, h] P(score > s | h)`` of its list. Least squares over score cells, a group at a
    time, then balanced: as many pairs of g and h as of h and g.
    """
    logged = _Logged.of(tally)
    rows, seen, above, share = logged.rows, logged.seen, logged.above, logged.share
    alone = np.repeat(share[None], share.size, axis=0)
    if share.size < 2 or not logged.ranked:
        return alone
    found = np.empty_like(alone)
    for group, (mass, place) in enumerate(zip(rows, seen, strict=True)):
        weighted = above * mass
        left = weighted @ above.T + _PRIOR_ROWS * np.eye(share.size)
        right = weighted @ (place - share @ above)
        inverse = np.linalg.inv(left)
        change = inverse @ right
        change -= inverse.sum(axis=1) * change.sum() / inverse.sum()  # shares still add up to one
        found[group] = np.maximum(share + change, 0.0)
        found[group] /= found[group].sum()
    if logged.off(found) > _FITS:
        return alone
    pairs = share[:, None] * found
    pairs = (pairs + pairs.T) / 2
    for _ in range(50):
        scale = np.sqrt(share / np.maximum(pairs.sum(axis=1), 1e-300))
        pairs *= scale[:, None] * scale
    balanced: Floats = pairs / pairs.sum(axis=1, keepdims=True)
    return balanced


def misplaced(tally: Tally) -> Floats:
    """Return by how much the same reckoning misses each group's share of the logged positions, ``[group, position]``.

    Zero where it cannot be told: without positions, and where the log was not ranked by its score.
    """
    logged = _Logged.of(tally)
    shown = tally.counts.sum(axis=(1, 3), dtype=np.float64)
    found = companions(tally)
    if not logged.ranked or logged.off(found) > _FITS:
        return np.zeros_like(shown)
    points = np.linspace(0.0, 1.0, 201)
    chance = placement(tally, points.size)
    reckoned = np.array(
        [
            [mass @ np.interp(place, points, row) for row in chance]
            for mass, place in zip(logged.rows, found @ logged.above, strict=True)
        ]
    )
    held = np.maximum(shown.sum(axis=0), 1e-300)
    away: Floats = reckoned / np.maximum(reckoned.sum(axis=0), 1e-300) - shown / held
    return np.where(shown.sum(axis=0) > 0, away, 0.0)


@dataclass(frozen=True)
class _Logged:
    """Where items stood in a log, by group and coarse score cell.

    Attributes
    ----------
    rows, seen
        Impressions, and the mean share of their list above them.
    above
        The share of a group's scores above the middle of a cell, ``[group, cell]``.
    share
        Of each group in the log.
    ranked
        Whether there are lists, with every group in them.
    """

    rows: Floats
    seen: Floats
    above: Floats
    share: Floats
    ranked: bool

    @classmethod
    def of(cls, tally: Tally) -> _Logged:
        slots, items = list_lengths(tally)
        starts = np.flatnonzero(np.diff(tally.grid.coarse(_CELLS), prepend=-1))
        shown = np.add.reduceat(tally.counts, starts, axis=3).sum(axis=1, dtype=np.float64)
        rows = shown.sum(axis=1)  # group, cell
        total = np.maximum(rows.sum(axis=1), 1e-300)
        others = float(items @ np.arange(items.size))  # in the list of an item
        rank = np.zeros(shown.shape[1])
        rank[slots[::-1]] = np.arange(slots.size)[::-1]
        seen = np.einsum("gpk,p->gk", shown, rank) / np.maximum(rows, 1e-300) / max(others, 1e-300)
        above = 1.0 - (np.cumsum(rows, axis=1) - rows / 2) / total[:, None]
        return cls(rows, seen, above, total / total.sum(), others > 0 and bool(rows.any(axis=1).all()))

    def off(self, companions: Floats) -> float:
        """Return by what share of a list places are off, if lists hold these companions, in the worst group."""
        squared = (self.rows * (self.seen - companions @ self.above) ** 2).sum(axis=1)
        return float(np.sqrt(squared / np.maximum(self.rows.sum(axis=1), 1e-300)).max())


def placement(tally: Tally, points: int) -> Floats:
    """Return ``chance[position, point]``: where an item stands, by the share of scores above it.

    The points lie evenly on [0, 1]; the position is 1 + Binomial(J - 1, share above), averaged over the
    lengths J of lists.
    """
    slots, items = list_lengths(tally)
    above = np.linspace(0.0, 1.0, points)
    by_slot = np.zeros((slots.size, points))
    rung = np.ones((1, points))
    for length, share in enumerate(items, start=1):
        by_slot[:length] += share * rung
        longer = np.zeros((length + 1, points))
        longer[:-1] += rung * (1.0 - above)
        longer[1:] += rung * above
        rung = longer
    chance = np.zeros((tally.counts.shape[2], points))
    np.add.at(chance, slots, by_slot)
    return chance


def _bernstein(weights: Floats, share: Floats, points: Floats) -> Floats:
    """Sum over J of share[J - 1] times the Bernstein polynomial of weights[:J]; all degrees in one scheme."""
    total = np.full(points.size, share[0] * weights[0])
    rung = np.repeat(weights[:, None], points.size, axis=1)
    for degree in range(1, weights.size):
        rung = rung[:-1] * (1.0 - points) + rung[1:] * points  # de Casteljau
        total += share[degree] * rung[0]
    return total
