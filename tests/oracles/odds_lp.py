"""The movement program of equalized odds as the paper writes it: dense, pairwise, slow, obvious.

One variable for every p[c, k, t], all of them given to scipy's ``linprog`` at once; a constraint for
every pair of groups, label and target bin. Practical up to about fifteen bins. And bins to try it on.
"""

import itertools
import math

import numpy as np
from scipy.optimize import linprog

from evenodds.odds.problem import OddsProblem
from evenodds.simulate import draw_population

KINDS = {
    "plain": "every bin holds mass",
    "counts": "a few hundred rows: bins empty for some labels",
    "empty bins": "four in ten bins hold nothing of a group",
    "empty labels": "four in ten bins hold nothing of a group's label",
    "thin bins": "a group's bins differ by fourteen orders of magnitude",
    "thin labels": "and so do its labels within a bin",
    "nearly identical": "groups differ in the ninth digit",
    "uninformative": "both labels of every group are spread alike",
    "one uninformative": "both labels of one group are spread alike",
    "one point": "one group holds one bin only",
    "not visited": "some bins are never visited, but hold labels",
    "no labels": "every bin is visited, some hold no label",
    "any cost": "moves cost anything; staying need not be cheapest",
    "no cost": "moves cost nothing",
}


def random_bins(kind, seed, bins, groups, labels):
    """Draw a problem of one of the KINDS."""
    rng = np.random.default_rng([seed, list(KINDS).index(kind), bins, groups, labels])
    shape = (groups, labels, bins)
    given = rng.dirichlet(np.ones(bins), shape[:2])
    if kind == "counts":
        given = rng.multinomial(rng.integers(5, 400), rng.dirichlet(np.full(bins, 2.0), shape[:2])).astype(
            float
        )
    elif kind in {"empty bins", "empty labels"}:
        empty = rng.random((groups, 1 if kind == "empty bins" else labels, bins)) < 0.4
        given = np.where(empty & (np.arange(bins) > 0), 0.0, given)
    elif kind in {"thin bins", "thin labels"}:
        given = given * 10.0 ** rng.uniform(-14, 0, (groups, 1 if kind == "thin bins" else labels, bins))
    elif kind == "nearly identical":
        given = given[:1] * (1.0 + 1e-9 * rng.random(shape))
    elif kind == "uninformative":
        given = np.repeat(given[:, :1], labels, axis=1)
    elif kind == "one uninformative":
        given[0] = given[0, :1]
    elif kind == "one point":
        given[0] = np.eye(bins)[rng.integers(bins)]
    given = given / given.sum(axis=2, keepdims=True)

    base = rng.dirichlet(np.full(groups * labels, 3.0)).reshape(groups, labels, 1)
    visits = (given * base).sum(axis=1)
    if kind == "not visited":
        visits[:, (rng.random(bins) < 0.3) & (np.arange(bins) > 0)] = 0.0
    elif kind == "no labels":
        empty = (rng.random(bins) < 0.3) & (np.arange(bins) > 0)
        given[:, :, empty] = 0.0
        given = given / given.sum(axis=2, keepdims=True)
    middle = np.sort(rng.random(bins))
    cost = np.abs(middle[:, None] - middle) + np.diag(np.full(bins, rng.choice([0.0, 0.3]) / bins))
    if kind == "any cost":
        cost = rng.random((bins, bins))
    return OddsProblem(given, visits / visits.sum(), cost * (kind != "no cost"))


def line_cost(bins):
    cost = np.abs(np.subtract.outer(np.arange(bins), np.arange(bins))) / bins
    return cost + np.eye(bins) / (3 * bins)


def paper_bins(bins, *, rows=400_000, seed=0):
    """Draw the paper's simulation: 1 / (1 + exp(-score)) in equal bins, with the merit label."""
    population = draw_population(50_000, seed)
    rng = np.random.default_rng([seed, 7])
    item = rng.integers(0, 50_000, rows)
    score = population.relevance[item] + rng.normal(0.0, 0.1, rows)
    place = (bins / (1.0 + np.exp(-score))).astype(int)
    counts = np.zeros((2, 2, bins))
    np.add.at(counts, (population.group[item], population.merit[item], place), 1.0)
    given = counts / counts.sum(axis=2, keepdims=True)
    return OddsProblem(given, counts.sum(axis=1) / rows, line_cost(bins))


def shifted_groups(bins, groups, labels, *, seed=0):
    """Draw normal scores whose means and spreads differ between groups, as counts of 20,000 rows a label."""
    rng = np.random.default_rng([seed, bins, groups, labels])
    counts = np.zeros((groups, labels, bins))
    for c in range(groups):
        mean, spread = rng.uniform(-0.7, 0.7), rng.uniform(0.8, 1.2)
        for y in range(labels):
            score = rng.normal(mean + 1.2 * y / labels, spread, 20_000)
            place = ((score + 4.0) / 9.0 * bins).clip(0, bins - 1).astype(int)
            counts[c, y] = np.bincount(place, minlength=bins)
    given = counts / counts.sum(axis=2, keepdims=True)
    return OddsProblem(given, given.sum(axis=1) / (groups * labels), line_cost(bins))


def least_movement(problem, epsilon=None):
    """Return the least movement, for strict equalized odds or within epsilon[y] for each label y."""
    given, visits, cost = problem.given, problem.visits, problem.cost
    groups, labels, bins = given.shape
    epsilon = [0.0] * labels if epsilon is None else epsilon
    shape = (groups, bins, bins)
    equal, equal_to, below = [], [], []

    for c, k in itertools.product(range(groups), range(bins)):
        row = np.zeros(shape)
        row[c, k, :] = 1.0
        equal.append(row.ravel())
        equal_to.append(1.0)

    for y, t in itertools.product(range(labels), range(bins)):
        for one, other in itertools.permutations(range(groups), 2):
            row = np.zeros(shape)
            if epsilon[y] == 0.0:
                row[one, :, t] = given[one, y]
                row[other, :, t] = -given[other, y]
                equal.append(row.ravel())
                equal_to.append(0.0)
            elif math.isfinite(epsilon[y]):
                row[one, :, : t + 1] = math.exp(-epsilon[y]) * given[one, y][:, None]
                row[other, :, : t + 1] = -given[other, y][:, None]
                below.append(row.ravel())

    solved = linprog(
        (visits[:, :, None] * cost).ravel(),
        A_eq=np.array(equal),
        b_eq=np.array(equal_to),
        A_ub=np.array(below) if below else None,
        b_ub=np.zeros(len(below)) if below else None,
        bounds=(0.0, None),
        method="highs-ds",
    )
    assert solved.status == 0, solved.message
    return float(solved.fun)
