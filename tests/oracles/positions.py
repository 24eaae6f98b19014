"""Position-bias formulas on raw rows: dictionaries of group, cell, position, label (and swap)."""

from collections import Counter, defaultdict


def rates(rows):
    """Positives over impressions by position."""
    shown, clicked = Counter(), Counter()
    for row in rows:
        shown[row["position"]] += 1
        clicked[row["position"]] += row["label"]
    return {position: clicked[position] / shown[position] for position in sorted(shown)}


def randomized(rows):
    """w_j = rate at j / rate at the first position."""
    by_position = rates(rows)
    top = by_position[min(by_position)]
    return {position: rate / top for position, rate in by_position.items()}


def adjacent(rows, truncate=30):
    """eta_j = E[Y f_{j-1}(s) / f_j(s) | j] / E[Y | j - 1], multiplied up to min(j, truncate)."""
    by_position = defaultdict(list)
    for row in rows:
        by_position[row["position"]].append(row)
    density = {
        position: Counter({cell: n / len(found) for cell, n in Counter(r["cell"] for r in found).items()})
        for position, found in by_position.items()
    }
    first = min(by_position)
    weights = {first: 1.0}
    for j in sorted(by_position)[1:]:
        above = by_position[j - 1]
        numerator = sum(
            row["label"] * density[j - 1][row["cell"]] / density[j][row["cell"]] for row in by_position[j]
        ) / len(by_position[j])
        eta = numerator / (sum(row["label"] for row in above) / len(above))
        weights[j] = weights[j - 1] * (eta if j - first + 1 <= truncate else 1.0)
    return weights


def joint(rows, rounds=20_000):
    """Maximum likelihood of Y ~ Poisson(n w_j r_b), by taking turns: w from r, r from w."""
    shown, positives = Counter(), Counter()
    for row in rows:
        stratum = (row["group"], row["cell"])
        shown[stratum, row["position"]] += 1
        positives[stratum, row["position"]] += row["label"]
    strata = sorted({stratum for stratum, _ in shown})
    positions = sorted({position for _, position in shown})
    by_stratum = {b: sum(positives[b, j] for j in positions) for b in strata}
    by_position = {j: sum(positives[b, j] for b in strata) for j in positions}
    weights = dict.fromkeys(positions, 1.0)
    for _ in range(rounds):
        rate = {b: by_stratum[b] / sum(shown[b, j] * weights[j] for j in positions) for b in strata}
        new = {j: by_position[j] / sum(shown[b, j] * rate[b] for b in strata) for j in positions}
        new = {j: weight / new[positions[0]] for j, weight in new.items()}
        moved = max(abs(new[j] - weights[j]) for j in positions)
        weights = new
        if moved < 1e-13:
            break
    return weights


def swaps(rows):
    """w_{j+1} / w_j = rate in the lower slot / rate in the upper slot, over pairs at (j, j + 1)."""
    shown, clicked = Counter(), Counter()
    for row in rows:
        if row["swap"] is not None:
            slot = row["swap"], row["position"] - row["swap"]
            shown[slot] += 1
            clicked[slot] += row["label"]
    uppers = sorted({upper for upper, _ in shown})
    weights = {uppers[0]: 1.0}
    for upper in uppers:
        lower, top = (clicked[upper, place] / shown[upper, place] for place in (1, 0))
        weights[upper + 1] = weights[upper] * lower / top
    return weights
