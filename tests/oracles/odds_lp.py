"""The movement program of equalized odds as the paper writes it: dense, pairwise, slow, obvious.

One variable for every p[c, k, t], all of them given to scipy's ``linprog`` at once; a constraint for
every pair of groups, label and target bin. Practical up to about fifteen bins.
"""

from __future__ import annotations

import itertools
import math

import numpy as np
from scipy.optimize import linprog


def least_movement(given, visits, cost, epsilon=None):
    """Return the least movement, for strict equalized odds or within epsilon[y] for each label y."""
    groups, labels, bins = given.shape
    epsilon = [0.0] * labels if epsilon is None else epsilon
    shape = (groups, bins, bins)
    objective = np.array([[visits[c, k] * cost[k] for k in range(bins)] for c in range(groups)]).ravel()
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
        objective,
        A_eq=np.array(equal),
        b_eq=np.array(equal_to),
        A_ub=np.array(below) if below else None,
        b_ub=np.zeros(len(below)) if below else None,
        bounds=(0.0, None),
        method="highs-ds",
    )
    assert solved.status == 0, solved.message
    return float(solved.fun)
