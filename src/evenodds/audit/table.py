"""An audit in words and as a table: one screen, whatever the number of groups."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from evenodds.audit.intervals import Figure

if TYPE_CHECKING:
    from evenodds.audit.result import Audit, Distance

_SHOWN = 12  # rows of each table
_NAMES = {
    "positive_rate": "positives",
    "merit_rate": "merit",
    "auc": "AUC",
    "exposure": "exposure",
    "parity": "exposure/merit",
}


def verdict(audit: Audit) -> str:
    """Say in one sentence how unfair the ranking is, how sure that is, and what the model does about it."""
    from evenodds.audit.result import label_name

    names = [label_name(label, audit.outcomes) for label in sorted(audit.gated, reverse=True)]
    labels = " and ".join(f"{name}s" if name in {"positive", "negative"} else name for name in names)
    pairs = [one for one in audit.distances if one.kind == audit.main_kind and one.label in audit.gated]
    judged = [one for one in pairs if one.small is None] or pairs
    if not judged:
        return f"nothing to compare among {labels}"
    top = max(judged, key=lambda one: one.before)
    known = [one.logged.p_adjusted for one in judged if one.logged.p_adjusted is not None]
    sure = min(known, default=None)
    differ = "differ" if sure is not None and sure < 0.05 else "show no difference beyond chance"
    start = f"unfairness among {labels}:" if sure is None else f"groups {differ} among {labels}: unfairness"
    said = f"{start} {_words(top.logged.ks)} ({' / '.join(top.groups)}"
    said += ")" if sure is None else f", p {p_text(sure, words=True)})"
    if not audit.with_model:
        return said
    last = max(judged, key=lambda one: one.after or 0.0).fair
    if last is None or last.ks.value is None:
        return said
    most = audit.unfairness_at_most(after=True)
    bound = "" if math.isnan(most) else f", at most {most:.3f}"
    return f"{said}; after the model {last.ks.value:.3f}{bound}"


def table(audit: Audit) -> str:
    """Lay the audit out."""
    parts = [verdict(audit), "", *_distances(audit), "", *_groups(audit)]
    ratios = [one for one in audit.parity if one.before.value is not None]
    if len(ratios) == 1:
        one = ratios[0]
        after = "" if one.after is None else f", after the model {one.after.text()}"
        parts += [
            f"exposure/merit of {one.groups[0]} over that of {one.groups[1]}: {one.before.text()}{after}"
        ]
    parts += [f"note: {note}" for note in audit.notes]
    return "\n".join(parts)


def _distances(audit: Audit) -> list[str]:
    from evenodds.audit.result import label_name

    shown = _most(audit.distances, audit.main_kind)
    header = ["label", "groups", "KS before"]
    header += ["KS after"] if audit.with_model else []
    header += ["W1 before"]
    header += ["W1 after"] if audit.with_model else []
    rows = [[*header, "p before"]]
    for one in shown:
        row = [f"{label_name(one.label, audit.outcomes)} ({one.kind})", " / ".join(one.groups)]
        row += [one.logged.ks.text()]
        row += [one.fair.ks.text() if one.fair else "-"] if audit.with_model else []
        row += [_plus_minus(one.logged.wasserstein)]
        row += [_plus_minus(one.fair.wasserstein) if one.fair else "-"] if audit.with_model else []
        rows.append([*row, p_text(one.logged.p_adjusted) + ("  (small)" if one.small else "")])
    lines = aligned(rows)
    left = len(audit.distances) - len(shown)
    return [*lines, f"... and {left} more: --json, or .to_dict()"] if left else lines


def _most(distances: Sequence[Distance], kind: str) -> list[Distance]:
    """Return as many as fit: the main kind first, the largest first, then in the order of the audit."""
    if len(distances) <= _SHOWN:
        return list(distances)
    return sorted(distances, key=lambda one: (one.kind != kind, one.small is not None, -one.before))[:_SHOWN]


def _groups(audit: Audit) -> list[str]:
    shown = sorted(audit.groups, key=lambda one: -one.rows)[:_SHOWN]
    names = [name for name in audit.groups[0].before if not name.startswith("auc")]
    names = [*names[:2], "auc", *names[2:]] if "merit_rate" in names else [names[0], "auc", *names[1:]]
    key = {name: f"auc_{audit.main_kind}" if name == "auc" else name for name in names}
    rows = [["group", "rows", *(_NAMES[name] for name in names)]]
    for one in (one for one in audit.groups if one in shown):
        rows.append(
            [one.group, f"{one.rows:,.0f}", *_row(one.before, key), *(["(small)"] if one.small else [])]
        )
        if one.after is not None:
            rows.append(["  after", "", *_row(one.after, key)])
    left = len(audit.groups) - len(shown)
    return [*aligned(rows, right=1), *([f"... and {left} more groups"] if left else [])]


def _row(figures: dict[str, Figure], key: dict[str, str]) -> list[str]:
    return [_plus_minus(figures[name]) for name in key.values()]


def _plus_minus(figure: Figure) -> str:
    if figure.value is None:
        return "-"
    if figure.low is None or figure.high is None:
        return f"{figure.value:.4g}"
    reach = (figure.high - figure.low) / 2
    digits = 3 if figure.value < 10 else 1
    return f"{figure.value:.{digits}f} ± {reach:.{digits}f}"


def _words(figure: Figure) -> str:
    if figure.value is None:
        return "unknown"
    if figure.low is None or figure.high is None:
        return f"{figure.value:.3f}"
    return f"{figure.value:.3f}, 95 % interval {figure.low:.3f} to {figure.high:.3f}"


def p_text(value: float | None, *, words: bool = False) -> str:
    """Print a p-value, for a cell of a table or for a sentence."""
    if value is None:
        return "-"
    if value < 0.01:
        return "< 0.01" if value >= 0.001 else "< 0.001"
    return f"= {value:.2f}" if words else f"{value:.2f}"


def aligned(rows: list[list[str]], right: int | None = None) -> list[str]:
    """Pad columns to a common width; `right` is the one that is set flush right."""
    count = max(map(len, rows))
    widths = [max(len(row[place]) for row in rows if place < len(row)) for place in range(count)]
    return [
        "  ".join(
            cell.rjust(width) if place == right else cell.ljust(width)
            for place, (cell, width) in enumerate(zip(row, widths, strict=False))
        ).rstrip()
        for row in rows
    ]
