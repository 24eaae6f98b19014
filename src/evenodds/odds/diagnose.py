"""What a fit of equalized odds has to say about itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from evenodds.audit import label_name
from evenodds.groups import group_name
from evenodds.odds.bins import Bins
from evenodds.odds.fit import Fitted, epsilons
from evenodds.position import PositionBias
from evenodds.tally import Tally
from evenodds.tradeoff import prospect, rounded, short

if TYPE_CHECKING:
    from evenodds.odds.equalized import EqualizedOdds

Floats = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]
Ints = npt.NDArray[np.int64]

_THIN_ROWS = 10  # rows of a label in a bin, below which its share is a guess
_THIN_SHARE = 0.1  # of a group's label in such bins, above which the kernel is
_COARSE = 200  # bins for counting inversions: the count takes K^2 T products


def diagnose(
    model: EqualizedOdds,
    tally: Tally,
    bias: PositionBias,
    bins: Bins,
    fitted: Fitted,
    own: Flags,
    labels: Ints,
) -> dict[str, Any]:
    """Collect the diagnostics that a model file carries."""
    names = [group_name(group) for group in tally.groups]
    evidence = tally.effective()
    warned = [
        f"group {names[c]} has {evidence[c, labels].min():.0f} rows of its rarest label, fewer than "
        f"{model.min_positives}: it takes the mean kernel of the other groups"
        for c in np.flatnonzero(~own)
    ]
    thin = _thin_share(tally, bins, labels)
    for c in np.flatnonzero(own & (thin.max(axis=1) > _THIN_SHARE)):
        label = label_name(int(labels[thin[c].argmax()]), tally.roles.outcomes)
        warned.append(
            f"group {names[c]}: {100 * thin[c].max():.0f} % of its rows with label {label} lie in bins with fewer "
            f"than {_THIN_ROWS} of them; its kernel is unreliable, use fewer bins"
        )
    before = _before(tally, bins, own, labels)
    expected = rounded(prospect(model, tally, bias, own, bins.starts))
    moved = _moved_share(fitted, bins)
    # A label that an infinite epsilon leaves free is promised nothing.
    free = [] if model.epsilon is None else [not np.isfinite(value) for value in epsilons(model, labels.size)]
    promised = [
        label_name(int(label), tally.roles.outcomes)
        for label, is_free in zip(labels, free or [False] * labels.size, strict=True)
        if not is_free
    ] or [label_name(int(label), tally.roles.outcomes) for label in labels]
    return {
        "unfairness": {
            "before": max(before[model.target][name] for name in promised),
            "after": max(expected[model.target][name] for name in promised),
        },
        "before": before,
        "expected": expected,
        "groups": [
            {
                "group": name,
                "rows": short(float(tally.counts[c].sum())),
                "positives": short(float(tally.effective_positives()[c])),
                "map": "own" if own[c] else "pooled",
                "clipped": short(float(bins.clipped[c])),
                "thin": short(float(thin[c].max())),
            }
            for c, name in enumerate(names)
        ],
        "bins": bins.count,
        "targets": int(fitted.levels.size - 1),
        "solver": {
            name: short(value) if isinstance(value, float) else value for name, value in fitted.solved.items()
        },
        "residuals": _residuals(model, bins, fitted, own, labels, names, tally.roles.outcomes),
        "moved": short(moved),
        "inversions": short(_inversions(fitted, bins)),
        "notes": [*bias.notes, *warned],
        "warnings": warned,
    }


def _residuals(
    model: EqualizedOdds,
    bins: Bins,
    fitted: Fitted,
    own: Flags,
    labels: Ints,
    names: list[str],
    outcomes: int,
) -> list[dict[str, Any]]:
    """Return how far each group is off each constraint on merit labels, as stored.

    For each label the largest difference between the group's image and the groups' mean image over the
    target bins; with an epsilon, how far its distribution function exceeds exp(epsilon) times another's.
    """
    used = np.flatnonzero(own)
    share = bins.mass[used][:, labels]
    share = share / share.sum(axis=2, keepdims=True)
    images = np.array([given @ fitted.rows[c] for given, c in zip(share, used, strict=True)])
    if model.epsilon is None:
        off = np.abs(images - images.mean(axis=0)).max(axis=2)
    else:
        ratio = np.exp(np.minimum(epsilons(model, labels.size), 700.0))
        below = np.cumsum(images, axis=2)
        off = np.maximum(below - ratio[:, None] * below.min(axis=0), 0.0).max(axis=2)
    found = []
    for place, c in enumerate(used):
        by_label = {
            label_name(int(label), outcomes): short(float(value))
            for label, value in zip(labels, off[place], strict=True)
            if model.target == "merit" or label > 0  # observed negatives: see the solver's residual
        }
        sums = float(np.abs(fitted.rows[c].sum(axis=1) - 1.0).max())
        found.append({"group": names[c], "row_sums": short(sums), **by_label})
    return found


def _before(tally: Tally, bins: Bins, own: Flags, labels: Ints) -> dict[str, dict[str, float]]:
    """Return Kolmogorov-Smirnov distances of the old score by label, given merit and observed labels."""
    names = [label_name(int(label), tally.roles.outcomes) for label in labels]
    observed = np.add.reduceat(tally.counts.sum(axis=2, dtype=np.float64), bins.starts, axis=2)
    masses = {"merit": bins.mass[own][:, labels], "observed": observed[own][:, labels]}
    return {
        kind: _named(names, [_largest(mass[:, y]) for y in range(labels.size)])
        for kind, mass in masses.items()
    }


def _largest(mass: Floats) -> float:
    cumulated = np.cumsum(mass, axis=1)
    cumulated /= np.maximum(cumulated[:, -1:], 1e-300)
    return float(np.ptp(cumulated, axis=0).max())


def _named(names: list[str], values: list[float]) -> dict[str, float]:
    return {name: short(value) for name, value in zip(names, values, strict=True)} | {
        "worst": short(max(values))
    }


def _thin_share(tally: Tally, bins: Bins, labels: Ints) -> Floats:
    """Return the share of each group's label that lies in bins with too few rows of it."""
    counts = np.add.reduceat(tally.counts.sum(axis=2, dtype=np.float64), bins.starts, axis=2)[:, labels]
    totals = counts.sum(axis=2)
    # With row weights a count is worth fewer rows.
    worth = np.divide(tally.effective()[:, labels], totals, out=np.zeros_like(totals), where=totals > 0)
    thin = np.where(counts * worth[:, :, None] < _THIN_ROWS, counts, 0.0).sum(axis=2)
    return np.divide(thin, totals, out=np.zeros_like(totals), where=totals > 0)


def _moved_share(fitted: Fitted, bins: Bins) -> float:
    """Return the share of items whose fair level leaves the levels of their bin."""
    total = 0.0
    low, high = bins.levels[:-1], bins.levels[1:]
    for visits, rows in zip(bins.visits, fitted.rows, strict=False):
        entries = rows.tocoo()
        inside = (fitted.levels[entries.col] >= low[entries.row] - 1e-9) & (
            fitted.levels[entries.col + 1] <= high[entries.row] + 1e-9
        )
        total += float((visits[entries.row] * entries.data * ~inside).sum())
    return total / float(bins.visits.sum())


def _inversions(fitted: Fitted, bins: Bins) -> float:
    """Return the chance that two items of different bins change their order; of bins that meet, half."""
    visits = bins.visits.sum(axis=0)
    flow = sum(
        (visit[:, None] * rows.toarray() for visit, rows in zip(bins.visits, fitted.rows, strict=False)),
        start=np.zeros((bins.count, fitted.levels.size - 1)),
    )
    size = min(_COARSE, bins.count)
    flow = np.add.reduceat(flow, np.arange(size) * bins.count // size, axis=0)
    visits = flow.sum(axis=1)
    above = flow[:, ::-1].cumsum(axis=1)[:, ::-1]
    higher = np.hstack((above[:, 1:], np.zeros((size, 1)))) + flow / 2
    crossed = np.triu(higher @ flow.T, 1).sum()
    pairs = np.triu(visits[:, None] * visits[None, :], 1).sum()
    return float(crossed / pairs) if pairs > 0 else 0.0
