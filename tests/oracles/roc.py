"""Slow and obvious ROC curves: every deterministic rule, every mixture of two of them."""

import itertools

import numpy as np
from scipy.optimize import linprog


def rules(given, *, thresholds=False):
    """(FPR, TPR) of each of the 2^K ways to call some bins positive, or of the K + 1 thresholds."""
    bins = given.shape[1]
    every = np.tri(bins + 1, bins, -1)[:, ::-1] if thresholds else itertools.product([0.0, 1.0], repeat=bins)
    chosen = np.array(list(every))
    false, true = chosen @ given[0], chosen @ given[1]
    false[-1] = true[-1] = 1.0
    return false, true


def best_rate(given, x, *, thresholds=False):
    """Return the greatest TPR of any mixture of two rules whose FPR is x."""
    false, true = rules(given, thresholds=thresholds)
    low, high = np.meshgrid(np.flatnonzero(false <= x), np.flatnonzero(false >= x))
    span = false[high] - false[low]
    part = np.divide(x - false[low], span, out=np.ones(span.shape), where=span > 0)
    return float((true[low] + part * (true[high] - true[low])).max())


def shared_curve(given):
    """Return FPR and TPR of the minimum over groups, at every bend that it can have."""
    bends = np.unique(np.concatenate([rules(group)[0] for group in given]))
    heights = np.array([[best_rate(group, x) for x in bends] for group in given])
    xs, ys = list(bends), list(heights.min(axis=0))
    for i, j in itertools.combinations(range(len(given)), 2):
        ahead = heights[i] - heights[j]
        for k in np.flatnonzero(ahead[:-1] * ahead[1:] < 0):
            x = bends[k] + (bends[k + 1] - bends[k]) * ahead[k] / (ahead[k] - ahead[k + 1])
            xs.append(x)
            ys.append(min(best_rate(group, x) for group in given))
    order = np.argsort(xs)
    return np.array(xs)[order], np.array(ys)[order]


def area(xs, ys):
    """Return the area under a curve that starts at (0, ys[0])."""
    return float(((xs[1:] - xs[:-1]) * (ys[1:] + ys[:-1]) / 2).sum())


def pair_auc(target):
    """P(a positive's target bin is above a negative's) + P(the same) / 2, pair by pair."""
    negative, positive = target
    return sum(
        negative[i] * positive[j] * (1.0 if j > i else 0.5 if j == i else 0.0)
        for i in range(negative.size)
        for j in range(negative.size)
    )


def odds_rows(given, targets):
    """Return equality rows over (P_0, ..., P_{L-1}, target), P_c of K x T: the paper's constraints."""
    L, M, K = given.shape
    rows, sums = [], []
    for c in range(L):
        for k in range(K):
            row = np.zeros((L * K + M, targets))
            row[c * K + k] = 1.0
            rows.append(row.ravel())
            sums.append(1.0)
        for y in range(M):
            for t in range(targets):
                row = np.zeros((L * K + M, targets))
                row[c * K : (c + 1) * K, t] = given[c, y]
                row[L * K + y, t] = -1.0
                rows.append(row.ravel())
                sums.append(0.0)
    return np.array(rows), np.array(sums)


def extreme_target(given, rows, objective):
    """Return the target of the feasible kernel that a linear objective of the target likes best."""
    L, _, K = given.shape
    free = L * K * objective.shape[1]
    weights = np.concatenate([np.zeros(free), -objective.ravel()])
    found = linprog(weights, A_eq=rows[0], b_eq=rows[1], bounds=(0, 1), method="highs")
    assert found.status == 0
    return found.x[free:].reshape(objective.shape)


def auc_slope(target):
    """Return the derivative of `pair_auc`: with it a linear program climbs the bilinear AUC."""
    negative, positive = target
    below = np.cumsum(negative) - negative / 2
    above = np.cumsum(positive[::-1])[::-1] - positive / 2
    return np.stack([above, below])


def fewest_segments(xs, ys, loss):
    """Return the least number of segments between vertices of a concave curve that lose at most `loss`."""
    n = xs.size
    whole = np.array(
        [[area(xs[i : j + 1], ys[i : j + 1]) if j > i else 0.0 for j in range(n)] for i in range(n)]
    )
    chord = (xs[None, :] - xs[:, None]) * (ys[None, :] + ys[:, None]) / 2
    lost = np.where(np.arange(n)[None, :] > np.arange(n)[:, None], whole - chord, np.inf)
    least = lost[0]
    for segments in range(1, n):
        if least[-1] <= loss:
            return segments
        least = (least[:, None] + lost).min(axis=0)
    return n - 1


def least_movement(given, visits, target, cost):
    """Return the optimum of the transport problem of one group, given whole to a solver."""
    K, T = cost.shape
    sums = np.kron(np.eye(K), np.ones((1, T)))
    images = np.vstack([np.kron(given[y], np.eye(T)) for y in range(2)])
    found = linprog(
        (visits[:, None] * cost).ravel(),
        A_eq=np.vstack([sums, images]),
        b_eq=np.concatenate([np.ones(K), target.ravel()]),
        method="highs",
    )
    assert found.status == 0
    return float(found.fun)
