"""The last sections: what the data are like, and how the page was made."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from html import escape

from evenodds.report import notes, words
from evenodds.report.facts import Facts

Told = dict[str, list[str]]
Drawn = Callable[[str], list[str]]


def data_quality(facts: Facts, told: Told, drawn: Drawn) -> str:
    """Return what the data are like."""
    del told, drawn
    notes = "".join(f"<li>{escape(note)}</li>" for note in dict.fromkeys(facts.about.notes))
    listed = f"<h3>Notes</h3><ul>{notes}</ul>" if notes else ""
    return _section("data", "How good are the data?", _rows(_quality(facts))) + listed + "</section>"


def provenance(facts: Facts, told: Told, drawn: Drawn) -> str:
    """Return how the page was made, for whoever wants to check it."""
    del told, drawn
    return _section("made", "How this page was made", _rows(_made(facts))) + "</section>"


def _section(name: str, title: str, body: str) -> str:
    return f'<section aria-labelledby="{name}"><h2 id="{name}">{escape(title)}</h2>{body}'


def _rows(pairs: Iterator[tuple[str, str]]) -> str:
    lines = "".join(
        f"<tr><th scope=row>{escape(name)}</th><td>{escape(value)}</td></tr>" for name, value in pairs
    )
    return f'<table class="pairs"><tbody>{lines}</tbody></table>'


def _quality(facts: Facts) -> Iterator[tuple[str, str]]:
    about = facts.about
    positives = sum(group.positives for group in facts.groups)
    weighted = " (sums of row weights)" if about.weighted else ""
    yield "Rows counted", f"{words.whole(facts.rows)}, with {words.whole(positives)} positives{weighted}"
    yield "Rows dropped", notes.rows_note()
    unknown = [group for group in facts.groups if group.own is None]
    if unknown:
        listed = words.listed([f"{group.group} ({words.whole(group.rows)} rows)" for group in unknown], 12)
        fate = {
            "pooled": "they take the map of all groups together",
            "keep": "they keep their score",
            "error": "the model refuses them",
        }[str(about.settings.get("unknown", "pooled"))]
        yield "Groups the model does not know", f"{listed}; {fate}"
    else:
        yield "Groups the model does not know", "None in this log."
    pooled = [group.group for group in facts.groups if group.own is False]
    yield (
        "Groups without a map of their own",
        f"{words.listed(pooled, 12)}: too few rows; they share the map of all groups together"
        if pooled
        else "None.",
    )
    few = [f"{group.group}: {group.small}" for group in facts.groups if group.small]
    yield "Groups too small to judge", words.listed(few, 12) if few else "None."
    yield "Clipped", _clipped(facts)
    yield "Thin bins", _thin(facts)
    yield (
        "Tied scores",
        "None."
        if facts.tied == 0
        else f"{words.percent(facts.tied)} of the rows share their score with many others; the "
        "correction splits such ties by a keyed draw.",
    )
    if about.depth is not None:
        yield "Positions", f"Those past {about.depth} are pooled."
    if about.folds is None:
        yield "Intervals", "None: fewer than five parts of the log hold rows."
    else:
        unit = (
            "queries, so that what hangs together in a list stays together"
            if about.unit == "query"
            else "rows: the log names no queries, so intervals are too narrow if the rows of a list hang together"
        )
        yield "Intervals", f"95 %, from leaving out each of {about.folds} parts of the {unit}."


def _clipped(facts: Facts) -> str:
    worst = max(facts.groups, key=lambda group: group.clipped)
    if not words.biased(facts) or worst.clipped < 5e-5:
        return "Nothing."
    return (
        "In places the correction for position would leave fewer than zero negatives; zero is taken there. That adds "
        f"{words.percent(worst.clipped)} to the negatives of {worst.group}, the most of any group."
    )


def _thin(facts: Facts) -> str:
    known = [group for group in facts.groups if group.thin is not None]
    if not known:
        return "Does not apply: this criterion works without bins."
    thin = max(known, key=lambda group: group.thin or 0.0)
    if not thin.thin:
        return "None: every bin of the model has enough rows of each label."
    return (
        f"At most {words.percent(thin.thin)} of a group’s rows of one label lie in bins with fewer than "
        f"ten of them ({thin.group})."
    )


def _made(facts: Facts) -> Iterator[tuple[str, str]]:
    about = facts.about
    yield "Made on", f"{about.date}, with evenodds {about.version}"
    yield "Command", about.command
    yield "Model", f"{about.checksum}, written by {about.written_by}"
    criterion = {"opportunity": "equality of opportunity", "odds": "equalized odds"}
    yield "Criterion", criterion.get(about.criterion, about.criterion)
    yield "Settings", ", ".join(f"{name} = {_said(value)}" for name, value in about.settings.items())
    yield "Fitted on", f"{words.listed(about.fitted_sources, 12)} ({words.whole(about.fitted_rows)} rows)"
    yield "Judged on", f"{words.listed(about.sources, 12)} ({words.whole(facts.rows)} rows)"
    yield "Columns", ", ".join(f"{role} = {_said(name)}" for role, name in about.columns.items())
    yield "Score cells", f"{words.whole(about.cells)}, grid {about.grid}"


def _said(value: object) -> str:
    if isinstance(value, list | tuple):
        return " × ".join(map(str, value)) if len(value) <= 6 else f"{len(value)} values"
    if isinstance(value, dict):
        return f"{len(value)} values"
    return "none" if value is None else str(value)
