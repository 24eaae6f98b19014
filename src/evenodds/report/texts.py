"""What moves in the text: for each key one wording a strength, in the order of the slider."""

from __future__ import annotations

from collections.abc import Callable

from evenodds.audit import Figure
from evenodds.report import words
from evenodds.report.facts import Facts, GroupState, State

GROUPS = 60  # rows of the table of groups
DISTANCES = 24  # rows of the table of distances


def texts(facts: Facts) -> dict[str, list[str]]:
    """Return every wording that depends on the strength."""
    found: dict[str, list[str]] = {}

    def add(key: str, say: Callable[[State], str]) -> None:
        found[key] = [say(state) for state in facts.after]

    add("strength", lambda state: words.strength(state.alpha or 0.0))
    add("now", lambda state: words.short_verdict(facts, state))
    add("effect", lambda state: words.headline(facts, state)[1])
    add("after", lambda state: words.after(facts, state))
    add("gains", lambda state: words.gains(facts, state))
    add("parity", lambda state: words.parity(facts, state))
    add("unfairness", lambda state: words.number(state.unfairness.value))
    add("unfairness-range", lambda state: words.at_most(state.unfairness))
    add("ratio", lambda state: words.percent(None if state.parity is None else state.parity.ratio.value, 0))
    add("ratio-range", lambda state: words.between(_ratio(state), words.percent))
    add("change", lambda state: words.signed(None if state.change is None else state.change.value))
    add("change-range", lambda state: words.between(state.change or Figure(None), words.signed))
    add("positives", lambda state: words.percent(state.positives.value))
    for column in range(len(facts.before.columns)):
        add(f"column-{column}", lambda state, at=column: words.number(state.columns[at]))  # type: ignore[misc]
    for place in order(facts):
        for key, say in _OF_GROUP.items():
            add(f"group-{place}-{key}", lambda state, at=place, say=say: say(state.groups[at]))  # type: ignore[misc]
    for place in distances(facts):
        add(f"gap-{place}", lambda state, at=place: words.with_range(state.gaps[at].ks))  # type: ignore[misc]
    return found


def order(facts: Facts) -> list[int]:
    """Return the groups of the table, the largest first."""
    by_size = sorted(
        range(len(facts.groups)), key=lambda at: (-facts.groups[at].rows, facts.groups[at].group)
    )
    return by_size[:GROUPS]


def distances(facts: Facts) -> list[int]:
    """Return the distances of the table: the main kind first, the largest first."""
    gaps = facts.before.gaps
    ranked = sorted(
        range(len(gaps)),
        key=lambda at: (
            gaps[at].kind != facts.main,
            gaps[at].label not in facts.promised,
            gaps[at].small is not None,
            -(gaps[at].ks.value or 0.0),
        ),
    )
    if len(ranked) <= DISTANCES:
        return ranked
    kinds = list(dict.fromkeys((gaps[at].kind, gaps[at].label) for at in ranked))
    each = max(2, DISTANCES // len(kinds))
    kept = [[at for at in ranked if (gaps[at].kind, gaps[at].label) == kind][:each] for kind in kinds]
    return [at for part in kept for at in part]


def _ratio(state: State) -> Figure:
    return Figure(None) if state.parity is None else state.parity.ratio


def _moved(up: float | None) -> str:
    return words.percent(up, 0)


_OF_GROUP: dict[str, Callable[[GroupState], str]] = {
    "slot": lambda group: "–" if group.slot is None else f"{group.slot:.1f}",
    "seen": lambda group: words.percent(None if group.seen is None else group.seen.value, 0),
    "exposure": lambda group: words.percent(None if group.exposure is None else group.exposure.value, 0),
    "rank": lambda group: words.percent(group.rank, 0),
    "rising": lambda group: _moved(group.rising),
    "falling": lambda group: _moved(group.falling),
}
