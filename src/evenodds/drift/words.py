"""A comparison in words and as a table: one screen, whatever the number of groups."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from evenodds.audit import label_name
from evenodds.audit.table import aligned, p_text
from evenodds.drift.result import Distribution, Rate, Weight, Weights, given

if TYPE_CHECKING:
    from evenodds.drift.result import Change, Drift

_NAMED = 3  # changes that a verdict names
_SHOWN = 12  # rows of a table
_RATES = {"share": "share of impressions", "positive_rate": "positives", "merit_rate": "merit rate"}


def verdict(drift: Drift) -> str:
    """Say whether the correction still holds, and if not why."""
    changed = _listed([_said(one, drift.outcomes) for one in drift.changes])
    if drift.left is None:
        if drift.status == "changed":
            return f"the log has changed: {changed}"
        if drift.status == "unchanged":
            return f"no change that matters (limit {drift.limit:.3f})"
        return "cannot tell: too few rows to rule out a change that matters"
    found = _unfairness(drift)
    if drift.status == "holds":
        extra = f"; the log has changed, though: {changed}" if changed else ""
        return f"the correction still holds: {found}{extra}"
    if drift.status == "drifted":
        new = f"; new group {_listed(drift.appeared)}" if drift.appeared else ""
        why = f"; {changed}" if changed else "; no single change is large enough to name"
        return f"the correction has drifted: {found}{new}{why if changed or not new else ''}"
    if drift.status == "unfair":
        extra = f"; the log has changed, though: {changed}" if changed else ", nor has the log"
        return (
            f"the correction is not fair, though it is not shown to have changed since it was fitted"
            f"{'' if changed else extra}: {found}{extra if changed else ''}; was it fitted on too few rows?"
        )
    return f"cannot tell: {found}{_more(drift)}"


def _unfairness(drift: Drift) -> str:
    now = drift.unfairness
    if now.value is None:
        return "no two groups to compare"
    labels = sorted({pair.label for pair in drift.judged}, reverse=True)
    names = [label_name(label, drift.outcomes) for label in labels]
    among = " and ".join(f"{name}s" if name in {"positive", "negative"} else name for name in names)
    top = max(drift.judged, key=lambda pair: pair.now.value or 0.0)
    said = f"unfairness among {among} {now.value:.3f} ({' / '.join(top.groups)})"
    if now.low is not None and drift.status in {"drifted", "unfair"}:
        said += f", at least {now.low:.3f}"
    elif now.high is not None:
        said += f", at most {now.high:.3f}"
    left = f", {drift.left:.3f} left by the fit" if drift.left and drift.left >= 0.001 else ""
    return f"{said} (limit {drift.limit:.3f}{left})"


def _more(drift: Drift) -> str:
    """Say how many more rows would decide, where that can be said."""
    now, most = drift.unfairness, (drift.left or 0.0) + drift.limit
    if now.value is None or now.high is None:
        return "; without errors nothing can be decided"
    room = abs(most - now.value)
    if room < 0.1 * (now.high - now.value):
        return "; it is too close to the limit"
    factor = ((now.high - now.value) / room) ** 2
    return f"; about {max(factor, 1.1):.2g} times as many rows would tell"


def _said(change: Change, outcomes: int) -> str:
    if isinstance(change, Distribution):
        whose = "all" if change.label < 0 else f"{given(change.label, outcomes)}"
        scores = "scores" if change.label < 0 else f"scores of {whose}s"
        return f"{scores} of {change.group} moved by {change.ks.value or 0.0:.3f}"
    if isinstance(change, Weights):
        top = change.largest
        return "" if top is None else f"position bias at {top.position} {_percent(top.ratio.value)}"
    if isinstance(change, Rate):
        return f"{_RATES[change.name]} of {change.group} {_percent(change.ratio.value)}"
    return ""


def _percent(ratio: float | None) -> str:
    return "unknown" if ratio is None else f"{100 * (ratio - 1):+.0f} %"


def _listed(parts: Sequence[str]) -> str:
    named = [part for part in parts if part]
    more = len(named) - _NAMED
    return ", ".join(named[:_NAMED]) + (f" and {more} more" if more > 0 else "")


def table(drift: Drift) -> str:
    """Lay the comparison out."""
    parts = [drift.verdict()]
    if drift.pairs:
        rows = [["under the model", "groups", "KS now", "p changed"]]
        rows += [
            [
                label_name(pair.label, drift.outcomes),
                " / ".join(pair.groups),
                pair.now.text(),
                p_text(pair.p_adjusted) + ("  (small)" if pair.small else ""),
            ]
            for pair in sorted(drift.pairs, key=lambda pair: -(pair.now.value or 0.0))[:_SHOWN]
        ]
        parts += ["", *aligned(rows), *_left(len(drift.pairs))]
    if drift.distributions:
        rows = [["scores of", "group", "KS old to new", "W1 old to new", "p"]]
        rows += [
            [
                given(one.label, drift.outcomes),
                one.group,
                one.ks.text(),
                one.wasserstein.text(),
                _starred(one) + ("  (small)" if one.small else ""),
            ]
            for one in sorted(drift.distributions, key=lambda one: -(one.ks.value or 0.0))[:_SHOWN]
        ]
        parts += ["", *aligned(rows), *_left(len(drift.distributions))]
    if drift.rates:
        rows = [["rate", "group", "old", "new", "ratio", "p"]]
        rows += [
            [
                _RATES[one.name],
                one.group,
                "-" if one.old is None else f"{one.old:.4f}",
                "-" if one.new is None else f"{one.new:.4f}",
                one.ratio.text(),
                _starred(one),
            ]
            for one in drift.rates[:_SHOWN]
        ]
        parts += ["", *aligned(rows), *_left(len(drift.rates))]
    weights = drift.weights
    top = None if weights is None else weights.largest
    if weights is not None and top is not None:
        parts += ["", f"position bias: largest change at position {top.position}, {_then_now(top)}"]
        parts[-1] += f"; all positions together p {_starred(weights)}"
    if drift.appeared:
        parts.append(f"new groups: {', '.join(drift.appeared)}")
    if drift.vanished:
        parts.append(f"groups that are gone: {', '.join(drift.vanished)}")
    if drift.changes:
        parts.append("* sure, and large enough to matter")
    return "\n".join([*parts, *(f"note: {note}" for note in drift.notes)])


def _then_now(weight: Weight) -> str:
    return f"{weight.old:.3f} -> {weight.new:.3f}, ratio {weight.ratio.text()}"


def _starred(change: Change) -> str:
    return p_text(change.p_adjusted) + (" *" if change.matters else "")


def _left(count: int) -> list[str]:
    return [f"... and {count - _SHOWN} more: --json, or .to_dict()"] if count > _SHOWN else []
