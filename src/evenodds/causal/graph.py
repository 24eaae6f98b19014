"""A causal graph with its roles, checked: arrows only, no cycle, and the three variables there."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from evenodds.causal.parse import Edge, looks_like_edges, parse_edges
from evenodds.errors import GraphError, MissingExtraError, nearest

ROLES = {"group": "C", "label": "Y", "score": "S"}  # the paper's letters
_FEW = 30
_SUFFIXES = {".dot", ".gv", ".dag", ".txt"}


@dataclass(frozen=True)
class CausalGraph:
    """A directed acyclic graph and the variables that play the three roles.

    Attributes
    ----------
    network
        A ``networkx.DiGraph`` whose nodes are names.
    group, label, score
        Which variable is which.
    """

    network: Any
    group: str
    label: str
    score: str

    @property
    def variables(self) -> tuple[str, ...]:
        """Every variable, in order of appearance."""
        return tuple(self.network.nodes)

    @property
    def arrows(self) -> tuple[Edge, ...]:
        """Every arrow, as pairs (cause, effect)."""
        return tuple(self.network.edges)

    def parents(self, name: str) -> tuple[str, ...]:
        """Return what has an arrow into a variable, in order of appearance."""
        causes = set(self.network.predecessors(name))
        return tuple(one for one in self.variables if one in causes)

    def separated(self, *given: str, without: Iterable[str] = ()) -> bool:
        """Whether `given` d-separates group and score; `without` are variables that the score lets go."""
        network = self.network
        dropped = [(name, self.score) for name in without]
        if dropped:
            network = network.copy()
            network.remove_edges_from(dropped)
        return d_separated(network, self.group, self.score, set(given))


def d_separated(network: Any, one: str, other: str, given: set[str]) -> bool:
    """Ask networkx for d-separation.

    ``is_d_separator`` looks at a variable once for each way to it, of which a graph of many layers has
    exponentially many; checking that `given` separates and that nothing beside it is needed takes linear time.
    """
    nx = networkx()
    if len(network) <= _FEW:
        return bool(nx.is_d_separator(network, {one}, {other}, given))
    return bool(nx.is_minimal_d_separator(network, {one}, {other}, given, included=given))


def networkx() -> Any:
    """Import networkx, or say how to get it."""
    try:
        return import_module("networkx")
    except ImportError:
        raise MissingExtraError(
            "causal reading needs networkx, which is not installed", hint="pip install 'evenodds[causal]'"
        ) from None


def make_graph(
    source: object, *, group: str | None = None, label: str | None = None, score: str | None = None
) -> CausalGraph:
    """Read a graph, check it, and find its roles; see :func:`evenodds.causal`."""
    nx = networkx()
    nodes, edges = _read(source)
    network = nx.DiGraph()
    network.add_nodes_from(nodes)
    network.add_edges_from(edges)
    if not network.number_of_edges():
        raise GraphError("the graph has no arrows", hint='for instance "C -> X -> S; X -> Y"')
    if not nx.is_directed_acyclic_graph(network):
        cycle = [edge[0] for edge in nx.find_cycle(network)]
        raise GraphError(
            f"the graph has a cycle, {' -> '.join([*cycle, cycle[0]])}; a cause cannot be its own effect",
            hint="give what happens at different times different names",
        )
    names = {
        "group": _role("group", group, nodes),
        "label": _role("label", label, nodes),
        "score": _role("score", score, nodes),
    }
    for one, other in (("group", "label"), ("group", "score"), ("label", "score")):
        if names[one] == names[other]:
            raise GraphError(f"{one} and {other} are both {names[one]!r}; expected three variables")
    return CausalGraph(network, **names)


def _role(role: str, wanted: str | None, nodes: list[str]) -> str:
    if wanted is None:
        for name in (role, ROLES[role]):
            if name in nodes:
                return name
        raise GraphError(
            f"no variable {role!r} or {ROLES[role]!r} in the graph to be the {role}",
            hint=f"say which variable is the {role}: {_listed(nodes)}",
        )
    if wanted not in nodes:
        close = nearest(wanted, nodes)
        raise GraphError(
            f"no variable {wanted!r} in the graph for {role}"
            + (f", did you mean {close!r}?" if close else ""),
            hint=f"variables: {_listed(nodes)}",
        )
    return wanted


def _listed(nodes: list[str]) -> str:
    return ", ".join(nodes[:20]) + (", ..." if len(nodes) > 20 else "")


def _read(source: object) -> tuple[list[str], list[Edge]]:
    """Return variables and arrows, whatever they come as."""
    if isinstance(source, str):
        return parse_edges(source) if looks_like_edges(source) else _read_file(source)
    if isinstance(source, os.PathLike):
        return _read_file(os.fspath(source))
    if hasattr(source, "is_directed") and hasattr(source, "edges"):
        return _from_networkx(source)
    if isinstance(source, Iterable):
        return _from_pairs(source)
    raise GraphError(f"cannot make a graph of a {type(source).__name__}", hint='give text like "C -> X -> S"')


def _read_file(name: str) -> tuple[list[str], list[Edge]]:
    if not name.strip():
        raise GraphError("the graph is empty", hint='arrows are written "C -> X -> S; X -> Y"')
    path = Path(name)
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        kind = "no such file" if path.suffix in _SUFFIXES or os.sep in name else "neither arrows nor a file"
        raise GraphError(f"{kind}: {name}", hint='arrows are written "C -> X -> S; X -> Y"') from None
    except OSError as error:
        raise GraphError(f"cannot read {name}: {error.strerror or error}") from None
    except UnicodeDecodeError:
        raise GraphError(f"{name} is not a text file; expected arrows or DOT") from None
    try:
        return parse_edges(text)
    except GraphError as error:
        raise GraphError(f"{name}: {error.message}", hint=error.hint) from None


def _from_networkx(graph: Any) -> tuple[list[str], list[Edge]]:
    if not graph.is_directed():
        raise GraphError("an undirected graph says nothing about causes", hint="expected a networkx.DiGraph")
    name_of = {node: str(node) for node in graph.nodes}
    nodes = list(name_of.values())
    if len(set(nodes)) < len(nodes):
        double = next(name for name in nodes if nodes.count(name) > 1)
        raise GraphError(f"two nodes of the graph print alike: {double}", hint="give nodes names as text")
    edges = ((name_of[edge[0]], name_of[edge[1]]) for edge in graph.edges)
    return nodes, list(dict.fromkeys(edges))


def _from_pairs(pairs: Iterable[Any]) -> tuple[list[str], list[Edge]]:
    edges: dict[Edge, None] = {}
    for pair in pairs:
        if (
            not isinstance(pair, tuple | list)
            or len(pair) != 2
            or not all(isinstance(end, str) for end in pair)
        ):
            raise GraphError(f"cannot read {pair!r} as an arrow; expected pairs like ('C', 'X')")
        edges[pair[0], pair[1]] = None
    return list(dict.fromkeys(name for edge in edges for name in edge)), list(edges)
