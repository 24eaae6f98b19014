"""How far groups are apart under the model on the newer log, and whether that is as it was."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np
import numpy.typing as npt

from evenodds.audit.after import Fair
from evenodds.audit.figures import cumulated
from evenodds.audit.intervals import Figure, holm, largest
from evenodds.audit.measure import SMALL
from evenodds.audit.replicates import Replicates
from evenodds.drift.result import PairNow
from evenodds.drift.sides import Known, Side, folds_of
from evenodds.drift.twosample import Noise
from evenodds.reranker import Reranker

Floats = npt.NDArray[np.float64]
Look = tuple[Fair, Fair]  # folds left out, and none left out, on the same cells

_POINTS, _FEWER = 400, 50  # scores at which errors are drawn; the latter for many pairs
_MANY = 40
_KEPT = 0.01  # left by a fit: below it the groups count as alike when the fit was made


@dataclass(frozen=True)
class _Shapes:
    """Distribution functions of the fair score at some points, ``[group, point]``, and their deviations."""

    center: Floats
    parts: Floats


class Pairs:
    """Compares groups pair by pair; what is the same for all pairs is computed once.

    Parameters
    ----------
    model, new
        The correction, and the newer log.
    old, known
        The older log, or what a model has kept of it.
    left
        What the fit left.
    """

    def __init__(
        self, model: Reranker, new: Side, old: Side | None, known: Known | None, left: float
    ) -> None:
        self.new, self.old, self.known, self.left = new, old, known, left
        self._now = new.fair(model)
        self._then = old.fair(model) if old is not None else None
        self._noises: dict[tuple[int, int], Noise] = {}

    def compared(self, labels: tuple[int, ...], kind: str) -> list[PairNow]:
        """Return every pair given each label, p-values corrected for all that are judged."""
        found = []
        for label in labels:
            found += self._given(label, kind)
        judged = [place for place, pair in enumerate(found) if pair.small is None] or list(range(len(found)))
        for place, adjusted in zip(judged, holm([found[place].p_value for place in judged]), strict=True):
            found[place] = replace(found[place], p_adjusted=adjusted)
        return found

    def _given(self, label: int, kind: str) -> list[PairNow]:
        mass = self._now[0].mass(kind, label)
        fine = cumulated(mass)
        held = np.flatnonzero(mass.sum(axis=1) > 0).tolist()
        pairs = list(combinations(held, 2))
        now = then = None
        if self._now[1] is not None and self.new.made is not None:
            ends = self._now[1][1].ends
            most = _FEWER if len(pairs) > _MANY else _POINTS
            points = ends[np.unique(np.linspace(0, ends.size - 1, min(most, ends.size)).astype(np.intp))]
            now = _shapes(self._now[1], self.new.made, kind, label, points)
            if self._then is not None and self._then[1] is not None and self.old and self.old.made:
                then = _shapes(self._then[1], self.old.made, kind, label, points)
        found = []
        for i, j in pairs:
            value = float(np.abs(fine[i] - fine[j]).max())
            figure, p_value = self._apart((i, j), label, value, now, then)
            names = (self.new.names[i], self.new.names[j])
            found.append(PairNow(label, names, figure, p_value, None, self._small(label, i, j)))
        return found

    def _apart(
        self, pair: tuple[int, int], label: int, value: float, now: _Shapes | None, then: _Shapes | None
    ) -> tuple[Figure, float | None]:
        """Return the distance of a pair on the newer log, and the p-value of "as it was"."""
        i, j = pair
        if now is None or self.new.made is None or np.isnan(now.parts[[i, j]]).any():
            return Figure(value), None
        difference, parts = now.center[i] - now.center[j], now.parts[i] - now.parts[j]
        figure = largest(value, difference, parts, self.new.made, in_sample=False)
        folds = folds_of(self.old, self.new)
        places = self._places(i, j)
        was, old = np.zeros_like(difference), parts[:0]
        if places is not None and self.old is not None:
            if then is None:
                return figure, None
            was = then.center[places[0]] - then.center[places[1]]
            old = then.parts[places[0]] - then.parts[places[1]]
        elif places is not None and self.known is not None:
            if self.left > _KEPT:  # how the groups differed then is not in the model
                return figure, None
            worth = [max(float(self.known.positives[place]), 1.0) for place in places]
            scale = [math.sqrt(self.new.evidence[g, label] / w) for g, w in zip(pair, worth, strict=True)]
            old = now.parts[i] * scale[0] - now.parts[j] * scale[1]
        if folds is None or np.isnan(old).any() or np.isnan(was).any():
            return figure, None
        noise = self._noise((len(old), len(parts)), folds)
        return figure, noise.p_value(difference - was, np.concatenate((old, parts)))

    def _noise(self, sizes: tuple[int, int], folds: tuple[int, int]) -> Noise:
        groups = len(self.new.names)
        if sizes not in self._noises:
            self._noises[sizes] = Noise(sizes, folds, groups * (groups - 1) // 2)
        return self._noises[sizes]

    def _places(self, *groups: int) -> tuple[int, ...] | None:
        """Return the places of groups on the older side; None if one was not there."""
        names = self.old.names if self.old else self.known.names if self.known else []
        wanted = [self.new.names[group] for group in groups]
        return tuple(names.index(name) for name in wanted) if set(wanted) <= set(names) else None

    def _small(self, label: int, *groups: int) -> str | None:
        few = [place for place in groups if self.new.evidence[place, label] < SMALL]
        said = [f"{self.new.names[place]} has {self.new.evidence[place, label]:.0f} rows" for place in few]
        return f"{'; '.join(said)} of the label, fewer than {SMALL}" if said else None


def _shapes(look: Look, made: Replicates, kind: str, label: int, points: Floats) -> _Shapes:
    left, same = look
    center = cumulated(same.mass(kind, label)[0])
    masses = left.mass(kind, label)

    def at(values: Floats) -> Floats:
        return np.stack([np.interp(points, same.ends, row) for row in values])

    parts = np.stack([at(made.deviations(cumulated(masses[:, group]))) for group in range(len(center))])
    return _Shapes(at(center), parts)
