"""What a streaming job is told: how fast to forget, when to fit, what to put up with."""

from __future__ import annotations

import re
from dataclasses import dataclass

from evenodds.errors import SettingsError
from evenodds.grid import MAX_CELLS
from evenodds.tally import DEPTH

_SECONDS = {"second": 1.0, "minute": 60.0, "hour": 3600.0, "day": 86_400.0, "week": 604_800.0}
_SPAN = re.compile(r"\s*(\d+(?:\.\d+)?)\s*(second|minute|hour|day|week)s?\s*")


def seconds(text: str, name: str) -> float:
    """Read a span of time.

    >>> seconds("90 minutes", "half_life")
    5400.0
    """
    found = _SPAN.fullmatch(text)
    if found is None or not float(found[1]) > 0:
        raise SettingsError(
            f"{name} {text!r}: expected a span of time",
            hint="a number and a unit: '10 seconds', '2 hours', '7 days'",
        )
    return float(found[1]) * _SECONDS[found[2]]


@dataclass(frozen=True)
class StreamSettings:
    """Settings of a streaming job.

    Attributes
    ----------
    cells, depth
        Of the tally.
    half_life
        Seconds after which a row counts half; None never forgets.
    fit_every
        Fit after so many batches, or after so many seconds; None does not fit on a schedule.
    fit_on_drift
        Fit when the correction in use is found to have drifted.
    drift_every
        Look for drift after so many batches.
    limit, level
        Of unfairness, and of all the tests for drift of one model together.
    keep
        How many models to keep for rollback.
    max_bad
        The share of a batch's rows that may be refused.
    """

    cells: int = MAX_CELLS
    depth: int = DEPTH
    half_life: float | None = None
    fit_every: int | float | None = None
    fit_on_drift: bool = False
    drift_every: int = 10
    limit: float = 0.05
    level: float = 0.05
    keep: int = 10
    max_bad: float = 0.01

    def __post_init__(self) -> None:
        """Refuse settings outside their range."""
        if self.keep < 1 or self.drift_every < 1 or self.cells < 1 or self.depth < 1:
            raise SettingsError(
                "keep, drift_every, cells and depth must be at least 1, got "
                f"{self.keep}, {self.drift_every}, {self.cells} and {self.depth}"
            )
        if not 0.0 <= self.max_bad <= 1.0:
            raise SettingsError(f"max_bad must lie in 0..1, got {self.max_bad}")
        if not 0.0 < self.limit < 1.0 or not 0.0 < self.level < 1.0:
            raise SettingsError(f"limit and level must lie in (0, 1), got {self.limit} and {self.level}")

    @property
    def fits(self) -> bool:
        """Whether models are fitted at all."""
        return self.fit_every is not None or self.fit_on_drift

    def due(self, batches: int, passed: float) -> bool:
        """Whether it is time to fit, so many batches and seconds after the last fit."""
        if self.fit_every is None:
            return False
        return batches >= self.fit_every if isinstance(self.fit_every, int) else passed >= self.fit_every
