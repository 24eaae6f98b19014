"""The shapes that charts draw: distributions, where items go, and how scores are mapped."""

from __future__ import annotations

import copy
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from evenodds.audit.after import few_cells
from evenodds.opportunity import EqualOpportunity
from evenodds.reranker import Reranker
from evenodds.tally import Tally

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

BINS = 40  # of a distribution
PARTS = 20  # of the ranks, for where items go
_POINTS = 81  # of a transform curve
_TAIL = 0.002  # share of the scores beyond each end of the axis
_OUTER = 0.001  # share of a group's scores beyond each end of its curve
_MOST = 4_000  # thresholds at which fair distributions are taken
_NEARLY = 1.0 - 1e-9  # all the way, with what happens within the bins of equalized odds told too


@dataclass(frozen=True)
class Shape:
    """A state's distributions: density by label, group and bin, mean rank of positives, and the flow of ranks."""

    density: Floats
    rank: Floats
    flow: Floats | None = None


class Shapes:
    """Distributions of one log, before and after a model at any strength.

    Parameters
    ----------
    tally, model
        The log, and the model at its own strength.
    mass
        ``mass[group, label, cell]`` by the kind of label that is judged by.
    """

    def __init__(self, tally: Tally, model: Reranker, mass: Floats) -> None:
        self.tally = tally
        self.mass = np.moveaxis(mass, 1, 0)
        self.everyone = tally.counts.sum(axis=(1, 2), dtype=np.float64)
        by_cell = self.everyone.sum(axis=0)
        total = np.concatenate(([0.0], np.cumsum(by_cell))) / by_cell.sum()
        self._below = total
        atoms = tally.grid.atoms
        self.tied = float(by_cell[atoms].sum() / by_cell.sum())
        self.stepped = self.tied > 0.01
        part = np.minimum(((total[:-1] + total[1:]) / 2 * PARTS).astype(np.int64), PARTS - 1)
        held = self.everyone * (part == np.arange(PARTS)[:, None])[:, None, :]
        # Few cells will do for what is drawn; they keep to the bins of the model.
        self._small, starts, _ = few_cells(tally, model)
        self._from = np.add.reduceat(held, starts, axis=-1)
        self._mass = np.add.reduceat(self.mass, starts, axis=-1)
        low, high = (float(np.interp(level, total, tally.edges)) for level in (_TAIL, 1.0 - _TAIL))
        values = tally.edges[atoms]
        if self.tied > 0.5 and 1 < values.size <= BINS:
            self.scores = values
            middle = (values[1:] + values[:-1]) / 2
            first, last = 2 * values[0] - middle[0], 2 * values[-1] - middle[-1]
            self.edges = np.concatenate(([first], middle, [last]))
        else:
            if not high > low:
                low, high = low - 0.5, low + 0.5
            self.scores = np.linspace(low, high, _POINTS)
            self.edges = np.linspace(low, high, BINS + 1)
        if getattr(model, "scale", "original") == "unit":  # fair scores lie elsewhere: one axis for both
            self.edges = np.linspace(min(low, 0.0), max(high, 1.0), BINS + 1)

    def before(self) -> Shape:
        """Return the shapes of the log as it is."""
        ends = np.concatenate((np.zeros((*self.mass.shape[:-1], 1)), np.cumsum(self.mass, axis=-1)), axis=-1)
        ends /= np.maximum(ends[..., -1:], 1e-300)
        at = np.apply_along_axis(lambda row: np.interp(self.edges, self.tally.edges, row), -1, ends)
        middle = (self._below[:-1] + self._below[1:]) / 2
        worthy = self.mass[1:].sum(axis=0)
        rank = (worthy @ middle) / np.maximum(worthy.sum(axis=1), 1e-300)
        return Shape(np.diff(at, axis=-1), rank)

    def after(self, model: Reranker) -> Shape:
        """Return the shapes of the fair scores."""
        told = model
        if model.criterion == "odds" and model.alpha == 1.0:
            told = copy.copy(model)
            told.alpha = _NEARLY
        labels = len(self.mass)
        worthy = self._mass[1:].sum(axis=0)[None]
        stack = np.concatenate((self._mass, worthy, self._from))
        thresholds, cdf = told.fair_cdf(self._small, stack, most=_MOST)
        weight = self._from.sum(axis=-1) / self.everyone.sum()
        everyone = np.maximum.accumulate(np.einsum("fg,fgt->t", weight, cdf[labels + 1 :]))
        if self.stepped:
            place = np.searchsorted(thresholds, self.edges, side="right")
            at = np.concatenate((np.zeros((*cdf[:labels].shape[:-1], 1)), cdf[:labels]), axis=-1)[..., place]
        else:
            at = _interpolated(self.edges, thresholds, cdf[:labels])
        below = np.concatenate(([0.0], everyone[:-1]))
        rank = np.diff(cdf[labels], axis=-1, prepend=0.0) @ ((below + everyone) / 2)
        levels = np.linspace(0.0, 1.0, PARTS + 1)
        # Ranks that tie share their stretch evenly.
        knots, last = np.unique(everyone[::-1], return_index=True)
        rows = cdf[labels + 1 :][..., everyone.size - 1 - last]
        moved = np.diff(_interpolated(levels, np.append(0.0, knots), _from_zero(rows)), axis=-1)
        flow = np.moveaxis(moved, 0, 1) * (weight.T > 0)[..., None]
        return Shape(np.diff(at, axis=-1), rank, flow)

    def share_from(self) -> Floats:
        """Return ``share[group, part]``: how a group's items lie over the twentieths of all ranks."""
        held = self._from.sum(axis=-1).T
        share: Floats = held / np.maximum(held.sum(axis=1, keepdims=True), 1e-300)
        return share

    def curve(self, model: Reranker) -> Floats | None:
        """Return ``curve[group, end, point]``, the lowest and highest fair score; None for random kernels."""
        if not isinstance(model, EqualOpportunity):
            return None
        curves = np.array([model.spans(self.scores, code) for code in model.rows_of(self.tally).tolist()])
        # Where a group has no items its map means nothing.
        held = np.cumsum(self.everyone, axis=1)
        for curve, total in zip(curves, held / np.maximum(held[:, -1:], 1e-300), strict=True):
            ends = np.concatenate(([0.0], total))
            low, high = (np.interp(level, ends, self.tally.edges) for level in (_OUTER, 1.0 - _OUTER))
            curve[:, (self.scores < low) | (self.scores > high)] = np.nan
        return curves


def _from_zero(rows: Floats) -> Floats:
    return np.concatenate((np.zeros((*rows.shape[:-1], 1)), rows), axis=-1)


def _interpolated(points: Floats, knots: Floats, values: Floats) -> Floats:
    """Interpolate ``values[..., knot]`` at points; the end values beyond the ends."""
    left = np.clip(np.searchsorted(knots, points, side="right") - 1, 0, knots.size - 2)
    width = knots[left + 1] - knots[left]
    far = np.clip(np.divide(points - knots[left], width, out=np.ones_like(width), where=width > 0), 0.0, 1.0)
    found: Floats = values[..., left] * (1 - far) + values[..., left + 1] * far
    return found
