"""Search without a loop: a monotone guess from a table, and how far a right answer can lie from it.

Neither ONNX nor SQL has a binary search, but both have arithmetic, look-ups by number, and joins on equal
numbers. ``bucket(x) = floor((min(max(x, low), high) - low) * scale)`` rounds monotonically, so the bucket of
a value bounds its place among sorted ends exactly, whatever the rounding.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from evenodds.export.flat import Pieces

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

MAX_BUCKETS = 1 << 16
_ENOUGH = 4  # ends in one bucket that are as good as one: they are compared at once


@dataclass(frozen=True, eq=False)
class Buckets:
    """Buckets over the sorted `ends` of cells; cell i holds the values from ``ends[i - 1]`` to below ``ends[i]``.

    Attributes
    ----------
    first
        For each bucket, how many ends lie in the buckets before it.
    most
        How many ends at most lie in one bucket.
    """

    ends: Floats
    low: float
    high: float
    scale: float
    first: Ints
    most: int

    @classmethod
    def over(cls, ends: Floats) -> Buckets:
        """Cut the range of the ends into as few buckets as leave no more than a handful of ends in any.

        >>> buckets = Buckets.over(np.array([0.0, 0.5, 2.0]))
        >>> buckets.of(np.array([-9.0, 0.1, 9.0])).tolist(), buckets.most
        ([0, 0, 1], 2)
        """
        best = None
        count = 2
        while best is None or (best.most > _ENOUGH and count <= MAX_BUCKETS):
            best = cls._with(ends, count)
            count *= 2
        return best

    @classmethod
    def _with(cls, ends: Floats, count: int) -> Buckets:
        low, high = (float(ends[0]), float(ends[-1])) if ends.size else (0.0, 0.0)
        with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
            scale = float(np.float64(count - 1) / (np.float64(high) - low))
        if not 0.0 < scale < np.inf:  # one end, or ends that lie too close together or too far apart
            scale = 0.0
        if scale == 0.0 or not np.isfinite((high - low) * scale):
            return cls(ends, low, high, 0.0, np.zeros(1, dtype=np.int64), int(ends.size))
        holds = np.floor((ends - low) * scale).astype(np.int64)
        numbers = np.arange(int(holds[-1]) + 2)
        first = np.searchsorted(holds, numbers)
        return cls(ends, low, high, scale, first[:-1], int(np.diff(first).max()))

    def of(self, values: Floats) -> Ints:
        """Return each value's bucket."""
        return np.floor((np.minimum(np.maximum(values, self.low), self.high) - self.low) * self.scale).astype(
            np.int64
        )

    def reach(self) -> tuple[Ints, Ints]:
        """Return the first and the last bucket that each cell reaches into."""
        inside = self.of(self.ends)
        return np.concatenate(([0], inside)), np.concatenate((inside, [self.first.size - 1]))


@dataclass(frozen=True, eq=False)
class StepGuess:
    """The number of the cut a place lies on, within its piece, by a straight line; and how far it can be off.

    ``min((place - mark) * rate + phase, last)``, rounded down, never lies more than `early` cuts too far nor
    more than `late` too near: rounding is monotone, so it is enough to look at both ends of every cut.
    """

    rate: Floats
    phase: Floats
    last: Floats
    early: int
    late: int

    @classmethod
    def of(cls, pieces: Pieces) -> StepGuess:
        """Guess for the pieces of a kernel table."""
        rate, phase = pieces.inverse * pieces.span, pieces.low - np.floor(pieces.low)
        counts = np.diff(np.append(pieces.offset, pieces.start.size))
        last = counts - 1.0
        piece = np.repeat(np.arange(counts.size), counts)
        own = np.arange(piece.size) - pieces.offset[piece]
        stop = np.append(pieces.start[1:], float(pieces.begins.size))
        held = np.flatnonzero(stop > pieces.start)
        piece, own = piece[held], own[held]
        off = []
        for place in (pieces.start[held], np.nextafter(stop[held], -np.inf)):
            far = np.minimum((place - pieces.marks[piece]) * rate[piece] + phase[piece], last[piece])
            off.append(np.floor(far).astype(np.int64) - own)
        errors = np.concatenate(off) if held.size else np.zeros(1, dtype=np.int64)
        return cls(rate, phase, last, max(int(errors.max()), 0), max(int(-errors.min()), 0))
