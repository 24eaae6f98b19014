"""k-anonymous tallies.

The sense of it: every count that a suppressed tally states, n[group, label, position, score cell], is 0 or
stands for at least k rows, and every other number in it follows from those counts or has been rounded.
Rows are impressions: who makes several is hidden only among as many more.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from evenodds.errors import SettingsError, TallyError
from evenodds.groups import Group, group_name
from evenodds.privacy.effect import Effect, effect
from evenodds.privacy.merging import coarsened, joined, mass_of, pooled, rounded, small
from evenodds.reranker import Reranker
from evenodds.tally import Tally

Floats = npt.NDArray[np.float64]

OTHER = "other"
_MOVED = 0.2  # share of positives that may be joined to a neighbouring cell; measured by bench/suppression.py
_CELLS, _POSITIONS = 50, 20  # more of either hardly changes a fit
_LADDER = (
    *(10_000, 5_000, 2_000, 1_000, 700, 500, 350, 250, 180, 130),
    *(100, 70, 50, 40, 30, 25, 20, 16, 13, 10, 8, 6, 5, 4, 3, 2, 1),
)
_DEPTHS = (100, 70, 50, 40, 30, 25, 20, 17, 14, 12, 10, 8, 6, 5, 4, 3, 2, 1)


@dataclass(frozen=True)
class Suppressed:
    """A k-anonymous tally, and what it cost; prints as text.

    Attributes
    ----------
    tally
        What may be given away.
    k
        The least number of rows that a count stands for.
    original
        The tally it was made of, which may not.
    merged_groups, dropped_groups
        Small groups: put together under the name "other", or left out.
    moved
        By "rows" and "positives", the share that was joined to a neighbouring score cell because its
        own count was too small even in merged cells.
    dropped
        By "rows" and "positives", the share that was left out: groups, and labels at a position, of
        which there are fewer than k rows in all.
    """

    tally: Tally
    k: int
    original: Tally
    merged_groups: tuple[str, ...]
    dropped_groups: tuple[str, ...]
    moved: dict[str, float]
    dropped: dict[str, float]

    def effect(self, model: Reranker | None = None) -> Effect:
        """Fit on all counts and on those that are left; return what changes.

        Parameters
        ----------
        model
            The criterion and settings to fit; by default ``EqualOpportunity()``. It is left alone.
        """
        return effect(self.original, self.tally, model)

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON values, without the effect on a fit."""
        deepest = _deepest(self.original)
        return {
            "k": self.k,
            "rows": {"before": self.original.rows, "after": self.tally.rows},
            "cells": {"before": self.original.grid.cells, "after": self.tally.grid.cells},
            "depth": {"before": deepest, "after": min(deepest, self.tally.depth)},
            "merged_groups": list(self.merged_groups),
            "dropped_groups": list(self.dropped_groups),
            "moved": {name: float(f"{share:.6g}") for name, share in self.moved.items()},
            "dropped": {name: float(f"{share:.6g}") for name, share in self.dropped.items()},
        }

    def __str__(self) -> str:
        before, after = self.original, self.tally
        lines = [
            f"k = {self.k}: every count is 0 or stands for at least {self.k} rows",
            f"score cells: {before.grid.cells:,} merged into {after.grid.cells:,}; boundaries rounded",
        ]
        if after.depth < before.depth and _deepest(after) < _deepest(before):
            lines.append(f"positions past {after.depth} of {_deepest(before)} pooled")
        for names, what in ((self.merged_groups, f"merged into {OTHER!r}"), (self.dropped_groups, "dropped")):
            if names:
                lines.append(f"groups {what}: {', '.join(names)}")
        for shares, what in ((self.moved, "joined to a neighbouring cell"), (self.dropped, "dropped")):
            lines.append(
                f"{what}: {_percent(shares['rows'])} of rows, {_percent(shares['positives'])} of positives"
            )
        if before.folds is not None:
            lines.append("folds of queries left out: intervals take impressions as independent")
        return "\n".join(lines)


def suppress(tally: Tally, k: int, *, cells: int | None = None, depth: int | None = None) -> Suppressed:
    """Make a tally k-anonymous; see :meth:`evenodds.Tally.suppress`."""
    _check(tally, k, cells, depth)
    kept, merged_groups, dropped_groups = _groups(tally, k)
    counts, squares = kept.counts, kept.squares
    wanted, deepest = _choose(kept, k, cells, depth)
    grid, starts = coarsened(kept.grid, mass_of(counts), wanted, _tied(kept, k))
    counts = pooled(np.add.reduceat(counts, starts, axis=3), deepest)
    squares = pooled(squares, deepest)
    least = _least(counts, squares, k)
    few = small(counts, least)
    whole = (counts.sum(axis=3) >= least) & (counts.sum(axis=3) > 0)
    moved = np.where(few & whole[..., None], counts, 0)
    counts = np.where(whole[..., None], joined(counts, least), 0)
    squares = np.where(whole, squares, 0)
    if not counts.any():
        raise TallyError(
            f"no group and position has {k} rows with one label: nothing would be left", hint="a smaller k"
        )
    used = int(np.flatnonzero(counts.any(axis=(0, 1, 3)))[-1]) + 1  # how deep lists go is told by those left
    counts, squares = counts[:, :, :used], squares[:, :, :used]
    grid, score_range = rounded(grid, *kept.score_range)
    total = float(tally.counts.sum())
    rows = round(tally.rows * float(counts.sum()) / total) if tally.weighted else int(counts.sum())
    released = replace(
        kept,
        grid=grid,
        counts=counts,
        squares=squares,
        folds=None,
        swaps=_swaps(kept, counts, k, deepest),
        depth=deepest,
        score_range=score_range,
        rows=rows,
        sources=(f"<suppressed, k = {k}>",),
    )

    def shares(part: npt.NDArray[Any]) -> dict[str, float]:
        positives = float(tally.counts[:, 1:].sum())
        return {
            "rows": float(part.sum()) / total,
            "positives": float(part[:, 1:].sum()) / max(positives, 1e-300),
        }

    left = shares(counts)
    return Suppressed(
        released,
        k,
        tally,
        merged_groups,
        dropped_groups,
        shares(moved),
        {name: max(0.0, 1.0 - share) for name, share in left.items()},
    )


def _check(tally: Tally, k: int, cells: int | None, depth: int | None) -> None:
    if isinstance(k, bool) or k % 1 or k < 2:
        raise SettingsError(f"k must be a whole number of at least 2, got {k}")
    if cells is not None and cells < 1:
        raise SettingsError(f"cells must be at least 1, got {cells}")
    if depth is not None and not 1 <= depth <= tally.depth:
        raise SettingsError(f"depth must lie in 1..{tally.depth}, the tally's own, got {depth}")


def _least(counts: npt.NDArray[Any], squares: npt.NDArray[Any], k: int) -> Floats:
    """Return the least count that surely stands for k rows, by group, label and position.

    Of weighted rows their number is unknown. A part with the weight W has at least W^2 / sum of squared
    weights rows (Cauchy and Schwarz), and the squares of a part are no more than those of the whole.
    """
    if counts.dtype != np.float64:
        return np.full(squares.shape, float(k))
    return np.sqrt(k * squares.astype(np.float64)) * (1 - 1e-12)


def _rows_at_least(tally: Tally) -> tuple[Floats, Floats]:
    """Return how many rows, and how many positives, each group surely has."""
    if not tally.weighted:
        rows = tally.counts.sum(axis=(1, 2, 3), dtype=np.float64)
        return rows, tally.counts[:, 1:].sum(axis=(1, 2, 3), dtype=np.float64)
    return tally.effective().sum(axis=1), tally.effective_positives()


def _groups(tally: Tally, k: int) -> tuple[Tally, tuple[str, ...], tuple[str, ...]]:
    """Put groups with fewer than k rows or positives together; drop what is then still under k rows."""
    rows, positives = _rows_at_least(tally)
    few = np.flatnonzero((rows < k) | (positives < k))
    merged: tuple[str, ...] = ()
    if few.size > 1:
        name: Group = (OTHER,) * len(tally.roles.group)
        merged = tuple(group_name(tally.groups[place]) for place in few)
        target = [name if place in few else group for place, group in enumerate(tally.groups)]
        tally = _regrouped(tally, target)
        rows, _ = _rows_at_least(tally)
    gone = np.flatnonzero(rows < k)
    names = tuple(group_name(tally.groups[place]) for place in gone)
    if gone.size == len(tally.groups):
        raise TallyError(f"no group has {k} rows: nothing would be left", hint="a smaller k")
    if gone.size:
        tally = _picked(tally, np.flatnonzero(rows >= k))
    return tally, merged, names


def _regrouped(tally: Tally, target: list[Group]) -> Tally:
    groups = tuple(sorted(set(target)))
    places = [groups.index(group) for group in target]

    def added(part: npt.NDArray[Any]) -> npt.NDArray[Any]:
        out = np.zeros((len(groups), *part.shape[1:]), part.dtype)
        np.add.at(out, places, part)
        return out

    return replace(tally, groups=groups, counts=added(tally.counts), squares=added(tally.squares), folds=None)


def _picked(tally: Tally, places: npt.NDArray[np.intp]) -> Tally:
    groups = tuple(tally.groups[place] for place in places)
    return replace(
        tally, groups=groups, counts=tally.counts[places], squares=tally.squares[places], folds=None
    )


def _choose(tally: Tally, k: int, cells: int | None, depth: int | None) -> tuple[int, int]:
    """Choose how many score cells and positions to keep apart.

    As many of both as leave few positives in counts under k; where both cannot be had, what loses
    least of the fifty cells and twenty positions that a fit can use.
    """
    mass = mass_of(tally.counts)
    rows = _rows_at_least(tally)[0].sum()
    most = max(int(rows // k), 1)  # no merged cell under k rows
    ladder = [cells] if cells else [step for step in _LADDER if step <= min(tally.grid.cells, most)] or [1]
    last = _deepest(tally)
    first = int(np.flatnonzero(tally.squares.any(axis=(0, 1)))[0])
    depths = [depth] if depth else [tally.depth, *(step for step in _DEPTHS if step < last)]
    if tally.roles.position is None or (tally.swaps is not None and not depth):
        depths = [tally.depth]  # nothing to pool; or pairs of neighbours, which pooling would lose
    positives = max(float(tally.counts[:, 1:].sum()), 1e-300)
    best: tuple[float, int, int] | None = None
    tied = _tied(tally, k)
    coarse = {
        step: np.add.reduceat(tally.counts, coarsened(tally.grid, mass, step, tied)[1], axis=3)
        for step in ladder
    }
    for deepest in depths:
        squares = pooled(tally.squares, deepest)
        for step in ladder:
            counts = pooled(coarse[step], deepest)
            few = small(counts, _least(counts, squares, k))
            if step > ladder[-1] and float((counts * few)[:, 1:].sum()) > _MOVED * positives:
                continue
            kept = min(deepest, last) - first + 1
            worth = min(step / _CELLS, 1.0) * min(kept / min(_POSITIONS, last - first + 1), 1.0)
            if best is None or worth > best[0] + 1e-9:
                best = (worth, step, deepest)
            break
    _, wanted, deepest = cast("tuple[float, int, int]", best)
    return wanted, deepest


def _tied(tally: Tally, k: int) -> npt.NDArray[np.bool_]:
    """Return the cells of score values that surely k rows share."""
    by_cell = tally.counts.sum(axis=(0, 1, 2), dtype=np.float64)
    least = _least(tally.counts.sum(axis=3), np.asarray(tally.squares.sum(axis=(0, 1, 2), keepdims=True)), k)
    mask: npt.NDArray[np.bool_] = tally.grid.is_atom() & (by_cell >= float(least.max()))
    return mask


def _swaps(tally: Tally, counts: npt.NDArray[Any], k: int, depth: int) -> npt.NDArray[Any] | None:
    """Add up the folds of swapped pairs; drop a pair of which a count, or the rest at its positions, is small."""
    if tally.swaps is None or tally.weighted:
        return None
    total = tally.swaps.sum(axis=0)[: depth + 2].copy()  # pair, upper or lower, label
    shown = counts.sum(axis=(0, 3)).T  # position, label
    inside = np.zeros_like(shown)
    size = min(len(shown), len(total))
    inside[:size] += total[:size, 0]
    inside[1:size] += total[: size - 1, 1]
    rest = shown - inside
    bad = ((rest != 0) & (rest < k)).any(axis=1)
    wrong = ((total > 0) & (total < k)).any(axis=(1, 2))
    upper = np.arange(len(total))
    for place in (upper, upper + 1):
        known = place < len(bad)
        wrong |= np.where(known, bad[np.minimum(place, len(bad) - 1)], total.any(axis=(1, 2)))
    wrong |= upper >= depth  # pairs that reach into the pooled slot
    total[wrong] = 0
    swaps = np.zeros((tally.swaps.shape[0], depth + 2, *total.shape[1:]), total.dtype)
    swaps[0, : len(total)] = total
    return swaps


def _deepest(tally: Tally) -> int:
    used = np.flatnonzero(tally.squares.any(axis=(0, 1)))
    return int(used[-1]) if used.size else 0


def _percent(share: float) -> str:
    return "none" if share == 0 else f"{100 * share:.2g} %"
