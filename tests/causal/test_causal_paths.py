"""Open paths and what closes them, against networkx and against the definitions."""

from itertools import pairwise

import networkx as nx
import numpy as np
from hypothesis import given, settings, strategies as st

import evenodds as eo
from evenodds.causal.graph import d_separated, make_graph
from evenodds.causal.paths import open_paths
from graphs import dags
from oracles import causal_paths as oracle


@settings(max_examples=400)
@given(dags())
def test_paths_are_those_of_the_definition(graph):
    """The search lists the simple paths that the definition calls open, each once, shortest first."""
    found = open_paths(make_graph(graph), limit=10_000)
    assert found.complete
    listed = [path.variables for path in found.paths]
    assert len(set(listed)) == len(listed)
    assert set(listed) == oracle.open_paths(graph, "C", "Y", "S")
    assert [len(path) for path in listed] == sorted(len(path) for path in listed)


@settings(max_examples=400)
@given(dags(largest=9))
def test_a_path_is_open_if_and_only_if_networkx_finds_no_separation(graph):
    """Verdicts by is_d_separator and lists of paths never contradict each other."""
    reading = eo.causal(graph)
    assert reading.equalized_odds == nx.is_d_separator(graph, {"C"}, {"S"}, {"Y"})
    assert reading.equalized_odds == (not reading.open_paths)
    assert reading.demographic_parity == nx.is_d_separator(graph, {"C"}, {"S"}, set())


@given(dags(largest=9), st.sets(st.sampled_from(["Y", "X0", "X1"])))
def test_large_graphs_are_judged_alike(graph, held):
    """The linear test that graphs of more than thirty variables get says the same as is_d_separator."""
    held &= set(graph)
    for name in (f"isolated{k}" for k in range(30)):
        graph.add_node(name)
    assert d_separated(graph, "C", "S", held) == nx.is_d_separator(graph, {"C"}, {"S"}, held)


@given(dags())
def test_kinds_are_what_they_say(graph):
    """Each path is of one kind, by its arrows; every collider is shown with a way to the label."""
    for path in eo.causal(graph).open_paths:
        assert all(graph.has_edge(*arrow) for arrow in path.arrows)
        collides = [
            name
            for name, came, goes in zip(path.variables[1:], path.forward, path.forward[1:], strict=False)
            if came and not goes
        ]
        assert list(path.colliders) == collides
        assert (path.kind == "collider") == bool(collides)
        assert (path.kind == "directed") == all(path.forward)
        assert (path.kind == "reversed") == (not any(path.forward))
        for way in path.opened:
            assert way[-1] == "Y"
            assert nx.is_path(graph, way)
        if path.kind == "common cause":
            assert not path.forward[0]
            assert nx.has_path(graph, path.fork, "C")
            assert nx.has_path(graph, path.fork, "S")


@settings(max_examples=400)
@given(dags(largest=6))
def test_there_is_one_smallest_closing_set_and_it_is_found(graph):
    """Every subset of the score's parents tried: none closes, or one smallest one does, and it is reported."""
    minimal = oracle.closing_sets(graph, "C", "Y", "S")
    found = eo.causal(graph).closing
    assert len(minimal) <= 1
    assert (None if found is None else sorted(found)) == (sorted(minimal[0]) if minimal else None)


def layered(width, depth):
    """Return a graph with width ** depth directed paths from C to S."""
    layers = [["C"], *[[f"X{k}_{n}" for n in range(width)] for k in range(depth)], ["S"]]
    edges = [(a, b) for one, two in pairwise(layers) for a in one for b in two]
    return nx.DiGraph([*edges, ("C", "Y")])


def test_too_many_paths_are_bounded_and_that_is_said():
    """With 4 ** 10 open paths the first hundred are listed, the verdict stands, and the text says so."""
    reading = eo.causal(layered(4, 10))
    assert (len(reading.open_paths), reading.complete) == (100, False)
    assert not reading.equalized_odds
    assert sorted(reading.closing) == ["X9_0", "X9_1", "X9_2", "X9_3"]
    assert "more than 100" in str(reading)
    assert "search stopped there" in str(reading)
    assert eo.causal(layered(4, 2), limit=16).complete
    assert not eo.causal(layered(4, 2), limit=15).complete


def test_a_search_that_finds_little_stops_too():
    """Where colliders fill the graph and walks run on without end, the number of steps is bounded."""
    rng = np.random.default_rng(0)
    names = [f"X{k}" for k in range(40)]
    graph = nx.DiGraph((a, b) for k, a in enumerate(names) for b in names[k + 1 :] if rng.random() < 0.5)
    graph.add_edges_from([("C", "X0"), ("X39", "Y"), ("X1", "S")])
    reading = eo.causal(graph, limit=1_000_000)
    assert not reading.complete
    assert reading.open_paths
