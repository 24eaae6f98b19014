"""What an audit asks of a model: whom it has seen, which log, and what it promises."""

from __future__ import annotations

import numpy as np

from evenodds.errors import TallyError
from evenodds.groups import group_name
from evenodds.reranker import Reranker
from evenodds.tally import Tally


def strangers(model: Reranker, tally: Tally) -> list[str]:
    """Say which groups the model has not seen; refuse a log of which it has seen none."""
    codes = model.rows_of(tally)
    unseen = codes == model.index_.unknown
    if unseen.all():
        known = ", ".join(map(group_name, model.groups_))
        raise TallyError(
            f"none of the log's groups ({', '.join(map(group_name, tally.groups))}) is in the model, which has "
            f"{known} by {'/'.join(model.group_columns_)}",
            hint="is this the group column that the model was fitted on?",
        )
    if model.unknown == "error":
        columns = tuple(list(column) for column in zip(*tally.groups, strict=True))
        model.index_.check_known(codes, columns)
    policy = "takes the pooled map" if model.unknown == "pooled" else "keeps its scores"
    return [
        f"group {group_name(tally.groups[place])} is not in the model: it {policy}"
        for place in np.flatnonzero(unseen)
    ]


def fitted_on(model: Reranker, tally: Tally) -> bool:
    """Whether a model has seen this log; by the names of its sources, if it was read from a file."""
    shared = set(model.fitted_on_["sources"]) & set(tally.sources)
    if model.tally_ is None:
        return bool(shared)
    # Tables in memory have no names of their own, files have.
    named = any(not name.startswith("<") for name in shared)
    return named or model.tally_ is tally or model.tally_.equals(tally)


def promised(model: Reranker | None, labels: int) -> tuple[int, ...]:
    """Return the labels that a model equalises."""
    if model is None or model.criterion != "odds":
        return tuple(range(1, labels))
    epsilon = getattr(model, "epsilon", None)
    given = np.zeros(labels) if epsilon is None else np.broadcast_to(np.asarray(epsilon, float), (labels,))
    return tuple(int(label) for label in np.flatnonzero(np.isfinite(given))) or tuple(range(labels))
