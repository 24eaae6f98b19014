"""What a comparison found; as plain values for programs, as text for people."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from evenodds.audit import label_name
from evenodds.audit.intervals import Figure

SCHEMA = "evenodds-drift/1"
Status = Literal["holds", "unchanged", "unsure", "unfair", "changed", "drifted"]
# From "nothing to do" to "something to do"; with a model, and without one.
SEVERITY: dict[str, int] = {"holds": 0, "unchanged": 0, "unsure": 1, "unfair": 2, "changed": 3, "drifted": 3}


@dataclass(frozen=True)
class PairNow:
    """How far two groups are apart under the model, on the newer log.

    Attributes
    ----------
    label, groups
        Given which label, and which two.
    now
        Kolmogorov-Smirnov distance of the fair scores.
    p_value, p_adjusted
        Of the test that the difference between the two groups is what it was; None where errors are
        not known.
    small
        Why the distance is not to be relied on, else None.
    """

    label: int
    groups: tuple[str, str]
    now: Figure
    p_value: float | None = None
    p_adjusted: float | None = None
    small: str | None = None


@dataclass(frozen=True)
class Change:
    """One thing that may have changed, and whether it has.

    Attributes
    ----------
    p_value, p_adjusted
        Of the test that it has not; adjusted for everything that was tested (Holm, 1979).
    matters
        Whether the change is both sure and large enough to matter.
    """

    p_value: float | None
    p_adjusted: float | None
    matters: bool


@dataclass(frozen=True)
class Distribution(Change):
    """A group's score distribution, given the merit label (-1: of all impressions), then and now."""

    group: str
    label: int
    ks: Figure
    wasserstein: Figure
    small: str | None = None


@dataclass(frozen=True)
class Rate(Change):
    """A figure of a group, then and now: ``share``, ``positive_rate`` or ``merit_rate``."""

    group: str
    name: str
    old: float | None
    new: float | None
    ratio: Figure


@dataclass(frozen=True)
class Weight:
    """Position bias at one position, then and now; the p-value is adjusted over positions."""

    position: int
    old: float
    new: float
    ratio: Figure
    p_adjusted: float | None


@dataclass(frozen=True)
class Weights(Change):
    """Position bias, then and now; the test is of all positions at once."""

    positions: tuple[Weight, ...]

    @property
    def largest(self) -> Weight | None:
        """The position at which w has changed most surely, else most."""
        sure = [one for one in self.positions if one.p_adjusted is not None and one.p_adjusted < 0.05]
        return max(sure or self.positions, key=lambda one: abs((one.ratio.value or 1.0) - 1.0), default=None)


@dataclass(frozen=True)
class Drift:
    """Whether a correction still holds; prints as text.

    Attributes
    ----------
    status
        With a model "holds", "unsure", "unfair" or "drifted"; without one "unchanged", "unsure" or
        "changed".
    limit
        How much unfairness, over what the fit left, is put up with.
    left
        What the fit left; None without a model.
    level
        Of the tests.
    """

    status: Status
    limit: float
    left: float | None
    level: float
    kind: str
    outcomes: int
    pairs: tuple[PairNow, ...]
    distributions: tuple[Distribution, ...]
    weights: Weights | None
    rates: tuple[Rate, ...]
    appeared: tuple[str, ...]
    vanished: tuple[str, ...]
    old: dict[str, Any]
    new: dict[str, Any]
    notes: tuple[str, ...]

    @property
    def unfairness(self) -> Figure:
        """The largest distance over pairs under the model, with the ends that hold for all of them."""
        judged = self.judged
        top = max(judged, key=lambda pair: pair.now.value or 0.0, default=None)
        if top is None:
            return Figure(None)
        lows = [pair.now.low for pair in judged if pair.now.low is not None]
        highs = [pair.now.high for pair in judged]
        known = [high for high in highs if high is not None]
        return Figure(
            top.now.value, max(lows, default=None), max(known) if len(known) == len(highs) else None
        )

    @property
    def judged(self) -> list[PairNow]:
        """The pairs that count: those without a small group, unless there is no other."""
        return [pair for pair in self.pairs if pair.small is None] or list(self.pairs)

    @property
    def changes(self) -> list[Change]:
        """What has changed surely and by enough to matter."""
        every: list[Change] = [*self.distributions, *([self.weights] if self.weights else []), *self.rates]
        return [change for change in every if change.matters]

    def at_least(self, status: str) -> bool:
        """Whether things are as bad as `status`, or worse: for gates."""
        return SEVERITY[self.status] >= SEVERITY[status]

    def verdict(self) -> str:
        """Say in one sentence what was found."""
        from evenodds.drift.words import verdict

        return verdict(self)

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON values; the schema is documented in docs/drift.md and stable."""
        weights = self.weights
        return {
            "schema": SCHEMA,
            "status": self.status,
            "verdict": self.verdict(),
            "limit": self.limit,
            "level": self.level,
            "old": self.old,
            "new": self.new,
            "unfairness": None
            if self.left is None
            else {
                "kind": self.kind,
                "left_by_fit": self.left,
                "now": self.unfairness.to_dict(),
                "pairs": [
                    {
                        "label": label_name(pair.label, self.outcomes),
                        "groups": list(pair.groups),
                        "now": pair.now.to_dict(),
                        "p_value": short(pair.p_value),
                        "p_adjusted": short(pair.p_adjusted),
                        "small": pair.small,
                    }
                    for pair in self.pairs
                ],
            },
            "distributions": [
                {
                    "group": one.group,
                    "label": given(one.label, self.outcomes),
                    "ks": one.ks.to_dict(),
                    "wasserstein": one.wasserstein.to_dict(),
                    "small": one.small,
                    **_tested(one),
                }
                for one in self.distributions
            ],
            "position_bias": None
            if weights is None
            else {
                **_tested(weights),
                "positions": [
                    {
                        "position": one.position,
                        "old": short(one.old),
                        "new": short(one.new),
                        "ratio": one.ratio.to_dict(),
                        "p_adjusted": short(one.p_adjusted),
                    }
                    for one in weights.positions
                ],
            },
            "rates": [
                {
                    "group": one.group,
                    "name": one.name,
                    "old": short(one.old),
                    "new": short(one.new),
                    "ratio": one.ratio.to_dict(),
                    **_tested(one),
                }
                for one in self.rates
            ],
            "groups": {"appeared": list(self.appeared), "vanished": list(self.vanished)},
            "notes": list(self.notes),
        }

    def __str__(self) -> str:
        from evenodds.drift.words import table

        return table(self)


def given(label: int, outcomes: int) -> str:
    """Name what a distribution is taken over."""
    return "all" if label < 0 else label_name(label, outcomes)


def short(value: float | None) -> float | None:
    """Keep six digits."""
    return None if value is None or value != value else float(f"{value:.6g}")  # noqa: PLR0124  (NaN)


def _tested(change: Change) -> dict[str, Any]:
    return {
        "p_value": short(change.p_value),
        "p_adjusted": short(change.p_adjusted),
        "matters": change.matters,
    }
