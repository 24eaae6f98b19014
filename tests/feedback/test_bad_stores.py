"""Stores that cannot be used: one line each, and nothing is written."""

import sqlite3
import sys
import time

import pytest

import evenodds as eo
from evenodds.cli import main
from evenodds.feedback import Event, ServedList, Store
from evenodds.feedback.postgres import Postgres, named
from evenodds.feedback.rows import Rows
from evenodds.feedback.sqlite import SQLite


@pytest.fixture
def made(tmp_path, monkeypatch):
    """Return a store's file with one list in it."""
    monkeypatch.delenv("EVENODDS_FEEDBACK_SECRET", raising=False)
    path = tmp_path / "feedback.db"
    fill(path)
    return path


def fill(path, lists=1, **settings):
    """Write some lists, and close the store."""
    store = Store(path, **settings)
    for number in range(lists):
        store.record(
            [ServedList(f"k{number}", ["x", "y"], [0.5, 0.4], [("a",), ("b",)])],
            [Event(f"k{number}", "x", 1)],
        )
    store.close()


def refused(path, message, **settings):
    """Expect that opening for writing says so in one line."""
    with pytest.raises(eo.EvenoddsError, match=message) as error:
        Store(path, **settings)
    assert "\n" not in str(error.value)


def test_what_is_no_store_is_not_touched(tmp_path):
    """Text, an empty name, a folder, a Parquet file or another program's database are refused as they are."""
    (tmp_path / "note.db").write_text("hello, I am a note" * 20)
    other = sqlite3.connect(tmp_path / "other.db")
    other.execute("CREATE TABLE meta (name TEXT)")
    other.commit()
    other.close()
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    refused(tmp_path / "note.db", "note.db is not a feedback store")
    refused(tmp_path / "other.db", "other.db is a SQLite database of another program")
    refused(tmp_path, "is a folder; expected a file name")
    refused(tmp_path / "no" / "where.db", "cannot make .*where.db: there is no folder")
    with pytest.raises(eo.LogError, match="unknown file type"):
        eo.Log(tmp_path / "note.db")
    with pytest.raises(eo.DamagedFileError, match="of another program"):
        eo.Log(tmp_path / "other.db")
    with pytest.raises(eo.StoreError, match="no such file"):
        Rows(tmp_path / "nowhere.db")
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_a_later_version_is_refused(target, opened):
    """A store of a later version is neither read nor written."""
    opened().close()
    database = Postgres(target, write=True) if target.startswith("postgres") else SQLite(target, write=True)
    database.execute("UPDATE meta SET value = '2' WHERE name = 'version'")
    database.close()
    for how in (Store, Rows, eo.Log):
        with pytest.raises(eo.NewerVersionError, match="has store version 2; this program reads up to 1"):
            how(target)


def test_a_store_without_its_records_of_itself_is_refused(target, opened):
    """A store whose meta table has been emptied is not a whole store."""
    opened().close()
    database = Postgres(target, write=True) if target.startswith("postgres") else SQLite(target, write=True)
    database.execute("DELETE FROM meta")
    database.close()
    for how in (Store, Rows):
        with pytest.raises(eo.DamagedFileError, match="is not a whole feedback store"):
            how(target)


def test_damage_is_said_in_one_line(made, tmp_path):
    """Overwritten pages, a cut file and a list that was cut are refused, not counted."""
    fill(made, lists=600)
    content = made.read_bytes()
    assert len(content) > 20_000
    holes = bytearray(content)
    for place in range(4_096, len(content), 512):
        holes[place : place + 64] = b"\xff" * 64
    (tmp_path / "holes.db").write_bytes(bytes(holes))
    (tmp_path / "cut.db").write_bytes(content[:9_000])
    for name in ("holes.db", "cut.db"):
        with pytest.raises(eo.EvenoddsError, match=r"damaged|not a whole|not a feedback|malformed") as error:
            eo.tally(tmp_path / name, cells=3, settle=0)
        assert "\n" not in str(error.value)
    database = SQLite(made, write=True)
    database.execute("UPDATE lists SET scores = x'0011'")
    database.close()
    with pytest.raises(eo.DamagedFileError, match="a list cannot be read"):
        eo.tally(made, cells=3, settle=0)


def test_a_locked_store_is_an_error_after_a_while(made):
    """While another process holds the write lock nothing is stored; afterwards it is."""
    store = Store(made)
    store._database._busy = 0.2
    other = sqlite3.connect(made, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    start = time.monotonic()
    with pytest.raises(
        eo.StoreError, match=r"is locked by another process .* \(hint: nothing was stored; try again\)"
    ):
        store.record([], [Event("k0", "y", 1)])
    assert time.monotonic() - start < 5
    assert eo.tally(made, cells=3, settle=0).rows == 2  # readers do not wait
    other.execute("ROLLBACK")
    other.close()
    store.record([], [Event("k0", "y", 1)])
    assert eo.tally(made, cells=3, settle=0).counts[:, 1:].sum() == 2
    store.close()


@pytest.mark.parametrize("target", ["postgres"], indirect=True)
def test_a_locked_postgres_is_an_error_after_a_while(target, opened):
    """The same with PostgreSQL, for a table that somebody else has locked."""
    store = opened()
    store._database.execute("SET lock_timeout = 200")
    other = Postgres(target, write=True)
    with other.writing():
        other.execute("LOCK TABLE labels IN ACCESS EXCLUSIVE MODE")
        with pytest.raises(eo.StoreError, match="is locked by another process"):
            store.record([], [Event("k", "y", 1)])
    other.close()
    store.record([], [Event("k", "y", 1)])


def test_a_full_disk_stores_nothing_and_breaks_nothing(made):
    """When there is no room the transaction is undone; with room again it goes on."""
    store = Store(made)
    connection = store._database._connection
    connection.execute(f"PRAGMA max_page_count = {connection.execute('PRAGMA page_count').fetchone()[0]}")
    items = [f"item {number}" for number in range(5_000)]
    large = ServedList("large", items, [0.5] * 5_000, [("a",)] * 5_000)
    with pytest.raises(eo.StoreError, match=r"no space left \(hint: nothing was stored\)"):
        store.record([large], [Event("k0", "y", 1)])
    assert eo.tally(made, cells=3, settle=0).counts[:, 1:].sum() == 1
    connection.execute("PRAGMA max_page_count = 1000000")
    store.record([large], [Event("k0", "y", 1)])
    assert eo.tally(made, cells=3, settle=0).rows == 5_002
    store.close()


def test_a_read_only_store_is_said(made):
    """Writing to what is read-only is an error in one line."""
    store = Store(made)
    store._database._connection.execute("PRAGMA query_only = ON")
    with pytest.raises(eo.StoreError, match="it is read-only"):
        store.record([], [Event("k0", "y", 1)])
    store.close()


def test_another_secret_is_refused(made, monkeypatch):
    """A store whose ids were hashed with another secret is not mixed with these."""
    monkeypatch.setenv("EVENODDS_FEEDBACK_SECRET", "another secret of some length")
    refused(made, "hashed with another secret")
    monkeypatch.setenv("EVENODDS_FEEDBACK_SECRET", "short")
    refused(made, "the feedback secret has 5 bytes; expected 16 or more")
    monkeypatch.delenv("EVENODDS_FEEDBACK_SECRET")
    Store(made).close()
    made.with_name("feedback.db.secret").write_text("")
    refused(made, "feedback.db.secret holds no secret")
    made.with_name("feedback.db.secret").unlink()
    refused(made, "feedback.db.secret is not there")
    assert not made.with_name("feedback.db.secret").exists()
    assert eo.tally(made, cells=3, settle=0).rows == 2  # reading needs none


def test_a_store_that_was_being_made_is_made_again(made, tmp_path):
    """What a killed process left beside a store that it was making is in nobody's way; an empty file is no store."""
    (tmp_path / ".new.db.1.part").write_bytes(b"half")
    Store(tmp_path / "new.db").close()
    (tmp_path / "empty.db").touch()
    refused(tmp_path / "empty.db", "empty.db is not a feedback store")


def test_commits_are_synced(target, opened):
    """What is acknowledged has been synced: SQLite's log at each commit, PostgreSQL's too."""
    database = opened()._database
    if target.startswith("postgres"):
        assert database.execute("SHOW synchronous_commit") == [("on",)]
        return
    assert database.execute("PRAGMA synchronous") == [(2,)]
    assert database.execute("PRAGMA journal_mode") == [("wal",)]


def test_the_secret_is_for_its_owner_only(made):
    """The file of the secret is made once, readable by nobody else."""
    held = made.with_name("feedback.db.secret")
    assert held.stat().st_mode & 0o077 == 0
    assert len(held.read_text().strip()) == 64
    assert [path.name for path in made.parent.iterdir() if "secret" in path.name] == ["feedback.db.secret"]


def test_postgres_asks_for_a_secret(postgres_server, monkeypatch):
    """Several servers must hash alike, so that PostgreSQL needs a secret that is given; or plain ids."""
    monkeypatch.delenv("EVENODDS_FEEDBACK_SECRET", raising=False)
    database = Postgres(postgres_server, write=True)
    database.execute("DROP SCHEMA IF EXISTS evenodds CASCADE")
    database.close()
    refused(postgres_server, "EVENODDS_FEEDBACK_SECRET is not set")
    with pytest.raises(eo.StoreError, match="holds no feedback store yet"):
        eo.Log(postgres_server)
    Store(postgres_server, kind="plain").close()


def test_rows_of_two_kinds_do_not_mix(target, opened):
    """Another model's groups, outcomes or first position, or another kind of ids, need another store."""
    opened(group_columns=["gender"], outcomes=2, first_position=0)
    for settings, message in (
        (
            {"group_columns": ["age"], "outcomes": 2, "first_position": 0},
            'made for group_columns .*gender.*"age"',
        ),
        ({"group_columns": ["gender"], "outcomes": 1, "first_position": 0}, "made for outcomes 2, .* has 1"),
        ({"first_position": 1}, "made for first_position 0, .* has 1"),
        ({"kind": "plain"}, "holds hashed ids"),
        ({"kind": "clear"}, "ids can be hashed or plain"),
    ):
        refused(target, message, **settings)


def test_a_server_that_is_away_is_said_without_its_password(tmp_path):
    """A PostgreSQL that cannot be reached is one line that holds no password."""
    url = f"postgresql://anna:secret@/logs?host={tmp_path}"
    with pytest.raises(eo.StoreError, match="cannot reach postgresql:///logs") as error:
        Rows(url)
    assert "secret" not in str(error.value)
    assert "\n" not in str(error.value)
    assert named("postgres://u:p@h:1/d?x=y") == "postgresql://h:1/d"


@pytest.mark.parametrize("target", ["postgres"], indirect=True)
def test_a_lost_connection_is_opened_again(target, opened):
    """When PostgreSQL drops a connection the write is repeated on a new one, and counts once."""
    store = opened(kind="plain")
    store.record([ServedList("k", ["x"], [0.5], [("a",)])], [])
    other = Postgres(target, write=True)
    other.execute(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid() "
        "AND backend_type = 'client backend'"
    )
    other.close()
    store.record([ServedList("l", ["x"], [0.5], [("new group",)])], [Event("k", "x", 1)])
    counts = eo.tally(target, cells=3, settle=0)
    assert (counts.rows, counts.counts[:, 1:].sum()) == (2, 1)


def run(capsys, *arguments):
    """Run a command; return its exit code and the lines that it printed."""
    with pytest.raises(SystemExit) as done:
        main([str(argument) for argument in arguments])
    out, err = capsys.readouterr()
    return done.value.code or 0, out.splitlines(), err.splitlines()


def test_commands_read_a_store_like_a_log(target, opened, tmp_path, capsys):
    """Tally, audit, fit, forecast and apply take a store; status, rows and compact look after it."""
    store = opened(kind="plain")
    now = time.time() - 7200
    table = eo.simulate(60, seed=2, list_length=10)
    lists, events = {}, []
    for row in table.to_pylist():
        lists.setdefault(row["query"], []).append(row)
        events += [Event(row["query"], row["item"], 1, row["position"])] if row["label"] else []
    store.record(
        [
            ServedList(
                key,
                [r["item"] for r in rows],
                [r["score"] for r in rows],
                [(r["group"],) for r in rows],
                "m",
                now,
            )
            for key, rows in lists.items()
        ],
        events,
    )
    for arguments in (
        ("tally", target, "-o", tmp_path / "a.tally", "--cells", 20),
        ("fit", target, "-o", tmp_path / "model.json", "--cells", 50, "--min-positives", 5),
        ("audit", target, "--cells", 50, "--json"),
        ("forecast", tmp_path / "model.json", target),
        ("apply", tmp_path / "model.json", target, "-o", tmp_path / "fair.parquet"),
        ("feedback", "status", target),
        ("feedback", "rows", target, "-o", tmp_path / "log.parquet"),
        ("feedback", "compact", target, "--older-than", "1h", "--cells", 20),
        ("feedback", "status", target, "--json"),
        ("tally", target, "-o", tmp_path / "b.tally"),
    ):
        code, out, err = run(capsys, *arguments)
        assert code == 0, err
        assert out
    assert (eo.Tally.load(tmp_path / "a.tally").counts == eo.Tally.load(tmp_path / "b.tally").counts).all()
    assert eo.tally(tmp_path / "log.parquet", cells=20).counts.sum() == 600
    model = eo.load(tmp_path / "model.json")
    assert "@" not in model.fitted_on_["sources"][0]


def test_commands_refuse_bad_stores_in_one_line(made, tmp_path, capsys):
    """Every command says what is wrong with a store in one line and exits with 2."""
    (tmp_path / "note.txt").write_text("hello")
    eo.tally(made, cells=3, settle=0).save(tmp_path / "day.tally")
    for arguments, message in (
        (("fit", made, "-o", tmp_path / "m.json"), "2 were served too recently (hint: settle=0 (--settle 0)"),
        (("tally", made, tmp_path / "x.csv", "-o", tmp_path / "m"), "a feedback store is read alone"),
        (
            ("tally", made, "-o", tmp_path / "m", "--settle", "soon"),
            "'soon' is no time; expected something like",
        ),
        (("tally", made, "-o", tmp_path / "m", "--settle=-1h"), "'-1h' is no time"),
        (("audit", tmp_path / "day.tally", "--settle", "1h"), "--settle has no effect on a tally"),
        (("feedback", "status", tmp_path / "note.txt"), "note.txt is not a feedback store"),
        (("feedback", "status", tmp_path / "no.db"), "no such file"),
        (("feedback", "compact", tmp_path / "no.db"), "no such file"),
        (("feedback", "compact", made, "--older-than", "x"), "'x' is no time"),
        (("feedback", "compact", made, "--older-than", "0", "--cells", "0"), "cells must be a whole number"),
        (("feedback", "rows", made, "-o", tmp_path / "rows.txt", "--settle", "0"), "unknown file type"),
    ):
        code, out, err = run(capsys, *arguments)
        assert (code, len(err), out) == (2, 1, []), (arguments, err)
        assert message in err[0]
    assert eo.tally(made, cells=3, settle=0).rows == 2


def test_a_model_of_other_column_names_meets_a_store(target, opened, tmp_path, capsys):
    """A store has columns of its own: what the model's log called them does not matter."""
    table = eo.simulate(100, seed=4, list_length=10)
    renamed = table.rename_columns(["q", "what", "group", "s", "rank", "clicked"])
    names = {"score": "s", "label": "clicked", "position": "rank", "query": "q", "item": "what"}
    eo.EqualOpportunity(min_positives=5).fit(renamed, **names).save(tmp_path / "model.json")
    store = opened()
    past = time.time() - 7200
    for number in range(200):
        rows = table.slice(10 * (number % 100), 10).to_pylist()
        clicks = [Event(f"{number}", row["item"], 1) for row in rows if row["label"]]
        items, scores = ([row[name] for row in rows] for name in ("item", "score"))
        groups = [(row["group"],) for row in rows]
        store.record([ServedList(f"{number}", items, scores, groups, "m", past)], clicks)
    for arguments in (
        ("audit", target, "--model", tmp_path / "model.json", "--cells", 50),
        ("forecast", tmp_path / "model.json", target),
        ("apply", tmp_path / "model.json", target, "-o", tmp_path / "fair.csv"),
    ):
        code, _, err = run(capsys, *arguments)
        assert code == 0, err


def test_a_store_is_not_for_spark(made, tmp_path, capsys):
    """Spark does not read a store: it is said in one line, before Spark is started."""
    code, _, err = run(capsys, "tally", made, "-o", tmp_path / "a.tally", "--engine", "spark")
    assert (code, len(err)) == (2, 1)
    assert "a feedback store is read without --engine spark" in err[0]


def test_a_depth_of_its_own_stays(target, opened):
    """A store that was folded with another depth is counted with that one, and says so if asked for another."""
    from evenodds.compact import compact

    store = opened()
    now = time.time()
    for number, age in enumerate((40 * 86_400, 7200)):
        one = ServedList(f"r{number}", ["x", "y", "z"], [0.5, 0.4, 0.3], [("a",)] * 3, "m", now - age)
        store.record([one], [])
    compact(target, depth=2, cells=3)
    assert (eo.tally(target).depth, eo.tally(target).rows) == (2, 6)
    with pytest.raises(eo.GridMismatchError, match="positions are pooled past 2 in one and past 5"):
        eo.tally(target, depth=5)


def test_postgresql_without_its_driver_is_one_line(monkeypatch):
    """Without psycopg the extra to install is named."""
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(
        eo.MissingExtraError, match=r"needs psycopg \(hint: pip install 'evenodds\[postgres\]'\)"
    ):
        eo.Log("postgresql://localhost/logs")


def test_a_ramp_is_read_out_from_the_store(target, opened, capsys):
    """The arms of a ramp are in the store: an experiment needs nothing else, with any group columns."""
    store = opened(kind="plain", group_columns=["gender"])
    arms, past = ("fair", "original"), time.time() - 7200
    store.record(
        [
            ServedList(f"r{n}", ["x", "y"], [0.5, 0.4], [("f",), ("m",)], "m1", past, arms[n % 2])
            for n in range(400)
        ],
        [Event(f"r{n}", "x", 1) for n in range(400) if n % (2 + n % 2) == 0],
    )
    code, out, err = run(
        capsys, "experiment", target, "--unit", "query", "--control", "original", "--settle", "1h"
    )
    assert code == 0, err
    assert any("fair" in line for line in out)
    assert eo.experiment(target, unit="query", control="original").units == {"fair": 200, "original": 200}
