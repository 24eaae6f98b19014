"""How far a distribution has moved, row by row."""


def share_below(rows, point):
    """Return the weighted share of scores below a point."""
    scores, weights = rows
    return sum(w for s, w in zip(scores, weights, strict=True) if s < point) / sum(weights)


def moved(old, new, points):
    """Return KS at the points, and W1 with the distribution functions straight between them.

    `old` and `new` are pairs of scores and weights; outside the points both functions reach 0 and 1 at
    the smallest and the largest score.
    """
    low, high = min(old[0] + new[0] + [points[0]]), max(old[0] + new[0] + [points[-1]])
    ends = [low, *points, high]
    apart = [0.0, *(share_below(new, p) - share_below(old, p) for p in points), 0.0]
    total = 0.0
    for k in range(len(ends) - 1):
        width, left, right = ends[k + 1] - ends[k], apart[k], apart[k + 1]
        steps = 2_000
        # The middle of small steps: exact for straight lines, but where they cross zero.
        total += width * sum(abs(left + (right - left) * (i + 0.5) / steps) for i in range(steps)) / steps
    return max(map(abs, apart)), total
