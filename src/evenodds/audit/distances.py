"""Distances between the groups of each pair: the numbers, their intervals, their p-values."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations

import numpy as np
import numpy.typing as npt

from evenodds.audit.figures import area, cumulated
from evenodds.audit.intervals import Figure, flips, holm, integral, largest, sign_flip
from evenodds.audit.replicates import Replicates
from evenodds.audit.result import Distance, Spread

Floats = npt.NDArray[np.float64]

_MANY = 40  # past so many comparisons errors are drawn at fewer points
_POINTS, _FEWER = 800, 50
_TOLD = 60  # pairs that get an interval in a sweep
_TESTED = 4  # then a test looks at every fourth of those


class Comparison:
    """Compares groups, pair by pair, and keeps what is the same for all pairs.

    Parameters
    ----------
    made
        The log with folds left out; None without enough of them.
    groups, labels, kinds
        How many there are: what the p-values will be corrected for.
    brief
        Kolmogorov-Smirnov distances only, and with many pairs intervals only where the upper end may be
        the largest: for a sweep, which compares again and again.
    """

    def __init__(
        self, made: Replicates | None, groups: int, labels: int, kinds: int, *, brief: bool = False
    ) -> None:
        self.made = made
        self.brief = brief
        self.pairs = list(combinations(range(groups), 2))
        tests = len(self.pairs) * labels
        self._many = tests * kinds > _MANY
        self._signs = None if made is None else flips(made, tests)
        self.outer = 0.0  # the largest share of a Wasserstein distance in the two outermost cells

    def spreads(
        self,
        fine: tuple[Floats, Floats],
        coarse: tuple[Floats, Floats, Floats] | None,
        *,
        in_sample: bool = False,
    ) -> list[Spread]:
        """Return the distances of each pair.

        Parameters
        ----------
        fine
            The ends of the cells, and ``mass[group, cell]``.
        coarse
            The ends of fewer cells, the masses on them, and those with folds left out,
            ``mass[replicate, group, cell]``.
        in_sample
            Whether a model was fitted on this very log to make the groups alike.
        """
        widths, cdf = np.diff(fine[0]), cumulated(fine[1])
        if coarse is None or self.made is None:
            return [self._spread(widths, cdf[i] - cdf[j], None) for i, j in self.pairs]
        ends, whole, left = coarse[0], cumulated(coarse[1]), cumulated(coarse[2])
        most = _FEWER if self._many else _POINTS
        if ends.size > most:
            kept = np.unique(np.linspace(0, ends.size - 1, most).astype(np.intp))
            ends, whole, left = ends[kept], whole[:, kept], left[:, :, kept]
        steps = np.diff(ends)
        told = self._told(whole, left)
        return [
            self._spread(
                widths,
                cdf[i] - cdf[j],
                (steps, whole[i] - whole[j], left[:, i] - left[:, j]) if (i, j) in told else None,
                in_sample=in_sample,
            )
            for i, j in self.pairs
        ]

    def _told(self, whole: Floats, left: Floats) -> set[tuple[int, int]]:
        """Return the pairs that get an interval."""
        made = self.made
        if not self.brief or made is None or len(self.pairs) <= _TOLD:
            return set(self.pairs)
        parts = made.deviations(left)
        upper = []
        for i, j in self.pairs:
            apart = np.abs(whole[i] - whole[j])
            error = np.sqrt(((parts[:, i] - parts[:, j]) ** 2).sum(axis=0))
            upper.append(float(np.nan_to_num(apart + made.quantile * error).max()))
        return {self.pairs[place] for place in np.argsort(upper)[-_TOLD:]}

    def _spread(
        self,
        widths: Floats,
        difference: Floats,
        coarse: tuple[Floats, Floats, Floats] | None,
        *,
        in_sample: bool = False,
    ) -> Spread:
        if np.isnan(difference).any():
            return Spread(Figure(None), Figure(None))
        ks, w1 = min(float(np.abs(difference).max()), 1.0), Figure(None)
        if not self.brief:
            w1 = Figure(float(area(widths, difference)))
            if not in_sample and w1.value:
                ends = area(widths[:1], difference[:2]) + area(widths[-1:], difference[-2:])
                self.outer = max(self.outer, float(ends) / w1.value)
        # Without some fold a group may have none of the label: then nothing can be said of the error.
        if coarse is None or self.made is None or self._signs is None or np.isnan(coarse[2]).any():
            return Spread(Figure(ks), w1)
        steps, center, left = coarse
        parts = self.made.deviations(left)
        tested = slice(None, None, _TESTED if self._many else 1)
        if w1.value is not None:
            w1 = integral(w1.value, steps, center, parts, self.made, in_sample=in_sample)
        return Spread(
            largest(ks, center, parts, self.made, in_sample=in_sample),
            w1,
            None if in_sample else sign_flip(center[tested], parts[:, tested], self.made, self._signs),
        )


def adjusted(found: list[Distance]) -> tuple[Distance, ...]:
    """Correct the p-values of each kind of label for how many pairs and labels there are."""
    found = list(found)
    for kind in {one.kind for one in found}:
        places = [place for place, one in enumerate(found) if one.kind == kind]
        logged = holm([found[place].logged.p_value for place in places])
        fair = holm([None if (after := found[place].fair) is None else after.p_value for place in places])
        for place, one, two in zip(places, logged, fair, strict=True):
            old = found[place]
            found[place] = replace(
                old,
                logged=replace(old.logged, p_adjusted=one),
                fair=None if old.fair is None else replace(old.fair, p_adjusted=two),
            )
    return tuple(found)
