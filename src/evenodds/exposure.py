"""Where a fair score puts an item, and how likely it is looked at there.

The position of an item whose score lies under a share a of all scores is 1 + Binomial(J - 1, a) in a
list of J; so the mean of w at its position is a Bernstein polynomial of the weights, averaged over
the list lengths in the log.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from evenodds.merit import position_weights
from evenodds.position import PositionBias
from evenodds.tally import Tally

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

_POINTS = 2_001


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
