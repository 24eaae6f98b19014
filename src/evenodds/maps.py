"""Monotone maps on score cells: scores to [0, 1] by group, and back to the scale of the scores."""

from __future__ import annotations

from typing import Literal

import numpy as np
import numpy.typing as npt

from evenodds.grid import Grid

Floats = npt.NDArray[np.float64]
Codes = npt.NDArray[np.intp]
Interpolation = Literal["linear", "cubic"]

_SEARCHED = 2_000  # up to so many scores a binary search beats setting up the bucket table's temporaries
_OPENING = 1e-6  # share of the gap to the next score over which an atom is spread on the way back


class CdfMaps:
    """One distribution function a group, given at the ends of shared score cells.

    Between the ends a function is linear, or a monotone cubic (Fritsch and Carlson, 1980). On an
    atom it jumps: from ``cdf[b]`` to ``cdf[b + 1]`` while the score stays the same.

    Parameters
    ----------
    grid, low, high
        The cells, and where the open ones end. Scores outside map to 0 and 1.
    cdf
        ``cdf[map, end]``, ascending from 0 to 1, shape (maps, cells + 1).
    height
        What the functions are multiplied by: as many as `ReturnScale` has steps saves it a product.
    """

    def __init__(
        self,
        grid: Grid,
        low: float,
        high: float,
        cdf: Floats,
        interpolation: Interpolation,
        height: float = 1.0,
    ) -> None:
        self.grid = grid
        self.cdf = cdf
        self.low, self.high = low, high
        self.interpolation: Interpolation = interpolation
        self.edges = grid.edges(low, high)
        atom = grid.is_atom()
        width = np.diff(self.edges)
        step = np.diff(cdf, axis=1)
        smooth = (width > 0) & ~atom
        slope = np.divide(step, width, out=np.zeros_like(step), where=smooth)
        # A row of tables starts with the scores below all cells and ends with those above.
        self.stride = grid.cells + 2
        self._start = _framed(np.broadcast_to(self.edges[:-1], step.shape), self.low, self.high)
        self._base = _framed(cdf[:, :-1] * height, 0.0, height)
        self._slope = _framed(slope * height, 0.0, 0.0)
        self._jump = _framed(np.where(atom, step * height, 0.0), 0.0, 0.0)
        self._cubic = None
        if interpolation == "cubic":
            parts = _fritsch_carlson(slope * height, width, smooth)
            self._cubic = tuple(_framed(part, 0.0, 0.0) for part in parts)
        self.has_atoms = bool(self._jump.any())

    def __call__(self, scores: Floats, rows: Codes, draws: Floats | None = None) -> Floats:
        """Return each score's function value; NaN for scores that are not finite.

        `rows` holds map numbers times `stride`. On atoms `draws` says how far up the jump.
        """
        if scores.size <= _SEARCHED:
            place = self.edges.searchsorted(scores, "right") + rows
        else:
            place = self._located(scores) + rows
        run = scores - self._start[place]
        if self._cubic is None:
            run *= self._slope[place]
        else:
            linear, square, cube = (part[place] for part in self._cubic)
            run *= linear + run * (square + run * cube)
        run += self._base[place]
        if draws is not None:
            run += self._jump[place] * draws
        return run

    def _located(self, scores: Floats) -> npt.NDArray[np.int32]:
        """Do what `searchsorted` does, by the grid's table of buckets."""
        cell = self.grid.locate(scores)
        cell += 1
        cell += scores >= self.edges[-1]
        cell -= scores < self.edges[0]
        return cell

    def cubic(self) -> Floats | None:
        """Return the coefficients of run, run^2 and run^3 in each cell, shape (3, maps, cells), if cubic."""
        if self._cubic is None:
            return None
        return np.stack([part.reshape(-1, self.stride)[:, 1:-1] for part in self._cubic])

    def jumps(self, scores: Floats, rows: Codes) -> Floats:
        """Return how far the function jumps at each score: above 0 on atoms with positives."""
        return self._jump[self._located(scores) + rows]

    def limits(self, scores: Floats, row: int) -> tuple[Floats, Floats]:
        """Return F(s-) and F(s) of one map, in [0, height]: equal but on atoms."""
        rows = np.full(scores.size, row * self.stride, dtype=np.intp)
        below = self(scores, rows)
        return below, below + self.jumps(scores, rows)


def _framed(values: Floats, first: float, last: float) -> Floats:
    """Put a column before and one behind, and lay the rows end to end."""
    maps = values.shape[0]
    return np.hstack((np.full((maps, 1), first), values, np.full((maps, 1), last))).ravel()


def _fritsch_carlson(
    slope: Floats, width: Floats, smooth: npt.NDArray[np.bool_]
) -> tuple[Floats, Floats, Floats]:
    """Return coefficients of run, run^2 and run^3 in each cell; monotone by the harmonic mean of slopes."""
    ends = np.zeros((slope.shape[0], slope.shape[1] + 1))
    left, right = slope[:, :-1], slope[:, 1:]
    w_left, w_right = 2 * width[1:] + width[:-1], width[1:] + 2 * width[:-1]
    both = (left > 0) & (right > 0) & smooth[:-1] & smooth[1:]
    harmonic = np.divide(w_left, left, out=np.ones_like(left), where=both)
    harmonic += np.divide(w_right, right, out=np.ones_like(right), where=both)
    ends[:, 1:-1] = np.where(both, (w_left + w_right) / harmonic, 0.0)
    ends[:, 0], ends[:, -1] = slope[:, 0], slope[:, -1]
    # Beside an atom the curve ends: it meets the jump with the slope of its own last cell.
    lower, upper = ends[:, :-1].copy(), ends[:, 1:].copy()
    after_atom, before_atom = np.append(False, ~smooth[:-1]), np.append(~smooth[1:], False)
    lower[:, after_atom], upper[:, before_atom] = slope[:, after_atom], slope[:, before_atom]
    inverse = np.divide(1.0, width, out=np.zeros_like(width), where=smooth)
    square = (3 * slope - 2 * lower - upper) * inverse
    cube = (lower + upper - 2 * slope) * inverse**2
    return np.where(smooth, lower, 0.0), np.where(smooth, square, 0.0), np.where(smooth, cube, 0.0)


class ReturnScale:
    """A monotone function on [0, 1], given at evenly spaced points; the same for all groups.

    Because all groups share it, it moves no item past another: whatever it does to the scale, fairness
    at every threshold stays.
    """

    def __init__(self, values: Floats) -> None:
        self.values = values
        self.steps = values.size - 1.0
        # One flat step past the end, so that 1 needs no special treatment.
        self._rise = np.append(np.diff(values), 0.0)

    def __call__(self, run: Floats) -> Floats:
        """Return the function at ``run / steps`` by linear interpolation; uses `run` up."""
        step = run.astype(np.intp)
        run -= step
        run *= self._rise[step]
        run += self.values[step]
        return run


def quantile_function(edges: Floats, atom: npt.NDArray[np.bool_], mass: Floats, levels: Floats) -> Floats:
    """Return the quantiles of a distribution on cells.

    An atom is spread over a millionth of the gap to the next score: the values look the same, and
    the order among them, which is fair, is not lost to a tie.
    """
    ends = edges.copy()
    size = atom.size
    for cell in np.flatnonzero(atom):
        # Cells hold [v, next float after v): the next score up starts at the following end.
        above = (
            edges[cell + 2] - edges[cell] if cell + 2 <= size and edges[cell + 2] > edges[cell + 1] else 0.0
        )
        if above > 0 and cell + 1 < size:
            ends[cell + 1] = edges[cell] + _OPENING * above
        else:  # nothing lies above: spread downwards
            below = edges[cell] - edges[cell - 1] if cell else 0.0
            ends[cell] = edges[cell] - _OPENING * (below if below > 0 else max(abs(edges[cell]), 1.0))
            ends[cell + 1] = edges[cell]
    heights = np.concatenate(([0.0], np.cumsum(mass)))
    heights /= heights[-1]
    # Cells without mass take no part: the quantile function steps over them.
    filled = mass > 0
    return np.interp(
        levels, _pairs(heights[:-1][filled], heights[1:][filled]), _pairs(ends[:-1][filled], ends[1:][filled])
    )


def _pairs(first: Floats, second: Floats) -> Floats:
    return np.stack((first, second), axis=1).ravel()
