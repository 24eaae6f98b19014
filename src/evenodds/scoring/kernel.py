"""Sampling from a kernel: one uniform number picks the destination bin, and the point within it.

All rows of all groups' kernels stand end to end on one line, row r on [r, r + 1), cut at the row's
cumulative probabilities. Row number plus draw is a place on that line; a binary search finds the
piece, and how far into the piece the place lies is uniform again: the point within the bin.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from scipy import sparse

from evenodds.maps import ReturnScale

Floats = npt.NDArray[np.float64]
Codes = npt.NDArray[np.intp]

_BLOCK = 32_768  # draws read at a time: temporaries stay in the second-level cache
MAX_ROWS = 1 << 17  # 17 bits of row number and 36 of draw make 53: their sum is exact


class KernelTable:
    """The kernels of all groups as flat arrays.

    Parameters
    ----------
    rows
        One K x T matrix a group; rows sum to 1.
    low, high
        Where each target bin begins and ends, on whatever scale the caller reads the outcome.
    back
        From that scale, in its steps, to scores. The pieces are cut at its steps once, so that an
        outcome needs no second look-up.
    """

    def __init__(
        self, rows: tuple[sparse.csr_array, ...], low: Floats, high: Floats, back: ReturnScale | None = None
    ) -> None:
        self.bins = int(rows[0].shape[0])
        marks, targets, sources, chances = [], [], [], []
        for group, matrix in enumerate(rows):
            entries = matrix.tocsr().sorted_indices()
            for k in range(self.bins):
                part = slice(int(entries.indptr[k]), int(entries.indptr[k + 1]))
                chance = entries.data[part]
                held = np.flatnonzero(chance > 0)
                chance = chance[held] / chance[held].sum()
                below = np.concatenate(([0.0], np.cumsum(chance)[:-1]))
                marks.append(group * self.bins + k + below)
                targets.append(entries.indices[part][held])
                sources.append(np.full(held.size, k))
                chances.append(chance)
        self.marks = np.concatenate(marks)
        self.target = np.concatenate(targets).astype(np.intp)
        self.source = np.concatenate(sources).astype(np.intp)
        self.chance = np.concatenate(chances)
        width = np.append(self.marks[1:], float(len(rows) * self.bins)) - self.marks
        self.low = low[self.target]
        self._inverse = np.divide(1.0, width, out=np.zeros_like(width), where=width > 0)
        self.span = (high - low)[self.target]
        pieces = (self.marks, self.low, self.low + self.span, width)
        start, first, last, width = pieces if back is None else _cut(*pieces, back)
        # Looked up from the second mark on, a place finds its own piece, not the next one.
        self._after = start[1:].copy()
        rise = np.divide(last - first, width, out=np.zeros_like(width), where=width > 0)
        # One row of 32 bytes a piece: what a draw needs of it comes from one line of the cache.
        self._lines = np.stack((start, rise, first, np.zeros_like(first)), axis=1)

    def piece(self, rows: Codes, draws: Floats) -> tuple[Codes, Floats]:
        """Return the piece each draw falls on, and how far into it."""
        place = draws + rows
        piece = self.marks.searchsorted(place, "right")
        piece -= 1
        place -= self.marks[piece]
        return piece, place

    def outcome(self, rows: Codes, draws: Floats) -> Floats:
        """Return the outcome of each draw: on the scale of `low` and `high`, or as `back` reads it."""
        place = draws + rows
        if place.size <= _BLOCK:
            self._read(place)
        else:
            for start in range(0, place.size, _BLOCK):
                self._read(place[start : start + _BLOCK])
        return place

    def _read(self, place: Floats) -> None:
        """Put the outcomes where the places are."""
        line = self._lines.take(self._after.searchsorted(place, "right"), axis=0)
        place -= line[:, 0]
        place *= line[:, 1]
        place += line[:, 2]

    def cuts(self) -> tuple[Floats, Floats, Floats]:
        """Return where each cut piece starts, the outcome there, and how fast it rises."""
        start, rise, first = (self._lines[:, column].copy() for column in range(3))
        return start, first, rise

    def within(self, piece: Codes, place: Floats) -> Floats:
        """Return how far into its target bin a draw lies, in [0, 1)."""
        return place * self._inverse[piece]


def _cut(
    marks: Floats, low: Floats, high: Floats, width: Floats, back: ReturnScale
) -> tuple[Floats, Floats, Floats, Floats]:
    """Cut each piece where it passes a step of the way back; between steps that way is straight."""
    begin = np.floor(low)
    count = np.maximum(np.ceil(high) - begin, 1.0).astype(np.intp)
    piece = np.repeat(np.arange(marks.size), count)
    step = begin[piece] + (np.arange(piece.size) - np.repeat(np.cumsum(count) - count, count))
    from_level, to_level = np.maximum(step, low[piece]), np.minimum(step + 1.0, high[piece])
    span = (high - low)[piece]
    share = np.divide(from_level - low[piece], span, out=np.zeros_like(span), where=span > 0)
    length = np.divide(to_level - from_level, span, out=np.ones_like(span), where=span > 0)
    start = marks[piece] + width[piece] * share
    return start, back(from_level.copy()), back(to_level.copy()), width[piece] * length


def kernel_to_json(rows: sparse.csr_array) -> list[list[list[float]]]:
    """Return ``[[targets], [probabilities]]`` for each bin."""
    matrix = rows.tocsr().sorted_indices()
    parts = [slice(int(a), int(b)) for a, b in zip(matrix.indptr[:-1], matrix.indptr[1:], strict=True)]
    return [[matrix.indices[part].tolist(), matrix.data[part].tolist()] for part in parts]


def kernel_from_json(rows: list[list[list[float]]], targets: int) -> sparse.csr_array:
    """Read what `kernel_to_json` wrote."""
    sizes = [len(row[0]) for row in rows]
    indices = np.array([target for row in rows for target in row[0]], dtype=np.int64)
    data = np.array([chance for row in rows for chance in row[1]], dtype=np.float64)
    indptr = np.concatenate(([0], np.cumsum(sizes)))
    return sparse.csr_array((data, indices, indptr), shape=(len(rows), targets))
