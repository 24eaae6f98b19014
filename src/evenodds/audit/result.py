"""What an audit found; as plain values for programs, as a table for people."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

from evenodds.audit.intervals import Figure
from evenodds.position import PositionBias

SCHEMA = "evenodds-audit/1"


@dataclass(frozen=True)
class Spread:
    """Two distances between a pair of groups, and how surely they differ from none.

    Attributes
    ----------
    ks
        Kolmogorov-Smirnov distance, the largest difference between two distribution functions.
    wasserstein
        Wasserstein-1 distance, in units of the score.
    p_value, p_adjusted
        Of the randomisation test that the two distributions are one; adjusted for all pairs and labels
        of a kind by Holm's method. None where folds are missing or the log is the one fitted on.
    """

    ks: Figure
    wasserstein: Figure
    p_value: float | None = None
    p_adjusted: float | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON values."""
        return {
            "ks": self.ks.to_dict(),
            "wasserstein": self.wasserstein.to_dict(),
            "p_value": self.p_value,
            "p_adjusted": self.p_adjusted,
        }


@dataclass(frozen=True)
class Distance:
    """The distance between two groups given one label.

    Attributes
    ----------
    label, kind
        0 or 1; "merit" or "observed".
    groups
        The two groups' names.
    logged, fair
        Of the scores as logged, and of the fair scores (None without a model; for observed labels as they
        are expected to be logged at the new positions).
    small
        Why the distance is not to be relied on, else None.
    """

    label: int
    kind: str
    groups: tuple[str, str]
    logged: Spread
    fair: Spread | None = None
    small: str | None = None

    @property
    def before(self) -> float:
        """Kolmogorov-Smirnov distance of the scores as logged."""
        return self.logged.ks.value or 0.0

    @property
    def after(self) -> float | None:
        """The same of the fair scores; None without a model."""
        return None if self.fair is None else self.fair.ks.value


@dataclass(frozen=True)
class GroupFigures:
    """Figures of one group; `before` and `after` by name, see docs/audit-schema.md."""

    group: str
    rows: float
    positives: float
    before: dict[str, Figure]
    after: dict[str, Figure] | None = None
    small: str | None = None


@dataclass(frozen=True)
class CrossAuc:
    """P(score of a positive of one group > score of a negative of another)."""

    kind: str
    positives_of: str
    negatives_of: str
    before: Figure
    after: Figure | None = None


@dataclass(frozen=True)
class Parity:
    """Exposure over merit of one group, divided by that of another: 1 when exposure follows merit."""

    groups: tuple[str, str]
    before: Figure
    after: Figure | None = None


@dataclass(frozen=True)
class PositionShares:
    """Each group's share of the impressions at a position."""

    position: int
    rows: float
    before: dict[str, Figure]
    after: dict[str, Figure] | None = None


@dataclass(frozen=True)
class Audit:
    """The outcome of an audit; prints as a table."""

    rows: int
    groups: tuple[GroupFigures, ...]
    distances: tuple[Distance, ...]
    auc: tuple[CrossAuc, ...]
    parity: tuple[Parity, ...]
    positions: tuple[PositionShares, ...]
    position_bias: PositionBias
    notes: tuple[str, ...]
    folds: int | None = None
    unit: str | None = None
    outcomes: int = 1
    promised: tuple[int, ...] = field(default=())
    target: str = "merit"

    def unfairness(self, label: int = 1, *, kind: str | None = None, after: bool = False) -> float:
        """Return the largest Kolmogorov-Smirnov distance over pairs of groups for a label.

        Pairs with a small group are left out, unless there is no other.
        """
        found = [spread.ks.value for spread in self._judged((label,), kind, after=after)]
        return max((value for value in found if value is not None), default=float("nan"))

    def unfairness_at_most(
        self, label: int | None = None, *, kind: str | None = None, after: bool = False
    ) -> float:
        """Return the upper end of its 95 % interval; NaN where there is none.

        It is the largest upper end over pairs; the truth of the largest distance lies below it with at
        least the confidence that each pair's does. Without a label: over all labels that the model
        promises to equalise, the positives if there is no model.
        """
        labels = self.gated if label is None else (label,)
        ends = [spread.ks.high for spread in self._judged(labels, kind, after=after)]
        if not ends or any(end is None for end in ends):
            return float("nan")
        return max(end for end in ends if end is not None)

    def _judged(self, labels: tuple[int, ...], kind: str | None, *, after: bool) -> list[Spread]:
        kind = kind or self.main_kind
        found = [one for one in self.distances if one.label in labels and one.kind == kind]
        kept = [one for one in found if one.small is None] or found
        return [spread for one in kept if (spread := one.fair if after else one.logged) is not None]

    @property
    def main_kind(self) -> str:
        """The kind of label that unfairness is judged by.

        Merit where position bias is known, else observed; observed too for a model that was fitted for that.
        """
        biased = any(distance.kind == "merit" for distance in self.distances)
        return "merit" if biased and self.target == "merit" else "observed"

    @property
    def gated(self) -> tuple[int, ...]:
        """The labels that the gate looks at: what the model promises, else all positive ones."""
        return self.promised or tuple(range(1, self.outcomes + 1))

    @property
    def with_model(self) -> bool:
        """Whether there are figures after a model."""
        return any(distance.fair is not None for distance in self.distances)

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON values; the schema is documented in docs/audit-schema.md and stable."""
        return {
            "schema": SCHEMA,
            "rows": self.rows,
            "intervals": {"level": 0.95, "unit": self.unit, "folds": self.folds},
            "verdict": self.verdict(),
            "unfairness": {
                "kind": self.main_kind,
                "labels": [label_name(label, self.outcomes) for label in self.gated],
                "before": self._worst(after=False).to_dict(),
                "after": self._worst(after=True).to_dict() if self.with_model else None,
            },
            "distances": [
                {
                    "label": label_name(one.label, self.outcomes),
                    "kind": one.kind,
                    "groups": list(one.groups),
                    "small": one.small,
                    "before": one.logged.to_dict(),
                    "after": None if one.fair is None else one.fair.to_dict(),
                }
                for one in self.distances
            ],
            "groups": [
                {
                    "group": one.group,
                    "small": one.small,
                    "rows": one.rows,
                    "positives": one.positives,
                    "before": _plain(one.before),
                    "after": _plain(one.after),
                }
                for one in self.groups
            ],
            "auc": [
                {
                    "kind": one.kind,
                    "positives_of": one.positives_of,
                    "negatives_of": one.negatives_of,
                    "before": one.before.to_dict(),
                    "after": None if one.after is None else one.after.to_dict(),
                }
                for one in self.auc
            ],
            "parity": [
                {
                    "groups": list(one.groups),
                    "before": one.before.to_dict(),
                    "after": None if one.after is None else one.after.to_dict(),
                }
                for one in self.parity
            ],
            "positions": [
                {
                    "position": one.position,
                    "rows": one.rows,
                    "before": _plain(one.before),
                    "after": _plain(one.after),
                }
                for one in self.positions
            ],
            "position_bias": self.position_bias.to_dict(),
            "notes": list(self.notes),
        }

    def _worst(self, *, after: bool) -> Figure:
        """Return the largest distance over the labels that count, with its upper end."""
        found = self._judged(self.gated, None, after=after)
        top = max(found, key=lambda spread: spread.ks.value or 0.0, default=None)
        if top is None:
            return Figure(None)
        most = self.unfairness_at_most(after=after)
        return Figure(top.ks.value, top.ks.low, None if math.isnan(most) else most)

    def verdict(self) -> str:
        """Say in one sentence what was found."""
        from evenodds.audit.table import verdict

        return verdict(self)

    def __str__(self) -> str:
        from evenodds.audit.table import table

        return table(self)


def label_name(label: int, outcomes: int) -> str:
    """Name a label for people.

    >>> label_name(1, outcomes=1), label_name(2, outcomes=3)
    ('positive', 'outcome 2')
    """
    if label == 0:
        return "negative"
    return "positive" if outcomes == 1 else f"outcome {label}"


def _plain(figures: dict[str, Figure] | None) -> dict[str, Any] | None:
    return None if figures is None else {name: figure.to_dict() for name, figure in figures.items()}
