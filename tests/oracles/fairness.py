"""The paper's transform and distances, computed on raw rows with loops and definitions only."""

from bisect import bisect_right


def weighted_cdf(values, weights):
    """Return the weighted empirical distribution function: t -> share of the weight at values <= t."""
    pairs = sorted(zip(values, weights, strict=True))
    ordered = [value for value, _ in pairs]
    total = sum(weights)
    heights, held = [0.0], 0.0
    for _, weight in pairs:
        held += weight
        heights.append(held / total)
    return lambda t: heights[bisect_right(ordered, t)]


def unit_scores(scores, groups, labels, positions, w):
    """F*_c(s): each group's scores through the distribution of its positives, weighted by 1 / w."""
    functions = {}
    for name in set(groups):
        own = [
            (s, 1 / w[p])
            for s, g, y, p in zip(scores, groups, labels, positions, strict=True)
            if g == name and y == 1
        ]
        functions[name] = weighted_cdf([s for s, _ in own], [weight for _, weight in own])
    return [functions[g](s) for s, g in zip(scores, groups, strict=True)]


def original_scale(unit, scores):
    """F^-1(F~(u)): the u-th quantile of all rows' scores, with F~ the distribution of all units."""
    ordered, below = sorted(scores), weighted_cdf(unit, [1.0] * len(unit))
    size = len(ordered)
    return [ordered[max(0, min(size - 1, round(below(u) * size) - 1))] for u in unit]


def ks(one, other, one_weights=None, other_weights=None):
    """Return the maximum over t of |F_1(t) - F_2(t)|."""
    first = weighted_cdf(one, one_weights or [1.0] * len(one))
    second = weighted_cdf(other, other_weights or [1.0] * len(other))
    return max((abs(first(t) - second(t)) for t in [*one, *other]), default=0.0)


def ranks(rows):
    """1 for the highest fair score of each query, ties in the order of the log; rows: (query, fair)."""
    places = []
    for number, (query, fair) in enumerate(rows):
        above = sum(
            1
            for other, (q, f) in enumerate(rows)
            if q == query and (f > fair or (f == fair and other < number))
        )
        places.append(above + 1)
    return places
