"""What a model will do, computed from counts: fairness, performance and movement, and a sweep of them.

No row is read and nothing is drawn: a model tells how it maps each score cell, and the exposure of a
fair score follows from the share of fair scores above it.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from evenodds.audit import label_name
from evenodds.errors import SettingsError
from evenodds.exposure import Exposure
from evenodds.merit import merit_mass
from evenodds.position import PositionBias
from evenodds.reranker import Reranker
from evenodds.tally import Tally, as_tally

Floats = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]
Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Prospect:
    """What to expect of a ranking by the fair score.

    Attributes
    ----------
    merit, observed
        Kolmogorov-Smirnov distance between groups by label: given the merit label, and given the label
        as it will be logged at the new positions (None with more than one kind of positive).
    auc
        Of the fair score for merit labels, all groups together.
    positives
        The share of impressions that will be positive.
    movement
        E|fair score - score|.
    """

    merit: dict[str, float]
    observed: dict[str, float] | None
    auc: float
    positives: float
    movement: float


@dataclass(frozen=True)
class Tradeoff:
    """One row of a sweep: the settings, and what to expect of them."""

    alpha: float
    epsilon: float | tuple[float, ...] | None
    prospect: Prospect

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON values."""
        return {"alpha": self.alpha, "epsilon": self.epsilon, **asdict(self.prospect)}


def prospect(
    model: Reranker, tally: Tally, bias: PositionBias, groups: Flags | None = None, starts: Ints | None = None
) -> Prospect:
    """Compute what to expect of a model on a tally.

    Parameters
    ----------
    model, tally, bias
        The model, the counts it would rank, and their position bias.
    groups
        Which groups the distances are taken over; all, if not given.
    starts
        Runs of cells in which negatives are clipped, see :func:`evenodds.merit.merit_mass`.
    """
    compared = np.ones(len(tally.groups), dtype=bool) if groups is None else groups
    merit = merit_mass(tally, bias, starts)
    everyone = tally.counts.sum(axis=(1, 2), dtype=np.float64)
    _, shown = model.fair_cdf(tally, everyone)
    share = everyone.sum(axis=1) / everyone.sum()
    below = np.concatenate(([0.0], share @ shown))
    looked_at = Exposure(tally, bias).between(1.0 - below[1:], 1.0 - below[:-1])
    used = [label for label in range(merit.shape[1]) if merit[:, label].sum() > 0]
    cdfs = {label: model.fair_cdf(tally, merit[:, label])[1] for label in used}
    totals = merit.sum(axis=2) / merit.sum()
    positive = [label for label in used if label > 0]
    clicks = sum(float((totals[:, label] * (_steps(cdfs[label]) @ looked_at)).sum()) for label in positive)
    names = {label: label_name(label, tally.roles.outcomes) for label in used}
    present = {label: compared & (merit[:, label].sum(axis=1) > 0) for label in used}
    return Prospect(
        merit=_worst({names[label]: _spread(cdfs[label][present[label]]) for label in used}),
        observed=_observed(cdfs, totals, looked_at, names, compared) if used == [0, 1] else None,
        auc=_auc(cdfs, totals, positive) if 0 in used and positive else float("nan"),
        positives=clicks,
        movement=model.movement(tally),
    )


def sweep(
    model: Reranker,
    data: object,
    *,
    alphas: Sequence[float] = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0),
    epsilons: Iterable[float | Sequence[float] | None] = (None,),
    **roles: object,
) -> list[Tradeoff]:
    """Fit a model's criterion at several strengths; return the whole trade-off.

    Parameters
    ----------
    model
        Its criterion and settings are used; the model itself is left alone.
    data
        A tally, a log, or a table with its column roles.
    alphas
        How far to go. One fit serves all of them.
    epsilons
        Relaxations of equalized odds, None for none; one fit each.

    Examples
    --------
    >>> from evenodds import EqualOpportunity, simulate, tally
    >>> rows = sweep(EqualOpportunity(), tally(simulate(queries=1000), cells=500), alphas=(0, 1))
    >>> [row.prospect.merit["positive"] < 0.01 for row in rows]
    [False, True]
    """
    tally = as_tally(data, roles)
    rows = []
    for epsilon in epsilons:
        settings = {name: getattr(model, name) for name in model.settings}
        if epsilon is not None:
            if "epsilon" not in settings:
                raise SettingsError(f"{type(model).__name__} has no epsilon", hint="sweep its alphas")
            settings["epsilon"] = epsilon
        fitted = type(model)(**{**settings, "alpha": 1.0}).fit(tally)
        for alpha in alphas:
            at = copy.copy(fitted)
            at.alpha = alpha
            found = prospect(at, tally, fitted.position_bias_)
            rows.append(Tradeoff(alpha, tuple(epsilon) if isinstance(epsilon, Sequence) else epsilon, found))
    return rows


def rounded(expected: Prospect) -> dict[str, Any]:
    """Return a prospect as plain JSON values of six digits."""

    def plain(value: Any) -> Any:
        if isinstance(value, dict):
            return {name: plain(part) for name, part in value.items()}
        return value if value is None else short(value)

    return {name: plain(value) for name, value in asdict(expected).items()}


def short(value: float) -> float:
    """Keep six digits: what a person reads, and what does not change from machine to machine."""
    return float(f"{value:.6g}")


def _steps(cdf: Floats) -> Floats:
    return np.diff(cdf, axis=1, prepend=0.0)


def _spread(cdf: Floats) -> float:
    return float(np.ptp(cdf, axis=0).max(initial=0.0)) if len(cdf) > 1 else 0.0


def _worst(distances: dict[str, float]) -> dict[str, float]:
    return {**distances, "worst": max(distances.values())}


def _auc(cdfs: dict[int, Floats], totals: Floats, positive: list[int]) -> float:
    """Return P(fair score of a positive > that of a negative), half of what ties in a step."""
    negatives = totals[:, 0] @ cdfs[0] / totals[:, 0].sum()
    gained = sum(totals[:, label] @ _steps(cdfs[label]) for label in positive) / totals[:, positive].sum()
    below = np.concatenate(([0.0], negatives[:-1]))
    return float(gained @ ((below + negatives) / 2))


def _observed(
    cdfs: dict[int, Floats], totals: Floats, looked_at: Floats, names: dict[int, str], compared: Flags
) -> dict[str, float]:
    """Return distances given observed labels: positives that nobody looks at are logged as negatives."""
    merit = totals[:, 1] / np.maximum(totals.sum(axis=1), 1e-300)
    positive, negative = _steps(cdfs[1]), _steps(cdfs[0])
    seen = positive * looked_at
    unseen = (1 - merit)[:, None] * negative + merit[:, None] * (positive - seen)
    found = {}
    for label, mass in ((0, unseen), (1, seen)):
        cumulated = np.cumsum(mass[compared], axis=1)
        held = cumulated[:, -1] > 0
        found[names[label]] = _spread(cumulated[held] / cumulated[held, -1:])
    return _worst(found)
