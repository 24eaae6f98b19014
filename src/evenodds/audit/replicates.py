"""The log with one fold of queries left out at a time: where every interval comes from.

Delete-a-group jackknife: with F folds of queries, the error of any smooth figure x has the variance
``(F - 1) / F * sum over f of (x without fold f - their mean)^2`` (Wolter, "Introduction to Variance
Estimation", 2007, chapter 4). Position bias is estimated anew in each, by one Newton step, so that its
error is in every merit figure; without that the intervals of merit rates would be too narrow.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt

from evenodds.merit import clipped, position_weights
from evenodds.position import PositionBias
from evenodds.position.strata import counts_by_fold
from evenodds.tally import Tally

Floats = npt.NDArray[np.float64]

MIN_FOLDS = 5  # with fewer a spread says next to nothing
_DRAWS = 1_000
_PARTS = 5  # of what smoothing adds; they fall off fast
_UNTHREADED = 200_000  # multiplications in a slice, see position/joint.py
_LARGEST = 5.0  # factor by which a left-out weight may differ


@dataclass(frozen=True)
class Replicates:
    """Left-out versions of the counts, on the tally's coarse cells.

    Attributes
    ----------
    observed, merit
        ``mass[replicate, group, label, cell]``.
    negative
        Merit negatives before clipping, ``[replicate, group, cell]``.
    rows
        ``rows[replicate, group, position]``.
    weights
        ``w[replicate, position]``.
    whole
        The same of the whole log: observed, merit, negative, rows, weights.
    folds
        F. The first F replicates leave a fold out. Where position bias comes from another log, F more
        hold the counts and move the weights by their own error, which is independent of the counts.
    leaning
        How many replicates come last, in pairs whose half difference is one part of the error: what
        smoothing adds to the error of w, and what clipping negatives at zero has changed.
    """

    observed: Floats
    merit: Floats
    negative: Floats
    rows: Floats
    weights: Floats
    whole: tuple[Floats, Floats, Floats, Floats, Floats]
    folds: int
    leaning: int

    @property
    def count(self) -> int:
        """How many replicates there are."""
        return len(self.weights)

    def deviations(self, values: Floats) -> Floats:
        """Return each replicate's part of the error: their squares add up to the variance."""
        last = self.count - self.leaning
        parts = values[:last].reshape(-1, self.folds, *values.shape[1:])
        centred = parts - parts.mean(axis=1, keepdims=True)
        left = (np.sqrt((self.folds - 1) / self.folds) * centred).reshape(values[:last].shape)
        if self.leaning == 0:
            return left
        up, down = values[last::2], values[last + 1 :: 2]
        leaning = np.zeros_like(values[last:])
        leaning[::2] = (up - down) / 2
        return np.concatenate((left, leaning))

    def standard_error(self, values: Floats) -> Floats:
        """Return the standard error of a figure from its replicates."""
        with np.errstate(invalid="ignore"):  # NaN: a group that has nothing without some fold
            return np.sqrt((self.deviations(values) ** 2).sum(axis=0))

    @cached_property
    def quantile(self) -> float:
        """The 97.5 % quantile of Student's t with F - 1 degrees of freedom."""
        from scipy.special import stdtrit

        return float(stdtrit(self.folds - 1, 0.975))

    @cached_property
    def noise(self) -> Floats:
        """Seeded multipliers ``[draw, replicate]``: deviations times them are like errors drawn anew.

        Normal, over the root of chi-square / (F - 1), since the spread itself is estimated from F folds.
        """
        rng = np.random.default_rng(40)
        free = self.folds - 1
        return rng.standard_normal((_DRAWS, self.count)) / np.sqrt(rng.chisquare(free, (_DRAWS, 1)) / free)


def replicates(
    tally: Tally, bias: PositionBias, own: PositionBias | None, *, same: bool
) -> Replicates | None:
    """Leave folds out; None with too few folds.

    Parameters
    ----------
    tally, bias
        The counts, and the position bias that they are read with.
    own
        Position bias as estimated from this very tally by the same method, None where it is known.
    same
        Whether `bias` is that estimate. If not its error is its own, of the size it states.
    """
    counts = counts_by_fold(tally)
    used = np.flatnonzero(counts.any(axis=(0, 1, 2, 4)))
    if used.size < MIN_FOLDS:
        return None
    counts = np.moveaxis(counts[:, :, :, used], 3, 0)  # fold, group, label, position, cell
    total = counts.sum(axis=0)
    weights = position_weights(tally, bias)
    left = np.repeat(weights[None, :], used.size, axis=0)
    moved = None if own is None or own.left_out is None else _ratios(tally, own, own.left_out[used])
    if moved is not None and same:
        left = weights * moved
    rows = counts.sum(axis=(2, 4))
    observed = total.sum(axis=2) - counts.sum(axis=3)
    positive = np.einsum("glpb,fp->fglb", total[:, 1:], 1.0 / left, optimize=True)
    positive -= np.einsum("fglpb,fp->fglb", counts[:, :, 1:], 1.0 / left, optimize=True)
    merit, negative = _merit(observed, positive)
    shown = rows.sum(axis=0) - rows
    whole = (
        total.sum(axis=2),
        *_merit(total.sum(axis=2), np.einsum("glpb,p->glb", total[:, 1:], 1.0 / weights)),
        rows.sum(axis=0),
        weights,
    )
    aside = np.zeros((0, weights.size))  # weights that move by themselves
    if moved is not None and own is not None and not same:
        aside = weights * moved ** _scale(tally, bias, own)
    leaning = _leaning(tally, weights, bias if bias.leaning is not None else own)
    aside = np.concatenate((aside, leaning))
    added = np.einsum("glpb,fp->fglb", total[:, 1:], 1.0 / aside, optimize=True)
    merit_aside, negative_aside = _merit(whole[0], added)
    # Last, what clipping has changed: its double less nothing, half the difference being once.
    free = np.concatenate((2 * whole[2][:, None] - whole[1][:, :1], whole[1][:, 1:]), axis=1)
    extra = len(aside) + 2
    return Replicates(
        observed=np.concatenate((observed, np.repeat(whole[0][None], extra, axis=0))),
        merit=np.concatenate((merit, merit_aside, free[None], whole[1][None])),
        negative=np.concatenate((negative, negative_aside, np.repeat(whole[2][None], 2, axis=0))),
        rows=np.concatenate((shown, np.repeat(whole[3][None], extra, axis=0))),
        weights=np.concatenate((left, aside, np.repeat(weights[None], 2, axis=0))),
        whole=whole,
        folds=int(used.size),
        leaning=len(leaning) + 2,
    )


def _merit(observed: Floats, positive: Floats) -> tuple[Floats, Floats]:
    """Put negatives below adjusted positives; return all of them clipped, see :mod:`evenodds.merit`, and as is."""
    negative = observed.sum(axis=-2) - positive.sum(axis=-2)
    mass = np.concatenate((negative[..., None, :], positive), axis=-2)
    return clipped(mass.reshape(-1, *mass.shape[-2:]))[0].reshape(mass.shape), negative


def _ratios(tally: Tally, own: PositionBias, left_out: Floats) -> Floats:
    """Return by what factor leaving a fold out changes w, along the tally's position axis."""
    whole = position_weights(tally, own)
    floor = float(whole.min()) / _LARGEST
    ratio = np.array(
        [position_weights(tally, replace(own, weights=np.maximum(left, floor))) for left in left_out]
    )
    return np.clip(ratio / whole, 1 / _LARGEST, _LARGEST)


def _leaning(tally: Tally, weights: Floats, own: PositionBias | None) -> Floats:
    """Return the weights moved up and down by each of the few largest parts of what smoothing adds."""
    if own is None or own.leaning is None or not len(own.leaning):
        return np.zeros((0, weights.size))
    first, others = own.leaning[:1], own.leaning[1:]
    largest = others[np.argsort(-(others**2).sum(axis=1), kind="stable")[:_PARTS]]
    places = np.arange(tally.counts.shape[2])
    away = np.array([np.interp(places, own.positions, part) for part in np.vstack((first, largest))])
    return (weights * np.exp(np.stack((away, -away), axis=1))).reshape(-1, weights.size)


def _scale(tally: Tally, bias: PositionBias, own: PositionBias) -> Floats:
    """Return how the error of log w as stated compares with that of an estimate from this tally."""
    places = np.arange(tally.counts.shape[2])
    stated, found = (
        np.interp(places, given.positions, given.standard_errors / given.weights) for given in (bias, own)
    )
    return np.clip(np.divide(stated, found, out=np.zeros_like(stated), where=found > 0), 0.0, 10.0)


def combine(multipliers: Floats, parts: Floats) -> Floats:
    """Return ``multipliers @ parts`` in slices below the linear algebra library's threading threshold."""
    out = np.empty((len(multipliers), parts.shape[1]))
    step = max(1, _UNTHREADED // max(parts.size, 1))
    for start in range(0, len(multipliers), step):
        np.matmul(multipliers[start : start + step], parts, out=out[start : start + step])
    return out
