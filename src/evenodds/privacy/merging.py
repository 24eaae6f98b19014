"""Merge what is small: score cells into wider ones, deep positions into one slot, small counts into neighbours.

Nothing here drops a row.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from evenodds.grid import Grid

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Counts = npt.NDArray[Any]

_ROUNDED = 0.05  # of the narrower neighbouring cell: how far a boundary may move


def mass_of(counts: Counts) -> Floats:
    """Return the mass of each score cell, every label of every group weighing the same."""
    by_cell = counts.sum(axis=2, dtype=np.float64)
    total = by_cell.sum(axis=2, keepdims=True)
    share = np.divide(by_cell, total, out=np.zeros_like(by_cell), where=total > 0)
    mass: Floats = share.sum(axis=(0, 1))
    return mass


def coarsened(grid: Grid, mass: Floats, cells: int, tied: npt.NDArray[np.bool_]) -> tuple[Grid, Ints]:
    """Merge neighbouring cells into about `cells` of equal mass; return the first of each run.

    A tie keeps a cell of its own where it holds half a merged cell's share; `tied` are those that may.
    """
    least = mass.sum() / max(cells, 1)
    heavy = tied & (mass >= least / 2)
    starts, atoms, held = [0], [], 0.0
    for cell in range(grid.cells):
        alone = bool(heavy[cell])
        if cell > starts[-1] and (alone or heavy[cell - 1] or held >= least):
            starts.append(cell)
            held = 0.0
        if alone:
            atoms.append(len(starts) - 1)
        held += float(mass[cell])
    if len(starts) > 1 and held < least and not heavy[starts[-1]] and not heavy[starts[-2]]:
        starts.pop()  # what is left over joins the cell below
    first = np.array(starts, np.int64)
    return Grid(grid.boundaries[first[1:] - 1], np.array(atoms, np.int64)), first


def rounded(grid: Grid, low: float, high: float) -> tuple[Grid, tuple[float, float]]:
    """Round boundaries, which are scores of single rows, and the ends of the score range.

    A boundary moves by at most a twentieth of the narrower cell beside it; a tie's stay, since many rows
    have that very score. The ends move outwards, by at most the width of the outermost cell.
    """
    inner = grid.boundaries
    if inner.size == 0:
        reach = max(high - low, 1e-300)
        return grid, (roundest(low - reach, low), roundest(high, high + reach))
    edges = grid.edges(low, high)
    widths = np.diff(edges)
    held = np.zeros(inner.size, dtype=bool)  # the lower and upper boundary of each atom
    held[grid.atoms - 1] = True
    held[np.minimum(grid.atoms, inner.size - 1)] = True
    reaches = _ROUNDED * np.minimum(widths[:-1], widths[1:])
    moved = [
        value if fixed or not far > 0 else roundest(value - far, value + far)
        for value, fixed, far in zip(inner.tolist(), held.tolist(), reaches.tolist(), strict=True)
    ]
    ends = (
        roundest(float(edges[0] - widths[0]), float(edges[0])),
        roundest(float(edges[-1]), float(edges[-1] + widths[-1])),
    )
    return Grid(np.array(moved), grid.atoms), ends


def roundest(low: float, high: float) -> float:
    """Return the roundest number in an interval: a multiple of the largest power of ten, or of half of one.

    >>> roundest(0.123, 0.131), roundest(-0.2, 1.3), roundest(1234.0, 1291.0)
    (0.13, 0.0, 1250.0)
    """
    if not high > low:
        return low
    middle = (low + high) / 2
    for power in range(math.ceil(math.log10(max(abs(low), abs(high), high - low))) + 1, -330, -1):
        for step in (10.0**power, 10.0**power / 2):
            value = round(middle / step) * step if step > 0 else middle
            value = float(f"{value:.15g}")
            if low <= value <= high:
                return value
    return middle


def pooled(array: Counts, depth: int) -> Counts:
    """Pool positions past `depth`, on the third axis, in the slot after it."""
    if array.shape[2] <= depth + 2:
        return array
    kept = array[:, :, : depth + 2].copy()
    kept[:, :, depth + 1] = array[:, :, depth + 1 :].sum(axis=2)
    return kept


def small(counts: Counts, least: Floats) -> npt.NDArray[np.bool_]:
    """Return which counts are above zero and stand for too few rows; `least` is by group, label, position."""
    return (counts > 0) & (counts < least[..., None])


def joined(counts: Counts, least: Floats) -> Counts:
    """Join counts that are too small to their neighbours in score, each run at its largest cell.

    Within one group, label and position; what is too small as a whole stays as it is.
    """
    merged = counts.copy()
    for place in np.argwhere(small(counts, least).any(axis=3)).tolist():
        row = merged[tuple(place)]
        if row.sum() < least[tuple(place)]:
            continue
        used = np.flatnonzero(row)
        starts = _runs(row[used].astype(np.float64), float(least[tuple(place)]))
        sums = np.add.reduceat(row[used], starts)
        tops = [
            used[low + int(np.argmax(row[used[low:high]]))]
            for low, high in zip(starts, [*starts[1:], used.size], strict=True)
        ]
        row[:] = 0
        row[tops] = sums
    return merged


def _runs(values: Floats, least: float) -> list[int]:
    """Cut into runs that each add up to `least`, left to right; what is left over joins the last one."""
    starts, held = [0], 0.0
    for place, value in enumerate(values.tolist()):
        if held >= least:
            starts.append(place)
            held = 0.0
        held += value
    if held < least and len(starts) > 1:
        starts.pop()
    return starts
