"""The movement program of equalized odds as the paper writes it: dense, pairwise, slow, obvious.

One variable for every p[c, k, t], all of them given to scipy's ``linprog`` at once; a constraint for
every pair of groups, label and target bin. Practical up to about fifteen bins. And bins to try it on.
"""

import itertools
import math

import numpy as np
from scipy.optimize import linprog

from evenodds.odds.problem import OddsProblem

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
