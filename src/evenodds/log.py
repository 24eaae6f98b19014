"""What a log is: where the rows are, and which column plays which role.

A log is read as Arrow record batches, from files or from anything that speaks the Arrow PyCapsule
stream protocol, so that no dataframe library is a dependency. Columns are checked here, before a
row is read; values are checked by the counting engine, batch by batch.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, cast

import numpy as np
import numpy.typing as npt

from evenodds.errors import LogError, SettingsError, nearest
from evenodds.sources import Feedback, Source, open_source
from evenodds.spark_frame import SparkFrame, is_spark_frame

if TYPE_CHECKING:
    import pyarrow as pa

Floats = npt.NDArray[np.float64]
AUTO: Final = "auto"
MAX_OUTCOMES = 20


@dataclass(frozen=True)
class Roles:
    """Which column is what; None where the log has no such column."""

    score: str
    group: tuple[str, ...]
    label: str
    position: str | None = None
    query: str | None = None
    item: str | None = None
    weight: str | None = None
    swap: str | None = None
    outcomes: int = 1

    def counted(self) -> list[str]:
        """Return the columns that counting reads, each once."""
        if not self.label:
            raise LogError(["this log was opened without a label column: it can be scored, not counted"])
        optional = (self.position, self.query, self.weight, self.swap)
        names = [self.score, *self.group, self.label, *(name for name in optional if name is not None)]
        return list(dict.fromkeys(names))

    def to_dict(self) -> dict[str, object]:
        """Return the roles that are filled, as plain JSON values."""
        named: dict[str, object] = {"score": self.score, "group": list(self.group), "label": self.label}
        optional = ("position", "query", "item", "weight", "swap")
        if self.outcomes > 1:
            named["outcomes"] = self.outcomes
        return named | {name: getattr(self, name) for name in optional if getattr(self, name) is not None}


class Log:
    """An impression log: one row for each time an item was shown.

    Parameters
    ----------
    source
        A path, a glob, a list of paths (Parquet, CSV, Arrow IPC), a Spark DataFrame, or an object with
        ``__arrow_c_stream__``: a pandas or Polars frame, a pyarrow table, a DuckDB relation. Or a
        feedback store (:mod:`evenodds.feedback`): its file, or the URL of its PostgreSQL.
    score, group, label
        Column names. Several `group` columns are crossed: their combinations are the groups. A log that
        is only to be scored needs no label: None.
    position, query, item, weight
        Optional columns; "auto" takes the column of that name if there is one, None goes without.
    swap
        For logs of randomly swapped neighbours: the upper position of the pair that a row was in,
        null for rows that were in none.
    first_position
        The number of the top slot. None takes the smallest one in the log, so that both 0 and 1 work.
    outcomes
        How many kinds of positive there are: labels are 0 (nothing happened) to `outcomes`, for
        instance 1 = like, 2 = comment, 3 = share. Position bias and equality of opportunity take
        all of them as positive; equalized odds holds for each.
    settle
        For feedback stores: seconds after which a list that was served is read, an item without
        feedback as label 0. None is an hour.

    Examples
    --------
    >>> import pyarrow as pa
    >>> table = pa.table({"s": [0.9, 0.2], "group": ["a", "b"], "clicked": [1, 0]})
    >>> Log(table, score="s", label="clicked").roles.label
    'clicked'
    """

    def __init__(
        self,
        source: object,
        *,
        score: str = "score",
        group: str | Sequence[str] = "group",
        label: str | None = "label",
        position: str | None = AUTO,
        query: str | None = AUTO,
        item: str | None = AUTO,
        weight: str | None = AUTO,
        swap: str | None = None,
        first_position: int | None = None,
        outcomes: int = 1,
        settle: float | None = None,
    ) -> None:
        self._source = opened(source, settle)
        self.first_position = first_position
        names = self._source.schema.names
        problems: list[str] = []
        absent: set[str] = set()

        def required(role: str, name: str) -> str:
            if name not in names:
                if name not in absent:
                    problems.append(_missing(role, name, names))
                absent.add(name)
            elif names.count(name) > 1:
                problems.append(f"{names.count(name)} columns are named {name!r}, the one for {role}")
            return name

        def optional(role: str, name: str | None) -> str | None:
            if name == AUTO:
                return role if role in names else None
            return name if name is None else required(role, name)

        if not 1 <= outcomes <= MAX_OUTCOMES:
            raise SettingsError(f"outcomes must lie in 1..{MAX_OUTCOMES}, got {outcomes}")
        if first_position is not None and first_position < 0:
            raise SettingsError(f"first_position must be at least 0, got {first_position}")
        groups = (group,) if isinstance(group, str) else tuple(group)
        if isinstance(self._source, Feedback):  # a store knows what it holds
            groups = self._source.group_columns if groups == ("group",) else groups
            outcomes = max(outcomes, self._source.outcomes)
        if not groups:
            raise SettingsError("group is an empty list; expected one or more column names")
        self.roles = Roles(
            score=required("score", score),
            group=tuple(required("group", name) for name in groups),
            label="" if label is None else required("label", label),
            position=optional("position", position),
            query=optional("query", query),
            item=optional("item", item),
            weight=optional("weight", weight),
            swap=optional("swap", swap),
            outcomes=outcomes,
        )
        problems += _wrong_types(self.roles, self._source.schema)
        if self.roles.swap is not None and self.roles.position is None:
            problems.append("column roles: swap needs a position column")
        if problems:
            raise LogError(problems, hint=f"columns: {', '.join(names)}")

    @property
    def schema(self) -> pa.Schema:
        """The Arrow schema of the rows."""
        return self._source.schema

    @property
    def spark_frame(self) -> SparkFrame | None:
        """The Spark DataFrame that holds the rows, if one does."""
        return self._source if isinstance(self._source, SparkFrame) else None

    @property
    def rows(self) -> int | None:
        """How many rows there are, where that is known without reading them."""
        return self._source.rows

    @property
    def names(self) -> tuple[str, ...]:
        """Where the rows come from, for provenance."""
        return self._source.names

    @property
    def folded(self) -> bytes | None:
        """The tally file of what a feedback store has counted and deleted; None for other logs."""
        return self._source.folded if isinstance(self._source, Feedback) else None

    def batches(self, columns: Sequence[str] | None = None) -> Iterator[pa.RecordBatch]:
        """Read the rows in order; text in `columns` may arrive dictionary-encoded."""
        return self._source.batches(list(columns) if columns is not None else None)

    def score_sample(self) -> Floats:
        """Return scores from all over the log, the same ones every time; missing values left out."""
        source, known = self._source, self.roles
        if isinstance(source, SparkFrame):  # its rows have no numbers to draw them by
            told_apart = known.query is not None or known.item is not None
            content = [known.query, known.item, known.position, *known.group, known.label, known.weight]
            scores = source.sample(known.score, [name for name in content if name] if told_apart else [])
        else:
            scores = source.sample(known.score)
        return scores[np.isfinite(scores)]


def opened(source: object, settle: float | None = None) -> Source | SparkFrame:
    """Open whatever a log can be read from."""
    if isinstance(source, SparkFrame):
        return source
    # A Spark DataFrame exports an Arrow stream too: all of it, to this one machine.
    return SparkFrame(source) if is_spark_frame(source) else open_source(source, settle=settle)


def _missing(role: str, name: str, names: Sequence[str]) -> str:
    close = nearest(name, names)
    return f"no column {name!r} for {role}" + (f", did you mean {close!r}?" if close else "")


def _wrong_types(roles: Roles, schema: pa.Schema) -> list[str]:
    from pyarrow import types

    def kind(name: str) -> pa.DataType:
        found = schema.field(name).type
        return found.value_type if types.is_dictionary(found) else found

    def numeric(found: pa.DataType) -> bool:
        return cast("bool", types.is_integer(found) or types.is_floating(found))

    def named(found: pa.DataType) -> bool:
        text = types.is_string(found) or types.is_large_string(found) or types.is_string_view(found)
        return bool(text or types.is_integer(found) or types.is_boolean(found))

    wanted = {
        "score": (numeric, "numbers"),
        "label": (lambda found: numeric(found) or types.is_boolean(found), "0 and 1, or booleans"),
        "position": (numeric, "whole numbers"),
        "weight": (numeric, "numbers"),
        "swap": (numeric, "whole numbers"),
        "query": (named, "text or whole numbers"),
    }
    columns = [(role, getattr(roles, role), *check) for role, check in wanted.items()]
    columns += [("group", name, named, "text, whole numbers or booleans") for name in roles.group]
    return [
        f"column {name!r} ({role}) has type {kind(name)}; expected {expected}"
        for role, name, fits, expected in columns
        if schema.names.count(name) == 1 and not fits(kind(name))
    ]
