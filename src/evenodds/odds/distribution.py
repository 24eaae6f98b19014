"""The distribution of the fair score, from counts: no drawing needed."""

from __future__ import annotations

from dataclasses import dataclass
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
_PARTS = 8  # a target bin is cut into so many even pieces where something happens within it


def fair_distribution(model: EqualizedOdds, tally: Tally, mass: Floats) -> tuple[Floats, Floats]:
    """Return thresholds and, for each group of the tally, the share of `mass` at or below them.

    All the way (alpha = 1, nothing kept in order) groups can differ only between target bins, since
    within one they share their distribution: the target bins' edges tell all.
    """
    edges = tally.edges
    cell_bin = np.searchsorted(model.inner, edges[:-1], side="right")
    places = (model.rows_of(tally) // model.table_.bins).tolist()
    shares = mass / np.maximum(mass.sum(axis=-1, keepdims=True), 1e-300)
    by_group = [(place, shares[..., code, :]) for code, place in enumerate(places)]
    kept = model.unknown == "keep" and len(model.groups_) in places
    if model.alpha == 1.0 and model.order_ is None and not kept:
        images = [
            _times(_by_bin(share, cell_bin, model.table_.bins), model.kernel_[place])
            for place, share in by_group
        ]
        return model.score_at(model.levels_[1:]), np.cumsum(np.stack(images, axis=-2), axis=-1)
    # The same thresholds whatever the mass, so that several labels can be compared at them.
    ends = model.score_at(model.levels_[[0, -1]])
    low, high = min(float(ends[0]), float(edges[0])), max(float(ends[1]), float(edges[-1]))
    thresholds = np.unique(
        np.concatenate((np.linspace(low, high, _THRESHOLDS), model.score_at(model.levels_)))
    )
    found = []
    for place, share in by_group:
        total = np.zeros((*share.shape[:-1], thresholds.size))
        for pieces in _pieces(model, tally, place, cell_bin):
            held = _by_bin(share, cell_bin, model.table_.bins) if pieces.of_bins else share
            total += pieces.below(thresholds, held)
        found.append(np.maximum.accumulate(total, axis=-1))
    return thresholds, np.stack(found, axis=-2)


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
        flow = _by_bin(mass, cell_bin, model.table_.bins)[kernel.row] * kernel.data
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


def _by_bin(mass: Floats, cell_bin: Ints, bins: int) -> Floats:
    """Add up ``mass[..., cell]`` by bin; bins are runs of cells, and one may hold no cell."""
    starts = np.flatnonzero(np.diff(cell_bin, prepend=-1))
    found = np.zeros((*mass.shape[:-1], bins))
    found[..., cell_bin[starts]] = np.add.reduceat(mass, starts, axis=-1)
    return found


def _times(values: Floats, matrix: sparse.sparray) -> Floats:
    product: Floats = values.reshape(-1, values.shape[-1]) @ matrix
    return product.reshape(*values.shape[:-1], matrix.shape[1])


@dataclass(frozen=True)
class _Pieces:
    """The fair score in pieces, each the sum of two even stretches.

    One stretch is the old score within its bin, the other the fair score within its target bin. A piece
    starts at `start`, its stretches are `one` and `two` wide, and an item of `source` (a bin, or a cell)
    is on it by `chance`.
    """

    of_bins: bool
    source: Ints
    start: Floats
    one: Floats
    two: Floats
    chance: Floats

    def below(self, thresholds: Floats, mass: Floats) -> Floats:
        """Return how much of ``mass[..., source]`` lies at or below each threshold.

        The distribution function of U[0, a] + U[0, b] with a >= b is ``(g(x) - g(x - b)) / b``, g the
        integral of the one of U[0, a]; for b next to nothing, that of U[0, a] itself. It is between 0 and 1
        at few thresholds only, which are all that is computed.
        """
        size = thresholds.size
        reach = max(float(thresholds[-1] - thresholds[0]), 1e-300)
        wide = np.maximum(np.maximum(self.one, self.two), 1e-12 * reach)
        narrow = np.minimum(self.one, self.two)
        begin = np.minimum(self.start, thresholds[-1])
        first = np.searchsorted(thresholds, begin, side="right")
        last = np.maximum(np.searchsorted(thresholds, self.start + wide + narrow, side="left"), first)
        tied = self.one + self.two <= 1e-12 * reach  # all of it at one score, which may be the largest
        first[tied] = last[tied] = np.searchsorted(thresholds, begin[tied], side="left")
        count = last - first
        piece = np.repeat(np.arange(count.size), count)
        place = np.arange(piece.size) - np.repeat(np.cumsum(count) - count - first, count)
        x, a, b = thresholds[place] - self.start[piece], wide[piece], narrow[piece]
        whole = (_integral(x, a) - _integral(x - b, a)) / np.maximum(b, 1e-300)
        share = np.clip(np.where(b > 1e-6 * a, whole, (x - b / 2) / a), 0.0, 1.0)
        shape = (mass.shape[-1], size + 1)
        within = sparse.coo_array((share * self.chance[piece], (self.source[piece], place)), shape)
        passed = sparse.coo_array((self.chance, (self.source, last)), shape)
        total = _times(mass, within) + np.cumsum(_times(mass, passed), axis=-1)
        return total[..., :-1]


def _pieces(model: EqualizedOdds, tally: Tally, place: int, cell_bin: Ints) -> list[_Pieces]:
    """Cut a group's fair scores into pieces."""
    cells = np.arange(cell_bin.size)
    if place == len(model.groups_) and model.unknown == "keep":
        wide = np.diff(tally.edges)
        return [_Pieces(False, cells, tally.edges[:-1], wide, np.zeros(cells.size), np.ones(cells.size))]
    kernel = sparse.coo_array(model.kernel_[place])
    if model.order_ is None:
        return [_drawn(model, kernel, np.ones(kernel.nnz, bool))]
    # Those that stay in order move with the score itself.
    stays = (kernel.row == kernel.col) & model.order_.kept[place * model.table_.bins + kernel.row]
    own = _in_order(model, model.order_, tally, place, cell_bin, kernel, stays)
    return [_drawn(model, kernel, ~stays), own]


def _drawn(model: EqualizedOdds, kernel: sparse.coo_array, used: npt.NDArray[np.bool_]) -> _Pieces:
    """Pieces of items put at a random point of their target bin, each bin in even parts of its level."""
    alpha, levels, ends = model.alpha, model.levels_, model.edges_
    steps = np.linspace(0.0, 1.0, _PARTS + 1)
    target = model.score_at(levels[:-1, None] + np.diff(levels)[:, None] * steps)
    if model.within == "uniform":
        target = target[:, :1] + (target[:, -1:] - target[:, :1]) * steps
    source, to = kernel.row[used].astype(np.int64), kernel.col[used]
    first, wide = target[to, :-1], np.diff(target[to], axis=1)
    shape = first.shape

    def each(values: Any) -> Any:
        return np.broadcast_to(values[:, None], shape).ravel()

    return _Pieces(
        True,
        each(source),
        (each((1 - alpha) * ends[source]) + alpha * first.ravel()),
        each((1 - alpha) * np.diff(ends)[source]),
        (alpha * wide).ravel(),
        each(kernel.data[used] / _PARTS),
    )


def _in_order(
    model: EqualizedOdds,
    order: InBinOrder,
    tally: Tally,
    place: int,
    cell_bin: Ints,
    kernel: sparse.coo_array,
    stays: npt.NDArray[np.bool_],
) -> _Pieces:
    """Pieces of items that keep their place: a cell's scores go to one stretch of the same bin."""
    chance = np.zeros(model.table_.bins)
    chance[kernel.row[stays]] = kernel.data[stays]
    cells = np.arange(cell_bin.size)
    group = np.full(cells.size, place)
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
    return _Pieces(False, cells, begin, end - begin, np.zeros(cells.size), chance[cell_bin])


def _integral(x: Floats, width: Floats) -> Floats:
    """Integrate the distribution function of U[0, width] up to x."""
    inside = np.clip(x, 0.0, width)
    return inside * inside / (2 * width) + np.maximum(x - width, 0.0)
