"""The sentences of a page, in plain language; every number in them is one of its facts."""

from __future__ import annotations

import math

from evenodds.audit import Figure, label_name
from evenodds.report.facts import Facts, Gap, State
from evenodds.report.gather import worst_of

SURE = 0.05  # a p-value under it counts as a difference beyond chance
_MINUS = "\N{MINUS SIGN}"
_SPACE = "\N{NO-BREAK SPACE}"


# Numbers


def number(value: float | None, digits: int = 3) -> str:
    """Write a distance, or a dash.

    >>> number(0.56021), number(None)
    ('0.560', '–')
    """
    return "–" if value is None or not math.isfinite(value) else f"{value:.{digits}f}"


def percent(value: float | None, digits: int = 1) -> str:
    r"""Write a share.

    >>> percent(0.14277)
    '14.3\xa0%'
    """
    return "–" if value is None or not math.isfinite(value) else f"{100 * value:.{digits}f}{_SPACE}%"


def signed(value: float | None, digits: int = 1) -> str:
    r"""Write a change; one that rounds to nothing has no sign.

    >>> signed(0.0259), signed(-0.004), signed(0.0001)
    ('+2.6\xa0%', '−0.4\xa0%', '0.0\xa0%')
    """
    if value is None or not math.isfinite(value):
        return "–"
    size = f"{abs(100 * value):.{digits}f}"
    sign = "" if float(size) == 0 else ("+" if value > 0 else _MINUS)
    return f"{sign}{size}{_SPACE}%"


def whole(value: float) -> str:
    """Write a count.

    >>> whole(5000000.0)
    '5,000,000'
    """
    return f"{value:,.0f}"


def between(figure: Figure, write: object = number) -> str:
    """Write an interval, or nothing where there is none."""
    if figure.low is None or figure.high is None or not callable(write):
        return ""
    return f"{write(figure.low)} to {write(figure.high)}"


def chance(p: float | None) -> str:
    r"""Write a p-value.

    >>> chance(0.004), chance(0.2)
    ('p\xa0<\xa00.01', 'p\xa0=\xa00.20')
    """
    if p is None:
        return ""
    if p < 0.01:
        return f"p{_SPACE}<{_SPACE}{'0.01' if p >= 0.001 else '0.001'}"
    return f"p{_SPACE}={_SPACE}{p:.2f}"


def alpha_text(alpha: float) -> str:
    """Write a strength: as short as it is exact."""
    return f"{alpha:.4g}" if alpha not in {0.0, 1.0} else f"{alpha:.0f}"


def strength(alpha: float) -> str:
    """Say a strength in words."""
    said = {0.0: "no correction", 1.0: "all the way"}.get(alpha, f"{100 * alpha:.4g}{_SPACE}% of the way")
    return f"{alpha_text(alpha)} – {said}"


# Whose scores


def noun(facts: Facts, label: int, kind: str) -> str:
    """Name the items of a label."""
    if facts.outcomes > 1 and label:
        what = label_name(label, facts.outcomes)
        return f"items worth {what}" if kind == "merit" else f"items logged with {what}"
    if kind == "merit" or not biased(facts):
        return "qualified items" if label else "unqualified items"
    return "items logged as positive" if label else "items logged as negative"


def nouns(facts: Facts) -> str:
    """Name the items of all labels that the model makes alike."""
    if len(facts.promised) > 1 and facts.outcomes > 1:
        return "items of the same outcome"
    if len(facts.promised) > 1:
        return (
            "equally qualified items"
            if facts.main == "merit" or not biased(facts)
            else "items of the same label"
        )
    return noun(facts, facts.promised[0], facts.main)


def biased(facts: Facts) -> bool:
    """Whether position bias makes merit labels differ from observed ones."""
    return any(weight != 1.0 for weight in facts.bias.weights)


# The verdict


def worst(facts: Facts, state: State) -> Gap | None:
    """Return the gap that the verdict is about."""
    return worst_of(state.gaps, facts.promised, facts.main)


def found(facts: Facts) -> bool | None:
    """Whether groups differ beyond chance; None where that cannot be told."""
    known = [
        gap.p
        for gap in facts.before.gaps
        if gap.kind == facts.main and gap.label in facts.promised and gap.small is None and gap.p is not None
    ]
    return min(known) < SURE if known else None


def headline(facts: Facts, state: State) -> tuple[str, str]:
    """Return the verdict on the ranking as logged, and on the correction."""
    items = nouns(facts)
    cut = facts.before.cut
    if found(facts) is False or cut is None:
        return f"Among {items}, no difference between groups beyond chance.", _effect(facts, state)
    low, high = cut.groups
    if items.startswith("items of the same "):
        first = f"Items of {low} are ranked below items of {high} with {items.removeprefix('items of ')}."
    else:
        alike = "equally qualified items" if items == "qualified items" else "those"
        said = _of(items, low)
        first = f"{said[0].upper()}{said[1:]} are ranked below {alike} of {high}."
    return first, _effect(facts, state)


def _of(items: str, group: str) -> str:
    """Put a group's name where it reads well."""
    kind, word, rest = items.partition("items")
    return f"{kind}{word} of {group}{rest}"


def _effect(facts: Facts, state: State) -> str:
    before, after, most = facts.before.unfairness.value, state.unfairness.value, state.unfairness.high
    if found(facts) is False:
        return "There is no gap to close."
    if not state.alpha:
        return "Without a correction this stays as it is."
    if before is None or after is None:
        return "What the correction does cannot be told from this log."
    if after >= before:
        return "At this strength the correction does not narrow the gap."
    where = (
        "The correction" if state.alpha == 1.0 else f"At strength {alpha_text(state.alpha)} the correction"
    )
    if after < 0.02 and most is not None and most < 0.1:
        return f"{where} closes the gap."
    if after < 0.02:
        return f"{where} closes the gap, as far as this log can tell."
    return f"{where} narrows the gap by {100 * (1 - after / before):.0f}{_SPACE}%."


def whom(facts: Facts, state: State) -> str:
    """Say what the distance means at the cut-off where it is largest."""
    cut = state.cut
    if cut is None:
        return "There is nothing to compare."
    items = noun(facts, cut.label, cut.kind)
    low, high = (f"{100 * part:.0f}" for part in cut.passing)
    return (
        f"Keep only what scores above {cut.score:.3g}: {high} of 100 {_of(items, cut.groups[1])} stay, but "
        f"only {low} of 100 of {cut.groups[0]}."
    )


def how_unfair(facts: Facts) -> str:
    """Say what the number is."""
    top = worst(facts, facts.before)
    pair = ""
    if len(facts.names) > 2 and top is not None:
        pair = f" No other of the {len(facts.names)} groups are further apart."
    return (
        "At no other cut-off is the difference larger. It is the unfairness, "
        f"{number(facts.before.unfairness.value)}: 0 if every cut-off treats the groups alike, 1 if they "
        f"do not overlap.{pair}"
    )


def how_sure(facts: Facts) -> str:
    """Say how sure the distance is."""
    figure, sure = facts.before.unfairness, found(facts)
    known = [gap.p for gap in facts.before.gaps if gap.kind == facts.main and gap.label in facts.promised]
    p = min((one for one in known if one is not None), default=None)
    if figure.low is None or figure.high is None:
        return "How sure this is cannot be told: the log is too small to set parts of it against each other."
    by_query = facts.about.unit == "query"
    unit, apart = ("queries", "") if by_query else ("rows", ", as if rows were independent of each other")
    said = (
        f"With 95{_SPACE}% confidence it lies between {number(figure.low)} and {number(figure.high)}, "
        f"judged by leaving out {facts.about.folds} parts of the log’s {unit} one at a time{apart}."
    )
    if p is None:
        return said
    odds = "Chance alone hardly ever makes it as large" if sure else "Chance alone often makes it as large"
    return f"{said} {odds} ({chance(p)})."


def after(facts: Facts, state: State) -> str:
    """Say what is left of the distance at a strength."""
    figure = state.unfairness
    if not state.alpha:
        return "Move the slider to see what a correction does."
    said = f"Unfairness goes from {number(facts.before.unfairness.value)} to {number(figure.value)}"
    if figure.high is None:
        return f"{said}."
    return (
        f"{said}, with 95{_SPACE}% confidence to no more than {number(figure.high)}: at any cut-off the "
        f"shares that stay differ by at most {math.ceil(100 * figure.high - 1e-9)} in 100 between two "
        "groups."
    )


def gains(facts: Facts, state: State) -> str:
    """Say what the correction costs or gains."""
    change = state.change
    if not state.alpha or change is None or change.value is None:
        said = f"{percent(facts.before.positives.value)} of the items shown are positive."
        if not state.alpha:
            return said
        moved = f"Scores move by {state.movement:.3g} on average."
        return (
            f"{said} What becomes of that cannot be told: the log names no positions. "
            f"{_order(facts.before, state)} {moved}"
        )
    first = next(one for one in facts.after if one.alpha == 0.0)
    said = (
        f"{percent(state.positives.value)} of the items shown are expected to be positive, against "
        f"{percent(first.positives.value)} with the old scores"
    )
    known = between(change, signed)
    said += f": {signed(change.value)}" + (f" (95{_SPACE}% interval {known})." if known else ".")
    if known and change.low is not None and change.high is not None and change.low <= 0 <= change.high:
        said += " That may be no change at all."
    return f"{said} {_order(first, state)} Scores move by {state.movement:.3g} on average."


def _order(first: State, state: State) -> str:
    old, new = first.auc.value, state.auc.value
    if old is None or new is None:
        return ""
    how = "better" if new > old + 0.002 else "worse" if new < old - 0.002 else "as well"
    return (
        f"The scores tell qualified from unqualified items {how} (AUC {number(new)}, {number(old)} before)."
    )


def parity(facts: Facts, state: State) -> str:
    """Say how exposure follows merit."""
    one, now = facts.before.parity, state.parity
    if one is None or now is None:
        return ""
    worse, better = one.groups
    known, later = between(one.ratio, percent), between(now.ratio, percent)
    said = (
        f"A qualified item of {worse} is seen {percent(one.ratio.value, 0)} as often as one of {better}"
        + (f" (95{_SPACE}% interval {known})" if known else "")
    )
    if not state.alpha:
        return f"{said}."
    return f"{said}; with the correction {percent(now.ratio.value, 0)}" + (f" ({later})." if later else ".")


def short_verdict(facts: Facts, state: State) -> str:
    """Say in one line what a strength does: what a screen reader hears when the slider moves."""
    parts = [f"unfairness {number(facts.before.unfairness.value)} → {number(state.unfairness.value)}"]
    if state.change is not None and state.alpha:
        parts.append(f"positives {signed(state.change.value)}")
    if state.parity is not None:
        parts.append(f"exposure for merit {percent(state.parity.ratio.value, 0)}")
    return " · ".join(parts)


def listed(names: object, most: int = 4) -> str:
    """Write names one after the other, and count those that are too many.

    >>> listed(["a", "b", "c"], 2)
    'a, b and 1 more'
    """
    known = [str(name) for name in names] if isinstance(names, list | tuple) else [str(names)]
    left = len(known) - most
    return ", ".join(known[:most]) + (f" and {left} more" if left > 0 else "")


def at_most(figure: Figure) -> str:
    """Write the upper end of an interval."""
    return "–" if figure.high is None else f"at most {number(figure.high)}"


def with_range(figure: Figure) -> str:
    """Write a distance with its interval."""
    known = between(figure)
    return number(figure.value) + (f" ({known})" if known else "")
