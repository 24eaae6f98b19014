"""How DuckDB and Spark say the same thing."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from evenodds.errors import SettingsError, nearest

Name = Literal["duckdb", "spark"]
_PLAIN = re.compile(r"[A-Za-z0-9 _.,:+/()-]*")


def number(value: float) -> str:
    """Write a float so that it is read back to the bit, and as a double, not as a decimal."""
    text = repr(float(value))
    return text if "e" in text else f"{text}E0"


@dataclass(frozen=True)
class Dialect:
    """What differs between the two; everything else is one text."""

    name: Name

    @property
    def duckdb(self) -> bool:
        """Whether this is DuckDB."""
        return self.name == "duckdb"

    @property
    def text_type(self) -> str:
        """The type of text."""
        return "VARCHAR" if self.duckdb else "STRING"

    def quoted(self, name: str) -> str:
        """Quote the name of a table or a column."""
        mark = '"' if self.duckdb else "`"
        return mark + name.replace(mark, mark * 2) + mark

    def texts(self, columns: list[str], rows: Iterable[tuple[int, tuple[str, ...]]]) -> str:
        """Select rows of a `code` and texts.

        Unless all are plain they go as the hexadecimal digits of their UTF-8 bytes: no setting of a parser can
        misread those, and neither quotes nor semicolons get into a script.
        """
        given = list(rows)
        plain = all(_PLAIN.fullmatch(text) for _, row in given for text in row)
        listed = ",\n  ".join(
            f"({code}, {', '.join(_quoted_text(text if plain else text.encode().hex().upper()) for text in row)})"
            for code, row in given
        )
        charset = "" if self.duckdb else ", 'UTF-8'"
        read = columns if plain else [f"decode(unhex({name}){charset}) AS {name}" for name in columns]
        return (
            f"SELECT code, {', '.join(read)} FROM (VALUES\n  {listed}\n) AS given(code, {', '.join(columns)})"
        )

    def listed(self, values: Iterable[float]) -> str:
        """Write an array of numbers."""
        text = json.dumps(list(values), separators=(",", ":"))
        return f"CAST('{text}' AS DOUBLE[])" if self.duckdb else f"from_json('{text}', 'array<double>')"

    def numbered(self, values: Iterable[float], name: str, *, place: str = "place") -> str:
        """Select numbers, and their places from 0 on."""
        listed = self.listed(values)
        if self.duckdb:
            return (
                f"SELECT unnest(range(len(listed))) AS {place}, unnest(listed) AS {name} "
                f"FROM (SELECT {listed} AS listed) AS given"
            )
        return f"SELECT posexplode({listed}) AS ({place}, {name})"

    def each(self, first: str, last: str) -> str:
        """One row for each whole number from first to last."""
        return f"unnest(range({first}, {last} + 1))" if self.duckdb else f"explode(sequence({first}, {last}))"

    def shifted(self, value: str, bits: int) -> str:
        """Shift right."""
        return f"({value} >> {bits})" if self.duckdb else f"shiftright({value}, {bits})"

    def whole_part(self, value: str, divisor: int) -> str:
        """Divide whole numbers, without a remainder."""
        return f"({value} // {divisor})" if self.duckdb else f"({value} div {divisor})"

    def xor(self, one: str, other: str) -> str:
        """Exclusive or."""
        return f"xor({one}, {other})" if self.duckdb else f"({one} ^ {other})"

    def error(self, said: str) -> str:
        """Stop the query."""
        return f"error({said})" if self.duckdb else f"raise_error({said})"

    def tried(self, value: str, kind: str) -> str:
        """Cast a column whose type may not allow it."""
        return f"TRY_CAST({value} AS {kind})"

    def group_text(self, value: str) -> str:
        """Print a group as a model does: whole numbers that a null turned into floats as whole numbers."""
        floating, whole = self.tried(value, "DOUBLE"), self.tried(value, "BIGINT")
        return (
            f"CASE WHEN lower(typeof({value})) IN ('double', 'float') "
            f"THEN CASE WHEN {floating} = floor({floating}) THEN CAST({whole} AS {self.text_type}) END "
            f"ELSE CAST({value} AS {self.text_type}) END"
        )

    def is_whole(self, key: str) -> str:
        """Whether a key is a whole number."""
        if self.duckdb:
            kinds = (
                "'TINYINT', 'SMALLINT', 'INTEGER', 'BIGINT', "
                "'UTINYINT', 'USMALLINT', 'UINTEGER', 'UBIGINT', 'BOOLEAN'"
            )
        else:
            kinds = "'tinyint', 'smallint', 'int', 'bigint', 'boolean'"
        return f"typeof({key}) IN ({kinds})"

    def whole(self, key: str) -> str:
        """Take a key as a whole number of 64 bits; an unsigned one by its two's complement."""
        plain = self.tried(key, "BIGINT")
        if not self.duckdb:
            return plain
        wide = self.tried(key, "HUGEINT")
        wrapped = f"CAST({wide} - {1 << 64} AS BIGINT)"
        return f"CASE WHEN typeof({key}) = 'UBIGINT' AND {wide} >= {1 << 63} THEN {wrapped} ELSE {plain} END"

    def is_text(self, key: str) -> str:
        """Whether a key is text, or of a type that prints alike everywhere."""
        kind = f"typeof({key})"
        if self.duckdb:
            return f"({kind} IN ('VARCHAR', 'UUID', 'DATE') OR {kind} LIKE 'ENUM%')"
        return f"({kind} IN ('string', 'date') OR {kind} LIKE '%char(%')"

    def is_ascii(self, text: str) -> str:
        """Whether a text has one byte a letter."""
        return f"{self.size(text)} = length({text})"

    def size(self, text: str) -> str:
        """How many bytes a text has."""
        return f"strlen({text})" if self.duckdb else f"octet_length({text})"

    def letters(self, text: str) -> str:
        """Take a text apart into the numbers of its bytes: whole if all are ASCII, else as two halves each."""
        halves = f"translate(hex({text}), '0123456789ABCDEF', 'ABCDEFGHIJKLMNOP')"
        if self.duckdb:
            whole = f"list_transform(string_split({text}, ''), lambda c: CAST(ascii(c) AS DOUBLE))"
            half = f"list_transform(string_split({halves}, ''), lambda c: CAST(ascii(c) - 65 AS DOUBLE))"
        else:
            whole = f"transform(split({text}, ''), c -> ascii(c))"
            half = f"transform(split({halves}, ''), c -> ascii(c) - 65)"
        return f"CASE WHEN {self.is_ascii(text)} THEN {whole} ELSE {half} END"

    def cut(self, values: str, size: str) -> str:
        """Take the first entries of an array."""
        return f"{values}[1:{size}]" if self.duckdb else f"slice({values}, 1, {size})"

    def weighed(self, letters: str, weights: str) -> str:
        """Sum up letters times weights: a whole number below 2^53."""
        if self.duckdb:
            return f"CAST(list_dot_product({letters}, {weights}) AS BIGINT)"
        return (
            f"CAST(aggregate(zip_with({letters}, {weights}, (c, m) -> c * m), "
            "0E0, (total, part) -> total + part) AS BIGINT)"
        )


def _quoted_text(text: str) -> str:
    return f"'{text}'"


DUCKDB, SPARK = Dialect("duckdb"), Dialect("spark")


def dialect_of(name: str) -> Dialect:
    """Return a dialect by its name."""
    known = {"duckdb": DUCKDB, "spark": SPARK}
    if name not in known:
        close = nearest(name, known)
        raise SettingsError(
            f"no SQL dialect {name!r}", hint=f"did you mean {close}?" if close else "dialects: duckdb, spark"
        )
    return known[name]
