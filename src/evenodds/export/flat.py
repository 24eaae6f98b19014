"""A fitted model as the numbers that another system needs, whatever it was fitted for.

The one place where exports look into a model. What they write computes with these numbers in the order in
which :meth:`evenodds.Reranker.transform` does, so that results agree to the last bit.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from evenodds.errors import SettingsError
from evenodds.groups import other_names
from evenodds.maps import CdfMaps
from evenodds.model_file import parse_model
from evenodds.reranker import Reranker
from evenodds.scoring.opportunity import OpportunityScorer

if TYPE_CHECKING:
    from evenodds.scoring.odds import OddsScorer

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Curves:
    """Functions on shared score cells, one a row: what `CdfMaps` computes with.

    Attributes
    ----------
    edges
        Where cells end, ascending, ``cells + 1`` of them.
    cdf
        ``cdf[row, edge]``, still to be multiplied by `height`.
    atom
        Cells that are one score: there the function jumps, and a draw says how far up.
    cubic
        Coefficients of run, run^2 and run^3, shape (3, rows, cells); None where cells are straight.
    """

    edges: Floats
    cdf: Floats
    atom: Flags
    height: float
    cubic: Floats | None

    @property
    def cells(self) -> int:
        """How many cells there are."""
        return int(self.atom.size)


@dataclass(frozen=True, eq=False)
class Pieces:
    """Kernel rows end to end on a line, cut into pieces: what `KernelTable` computes with.

    Row r lies on [r, r + 1). Each piece leads to a target bin, from `low` on, `span` wide.

    Attributes
    ----------
    begins
        The first piece of each row.
    offset
        The first cut of each piece.
    start, first, rise
        The pieces, cut where they pass a step of the way back: where each cut starts, the fair score there,
        and how fast it rises.
    """

    marks: Floats
    begins: Ints
    target: Ints
    low: Floats
    span: Floats
    width: Floats
    inverse: Floats
    offset: Ints
    start: Floats
    first: Floats
    rise: Floats


@dataclass(frozen=True, eq=False)
class Kept:
    """Bins in which items that stay keep their order: what `InBinOrder` computes with."""

    flags: Flags
    below: Floats
    curves: Curves


@dataclass(frozen=True, eq=False)
class Flat:
    """What every model has.

    Attributes
    ----------
    groups
        Their names, a tuple a group; the code of a group is its place, that of an unknown one comes after.
    edges
        Ends of the score cells, or of the score bins.
    back
        The way back to the scale of the scores, at evenly spaced points; None if there is none.
    """

    groups: tuple[tuple[str, ...], ...]
    group_columns: tuple[str, ...]
    criterion: str
    alpha: float
    unknown: str
    draws: bool
    salt: int
    checksum: str
    settings: dict[str, Any]
    roles: dict[str, Any]
    edges: Floats
    back: Floats | None
    curves: Curves | None = None
    inner: Floats | None = None
    pieces: Pieces | None = None
    kept: Kept | None = None

    def names(self) -> list[tuple[int, tuple[str, ...]]]:
        """Return every name that a group goes by, with its code: true may come as 1, see `GroupIndex`."""
        others = [
            other_names({group[place] for group in self.groups}) for place in range(len(self.group_columns))
        ]
        called = [
            {name: [name] for name in {group[place] for group in self.groups}} for place in range(len(others))
        ]
        for names, alike in zip(called, others, strict=True):
            for other, name in alike.items():
                if name in names:
                    names[name].append(other)
        return [
            (code, crossed)
            for code, group in enumerate(self.groups)
            for crossed in product(*(names[part] for names, part in zip(called, group, strict=True)))
        ]


def flat(model: Reranker) -> Flat:
    """Return a model's numbers; a model of a kind that exports do not know is refused in one line."""
    from evenodds.scoring.odds import OddsScorer  # and SciPy with it

    scorer = model.scorer_
    if not isinstance(scorer, OpportunityScorer | OddsScorer):
        raise SettingsError(
            f"models of the criterion {model.criterion!r} cannot be exported",
            hint="exports know opportunity and odds",
        )
    body = parse_model(model.to_text(), "the model")
    common: dict[str, Any] = {
        "groups": model.groups_,
        "group_columns": model.group_columns_,
        "criterion": model.criterion,
        "alpha": float(scorer.alpha),
        "unknown": scorer.unknown,
        "draws": scorer.draws,
        "salt": scorer.salt,
        "checksum": body["checksum"],
        "settings": body["settings"],
        "roles": body["fitted_on"]["roles"],
        "edges": scorer.edges if isinstance(scorer, OddsScorer) else scorer.maps.edges,
    }
    if isinstance(scorer, OddsScorer):
        return _odds(scorer, len(model.groups_), common)
    unit = scorer.scale == "unit"
    height = 1.0 if unit else scorer.back.steps
    return Flat(**common, back=None if unit else scorer.back.values, curves=_curves(scorer.maps, height))


def _odds(scorer: OddsScorer, groups: int, common: dict[str, Any]) -> Flat:
    table, empirical = scorer.table, scorer.within == "empirical"
    rows = (groups + 1) * table.bins
    width = np.append(table.marks[1:], float(rows)) - table.marks
    inverse = np.divide(1.0, width, out=np.zeros_like(width), where=width > 0)
    begins = np.searchsorted(table.marks, np.arange(rows), side="right") - 1
    counts = np.ones(table.marks.size, dtype=np.int64)
    if empirical:  # as many cuts as steps of the way back that a piece touches
        counts = np.maximum(np.ceil(table.low + table.span) - np.floor(table.low), 1.0).astype(np.int64)
    pieces = Pieces(
        table.marks,
        begins,
        table.target,
        table.low,
        table.span,
        width,
        inverse,
        np.cumsum(counts) - counts,
        *table.cuts(),
    )
    order = scorer.order
    return Flat(
        **common,
        back=scorer.back.values if empirical else None,
        inner=scorer.inner,
        pieces=pieces,
        kept=None if order is None else Kept(order.kept, order.below, _curves(order.maps, 1.0)),
    )


def _curves(maps: CdfMaps, height: float) -> Curves:
    return Curves(maps.edges, maps.cdf, maps.grid.is_atom(), height, maps.cubic())
