"""One SELECT around another: a query that grows outwards, a few columns at a time.

No expression is written twice, and every step reads as one line of arithmetic.
"""

from __future__ import annotations

from collections.abc import Iterable


class Query:
    """A query and the columns that it has so far."""

    def __init__(self, columns: dict[str, str], source: str | None = None) -> None:
        self.columns = list(columns)
        self.text = f"SELECT {_listed(columns)}" + (f"\nFROM {source}" if source else "")

    def step(self, new: dict[str, str], *, join: str = "", drop: Iterable[str] = ()) -> None:
        """Add columns, made of those that are there and of a table that is joined; drop what is done with."""
        gone = {*drop, *new}
        kept = {name: name for name in self.columns if name not in gone}
        columns = kept | new
        joined = f"\n{join}" if join else ""
        self.text = f"SELECT {_listed(columns)}\nFROM ({self.text}) AS q{joined}"
        self.columns = list(columns)


def _listed(columns: dict[str, str]) -> str:
    return ", ".join(name if name == made else f"{made} AS {name}" for name, made in columns.items())
