"""The tables of an SQL script: a model's numbers, and what follows from them, computed once."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from evenodds.export.dialect import Dialect, number
from evenodds.export.flat import Curves, Flat, Kept, Pieces
from evenodds.export.keyed_sql import powers
from evenodds.export.search import Buckets, StepGuess

Floats = npt.NDArray[np.float64]


class Tables:
    """Statements that make the tables, whose names begin with that of the macro or the column.

    Attributes
    ----------
    statements
        What makes them, in order.
    """

    def __init__(self, dialect: Dialect, name: str) -> None:
        self.statements: list[str] = []
        self._dialect, self._name = dialect, name

    def name(self, table: str) -> str:
        """Return the quoted name of a table."""
        return self._dialect.quoted(f"{self._name}_{table}")

    def _make(self, table: str, query: str) -> None:
        name = self.name(table)
        if self._dialect.duckdb:
            self.statements.append(f"CREATE OR REPLACE TABLE {name} AS\n{query}")
        else:  # a view would be computed anew in every query
            self.statements += [f"CREATE OR REPLACE TEMPORARY VIEW {name} AS\n{query}", f"CACHE TABLE {name}"]

    def groups(self, known: Flat) -> None:
        """Codes by name: code, g0, g1, ..."""
        columns = [f"g{place}" for place in range(len(known.group_columns))]
        self._make("groups", self._dialect.texts(columns, known.names()))

    def powers(self) -> None:
        """One row: what the bytes of a key are multiplied by."""
        self._make("powers", powers(self._dialect))

    def cells(self, table: str, ends: Floats, buckets: Buckets) -> None:
        """Cells by bucket: bucket, cell, low, high. Cell i holds the values from low to below high."""
        holds = bucket_of(buckets, "value")
        given = (
            f"SELECT place, value, {holds} AS holds FROM ({self._dialect.numbered(ends, 'value')}) AS given"
        )
        self._make(
            table,
            f"SELECT {self._dialect.each('begins', 'stops')} AS bucket, cell, low, high\nFROM (\n"
            "SELECT place AS cell, value AS high, holds AS stops, "
            "COALESCE(LAG(value) OVER (ORDER BY place), CAST('-Infinity' AS DOUBLE)) AS low, "
            "COALESCE(LAG(holds) OVER (ORDER BY place), 0) AS begins\n"
            f"FROM ({given}) AS held\n"
            f"UNION ALL SELECT {ends.size}, CAST('Infinity' AS DOUBLE), {buckets.first.size - 1}, "
            f"{number(ends[-1])}, {int(buckets.of(ends[-1:])[0])}\n) AS reached",
        )

    def curves(self, table: str, curves: Curves) -> None:
        """Functions by code and cell: start, base, jump, and slope or linear, square, cube.

        Cell 0 lies below all cells, the last one above.
        """
        height = number(curves.height)
        edges = self._dialect.numbered(curves.edges, "edge")
        heights = self._rows(curves.cdf, "cdf")
        atoms = ", ".join(map(str, np.flatnonzero(curves.atom)))
        atom = f"c.place IN ({atoms})" if atoms else "1 = 0"
        following = "OVER (PARTITION BY code ORDER BY c.place)"
        steps = (
            f"SELECT code, c.place AS place, edge, cdf, {atom} AS atom, "
            f"LEAD(cdf) {following} - cdf AS step, LEAD(edge) {following} - edge AS width\n"
            f"FROM (\n{heights}\n) AS c JOIN ({edges}) AS e ON c.place = e.place"
        )
        if curves.cubic is None:
            shape = f"CASE WHEN width > 0E0 AND NOT atom THEN step / width * {height} ELSE 0E0 END AS slope"
            joined, none = "", "0E0"
        else:
            names = ("linear", "square", "cube")
            parts = [
                f"(\n{self._rows(part, name)}\n) AS {name}"
                for part, name in zip(curves.cubic, names, strict=True)
            ]
            on = [f"ON s.code = {name}.code AND s.place = {name}.place" for name in names]
            joined = "".join(f"\nLEFT JOIN {part} {same}" for part, same in zip(parts, on, strict=True))
            shape = ", ".join(f"COALESCE({name}.{name}, 0E0) AS {name}" for name in names)
            none = "0E0, 0E0, 0E0"
        rows = curves.cdf.shape[0]
        self._make(
            table,
            f"SELECT s.code AS code, s.place + 1 AS cell, edge AS start, cdf * {height} AS base, "
            f"CASE WHEN atom THEN step * {height} ELSE 0E0 END AS jump, {shape}\n"
            f"FROM (\n{steps}\n) AS s{joined}\n"
            f"UNION ALL SELECT code, 0, {number(curves.edges[0])}, 0E0, 0E0, {none} "
            f"FROM (SELECT {self._dialect.each('0', str(rows - 1))} AS code) AS below",
        )

    def back(self, values: Floats) -> None:
        """Make the way back to the scale of the scores by step: step, value, rise."""
        self._make(
            "back",
            "SELECT place AS step, value, COALESCE(LEAD(value) OVER (ORDER BY place) - value, 0E0) AS rise\n"
            f"FROM ({self._dialect.numbered(values, 'value')}) AS given",
        )

    def pieces(self, pieces: Pieces, guess: StepGuess, kept: Kept | None) -> None:
        """Pieces of kernel by row: line, piece, mark, stop, and what leads to the cut or to the point."""
        line = np.searchsorted(pieces.begins, np.arange(pieces.marks.size), side="right") - 1
        columns: dict[str, npt.NDArray[np.generic]] = {"line": line, "mark": pieces.marks}
        if kept is None:
            columns |= {"rate": guess.rate, "phase": guess.phase, "last": guess.last}
        else:
            stays = kept.flags[line] & (pieces.target == line % (kept.below.shape[1] - 1))
            columns |= {"inverse": pieces.inverse, "stays": stays.astype(np.int64)}
        columns |= {"level": pieces.low, "span": pieces.span, "width": pieces.width}
        joined = " ".join(
            f"JOIN ({self._dialect.numbered(values.tolist(), name)}) AS {name} ON line.place = {name}.place"
            for name, values in columns.items()
            if name != "line"
        )
        listed = ", ".join(f"{name}.{name} AS {name}" for name in columns if name != "line")
        lines = self._dialect.numbered(line.tolist(), "line")
        self._make(
            "pieces",
            f"SELECT CAST(line.line AS BIGINT) AS line, line.place AS piece, {listed}, "
            f"COALESCE(LEAD(mark.mark) OVER (ORDER BY line.place), CAST('Infinity' AS DOUBLE)) AS stop\n"
            f"FROM ({lines}) AS line {joined}",
        )

    def cuts(self, guess: StepGuess, *, whole: bool) -> None:
        """Pieces cut at the steps of the way back: piece, guess, start, stop, first, rise.

        A cut stands there once for every guess that may mean it.
        """
        pieces, back = self.name("pieces"), self.name("back")
        if whole:  # no way back: a piece is one cut
            rise = "CASE WHEN width > 0E0 THEN (level + span - level) / width ELSE 0E0 END"
            self._make(
                "cuts",
                "SELECT piece, CAST(0 AS BIGINT) AS guess, mark AS start, stop, "
                f"level AS first, {rise} AS rise\nFROM {pieces}",
            )
            return
        steps = (
            "SELECT piece, mark, level, level + span AS upper, width, "
            f"CAST(floor(level) AS BIGINT) AS begin, {self._dialect.each('0', 'CAST(last AS BIGINT)')} AS step\n"
            f"FROM {pieces}"
        )
        levels = (
            "SELECT *, greatest(CAST(begin + step AS DOUBLE), level) AS from_level, "
            "least(CAST(begin + step AS DOUBLE) + 1E0, upper) AS to_level, upper - level AS wide\n"
            f"FROM (\n{steps}\n) AS s"
        )
        shares = (
            "SELECT *, CASE WHEN wide > 0E0 THEN (from_level - level) / wide ELSE 0E0 END AS share, "
            f"CASE WHEN wide > 0E0 THEN (to_level - from_level) / wide ELSE 1E0 END AS part FROM (\n{levels}\n) AS l"
        )
        ends = (
            "SELECT piece, h.step AS step, mark + width * share AS start, width * part AS long, "
            "(from_level - floor(from_level)) * f.rise + f.value AS first, "
            "(to_level - floor(to_level)) * t.rise + t.value AS last\n"
            f"FROM (\n{shares}\n) AS h JOIN {back} AS f ON f.step = CAST(floor(from_level) AS BIGINT) "
            f"JOIN {back} AS t ON t.step = CAST(floor(to_level) AS BIGINT)"
        )
        cuts = (
            "SELECT piece, step, start, first, CASE WHEN long > 0E0 THEN (last - first) / long ELSE 0E0 END AS rise, "
            "COALESCE(LEAD(start) OVER (ORDER BY piece, step), CAST('Infinity' AS DOUBLE)) AS stop\n"
            f"FROM (\n{ends}\n) AS e"
        )
        self._make(
            "cuts",
            f"SELECT piece, {self._dialect.each(f'step - {guess.late}', f'step + {guess.early}')} AS guess, "
            f"start, stop, first, rise\nFROM (\n{cuts}\n) AS c",
        )

    def standing(self, kept: Kept) -> None:
        """Tell what share of a group's scores lies below each bin: code, bin, below, width."""
        rows = self._rows(kept.below, "below")
        self._make(
            "standing",
            "SELECT code, place AS bin, below, LEAD(below) OVER (PARTITION BY code ORDER BY place) - below AS width\n"
            f"FROM (\n{rows}\n) AS given",
        )

    def _rows(self, table: Floats, name: str) -> str:
        """Select the rows of a matrix below each other: code, place and the number."""
        width = table.shape[1]
        code = self._dialect.whole_part("entry", width)
        numbered = self._dialect.numbered(table.ravel().tolist(), name, place="entry")
        return f"SELECT {code} AS code, entry % {width} AS place, {name} FROM ({numbered}) AS given"


def bucket_of(buckets: Buckets, value: str) -> str:
    """Return the bucket of a value, as `Buckets.of` does."""
    low, high, scale = map(number, (buckets.low, buckets.high, buckets.scale))
    return f"CAST(floor((least(greatest({value}, {low}), {high}) - {low}) * {scale}) AS BIGINT)"
