"""Intervals of 95 % and p-values, from replicates.

Rates and areas under curves are smooth, so Student's t serves, on the scale on which they are free.
Distances are not: a maximum, or an integral of absolute values, is pushed up by noise, and near zero
it can be nothing else. Their lower ends allow for that; their upper ends count on it only far from zero:

- from above: at the point t where the truth is largest, the estimate is at least |D^(t)|, so the
  truth is at most the estimate plus an error at that one point (or of one sign pattern);
- from below: the estimate exceeds the truth by no more than the largest error over the points that
  may be the maximum, which is drawn by multipliers (Fang and Santos, "Inference on Directionally
  Differentiable Functions", 2019).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from evenodds.audit.figures import area
from evenodds.audit.replicates import Replicates, combine

Floats = npt.NDArray[np.float64]

FLIPS = 1_999
MOST_FLIPS = 9_999
_MAY_BE = 2.0  # standard errors below the largest difference at which a point may be the true maximum


class Errors(Protocol):
    """How far figures are off: multipliers of their deviations, and Student's quantile for one number."""

    @property
    def noise(self) -> Floats:
        """Seeded multipliers ``[draw, part]``."""
        ...

    @property
    def quantile(self) -> float:
        """The 97.5 % quantile of an error over its standard error."""
        ...


@dataclass(frozen=True)
class Figure:
    """A number and its 95 % interval; None where there is nothing to say."""

    value: float | None
    low: float | None = None
    high: float | None = None

    def to_dict(self) -> dict[str, float | None]:
        """Return plain JSON values of six digits."""
        return {"value": _short(self.value), "low": _short(self.low), "high": _short(self.high)}

    def text(self, digits: int = 3) -> str:
        """Return ``0.123 [0.120, 0.126]``, or a dash."""
        if self.value is None:
            return "-"
        if self.low is None or self.high is None:
            return f"{self.value:.{digits}f}"
        return f"{self.value:.{digits}f} [{self.low:.{digits}f}, {self.high:.{digits}f}]"


def share(value: float, error: float, quantile: float) -> Figure:
    """Return the interval of a probability, on the scale of its log-odds; at 0 and 1 on its own."""
    if not np.isfinite(value):
        return Figure(None)
    # Negatives before clipping are estimates that can be below zero, and push an area past 1.
    shown = float(min(max(value, 0.0), 1.0))
    if not np.isfinite(error) or (error == 0.0 and shown in {0.0, 1.0}):
        return Figure(shown)
    if not 0.0 < value < 1.0:
        return Figure(shown, max(0.0, value - quantile * error), min(1.0, value + quantile * error))
    odds, reach = value / (1.0 - value), np.exp(min(quantile * error / (value * (1.0 - value)), 700.0))
    return Figure(shown, float(odds / (odds + reach)), float(odds * reach / (1.0 + odds * reach)))


def positive(value: float, error: float, quantile: float) -> Figure:
    """Return the interval of a number above zero, on the scale of its logarithm."""
    if not np.isfinite(value):
        return Figure(None)
    if not np.isfinite(error) or not value > 0.0:
        return Figure(float(value))
    reach = np.exp(min(quantile * error / value, 700.0))
    return Figure(float(value), float(value / reach), float(min(value * reach, 1e300)))


def largest(value: float, center: Floats, parts: Floats, made: Errors, *, in_sample: bool) -> Figure:
    """Return the interval of a Kolmogorov-Smirnov distance.

    Parameters
    ----------
    value
        The distance on all cells.
    center, parts
        The difference of the two distribution functions on coarse cells, and its deviations.
    in_sample
        A model made the groups equal on this very log: the difference is small because it was fitted
        to be, and what remains of it elsewhere is the error itself.
    """
    error = np.sqrt((parts**2).sum(axis=0))
    size = np.abs(center)
    top = int(size.argmax())
    if in_sample:
        drawn = combine(made.noise, parts)
        high = np.quantile(np.abs(center + drawn).max(axis=1), 0.975) - size[top]
        low = np.quantile(np.abs(drawn).max(axis=1), 0.975)
        return _within(value, low, high, 1.0)
    signed = np.where(center < 0, -1.0, 1.0) * parts
    apart = np.sqrt(((signed - signed[:, [top]]) ** 2).sum(axis=0))
    near = size[top] - size <= _MAY_BE * apart
    unsure = (size <= _MAY_BE * error)[near]
    drawn = combine(made.noise, signed[:, near])
    low = np.quantile(np.where(unsure, np.abs(drawn), drawn).max(axis=1), 0.975)
    high = made.quantile * float(error[near].max())
    if not unsure.any():
        # Well away from zero it can be told how far noise pushes the maximum up over a flat top.
        high -= float(drawn.max(axis=1).mean())
    return _within(value, low, high, 1.0)


def integral(
    value: float, widths: Floats, center: Floats, parts: Floats, made: Errors, *, in_sample: bool
) -> Figure:
    """Return the interval of a Wasserstein-1 distance; arguments as for :func:`largest`."""
    drawn = combine(made.noise, parts)
    if in_sample:
        low = np.quantile(area(widths, drawn), 0.975)
        high = np.quantile(area(widths, center + drawn), 0.975) - area(widths, center)
        return _within(value, low, high, np.inf)
    sure = np.where(np.abs(center) > _MAY_BE * np.sqrt((parts**2).sum(axis=0)), center, 0.0)
    low = np.quantile(area(widths, sure + drawn) - area(widths, sure), 0.975)
    signed = np.where(center < 0, -1.0, 1.0) * parts
    along = ((signed[:, :-1] + signed[:, 1:]) / 2) @ widths
    return _within(value, low, made.quantile * float(np.sqrt((along**2).sum())), np.inf)


def _within(value: float, low: Any, high: Any, most: float) -> Figure:
    low, high = max(value - float(low), 0.0), min(value + max(float(high), 0.0), most)
    return Figure(value, min(low, value), high)


def flips(made: Replicates, tests: int) -> Floats:
    """Return seeded signs ``[draw, replicate]``; more draws where many pairs will be corrected for."""
    draws = FLIPS if tests <= 20 else MOST_FLIPS
    return np.random.default_rng(41).choice([-1.0, 1.0], (draws, made.count))


def sign_flip(center: Floats, parts: Floats, made: Replicates, signs: Floats) -> float:
    """Return the p-value of "no difference", by turning the sign of each fold's share of it.

    If the two groups are alike, each fold's contribution to the difference of their distribution
    functions is as likely to be the opposite; the statistic is the largest difference. Folds hold whole
    queries, so what hangs together stays together.
    """
    folds = made.folds
    shares = -np.sqrt((folds - 1) / folds) * parts
    shares[:folds] += center / folds
    drawn = np.abs(combine(signs, shares)).max(axis=1)
    return float((1 + (drawn >= np.abs(center).max() * (1 - 1e-9)).sum()) / (1 + len(signs)))


def holm(values: list[float | None]) -> list[float | None]:
    """Return p-values corrected for how many there are (Holm, 1979).

    >>> holm([0.01, 0.04, None, 0.03])
    [0.03, 0.06, None, 0.06]
    """
    known = sorted((value, place) for place, value in enumerate(values) if value is not None)
    adjusted: list[float | None] = [None] * len(values)
    floor = 0.0
    for rank, (value, place) in enumerate(known):
        floor = max(floor, min(1.0, (len(known) - rank) * value))
        adjusted[place] = floor
    return adjusted


def _short(value: float | None) -> float | None:
    return None if value is None or not np.isfinite(value) else float(f"{value:.6g}")
