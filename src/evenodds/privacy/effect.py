"""What suppressing counts does to a fit: fitted on all of them, and on those that are left."""

from __future__ import annotations

import copy
import warnings
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from evenodds.errors import EvenoddsWarning
from evenodds.opportunity import EqualOpportunity
from evenodds.reranker import Reranker
from evenodds.tally import Tally
from evenodds.tradeoff import Prospect, prospect


@dataclass(frozen=True)
class Effect:
    """The same criterion fitted twice; prints as a table.

    Attributes
    ----------
    full, suppressed
        What to expect of each fit on *all* counts: unfairness by merit label, AUC, share of positives,
        movement. Both are judged by the position bias and the labels of all counts.
    unfairness
        As each tally shows it before any model, by the criterion's own diagnostics.
    weights
        The largest change of position bias, as a ratio less 1, and the position where it is; over positions that
        both keep apart.
    """

    model: str
    full: Prospect
    suppressed: Prospect
    unfairness: tuple[float, float]
    weights: tuple[float, int] | None

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON values."""
        return {
            "model": self.model,
            "unfairness": {"full": self.unfairness[0], "suppressed": self.unfairness[1]},
            "position_bias": None
            if self.weights is None
            else {"change": float(f"{self.weights[0]:.6g}"), "position": self.weights[1]},
            "full": asdict(self.full),
            "suppressed": asdict(self.suppressed),
        }

    def __str__(self) -> str:
        rows: list[tuple[str, ...]] = [("", "all counts", "suppressed")]
        rows.append(("unfairness, as measured", *(f"{value:.4f}" for value in self.unfairness)))
        for label in (name for name in self.full.merit if name != "worst"):
            pair = (self.full.merit[label], self.suppressed.merit[label])
            rows.append((f"left by the fit, {label}s", *(f"{value:.4f}" for value in pair)))
        rows.append(("AUC after the fit", f"{self.full.auc:.4f}", f"{self.suppressed.auc:.4f}"))
        positives = (f"{100 * one.positives:.2f} %" for one in (self.full, self.suppressed))
        rows.append(("positives expected", *positives))
        movement = (f"{one.movement:.3g}" for one in (self.full, self.suppressed))
        rows.append(("scores move by", *movement))
        width = max(len(row[0]) for row in rows)
        lines = [f"effect on the fit of {self.model}, judged on all counts:"]
        lines += [f"  {row[0]:<{width}}  {row[1]:>10}  {row[2]:>10}" for row in rows]
        if self.weights is not None:
            change, position = self.weights
            lines.append(f"  position bias changes by {100 * change:+.1f} % at most, at position {position}")
        return "\n".join(lines)


def effect(full: Tally, suppressed: Tally, model: Reranker | None = None) -> Effect:
    """Fit `model`'s criterion on both tallies and compare."""
    plain = EqualOpportunity() if model is None else model
    with warnings.catch_warnings():  # what a fit has to say of small groups is no news here
        warnings.simplefilter("ignore", EvenoddsWarning)
        one, two = (copy.copy(plain).fit(tally) for tally in (full, suppressed))
    bias = one.position_bias_
    own = np.array([group["map"] == "own" for group in one.diagnostics_["groups"]])
    starts = one.runs(full)
    return Effect(
        repr(plain),
        prospect(one, full, bias, own, starts),
        prospect(two, full, bias, own, starts),
        (float(one.diagnostics_["unfairness"]["before"]), float(two.diagnostics_["unfairness"]["before"])),
        _weights(one, two, suppressed),
    )


def _weights(one: Reranker, two: Reranker, suppressed: Tally) -> tuple[float, int] | None:
    first, second = one.position_bias_, two.position_bias_
    shared = np.intersect1d(first.positions, second.positions)
    shared = shared[shared <= suppressed.depth]
    if shared.size < 2 or first.method == "none":
        return None
    change = second.at(shared) / first.at(shared) - 1.0
    top = int(np.argmax(np.abs(change)))
    return float(change[top]), int(shared[top])
