"""What a page says, as plain values: no HTML, no charts, no sentences.

A page has one `State` for the log as it was ranked, and one for each strength (alpha) of the correction.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from evenodds.audit import Figure

Floats = npt.NDArray[np.float64]

SCHEMA = "evenodds-report/1"


@dataclass(frozen=True)
class Gap:
    """How far apart two groups' scores are, given one label: the Kolmogorov-Smirnov distance.

    Attributes
    ----------
    label, kind, groups
        0 is negative; "merit" or "observed"; the two groups' names.
    ks
        The distance.
    p
        Of "they are alike", corrected for all pairs; None where it cannot be told.
    small
        Why the pair is not to be relied on, else None.
    """

    label: int
    kind: str
    groups: tuple[str, str]
    ks: Figure
    p: float | None = None
    small: str | None = None


@dataclass(frozen=True)
class Cut:
    """The cut-off at which two groups differ most: that difference is their distance.

    Attributes
    ----------
    groups
        The group that passes less often, and the other one.
    score
        The cut-off.
    passing
        The share of each group's items of the label with a higher score.
    """

    label: int
    kind: str
    groups: tuple[str, str]
    score: float
    passing: tuple[float, float]


@dataclass(frozen=True)
class GroupState:
    """One group in one state of the ranking.

    Attributes
    ----------
    rank
        The mean share of all items that the group's positives stand above.
    exposure
        The mean position weight of its impressions: how likely they are looked at, the top slot being 1.
    seen
        The same of its merit positives.
    slot
        The mean position of its impressions, the first being 1.
    rising, falling
        The shares of its items that move up, and down, by more than a twentieth of all items.
    """

    group: str
    rank: float
    exposure: Figure | None
    seen: Figure | None
    slot: float | None
    rising: float | None = None
    falling: float | None = None


@dataclass(frozen=True)
class Parity:
    """Exposure for merit of one group over that of another: 1 when equally qualified items are seen alike."""

    groups: tuple[str, str]
    ratio: Figure


@dataclass(frozen=True, eq=False)
class State:
    """The ranking in one state: as logged, or at one strength of the correction.

    Attributes
    ----------
    alpha
        None for the log as it was ranked.
    unfairness
        The largest distance over the labels and pairs that count; its upper end is the largest upper end.
    gaps, cut
        Every distance; where the worst pair differs most.
    by_label
        For each label that counts its largest distance, None where there is nothing to compare.
    parity
        The group with least exposure for its merit over the one with most as the log was ranked.
    columns
        With crossed groups: for each column alone the largest distance given the first label that counts.
    positives, change
        The share of impressions that are positive, and how it compares with the old scores ranked anew.
    auc
        P(score of a positive > score of a negative), all groups together.
    movement
        E|fair score - score|.
    shares
        ``shares[group, position]`` of the impressions there, at `Facts.positions`.
    density
        ``density[label, group, bin]`` between `Facts.edges`, for the drawn groups.
    flow
        ``flow[group, from, to]``: where the items of a twentieth of all ranks go, by fair rank.
    curve
        ``curve[group, end, point]``: the lowest and highest fair score at `Facts.scores`.
    """

    alpha: float | None
    unfairness: Figure
    by_label: tuple[Figure, ...]
    gaps: tuple[Gap, ...]
    cut: Cut | None
    groups: tuple[GroupState, ...]
    parity: Parity | None
    columns: tuple[float, ...]
    positives: Figure
    change: Figure | None
    auc: Figure
    movement: float
    shares: Floats | None
    density: Floats
    flow: Floats | None = None
    curve: Floats | None = None


@dataclass(frozen=True)
class GroupCounts:
    """What the log holds of one group, and what the fit made of it.

    Attributes
    ----------
    small
        Why the group's figures are not to be relied on.
    own
        Whether the model has a map of its own for it; None if it does not know the group.
    clipped, thin
        The share of its negatives that clipping added; the share of a label in bins with too few rows.
    """

    group: str
    parts: tuple[str, ...]
    rows: float
    positives: float
    small: str | None
    own: bool | None
    clipped: float
    thin: float | None


@dataclass(frozen=True)
class Bias:
    """Position bias, and the test of what it assumes."""

    method: str
    positions: tuple[int, ...]
    weights: tuple[float, ...]
    errors: tuple[float, ...]
    p: float | None
    excess: float | None
    fails: bool


@dataclass(frozen=True)
class About:
    """Where a page comes from."""

    version: str
    date: str
    command: str
    criterion: str
    checksum: str
    written_by: str
    settings: Mapping[str, object]
    fitted_rows: int
    fitted_sources: tuple[str, ...]
    sources: tuple[str, ...]
    columns: Mapping[str, object]
    grid: str
    cells: int
    folds: int | None
    unit: str | None
    in_sample: bool
    weighted: bool
    depth: int | None
    notes: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class Facts:
    """Everything that a page says.

    Attributes
    ----------
    main
        The kind of label that unfairness is judged by: "merit" or "observed".
    promised
        The labels that the model makes equal.
    before, after, own
        The log as ranked; a state for each alpha; the place of the model's own alpha among these.
    drawn
        The places of the groups that charts show.
    tied
        The share of rows whose score is one that many share.
    """

    about: About
    rows: int
    outcomes: int
    main: str
    promised: tuple[int, ...]
    labels: tuple[int, ...]
    groups: tuple[GroupCounts, ...]
    drawn: tuple[int, ...]
    bias: Bias
    tied: float
    positions: tuple[int, ...]
    edges: Floats
    scores: Floats
    before: State
    after: tuple[State, ...]
    own: int

    @property
    def names(self) -> list[str]:
        """The groups' names."""
        return [group.group for group in self.groups]

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON values of six digits."""
        return {"schema": SCHEMA, **_plain(self)}


def _plain(value: Any) -> Any:
    if isinstance(value, Figure):
        return value.to_dict()
    if is_dataclass(value):
        return {field.name: _plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, np.ndarray):
        return _plain(value.tolist())
    if isinstance(value, dict):
        return {str(key): _plain(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(part) for part in value]
    if isinstance(value, float):
        return float(f"{value:.6g}") if np.isfinite(value) else None
    return value
