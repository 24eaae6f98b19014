"""The state of a stream: the counts and the number of the batch that they reach to, in one file.

The file is a tally like any other, with the facts of the stream beside the counts. It is written aside,
forced to disk and renamed, so that at any moment there is the state before a batch or the one after it.
A batch that is handed over again after a crash is recognised by its number and not counted twice.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from evenodds.errors import DamagedFileError, TallyError
from evenodds.grid import Grid
from evenodds.log import Roles
from evenodds.tally import Tally
from evenodds.tally_file import read_with_extra, write

FILE = "state.tally"
_FORMAT = 1
_GONE = 1e-12  # a weight below which what was counted is forgotten
_ROUNDING = 1e-9  # of the largest count, below which a difference is none


@dataclass(frozen=True)
class Facts:
    """What stands beside the counts.

    Attributes
    ----------
    query
        The stream's own name for itself, which its checkpoint keeps.
    batch
        The last batch that is in the counts; -1 before the first.
    cut
        Whether the score cells are final.
    clock
        Seconds since 1970 that the counts reach to, by the rows' own time if they have one.
    epoch
        How often everything before has been forgotten.
    faded
        By how many halvings the counts have been weighed down altogether.
    seen, refused
        Rows that came, and those that could not be counted, by reason.
    late
        Rows that came after the watermark.
    fitted
        About the last fit: ``batch``, ``at`` (seconds since 1970), ``checks`` for drift since.
    """

    query: str
    batch: int = -1
    cut: bool = False
    clock: float | None = None
    epoch: int = 0
    faded: float = 0.0
    seen: int = 0
    refused: dict[str, int] = field(default_factory=dict)
    late: int = 0
    fitted: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class State:
    """The counts and the facts."""

    tally: Tally
    facts: Facts

    @classmethod
    def fresh(cls, roles: Roles, depth: int, query: str, grid: Grid | None, source: str) -> State:
        """Begin with nothing; without a grid the first rows will cut one."""
        cut = grid if grid is not None else Grid(np.empty(0), np.empty(0, np.int64))
        shape = (0, roles.outcomes + 1, 1)
        empty = Tally(
            grid=cut,
            groups=(),
            roles=roles,
            counts=np.zeros((*shape, cut.cells), np.int64),
            squares=np.zeros(shape, np.int64),
            folds=None,
            swaps=None,
            depth=depth,
            score_range=(np.inf, -np.inf),
            rows=0,
            sources=(source,),
        )
        return cls(empty, Facts(query, cut=grid is not None))

    @classmethod
    def load(cls, folder: Path) -> State | None:
        """Read the state of a folder; None if there is none yet."""
        path = folder / FILE
        if not path.exists():
            return None
        tally, extra = read_with_extra(path)
        if extra is None or extra.get("stream") != _FORMAT:
            raise DamagedFileError(
                f"{path} is a tally, not the state of a stream", hint="choose another folder"
            )
        facts = Facts(**{name: extra[name] for name in asdict(Facts(""))})
        if not tally.groups:
            tally = replace(tally, score_range=(np.inf, -np.inf))
        return cls(tally, facts)

    def save(self, folder: Path) -> None:
        """Replace the file as a whole, on disk before it returns."""
        tally = self.tally if self.tally.groups else replace(self.tally, score_range=(0.0, 0.0))
        extra = {"stream": _FORMAT, **asdict(self.facts)}
        write(tally, folder / FILE, overwrite=True, extra=extra, durable=True)

    def plus(self, counted: Tally | None, batch: int, clock: float | None, half_life: float | None) -> State:
        """Add a batch's counts, those before weighed down by how much later they are."""
        facts, held = self.facts, self.tally
        later = clock if facts.clock is None or (clock is not None and clock > facts.clock) else facts.clock
        age = 0.0 if later is None or facts.clock is None else later - facts.clock
        halvings = 0.0 if half_life is None else age / half_life
        epoch = facts.epoch
        if halvings > 0 and held.groups:
            factor = 0.5**halvings
            if factor > _GONE:
                held = held.decay(factor)
            else:
                held, epoch = emptied(held), epoch + 1
        if counted is not None:
            held = replace(held + counted, sources=held.sources) if held.groups else counted
        changed = replace(facts, batch=batch, clock=later, epoch=epoch, faded=facts.faded + halvings)
        return State(held, changed)


def emptied(tally: Tally) -> Tally:
    """Return a tally without its rows."""
    return replace(
        tally,
        groups=(),
        counts=tally.counts[:0],
        squares=tally.squares[:0],
        folds=None if tally.folds is None else tally.folds[:0],
        swaps=None if tally.swaps is None else np.zeros_like(tally.swaps),
        rows=0,
        score_range=(np.inf, -np.inf),
    )


def since(now: Tally, before: Tally, halvings: float) -> Tally:
    """Return what was added after `before`, which has since been weighed down by so many halvings.

    Exact for whole counts; with forgetting what rounding leaves is taken for nothing.
    """
    older = before if halvings == 0 else before.decay(max(0.5**halvings, 1e-300))
    if now.grid != before.grid or not set(before.groups) <= set(now.groups):
        raise TallyError("these counts did not grow out of those: they cannot be subtracted")

    def less(one: npt.NDArray[Any] | None, two: npt.NDArray[Any] | None) -> npt.NDArray[Any] | None:
        if one is None or two is None:
            return None
        rest = one.astype(np.result_type(one, two))
        places = [now.groups.index(group) for group in before.groups]
        rest[places, :, : two.shape[2]] -= two
        if rest.dtype.kind == "f":
            rest[rest < _ROUNDING * max(float(one.max(initial=0.0)), 1e-300)] = 0.0
        return rest

    counts, squares = less(now.counts, older.counts), less(now.squares, older.squares)
    assert counts is not None and squares is not None  # noqa: S101, PT018  (both sides have them)
    return replace(
        now,
        counts=counts,
        squares=squares,
        folds=less(now.folds, older.folds),
        swaps=None if now.swaps is None or older.swaps is None else np.maximum(now.swaps - older.swaps, 0),
        rows=now.rows - before.rows,
    )
