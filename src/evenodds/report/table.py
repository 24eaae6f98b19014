"""The numbers behind a chart: written once, read by the chart and by the table below it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

Value = str | float | int | None


@dataclass(frozen=True)
class Dim:
    """What rows are told apart by: a name, what people call it, and its values."""

    name: str
    title: str
    values: Sequence[Value]


@dataclass(frozen=True)
class Field:
    """What rows tell: one list of values, or one list for each alpha in `moving`; `sparse` takes 0 as nothing."""

    name: str
    title: str
    values: Sequence[Value] = ()
    moving: Sequence[Sequence[Value]] | None = None
    sparse: bool = False


@dataclass(frozen=True)
class Table:
    """A chart's numbers: a row for each combination of the dims' values, the last dim running fastest."""

    dims: tuple[Dim, ...]
    fields: tuple[Field, ...]

    def rows(self, alpha: int) -> list[dict[str, Value]]:
        """Return the rows at the alpha of that number; those without any value are left out."""
        names = [dim.name for dim in self.dims]
        columns = [field.values if field.moving is None else field.moving[alpha] for field in self.fields]
        found = []
        for place, keys in enumerate(product(*(dim.values for dim in self.dims))):
            values = {
                field.name: None if field.sparse and column[place] == 0 else column[place]
                for field, column in zip(self.fields, columns, strict=True)
            }
            if any(value is not None for value in values.values()):
                found.append({**dict(zip(names, keys, strict=True)), **values})
        return found

    @property
    def moves(self) -> bool:
        """Whether anything depends on alpha."""
        return any(field.moving is not None for field in self.fields)

    def to_dict(self) -> dict[str, Any]:
        """Return what the page holds: values only, in the order of the rows."""
        return {
            "dims": [{"n": dim.name, "t": dim.title, "v": list(dim.values)} for dim in self.dims],
            "fields": [
                {"n": field.name, "t": field.title}
                | ({"z": True} if field.sparse else {})
                | ({"v": list(field.values)} if field.moving is None else {"m": [*map(list, field.moving)]})
                for field in self.fields
            ],
        }


def short(values: Any, digits: int = 3, scale: float = 1.0) -> list[Value]:
    """Return numbers of few digits, as a flat list; what is not finite is None."""
    return [_short(value, digits, scale) for value in _flat(values)]


def _flat(values: Any) -> Iterator[Any]:
    ravel = getattr(values, "ravel", None)
    return iter(ravel().tolist() if ravel is not None else values)


def _short(value: Any, digits: int, scale: float) -> Value:
    if value is None or not math.isfinite(value):
        return None
    number = float(f"{value * scale:.{digits}g}")
    return int(number) if number.is_integer() else number
