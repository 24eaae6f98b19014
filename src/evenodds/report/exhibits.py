"""Which charts a page shows, each with its title, its alternative text and its numbers."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from evenodds.audit import Figure
from evenodds.report import charts, matrices, words
from evenodds.report.charts import Spec
from evenodds.report.facts import Facts, Gap, State
from evenodds.report.shapes import PARTS
from evenodds.report.table import Dim, Field, Table, Value, short

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Exhibit:
    """A chart on the page.

    Attributes
    ----------
    name, section
        What the file and the element are called; under which heading it stands.
    title, alt
        For the eye, and for those who cannot see it.
    spec, table
        How it is drawn, and from which numbers.
    """

    name: str
    section: str
    title: str
    alt: str
    spec: Spec
    table: Table


def exhibits(facts: Facts) -> list[Exhibit]:
    """Return every chart of a page, in order."""
    return [
        *_distributions(facts),
        *_tradeoff(facts),
        *_bias(facts),
        *_exposure(facts),
        *_movers(facts),
        *_maps(facts),
        *_pairs(facts),
        *_crossed(facts),
    ]


def _drawn(facts: Facts) -> list[str]:
    return [facts.names[place] for place in facts.drawn]


def lit(facts: Facts) -> list[str]:
    """Return the groups that stand out by colour: all of few; of many those furthest apart, and the largest."""
    names = _drawn(facts)
    sound = [name for name, at in zip(names, facts.drawn, strict=True) if facts.groups[at].small is None]
    if len(sound) <= len(charts.COLOURS):
        return sound or names[: len(charts.COLOURS)]
    gaps = [one for one in facts.before.gaps if one.kind == facts.main and one.label in facts.promised]
    gaps = [one for one in gaps if one.small is None and set(one.groups) <= set(names)]
    gaps.sort(key=lambda one: -(one.ks.value or 0.0))
    by_size = sorted(sound, key=lambda name: -facts.groups[facts.names.index(name)].rows)
    ranked = [*(name for one in gaps[:2] for name in one.groups), *by_size]
    picked = list(dict.fromkeys(ranked))[: len(charts.COLOURS)]
    return [name for name in names if name in picked]


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names[:6]) + (f" and {len(names) - 6} more" if len(names) > 6 else "")


def _moving(facts: Facts, name: str, title: str, of: object) -> Field:
    """Return a field with a list of values for each alpha."""
    if not callable(of):
        raise TypeError(name)
    return Field(name, title, moving=[of(state) for state in facts.after])


def _distributions(facts: Facts) -> Iterator[Exhibit]:
    groups = _drawn(facts)
    middle = short((facts.edges[1:] + facts.edges[:-1]) / 2, 4)
    dims = (Dim("group", "group", groups), Dim("score", "score", middle))
    top = 100.0 * max(
        float(state.density.max(initial=0.0)) for state in (facts.before, facts.after[facts.own])
    )
    for place, label in enumerate(facts.labels):
        items = words.noun(facts, label, facts.main)

        def share(state: State, at: int = place) -> list[Value]:
            return short(state.density[at], 3, 100.0)

        sides = {
            "before": Field("share", "% of the group's items", share(facts.before)),
            "after": _moving(facts, "share", "% of the group's items", share),
        }
        for side, field in sides.items():
            alt = (
                f"One line a group ({_listed(groups)}): how the scores of {items} are distributed {side} "
                "the correction. Where lines lie on each other, the groups are alike."
            )
            title = f"{items[0].upper()}{items[1:]}, {'as logged' if side == 'before' else 'corrected'}"
            spec = charts.distribution(groups, lit(facts), 1.05 * top, alt)
            yield Exhibit(f"scores-{label}-{side}", "scores", title, alt, spec, Table(dims, (field,)))


def _ends(figures: Sequence[Figure], scale: float = 1.0) -> tuple[Field, ...]:
    def part(name: str) -> list[Value]:
        return short([getattr(figure, name) for figure in figures], 4, scale)

    values = part("value")
    low = [value if end is None else end for end, value in zip(part("low"), values, strict=True)]
    high = [value if end is None else end for end, value in zip(part("high"), values, strict=True)]
    return Field("value", "value", values), Field("low", "from", low), Field("high", "to", high)


def _tradeoff(facts: Facts) -> Iterator[Exhibit]:
    alphas: list[Value] = [state.alpha for state in facts.after]
    over = Dim("alpha", "alpha", alphas)
    first, last = facts.after[0], facts.after[-1]
    order = sorted(range(len(facts.promised)), key=lambda at: (facts.promised[at] == 0, facts.promised[at]))
    names = [words.noun(facts, facts.promised[at], facts.main) for at in order]
    figures = [state.by_label[at] for at in order for state in facts.after]
    alt = (
        "Unfairness over the strength of the correction, with 95 % intervals: "
        f"{words.number(first.unfairness.value)} at 0, {words.number(last.unfairness.value)} at 1."
    )
    several = names if len(names) > 1 else []
    dims = (Dim("group", "given", names), over) if several else (over,)
    spec = charts.tradeoff("unfairness", ".2~f", alt, series=several, zero=True)
    yield Exhibit("tradeoff-unfairness", "tradeoff", "Unfairness", alt, spec, Table(dims, _ends(figures)))
    for name, title, axis, form, of in (
        ("positives", "Expected share of positives", "positive", ".1%", lambda state: state.positives),
        ("auc", "Telling qualified from unqualified items", "AUC", ".2f", lambda state: state.auc),
        ("movement", "Mean movement of a score", "score", ".2~g", lambda state: Figure(state.movement)),
    ):
        if name == "positives" and facts.before.shares is None:
            continue
        told = [of(state) for state in facts.after]
        alt = f"{title} over the strength of the correction, with 95 % intervals where they can be told."
        spec = charts.tradeoff(axis, form, alt, zero=name == "movement")
        yield Exhibit(f"tradeoff-{name}", "tradeoff", title, alt, spec, Table((over,), _ends(told)))


def _bias(facts: Facts) -> Iterator[Exhibit]:
    bias = facts.bias
    if bias.method == "none" or len(bias.positions) < 2:
        return
    weights, errors = np.array(bias.weights), np.array(bias.errors)
    alt = (
        f"How likely an item is looked at, by its position, the first being 1: {bias.weights[-1]:.2f} at "
        f"position {bias.positions[-1]}; the band is two standard errors either way."
    )
    fields = (
        Field("weight", "chance to be looked at", short(weights, 4)),
        Field("error", "standard error", short(errors, 3)),
        Field("low", "from", short(weights - 2 * errors, 4)),
        Field("high", "to", short(weights + 2 * errors, 4)),
    )
    table = Table((Dim("position", "position", list(bias.positions)),), fields)
    yield Exhibit(
        "position-bias", "bias", "Chance to be looked at, by position", alt, charts.bias(alt), table
    )


def _exposure(facts: Facts) -> Iterator[Exhibit]:
    if facts.before.shares is None or not facts.positions:
        return
    groups = _drawn(facts)
    dims = (Dim("group", "group", groups), Dim("position", "position", list(facts.positions)))
    largest = max(float(one.shares.max()) for one in (facts.before, *facts.after) if one.shares is not None)

    def share(state: State) -> list[Value]:
        return short(state.shares, 3, 100.0)

    sides = {
        "before": Field("share", "% of the items there", share(facts.before)),
        "after": _moving(facts, "share", "% of the items there", share),
    }
    for side, field in sides.items():
        alt = (
            f"One line a group ({_listed(groups)}): which share of the items at each position is theirs, "
            f"{side} the correction."
        )
        spec = charts.shares(groups, lit(facts), min(100.0, 105.0 * largest), alt)
        title = "Who stands where, as logged" if side == "before" else "Who stands where, corrected"
        yield Exhibit(f"positions-{side}", "exposure", title, alt, spec, Table(dims, (field,)))


def _movers(facts: Facts) -> Iterator[Exhibit]:
    groups = _drawn(facts)
    states: list[Value] = ["before", "after"]
    dims = (Dim("group", "group", groups), Dim("state", "state", states))
    measures = {
        "seen": ("Chance that a qualified item is looked at", ".0%", "exposure"),
        "rank": ("Mean rank of qualified items (100 % is the top)", ".0%", "movers"),
    }
    for name, (title, form, section) in measures.items():
        if name == "seen" and facts.before.groups[0].seen is None:
            continue

        def told(state: State, part: str, of: str = name) -> list[Value]:
            figures = [
                pair
                for place in facts.drawn
                for pair in (_figure(facts.before, place, of), _figure(state, place, of))
            ]
            values = [getattr(one, part) if getattr(one, part) is not None else one.value for one in figures]
            return short(values, 4)

        fields = tuple(
            _moving(facts, part, label, lambda state, part=part: told(state, part))
            for part, label in (("value", title), ("low", "from"), ("high", "to"))
        )
        alt = f"{title}: one row a group ({_listed(groups)}), a diamond before and a circle after the correction."
        yield Exhibit(name, section, title, alt, charts.moves(groups, form, alt), Table(dims, fields))


def _figure(state: State, place: int, name: str) -> Figure:
    group = state.groups[place]
    if name == "rank":
        return Figure(group.rank)
    return group.seen or Figure(None)


def _maps(facts: Facts) -> Iterator[Exhibit]:
    groups = _drawn(facts)
    if facts.after[0].curve is not None:
        dims = (Dim("group", "group", groups), Dim("score", "score", short(facts.scores, 4)))
        fields = tuple(
            _moving(facts, name, title, lambda state, end=end: short(state.curve[:, end], 4))
            for end, (name, title) in enumerate((("low", "fair score"), ("high", "to")))
        )
        alt = (
            f"One line a group ({_listed(groups)}): the fair score that each old score becomes. Above the "
            "grey line an item's score rises, below it falls."
        )
        unit = facts.about.settings.get("scale") == "unit"
        ends = None if unit else (float(facts.scores[0]), float(facts.scores[-1]))
        table = Table(dims, fields)
        yield Exhibit(
            "transform",
            "movers",
            "What becomes of a score",
            alt,
            charts.curves(groups, lit(facts), ends, alt),
            table,
        )
        return
    ranks: list[Value] = [100 // PARTS * k for k in range(PARTS)]
    dims = (Dim("from", "old rank, %", ranks), Dim("to", "new rank, %", ranks))
    for at, group in enumerate(groups):

        def flow(state: State, at: int = at) -> list[Value]:
            values = None if state.flow is None else state.flow[at]
            if values is None:
                return []
            return [round(100 * part) for part in values.ravel().tolist()]

        alt = (
            f"Where the items of {group} go: old rank across, new rank up, in steps of {100 // PARTS} %; "
            "the darker, the more of them. On the diagonal nothing moves."
        )
        field = Field("share", "% of them", moving=[flow(state) for state in facts.after], sparse=True)
        spec = matrices.heat(PARTS, alt)
        yield Exhibit(
            f"kernel-{at}", "kernel", f"Where items of {group} go", alt, spec, Table(dims, (field,))
        )


def _pairs(facts: Facts) -> Iterator[Exhibit]:
    groups = _drawn(facts)
    if len(groups) < 3:
        return
    place = {name: at for at, name in enumerate(groups)}
    dims = (Dim("one", "group", groups), Dim("other", "and", groups))
    for label in sorted(facts.promised, reverse=True):
        items = words.noun(facts, label, facts.main)

        def cells(state: State, of: str, label: int = label) -> list[Value]:
            found: list[Value] = [None] * len(groups) ** 2
            for gap in state.gaps:
                if gap.label != label or gap.kind != facts.main or not set(gap.groups) <= set(place):
                    continue
                one, other = sorted((place[name] for name in gap.groups), reverse=True)
                found[one * len(groups) + other] = _cell(gap, of)
            return found

        titles = (("ks", "distance"), ("low", "from"), ("high", "to"))
        small = Field("small", "too few rows", cells(facts.before, "small"))
        for side in ("before", "after"):
            if side == "before":
                fields = [Field(name, title, cells(facts.before, name)) for name, title in titles]
            else:
                fields = [
                    _moving(facts, name, title, lambda state, name=name: cells(state, name))
                    for name, title in titles
                ]
            said = "as logged" if side == "before" else "corrected"
            alt = f"The distance of each pair of groups ({_listed(groups)}) among {items}, {side} the correction."
            spec = matrices.pairs(groups, alt)
            title = f"{items[0].upper()}{items[1:]}, {said}"
            yield Exhibit(f"pairs-{label}-{side}", "pairs", title, alt, spec, Table(dims, (*fields, small)))


def _cell(gap: Gap, of: str) -> Value:
    if of == "small":
        return gap.small
    value = {"ks": gap.ks.value, "low": gap.ks.low, "high": gap.ks.high}[of]
    return short([value], 3)[0]


def _crossed(facts: Facts) -> Iterator[Exhibit]:
    names = [str(name) for name in _columns(facts)]
    if len(names) != 2:
        return
    rows, columns = (sorted({group.parts[k] for group in facts.groups}) for k in (0, 1))
    if len(rows) > 20 or len(columns) > 20:
        return
    place = {group.parts: at for at, group in enumerate(facts.groups)}
    dims = (Dim("row", names[0], rows), Dim("column", names[1], columns))
    order = [place.get((row, column)) for row in rows for column in columns]

    def rank(state: State) -> list[Value]:
        return short([None if at is None else state.groups[at].rank for at in order], 4, 100.0)

    sound = [100.0 * one.rank for at, one in enumerate(facts.before.groups) if facts.groups[at].small is None]
    ends = (math.floor(min(sound, default=0.0)), math.ceil(max(sound, default=100.0)))
    small = Field("small", "too few rows", [None if at is None else facts.groups[at].small for at in order])
    count = Field("rows", "rows", short([None if at is None else facts.groups[at].rows for at in order], 6))
    for side in ("before", "after"):
        field = (
            Field("rank", "mean rank, %", rank(facts.before))
            if side == "before"
            else _moving(facts, "rank", "mean rank, %", rank)
        )
        alt = f"Mean rank of qualified items for each combination of {names[0]} and {names[1]}, {side} the correction."
        title = f"Mean rank of qualified items, {'as logged' if side == 'before' else 'corrected'}"
        spec = matrices.crossed(rows, columns, names, ends, alt)
        yield Exhibit(f"crossed-{side}", "pairs", title, alt, spec, Table(dims, (field, count, small)))


def _columns(facts: Facts) -> Sequence[object]:
    names = facts.about.columns.get("group", ())
    return names if isinstance(names, list | tuple) else ()
