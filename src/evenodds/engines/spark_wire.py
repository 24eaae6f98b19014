"""How a log's columns travel from Spark to Python: narrow, since the way there costs more than counting.

Writing a row to Arrow costs about as much a column whatever its width, and text three times that. So the
label, the position and the codes of common groups share one whole number, which Python takes apart again
into the columns that the counting function wants; a group that is not common travels as text beside it.
This is about transport only: nothing is checked or counted here. A row with a value that has no room
(a null, a label of 200) is a misfit: then all columns travel as they are, and the counting function says
what is wrong with it, if anything is.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from evenodds.log import Roles
from evenodds.spark_frame import SparkFrame, quoted

if TYPE_CHECKING:
    import pyarrow as pa

_PACKED = "packed"
_OTHER = 255  # the code of a group that is not common
_MOST_COMMON = 24  # comparing text with more of them costs more than sending it
_SHIFTS = {"position": 0, "label": 31}
_GROUP_SHIFT, _GROUP_BITS, _MOST_GROUPS = 38, 8, 3


class MisfitError(Exception):
    """A row has a value that the narrow form has no room for."""


@dataclass(frozen=True)
class Wire:
    """SQL expressions to select, and the way back from what arrives.

    Attributes
    ----------
    expressions
        What to select, in SQL.
    roles
        The log's roles; their columns are what comes out.
    packed
        Columns that share the whole number.
    common
        Common values of the group columns that are sent as codes.
    """

    expressions: tuple[str, ...]
    roles: Roles
    packed: tuple[str, ...] = ()
    common: tuple[tuple[str, tuple[Any, ...]], ...] = ()

    _SMALL: ClassVar[frozenset[str]] = frozenset({"bool", "int8", "int16", "int32", "int64"})

    @classmethod
    def plain(cls, roles: Roles) -> Wire:
        """Send the columns as they are."""
        return cls(tuple(map(quoted, roles.counted())), roles)

    @classmethod
    def narrow(cls, roles: Roles, schema: pa.Schema, common: dict[str, list[Any]]) -> Wire:
        """Pack what has a type that can be packed; groups as far as their common values are known."""
        once = len(set(roles.counted())) == len(roles.counted())
        shared = {roles.label: "label"} | ({roles.position: "position"} if roles.position else {})
        fits = [name for name in shared if str(schema.field(name).type) in cls._SMALL]
        if not once or len(fits) < len(shared):
            return cls.plain(roles)
        terms, tests = [], []
        for name, role in shared.items():
            column = quoted(name)
            number = f"cast({column} as int)" if str(schema.field(name).type) == "bool" else column
            most = (1 << (_SHIFTS["label"] if role == "position" else _GROUP_SHIFT - _SHIFTS["label"])) - 1
            tests.append(f"{number} between 0 and {most}")
            terms.append(f"shiftleft(cast({number} as bigint), {_SHIFTS[role]})")
        coded = [(name, tuple(common[name][:_MOST_COMMON])) for name in roles.group if common.get(name)]
        coded = coded[:_MOST_GROUPS]
        others = []
        for place, (name, values) in enumerate(coded):
            column, listed = quoted(name), [_literal(value) for value in values]
            cases = " ".join(f"when {value} then {code}" for code, value in enumerate(listed))
            shift = _GROUP_SHIFT + place * _GROUP_BITS
            tests.append(f"{column} is not null")
            terms.append(f"shiftleft(cast(case {column} {cases} else {_OTHER} end as bigint), {shift})")
            others.append(
                f"case when {column} in ({', '.join(listed)}) then null else {column} end as other{place}"
            )
        packed = f"case when {' and '.join(tests)} then {' | '.join(terms)} end as {_PACKED}"
        kept = [name for name in roles.counted() if name not in shared and name not in dict(coded)]
        return cls((packed, *others, *map(quoted, kept)), roles, tuple(shared), tuple(coded))

    def unpacked(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Return batches with the columns of the log."""
        return batches if not self.packed else map(self._one, batches)

    def _one(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        import pyarrow as pa

        if batch.column(_PACKED).null_count:
            raise MisfitError
        packed = batch.column(_PACKED).to_numpy()
        columns: dict[str, Any] = {
            name: batch.column(name) for name in batch.schema.names if name in self.roles.counted()
        }
        label = (packed >> _SHIFTS["label"]).astype(np.int8)
        label &= (1 << (_GROUP_SHIFT - _SHIFTS["label"])) - 1
        columns[self.roles.label] = pa.array(label)
        if self.roles.position is not None:
            position = packed.astype(np.int32)
            position &= (1 << _SHIFTS["label"]) - 1
            columns[self.roles.position] = pa.array(position)
        for place, (name, values) in enumerate(self.common):
            codes = (packed >> (_GROUP_SHIFT + place * _GROUP_BITS)).astype(np.uint8)
            columns[name] = _regrouped(codes, values, batch.column(f"other{place}"))
        return pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))


def wire_for(source: SparkFrame, roles: Roles) -> Wire:
    """Choose how the columns of a log travel."""
    return Wire.narrow(roles, source.schema, source.common_values(roles.group))


def _regrouped(codes: Any, values: tuple[Any, ...], other: pa.Array) -> pa.Array:
    """Give codes their values back, and the other groups beside them codes of their own."""
    import pyarrow as pa

    dictionary = pa.array(values, other.type)
    if other.null_count < len(other):
        encoded = other.dictionary_encode()
        own = encoded.indices.fill_null(0).to_numpy(zero_copy_only=False)
        codes = np.where(codes == _OTHER, own + len(values), codes).astype(np.int32)
        dictionary = pa.concat_arrays([dictionary, encoded.dictionary])
    if codes.dtype == np.uint8:
        codes = codes.astype(np.int8)  # there are fewer than 128
    return pa.DictionaryArray.from_arrays(pa.array(codes), dictionary)


def _literal(value: object) -> str:
    """Write a value in SQL."""
    if isinstance(value, str):
        return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"
    return str(value).lower()
