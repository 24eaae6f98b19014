"""Intervals of 95 % and p-values, from replicates.

Rates and areas under curves are smooth, so Student's t serves, on the scale on which they are free.
Distances are not: a maximum, or an integral of absolute values, is pushed up by noise, and near zero
it can be nothing else. Their ends come from the noise itself, see :func:`largest` and :func:`integral`.
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
_THETAS = 13  # sizes of a difference that are tried
_NORMAL = 1.959963984540054  # the 97.5 % quantile of the normal distribution
_FEW = 30.0
_FLAT = 1e-6  # of the largest difference: a shape is nowhere less


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


def share(value: float, error: float, quantile: float, rows: float) -> Figure:
    """Return the interval of a share of rows: Jeffreys's, from as many rows as the error says they are worth.

    (Brown, Cai and DasGupta, "Interval Estimation for a Binomial Proportion", 2001; the worth as in Korn
    and Graubard, "Confidence Intervals for Proportions with Small Expected Number of Positive Counts
    Estimated from Survey Data", 1998.) It has something to say where nothing was counted, too.
    """
    from scipy.special import betaincinv

    if not np.isfinite(value):
        return Figure(None)
    if not np.isfinite(error):
        return Figure(value)
    worth = rows
    if error > 0.0 and 0.0 < value < 1.0:
        worth = value * (1.0 - value) / error**2
        if min(value, 1.0 - value) * rows < _FEW:  # so few counts do not tell their own spread
            worth = min(worth, rows)
        worth *= (_NORMAL / quantile) ** 2
    if not np.isfinite(worth):  # no rows were counted and nothing varies
        return Figure(value, value, value)
    hits, others = value * worth, (1.0 - value) * worth
    low, high = (float(betaincinv(hits + 0.5, others + 0.5, chance)) for chance in (0.025, 0.975))
    return Figure(value, min(low, value) if value > 0.0 else 0.0, max(high, value) if value < 1.0 else 1.0)


def area_under_curve(value: float, error: float, quantile: float) -> Figure:
    """Return the interval of an area under a curve.

    On its own scale: merit negatives before clipping are estimates that can be below zero, which may
    push an area past 1, and its error does not shrink towards there.
    """
    if not np.isfinite(value):
        return Figure(None)
    shown = float(min(max(value, 0.0), 1.0))
    if not np.isfinite(error):
        return Figure(shown)
    low, high = value - quantile * error, value + quantile * error
    return Figure(shown, float(min(max(low, 0.0), shown)), float(max(min(high, 1.0), shown)))


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

    The test is turned round: if the truth were theta times the shape that is seen, noise drawn onto it
    would give a distance as large as the one found, or larger, in a share of draws that grows with theta;
    the ends are where it is 2.5 % and 97.5 %. That knows how far noise pushes a maximum up, near zero and
    on a flat top. A shape is itself seen through noise, which makes tops flatter than they are; so the
    upper end goes half of the way to that of a single point, the estimate plus t standard errors.

    Parameters
    ----------
    value
        The distance on all cells.
    center, parts
        The difference of the two distribution functions on coarse cells, and its deviations.
    in_sample
        A model was fitted on this very log. Where the difference is less than noise leads to, it is so
        because it was made so, and what remains of it elsewhere is the error itself: then there is a
        bound from above only.
    """
    size = np.abs(center)
    top = int(size.argmax())
    drawn = combine(made.noise, np.where(center < 0, -1.0, 1.0) * parts)
    if in_sample and size[top] < np.median(np.abs(drawn).max(axis=1)):
        high = np.quantile(np.abs(size + drawn).max(axis=1), 0.95) - size[top]
        return _within(value, value, high, 1.0)
    shape = np.maximum(size / max(size[top], 1e-300), _FLAT)
    most = ((value - drawn) / shape).min(axis=1)
    least = ((-value - drawn) / shape).max(axis=1)  # more than the most: no theta gives so little
    low, high = np.quantile(np.where(least > most, 0.0, np.maximum(most, 0.0)), (0.025, 0.975))
    alone = made.quantile * float(np.sqrt((parts[:, top] ** 2).sum()))
    return _within(value, value - low, (high - value + alone) / 2, 1.0)


def integral(
    value: float, widths: Floats, center: Floats, parts: Floats, made: Errors, *, in_sample: bool
) -> Figure:
    """Return the interval of a Wasserstein-1 distance; arguments as for :func:`largest`.

    From above: the estimate is at least the integral of the difference by the signs that are seen, so the
    truth is at most the estimate plus the error of that. From below by turning the test round, as there.
    """
    signed = np.where(center < 0, -1.0, 1.0) * parts
    drawn, shape = combine(made.noise, signed), np.abs(center)
    whole, noise = float(area(widths, shape)), area(widths, drawn)
    if in_sample and whole < np.median(noise):
        high = np.quantile(area(widths, shape + drawn), 0.95) - whole
        return _within(value, value, high, np.inf)
    low = 0.0
    if np.mean(noise > value) < 0.025:  # else no difference at all would do
        thetas = np.linspace(0.0, 1.5 * value / whole, _THETAS) if whole > 0 else np.zeros(1)
        sizes = np.array([area(widths, theta * shape + drawn) for theta in thetas])
        low = whole * float(np.quantile(_last_crossing(thetas, sizes, value), 0.025))
    along = ((signed[:, :-1] + signed[:, 1:]) / 2) @ widths
    return _within(value, value - low, made.quantile * float(np.sqrt((along**2).sum())), np.inf)


def _last_crossing(thetas: Floats, sizes: Floats, value: float) -> Floats:
    """Return for each draw, ``sizes[theta, draw]``, the largest theta that gives no more than `value`.

    Sizes are convex in theta, and nearly straight where it counts, so they are read between thetas.
    """
    held = sizes <= value
    last = len(thetas) - 1 - held[::-1].argmax(axis=0)
    after = np.minimum(last + 1, len(thetas) - 1)
    draw = np.arange(sizes.shape[1])
    rise = sizes[after, draw] - sizes[last, draw]
    part = np.divide(value - sizes[last, draw], rise, out=np.zeros_like(rise), where=rise > 0)
    found = thetas[last] + np.clip(part, 0.0, 1.0) * (thetas[after] - thetas[last])
    return np.where(held.any(axis=0), found, 0.0)


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
