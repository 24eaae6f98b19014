"""Equalized odds in the request: the score's bin, a keyed draw, a point in a target bin."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, Self

import numpy as np
from scipy import sparse

from evenodds.groups import GroupIndex, Unknown
from evenodds.keys import Words, uniforms
from evenodds.maps import ReturnScale
from evenodds.scoring.kernel import KernelTable, kernel_from_json, kernel_to_json
from evenodds.scoring.order import InBinOrder
from evenodds.scoring.scorer import Codes, Floats, Scorer

Within = Literal["empirical", "uniform"]


class OddsScorer(Scorer):
    """Bins move at random to target bins that all groups share, see :class:`evenodds.EqualizedOdds`.

    Parameters
    ----------
    edges
        Ends of the score bins.
    kernel
        One matrix a group, and last the pooled one: how likely each bin moves to each target bin.
    levels
        Ends of the target bins, as shares of all old scores.
    back
        From shares of all old scores to scores.
    order
        Where items that stay keep their order.
    """

    criterion = "odds"

    def __init__(
        self,
        edges: Floats,
        kernel: tuple[sparse.csr_array, ...],
        levels: Floats,
        back: ReturnScale,
        order: InBinOrder | None,
        index: Callable[[int], GroupIndex],
        *,
        within: Within,
        alpha: float,
        unknown: Unknown,
    ) -> None:
        self.edges = edges
        self.kernel = kernel
        self.levels = levels
        self.back = back
        self.order = order
        self.within: Within = within
        # Levels become scores on the way back; evenly within a bin they are scores already.
        ends = levels * back.steps if within == "empirical" else self.score_at(levels)
        self.table = KernelTable(kernel, ends[:-1], ends[1:], back if within == "empirical" else None)
        self.inner = np.ascontiguousarray(edges[1:-1])
        super().__init__(index(self.table.bins), alpha, unknown, draws=True)

    def score_at(self, levels: Floats) -> Floats:
        """Return the scores below which the given shares of all old scores lie."""
        return self.back(levels * self.back.steps)

    def _fair(self, scores: Floats, codes: Codes, words: Callable[[], Words] | None) -> Floats:
        self.check_finite(scores)
        draws = uniforms(words(), self.salt) if words is not None else np.zeros(scores.size)
        rows = self.inner.searchsorted(scores, "right") + codes
        fair = (
            self.table.outcome(rows, draws)
            if self.order is None
            else self._in_order(self.order, scores, codes, rows, draws)
        )
        return self._blended(fair, scores, codes)

    def _in_order(
        self, order: InBinOrder, scores: Floats, codes: Codes, rows: Codes, draws: Floats
    ) -> Floats:
        """Let items that stay in a harmless bin keep their place in it."""
        table = self.table
        piece, place = table.piece(rows, draws)
        far = table.within(piece, place)
        kept = order.kept[rows] & (table.target[piece] == rows - codes)
        far[kept] = order.within(scores[kept], codes[kept] // table.bins, (rows - codes)[kept])
        fair = table.low[piece] + far * table.span[piece]
        return self.back(fair) if self.within == "empirical" else fair

    def numbers(self) -> bytes:
        """Return what tells these tables from another model's."""
        table = self.table
        parts = (self.edges, table.marks, table.target.astype(np.int64), self.levels, self.back.values)
        return b"".join(np.ascontiguousarray(part).tobytes() for part in parts)

    def to_tables(self, names: list[str]) -> dict[str, Any]:
        """Return the model file's tables."""
        tables: dict[str, Any] = {
            "edges": self.edges.tolist(),
            "target_levels": self.levels.tolist(),
            "kernel": [
                {"group": name, "rows": kernel_to_json(rows)}
                for name, rows in zip(names, self.kernel, strict=True)
            ],
            "return_scale": self.back.values.tolist(),
        }
        if self.order is not None:
            tables["order"] = self.order.to_dict()
        return tables

    @classmethod
    def from_tables(cls, body: dict[str, Any], index: Callable[[int], GroupIndex]) -> Self:
        """Make a scorer of a model file's content."""
        tables, settings = body["tables"], body["settings"]
        levels = np.array(tables["target_levels"], np.float64)
        return cls(
            np.array(tables["edges"], np.float64),
            tuple(kernel_from_json(part["rows"], levels.size - 1) for part in tables["kernel"]),
            levels,
            ReturnScale(np.array(tables["return_scale"], np.float64)),
            InBinOrder.from_dict(tables["order"]) if "order" in tables else None,
            index,
            within=settings["within"],
            alpha=settings["alpha"],
            unknown=settings["unknown"],
        )
