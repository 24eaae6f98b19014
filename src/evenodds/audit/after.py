"""What a model will make of the counts: fair scores by cell, new positions, labels as they will be logged."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from evenodds.audit.replicates import Replicates
from evenodds.exposure import Exposure, companions, placement
from evenodds.grid import Grid
from evenodds.position import PositionBias
from evenodds.reranker import THRESHOLDS, Reranker
from evenodds.tally import Tally

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

_POINTS = 201  # of the share above, at which the chance of each position is known
_HELD = 2_000_000  # numbers in an array at a time, where folds are left out
_STEPS = 2_000  # of the fair score, where folds are left out
_BRIEF = (240_000, 9_600)  # steps over all groups in a sweep: of the whole log, and where folds are left out


@dataclass(frozen=True)
class Fair:
    """Masses over the steps between the thresholds of the fair score.

    With folds left out every array but the thresholds has a leading axis, one entry a replicate.

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

    def parts(self) -> tuple[Floats, ...]:
        """Return the arrays that have a leading axis."""
        return self.observed, self.merit, self.negative, self.rows, self.exposure

    @property
    def ends(self) -> Floats:
        """The ends of the steps; nothing lies below the first threshold."""
        return np.concatenate((self.thresholds[:1], self.thresholds))

    def mass(self, kind: str, label: int) -> Floats:
        """Return the masses ``[..., group, step]`` of a label, by merit (negatives unclipped) or as observed."""
        if kind == "merit" and label == 0:
            return self.negative
        return (self.merit if kind == "merit" else self.observed)[..., label, :]


class Masses(NamedTuple):
    """Merit masses ``[group, label, cell]``, their negatives before clipping, and impressions ``[group, cell]``."""

    merit: Floats
    negative: Floats
    everyone: Floats


def look_ahead(
    model: Reranker,
    tally: Tally,
    bias: PositionBias,
    masses: Masses,
    made: Replicates | None,
    *,
    brief: bool = False,
) -> tuple[Fair, tuple[Fair, Fair] | None]:
    """Apply a model to the whole log, and on coarse cells to the replicates, and to the whole log again.

    The last is what the replicates compare with; there is neither of them without replicates. `brief` makes
    do with fewer steps.
    """
    ahead = Ahead(model, tally, bias, brief=brief)
    fair = ahead.whole(masses)
    if made is None:
        return fair, None
    whole = Masses(made.whole[1], made.whole[2], made.whole[0].sum(axis=1))
    left = Masses(made.merit, made.negative, made.observed.sum(axis=2))
    moved = made.weights - made.whole[4]
    same = Masses(*(part[None] for part in whole))
    return fair, (
        ahead.left_out(masses, left, whole, moved),
        ahead.left_out(masses, same, whole, np.zeros_like(moved[:1])),
    )


class Ahead:
    """A model applied to counts, the whole ones and the left-out ones.

    A fair score under a share a of its list's fair scores stands at position 1 + Binomial(J - 1, a) in a
    list of J, and is looked at with the mean weight there (:class:`evenodds.exposure.Exposure`). Whom it
    shares a list with goes by its group (:func:`evenodds.exposure.companions`).
    """

    def __init__(self, model: Reranker, tally: Tally, bias: PositionBias, *, brief: bool = False) -> None:
        self._most = (THRESHOLDS, _STEPS)
        if brief:
            whole, left = (steps // len(tally.groups) for steps in _BRIEF)
            self._most = (min(max(whole, 4_000), 20_000), min(max(left, 300), 800))
        self.model = model
        self.tally = tally
        self.exposure = Exposure(tally, bias)
        self.chance = placement(tally, _POINTS)
        self.companions = companions(tally)
        self._points = np.linspace(0.0, 1.0, _POINTS)
        self._small, self._starts, self._coarse = few_cells(tally, model)

    def whole(self, masses: Masses) -> Fair:
        """Apply the model to masses on all cells."""
        return self._fair(self.tally, masses, None)

    def left_out(self, masses: Masses, left: Masses, whole: Masses, moved: Floats) -> Fair:
        """Apply it to masses that are known on coarse cells only, those of many replicates at once.

        Parameters
        ----------
        masses
            The whole log's, on all cells; within a coarse cell the left-out ones lie like them.
        left, whole
            The left-out and the whole log's masses on coarse cells; the left-out ones by replicate.
        moved
            By how much w has moved, ``[replicate, position]``.
        """
        fine = Masses(*(np.add.reduceat(part, self._starts, axis=-1) for part in masses))

        def like(part: Floats, one: Floats, other: Floats) -> Floats:
            ratio = np.divide(one, other, out=np.zeros_like(one), where=other > 0)
            return part * ratio[..., self._coarse]

        def some(rows: slice) -> Fair:
            # Negatives before clipping can be zero or below: what is left out goes by impressions.
            change = like(fine.everyone, left.negative[rows] - whole.negative, whole.everyone)
            left_fine = Masses(
                like(fine.merit, left.merit[rows], whole.merit),
                fine.negative + change,
                like(fine.everyone, left.everyone[rows], whole.everyone),
            )
            return self._fair(self._small, left_fine, moved[rows])

        groups = len(self.tally.groups)
        step = max(1, _HELD // (groups * min(self._most[1], 2 * groups * self._starts.size)))
        found = [some(slice(start, start + step)) for start in range(0, len(moved), step)]
        parts = [np.concatenate(part) for part in zip(*(one.parts() for one in found), strict=True)]
        return Fair(found[0].thresholds, *parts)

    def _fair(self, tally: Tally, masses: Masses, moved: Floats | None) -> Fair:
        merit, negative, everyone = masses
        parts = [everyone, *np.moveaxis(merit, -2, 0), np.maximum(negative, 0.0), np.maximum(-negative, 0.0)]
        most = self._most[0 if moved is None else 1]
        thresholds, cdfs = self.model.fair_cdf(tally, np.stack(parts), most=most)
        shown = cdfs[0]
        rows = everyone.sum(axis=-1)
        cdf = self.companions @ shown  # by group: that of the others in its lists
        cdf = np.concatenate((np.zeros_like(cdf[..., :1]), cdf), axis=-1)
        low, high = np.clip(1.0 - cdf[..., 1:], 0.0, 1.0), np.clip(1.0 - cdf[..., :-1], 0.0, 1.0)
        looked = self.exposure.between(low, high)
        place = (low + high) / 2 * (_POINTS - 1)
        left = np.minimum(place.astype(np.intp), _POINTS - 2)
        far = place - left
        if moved is not None:
            away = (moved @ self.chance)[..., None, :]
            at = np.take_along_axis(away, left, axis=-1)
            looked = looked + at + far * (np.take_along_axis(away, left + 1, axis=-1) - at)
        by_step = [part.sum(axis=-1)[..., None] * _steps(at) for part, at in zip(parts, cdfs, strict=True)]
        worthy = np.stack(by_step[1:-2], axis=-2)
        unclipped = by_step[-2] - by_step[-1]
        seen = worthy[..., 1:, :] * looked[..., None, :]
        unseen = unclipped + (worthy[..., 1:, :] - seen).sum(axis=-2)
        return Fair(
            thresholds,
            np.concatenate((unseen[..., None, :], seen), axis=-2),
            worthy,
            unclipped,
            self._positions(by_step[0], left, far),
            (by_step[0] * looked).sum(axis=-1) / np.maximum(rows, 1e-300),
        )

    def _positions(self, by_step: Floats, left: Ints, far: Floats) -> Floats:
        """Spread each step's impressions over positions, between the two nearest known shares above."""
        lists = by_step.shape[:-1]
        first = np.arange(int(np.prod(lists))).reshape(*lists, 1) * _POINTS
        place = (left + first).ravel()
        size = first.size * _POINTS
        at = np.bincount(place, (by_step * (1 - far)).ravel(), size)
        at += np.bincount(place + 1, (by_step * far).ravel(), size)
        spread: Floats = at.reshape(*lists, _POINTS) @ self.chance.T
        return spread


def few_cells(tally: Tally, model: Reranker) -> tuple[Tally, Ints, Ints]:
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
    return np.diff(cdf, axis=-1, prepend=0.0)
