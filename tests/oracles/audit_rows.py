"""The audit's figures on raw rows, with loops and definitions only; rows are dictionaries."""

from itertools import pairwise, product


def of(rows, group, label=None):
    """Return the rows of a group, and of a label."""
    return [row for row in rows if row["group"] == group and (label is None or row["label"] == label)]


def distribution(rows, label, kind, w):
    """Return the masses of one group's label by score: {score: mass}.

    By merit a positive at position j counts 1 / w_j, and what it counts beyond 1 is taken from the
    negatives of its score.
    """
    mass = {}
    for row in rows:
        weight = 1.0 / w[row["position"]] if kind == "merit" and row["label"] == 1 else 1.0
        positive, negative = (weight, 1.0 - weight) if row["label"] == 1 else (0.0, 1.0)
        mass[row["score"]] = mass.get(row["score"], 0.0) + (positive if label == 1 else negative)
    return mass


def cdf(mass, t):
    """Return the share of the mass at or below t."""
    return sum(part for score, part in mass.items() if score <= t) / sum(mass.values())


def ks(one, other):
    """Max over t of |F(t) - G(t)|."""
    return max(abs(cdf(one, t) - cdf(other, t)) for t in {**one, **other})


def wasserstein(one, other):
    """Return the integral of |F(t) - G(t)| over t."""
    points = sorted({**one, **other})
    return sum(abs(cdf(one, low) - cdf(other, low)) * (high - low) for low, high in pairwise(points))


def auc(positive, negative):
    """P(score of a positive > score of a negative) + P(they tie) / 2."""
    won = sum(
        p * n * ((s > t) + 0.5 * (s == t)) for (s, p), (t, n) in product(positive.items(), negative.items())
    )
    return won / (sum(positive.values()) * sum(negative.values()))


def positive_rate(rows):
    return sum(row["label"] for row in rows) / len(rows)


def merit_rate(rows, w):
    return sum(row["label"] / w[row["position"]] for row in rows) / len(rows)


def exposure(rows, w):
    """Return the mean position weight."""
    return sum(w[row["position"]] for row in rows) / len(rows)


def parity(rows, w):
    """Observed exposure over merit, v_obs(c) / M_c."""
    return positive_rate(rows) / merit_rate(rows, w)


def share_at(rows, group, position):
    shown = [row for row in rows if row["position"] == position]
    return sum(row["group"] == group for row in shown) / len(shown)


def without(rows, left_out):
    """Return the rows whose query is not among `left_out`."""
    return [row for row in rows if row["query"] not in left_out]


def jackknife(rows, folds, figure):
    """Return the standard error of figure(rows) by leaving out one fold of queries at a time."""
    found = [figure(without(rows, fold)) for fold in folds]
    mean = sum(found) / len(found)
    return ((len(found) - 1) / len(found) * sum((value - mean) ** 2 for value in found)) ** 0.5
