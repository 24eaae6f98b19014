"""How unfair is a ranking: distances between the groups' score distributions given the label.

**Unfairness** is the largest Kolmogorov-Smirnov distance between any two groups, for one label. Each
distance is given for observed labels, as logged, and for merit labels, with position bias undone.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from itertools import combinations
from typing import Any

import numpy as np
import numpy.typing as npt

from evenodds.errors import TallyError
from evenodds.merit import merit_mass
from evenodds.position import PositionBias, position_bias
from evenodds.position.estimate import Method
from evenodds.reranker import Reranker
from evenodds.tally import as_tally, check_comparable, group_name

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Distance:
    """The distance between two groups given one label.

    Attributes
    ----------
    label, kind
        0 or 1; "merit" or "observed".
    groups
        The two groups' names.
    before
        Kolmogorov-Smirnov distance of the scores as logged.
    after
        The same of the fair scores; None without a model, and for observed labels under position
        bias, which re-ranking itself changes.
    """

    label: int
    kind: str
    groups: tuple[str, str]
    before: float
    after: float | None


@dataclass(frozen=True)
class Audit:
    """The outcome of an audit; prints as a table."""

    rows: int
    groups: tuple[dict[str, Any], ...]
    distances: tuple[Distance, ...]
    position_bias: PositionBias
    notes: tuple[str, ...]

    def unfairness(self, label: int = 1, *, kind: str | None = None, after: bool = False) -> float:
        """Return the largest distance over pairs of groups for a label."""
        kind = kind or self.main_kind
        found = [d for d in self.distances if d.label == label and d.kind == kind]
        values = [d.after if after else d.before for d in found]
        return max((value for value in values if value is not None), default=float("nan"))

    @property
    def main_kind(self) -> str:
        """The kind of label that unfairness is judged by: merit where position bias is known, else observed."""
        return "merit" if any(distance.kind == "merit" for distance in self.distances) else "observed"

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON values."""
        return {
            "rows": self.rows,
            "groups": list(self.groups),
            "distances": [
                asdict(distance) | {"groups": list(distance.groups)} for distance in self.distances
            ],
            "position_bias": self.position_bias.to_dict(),
            "notes": list(self.notes),
        }

    def __str__(self) -> str:
        with_model = any(distance.after is not None for distance in self.distances)
        width = max(len(" / ".join(distance.groups)) for distance in self.distances)
        header = f"{'label':<22} {'groups':<{width}}  {'before':>7}" + (
            f"  {'after':>7}" if with_model else ""
        )
        outcomes = max(distance.label for distance in self.distances)
        lines = [f"unfairness: Kolmogorov-Smirnov distance between groups, {self.rows:,} rows", header]
        for distance in self.distances:
            name = f"{label_name(distance.label, outcomes)} ({distance.kind})"
            after = (
                "" if not with_model else f"  {'-' if distance.after is None else f'{distance.after:.4f}':>7}"
            )
            lines.append(f"{name:<22} {' / '.join(distance.groups):<{width}}  {distance.before:>7.4f}{after}")
        return "\n".join([*lines, *self.notes])


def audit(
    data: object, model: Reranker | None = None, *, position_bias_method: Method = "joint", **roles: object
) -> Audit:
    """Audit a log or tally as it was ranked, and as a model would score it.

    Parameters
    ----------
    data
        A tally, a log, or a table with its column roles.
    model
        A fitted reranker; its position bias is used. Without one it is estimated from the data.
    position_bias_method
        How to estimate it without a model.

    Examples
    --------
    >>> from evenodds import simulate, tally
    >>> result = audit(tally(simulate(queries=1000), cells=500))
    >>> round(result.unfairness(label=1), 1), round(result.unfairness(label=0), 1)
    (0.6, 0.8)
    """
    tally = as_tally(data, roles)
    check_comparable(tally)
    bias = model.position_bias_ if model is not None else position_bias(tally, position_bias_method)
    biased = bool((bias.weights != 1.0).any())
    runs = model.runs(tally) if model is not None else None
    masses = {"merit": merit_mass(tally, bias, runs), "observed": tally.counts.sum(axis=2, dtype=np.float64)}
    names = [group_name(group) for group in tally.groups]
    distances: list[Distance] = []
    notes: list[str] = []
    for label in (*range(1, tally.counts.shape[1]), 0):
        for kind in ("merit", "observed") if biased else ("observed",):
            mass = masses[kind][:, label]
            empty = [name for name, total in zip(names, mass.sum(axis=1), strict=True) if total <= 0]
            notes += [
                f"group {name} has no {label_name(label, tally.roles.outcomes)} label: left out"
                for name in empty
                if kind != "merit"
            ]
            before = _pairwise(tally.edges, _shares(mass))
            mapped = model is not None and (kind == "merit" or not biased)
            after = _pairwise(*model.fair_cdf(tally, mass)) if model is not None and mapped else None
            distances += [
                Distance(
                    label,
                    kind,
                    (names[i], names[j]),
                    float(before[i, j]),
                    None if after is None else float(after[i, j]),
                )
                for i, j in combinations(range(len(names)), 2)
                if names[i] not in empty and names[j] not in empty
            ]
    if not any(distance.label for distance in distances):
        raise TallyError(
            "fewer than two groups have positives: there is nothing to compare",
            hint="more rows; or is this the right group column?",
        )
    totals = tally.counts.sum(axis=(2, 3), dtype=np.float64)
    groups = tuple(
        {
            "group": name,
            "rows": float(row.sum()),
            "positives": float(row[1:].sum()),
            "positive_rate": float(row[1:].sum() / max(row.sum(), 1e-300)),
        }
        for name, row in zip(names, totals, strict=True)
    )
    return Audit(tally.rows, groups, tuple(distances), bias, (*bias.notes, *notes))


def label_name(label: int, outcomes: int) -> str:
    """Name a label for people.

    >>> label_name(1, outcomes=1), label_name(2, outcomes=3)
    ('positive', 'outcome 2')
    """
    if label == 0:
        return "negative"
    return "positive" if outcomes == 1 else f"outcome {label}"


def _shares(mass: Floats) -> Floats:
    total = np.cumsum(mass, axis=1)
    shares: Floats = np.hstack((np.zeros((mass.shape[0], 1)), total / np.maximum(total[:, -1:], 1e-300)))
    return shares


def _pairwise(_thresholds: Floats, cdf: Floats) -> Floats:
    """Return the matrix of Kolmogorov-Smirnov distances, max |F_i - F_j|."""
    return np.array([[np.abs(one - other).max() for other in cdf] for one in cdf])


def largest_distance(thresholds: Floats, cdf: Floats) -> float:
    """Return the largest distance between any two rows."""
    return float(_pairwise(thresholds, cdf).max())
