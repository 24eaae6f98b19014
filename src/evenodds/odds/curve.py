"""Concave curves: ROC hulls, their pointwise minimum, and the same with fewer vertices.

Curves are kept in the coordinates ``along = FPR + TPR`` and ``height = TPR - FPR``: a quarter turn
that makes vertical and horizontal stretches plain slopes of 1 and -1 and leaves minima minima.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from evenodds.odds.coupling import lay_out
from evenodds.odds.problem import Floats

_BEND = 4e-15  # height of a vertex over the chord of its neighbours that rounding can make


class Curve(NamedTuple):
    """A concave curve: height over along, from (0, 0) to (2, 0)."""

    along: Floats
    height: Floats

    @property
    def auc(self) -> float:
        """Half the square, and half the area over the diagonal: the turn doubles areas."""
        return 0.5 + 0.5 * area_under(self.along, self.height)


def area_under(x: Floats, y: Floats) -> float:
    """Return the area under a polygon, by trapezoids."""
    return 0.5 * float(np.diff(x) @ (y[1:] + y[:-1]))


def hull(given: Floats) -> Curve:
    """Return the upper concave hull of a group's ROC: its bins in falling likelihood ratio."""
    line = lay_out(given)
    along, true = 2.0 - line.edges[::-1], 1.0 - line.heights[::-1]
    return Curve(along, 2.0 * true - along)


def lower(one: Curve, other: Curve) -> Curve:
    """Return the pointwise minimum: the vertices of the lower curve, and where the curves cross."""
    along = np.union1d(one.along, other.along)
    first, second = np.interp(along, *one), np.interp(along, *other)
    ahead = first - second
    cross = np.flatnonzero(ahead[:-1] * ahead[1:] < 0.0)
    part = ahead[cross] / (ahead[cross] - ahead[cross + 1])
    where = along[cross] + part * (along[cross + 1] - along[cross])
    keep = (np.isin(along, one.along) & (ahead <= 0.0)) | (np.isin(along, other.along) & (ahead >= 0.0))
    along = np.concatenate([along[keep], where])
    order = np.argsort(along, kind="stable")
    along = along[order]
    return Curve(along, np.minimum(np.interp(along, *one), np.interp(along, *other)))


def tidy(curve: Curve) -> Curve:
    """Drop what rounding made: vertices on top of another, and those where the curve does not bend."""
    along, first = np.unique(curve.along, return_index=True)
    height = curve.height[first]
    while along.size > 2:
        width, rise = np.diff(along), np.diff(height)
        bend = (rise[:-1] * width[1:] - rise[1:] * width[:-1]) / (along[2:] - along[:-2])
        flat = np.flatnonzero(bend <= _BEND) + 1
        if not flat.size:
            break
        run = np.diff(flat, prepend=-1) > 1
        since = np.arange(flat.size) - np.maximum.accumulate(np.where(run, np.arange(flat.size), 0))
        drop = flat[since % 2 == 0]  # never two neighbours: the next round looks at what they leave
        along, height = np.delete(along, drop), np.delete(height, drop)
    return Curve(along, height)


def simplify(curve: Curve, loss: float, max_targets: int | None) -> Curve:
    """Keep few vertices: segments as long as a bound on each one's loss allows; the bound by bisection."""
    width, mean = np.diff(curve.along), 0.5 * (curve.height[1:] + curve.height[:-1])
    area = np.concatenate([[0.0], np.cumsum(0.5 * width * mean)])
    lists = curve.along.tolist(), curve.height.tolist(), area.tolist()
    kept = list(range(curve.along.size))
    if loss > 0.0:
        low, high = loss / len(kept), loss
        kept = _walk(*lists, low)
        for _ in range(10):
            bound = (low * high) ** 0.5
            fewer = _walk(*lists, bound)
            if area[-1] - 0.5 * area_under(curve.along[fewer], curve.height[fewer]) <= loss:
                kept, low = fewer, bound
            else:
                high = bound
    if max_targets is not None and len(kept) - 1 > max_targets:
        low, high = 1e-16, 1.0
        for _ in range(25):
            bound = (low * high) ** 0.5
            fewer = _walk(*lists, bound)
            low, high = (low, bound) if len(fewer) - 1 <= max_targets else (bound, high)
        kept = _walk(*lists, high)
    return Curve(curve.along[kept], curve.height[kept])


def _walk(along: list[float], height: list[float], area: list[float], bound: float) -> list[int]:
    """Return vertices such that each chord loses at most `bound` of AUC and is as long as can be."""
    last = len(along) - 1

    def lost(start: int, stop: int) -> float:
        chord = 0.25 * (along[stop] - along[start]) * (height[start] + height[stop])
        return area[stop] - area[start] - chord

    at, step = [0], 1
    while at[-1] < last:
        start = at[-1]
        near, far = start + 1, min(start + 2 * step, last) + 1  # near will do, far may not
        while far <= last and lost(start, far - 1) <= bound:
            near, far = far - 1, min(2 * far - start, last) + 1
        while far - near > 1:
            middle = (near + far) // 2
            near, far = (middle, far) if lost(start, middle) <= bound else (near, middle)
        step = near - start
        at.append(near)
    return at
