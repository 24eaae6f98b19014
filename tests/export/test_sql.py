"""SQL scripts give the fair scores of `transform`, to the bit, in DuckDB."""

import datetime as dt
import re
from contextlib import closing

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings, strategies as st

import evenodds as eo
from evenodds.apply import apply_to_log
from evenodds.export import to_sql
from evenodds.export.dialect import DUCKDB
from evenodds.export.keyed_sql import LONGEST, add_draw, powers
from evenodds.export.query import Query
from evenodds.export.sql import sql_text
from evenodds.keys import key_words, uniforms
from fitted_models import Items, fitted
from other_stacks import ask, database

KEYS = {
    "text": ("text", lambda items: items.keys),
    "whole": ("whole", lambda items: items.numbers),
    "both": ("text, whole", lambda items: (items.keys, items.numbers)),
    "three": ("whole, text, whole", lambda items: (items.numbers, items.keys, items.numbers)),
}


@pytest.mark.parametrize("kind", KEYS)
@pytest.mark.parametrize("name", ["opportunity, ties", "odds, movement"])
def test_keys_of_every_kind(name, kind):
    """Text, whole numbers, and two or three columns of them draw the same as in Python."""
    model = fitted(name)
    items = Items(model, seed=2)
    columns, keys = KEYS[kind]
    with closing(database(model, items)) as con:
        np.testing.assert_array_equal(ask(con, model, columns), items.fair(model, keys(items)))


texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)
wholes = st.integers(-(2**63), 2**63 - 1)


@pytest.fixture(scope="module")
def hashing():
    """Draw from keys in a database."""
    con = duckdb.connect(config={"threads": 1})
    con.execute(f"CREATE TABLE powers AS {powers(DUCKDB)}")

    def drawn(keys, salt):
        """Return the draws of columns of keys."""
        names = [f"k{place}" for place in range(len(keys))]
        con.register("given", pa.table({"row": range(len(keys[0])), **dict(zip(names, keys, strict=True))}))
        query = Query({"row": "row"} | {name: name for name in names}, "given")
        add_draw(query, DUCKDB, names, "powers", salt)
        return [draw for (draw,) in con.execute(f"SELECT _draw FROM ({query.text}) ORDER BY row").fetchall()]

    yield drawn
    con.close()


@settings(max_examples=25)
@given(st.lists(st.tuples(texts, wholes), min_size=1, max_size=6), st.integers(0, 2**64 - 1))
def test_any_key_draws_as_in_python(hashing, keys, salt):
    """Any text, of any script and with any control character, any whole number, and both together."""
    names, numbers = [name for name, _ in keys], [number for _, number in keys]
    for columns in ((names,), (np.array(numbers),), (names, np.array(numbers)), (np.array(numbers), names)):
        given_columns = columns[0] if len(columns) == 1 else columns
        assert (
            hashing([pa.array(column) for column in columns], salt)
            == uniforms(key_words(given_columns), salt).tolist()
        )


def test_keys_of_other_types(hashing):
    """Narrow whole numbers, booleans, unsigned numbers, dates, and long texts draw as in Python; others are refused."""
    long = ["x" * LONGEST, "é" * (LONGEST // 2), "", "\r\n"]
    assert hashing([pa.array(long)], 7) == uniforms(key_words(long), 7).tolist()
    for kind in (pa.int8(), pa.int16(), pa.int32(), pa.uint8(), pa.uint16(), pa.uint32()):
        values = pa.array([0, 1, 100], kind)
        assert hashing([values], 7) == uniforms(key_words(np.array([0, 1, 100])), 7).tolist()
    large = np.array([0, 1, 2**63, 2**64 - 1], dtype=np.uint64)
    assert hashing([pa.array(large)], 7) == uniforms(key_words(large), 7).tolist()
    assert hashing([pa.array([True, False])], 7) == uniforms(key_words(np.array([True, False])), 7).tolist()
    days = [dt.date(2026, 11, 19), dt.date(1, 1, 1)]
    assert hashing([pa.array(days)], 7) == uniforms(key_words(days), 7).tolist()
    with pytest.raises(duckdb.Error, match="longer than 512 bytes"):
        hashing([pa.array(["x" * (LONGEST + 1)])], 7)
    with pytest.raises(duckdb.Error, match="type DOUBLE cannot repeat a draw"):
        hashing([pa.array([1.5])], 7)


def test_a_row_without_a_fair_score_has_null():
    """A score that is NULL, NaN or infinite, or a key that is NULL, gives NULL and touches no other row."""
    model = fitted("odds, movement")
    items = Items(model)
    want = items.fair(model)
    with closing(database(model, items)) as con:
        con.execute("UPDATE items SET score = NULL WHERE row = 0")
        con.execute("UPDATE items SET score = 'nan' WHERE row = 1")
        con.execute("UPDATE items SET score = 'infinity' WHERE row = 2")
        con.execute("UPDATE items SET score = '-infinity' WHERE row = 3")
        con.execute("UPDATE items SET text = NULL WHERE row = 4")
        found = ask(con, model)
    assert np.isnan(found[:5]).all()
    np.testing.assert_array_equal(found[5:], want[5:])


@pytest.mark.parametrize("name", ["opportunity, error", "odds, error"])
def test_unknown_groups_stop_the_query_where_the_model_says_so(name):
    """Under unknown="error" a null or unseen group is an error that names it."""
    model = fitted(name)
    items = Items(model)
    with closing(database(model, items)) as con:
        con.execute("UPDATE items SET g0 = 'nobody' WHERE row = 7")
        with pytest.raises(duckdb.Error, match="unknown group nobody"):
            ask(con, model)
        con.execute("UPDATE items SET g0 = NULL WHERE row = 7")
        with pytest.raises(duckdb.Error, match="unknown group NULL"):
            ask(con, model)


def test_groups_print_alike():
    """Whole numbers are the same group as whole numbers, as text, and as the floats that a null made of them."""
    model = fitted("opportunity, many groups")
    items = Items(model)
    want = items.fair(model)
    with closing(database(model, items)) as con:
        for kind in ("INTEGER", "VARCHAR", "DOUBLE", "TINYINT"):
            con.execute(f"ALTER TABLE items ALTER g0 TYPE {kind} USING TRY_CAST(g0 AS {kind})")
            np.testing.assert_array_equal(ask(con, model), want)


def test_truth_values_come_as_numbers_too():
    """Where a group column was boolean, 1 and 0 are true and false, in any type, as they are in Python."""
    model = fitted("opportunity, awkward")
    items = Items(model)
    want = items.fair(model)
    with closing(database(model, items)) as con:
        for kind, value in (
            ("BOOLEAN", "g1 = 'true'"),
            ("INTEGER", "g1"),
            ("DOUBLE", "g1"),
            ("VARCHAR", "g1::INT"),
        ):
            con.execute(
                f"ALTER TABLE items ALTER g1 TYPE {kind} USING "
                f"CASE WHEN g1 IS NOT NULL AND g1::VARCHAR <> 'never seen' THEN CAST({value} AS {kind}) END"
            )
            np.testing.assert_array_equal(ask(con, model), want)


def test_names_do_not_get_in_the_way():
    """Columns of the log named like those of the script, and a macro's name that needs quotes, change nothing."""
    model = fitted("odds, kept order")
    items = Items(model)
    with closing(database(model, items, name='fair "score"; DROP')) as con:
        for column in ("code", "cell", "low", "value", "step", "_s", "_code", "_draw", "bucket", "size", "v"):
            con.execute(f'ALTER TABLE items ADD COLUMN "{column}" DOUBLE DEFAULT 0.123')
        con.execute("ALTER TABLE items RENAME score TO value_")
        con.execute("UPDATE items SET value = value_, _s = value_")
        for score in ("value", "_s"):
            found = ask(con, model, name='"fair ""score""; DROP"', score=score)
            np.testing.assert_array_equal(found, items.fair(model))


def test_two_models_stand_side_by_side():
    """Scripts of two models under two names work in one database, and running one again changes nothing."""
    one, other = fitted("opportunity, plain"), fitted("odds, movement")
    items = Items(one)
    with closing(database(one, items, name="one")) as con:
        con.execute(sql_text(other, name="other"))
        con.execute(sql_text(one, name="one"))
        np.testing.assert_array_equal(ask(con, one, name="one"), items.fair(one))
        np.testing.assert_array_equal(ask(con, other, name="other"), items.fair(other))


def test_the_macro_works_anywhere_in_a_query():
    """Fair scores rank, filter and aggregate like any other expression."""
    model = fitted("opportunity, plain")
    items = Items(model)
    fair = items.fair(model)
    with closing(database(model, items)) as con:
        ranked = con.execute(
            "SELECT row FROM items WHERE fair_score(score, g0) > 0.5 ORDER BY fair_score(score, g0) DESC, row"
        ).fetchnumpy()["row"]
        assert con.execute("SELECT max(fair_score(score, g0)) FROM items").fetchall() == [(fair.max(),)]
        assert con.execute("SELECT fair_score(0.5, 'a')").fetchall() == [(model.transform([0.5], ["a"])[0],)]
    rows = np.flatnonzero(fair > 0.5)
    assert ranked.tolist() == rows[np.argsort(-fair[rows], kind="stable")].tolist()


@pytest.mark.parametrize("name", ["opportunity, ties", "odds, movement"])
def test_the_macro_gives_what_apply_writes(name, tmp_path):
    """On a log with queries and items the macro gives the fair scores that apply adds, bit for bit."""
    model = fitted(name)
    items = Items(model)
    log = pa.table(
        {
            "query": [f"q{row // 10}" for row in range(2_000)],
            "item": np.arange(2_000),
            "score": items.scores,
            "group": items.groups,
        }
    )
    pq.write_table(log, tmp_path / "log.parquet")
    roles = eo.Log(tmp_path / "log.parquet", label=None)
    apply_to_log(model, roles, tmp_path / "fair.parquet")
    with closing(duckdb.connect()) as con:
        con.execute(sql_text(model))
        wrong = con.execute(
            f"SELECT count(*) FROM '{tmp_path / 'fair.parquet'}' "
            'WHERE fair_score IS DISTINCT FROM fair_score(score, "group", query, item)'
        ).fetchall()
    assert wrong == [(0,)]


def test_texts_are_quoted_beyond_doubt():
    """Nothing of a group's name but plain letters gets into a script, and statements end where they seem to."""
    for dialect in ("duckdb", "spark"):
        script = sql_text(fitted("odds, awkward"), dialect=dialect, keys=["item"])
        assert "script>" not in script
        assert "O'Hara" not in script
        statements = [part for part in script.split(";\n") if part]
        body = [re.sub(r"^(--[^\n]*\n)+", "", part) for part in statements]
        assert all(part.startswith(("CREATE OR REPLACE ", "CACHE TABLE ")) for part in body)
        assert ";" not in "".join(body)


def test_the_script_is_a_file_like_any_other(tmp_path):
    """An existing file stays unless told otherwise; the same model gives the same bytes; the model is named."""
    model, path = fitted("odds, movement"), tmp_path / "fair.sql"
    to_sql(model, path)
    first = path.read_text()
    with pytest.raises(eo.OutputError, match="exists already"):
        to_sql(model, path)
    to_sql(model, path, overwrite=True)
    assert path.read_text() == first
    assert model.to_dict()["salt"] not in first.split("\n")[0]
    assert re.search(r"^-- .*sha256:[0-9a-f]{64}", first)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"dialect": "duckbd"}, "no SQL dialect 'duckbd' .hint: did you mean duckdb?"),
        ({"dialect": "oracle"}, "dialects: duckdb, spark"),
        ({"dialect": "spark"}, "a key is needed"),
        (
            {"dialect": "spark", "keys": ["k"], "group": ["a", "b"]},
            "2 group columns for a model with groups by group",
        ),
    ],
    ids=str,
)
def test_bad_settings_are_said_in_one_line(settings, said):
    """An unknown dialect, a missing key, and the wrong number of columns."""
    with pytest.raises(eo.SettingsError, match=said):
        sql_text(fitted("odds, movement"), **settings)
