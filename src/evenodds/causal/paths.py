"""Every open path from group to score with the label held fixed, each with its kind.

A path is open when no variable on it blocks it: one that arrows do not collide in must not be the label;
one that two arrows collide in, a collider, must be the label or have it as a descendant (Pearl,
"Causality", 2009, section 1.2.3). Whether there is any is asked of networkx; this lists them, shortest
first.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from evenodds.causal.graph import CausalGraph, networkx

Kind = Literal["directed", "reversed", "common cause", "collider"]
State = tuple[str, bool]  # a variable, and whether the path came to it along an arrow

LIMIT = 100
_STEPS = 500_000  # about a second


@dataclass(frozen=True)
class OpenPath:
    """One open path.

    Attributes
    ----------
    variables
        From group to score.
    forward
        Whether each arrow points along the path.
    kind
        "directed" from group to score around the label; "reversed" from score to group; "common cause"
        of both, a path that leaves the group against an arrow; "collider", which only holding the label
        fixed has opened.
    opened
        For each collider on the path the arrows from it to the label: ``("Y",)`` is the label itself.
    """

    variables: tuple[str, ...]
    forward: tuple[bool, ...]
    kind: Kind
    opened: tuple[tuple[str, ...], ...] = ()

    def __str__(self) -> str:
        return self.text("->", "<-")

    def text(self, along: str, against: str) -> str:
        """Write the path with such arrows."""
        steps = zip(self.forward, self.variables[1:], strict=True)
        return self.variables[0] + "".join(f" {along if goes else against} {name}" for goes, name in steps)

    @property
    def arrows(self) -> tuple[tuple[str, str], ...]:
        """The arrows on the path, as pairs (cause, effect)."""
        steps = zip(self.variables, self.variables[1:], self.forward, strict=False)
        return tuple((one, two) if along else (two, one) for one, two, along in steps)

    @property
    def colliders(self) -> tuple[str, ...]:
        """The variables on the path in which two arrows collide."""
        return tuple(way[0] for way in self.opened)

    @property
    def fork(self) -> str | None:
        """The common cause, on a path of that kind."""
        if self.kind != "common cause":
            return None
        return self.variables[self.forward.index(True)]


@dataclass(frozen=True)
class OpenPaths:
    """The open paths that were listed, and whether these are all."""

    paths: tuple[OpenPath, ...]
    complete: bool


def open_paths(graph: CausalGraph, limit: int = LIMIT) -> OpenPaths:
    """List open paths given the label, shortest first, at most `limit` of them.

    There can be exponentially many. The search goes deeper by one arrow at a time and turns back as soon
    as no open walk of the length leads to the score, so that the shortest come at once.

    >>> from evenodds.causal.graph import make_graph
    >>> [str(path) for path in open_paths(make_graph("C -> X1 <- X2 -> S; X1 -> Y -> S; C -> S")).paths]
    ['C -> S', 'C -> X1 <- X2 -> S']
    """
    search = _Search(graph)
    found: list[OpenPath] = []
    for length in range(1, len(graph.variables)):
        for walk in search.of_length(length):
            if len(found) == limit:
                return OpenPaths(tuple(found), complete=False)
            found.append(_named(graph, walk))
        if search.steps > _STEPS:
            return OpenPaths(tuple(found), complete=False)
    return OpenPaths(tuple(found), complete=True)


class _Search:
    """Depth-first over (variable, came along an arrow), cut where the score is out of reach."""

    def __init__(self, graph: CausalGraph) -> None:
        network = graph.network
        self.graph = graph
        self.steps = 0
        self.opens = {graph.label, *networkx().ancestors(network, graph.label)}
        children = {name: [(other, True) for other in network.successors(name)] for name in network}
        parents = {name: [(other, False) for other in network.predecessors(name)] for name in network}
        self.next: dict[State, list[State]] = {}
        for name in network:
            if name == graph.score:
                continue
            through = [] if name == graph.label else children[name]
            # Came along an arrow: going on against one makes the variable a collider.
            against = parents[name] if name in self.opens else []
            self.next[name, True] = sorted([*through, *against])
            self.next[name, False] = sorted([*through, *([] if name == graph.label else parents[name])])
        self.first = sorted([*children[graph.group], *parents[graph.group]])
        self.left = self._distances()

    def _distances(self) -> dict[State, int]:
        """Return from each state the fewest steps of an open walk to the score."""
        before: dict[State, list[State]] = {}
        for state, following in self.next.items():
            for other in following:
                before.setdefault(other, []).append(state)
        left = {(self.graph.score, True): 0, (self.graph.score, False): 0}
        ring = list(left)
        while ring:
            wider = []
            for state in ring:
                for other in before.get(state, []):
                    if other not in left:
                        left[other] = left[state] + 1
                        wider.append(other)
            ring = wider
        return left

    def of_length(self, length: int) -> Iterator[list[State]]:
        """Yield the open paths with so many arrows; no variable comes twice."""
        stack: list[list[State]] = [[state] for state in reversed(self.first)]
        while stack and self.steps <= _STEPS:
            walk = stack.pop()
            self.steps += 1
            state = walk[-1]
            if len(walk) + self.left.get(state, length) > length:
                continue
            if state[0] == self.graph.score:
                if len(walk) == length:
                    yield walk
                continue
            passed = {self.graph.group, *(name for name, _ in walk)}
            stack += [[*walk, after] for after in reversed(self.next[state]) if after[0] not in passed]


def _named(graph: CausalGraph, walk: list[State]) -> OpenPath:
    variables = (graph.group, *(name for name, _ in walk))
    forward = tuple(along for _, along in walk)
    turns = zip(variables[1:], forward, forward[1:], strict=False)
    colliders = [name for name, came, goes in turns if came and not goes]
    kind: Kind
    if colliders:
        kind = "collider"
    elif all(forward):
        kind = "directed"
    elif not any(forward):
        kind = "reversed"
    else:
        kind = "common cause"
    nx = networkx()
    opened = tuple(tuple(nx.shortest_path(graph.network, name, graph.label)) for name in colliders)
    return OpenPath(variables, forward, kind, opened)


def closing(graph: CausalGraph) -> tuple[str, ...] | None:
    """Return the variables that the score must let go for the label to separate it from the group.

    There is one smallest set, if any: a variable belongs to it if, with every other one let go, its own
    arrow into the score still keeps a path open. A variable that does not is never needed: the paths that
    end in its arrow are blocked elsewhere, or opened by a way through the score that starts in the set.
    None if even a score that used the label alone would depend on the group.
    """
    inputs = [name for name in graph.parents(graph.score) if name != graph.label]
    if not graph.separated(graph.label, without=inputs):
        return None
    return tuple(
        name
        for name in inputs
        if not graph.separated(graph.label, without=[other for other in inputs if other != name])
    )
