"""Choose an estimator, run it, and give it standard errors."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from evenodds.engines.arrow import COARSE_CELLS
from evenodds.errors import HomogeneityWarning, SettingsError, nearest
from evenodds.position import adjacent, joint, randomized, swaps
from evenodds.position.homogeneity import homogeneity
from evenodds.position.result import Goodness, PositionBias
from evenodds.position.strata import Blocks, blocks_of, folds_note, folds_of, strata_of
from evenodds.tally import Tally, as_tally

Floats = npt.NDArray[np.float64]
Method = str | PositionBias | Sequence[float] | Mapping[int, float] | Floats
METHODS = ("joint", "adjacent", "randomized", "swaps", "none")

JOINT_STRATA = 4_000  # finer changes nothing: rates hardly vary within a two-thousandth of the scores
ROWS_A_CELL = 5  # where rows carry weights, see _filled_cells
STRATUM_POSITIVES = 20
ADJACENT_CELLS = 200  # finer makes it worse: cells that one of two neighbours lacks
RANDOMIZED_CELLS = 20
_EVEN = 1.001  # positions with impressions this equal hold the same lists


def position_bias(
    data: object,
    method: Method = "joint",
    *,
    cells: int | None = None,
    truncate: int = 30,
    cap: float = 100.0,
    smooth: bool = True,
    **roles: object,
) -> PositionBias:
    """Estimate position bias from a tally, or from a log.

    Parameters
    ----------
    data
        A tally, a :class:`evenodds.Log`, or what `Log` takes with its column roles.
    method
        "joint" for logs as they are; "adjacent" for the paper's estimator; "randomized" for logs of
        shuffled slots; "swaps" for randomly swapped neighbours; "none"; or the weights themselves: a
        sequence from the first position on, a mapping from position to weight, a `PositionBias`.
    cells
        How many score cells to compare positions in; None takes what suits the method.
    truncate
        "adjacent" only: T, the position past which w stays.
    cap
        "adjacent" only: the largest ratio of densities.
    smooth
        "joint" only: take the curve to be as smooth as the data say it is.

    Examples
    --------
    >>> from evenodds import simulate, tally
    >>> bias = position_bias(tally(simulate(queries=4000), cells=1000))
    >>> [round(float(w), 1) for w in bias.weights[:4]]
    [1.0, 0.6, 0.5, 0.4]
    """
    tally = as_tally(data, roles)
    if isinstance(method, PositionBias):
        return method
    if not isinstance(method, str):
        return _given(method, tally)
    if method not in METHODS:
        close = nearest(method, METHODS)
        raise SettingsError(
            f"unknown position-bias method {method!r}; expected {', '.join(METHODS)} or weights",
            hint=f"did you mean {close!r}?" if close else None,
        )
    if cells is not None and cells < 1:
        raise SettingsError(f"cells must be at least 1, got {cells}")
    if truncate < 1 or not cap >= 1:
        raise SettingsError(f"truncate and cap must be at least 1, got {truncate} and {cap}")
    if tally.roles.position is None:
        note = "no position column: no position bias assumed"
        return PositionBias("none", np.array([0]), np.ones(1), np.zeros(1), notes=(note,))
    blocks = blocks_of(tally)
    if method == "none" or blocks.count == 1:
        notes = (
            blocks.notes if method == "none" else (*blocks.notes, "too few positives to tell positions apart")
        )
        size = blocks.positions.size
        return PositionBias("none", blocks.positions, np.ones(size), np.zeros(size), notes=notes)
    if method == "swaps":
        return _swaps(tally, blocks)
    if method == "joint":
        return _joint(tally, blocks, cells, smooth)
    if method == "adjacent":
        return _adjacent(tally, blocks, cells or ADJACENT_CELLS, truncate, cap)
    return _randomized(tally, blocks, cells or RANDOMIZED_CELLS)


def _joint(tally: Tally, blocks: Blocks, cells: int | None, smooth: bool) -> PositionBias:
    # Without smoothing, in the cells that folds are counted in: the errors are then those of this estimate.
    finest = max(JOINT_STRATA // len(tally.groups), COARSE_CELLS) if smooth else COARSE_CELLS
    wanted = cells or min(finest, _filled_cells(tally, blocks))
    wanted = min(tally.grid.cells, wanted)
    strata = strata_of(tally, blocks, wanted)
    weights = joint.estimate(*strata)
    penalty, leaning = joint.smoothing(*strata, weights, blocks.starts) if smooth else (None, None)
    if leaning is not None:
        weights = joint.estimate(*strata, start=weights, penalty=penalty)
    # A fold more or less moves the estimate so little that one Newton step finds it.
    folds = folds_of(tally, blocks, wanted)
    coarse = joint.estimate(folds[0].sum(axis=0), folds[1].sum(axis=0), start=weights, penalty=penalty)
    left = _left_out(folds, lambda y, n: joint.estimate(y, n, coarse, penalty, steps=1))
    # In a suppressed tally positives were joined to neighbouring cells: the test would see that.
    test = None if tally.suppressed else _homogeneity(tally, blocks, coarse)
    notes = blocks.notes + _independence(tally)
    if test is not None and test.fails:
        said = (
            f"position bias is not the same for all items: positives depart from w(position) x rate(score) "
            f"by {100 * test.excess:.0f} % beyond chance (p = {test.p_value:.1g})"
        )
        notes += (said,)
        warnings.warn(said, HomogeneityWarning, stacklevel=4)
    # The folds' cells are coarser; what a fold changes is carried over to the finer estimate.
    bias = _spread("joint", blocks, weights, weights * left / coarse, notes, test, _spread_of(left))
    if leaning is None:
        return bias
    # What smoothing gets wrong adds to what varies from log to log.
    leaning = leaning[:, blocks.block]
    errors = np.sqrt(bias.standard_errors**2 + ((bias.weights * leaning) ** 2).sum(axis=0))
    return replace(bias, standard_errors=errors)


def _homogeneity(tally: Tally, blocks: Blocks, start: Floats) -> Goodness | None:
    """Test the model in strata of so many positives that no fold alone decides a stratum's rate."""
    positives = float(tally.effective_positives().sum())
    cells = int(np.clip(positives / (STRATUM_POSITIVES * len(tally.groups)), 1, JOINT_STRATA))
    folds = folds_of(tally, blocks, cells)
    weights = joint.estimate(folds[0].sum(axis=0), folds[1].sum(axis=0), start=start)
    return homogeneity(*folds, weights, len(tally.groups), _scatter(tally))


def _filled_cells(tally: Tally, blocks: Blocks) -> int:
    """Return how many cells hold enough rows at each position, where rows stand for others left out.

    In a down-sampled log the impressions of a cell are estimates themselves. With few rows a cell and
    position their noise flattens w: by 13 % at the second slot in a trial with one row, by 1 % with five.
    """
    scatter = _scatter(tally)
    if max(scatter) <= 1:
        return tally.grid.cells
    negatives, positives = tally.counts[:, :1].sum(), tally.counts[:, 1:].sum()
    rows = negatives / scatter[0] + positives / scatter[1]
    return max(1, int(rows / (ROWS_A_CELL * blocks.count * len(tally.groups))))


def _scatter(tally: Tally) -> tuple[float, float]:
    sums = (
        tally.counts.sum(axis=(0, 2, 3), dtype=np.float64),
        tally.squares.sum(axis=(0, 2), dtype=np.float64),
    )
    negative = sums[1][0] / sums[0][0] if sums[0][0] > 0 else 1.0
    return float(negative), float(sums[1][1:].sum() / sums[0][1:].sum())


def _adjacent(tally: Tally, blocks: Blocks, cells: int, truncate: int, cap: float) -> PositionBias:
    # T counts positions; a block past it starts at a position past it.
    first = blocks.positions[0]
    kept = int((blocks.starts - first + 1 <= truncate).sum())
    wanted = min(cells, tally.grid.cells)
    weights = adjacent.estimate(*strata_of(tally, blocks, wanted, by_group=False), kept, cap)
    folds = folds_of(tally, blocks, wanted)
    groups = len(tally.groups)
    pooled = tuple(part.reshape(part.shape[0], groups, -1, blocks.count).sum(axis=1) for part in folds)
    left = _left_out(cast("tuple[Floats, Floats]", pooled), lambda y, n: adjacent.estimate(y, n, kept, cap))
    return _spread("adjacent", blocks, weights, left, blocks.notes + _independence(tally))


def _randomized(tally: Tally, blocks: Blocks, cells: int) -> PositionBias:
    positives, impressions = strata_of(tally, blocks, min(cells, tally.grid.cells))
    shown = tally.counts.sum(axis=(0, 1, 3), dtype=np.float64)[blocks.positions]
    uneven = bool(shown.max() > _EVEN * shown.min())
    folds = folds_of(tally, blocks, cells)
    if not uneven:  # strata without positives count in the plain ratio
        positives, impressions = folds[0].sum(axis=0), folds[1].sum(axis=0)
    weights = randomized.estimate(positives, impressions, stratify=uneven)
    left = _left_out(folds, lambda y, n: randomized.estimate(y, n, stratify=uneven, start=weights))
    notes = blocks.notes + _independence(tally)
    if uneven:
        notes += ("lists differ in length: rates are compared within group and score",)
    return _spread("randomized", blocks, weights, left, notes)


def _swaps(tally: Tally, blocks: Blocks) -> PositionBias:
    if tally.swaps is None:
        raise SettingsError(
            "method 'swaps' needs the column that names the swapped pairs",
            hint="Log(..., swap=COLUMN): the upper position of the pair, null for rows that were in none",
        )
    by_fold = tally.swaps.astype(np.float64)
    first = int(blocks.positions[0])
    last = int(blocks.positions[-1])
    size = last - first + 1
    weights, thin = swaps.estimate(by_fold.sum(axis=0), first, size)
    notes = blocks.notes
    if thin:
        few = f"fewer than {swaps.MIN_POSITIVES:.0f} positives"
        notes += (f"{len(thin)} pairs with {few} in a slot count as equal, the first at position {thin[0]}",)
    if tally.folds is None:  # all swaps were counted in the first fold: Poisson errors of the rates
        positive = by_fold.sum(axis=0)[first : first + size - 1, :, 1]
        relative = np.divide(1.0, positive, out=np.zeros_like(positive), where=positive > 0).sum(axis=1)
        errors = weights * np.concatenate(([0.0], np.sqrt(np.cumsum(relative))))
        return PositionBias("swaps", np.arange(first, last + 1), weights, errors, notes=notes)
    left = np.array([swaps.estimate(by_fold.sum(axis=0) - fold, first, size)[0] for fold in by_fold])
    errors = _spread_of(left)
    return PositionBias("swaps", np.arange(first, last + 1), weights, errors, notes=notes, left_out=left)


def _given(method: object, tally: Tally) -> PositionBias:
    if isinstance(method, Mapping):
        pairs = sorted((int(position), float(weight)) for position, weight in method.items())
        positions = np.array([position for position, _ in pairs], np.int64)
        weights = np.array([weight for _, weight in pairs])
    else:
        try:
            weights = np.asarray(method, dtype=np.float64)
        except (TypeError, ValueError):
            weights = np.zeros(0)  # refused below
        rows = tally.counts.sum(axis=(0, 1, 3))
        first = int(np.flatnonzero(rows)[0]) if rows.any() else 1
        positions = np.arange(first, first + weights.size)
    if weights.ndim != 1 or weights.size == 0 or not np.isfinite(weights).all() or not (weights > 0).all():
        raise SettingsError(
            "given position weights must be a list of numbers above 0, one a position from the first on"
        )
    deepest = int(np.flatnonzero(tally.counts.sum(axis=(0, 1, 3)))[-1]) if tally.counts.any() else 0
    notes: tuple[str, ...] = ()
    if deepest > positions[-1]:
        said = f"weights are given up to position {positions[-1]}: those down to {deepest} take the last one"
        notes = (said,)
    return PositionBias("given", positions, weights / weights[0], np.zeros(weights.size), notes=notes)


def _independence(tally: Tally) -> tuple[str, ...]:
    note = folds_note(tally)
    return () if note is None else (note,)


def _left_out(folds: tuple[Floats, Floats], estimate: Callable[[Floats, Floats], Floats]) -> Floats:
    """Return the estimates with one fold of queries left out at a time."""
    positives, impressions = folds[0].sum(axis=0), folds[1].sum(axis=0)
    return np.array([estimate(positives - y, impressions - n) for y, n in zip(*folds, strict=True)])


def _spread_of(left_out: Floats) -> Floats:
    count = len(left_out)
    return cast(
        "Floats", np.sqrt((count - 1) / count * ((left_out - left_out.mean(axis=0)) ** 2).sum(axis=0))
    )


def _spread(
    method: str,
    blocks: Blocks,
    weights: Floats,
    left: Floats,
    notes: tuple[str, ...],
    goodness: Any = None,
    errors: Floats | None = None,
) -> PositionBias:
    errors = _spread_of(left) if errors is None else errors
    block = blocks.block
    return PositionBias(
        method, blocks.positions, weights[block], errors[block], goodness, notes, left[:, block]
    )
