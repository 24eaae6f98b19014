"""Streams on Spark: every row once, late labels, bad records set aside, and SIGKILL at any moment."""

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import numpy as np
import pyarrow as pa
import pyarrow.csv as pc
import pyarrow.parquet as pq
import pytest

import evenodds as eo
from evenodds.cli import main
from evenodds.engines.streaming_source import decoded
from evenodds.stream import State, Versions
from worlds import draw

pytestmark = pytest.mark.spark

START = datetime(2026, 3, 1, tzinfo=UTC)


def tables(count, queries=40):
    """Return logs with ids and times, an hour each."""
    made = []
    for place in range(count):
        table = draw(np.random.default_rng([place, 9]), queries)
        size = len(table)
        seconds = np.random.default_rng([place, 8]).random(size) * 3_600
        at = [START + timedelta(hours=place, seconds=float(s)) for s in seconds]
        table = table.append_column("at", pa.array(at, pa.timestamp("us", "UTC")))
        table = table.append_column("id", pa.array([f"{place}-{row}" for row in range(size)]))
        made.append(table)
    return made


def put(folder, name, table, form="parquet"):
    """Put a file in place as a producer should: by renaming it."""
    folder.mkdir(exist_ok=True)
    aside = folder / f".{name}"
    if form == "parquet":
        pq.write_table(table, aside)
    elif form == "csv":
        pc.write_csv(table, aside)
    else:
        rows = [{**row, "at": row["at"].isoformat()} for row in table.to_pylist()]
        aside.write_text("".join(json.dumps(row) + "\n" for row in rows))
    aside.rename(folder / f"{name}.{form}")


def stream(source, out, *options):
    """Run the command in this process, on the session that is there; return what it said."""
    with pytest.raises(SystemExit) as stopped:
        main(["stream", str(source), "-o", str(out), "--once", *map(str, options)])
    assert stopped.value.code == 0


def same(one, two):
    return replace(one, sources=()).equals(replace(two, sources=()))


@pytest.fixture
def grid(tmp_path):
    """Save a tally whose cells are used."""
    eo.tally(draw(np.random.default_rng(1), 500), cells=50).save(tmp_path / "grid.tally")
    return tmp_path / "grid.tally"


@pytest.mark.parametrize("form", ["parquet", "json", "csv"])
def test_files_are_counted_once_and_new_ones_are_added(spark, tmp_path, grid, form):
    """Batches of files come to the tally of all rows; a later run takes what is new, and nothing twice."""
    logs = tables(4)
    for place, table in enumerate(logs[:3]):
        put(tmp_path / "in", f"{place}", table, form)
    stream(tmp_path / "in", tmp_path / "out", "--max-files", 2, "--grid-from", grid)
    assert State.load(tmp_path / "out").facts.batch == 1
    put(tmp_path / "in", "3", logs[3], form)
    stream(tmp_path / "in", tmp_path / "out", "--grid-from", grid)
    stream(tmp_path / "in", tmp_path / "out", "--grid-from", grid)
    expected = eo.tally(pa.concat_tables(logs), grid=eo.Tally.load(grid))
    assert same(eo.Tally.load(tmp_path / "out" / "state.tally"), expected)


def test_the_first_batch_cuts_the_cells_and_models_are_fitted(spark, tmp_path):
    """Without a grid the first rows cut it; on a schedule models are fitted as from the tally itself."""
    for place, table in enumerate(tables(3, queries=300)):
        put(tmp_path / "in", f"{place}", table)
    stream(tmp_path / "in", tmp_path / "out", "--max-files", 1, "--fit-every", 2, "--points", 50)
    counted = eo.Tally.load(tmp_path / "out" / "state.tally")
    assert counted.grid.cells > 100
    assert [version.batch for version in Versions(tmp_path / "out" / "models").listed] == [0, 2]
    expected = eo.EqualOpportunity(points=50).fit(counted)
    expected.save(tmp_path / "expected.json")
    served = tmp_path / "out" / "models" / "current.json"
    assert served.read_bytes() == (tmp_path / "expected.json").read_bytes()


def test_labels_that_come_later_find_their_impressions(spark, tmp_path, grid):
    """Labels within the wait count, doubles once, later ones not; what can still get a label waits."""
    logs = tables(5)
    columns = ["id", "at", "query", "position", "group", "score"]
    for place, table in enumerate(logs):
        put(tmp_path / "shown", f"{place}", table.select(columns))
        clicks = table.filter(pa.array(table["label"].to_numpy() == 1)).select(["id", "at", "label"])
        at = clicks["at"].to_pylist()
        # Every seventh label comes after the wait is over.
        moved = [when + timedelta(minutes=45 if row % 7 == 0 else 10) for row, when in enumerate(at)]
        clicks = clicks.set_column(1, "at", pa.array(moved, pa.timestamp("us", "UTC")))
        put(tmp_path / "clicks", f"{place}", pa.concat_tables([clicks, clicks.slice(0, 9)]))
    options = ("--labels", tmp_path / "clicks", "--impression", "id", "--time", "at", "--wait", "30 minutes")
    stream(tmp_path / "shown", tmp_path / "out", *options, "--max-files", 1, "--grid-from", grid)
    counted = eo.Tally.load(tmp_path / "out" / "state.tally")
    whole = pa.concat_tables(logs)
    label = np.concatenate(
        [np.where(np.cumsum(log["label"].to_numpy()) % 7 == 1, 0, log["label"].to_numpy()) for log in logs]
    )
    truth = whole.set_column(whole.column_names.index("label"), "label", pa.array(label))
    assert counted.counts[:, 1].sum() == label.sum()
    # Rows without a label whose wait is not over by the watermark have not been handed over yet.
    last = max(whole["at"].to_pylist())
    early = [
        bool(clicked) or when < last - timedelta(minutes=60)
        for when, clicked in zip(whole["at"].to_pylist(), label, strict=True)
    ]
    sure = eo.tally(truth.filter(pa.array(early)), grid=eo.Tally.load(grid))
    assert (counted.counts >= sure.counts).all()
    assert (counted.counts <= eo.tally(truth, grid=eo.Tally.load(grid)).counts).all()
    assert sure.rows <= counted.rows < whole.num_rows
    # An impression of the first hour, five hours late: not counted, and told.
    put(tmp_path / "shown", "late", logs[0].select(columns).slice(0, 7))
    stream(tmp_path / "shown", tmp_path / "out", *options, "--grid-from", grid)
    assert State.load(tmp_path / "out").facts.late == 7
    assert json.loads((tmp_path / "out" / "status.json").read_text())["late"] == 7


def test_doubles_are_counted_once(spark, tmp_path, grid):
    """A producer that sends rows twice: with --no-doubles each id counts once."""
    logs = tables(2)
    for place, table in enumerate(logs):
        put(tmp_path / "in", f"{place}", pa.concat_tables([table, table.slice(0, 50)]))
    options = ("--impression", "id", "--time", "at", "--no-doubles", "--watermark", "2 hours")
    stream(tmp_path / "in", tmp_path / "out", *options, "--grid-from", grid)
    expected = eo.tally(pa.concat_tables(logs), grid=eo.Tally.load(grid))
    assert same(eo.Tally.load(tmp_path / "out" / "state.tally"), expected)


def test_bad_records_are_set_aside_with_their_reasons(spark, tmp_path, grid, capsys):
    """Broken JSON, a label that is none, a missing group, a date to come: refused, counted, told."""
    table = tables(1, queries=200)[0]
    rows = [{**row, "at": row["at"].isoformat()} for row in table.to_pylist()]
    rows[1]["label"], rows[2]["group"], rows[3]["at"] = 5, None, "2199-01-01T00:00:00+00:00"
    lines = [json.dumps(row) for row in rows]
    lines[0] = lines[0][:-20]
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "0.json").write_text("\n".join(lines) + "\n")
    schema = "query long, position int, group string, score double, label int, at timestamp, id string"
    options = ("--schema", schema, "--time", "at", "--half-life", "1 day", "--grid-from", grid)
    stream(tmp_path / "in", tmp_path / "out", *options)
    assert "1,996 rows counted, 4 refused" in capsys.readouterr().err
    aside = [
        json.loads(line)
        for file in (tmp_path / "out" / "quarantine" / "batch-000000").glob("*.json")
        for line in file.read_text().splitlines()
    ]
    assert sorted(row["refused_because"] for row in aside) == [
        "label outside {0, 1} in column 'label'",
        "no time, or one in the future",
        "null in column 'group'",
        "unreadable record",
    ]
    assert lines[0] in {row.get("_corrupt_record") for row in aside}
    kept = table.filter(pa.array([place > 3 for place in range(len(table))]))
    assert same(eo.Tally.load(tmp_path / "out" / "state.tally"), eo.tally(kept, grid=eo.Tally.load(grid)))
    found = State.load(tmp_path / "out").facts
    assert found.clock == pytest.approx(max(kept["at"].to_pylist()).timestamp())
    assert sum(found.refused.values()) == 4


def test_too_many_bad_records_stop_the_stream(spark, tmp_path, grid, capsys):
    """The command ends with 2 and one line that names the place; nothing is counted until it is mended."""
    table = tables(1)[0]
    broken = table.set_column(table.column_names.index("label"), "label", pa.array([3] * len(table)))
    put(tmp_path / "in", "0", broken)
    known = ["stream", str(tmp_path / "in"), "-o", str(tmp_path / "out"), "--once", "--grid-from", str(grid)]
    with pytest.raises(SystemExit) as stopped:
        main(known)
    assert stopped.value.code == 2
    said = capsys.readouterr().err.strip().splitlines()
    assert len(said) == 1
    assert "400 of 400 rows cannot be counted: label outside {0, 1}" in said[0]
    assert State.load(tmp_path / "out") is None
    assert list((tmp_path / "out" / "quarantine" / "batch-000000").glob("*.json"))


def test_kafka_messages_are_read_as_rows(spark, tmp_path):
    """The value of a message is JSON; what is broken becomes a row with its text, to be set aside."""
    good = json.dumps({"score": 0.5, "group": "a", "label": 1})
    frame = spark.createDataFrame(
        [(None, bytearray(good, "utf-8")), (b"key", bytearray(b"{broken"))], "key binary, value binary"
    )
    rows = [row.asDict() for row in decoded(frame, "score double, group string, label int", spark).collect()]
    assert rows[0] == {"score": 0.5, "group": "a", "label": 1, "_corrupt_record": None}
    assert rows[1]["_corrupt_record"] == "{broken"
    assert rows[1]["score"] is None


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["kafka://localhost:9092/shown"], "the columns of its messages are not known"),
        (["kafka://localhost:9092/shown", "--schema", "score double"], "no connector for kafka.*--package"),
        (["kafka:///shown", "--schema", "score double"], "expected kafka://host:port/topic"),
        (["in", "--format", "delta"], "no connector for delta.*--package io.delta"),
        (["nowhere"], "no such folder: nowhere"),
        (["empty"], "no Parquet, JSON or CSV file in empty"),
        (["empty", "--format", "csv"], "no csv file in empty yet"),
        (["in", "--score", "points"], "no column 'points' for score"),
        (["in", "--time", "when"], "no column 'when' for --time"),
        (["in", "--schema", "score dubble"], "schema 'score dubble'"),
        (["in", "--labels", "in"], "need the impression's id"),
        (["in", "--half-life", "7"], "expected a span of time"),
        (["in", "--fit-every", "0"], "--fit-every '0'"),
        (["in", "--conf", "spark"], "expected NAME=VALUE"),
        (["in", "--bins", "7"], "--bins does not go with"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(spark, tmp_path, monkeypatch, capsys, arguments, said):
    """Each mistake ends with 2 and one line, before anything is counted."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty").mkdir()
    put(tmp_path / "in", "0", tables(1)[0])
    with pytest.raises(SystemExit) as stopped:
        main(["stream", *arguments, "-o", "out", "--once"])
    lines = capsys.readouterr().err.strip().splitlines()
    assert stopped.value.code == 2
    assert len(lines) == 1
    assert re.search(said, lines[0]), lines
    assert not (tmp_path / "out" / "state.tally").exists()


def test_a_checkpoint_that_was_lost_is_not_begun_anew_in_silence(spark, tmp_path, grid):
    """With counts but another checkpoint the stream refuses to count everything again."""
    put(tmp_path / "in", "0", tables(1)[0])
    stream(tmp_path / "in", tmp_path / "out", "--grid-from", grid)
    (tmp_path / "out" / "checkpoint").rename(tmp_path / "lost")
    with pytest.raises(SystemExit) as stopped:
        main(["stream", str(tmp_path / "in"), "-o", str(tmp_path / "out"), "--once"])
    assert stopped.value.code == 2
    assert State.load(tmp_path / "out").tally.rows == 400


def killed(process):
    """End a process and all that it started, at once."""
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def test_killed_in_the_middle_of_a_batch_it_counts_as_an_unbroken_run(spark, tmp_path, grid):
    """A real process, killed with SIGKILL at random moments and started again, ends with the same counts."""
    logs = tables(6, queries=1_500)
    for place, table in enumerate(logs):
        put(tmp_path / "in", f"{place}", table)
    command = [sys.executable, "-m", "evenodds", "stream", tmp_path / "in", "-o", tmp_path / "out"]
    command += ["--once", "--max-files", "1", "--grid-from", grid, "--fit-every", "3", "--points", "50"]
    command += ["--master", "local[2]", "--time", "at", "--half-life", "5 hours"]
    rng = np.random.default_rng(int.from_bytes(os.urandom(4), "little"))
    seen, kills = -1, 0
    for _ in range(6):
        with (tmp_path / "said").open("w") as said:
            process = subprocess.Popen(
                list(map(str, command)), stdout=said, stderr=said, start_new_session=True
            )
        if kills < 3:
            until = time.monotonic() + 120
            while process.poll() is None and time.monotonic() < until:
                now = State.load(tmp_path / "out")
                if now is not None and now.facts.batch > seen:
                    seen = now.facts.batch
                    break
                time.sleep(0.02)
            time.sleep(rng.random() * 1.5)
            if process.poll() is None:
                killed(process)
                kills += 1
                continue
        assert process.wait(timeout=240) == 0, (tmp_path / "said").read_text()
        break
    assert kills >= 1
    stream(
        tmp_path / "in", tmp_path / "whole", "--max-files", 1, "--grid-from", grid, "--fit-every", 3,
        "--points", 50, "--time", "at", "--half-life", "5 hours",
    )  # fmt: skip
    states = [State.load(tmp_path / name) for name in ("out", "whole")]
    assert states[0].tally.rows == sum(map(len, logs))
    assert same(states[0].tally, states[1].tally)
    assert states[0].facts.faded == states[1].facts.faded
    shown = [(tmp_path / name / "models" / "current.json").read_bytes() for name in ("out", "whole")]
    assert shown[0] == shown[1]


def test_one_stream_a_folder(spark, tmp_path, grid):
    """While one is at work another refuses the same folder."""
    import fcntl

    put(tmp_path / "in", "0", tables(1)[0])
    (tmp_path / "out").mkdir()
    with (tmp_path / "out" / ".lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        with pytest.raises(SystemExit) as stopped:
            main(["stream", str(tmp_path / "in"), "-o", str(tmp_path / "out"), "--once"])
    assert stopped.value.code == 2


def test_it_runs_until_it_is_asked_to_end(spark, tmp_path, grid):
    """Without --once new files are taken as they come; SIGTERM ends it in good order, with exit code 0."""
    logs = tables(3)
    put(tmp_path / "in", "0", logs[0])

    def rows():
        held = State.load(tmp_path / "out")
        return 0 if held is None else held.tally.rows

    def meanwhile():
        for place, table in enumerate(logs):
            if place:
                put(tmp_path / "in", f"{place}", table)
            until = time.monotonic() + 60
            while rows() < 400 * (place + 1) and time.monotonic() < until:
                time.sleep(0.05)
        os.kill(os.getpid(), signal.SIGTERM)

    thread = threading.Thread(target=meanwhile)
    thread.start()
    with pytest.raises(SystemExit) as stopped:
        main(["stream", str(tmp_path / "in"), "-o", str(tmp_path / "out"), "--trigger", "1 second",
              "--grid-from", str(grid)])  # fmt: skip
    thread.join()
    assert stopped.value.code == 0
    assert rows() == 1_200
    status = json.loads((tmp_path / "out" / "status.json").read_text())
    assert status["rows"] == 1_200


def test_a_file_that_cannot_be_read_is_named(spark, tmp_path, grid, capsys):
    """Half a file stops the stream with one line that names it; put right, the stream goes on."""
    table = tables(1)[0]
    put(tmp_path / "in", "0", table)
    stream(tmp_path / "in", tmp_path / "out", "--grid-from", grid)
    (tmp_path / "in" / "1.parquet").write_bytes((tmp_path / "in" / "0.parquet").read_bytes()[:3_000])
    capsys.readouterr()
    with pytest.raises(SystemExit) as stopped:
        main(["stream", str(tmp_path / "in"), "-o", str(tmp_path / "out"), "--once"])
    said = capsys.readouterr().err.strip().splitlines()
    assert stopped.value.code == 2
    assert len(said) == 1
    assert "in/1.parquet" in said[0]
    put(tmp_path / "in", "1", table)
    stream(tmp_path / "in", tmp_path / "out")
    assert State.load(tmp_path / "out").tally.rows == 800
