"""Differences between two independent logs: how large, how sure.

Each log's error is a sum of parts whose squares add up to its variance (:mod:`evenodds.audit.replicates`).
Drawn anew they are each part times a normal number, over the root of chi-square by its degrees of
freedom, since a spread that is estimated from F folds has an error of its own. A maximum over many
scores or positions is compared with the maximum of errors drawn so: what hangs together stays so.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from evenodds.audit.figures import area
from evenodds.audit.intervals import Figure, integral, largest, positive
from evenodds.audit.replicates import combine
from evenodds.drift.sides import Curve
from evenodds.errors import GridMismatchError

Floats = npt.NDArray[np.float64]

_DRAWS = 1_000  # for intervals
_TESTS, _MANY_TESTS = 1_999, 9_999  # for p-values; the latter where many are corrected for
_POINTS = 400
_FEWEST = 5  # common boundaries of two grids


@dataclass(frozen=True)
class Noise:
    """Multipliers of the parts of two logs' errors.

    Attributes
    ----------
    sizes
        How many parts each log has.
    folds
        From how many folds each was estimated.
    tests
        How many p-values will be corrected for.
    """

    sizes: tuple[int, int]
    folds: tuple[int, int]
    tests: int

    @cached_property
    def noise(self) -> Floats:
        """Seeded multipliers ``[draw, part]`` for intervals."""
        return self._draw(50, _DRAWS)

    @cached_property
    def _null(self) -> Floats:
        return self._draw(51, _TESTS if self.tests <= 20 else _MANY_TESTS)

    def _draw(self, seed: int, draws: int) -> Floats:
        rng = np.random.default_rng(seed)
        drawn = []
        for size, folds in zip(self.sizes, self.folds, strict=True):
            free = folds - 1
            drawn.append(rng.standard_normal((draws, size)) / np.sqrt(rng.chisquare(free, (draws, 1)) / free))
        return np.concatenate(drawn, axis=1)

    @cached_property
    def quantile(self) -> float:
        """The 97.5 % quantile of Student's t by the log with fewer folds."""
        from scipy.special import stdtrit

        return float(stdtrit(min(self.folds) - 1, 0.975))

    def p_value(self, center: Floats, parts: Floats) -> float:
        """Return how likely a largest difference of this size is if there is none."""
        drawn = np.abs(combine(self._null, parts)).max(axis=1)
        return float((1 + (drawn >= np.abs(center).max() * (1 - 1e-9)).sum()) / (1 + len(drawn)))

    def p_of_one(self, value: float, parts: Floats) -> float:
        """Return the same of one number: Welch's test, with Satterthwaite's degrees of freedom."""
        from scipy.special import stdtr

        first = self.sizes[0]
        one, two = float((parts[:first] ** 2).sum()), float((parts[first:] ** 2).sum())
        if not one + two > 0:
            return 1.0 if value == 0 else 0.0
        free = (one + two) ** 2 / (one**2 / (self.folds[0] - 1) + two**2 / (self.folds[1] - 1))
        return float(2 * stdtr(free, -abs(value) / np.sqrt(one + two)))


@dataclass(frozen=True)
class Moved:
    """How far two distributions are apart; None where errors are not known."""

    ks: Figure
    wasserstein: Figure
    p_value: float | None


def stacked(old: Floats | None, new: Floats | None, borrowed: float | Floats) -> tuple[Floats, Floats] | None:
    """Return both logs' parts; where the old ones are gone, the new ones times `borrowed` stand for them.

    Errors of figures from the same kind of rows have the same pattern, and a size that goes by how many
    rows there are.
    """
    if new is None:
        return None
    return (new * borrowed if old is None else old), new


def moved(old: Curve, new: Curve, folds: tuple[int, int] | None, tests: int) -> Moved:
    """Compare two distributions at the scores at which both are known."""
    shared = shared_ends(old.ends, new.ends)
    low, high = min(old.ends[0], new.ends[0]), max(old.ends[-1], new.ends[-1])
    ends = np.concatenate(([low], shared, [high]))
    difference = _at(new, shared) - _at(old, shared)
    framed = np.concatenate(([0.0], difference, [0.0]))
    ks, w1 = float(np.abs(difference).max()), float(area(np.diff(ends), framed))
    # Taken where the errors of the newer log are known: at its coarse ends, where both have a boundary.
    kept = np.flatnonzero(np.isin(shared, new.coarse))
    if kept.size < _FEWEST:
        kept = np.unique(np.linspace(0, shared.size - 1, min(_POINTS, shared.size)).astype(np.intp))
    points = shared[kept]
    ratio = float(np.sqrt(new.evidence / old.evidence)) if old.evidence > 0 else 1.0
    parts = stacked(_parts_at(old, points), _parts_at(new, points), ratio)
    if parts is None or folds is None:
        return Moved(Figure(ks), Figure(w1), None)
    noise = Noise((len(parts[0]), len(parts[1])), folds, tests)
    both = np.concatenate(parts)
    # A larger difference between the points where errors are known is a difference all the same.
    top = int(np.abs(difference).argmax())
    center = difference[kept]
    center[np.abs(points - shared[top]).argmin()] = difference[top]
    widths = np.diff(np.concatenate(([low], points, [high])))
    outer = np.pad(both, ((0, 0), (1, 1)))
    return Moved(
        largest(ks, center, both, noise, in_sample=False),
        integral(w1, widths, np.pad(center, 1), outer, noise, in_sample=False),
        noise.p_value(center, both),
    )


def shared_ends(old: Floats, new: Floats) -> Floats:
    """Return the inner boundaries that two logs' score cells have in common."""
    shared = np.intersect1d(old[1:-1], new[1:-1])
    smaller = min(old.size, new.size) - 2
    if shared.size < min(_FEWEST, max(smaller, 1)):
        raise GridMismatchError(
            f"the two logs were counted in different score cells: {shared.size} boundaries in common",
            hint="count the newer log with --grid-from the older tally, or give the log itself",
        )
    return shared


def _at(curve: Curve, scores: Floats) -> Floats:
    return curve.cdf[np.searchsorted(curve.ends, scores)]


def _parts_at(curve: Curve, scores: Floats) -> Floats | None:
    """Return the deviations at any scores: between coarse ends by the share of mass that lies between."""
    if curve.parts is None:
        return None
    if np.isin(scores, curve.coarse).all():
        return curve.parts[:, np.searchsorted(curve.coarse, scores)]
    place = np.searchsorted(curve.ends, scores).astype(np.float64)
    known = np.searchsorted(curve.ends, curve.coarse).astype(np.float64)
    return np.stack([np.interp(place, known, part) for part in curve.parts])


def ratio_of(value: float, parts: Floats | None, quantile: float) -> Figure:
    """Return the interval of a ratio, from the deviations of its logarithm."""
    if parts is None or not np.isfinite(parts).all():
        return Figure(value if np.isfinite(value) else None)
    return positive(value, value * float(np.sqrt((parts**2).sum())), quantile)
