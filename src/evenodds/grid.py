"""Score cells: quantile cells of a sample, with a cell of its own for every heavy tie.

A grid is made once and carried inside the tally; tallies add up only when their grids are equal.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from evenodds.errors import SettingsError, TallyError

Floats = npt.NDArray[np.float64]
MAX_CELLS = 10_000
_BUCKETS_PER_CELL = 26  # uniform buckets a cell: about 4 % of rows then need a binary search
_SEARCH_BELOW = 64  # a binary search over so few boundaries beats any table


@dataclass(frozen=True, eq=False)
class Grid:
    """Cells ``[boundaries[b - 1], boundaries[b])``; the first and the last one are open-ended.

    Attributes
    ----------
    boundaries
        Ascending inner boundaries, one fewer than cells.
    atoms
        Cells that hold one score value only: ``[v, next float after v)``.
    """

    boundaries: Floats
    atoms: npt.NDArray[np.int64]

    @classmethod
    def from_sample(cls, scores: Floats, cells: int = MAX_CELLS) -> Grid:
        """Cut a sample into cells of equal mass; a value with more than a cell's share becomes an atom.

        >>> grid = Grid.from_sample(np.array([0.0, 0.5, 0.5, 0.5, 0.9, 1.0]), cells=3)
        >>> grid.locate(np.array([0.4, 0.5, 0.6])).tolist(), grid.atoms.tolist()
        ([0, 1, 2], [1])
        """
        if cells % 1 or not 1 <= cells <= MAX_CELLS:
            raise SettingsError(f"cells must be a whole number in 1..{MAX_CELLS}, got {cells}")
        if scores.size == 0:
            raise TallyError("no scores to make a grid from: the log is empty")
        ordered = np.sort(scores)
        starts = np.flatnonzero(np.concatenate(([True], ordered[1:] != ordered[:-1])))
        mass = np.diff(np.append(starts, ordered.size))
        # A value that came once is no tie, however small the sample is.
        heavy = ordered[starts[(mass * cells > ordered.size) & (mass > 1)]]
        # An atom swallows the quantiles that fall on it and adds its two ends, so make room for it.
        plain = max(cells - heavy.size, 1)
        quantiles = ordered[np.arange(1, plain) * ordered.size // plain]
        # At the ends a boundary would cut off a cell without width, on which a map could only jump.
        quantiles = quantiles[(quantiles > ordered[0]) & (quantiles < ordered[-1])]
        above = np.nextafter(heavy, np.inf)
        boundaries = np.unique(np.concatenate((quantiles, heavy, above)))
        return cls(boundaries, np.searchsorted(boundaries, heavy, side="right").astype(np.int64))

    @property
    def cells(self) -> int:
        """How many cells there are."""
        return int(self.boundaries.size + 1)

    @cached_property
    def fingerprint(self) -> str:
        """Name the grid by its content."""
        return hashlib.sha256(self.boundaries.tobytes() + self.atoms.tobytes()).hexdigest()[:16]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Grid) and self.fingerprint == other.fingerprint

    def __hash__(self) -> int:
        return hash(self.fingerprint)

    def locate(self, scores: Floats) -> npt.NDArray[np.int32]:
        """Return the cell of each score; exact, ten times as fast as a binary search on even scores.

        A uniform table of buckets answers for every bucket that no boundary falls into; rows in
        the others are searched. ``(s - low) * scale`` rounds monotonically, which makes it exact.
        """
        table = self._table
        if table is None:
            return np.searchsorted(self.boundaries, scores, side="right").astype(np.int32)
        low, high, scale, cell_of = table
        bucket = np.clip(scores, low, high)  # first of all, so that nothing overflows
        bucket -= low
        bucket *= scale
        cell: npt.NDArray[np.int32] = cell_of[bucket.astype(np.int32)]
        mixed = np.flatnonzero(cell < 0)
        cell[mixed] = np.searchsorted(self.boundaries, scores[mixed], side="right")
        return cell

    @cached_property
    def _table(self) -> tuple[float, float, float, npt.NDArray[np.int32]] | None:
        if self.boundaries.size < _SEARCH_BELOW:
            return None
        low, high = float(self.boundaries[0]), float(self.boundaries[-1])
        buckets = 1 << int(np.ceil(np.log2(_BUCKETS_PER_CELL * self.cells)))
        with np.errstate(over="ignore"):
            scale = (buckets - 1) / (high - low)
        if not 0.0 < scale < np.inf:
            return None
        holds = ((self.boundaries - low) * scale).astype(np.int32)
        cell_of = np.searchsorted(holds, np.arange(buckets), side="right").astype(np.int32)
        cell_of[holds] = -1
        return low, high, scale, cell_of

    def edges(self, low: float, high: float) -> Floats:
        """Return all cells' ends, ``cells + 1`` of them, closing the open cells at `low` and `high`."""
        if self.boundaries.size == 0:
            return np.array([low, max(low, high)])
        first = min(low, float(self.boundaries[0]))
        last = max(high, float(self.boundaries[-1]))
        return np.concatenate(([first], self.boundaries, [last]))

    def is_atom(self) -> npt.NDArray[np.bool_]:
        """Return a mask over cells."""
        mask = np.zeros(self.cells, dtype=bool)
        mask[self.atoms] = True
        return mask

    def coarse(self, cells: int) -> npt.NDArray[np.int32]:
        """Map each cell to one of at most `cells` runs of neighbouring cells."""
        wanted = min(cells, self.cells)
        return (np.arange(self.cells, dtype=np.int64) * wanted // self.cells).astype(np.int32)

    def thinned(self, cells: int) -> tuple[Grid, npt.NDArray[np.int64]]:
        """Return a grid of about `cells` of these cells, atoms kept whole, and the boundaries that stay."""
        if cells >= self.cells:
            return self, np.arange(self.boundaries.size)
        run = self.coarse(max(cells, 1))
        stays = np.concatenate(([False], run[1:] != run[:-1]))
        stays[self.atoms] = True
        stays[np.minimum(self.atoms + 1, self.cells - 1)] = True
        stays[0] = False
        kept = np.flatnonzero(stays[1:])
        boundaries = self.boundaries[kept]
        values = self.boundaries[self.atoms - 1]
        atoms = np.searchsorted(boundaries, values, side="right").astype(np.int64)
        return Grid(boundaries, atoms), kept
