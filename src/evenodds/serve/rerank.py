"""Rank one list: scores, groups and ids in, fair scores and an order out."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from evenodds.errors import EvenoddsError
from evenodds.serve.loaded import Live
from evenodds.serve.problem import Problem

Floats = npt.NDArray[np.float64]
Codes = npt.NDArray[np.intp]
_LARGEST = 1 << 63


class Served:
    """One list as it was served.

    Attributes
    ----------
    key, ids, groups
        As they were sent; `groups` a column, or a tuple of them.
    list_id
        What feedback names the list by: its query, or else its key.
    scores
        The scores that were sent.
    fair
        The model's fair scores; None where the arm is "original".
    served
        The scores that the order goes by: the fair ones in the arm "fair", else those that were sent.
    order
        The candidates' places in the list that was sent, the best first; ties stay as they were.
    arm
        "fair"; "original" outside the ramp; "shadow", computed and not shown.
    model
        The version of the model.
    codes
        The places of the groups in the model's tables.
    unknown
        How many candidates have a null or unseen group.
    """

    __slots__ = (
        "arm",
        "codes",
        "fair",
        "groups",
        "ids",
        "key",
        "list_id",
        "model",
        "order",
        "scores",
        "served",
        "unknown",
    )

    @classmethod
    def of(
        cls,
        live: Live,
        key: str | int | None,
        ids: Any,
        groups: Any,
        scores: list[float],
        query: str | int | None = None,
    ) -> Served:
        """Rank a list whose scores come as a list."""
        return cls(live, key, ids, groups, np.array(scores, dtype=np.float64), query)

    def __init__(
        self,
        live: Live,
        key: str | int | None,
        ids: Any,
        groups: Any,
        scores: Floats,
        query: str | int | None = None,
    ) -> None:
        loaded = live.loaded
        scorer = loaded.scorer
        size = scores.size
        if ids is not None and len(ids) != size:
            raise Problem(422, f"{size} scores but {len(ids)} ids; expected one id a candidate")
        self.key, self.ids, self.scores = key, ids, scores
        self.list_id = key if query is None else query
        self.groups = groups = _columns(groups, loaded.columns)
        self.model = loaded.version
        if 0.0 < live.ramp < 1.0 and key is None:
            raise Problem(
                422,
                "no key, and the model is ramped by key: a key is needed to tell the arm",
                hint='"key": "..."',
            )
        self.arm = live.arm(key)
        self.fair: Floats | None = None
        self.served: Floats = scores
        try:
            known = scorer.index.known_codes(groups, size)
            self.codes = codes = scorer.codes(groups, size) if known is None else known
            self.unknown = 0 if known is not None else int(np.count_nonzero(codes == scorer.index.unknown))
            if self.arm != "original":
                self.fair = scorer.transform_codes(scores, codes, _keys(key, ids) if scorer.draws else None)
                if self.arm == "fair":
                    self.served = self.fair
            else:
                scorer.check_finite(scores)
        except EvenoddsError as error:
            raise Problem.of(error) from None
        self.order: Codes = (-self.served).argsort(kind="stable")


def would_be_order(served: Served) -> Codes:
    """Return the order by the model's scores, whatever was shown."""
    if served.fair is None:
        return served.order
    order: Codes = (-served.fair).argsort(kind="stable")
    return order


def moved(served: Served) -> int:
    """Return how many candidates the model would have put elsewhere than where they were shown."""
    return int(np.count_nonzero(would_be_order(served) != served.order))


def _columns(groups: Any, columns: tuple[str, ...]) -> Any:
    if isinstance(groups, dict):
        if set(groups) != set(columns):
            raise Problem(
                422,
                f"groups by {', '.join(map(repr, groups))}; this model has them by {', '.join(map(repr, columns))}",
            )
        return tuple(groups[name] for name in columns) if len(columns) > 1 else groups[columns[0]]
    if len(columns) > 1 and not isinstance(groups, tuple):  # a tuple of columns is what Arrow gives
        raise Problem(
            422,
            f"groups are one column; this model has them by {' × '.join(columns)}",
            hint="groups as an object with a list for " + " and ".join(columns),
        )
    return groups


def _keys(key: str | int | None, ids: Any) -> tuple[Any, Any]:
    """Return what draws repeat by: the request's key and the items' ids, as `evenodds apply` takes query and item."""
    if key is None or ids is None:
        missing = " and ".join(name for name, value in (("key", key), ("ids", ids)) if value is None)
        raise Problem(
            422,
            f"no {missing}: this model draws at random, by the request's key and the candidates' ids",
            hint="the same key and ids give the same scores again",
        )
    if isinstance(key, int) and not -_LARGEST <= key < _LARGEST:
        raise Problem(422, "the key does not fit in 64 bits", hint="send it as text")
    if type(ids) is not list or not ids:
        return key, ids
    if type(ids[0]) is str:
        try:
            "".join(ids)  # the fastest look at the type of each
        except TypeError:
            raise _mixed_ids() from None
        return key, ids
    numbers = np.array(ids)
    if numbers.dtype.kind != "i":
        raise _mixed_ids()
    return key, numbers


def _mixed_ids() -> Problem:
    return Problem(422, "ids must be all text or all whole numbers of 64 bits")
