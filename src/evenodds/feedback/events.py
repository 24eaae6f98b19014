"""What a store is told, and what it says: served lists, events, what became of them, its state."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

import numpy as np
import numpy.typing as npt

from evenodds.feedback.ids import Id, Kind

Names = tuple[str | None, ...]


@dataclass(frozen=True, slots=True)
class ServedList:
    """What was served for one request, in the order in which it is shown.

    Attributes
    ----------
    key
        What names the request, and this list only: feedback comes back with it.
    items
        Ids of the items, the first at the top position.
    scores
        Their original scores, before the correction.
    groups
        A tuple of names an item, one for each group column; None where a name is not known, and such an
        item is not counted.
    model, arm
        What names the model that served it, and what it was served: "fair", "original", "shadow".
    served
        Seconds since 1970; None takes the moment of writing.
    """

    key: Id
    items: Sequence[Id]
    scores: Sequence[float] | npt.NDArray[np.float64]
    groups: Sequence[Names]
    model: str = ""
    served: float | None = None
    arm: str = ""


@dataclass(frozen=True, slots=True)
class Event:
    """What came of one item of a list: its label, and where it was shown if that is known."""

    key: Id
    item: Id
    label: int
    position: int | None = None


class Fate(Enum):
    """What became of an event."""

    COUNTED = "counted"  # joined to its list, and news
    REPEATED = "repeated"  # known already, or less than what is known
    WAITING = "waiting"  # stored; its list or item has not been served yet, as far as is known
    REFUSED = "refused"  # not stored: too many wait already


@dataclass(frozen=True)
class Status:
    """What a store holds.

    Attributes
    ----------
    lists, rows
        Served lists and the impressions in them.
    settled_lists, settled_rows
        Those older than the settling time.
    labels
        How many items have each label.
    waiting
        Labels without a list.
    folded_lists, folded_rows
        What was counted and deleted.
    oldest, newest
        When the lists were served, in seconds since 1970.
    """

    name: str
    kind: Kind
    group_columns: tuple[str, ...]
    outcomes: int
    lists: int
    rows: int
    settled_lists: int
    settled_rows: int
    labels: dict[int, int]
    waiting: int
    folded_lists: int
    folded_rows: int
    oldest: float | None
    newest: float | None
    models: tuple[str, ...]
    groups: tuple[Names, ...]
    bytes: int
