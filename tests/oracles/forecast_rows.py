"""A forecast computed on raw rows: dictionaries of query, group, cell, position, label and fair score."""

from collections import defaultdict


def new_positions(rows):
    """Return the positions that a query's rows held, handed out by fair score; ties in the order of the log."""
    lists = defaultdict(list)
    for number, row in enumerate(rows):
        lists[row["query"]].append(number)
    found = [None] * len(rows)
    for numbers in lists.values():
        slots = sorted(rows[number]["position"] for number in numbers)
        for slot, number in zip(slots, sorted(numbers, key=lambda n: (-rows[n]["fair"], n)), strict=True):
            found[number] = slot
    return found


def run_counts(rows):
    """Return n^(1/3) by group, n its positives."""
    positives = defaultdict(float)
    for row in rows:
        positives[row["group"]] += row["label"]
    return {group: max(1, round(count ** (1 / 3))) for group, count in positives.items()}


def runs(rows, w, counts):
    """Cut each group's cells into so many runs of equal sum of w."""
    held = defaultdict(lambda: defaultdict(float))
    for row in rows:
        held[row["group"]][row["cell"]] += w[row["position"]]
    run = {}
    for group, cells in held.items():
        wanted, total, below = counts[group], sum(cells.values()), 0.0
        for cell in sorted(cells):
            run[group, cell] = min(int((below + cells[cell] / 2) / total * wanted), wanted - 1)
            below += cells[cell]
    return run


def forecast(rows, w, counts=None):
    """Return positives before and after, and mean exposure before and after, by group."""
    run, moved = runs(rows, w, counts or run_counts(rows)), new_positions(rows)
    before, after, positives = defaultdict(float), defaultdict(float), defaultdict(float)
    for row, new in zip(rows, moved, strict=True):
        key = row["group"], run[row["group"], row["cell"]]
        before[key] += w[row["position"]]
        after[key] += w[new]
        positives[key] += row["label"]
    found = {}
    for group in sorted({row["group"] for row in rows}):
        keys = [key for key in before if key[0] == group]
        count = sum(1 for row in rows if row["group"] == group)
        found[group] = (
            sum(positives[key] for key in keys),
            sum(positives[key] / before[key] * after[key] for key in keys),
            sum(before[key] for key in keys) / count,
            sum(after[key] for key in keys) / count,
        )
    return found


def standard_errors(rows, w, fold_of, folds=20):
    """Jackknife over folds of queries of the relative change of positives, by group, w held fixed."""
    left = defaultdict(list)
    for fold in range(folds):
        kept = [row for row in rows if fold_of[row["query"]] != fold]
        for group, values in forecast(kept, w, run_counts(rows)).items():
            left[group].append(values[1] / values[0] - 1)
    return {
        group: ((folds - 1) / folds * sum((x - sum(values) / folds) ** 2 for x in values)) ** 0.5
        for group, values in left.items()
    }
