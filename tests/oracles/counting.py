"""Counting row by row, in dictionaries."""

from bisect import bisect_right
from collections import Counter

from oracles import hashing

COARSE = 200


def printed(value):
    """Return a group's name as text."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def count(rows, boundaries, *, group=("group",), depth=100):
    """Count dictionaries of score, label and, where they have them, position, query, weight and swap.

    Returns sums by (group, label, position, cell), squares by (group, label, position), folds by
    (group, label, position, fold, coarse cell), swaps by (fold, pair, place, label).
    """
    counts, squares, folds, swaps = Counter(), Counter(), Counter(), Counter()
    cells = len(boundaries) + 1
    for row in rows:
        name = tuple(printed(row[column]) for column in group)
        label = int(row["label"])
        position = min(int(row.get("position", 0)), depth + 1)
        cell = bisect_right(boundaries, row["score"])
        weight = row.get("weight", 1)
        counts[name, label, position, cell] += weight
        squares[name, label, position] += weight**2
        fold = hashing.fold(row["query"]) if "query" in row else 0
        if "query" in row:
            folds[name, label, position, fold, cell * min(COARSE, cells) // cells] += weight
        if row.get("swap") is not None and row["swap"] < depth:
            swaps[fold, row["swap"], int(row["position"]) - row["swap"], label] += weight
    return tuple({place: n for place, n in found.items() if n} for found in (counts, squares, folds, swaps))


def as_dictionary(array, groups=None):
    """Return what is not zero in an array of counts, by its place; the first axis named by groups."""
    found = {}
    for place in zip(*array.nonzero(), strict=True):
        first, *rest = (int(axis) for axis in place)
        found[(first if groups is None else groups[first], *rest)] = array[place].item()
    return found
