"""What a model will make of the counts: fair scores by cell, new positions, labels as they will be logged."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from evenodds.exposure import Exposure, placement
from evenodds.grid import Grid
from evenodds.position import PositionBias
from evenodds.reranker import Reranker
from evenodds.tally import Tally

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

_POINTS = 201  # of the share above, at which the chance of each position is known


@dataclass(frozen=True)
class Fair:
    """Masses over the steps between the thresholds of the fair score.

    Attributes
    ----------
    thresholds
        The fair scores at which the steps end.
    observed, merit
        ``mass[group, label, step]``: by the label as it will be logged at the new position, where
        positives that nobody looks at become negatives, and by the merit label.
    negative
        Merit negatives before clipping, ``[group, step]``.
    rows
        ``rows[group, position]``: predicted impressions.
    exposure
        The mean position weight of each group's impressions.
    """

    thresholds: Floats
    observed: Floats
    merit: Floats
    negative: Floats
    rows: Floats
    exposure: Floats


class Masses(NamedTuple):
    """Merit masses ``[group, label, cell]``, their negatives before clipping, and impressions ``[group, cell]``."""

    merit: Floats
    negative: Floats
    everyone: Floats


class Ahead:
    """A model applied to counts, the whole ones and the left-out ones.

    A fair score under a share a of all fair scores stands at position 1 + Binomial(J - 1, a) in a list
    of J, and is looked at with the mean weight there (:class:`evenodds.exposure.Exposure`).
    """

    def __init__(self, model: Reranker, tally: Tally, bias: PositionBias) -> None:
        self.model = model
        self.tally = tally
        self.exposure = Exposure(tally, bias)
        self.chance = placement(tally, _POINTS)
        self._points = np.linspace(0.0, 1.0, _POINTS)
        self._small, self._starts, self._coarse = _small(tally, model)

    def whole(self, masses: Masses) -> Fair:
        """Apply the model to masses on all cells."""
        return self._fair(self.tally, masses, None)

    def left_out(self, masses: Masses, left: Masses, whole: Masses, moved: Floats) -> Fair:
        """Apply it to masses that are known on coarse cells only.

        Parameters
        ----------
        masses
            The whole log's, on all cells; within a coarse cell the left-out ones lie like them.
        left, whole
            The left-out and the whole log's masses on coarse cells.
        moved
            By how much w has moved at each position.
        """
        fine = Masses(*(np.add.reduceat(part, self._starts, axis=-1) for part in masses))

        def like(part: Floats, one: Floats, other: Floats) -> Floats:
            return part * np.divide(one, other, out=np.zeros_like(one), where=other > 0)[..., self._coarse]

        # Negatives before clipping can be zero or below: what is left out goes by impressions.
        change = like(fine.everyone, left.negative - whole.negative, whole.everyone)
        left_fine = Masses(
            like(fine.merit, left.merit, whole.merit),
            fine.negative + change,
            like(fine.everyone, left.everyone, whole.everyone),
        )
        return self._fair(self._small, left_fine, moved)

    def _fair(self, tally: Tally, masses: Masses, moved: Floats | None) -> Fair:
        merit, negative, everyone = masses
        thresholds, shown = self.model.fair_cdf(tally, everyone)
        rows = everyone.sum(axis=1)
        cdf = np.concatenate(([0.0], (rows / rows.sum()) @ shown))
        low, high = np.clip(1.0 - cdf[1:], 0.0, 1.0), np.clip(1.0 - cdf[:-1], 0.0, 1.0)
        looked = self.exposure.between(low, high)
        middle = (low + high) / 2
        if moved is not None:
            looked = looked + np.interp(middle, self._points, moved @ self.chance)
        everyone_by_step = rows[:, None] * _steps(shown)
        worthy = np.stack([self._mapped(tally, merit[:, label]) for label in range(merit.shape[1])], axis=1)
        unclipped = self._mapped(tally, np.maximum(negative, 0.0))
        if (negative < 0).any():
            unclipped -= self._mapped(tally, np.maximum(-negative, 0.0))
        seen = worthy[:, 1:] * looked
        unseen = unclipped + (worthy[:, 1:] - seen).sum(axis=1)
        return Fair(
            thresholds,
            np.concatenate((unseen[:, None], seen), axis=1),
            worthy,
            unclipped,
            self._positions(everyone_by_step, middle),
            (everyone_by_step @ looked) / np.maximum(rows, 1e-300),
        )

    def _mapped(self, tally: Tally, mass: Floats) -> Floats:
        """Return where masses ``[group, cell]`` go, by step."""
        moved: Floats = mass.sum(axis=1)[:, None] * _steps(self.model.fair_cdf(tally, mass)[1])
        return moved

    def _positions(self, by_step: Floats, middle: Floats) -> Floats:
        """Spread each step's impressions over positions, between the two nearest known shares above."""
        place = middle * (_POINTS - 1)
        left = np.minimum(place.astype(np.intp), _POINTS - 2)
        far = place - left
        at = np.stack(
            [
                np.bincount(left, mass * (1 - far), _POINTS) + np.bincount(left + 1, mass * far, _POINTS)
                for mass in by_step
            ]
        )
        spread: Floats = at @ self.chance.T
        return spread


def _small(tally: Tally, model: Reranker) -> tuple[Tally, Ints, Ints]:
    """Return the tally's groups on fewer cells, their first cells, and the coarse cell of each.

    Atoms keep a cell of their own, and no cell crosses a bin of the model.
    """
    grid = tally.grid
    coarse = grid.coarse(200)
    cuts = [np.flatnonzero(np.diff(coarse, prepend=-1)), grid.atoms, grid.atoms + 1]
    runs = model.runs(tally)
    if runs is not None:
        cuts.append(runs)
    starts = np.unique(np.concatenate(cuts))
    starts = starts[starts < grid.cells]
    small = Grid(grid.boundaries[starts[1:] - 1], np.searchsorted(starts, grid.atoms).astype(np.int64))
    counts = np.zeros((len(tally.groups), 1, 1, starts.size))  # a model asks for groups and cells only
    return replace(tally, grid=small, counts=counts, folds=None), starts, coarse[starts]


def _steps(cdf: Floats) -> Floats:
    return np.diff(cdf, axis=1, prepend=0.0)
