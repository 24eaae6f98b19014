"""A forecast's figures from two counts, their intervals, and how they print."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from evenodds.engines.arrow import COARSE_CELLS
from evenodds.position import PositionBias, Reading
from evenodds.tally import Tally

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Interval = tuple[float, float]

_ROUNDING = 1e-12  # a change that is none: all rows together keep their slots


@dataclass(frozen=True)
class Shift:
    """One figure before and after: as logged, as forecast, and the difference with its interval.

    `relative` is NaN, and an interval None, where it cannot be told.
    """

    before: float
    after: float
    change: float
    relative: float
    after_interval: Interval | None
    change_interval: Interval | None
    relative_interval: Interval | None

    @classmethod
    def of(cls, values: Floats, errors: Floats, degrees: int, confidence: float) -> Shift:
        """Make one of before, after, change and relative change, and their standard errors."""
        from scipy.special import stdtrit

        reach = float(stdtrit(degrees, (1 + confidence) / 2)) if degrees > 0 else float("nan")

        def around(value: float, error: float) -> Interval | None:
            ends = value - reach * error, value + reach * error
            return ends if np.isfinite(ends).all() else None

        found = [around(float(v), float(e)) for v, e in zip(values, errors, strict=True)]
        before, after, change, relative = map(float, values)
        return cls(before, after, change, relative, *found[1:])

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON values of six digits."""

        def short(value: Any) -> Any:
            if isinstance(value, tuple):
                return [short(part) for part in value]
            if value is None or not np.isfinite(value):
                return None
            return float(f"{value:.6g}") if abs(value) > _ROUNDING else 0.0

        return {name: short(value) for name, value in self.__dict__.items()}


@dataclass(frozen=True)
class GroupForecast:
    """What will happen to one group.

    Attributes
    ----------
    rows
        Impressions in the log, or their weight.
    positives
        Positives in as many lists as are in the log.
    exposure
        The mean position weight of the group's impressions.
    outcomes
        Positives of each kind, where there are several.
    """

    group: str
    rows: float
    positives: Shift
    exposure: Shift
    outcomes: tuple[Shift, ...] = ()

    @classmethod
    def of(
        cls, group: str, rows: float, values: Floats, errors: Floats, degrees: int, confidence: float
    ) -> GroupForecast:
        """Make one of figures laid out as in :func:`figures`."""
        shifts = [Shift.of(v, e, degrees, confidence) for v, e in zip(values, errors, strict=True)]
        kinds = tuple(shifts[2:]) if len(shifts) > 3 else ()
        return cls(group, rows, shifts[1], shifts[0], kinds)

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON values."""
        kinds = {str(kind): shift.to_dict() for kind, shift in enumerate(self.outcomes, start=1)}
        return {
            "group": self.group,
            "rows": self.rows,
            "positives": self.positives.to_dict(),
            "exposure": self.exposure.to_dict(),
        } | ({"outcomes": kinds} if kinds else {})


@dataclass(frozen=True)
class Forecast:
    """What a reranker is expected to do; prints as a table.

    Attributes
    ----------
    cut_off
        How many queries lacked positions.
    overall, groups
        All impressions together, and each group.
    """

    rows: int
    queries: int
    cut_off: int
    confidence: float
    criterion: str
    alpha: float
    overall: GroupForecast
    groups: tuple[GroupForecast, ...]
    notes: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON values."""
        return {
            "rows": self.rows,
            "queries": self.queries,
            "cut_off_queries": self.cut_off,
            "confidence": self.confidence,
            "criterion": self.criterion,
            "alpha": self.alpha,
            "all": self.overall.to_dict(),
            "groups": [group.to_dict() for group in self.groups],
            "notes": list(self.notes),
        }

    def __str__(self) -> str:
        shown = [*self.groups, self.overall]
        width = max(len("group"), *(len(group.group) for group in shown))
        level = f"{100 * self.confidence:.3g} % interval"
        lines = [
            f"forecast: {self.criterion} (alpha {self.alpha:g}) on {self.queries:,} lists, {self.rows:,} rows",
            f"{'group':<{width}}  {'positives':>11}  {'expected':>11}  {'change':>8}  {level:<20}  exposure",
        ]
        for group in shown:
            found, seen = group.positives, group.exposure
            lines.append(
                f"{group.group:<{width}}  {found.before:>11,.0f}  {found.after:>11,.0f}  "
                f"{percent(found.relative):>8}  {between(found.relative_interval):<20}"
                f"  {seen.before:.4f} -> {seen.after:.4f}"
            )
            lines += [
                f"{'':<{width}}  {shift.before:>11,.0f}  {shift.after:>11,.0f}  "
                f"{percent(shift.relative):>8}  {between(shift.relative_interval):<20}  outcome {kind}"
                for kind, shift in enumerate(group.outcomes, start=1)
            ]
        return "\n".join([*lines, *self.notes])


def percent(share: float) -> str:
    """Write a relative change for people.

    >>> percent(0.0571), percent(float("nan"))
    ('+5.7 %', '-')
    """
    return f"{100 * share:+.1f} %" if np.isfinite(share) else "-"


def between(interval: Interval | None) -> str:
    """Write an interval of a relative change for people."""
    return "-" if interval is None else f"{percent(interval[0])} to {percent(interval[1])}"


def figures(old: Tally, new: Tally, bias: PositionBias) -> Floats:
    """Return before, after, change and relative change, shape (groups and all, figures, 4).

    The figures are exposure, positives, and from index 2 on positives of each kind.
    """
    return _Evidence.of(old, new).figures(_weights(bias, old))


def intervals(old: Tally, new: Tally, reading: Reading) -> tuple[Floats, int]:
    """Return standard errors laid out like `figures`, and their degrees of freedom.

    A jackknife over folds of queries: where w comes from this log, it is that without the fold; where it
    comes from elsewhere, its own error is added.
    """
    weights = _weights(reading.bias, old)
    whole = _Evidence.of(old, new)
    left = []
    with np.errstate(invalid="ignore", divide="ignore"):  # a group may stand in one fold only
        for fold in range(0 if old.folds is None else old.folds.shape[3]):
            part = _Evidence.of(old, new, fold)
            if part.rows.any() and part.rows.sum() < whole.rows.sum():
                moved = 1.0 if reading.left_out is None else reading.left_out[fold]
                left.append(whole.without(part).figures(weights * moved))
        if len(left) < 2:
            return np.full_like(whole.figures(weights), np.nan), 0
        variance = _jackknifed(left)
        if len(reading.aside):
            variance = variance + _jackknifed([whole.figures(weights * np.exp(off)) for off in reading.aside])
    return np.sqrt(variance), len(left) - 1


def _jackknifed(left: list[Floats]) -> Floats:
    """Return jackknife variances from figures with one part left out at a time."""
    values = np.array(left)
    found: Floats = (len(left) - 1) / len(left) * ((values - values.mean(axis=0)) ** 2).sum(axis=0)
    return found


def _weights(bias: PositionBias, old: Tally) -> Floats:
    return bias.at(range(old.counts.shape[2]))


@dataclass(frozen=True, eq=False)
class _Evidence:
    """Counts of some queries: rows by group, position and cell, before and after; positives by cell."""

    before: Floats
    after: Floats
    positives: Floats  # [kind, group, cell]; kind 0 is any
    runs: Ints  # by group, the cells to cut
    scale: float  # rows that totals are given for

    @classmethod
    def of(cls, old: Tally, new: Tally, fold: int | None = None) -> _Evidence:
        positions = old.counts.shape[2]

        def counted(tally: Tally, part: int | None) -> Floats:
            if part is not None and tally.folds is not None:
                found = tally.folds[:, :, :, part].astype(np.float64)
            else:
                starts = np.flatnonzero(np.diff(tally.grid.coarse(COARSE_CELLS), prepend=-1))
                found = np.add.reduceat(tally.counts, starts, axis=3).astype(np.float64)
            return np.pad(found, [(0, 0), (0, 0), (0, positions - found.shape[2]), (0, 0)])

        one, two = counted(old, fold), counted(new, fold).sum(axis=1)
        kinds = one[:, 1:].sum(axis=2).swapaxes(0, 1)
        any_kind = kinds.sum(axis=0, keepdims=True)
        positives = any_kind if len(kinds) == 1 else np.concatenate((any_kind, kinds))
        shown = one.sum(axis=1)
        wanted = np.clip(np.rint(np.cbrt(old.effective_positives())), 1, shown.shape[2]).astype(np.int64)
        return cls(shown, two, positives, wanted, float(shown.sum()))

    @property
    def rows(self) -> Floats:
        return self.before.sum(axis=(1, 2))

    def without(self, part: _Evidence) -> _Evidence:
        """Leave a fold out; totals stay those of the whole."""
        return _Evidence(
            self.before - part.before,
            self.after - part.after,
            self.positives - part.positives,
            self.runs,
            self.scale,
        )

    def figures(self, weights: Floats) -> Floats:
        before = np.einsum("gpk,p->gk", self.before, weights)
        after = np.einsum("gpk,p->gk", self.after, weights)
        run = _runs(self.runs, before)
        size = int(run.max()) + 1

        def by_run(values: Floats) -> Floats:
            summed: npt.NDArray[Any] = np.bincount(run.ravel(), weights=values.ravel(), minlength=size)
            return summed

        held, moved = by_run(before), by_run(after)
        gain = np.divide(moved, held, out=np.zeros(size), where=held > 0)
        one, two = [], []
        for kind in self.positives:
            one.append(kind.sum(axis=1))
            two.append(np.bincount(_group_of(run, size), weights=by_run(kind) * gain, minlength=len(kind)))
        grown = self.scale / self.rows.sum()
        totals = [
            np.stack((_with_all(np.array(part)) * grown), axis=1) for part in (np.array(one), np.array(two))
        ]
        rows = _with_all(self.rows[None])[0]
        exposure = [_with_all(part.sum(axis=1)[None])[0] / rows for part in (before, after)]
        first = np.concatenate((exposure[0][:, None], totals[0]), axis=1)
        second = np.concatenate((exposure[1][:, None], totals[1]), axis=1)
        change = second - first
        relative = np.divide(change, first, out=np.full_like(change, np.nan), where=first > 0)
        return np.stack((first, second, change, relative), axis=2)


def _with_all(by_group: Floats) -> Floats:
    """Append the sum over groups."""
    return np.concatenate((by_group, by_group.sum(axis=1, keepdims=True)), axis=1)


def _group_of(run: Ints, size: int) -> Ints:
    group = np.zeros(size, np.int64)
    group[run] = np.arange(len(run))[:, None]
    return group


def _runs(wanted_by_group: Ints, held: Floats) -> Ints:
    """Cut each group's cells into runs of equal W; numbers are not shared by groups."""
    found, used = [], 0
    for wanted, mass in zip(wanted_by_group.tolist(), held, strict=True):
        middle = (np.cumsum(mass) - mass / 2) / max(float(mass.sum()), 1e-300)
        found.append(used + np.minimum((middle * wanted).astype(np.int64), wanted - 1))
        used += wanted
    return np.array(found)
