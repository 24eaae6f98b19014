"""A fitted model as an SQL script, for DuckDB or for Spark: tables, and a macro or a view that looks up in them.

The script does what :meth:`evenodds.Reranker.transform` does, in double precision and in the same order, keyed
draws included, so that results agree to the last bit. Where Python searches, SQL joins on the number of a
bucket (see :mod:`evenodds.export.search`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import numpy as np
import numpy.typing as npt

from evenodds.errors import SettingsError
from evenodds.export.dialect import Dialect, dialect_of, number
from evenodds.export.flat import Curves, Flat, Kept, Pieces, flat
from evenodds.export.keyed_sql import add_draw
from evenodds.export.query import Query
from evenodds.export.search import Buckets, StepGuess
from evenodds.export.sql_tables import Tables, bucket_of
from evenodds.files import PathLike, written_aside
from evenodds.reranker import Reranker

Floats = npt.NDArray[np.float64]
Join = dict[str, tuple[str, str]]

_MOST_KEYS = 3  # key columns that a DuckDB macro takes
_IN_CELL = "c.bucket = _bucket AND _s >= low AND _s < high"
_ON_CUT = "start <= _place AND _place < stop"
_LARGEST = number(float(np.finfo(np.float64).max))


def to_sql(
    model: Reranker,
    path: PathLike,
    *,
    dialect: str = "duckdb",
    name: str = "fair_score",
    table: str = "log",
    score: str | None = None,
    group: Sequence[str] | None = None,
    keys: Sequence[str] | None = None,
    overwrite: bool = False,
) -> None:
    """Write a model as an SQL script.

    Parameters
    ----------
    dialect
        "duckdb": the macro ``fair_score(score, group, key)``, with as many groups as the model has columns,
        and one to three keys if it draws. "spark": a view with the rows of `table` and the column
        ``fair_score``.
    name
        Of the macro, or of the view's new column; the names of the tables begin with it.
    table, score, group, keys
        For "spark": the table to be scored, and its columns; by default those that the model was fitted on.
    """
    text = sql_text(model, dialect=dialect, name=name, table=table, score=score, group=group, keys=keys)
    with written_aside(path, overwrite=overwrite) as aside:
        aside.write_text(text, encoding="utf-8")


def sql_text(
    model: Reranker,
    *,
    dialect: str = "duckdb",
    name: str = "fair_score",
    table: str = "log",
    score: str | None = None,
    group: Sequence[str] | None = None,
    keys: Sequence[str] | None = None,
) -> str:
    """Return the script; see :func:`to_sql`."""
    known, spoken = flat(model), dialect_of(dialect)
    lookup = _Lookup(known, spoken, name)
    last = lookup.macro() if spoken.duckdb else lookup.view(table, score, list(group or ()), list(keys or ()))
    head = [
        f"-- Fair scores ({known.criterion}), from the model {known.checksum}.",
        f"-- For {'DuckDB' if spoken.duckdb else 'Spark SQL'}; statements end with a semicolon at the end of a line.",
    ]
    return "\n".join(head) + "\n" + "".join(f"{made};\n" for made in [*lookup.tables.statements, last])


def view_name(table: str, name: str) -> str:
    """Return the name of the view that a Spark script makes."""
    return f"{table}_{name}"


class _Lookup:
    """Makes the tables, and the query that looks up in them."""

    def __init__(self, known: Flat, dialect: Dialect, name: str) -> None:
        self.known, self.dialect, self.name = known, dialect, name
        self.tables = Tables(dialect, name)
        self.tables.groups(known)
        if known.draws:
            self.tables.powers()
        if known.back is not None:
            self.tables.back(known.back)
        if known.curves is not None:
            self._buckets = self._curve_tables("cells", "curves", known.curves)
        else:
            self._kernel_tables()

    def _curve_tables(self, cells: str, table: str, curves: Curves) -> Buckets:
        buckets = Buckets.over(curves.edges)
        self.tables.cells(cells, curves.edges, buckets)
        self.tables.curves(table, curves)
        return buckets

    def _kernel_tables(self) -> None:
        known = self.known
        inner, pieces = cast("Floats", known.inner), cast("Pieces", known.pieces)
        self._inner = Buckets.over(inner)
        if inner.size:
            self.tables.cells("bins", inner, self._inner)
        guess = StepGuess.of(pieces)
        self.tables.pieces(pieces, guess, known.kept)
        if known.kept is None:
            self.tables.cuts(guess, whole=known.back is None)
        else:
            self._buckets = self._curve_tables("cells", "curves", known.kept.curves)
            self.tables.standing(known.kept)

    # What looks up

    def macro(self) -> str:
        """Make a DuckDB macro; one form for each number of key columns."""
        groups = [f"group_{place + 1}" for place in range(len(self.known.group_columns))]
        forms = []
        for count in range(1, _MOST_KEYS + 1) if self.known.draws else (0,):
            keys = [f"key_{place + 1}" for place in range(count)]
            query = self._query("score", groups, keys)
            forms.append(f"({', '.join(['score', *groups, *keys])}) AS (\n{query.text}\n)")
        return f"CREATE OR REPLACE MACRO {self.dialect.quoted(self.name)}\n" + ",\n".join(forms)

    def view(self, table: str, score: str | None, groups: Sequence[str], keys: Sequence[str]) -> str:
        """Make a Spark view."""
        known, quoted = self.known, self.dialect.quoted
        groups = groups or known.group_columns
        if len(groups) != len(known.group_columns):
            raise SettingsError(
                f"{len(groups)} group columns for a model with groups by {' × '.join(known.group_columns)}"
            )
        usual = [known.roles.get("query"), known.roles.get("item")]
        keys = keys or ([] if None in usual else cast("list[str]", usual))
        if known.draws and not keys:
            raise SettingsError(
                "this model draws at random: a key is needed, so that an item keeps its score",
                hint="name the columns of the key, such as --key query --key item",
            )
        query = self._query(
            quoted(score or known.roles["score"]),
            [quoted(name) for name in groups],
            [quoted(name) for name in keys] if known.draws else [],
            {"_row": "struct(*)"},
            quoted(table),
        )
        text = f"SELECT _row.*, _fair AS {quoted(self.name)}\nFROM ({query.text}) AS q"
        return f"CREATE OR REPLACE TEMPORARY VIEW {quoted(view_name(table, self.name))} AS\n{text}"

    def _query(
        self,
        score: str,
        groups: Sequence[str],
        keys: Sequence[str],
        carried: dict[str, str] | None = None,
        source: str | None = None,
    ) -> Query:
        known = self.known
        printed = {f"_g{place}": self.dialect.group_text(group) for place, group in enumerate(groups)}
        given = {f"_k{place}": key for place, key in enumerate(keys)}
        query = Query(
            (carried or {}) | {"_s": f"CAST({score} AS DOUBLE)"} | printed | given,
            source,
            hints=not self.dialect.duckdb,
        )
        query.step({"_s": f"CASE WHEN abs(_s) <= {_LARGEST} THEN _s END"})  # of NaN and infinity, nothing
        self._add_code(query, list(printed))
        if known.draws:
            add_draw(query, self.dialect, list(given), self.tables.name("powers"), known.salt)
        if known.curves is not None:
            self._add_curve(query, known.curves, "_run", "_code")
        else:
            self._add_drawn(query)
        # Without kept order the way back is part of the cuts.
        if known.back is not None and (known.curves is not None or known.kept is not None):
            query.step({"_step": "CAST(greatest(floor(_run), 0E0) AS BIGINT)"})
            fair = "(_run - CAST(_step AS DOUBLE)) * rise + value"
            query.step({"_run": fair}, join={"b": (self.tables.name("back"), "b.step = _step")})
        fair = "_run"
        if known.alpha < 1.0:
            fair = f"{number(known.alpha)} * _run + {number(1.0 - known.alpha)} * _s"
        if known.unknown == "keep":
            fair = f"CASE WHEN _known THEN {fair} ELSE _s END"
        query.step({"_fair": fair}, drop=set(query.columns) - set(carried or {}))
        return query

    def _add_code(self, query: Query, printed: list[str]) -> None:
        """Look the group up; what is not there is one past the last."""
        unknown = str(len(self.known.groups))
        if self.known.unknown == "error":
            shown = ", ' × ', ".join(f"COALESCE({name}, 'NULL')" for name in printed)
            unknown = self.dialect.error(f"concat('unknown group ', {shown})")
        codes = {"_code": f"COALESCE(code, {unknown})"}
        if self.known.unknown == "keep":
            codes["_known"] = "code IS NOT NULL"
        same = " AND ".join(f"g{place} = {name}" for place, name in enumerate(printed))
        query.step(codes, join={"g": (self.tables.name("groups"), same)}, drop=printed)

    def _add_curve(self, query: Query, curves: Curves, name: str, code: str) -> None:
        """Evaluate each row's function."""
        query.step({"_bucket": bucket_of(self._buckets, "_s")})
        query.step(
            {"_cell": "cell"},
            join={"c": (self.tables.name("cells"), _IN_CELL)},
            drop=["_bucket"],
        )
        run = "(_s - start)"
        run = (
            f"{run} * slope"
            if curves.cubic is None
            else f"{run} * (linear + {run} * (square + {run} * cube))"
        )
        jump = (
            " + CASE WHEN jump > 0E0 THEN jump * _draw ELSE 0E0 END"
            if "_draw" in query.columns and curves.atom.any()
            else ""
        )
        query.step(
            {name: f"{run} + base{jump}"},
            join={"c": (self.tables.name("curves"), f"c.code = {code} AND c.cell = _cell")},
            drop=["_cell"],
        )

    def _add_drawn(self, query: Query) -> None:
        """Draw the target bin and the point within it."""
        known, name = self.known, self.tables.name
        bins = cast("Floats", known.inner).size + 1
        if bins > 1:
            query.step({"_bucket": bucket_of(self._inner, "_s")})
            query.step({"_bin": "cell"}, join={"c": (name("bins"), _IN_CELL)}, drop=["_bucket"])
        else:
            query.step({"_bin": "CASE WHEN _s IS NOT NULL THEN 0 END"})
        query.step({"_line": f"_bin + _code * {bins}"}, drop=[] if known.kept else ["_bin"])
        query.step({"_place": "_draw + CAST(_line AS DOUBLE)"}, drop=["_draw"])
        joined = {"p": (name("pieces"), "p.line = _line AND mark <= _place AND _place < stop")}
        if known.kept is not None:
            self._add_in_order(query, known.kept, joined)
            return
        guess = (
            "CAST(floor(least((_place - mark) * rate + phase, last)) AS BIGINT)"
            if known.back is not None
            else "CAST(CASE WHEN mark IS NOT NULL THEN 0 END AS BIGINT)"
        )
        query.step({"_piece": "piece", "_guess": guess}, join=joined, drop=["_line"])
        query.step(
            {"_run": "(_place - start) * rise + first"},
            join={"c": (name("cuts"), f"c.piece = _piece AND c.guess = _guess AND {_ON_CUT}")},
            drop=["_place", "_piece", "_guess"],
        )

    def _add_in_order(self, query: Query, kept: Kept, joined: Join) -> None:
        """Let items that stay in a harmless bin keep their place in it."""
        drawn = {"_drawn": "(_place - mark) * inverse", "_stays": "stays", "_low": "level", "_span": "span"}
        query.step(drawn, join=joined, drop=["_place", "_line"])
        last = len(self.known.groups) - 1
        query.step({"_group": f"least(_code, {last})"})  # the pooled rows keep nothing
        self._add_curve(query, kept.curves, "_level", "_group")
        stood = "least(greatest((_level - below) / width, 0E0), " + number(1.0 - 2.0**-36) + ")"
        stood = f"CASE WHEN width > 0E0 THEN {stood} ELSE 5E-1 END"
        query.step(
            {"_far": f"CASE WHEN _stays = 1E0 THEN {stood} ELSE _drawn END"},
            join={"b": (self.tables.name("standing"), "b.code = _group AND b.bin = _bin")},
            drop=["_group", "_level", "_drawn", "_stays", "_bin"],
        )
        query.step({"_run": "_low + _far * _span"}, drop=["_low", "_far", "_span"])
