"""Counts as the estimators want them: positives and impressions by stratum and position.

A stratum is a set of impressions that differ in nothing but their position: the same group and the
same score cell. Positions with too few positives to carry an estimate share one with their neighbours.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from evenodds.errors import TallyError
from evenodds.tally import Tally

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

MIN_POSITIVES = 20.0  # a relative error of 22 %; with fewer, 1/w does more harm than good


@dataclass(frozen=True)
class Blocks:
    """Runs of positions that share one weight: mostly single positions."""

    positions: Ints
    block: Ints
    notes: tuple[str, ...]

    @property
    def count(self) -> int:
        """How many blocks there are."""
        return int(self.block[-1]) + 1

    @property
    def starts(self) -> Ints:
        """The first position of each block."""
        return self.positions[np.flatnonzero(np.diff(self.block, prepend=-1))]

    def pool(self, by_position: Floats) -> Floats:
        """Add up the last axis, all raw positions, into blocks."""
        starts = np.flatnonzero(np.diff(self.block, prepend=-1))
        pooled: Floats = np.add.reduceat(by_position[..., self.positions], starts, axis=-1)
        return pooled


def blocks_of(tally: Tally) -> Blocks:
    """Find the positions with rows and pool those with fewer than 20 positives."""
    rows = tally.counts.sum(axis=(0, 1, 3), dtype=np.float64)
    positive = tally.counts[:, 1:].sum(axis=(0, 1, 3), dtype=np.float64)
    squares = tally.squares[:, 1:].sum(axis=(0, 1), dtype=np.float64)
    evidence = np.divide(positive**2, squares, out=np.zeros_like(positive), where=squares > 0)
    positions = np.flatnonzero(rows)
    notes: list[str] = []
    if positions.size == 0:
        raise TallyError("all rows have the weight 0: nothing to learn from")
    first, last = int(positions[0]), int(positions[-1])
    if first != 1:
        notes.append(f"positions start at {first}: weights are relative to position {first}")
    gaps = last - first + 1 - positions.size
    if gaps:
        notes.append(f"{gaps} position{'s' if gaps > 1 else ''} between {first} and {last} without rows")
    if last == tally.depth + 1:
        notes.append(f"positions past {tally.depth} are pooled and share one weight")
    block = np.zeros(positions.size, np.int64)
    number, held = 0, 0.0
    for place, position in enumerate(positions):
        block[place] = number
        held += evidence[position]
        if held >= MIN_POSITIVES:
            number, held = number + 1, 0.0
    if held < MIN_POSITIVES and number > 0:  # the last block is not full: it joins the one before
        block[block == number] = number - 1
    shared = positions[np.bincount(block)[block] > 1]
    if shared.size:
        notes.append(
            f"{shared.size} positions with fewer than {MIN_POSITIVES:.0f} positives share a weight with "
            f"their neighbours, from position {shared[0]} on"
        )
    return Blocks(positions, block, tuple(notes))


def strata_of(tally: Tally, blocks: Blocks, cells: int, *, by_group: bool = True) -> tuple[Floats, Floats]:
    """Return positives and impressions, shape (strata, blocks); strata without positives are left out."""
    positives, impressions = _by_cell(tally, cells)
    if not by_group:
        positives, impressions = positives.sum(axis=0, keepdims=True), impressions.sum(axis=0, keepdims=True)
    positives = blocks.pool(positives.swapaxes(1, 2)).reshape(-1, blocks.count)
    impressions = blocks.pool(impressions.swapaxes(1, 2)).reshape(-1, blocks.count)
    used = positives.any(axis=1)
    return positives[used], impressions[used]


def _by_cell(tally: Tally, cells: int) -> tuple[Floats, Floats]:
    """Sum the counts over runs of cells: positives and impressions[group, position, cell]."""
    starts = np.flatnonzero(np.diff(tally.grid.coarse(cells), prepend=-1))
    by_label = np.add.reduceat(tally.counts, starts, axis=3).astype(np.float64)
    return by_label[:, 1:].sum(axis=1), by_label.sum(axis=1)


def folds_of(tally: Tally, blocks: Blocks, cells: int) -> tuple[Floats, Floats]:
    """Return positives and impressions by fold, shape (folds, strata, blocks), groups kept apart.

    The folds are those of :func:`counts_by_fold`.
    """
    counts = counts_by_fold(tally)
    folds, coarse = counts.shape[3:]
    runs = np.arange(coarse) * min(cells, coarse) // coarse
    counts = np.add.reduceat(counts, np.flatnonzero(np.diff(runs, prepend=-1)), axis=4)
    by_fold = counts.transpose(3, 1, 0, 4, 2)  # fold, label, group, cell, position
    positives, impressions = blocks.pool(by_fold[:, 1:].sum(axis=1)), blocks.pool(by_fold.sum(axis=1))
    shape = (folds, -1, blocks.count)
    return positives.reshape(shape), impressions.reshape(shape)


def folds_note(tally: Tally) -> str | None:
    """Say what standard errors rest on where there are no folds of queries."""
    if tally.folds is not None:
        return None
    why = "a suppressed tally tells no queries apart" if tally.suppressed else "no query column"
    return f"{why}: standard errors take impressions as independent"


def counts_by_fold(tally: Tally) -> Floats:
    """Return ``counts[group, label, position, fold, coarse cell]`` in folds of queries.

    Without a query column the coarse counts are split at random into as many folds, which amounts to
    taking impressions as independent; the split is seeded and so repeats.
    """
    return _random_folds(tally) if tally.folds is None else tally.folds.astype(np.float64)


def _random_folds(tally: Tally, folds: int = 20) -> Floats:
    """Deal the rows of each coarse cell out to folds at random."""
    coarse = tally.grid.coarse(200)
    counts = np.add.reduceat(tally.counts, np.flatnonzero(np.diff(coarse, prepend=-1)), axis=3).astype(
        np.float64
    )
    # With weights, deal out as many rows as the counts are worth, each of the mean weight.
    totals = tally.counts.sum(axis=3, dtype=np.float64)
    mean_weight = np.divide(tally.squares, totals, out=np.ones_like(totals), where=totals > 0)[..., None]
    worth = np.rint(counts / mean_weight).astype(np.int64)
    dealt = np.random.default_rng(20).multinomial(worth.ravel(), np.full(folds, 1 / folds))
    share = dealt / np.maximum(worth.ravel(), 1)[:, None]
    share[worth.ravel() == 0] = 1 / folds
    split = (counts.ravel()[:, None] * share).reshape(*counts.shape, folds)
    return split.swapaxes(3, 4)
