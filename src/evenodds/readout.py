"""What an experiment's readout holds, in numbers and in words."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from evenodds.outlook import Interval, between, percent

ALL = "all"
_MISMATCH = 0.001  # usual for this check: it is made in every experiment, and a true one is far below


@dataclass(frozen=True)
class Comparison:
    """One metric of one group in one arm, against the control.

    Attributes
    ----------
    per
        What the metric is divided by: the unit's column, or "impression".
    control, treated
        The metric in the two arms.
    lift, interval
        Relative change, and its interval; NaN and None where the control is zero, or could be.
    p_value, adjusted
        Of the difference, and corrected for all comparisons (Holm); None if nothing varies.
    changed
        Whether the corrected p-value is below 1 - confidence.
    """

    arm: str
    group: str
    metric: str
    per: str
    control: float
    treated: float
    lift: float
    interval: Interval | None
    p_value: float | None
    adjusted: float | None
    changed: bool
    confidence: float

    def corrected(self, adjusted: float | None) -> Comparison:
        """Return the comparison with its corrected p-value."""
        changed = adjusted is not None and adjusted < 1 - self.confidence
        return replace(self, adjusted=adjusted, changed=changed)

    @property
    def words(self) -> str:
        """Say what happened, as in "up 5.7 %"."""
        if self.p_value is None:
            return "nothing to compare" if not np.isfinite(self.control - self.treated) else "no variance"
        if not self.changed:
            return "no significant change"
        way = "up" if self.treated > self.control else "down"
        return f"{way} {abs(100 * self.lift):.1f} %" if np.isfinite(self.lift) else f"{way} from zero"

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON values of six digits."""

        def short(value: Any) -> Any:
            if isinstance(value, tuple):
                return [short(part) for part in value]
            if isinstance(value, float):
                return float(f"{value:.6g}") if np.isfinite(value) else None
            return value

        named = {name: short(value) for name, value in asdict(self).items() if name != "confidence"}
        return named | {"verdict": self.words}


@dataclass(frozen=True)
class SampleRatio:
    """The check of the arms' sizes against the planned split."""

    planned: dict[str, float]
    statistic: float
    p_value: float

    @property
    def mismatch(self) -> bool:
        """Whether chance does not explain the arms' sizes (p < 0.001)."""
        return self.p_value < _MISMATCH

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON values."""
        return {
            "planned": self.planned,
            "statistic": float(f"{self.statistic:.6g}"),
            "p_value": float(f"{self.p_value:.6g}"),
            "mismatch": self.mismatch,
        }


@dataclass(frozen=True)
class Experiment:
    """The readout of an A/B test; prints as a table.

    Attributes
    ----------
    arm, unit, control
        The columns, and the arm that the others are compared with.
    units
        How many there are in each arm, the control first.
    """

    arm: str
    unit: str
    control: str
    rows: int
    units: dict[str, int]
    confidence: float
    sample_ratio: SampleRatio
    comparisons: tuple[Comparison, ...]
    notes: tuple[str, ...]

    @property
    def verdict(self) -> str:
        """Say what each arm did to each group, a line for each arm and metric per unit."""
        lines = ["SAMPLE RATIO MISMATCH, do not act on this:"] if self.sample_ratio.mismatch else []
        return "\n".join(lines + self._verdicts())

    def _verdicts(self) -> list[str]:
        told: dict[tuple[str, str], list[Comparison]] = {}
        for one in self.comparisons:
            if one.per == self.unit:
                told.setdefault((one.arm, one.metric), []).append(one)
        return [
            f"{arm}, {metric} per {self.unit}: " + ", ".join(f"{one.group} {one.words}" for one in found)
            for (arm, metric), found in told.items()
        ]

    @property
    def harmed(self) -> tuple[Comparison, ...]:
        """The comparisons of groups that went down."""
        return tuple(
            one for one in self.comparisons if one.changed and one.treated < one.control and one.group != ALL
        )

    @property
    def guard_rail(self) -> str:
        """Say which groups went down."""
        down = [f"{one.group} ({one.arm}, {one.metric} per {one.per})" for one in self.harmed]
        return f"down: {', '.join(down)}" if down else "no group is significantly down"

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON values."""
        return {
            "arm": self.arm,
            "unit": self.unit,
            "control": self.control,
            "rows": self.rows,
            "units": self.units,
            "confidence": self.confidence,
            "sample_ratio": self.sample_ratio.to_dict(),
            "comparisons": [one.to_dict() for one in self.comparisons],
            "verdict": self._verdicts(),
            "guard_rail": self.guard_rail,
            "notes": list(self.notes),
        }

    def __str__(self) -> str:
        arms = ", ".join(f"{name} {count:,}" for name, count in self.units.items())
        planned = " : ".join(f"{100 * share:.3g}" for share in self.sample_ratio.planned.values())
        lines = [f"{self.rows:,} rows, units ({self.unit}): {arms}"]
        if self.sample_ratio.mismatch:
            lines.append(
                f"SAMPLE RATIO MISMATCH: planned {planned}, p {_compared(self.sample_ratio.p_value)}; the arms are "
                "not comparable, find out why before reading on"
            )
        else:
            lines.append(f"sample ratio fits the plan {planned} (p = {self.sample_ratio.p_value:.2g})")
        heads = [self._head(one) for one in self.comparisons]
        width = max(map(len, (*heads, "metric")))
        narrow = max(len("group"), *(len(one.group) for one in self.comparisons))
        level = f"{100 * self.confidence:.3g} % interval"
        lines.append(
            f"{'metric':<{width}}  {'group':<{narrow}}  {'control':>9}  {'treated':>9}  {'lift':>8}  "
            f"{level:<20}  {'p':>7}  corrected"
        )
        for head, one in zip(heads, self.comparisons, strict=True):
            lines.append(
                f"{head:<{width}}  {one.group:<{narrow}}  {one.control:>9.4g}  {one.treated:>9.4g}  "
                f"{percent(one.lift):>8}  {between(one.interval):<20}  {_p(one.p_value):>7}  {_p(one.adjusted)}"
            )
        lines += ["", self.verdict, f"guard rail: {self.guard_rail}"]
        return "\n".join([*lines, *self.notes])

    def _head(self, one: Comparison) -> str:
        name = f"{one.metric} per {one.per}"
        return name if len(self.units) == 2 else f"{one.arm}: {name}"


def _compared(p_value: float) -> str:
    return f"= {p_value:.2g}" if p_value > 1e-12 else "< 1e-12"


def _p(value: float | None) -> str:
    if value is None:
        return "-"
    return "<0.0001" if value < 0.0001 else f"{value:.4f}"
