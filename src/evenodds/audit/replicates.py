"""The log with one fold of queries left out at a time: where every interval comes from.

Delete-a-group jackknife: with F folds of queries, the error of any smooth figure x has the variance
``(F - 1) / F * sum over f of (x without fold f - their mean)^2`` (Wolter, "Introduction to Variance
Estimation", 2007, chapter 4). Position bias is estimated anew in each, by one Newton step, so that its
error is in every merit figure; without that the intervals of merit rates would be too narrow.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from evenodds.merit import clipped, position_weights
from evenodds.position import Reading
from evenodds.position.strata import counts_by_fold
from evenodds.tally import Tally

Floats = npt.NDArray[np.float64]

MIN_FOLDS = 5  # with fewer a spread says next to nothing
_DRAWS = 1_000
_UNTHREADED = 200_000  # multiplications in a slice, see position/joint.py


@dataclass(frozen=True)
class Replicates:
    """Versions of the counts on the tally's coarse cells, in blocks of jackknife values.

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
    blocks
        How many replicates each block has. Those of the first leave out a fold each. Those of the second,
        if position bias comes from elsewhere, hold the counts and move the weights by their own error,
        which is independent of the counts. The last two are what clipping negatives at zero has changed.
    """

    observed: Floats
    merit: Floats
    negative: Floats
    rows: Floats
    weights: Floats
    whole: tuple[Floats, Floats, Floats, Floats, Floats]
    blocks: tuple[int, ...]

    @property
    def count(self) -> int:
        """How many replicates there are."""
        return len(self.weights)

    @property
    def folds(self) -> int:
        """F, how many folds of queries there are."""
        return self.blocks[0]

    def deviations(self, values: Floats) -> Floats:
        """Return each replicate's part of the error: their squares add up to the variance."""
        parts = np.split(values, np.cumsum(self.blocks)[:-1])
        return np.concatenate(
            [np.sqrt((len(part) - 1) / len(part)) * (part - part.mean(axis=0)) for part in parts]
        )

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


def replicates(tally: Tally, reading: Reading) -> Replicates | None:
    """Leave folds out, read with position bias that is estimated anew, or moves by itself; None with too few folds."""
    counts = counts_by_fold(tally)
    used = np.flatnonzero(counts.any(axis=(0, 1, 2, 4)))
    if used.size < MIN_FOLDS:
        return None
    counts = np.moveaxis(counts[:, :, :, used], 3, 0)  # fold, group, label, position, cell
    total = counts.sum(axis=0)
    weights = position_weights(tally, reading.bias)
    left = np.repeat(weights[None, :], used.size, axis=0)
    if reading.left_out is not None:
        left = weights * reading.left_out[used]
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
    aside = weights * np.exp(reading.aside)
    merit_aside, negative_aside = _merit(
        whole[0], np.einsum("glpb,fp->fglb", total[:, 1:], 1.0 / aside, optimize=True)
    )
    # Last, what clipping has changed, once up and once down.
    up = np.concatenate((whole[2][:, None], whole[1][:, 1:]), axis=1)
    down = 2 * whole[1] - up
    extra = len(aside) + 2
    return Replicates(
        observed=np.concatenate((observed, np.repeat(whole[0][None], extra, axis=0))),
        merit=np.concatenate((merit, merit_aside, up[None], down[None])),
        negative=np.concatenate((negative, negative_aside, np.repeat(whole[2][None], 2, axis=0))),
        rows=np.concatenate((shown, np.repeat(whole[3][None], extra, axis=0))),
        weights=np.concatenate((left, aside, np.repeat(weights[None], 2, axis=0))),
        whole=whole,
        blocks=(int(used.size), *((len(aside),) if len(aside) else ()), 2),
    )


def _merit(observed: Floats, positive: Floats) -> tuple[Floats, Floats]:
    """Put negatives below adjusted positives; return all of them clipped, see :mod:`evenodds.merit`, and as is."""
    negative = observed.sum(axis=-2) - positive.sum(axis=-2)
    mass = np.concatenate((negative[..., None, :], positive), axis=-2)
    return clipped(mass.reshape(-1, *mass.shape[-2:]))[0].reshape(mass.shape), negative


def combine(multipliers: Floats, parts: Floats) -> Floats:
    """Return ``multipliers @ parts`` in slices below the linear algebra library's threading threshold."""
    out = np.empty((len(multipliers), parts.shape[1]))
    step = max(1, _UNTHREADED // max(parts.size, 1))
    for start in range(0, len(multipliers), step):
        np.matmul(multipliers[start : start + step], parts, out=out[start : start + step])
    return out
