"""What a store needs of a database; one subclass a database, and no SQL outside these and the schema."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any

from evenodds.feedback.ids import Kind, Stored

Row = tuple[Any, ...]
Pair = tuple[Stored, Stored]


class Database(ABC):
    """One connection, used by one thread at a time.

    Attributes
    ----------
    name
        What messages and models call it; never a password.
    kind
        How ids are stored, which decides the type of their columns.
    again
        Whether the last error may go away when the transaction is run again at once.
    """

    name: str
    kind: Kind = "hashed"
    again: bool = False

    @abstractmethod
    def create(self) -> None:
        """Make the tables that are not there."""

    @abstractmethod
    def has_tables(self) -> bool:
        """Whether this is a store already."""

    @abstractmethod
    def writing(self) -> AbstractContextManager[None]:
        """Open a transaction that is the only one to write, or merges with others; synced when it is left."""

    @abstractmethod
    def folding(self) -> AbstractContextManager[None]:
        """Open a transaction during which nobody else writes."""

    @abstractmethod
    def reading(self) -> AbstractContextManager[None]:
        """Hold one state of the store, whatever others write."""

    @abstractmethod
    def execute(self, statement: str, values: Sequence[object] = ()) -> list[Row]:
        """Run one statement of the schema; return its rows."""

    @abstractmethod
    def stream(self, statement: str, values: Sequence[object], size: int) -> Iterator[list[Row]]:
        """Run a query and yield its rows, some `size` at a time."""

    @abstractmethod
    def put_lists(self, rows: Sequence[Row]) -> None:
        """Add lists that are not there yet."""

    @abstractmethod
    def merge_labels(self, rows: Sequence[Row]) -> set[Pair]:
        """Merge labels, each pair at most once in `rows`; return the pairs that this changed."""

    @abstractmethod
    def items_of(self, keys: Sequence[Stored]) -> Iterable[tuple[Stored, bytes]]:
        """Return the packed items of all lists of some keys."""

    @abstractmethod
    def delete(self, keys: Sequence[Stored]) -> None:
        """Delete the lists and the labels of some keys."""

    @abstractmethod
    def size(self) -> int:
        """Return the bytes that the store takes."""

    @abstractmethod
    def tidy(self) -> None:
        """Give room back after much has been deleted."""

    @abstractmethod
    def close(self) -> None:
        """Let go of the connection."""
