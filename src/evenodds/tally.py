"""The counts: all that is ever learned from rows.

``counts[group, label, position, cell]`` is a table of a few million numbers at most. Tallies add
up: shards, days and machines each count, and the counts are merged.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeGuard, cast

import numpy as np
import numpy.typing as npt

from evenodds.engines.arrow import Counted, Counts
from evenodds.errors import GridMismatchError, SettingsError, TallyError
from evenodds.grid import MAX_CELLS, Grid
from evenodds.groups import Group, group_name
from evenodds.log import Log, Roles

if TYPE_CHECKING:
    from evenodds.privacy import Suppressed

Floats = npt.NDArray[np.float64]
DEPTH = 100


@dataclass(frozen=True, eq=False)
class Tally:
    """Counts of a log, with its grid, roles and provenance.

    Attributes
    ----------
    groups
        The groups in sorted order, each a tuple with one name per group column.
    counts
        ``counts[group, label, position, cell]``: whole numbers, or sums of weights. The position axis
        holds positions as logged, from 0; without a position column it has the length 1.
    squares
        ``squares[group, label, position]``: sums of squared weights (the counts, without weights).
    folds
        ``folds[group, label, position, fold, coarse cell]``: the same counts in 20 folds of queries,
        for standard errors; None without a query column.
    swaps
        ``swaps[fold, pair, upper or lower, label]`` for logs of swapped pairs, else None.
    depth
        Positions past it are pooled in the slot ``depth + 1``.
    """

    grid: Grid
    groups: tuple[Group, ...]
    roles: Roles
    counts: Counts
    squares: Counts
    folds: Counts | None
    swaps: Counts | None
    depth: int
    score_range: tuple[float, float]
    rows: int
    sources: tuple[str, ...]

    def __repr__(self) -> str:
        names = ", ".join(map(group_name, self.groups[:4])) + (", ..." if len(self.groups) > 4 else "")
        return f"Tally({self.rows:,} rows, groups: {names}; {self.grid.cells:,} cells)"

    @property
    def weighted(self) -> bool:
        """Whether the counts are sums of weights, or have been decayed."""
        return bool(self.counts.dtype == np.float64)

    @property
    def suppressed(self) -> bool:
        """Whether small counts were merged or dropped, in all or a part of it; see :meth:`suppress`."""
        return any(source.startswith("<suppressed") for source in self.sources)

    @property
    def edges(self) -> Floats:
        """The ends of all score cells."""
        return self.grid.edges(*self.score_range)

    def equals(self, other: Tally) -> bool:
        """Whether two tallies hold the same counts of the same roles on the same grid."""
        return (
            self._mismatch(other) is None
            and self.groups == other.groups
            and self.score_range == other.score_range
            and self.rows == other.rows
            and _same(self.counts, other.counts)
            and _same(self.squares, other.squares)
            and _same(self.folds, other.folds)
            and _same(self.swaps, other.swaps)
        )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Tally) and self.equals(other)

    def __hash__(self) -> int:
        return hash((self.grid, self.rows, self.groups))

    def __add__(self, other: Tally) -> Tally:
        """Merge two tallies; exact for whole counts, in any order."""
        if not isinstance(other, Tally):
            return NotImplemented
        wrong = self._mismatch(other)
        if wrong is not None:
            raise GridMismatchError(
                f"these tallies cannot be merged: {wrong}", hint="count the second with --grid-from the first"
            )
        groups = tuple(sorted({*self.groups, *other.groups}))
        positions = max(self.counts.shape[2], other.counts.shape[2])

        def joined(one: Counts | None, two: Counts | None) -> Counts | None:
            if one is None or two is None:
                return None
            both = np.zeros((len(groups), one.shape[1], positions, *one.shape[3:]), np.result_type(one, two))
            for tally, part in ((self, one), (other, two)):
                places = [groups.index(group) for group in tally.groups]
                both[places, :, : part.shape[2]] += part
            return both

        return replace(
            self,
            groups=groups,
            counts=cast("Counts", joined(self.counts, other.counts)),
            squares=cast("Counts", joined(self.squares, other.squares)),
            folds=joined(self.folds, other.folds),
            swaps=None if self.swaps is None or other.swaps is None else self.swaps + other.swaps,
            score_range=(
                min(self.score_range[0], other.score_range[0]),
                max(self.score_range[1], other.score_range[1]),
            ),
            rows=self.rows + other.rows,
            sources=tuple(sorted({*self.sources, *other.sources})),
        )

    def __radd__(self, other: object) -> Tally:
        """Let ``sum(tallies)`` work, which starts at 0."""
        return self if other == 0 else NotImplemented

    def _mismatch(self, other: Tally) -> str | None:
        if self.grid != other.grid:
            return "their score cells (grids) differ"
        if self.roles.group != other.roles.group:
            return f"their group columns differ, {list(self.roles.group)} and {list(other.roles.group)}"
        if self.roles.outcomes != other.roles.outcomes:
            return f"one has {self.roles.outcomes} outcomes and the other {other.roles.outcomes}"
        if self.depth != other.depth:
            return f"positions are pooled past {self.depth} in one and past {other.depth} in the other"
        for role in ("position", "query", "swap"):
            if (getattr(self.roles, role) is None) != (getattr(other.roles, role) is None):
                return f"only one of them has a {role} column"
        return None

    def decay(
        self, factor: float | None = None, *, half_life: float | None = None, age: float = 1.0
    ) -> Tally:
        """Weigh the counts down before newer ones are added: by `factor`, or by ``0.5 ** (age / half_life)``."""
        if (factor is None) == (half_life is None):
            raise SettingsError("decay takes either a factor or a half_life")
        if half_life is not None:
            if not half_life > 0 or not age >= 0:
                raise SettingsError(
                    f"half_life must be above 0 and age at least 0, got {half_life} and {age}"
                )
            factor = 0.5 ** (age / half_life)
        if factor is None or not 0 < factor <= 1:
            raise SettingsError(f"the decay factor must lie in (0, 1], got {factor}")
        return replace(
            self,
            counts=self.counts * factor,
            squares=self.squares * factor**2,
            folds=None if self.folds is None else self.folds * factor,
            swaps=None if self.swaps is None else self.swaps * factor,
        )

    def suppress(self, k: int, *, cells: int | None = None, depth: int | None = None) -> Suppressed:
        """Make a k-anonymous tally of this one, to give away; return it with what it cost.

        Every count in it, by group, label, position and score cell, is 0 or stands for at least `k` rows.
        Neighbouring score cells are merged first, and deep positions pooled; what is then still too small
        is joined to a neighbouring cell; what is too small as a whole is dropped. Groups with fewer than
        `k` rows or positives go under the name "other". Folds of queries are left out. See
        docs/guides/privacy.md for what this does and does not hide.

        Parameters
        ----------
        k
            The least number of rows that a count stands for.
        cells, depth
            How many score cells, and which positions, to keep apart at the most; None chooses.

        Examples
        --------
        >>> from evenodds.simulate import simulate
        >>> kept = tally(simulate(queries=1000)).suppress(10)
        >>> bool(kept.tally.counts[kept.tally.counts > 0].min() >= 10)
        True
        """
        from evenodds.privacy import suppress

        return suppress(self, k, cells=cells, depth=depth)

    def effective(self) -> Floats:
        """Return the rows' worth of evidence by group and label: (sum of weights)^2 / sum of squares."""
        return worth(
            self.counts.sum(axis=(2, 3), dtype=np.float64), self.squares.sum(axis=2, dtype=np.float64)
        )

    def effective_positives(self) -> Floats:
        """Return the same for all positive labels together, by group."""
        positive, squares = self.counts[:, 1:], self.squares[:, 1:]
        return worth(
            positive.sum(axis=(1, 2, 3), dtype=np.float64), squares.sum(axis=(1, 2), dtype=np.float64)
        )

    def save(self, path: str | os.PathLike[str], *, overwrite: bool = False) -> None:
        """Write one Parquet file: the counts that are not zero, with everything else as metadata."""
        from evenodds.tally_file import write

        write(self, path, overwrite=overwrite)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Tally:
        """Read a tally back; a truncated or edited file is refused."""
        from evenodds.tally_file import read

        return read(path)


def worth(totals: Floats, squares: Floats) -> Floats:
    """Return the rows' worth of evidence, (sum of weights)^2 / sum of squares."""
    return np.divide(totals**2, squares, out=np.zeros_like(totals), where=squares > 0)


def _same(one: Counts | None, other: Counts | None) -> bool:
    if one is None or other is None:
        return one is other
    return one.shape == other.shape and bool((one == other).all())


def from_counted(
    counted: Counted, grid: Grid, log_roles: Roles, depth: int, sources: tuple[str, ...]
) -> Tally:
    """Put what an engine counted in order: groups sorted, trailing positions without rows cut off."""
    order = sorted(range(len(counted.groups)), key=lambda place: counted.groups[place])
    used = np.flatnonzero(counted.squares.any(axis=(0, 1)))
    positions = int(used[-1]) + 1 if used.size else 1
    return Tally(
        grid=grid,
        groups=tuple(counted.groups[place] for place in order),
        roles=log_roles,
        counts=counted.counts[order][:, :, :positions],
        squares=counted.squares[order][:, :, :positions],
        folds=None if counted.folds is None else counted.folds[order][:, :, :positions],
        swaps=counted.swaps,
        depth=depth,
        score_range=counted.score_range,
        rows=counted.rows,
        sources=sources,
    )


def tally(
    log: object,
    *,
    cells: int = MAX_CELLS,
    depth: int = DEPTH,
    grid: Grid | Tally | None = None,
    progress: Callable[[int], None] | None = None,
    **roles: object,
) -> Tally:
    """Count a log: the one pass over its rows.

    Parameters
    ----------
    log
        A :class:`Log`, or anything that `Log` takes, with its column roles as keywords.
    cells
        How many score cells to cut, by quantiles of a sample.
    depth
        Positions past this one are pooled.
    grid
        Reuse the cells of another tally, so that the two can be merged.
    progress
        Called with the number of rows after each batch.

    Notes
    -----
    What a feedback store has folded (see :mod:`evenodds.feedback`) is added, and its cells are taken.

    Examples
    --------
    >>> from evenodds.simulate import simulate
    >>> tally(simulate(queries=100), cells=50)
    Tally(5,000 rows, groups: A, B; 50 cells)
    """
    known = as_log(log, roles)
    if known.spark_frame is None:
        from evenodds.engines.local import count
    else:
        from evenodds.engines.spark import count
    if depth % 1 or depth < 1:
        raise SettingsError(f"depth must be a whole number of at least 1, got {depth}")
    held = None if known.folded is None else _folded(known)
    if held is not None:
        if known.rows == 0:
            return held
        grid = held if grid is None else grid
        depth = held.depth if depth == DEPTH else depth
    if grid is None:
        sample = known.score_sample()
        # An empty or unusable sample is reported with every other problem by the count below.
        cut = Grid.from_sample(sample if sample.size else np.zeros(1), cells)
    else:
        cut = grid.grid if isinstance(grid, Tally) else grid
    counted = from_counted(count(known, cut, depth, progress), cut, known.roles, depth, known.names)
    return counted if held is None else held + counted


def _folded(log: Log) -> Tally:
    from evenodds.tally_file import from_bytes

    return from_bytes(cast("bytes", log.folded), f"the tally in {log.names[0]}")


def as_log(log: object, roles: dict[str, object]) -> Log:
    """Return the log as it is, or make one from a table and its column roles."""
    if isinstance(log, Log):
        if roles:
            raise SettingsError(f"column roles belong to the Log: {', '.join(roles)} cannot be given again")
        return log
    return Log(log, **roles)  # type: ignore[arg-type]  # checked by Log itself, name by name


def as_tally(data: object, roles: dict[str, object] | None = None) -> Tally:
    """Return a tally as it is, merge a list of tallies, or count a log."""
    if not is_counted(data):
        return tally(data, **(roles or {}))  # type: ignore[arg-type]  # as above
    if roles:
        raise SettingsError(f"a tally is counted already: {', '.join(roles)} would have no effect")
    return data if isinstance(data, Tally) else cast("Tally", sum(data))


def is_counted(data: object) -> TypeGuard[Tally | list[Tally]]:
    """Whether these are counts: a tally, or several."""
    if isinstance(data, list | tuple):
        return bool(data) and all(isinstance(part, Tally) for part in data)
    return isinstance(data, Tally)


def check_comparable(counted: Tally) -> None:
    """Refuse a tally that no two groups can be compared on."""
    if not counted.groups:
        raise TallyError("the tally is empty: no rows were counted yet")
    if len(counted.groups) < 2:
        raise TallyError(
            f"only one group ({group_name(counted.groups[0])}) in column {'/'.join(counted.roles.group)}: "
            "there is nothing to compare",
            hint="is this the right group column?",
        )
    if not counted.counts[:, 1:].any():
        raise TallyError("no positive label in the log: nothing to learn from")
