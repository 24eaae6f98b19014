"""Open paths, the smallest closing sets and exact independence: slow, from the definitions."""

from itertools import combinations, product

import networkx as nx
import numpy as np


def open_paths(graph, group, label, score):
    """Return every simple path of the skeleton that is open given the label, as tuples of variables."""
    blocked_by = {label}
    found = set()
    for path in nx.all_simple_paths(graph.to_undirected(), group, score):
        open_ = True
        for before, name, after in zip(path, path[1:], path[2:], strict=False):
            collides = graph.has_edge(before, name) and graph.has_edge(after, name)
            if collides:
                open_ &= bool(({name} | nx.descendants(graph, name)) & blocked_by)
            else:
                open_ &= name not in blocked_by
        if open_:
            found.add(tuple(path))
    return found


def closing_sets(graph, group, label, score):
    """Return every minimal set of the score's parents whose arrows have to go, the label's own included."""
    parents = sorted(graph.predecessors(score))
    minimal = []
    for size in range(len(parents) + 1):
        for chosen in combinations(parents, size):
            if any(set(one) <= set(chosen) for one in minimal):
                continue
            cut = graph.copy()
            cut.remove_edges_from([(name, score) for name in chosen])
            if not open_paths(cut, group, label, score):
                minimal.append(chosen)
    return minimal


def partial_correlation(graph, group, label, score, rng):
    """Return corr(score, group | label) of a linear-Gaussian model of the graph, exactly."""
    order = list(nx.topological_sort(graph))
    size = len(order)
    weights = np.zeros((size, size))
    for one, two in graph.edges:
        weights[order.index(two), order.index(one)] = rng.uniform(0.5, 2.0) * rng.choice([-1.0, 1.0])
    total = np.linalg.inv(np.eye(size) - weights)
    covariance = total @ total.T
    places = [order.index(name) for name in (group, score, label)]
    precision = np.linalg.inv(covariance[np.ix_(places, places)])
    return -precision[0, 1] / np.sqrt(precision[0, 0] * precision[1, 1])


def exact_distances(made):
    """Return KS distances of score between groups given each label, from a discrete mechanism's tables."""
    graph = made.graph
    mass = np.zeros((2, 2, made.levels(graph.score)))
    for values in product(*(range(made.levels(name)) for name in made.order)):
        value = dict(zip(made.order, values, strict=True))
        chance = 1.0
        for name in made.order:
            row = tuple(value[parent] for parent in graph.parents(name))
            chance *= made.tables[name][(*row, value[name])]
        mass[value[graph.label], value[graph.group], value[graph.score]] += chance
    cdf = np.cumsum(mass, axis=2) / mass.sum(axis=2, keepdims=True)
    return np.abs(cdf[:, 0] - cdf[:, 1]).max(axis=1)
