"""The sections of the page, from top to bottom, as HTML."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from html import escape

from evenodds.report import notes, words
from evenodds.report.exhibits import lit
from evenodds.report.facts import Facts, GroupCounts
from evenodds.report.provenance import data_quality, provenance
from evenodds.report.texts import DISTANCES, GROUPS, distances, order

Told = dict[str, list[str]]
Drawn = Callable[[str], list[str]]
Section = Callable[[Facts, Told, Drawn], str]


def moving(facts: Facts, told: Told, key: str, tag: str = "span", more: str = "") -> str:
    """Return text that follows the slider."""
    text = escape(told[key][facts.own])
    return f'<{tag} data-k="{key}"{more}>{text}</{tag}>'


def paragraph(text: str, kind: str = "") -> str:
    """Return a paragraph, or nothing."""
    marked = f' class="{kind}"' if kind else ""
    return f"<p{marked}>{escape(text)}</p>" if text else ""


def grid(figures: Iterable[str], kind: str = "") -> str:
    """Return charts side by side where there is room."""
    listed = "".join(figures)
    return f'<div class="grid{kind and " " + kind}">{listed}</div>' if listed else ""


def heading(name: str, title: str) -> str:
    """Return the beginning of a section."""
    return f'<section aria-labelledby="{name}"><h2 id="{name}">{escape(title)}</h2>'


def verdict(facts: Facts, told: Told, drawn: Drawn) -> str:
    """Return the head of the page: the verdict in words, its numbers, and the slider."""
    del drawn
    before, about = facts.before, facts.about
    first = words.headline(facts, facts.after[facts.own])[0]
    groups = facts.names
    listed = words.listed(groups) if len(groups) <= 6 else f"{len(groups)} groups"
    rows = words.whole(facts.rows)
    source = f"{words.listed(about.sources)} · {rows} rows · {listed} · {about.date}"
    one = before.parity
    cards = [
        _card(
            f"Unfairness among {words.nouns(facts)}",
            words.number(before.unfairness.value),
            moving(facts, told, "unfairness"),
            f"before {escape(words.between(before.unfairness) or '–')}; after "
            f"{moving(facts, told, 'unfairness-range')}",
        )
    ]
    if one is not None:
        cards.append(
            _card(
                f"Exposure for equal merit, {one.groups[0]} against {one.groups[1]}",
                words.percent(one.ratio.value, 0),
                moving(facts, told, "ratio"),
                f"before {escape(words.between(one.ratio, words.percent) or '–')}; after "
                f"{moving(facts, told, 'ratio-range')}",
            )
        )
    if before.shares is not None:
        cards.append(_change_card(facts, told))
    last = len(facts.after) - 1
    own = words.alpha_text(facts.after[facts.own].alpha or 0.0)
    return f"""<header>
<h1>Fairness report</h1>
<p class="source">{escape(source)}</p>
</header>
<main id="main" tabindex="-1">
<section aria-label="The verdict">
<p class="verdict"><span>{escape(first)}</span> {moving(facts, told, "effect", more=' class="effect"')}</p>
<dl class="cards">{"".join(cards)}</dl>
<div class="answers">
<div><h2>How unfair, and to whom?</h2><p>{escape(words.whom(facts, before))} {escape(words.how_unfair(facts))}</p></div>
<div><h2>How sure is that?</h2><p>{escape(words.how_sure(facts))}</p>{paragraph(notes.in_sample(facts))}</div>
<div><h2>What does the correction do?</h2><p>{moving(facts, told, "after")} {moving(facts, told, "parity")}</p></div>
<div><h2>What does it cost, or gain?</h2><p>{moving(facts, told, "gains")}</p></div>
</div>
{paragraph(notes.definition(facts), "soft")}
</section>
<div class="strength" role="group" aria-label="Strength of the correction">
<div class="row"><label for="alpha">Strength of the correction (alpha)</label>
<input type="range" id="alpha" min="0" max="{last}" step="1" value="{facts.own}">
<output for="alpha">{moving(facts, told, "strength")}</output>
<span class="other">not the model’s own; <button type="button" id="back">back to {own}</button></span></div>
<p class="now" aria-live="polite">{moving(facts, told, "now")}</p>
</div>
<nav aria-label="On this page"><ul>
<li><a href="#scores">Scores</a></li><li><a href="#tradeoff">What it costs</a></li>
<li><a href="#exposure">Who is seen</a></li><li><a href="#movers">Who moves</a></li>
<li><a href="#pairs">All distances</a></li><li><a href="#promise">What it promises</a></li>
<li><a href="#data">The data</a></li><li><a href="#made">How it was made</a></li></ul></nav>
<noscript><p class="warn">The charts and the slider need JavaScript, which this file carries with it.
The text shows the model’s own strength.</p></noscript>"""


def _change_card(facts: Facts, told: Told) -> str:
    return (
        '<div class="card"><dt>What it does to the share of positives</dt>'
        f'<dd class="big">{moving(facts, told, "change")}</dd>'
        f'<dd class="range">{moving(facts, told, "change-range")}; '
        f"expected {moving(facts, told, 'positives')}</dd></div>"
    )


def _card(title: str, before: str, after: str, below: str) -> str:
    return (
        f'<div class="card"><dt>{escape(title)}</dt><dd class="big">{escape(before)} '
        f'<span class="arrow" role="img" aria-label="becomes">→</span> {after}</dd>'
        f'<dd class="range">{below}</dd></div>'
    )


def scores(facts: Facts, told: Told, drawn: Drawn) -> str:
    """Return the score distributions."""
    del told
    return (
        heading("scores", "Are equally qualified items scored alike?")
        + paragraph(
            "Each line shows how the scores of one group’s items are spread. Where the lines lie on each "
            "other, a cut-off at any score treats the groups alike."
        )
        + paragraph(notes.which_labels(facts))
        + paragraph(_of_many(facts), "soft")
        + grid(drawn("scores"))
        + "</section>"
    )


def tradeoff(facts: Facts, told: Told, drawn: Drawn) -> str:
    """Return what each strength does and costs."""
    del told, facts
    return (
        heading("tradeoff", "What does each strength do, and cost?")
        + paragraph(
            "The strength, alpha, mixes the old score (0) with the fully corrected one (1). The dashed "
            "line stands at the strength of the slider; shaded bands are 95 % intervals."
        )
        + grid(drawn("tradeoff"))
        + "</section>"
    )


def exposure(facts: Facts, told: Told, drawn: Drawn) -> str:
    """Return the position bias, and who stands where."""
    del told
    parts = [heading("exposure", "Who is seen?")]
    if facts.before.shares is None:
        parts.append(
            paragraph(
                "The log names no positions. So nothing can be said about who is seen; the scores are "
                "compared as they are, without correcting for what people never looked at."
            )
        )
    else:
        parts.append(
            paragraph(
                "Lines show which part of the items at a position belongs to a group. People look at the "
                "top of the list first, so the left end counts most."
            )
        )
    parts.append(grid([*drawn("exposure"), *drawn("bias")]))
    parts += ["<h3>How far the curve of positions can be trusted</h3>", paragraph(notes.assumption(facts))]
    if facts.bias.method != "none":
        parts.append(paragraph(notes.bias_note(facts), "soft"))
    return "".join(parts) + "</section>"


def movers(facts: Facts, told: Told, drawn: Drawn) -> str:
    """Return who moves up and down, and by how much."""
    parts = [heading("movers", "Who moves, and how far?"), paragraph(notes.movers_note(facts))]
    shown = order(facts)
    head = ["group", "#rows", "#positives"]
    positioned, seen = facts.before.shares is not None, facts.before.parity is not None
    head += ["#mean position"] if positioned else []
    head += ["#exposure"] if positioned else []
    head += ["#qualified items seen"] if seen else []
    head += ["#mean rank of qualified", "#move up", "#move down"]
    lines = []
    for place in shown:
        group, state = facts.groups[place], facts.before.groups[place]
        cells = [words.whole(group.rows), words.whole(group.positives)]

        def two(key: str, before: str, at: int = place) -> str:
            return f"{escape(before)} → {moving(facts, told, f'group-{at}-{key}')}"

        body = [escape(cell) for cell in cells]
        if positioned:
            body.append(two("slot", "–" if state.slot is None else f"{state.slot:.1f}"))
            body.append(
                two("exposure", words.percent(None if state.exposure is None else state.exposure.value, 0))
            )
        if seen:
            body.append(two("seen", words.percent(None if state.seen is None else state.seen.value, 0)))
        body.append(two("rank", words.percent(state.rank, 0)))
        body += [moving(facts, told, f"group-{place}-{key}") for key in ("rising", "falling")]
        lines.append(_line(group, body))
    left = len(facts.groups) - len(shown)
    parts.append(table(head, lines, "Groups, before and after the correction"))
    if left:
        parts.append(
            paragraph(f"The {GROUPS} largest groups; {left} more are in evenodds audit --json.", "soft")
        )
    parts.append(paragraph(notes.table_note(facts), "soft"))
    parts.append(_small(facts.groups))
    return "".join(parts) + grid(drawn("movers")) + grid(drawn("kernel"), "small") + "</section>"


def pairs(facts: Facts, told: Told, drawn: Drawn) -> str:
    """Return every distance: matrices for several groups, and a table."""
    several = len(facts.groups) > 2
    parts = [heading("pairs", "Every distance")]
    figures = drawn("pairs")
    if several:
        parts.append(
            paragraph(
                "The distance of each pair of groups: 0 alike, 1 no overlap. Grey cells rest on too few "
                "rows to be relied on; they do not count towards the verdict."
            )
        )
        if len(facts.drawn) < len(facts.groups):
            parts.append(paragraph(_of_many(facts), "soft"))
        parts.append(grid(figures))
    if facts.before.columns:
        names = facts.about.columns.get("group", ())
        listed = [str(name) for name in names] if isinstance(names, list | tuple) else []
        lines = [
            f"<tr><th scope=row>{escape(name)}</th><td "
            f"class=n>{words.number(facts.before.columns[at])}</td><td "
            f"class=n>{moving(facts, told, f'column-{at}')}</td></tr>"
            for at, name in enumerate(listed)
        ]
        parts.append("<h3>By one column alone</h3>")
        parts.append(
            paragraph(
                "Groups here are combinations of columns. This is the largest distance when only one "
                "column tells them apart."
            )
        )
        parts.append(table(["column", "#before", "#after"], lines, "Largest distance by one column alone"))
    shown = distances(facts)
    lines = []
    for place in shown:
        gap = facts.before.gaps[place]
        note = f" ({escape(gap.small)})" if gap.small else ""
        lines.append(
            f"<tr{' class=grey' if gap.small else ''}><th "
            f"scope=row>{escape(notes.given(facts, gap))}</th><td>{escape(' / '.join(gap.groups))}{note}</td><td "
            f"class=n>{escape(words.with_range(gap.ks))}</td><td "
            f"class=n>{escape(words.chance(gap.p) or '–')}</td><td "
            f"class=n>{moving(facts, told, f'gap-{place}')}</td></tr>"
        )
    parts.append("<h3>In numbers</h3>")
    parts.append(paragraph(notes.gaps_note(facts), "soft"))
    parts.append(
        table(["among", "groups", "#before", "#chance", "#after"], lines, "Distances with 95 % intervals")
    )
    left = len(facts.before.gaps) - len(shown)
    if left:
        parts.append(
            paragraph(
                f"The largest of each kind, about {DISTANCES} in all; {left} more are in evenodds audit "
                "--json.",
                "soft",
            )
        )
    return "".join(parts) + "</section>"


def promise(facts: Facts, told: Told, drawn: Drawn) -> str:
    """Return what the criterion promises."""
    del told, drawn
    listed = "".join(f"<li>{escape(line)}</li>" for line in notes.promise(facts))
    return (
        heading("promise", "What the correction promises, and what it does not")
        + f"<ul>{listed}</ul></section>"
    )


def foot(facts: Facts, told: Told, drawn: Drawn) -> str:
    """Return the end of the page."""
    del told, drawn
    about = facts.about
    return (
        f"</main><footer><p>Made by evenodds {escape(about.version)} on {escape(about.date)}. The method: "
        "Nandy et al., Achieving Fairness via Post-Processing in Web-Scale Recommender Systems (FAccT "
        "2022). This file holds everything it shows and asks nothing of any network.</p></footer>"
    )


def table(head: Sequence[str], lines: Sequence[str], caption: str) -> str:
    """Return a table that scrolls sideways where the screen is narrow; columns of numbers begin with a #."""
    cells = "".join(
        f"<th scope=col{' class=n' if cell.startswith('#') else ''}>{escape(cell.removeprefix('#'))}</th>"
        for cell in head
    )
    return (
        f'<div class="wide" tabindex="0" role="region" aria-label="{escape(caption, quote=True)}"><table>'
        f"<caption>{escape(caption)}</caption><thead><tr>{cells}</tr></thead><tbody>{''.join(lines)}</tbody></table></div>"
    )


def _line(group: GroupCounts, cells: Sequence[str]) -> str:
    kind = " class=grey" if group.small else ""
    body = "".join(f"<td class=n>{cell}</td>" for cell in cells)
    return f"<tr{kind}><th scope=row>{escape(group.group)}</th>{body}</tr>"


def _small(groups: Sequence[GroupCounts]) -> str:
    few = [f"{group.group} ({group.small})" for group in groups if group.small]
    if not few:
        return ""
    return paragraph(
        f"In grey, because their figures are not to be relied on: {words.listed(few, 20)}.", "soft"
    )


def _of_many(facts: Facts) -> str:
    if len(facts.drawn) == len(facts.groups):
        some = len(lit(facts)) < len(facts.drawn)
        return "In colour: the groups furthest apart, and the largest; the others in grey." if some else ""
    return (
        f"{len(facts.drawn)} of {len(facts.groups)} groups are drawn: those furthest apart, and the "
        "largest. The verdict looks at all."
    )


SECTIONS: tuple[Section, ...] = (
    verdict,
    scores,
    tradeoff,
    exposure,
    movers,
    pairs,
    promise,
    data_quality,
    provenance,
    foot,
)
