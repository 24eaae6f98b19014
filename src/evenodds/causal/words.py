"""A causal reading in words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from evenodds.causal.graph import CausalGraph
from evenodds.causal.paths import OpenPath

if TYPE_CHECKING:
    from evenodds.causal.reading import CausalReading

_SHOWN = 12
KINDS = {
    "directed": "directed path around the label",
    "reversed": "directed path from the score to the group",
    "common cause": "common cause",
    "collider": "collider, opened because the label is held fixed",
}


def text(reading: CausalReading) -> str:
    """Lay a reading out: the answers, the open paths, what would close them."""
    graph = reading.graph
    c, y, s = graph.group, graph.label, graph.score
    width = len("equality of opportunity")
    rows = [
        ("equalized odds", reading.equalized_odds, f"{s} and {c} given {y}"),
        ("equality of opportunity", reading.equality_of_opportunity, f"{s} and {c} given {y} = 1"),
        ("demographic parity", reading.demographic_parity, f"{s} and {c}"),
    ]
    size = f"{_count(len(graph.variables), 'variable')}, {_count(len(graph.arrows), 'arrow')}"
    lines = [f"{size}; group {c}, label {y}, score {s}"]
    for name, holds, what in rows:
        said = "holds: " if holds else "does not hold: "
        lines.append(f"{name:<{width}}  {said}{what} are {'independent' if holds else 'connected'}")
    if reading.equalized_odds:
        lines.append(f"no path from {c} to {s} is open with {y} held fixed")
    else:
        lines += _paths(reading)
        lines.append(_closing(reading))
    return "\n".join([*lines, *(f"note: {note}" for note in reading.notes)])


def _paths(reading: CausalReading) -> list[str]:
    graph, paths = reading.graph, reading.open_paths
    number = f"{len(paths):,}" if reading.complete else f"more than {len(paths):,}"
    lines = [f"open paths from {graph.group} to {graph.score} with {graph.label} held fixed: {number}"]
    shown = paths[:_SHOWN]
    width = max((len(str(path)) for path in shown), default=0)
    for place, path in enumerate(shown, start=1):
        lines.append(f"{place:>4}. {path!s:<{width}}  {KINDS[path.kind]}")
        lines.append(f"      {why(path, graph)}")
    left = len(paths) - len(shown)
    if left:
        lines.append(f"      ... and {left:,} more: --json, or .open_paths")
    if not reading.complete:
        lines.append(
            "      the search stopped there, shortest paths first; the answers above do not depend on it"
        )
    return lines


def why(path: OpenPath, graph: CausalGraph) -> str:
    """Say in a sentence why a path is open."""
    c, y, s = graph.group, graph.label, graph.score
    if path.kind == "directed":
        if len(path.variables) == 2:
            return f"{s} uses {c} itself, whatever {y} is"
        return f"{c} moves {s} through {listed(path.variables[1:-1])}, whatever {y} is"
    if path.kind == "reversed":
        way = path.variables[-2:0:-1]
        return f"{s} moves {c}" + (f" through {listed(way)}" if way else "") + f", whatever {y} is"
    if path.kind == "common cause":
        return f"{path.fork} moves both {c} and {s}, whatever {y} is"
    said = []
    for way in path.opened:
        name = way[0]
        place = path.variables.index(name)
        ends = f"{path.variables[place - 1]} and {path.variables[place + 1]}"
        if len(way) == 1:
            said.append(f"{ends} meet in {name}, the label itself")
        else:
            said.append(
                f"{ends} meet in {name}, of which {y} is a {'child' if len(way) == 2 else 'descendant'}"
            )
    return f"{'; '.join(said)}: among items with the same {y}, one tells of the other"


def _closing(reading: CausalReading) -> str:
    graph = reading.graph
    if reading.closing is None:
        return (
            f"nothing that {graph.score} could let go would close them: "
            f"a path leaves {graph.score} through what comes after it"
        )
    return f"if {graph.score} no longer used {listed(reading.closing)}, equalized odds would hold"


def listed(names: Sequence[str]) -> str:
    """Join names as in a sentence.

    >>> listed(["X1", "X2", "X3"])
    'X1, X2 and X3'
    """
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"
