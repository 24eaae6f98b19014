"""One SELECT around another: a query that grows outwards, a few columns at a time.

No expression is written twice, and every step reads as one line of arithmetic.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping


class Query:
    """A query and the columns that it has so far.

    Parameters
    ----------
    columns
        The first columns: names, and what they are made of.
    source
        The table that they come from; None if there is none.
    hints
        Whether to tell the database that what is joined is small (Spark).
    """

    def __init__(self, columns: dict[str, str], source: str | None = None, *, hints: bool = False) -> None:
        self.columns = list(columns)
        self.text = f"SELECT {_listed(columns)}" + (f"\nFROM {source}" if source else "")
        self._hints = hints

    def step(
        self,
        new: dict[str, str],
        *,
        join: Mapping[str, tuple[str, str]] | None = None,
        drop: Iterable[str] = (),
    ) -> None:
        """Add columns, made of those that are there and of tables that are joined; drop what is done with.

        `join` gives each table a short name: the table, and the condition.
        """
        gone = {*drop, *new}
        columns = {name: name for name in self.columns if name not in gone} | new
        joined = "".join(
            f"\nLEFT JOIN {table} AS {name} ON {on}" for name, (table, on) in (join or {}).items()
        )
        hint = f"/*+ BROADCAST({', '.join(join)}) */ " if join and self._hints else ""
        self.text = f"SELECT {hint}{_listed(columns)}\nFROM ({self.text}) AS q{joined}"
        self.columns = list(columns)


def _listed(columns: dict[str, str]) -> str:
    return ", ".join(name if name == made else f"{made} AS {name}" for name, made in columns.items())
