"""The distribution of the fair score, from counts: no drawing needed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from evenodds.tally import Tally

if TYPE_CHECKING:
    from evenodds.odds.equalized import EqualizedOdds
    from evenodds.scoring.order import InBinOrder

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

_THRESHOLDS = 1_000
_BLOCK = 1_024
_PARTS = 8  # a target bin is cut into so many even pieces where something happens within it


def fair_distribution(model: EqualizedOdds, tally: Tally, mass: Floats) -> tuple[Floats, Floats]:
    """Return thresholds and, for each group of the tally, the share of `mass` at or below them.

    All the way (alpha = 1, nothing kept in order) groups can differ only between target bins, since
    within one they share their distribution: the target bins' edges tell all.
    """
    edges = tally.edges
    cell_bin = np.searchsorted(model.inner, edges[:-1], side="right")
    places = model.rows_of(tally) // model.table_.bins
    shares = mass / np.maximum(mass.sum(axis=1, keepdims=True), 1e-300)
    kept = model.unknown == "keep" and bool((places == len(model.groups_)).any())
    if model.alpha == 1.0 and model.order_ is None and not kept:
        images = [
            _bin_mass(share, cell_bin, model) @ model.kernel_[place]
            for share, place in zip(shares, places, strict=True)
        ]
        cdf = np.cumsum(np.array(images), axis=1)
        return model.score_at(model.levels_[1:]), cdf
    pieces = [
        _pieces(model, tally, share, int(place), cell_bin)
        for share, place in zip(shares, places, strict=True)
    ]
    # The same thresholds whatever the mass, so that several labels can be compared at them.
    ends = model.score_at(model.levels_[[0, -1]])
    low, high = min(float(ends[0]), float(edges[0])), max(float(ends[1]), float(edges[-1]))
    thresholds = np.unique(
        np.concatenate((np.linspace(low, high, _THRESHOLDS), model.score_at(model.levels_)))
    )
    return thresholds, np.stack([_sum_of_two(thresholds, *part) for part in pieces])


def mean_movement(model: EqualizedOdds, tally: Tally) -> float:
    """Return E|fair score - score|, both spread evenly over their bins."""
    everyone = tally.counts.sum(axis=(1, 2), dtype=np.float64)
    cell_bin = np.searchsorted(model.inner, tally.edges[:-1], side="right")
    ends, fair_ends = model.edges_, model.score_at(model.levels_)
    total = 0.0
    for place, mass in zip(model.rows_of(tally) // model.table_.bins, everyone, strict=True):
        if place == len(model.groups_) and model.unknown == "keep":
            continue
        kernel = sparse.coo_array(model.kernel_[place])
        flow = _bin_mass(mass, cell_bin, model)[kernel.row] * kernel.data
        old, new = (
            (ends[kernel.row], ends[kernel.row + 1]),
            (fair_ends[kernel.col], fair_ends[kernel.col + 1]),
        )
        apart = np.abs((new[0] + new[1]) / 2 - (old[0] + old[1]) / 2)
        redrawn = (old[1] - old[0]) / 3
        stays = np.zeros(flow.size, bool)
        if model.order_ is not None:
            stays = (kernel.row == kernel.col) & model.order_.kept[place * model.table_.bins + kernel.row]
        total += float(
            flow @ np.where(stays, 0.0, np.maximum(apart, np.where(kernel.row == kernel.col, redrawn, 0.0)))
        )
    return model.alpha * total / float(everyone.sum())


def _bin_mass(share: Floats, cell_bin: Ints, model: EqualizedOdds) -> Floats:
    found: npt.NDArray[Any] = np.bincount(cell_bin, weights=share, minlength=model.table_.bins)
    return found


def _pieces(
    model: EqualizedOdds, tally: Tally, share: Floats, place: int, cell_bin: Ints
) -> tuple[Floats, Floats, Floats, Floats]:
    """Cut the fair score into pieces, each the sum of two even stretches: start, two widths, mass.

    One stretch is the old score within its bin, the other the fair score within its target bin.
    """
    alpha = model.alpha
    if place == len(model.groups_) and model.unknown == "keep":
        return tally.edges[:-1], np.diff(tally.edges), np.zeros(share.size), share
    kernel = sparse.coo_array(model.kernel_[place])
    by_bin = _bin_mass(share, cell_bin, model)
    flow = by_bin[kernel.row] * kernel.data
    ends = model.edges_
    start, width = ends[kernel.row], np.diff(ends)[kernel.row]
    if model.order_ is not None:  # those that stay in order move with the score itself
        stays = (kernel.row == kernel.col) & model.order_.kept[place * model.table_.bins + kernel.row]
        own = _in_order(model, model.order_, tally, share, place, cell_bin, kernel, stays)
        drawn = _drawn(model, kernel, ~stays, flow, start, width, alpha)
        start, one, two, mass = (np.concatenate(pair) for pair in zip(drawn, own, strict=True))
        return start, one, two, mass
    return _drawn(model, kernel, np.ones(flow.size, bool), flow, start, width, alpha)


def _drawn(
    model: EqualizedOdds,
    kernel: sparse.coo_array,
    used: npt.NDArray[np.bool_],
    flow: Floats,
    start: Floats,
    width: Floats,
    alpha: float,
) -> tuple[Floats, Floats, Floats, Floats]:
    """Pieces of items put at a random point of their target bin, each bin in even parts of its level."""
    levels = model.levels_
    steps = np.linspace(0.0, 1.0, _PARTS + 1)
    target = model.score_at(levels[:-1, None] + np.diff(levels)[:, None] * steps)
    if model.within == "uniform":
        target = target[:, :1] + (target[:, -1:] - target[:, :1]) * steps
    to = kernel.col[used]
    first, wide = target[to, :-1], np.diff(target[to], axis=1)
    shape = first.shape
    begin = (1 - alpha) * np.broadcast_to(start[used][:, None], shape) + alpha * first
    old = np.broadcast_to((1 - alpha) * width[used][:, None], shape)
    mass = np.broadcast_to(flow[used][:, None] / _PARTS, shape)
    return begin.ravel(), old.ravel(), (alpha * wide).ravel(), mass.ravel()


def _in_order(
    model: EqualizedOdds,
    order: InBinOrder,
    tally: Tally,
    share: Floats,
    place: int,
    cell_bin: Ints,
    kernel: sparse.coo_array,
    stays: npt.NDArray[np.bool_],
) -> tuple[Floats, Floats, Floats, Floats]:
    """Pieces of items that keep their place: a cell's scores go to one stretch of the same bin."""
    chance = np.zeros(model.table_.bins)
    chance[kernel.row[stays]] = kernel.data[stays]
    group = np.full(share.size, place)
    edges, levels = tally.edges, model.levels_

    def fair(scores: Floats) -> Floats:
        far = order.within(scores, group, cell_bin)
        if model.within == "uniform":
            ends = model.score_at(levels)
            return ends[cell_bin] + far * np.diff(ends)[cell_bin]
        return model.score_at(levels[cell_bin] + far * np.diff(levels)[cell_bin])

    low = fair(edges[:-1])
    high = np.maximum(fair(np.nextafter(edges[1:], -np.inf)), low)
    begin = model.alpha * low + (1 - model.alpha) * edges[:-1]
    end = model.alpha * high + (1 - model.alpha) * edges[1:]
    return begin, end - begin, np.zeros(share.size), share * chance[cell_bin]


def _sum_of_two(thresholds: Floats, start: Floats, one: Floats, two: Floats, mass: Floats) -> Floats:
    """Evaluate the distribution function of a mixture of sums of two even stretches.

    For U[0, a] + U[0, b] with a >= b it is ``(g(x) - g(x - b)) / b``, g the integral of the one of
    U[0, a]; for b next to nothing, that of U[0, a] itself.
    """
    used = mass > 0
    start, mass = start[used], mass[used]
    wide, narrow = np.maximum(one, two)[used], np.minimum(one, two)[used]
    reach = max(float(thresholds[-1] - thresholds[0]), 1e-300)
    wide = np.maximum(wide, 1e-12 * reach)
    total = np.zeros(thresholds.size)
    for block in range(0, start.size, _BLOCK):
        part = slice(block, block + _BLOCK)
        a, b = wide[part], narrow[part]
        x = thresholds[:, None] - start[part]
        whole = (_integral(x, a) - _integral(x - b, a)) / np.maximum(b, 1e-300)
        share = np.where(b > 1e-6 * a, whole, (x - b / 2) / a)
        total += np.clip(share, 0.0, 1.0) @ mass[part]
    return np.maximum.accumulate(total)


def _integral(x: Floats, width: Floats) -> Floats:
    """Integrate the distribution function of U[0, width] up to x."""
    inside = np.clip(x, 0.0, width)
    return inside * inside / (2 * width) + np.maximum(x - width, 0.0)
