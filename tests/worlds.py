"""Small logs drawn from models in which the truth is known."""

import numpy as np
import pyarrow as pa

GROUPS = np.array(["a", "b"])


def decay(positions):
    """Return the true position bias of these worlds, 1 / log2(1 + j) for j = 1, 2, ..."""
    return 1.0 / np.log2(1.0 + np.arange(1, positions + 1))


def rate(score, group):
    """P(Y(1) = 1): it rises with the score, and group b's scores are too low."""
    return 0.15 + 0.5 * score + 0.2 * (group == 1)


def draw(
    rng,
    queries,
    lengths=(10, 10),
    *,
    order="ranked",
    weights=None,
    first=1,
    rate=rate,
    long_lists=0.0,
):
    """Draw a log of lists.

    Parameters
    ----------
    order
        "ranked" by score; "shuffled", any item anywhere; "swapped", ranked, then every list's
        neighbours (1, 2), (3, 4), ... or (2, 3), (4, 5), ... each turned round by the toss of a coin.
    weights
        Position bias from the top on, or a function of (position from 0, score, group).
    first
        The number of the top slot.
    long_lists
        How much lower the scores of the longest lists are.
    """
    length = rng.integers(lengths[0], lengths[1] + 1, queries)
    query = np.repeat(np.arange(queries), length)
    start = np.repeat(np.cumsum(length) - length, length)
    place = np.arange(query.size) - start
    stretch = (length[query] - lengths[0]) / max(lengths[1] - lengths[0], 1)
    score = rng.random(query.size) * (1.0 - long_lists * stretch)
    group = rng.integers(0, 2, query.size)
    by = rng.random(query.size) if order == "shuffled" else -score
    ranked = np.lexsort((by, query))
    score, group = score[ranked], group[ranked]
    swap = None
    if order == "swapped":
        offset = rng.integers(0, 2, queries)[query]
        upper = place - (place - offset) % 2
        swap = np.where((upper >= 0) & (upper + 1 < length[query]), upper, -1)
        turned = rng.random((queries, lengths[1] + 1)) < 0.5
        turn = (swap >= 0) & turned[query, np.maximum(swap, 0)]
        place = np.where(turn, 2 * swap + 1 - place, place)
    truth = decay(lengths[1]) if weights is None else weights
    seen = truth(place, score, group) if callable(truth) else truth[place]
    label = rng.random(query.size) < rate(score, group) * seen
    columns = {
        "query": query,
        "position": place + first,
        "group": GROUPS[group],
        "score": score,
        "label": label.astype(np.int8),
    }
    if swap is not None:
        columns["swap"] = pa.array(swap + first, mask=swap < 0)
    return pa.table(columns)


def rows_of(table, boundaries=None):
    """Return a table's rows as dictionaries, with their score cell."""
    rows = table.to_pylist()
    if boundaries is not None:
        for row, cell in zip(
            rows, np.searchsorted(boundaries, table["score"].to_numpy(), side="right"), strict=True
        ):
            row["cell"] = int(cell)
    return rows


def z_scores(bias, truth):
    """How many standard errors log w is off, at every position but the first."""
    error = np.log(bias.weights[1:]) - np.log(truth[1 : bias.weights.size])
    return error / (bias.standard_errors[1:] / bias.weights[1:])
