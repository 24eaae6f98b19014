"""A stream counts each batch once, forgets as told, fits when due, and gets over a crash anywhere."""

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from batches import ROLES, TableBatch

import evenodds as eo
from evenodds import files
from evenodds.errors import EvenoddsError, LogError
from evenodds.grid import Grid
from evenodds.stream import Job, State, StreamSettings, Versions
from evenodds.stream.settings import seconds
from evenodds.stream.state import since
from worlds import draw

GRID = Grid.from_sample(np.linspace(0, 1, 5_001), 100)


def parts(count, queries=60, **changed):
    """Return batches' tables."""
    return [draw(np.random.default_rng([place, 3]), queries, **changed) for place in range(count)]


def job(folder, settings=None, grid=GRID, **changed):
    Path(folder).mkdir(exist_ok=True)
    known = {"roles": ROLES, "source": "stream test", "query": "q1", **changed}
    known.setdefault("unfitted", lambda: eo.EqualOpportunity(points=100))
    return Job(folder, settings or StreamSettings(), grid=grid, **known)


def feed(made, tables, first=0, clock=None):
    for number, table in enumerate(tables, first):
        made.batch(TableBatch(number, table, None if clock is None else clock(number)))


def counted(tables):
    return eo.tally(pa.concat_tables(tables), grid=GRID)


def same_counts(one, two):
    return replace(one, sources=()).equals(replace(two, sources=()))


def test_counts_are_those_of_all_rows_at_once(tmp_path):
    """Batch by batch the state comes to the tally of all rows; other commands read it as any tally."""
    tables = parts(4)
    feed(job(tmp_path), tables)
    assert same_counts(eo.Tally.load(tmp_path / "state.tally"), counted(tables))
    assert eo.audit(eo.Tally.load(tmp_path / "state.tally")).rows == sum(map(len, tables))


def test_a_batch_that_comes_again_is_counted_once(tmp_path):
    """After a restart the last batch is handed over again; its number is known."""
    tables = parts(3)
    feed(job(tmp_path), tables[:2])
    feed(job(tmp_path), tables[1:], first=1)
    assert same_counts(eo.Tally.load(tmp_path / "state.tally"), counted(tables))


def test_the_first_rows_cut_the_cells(tmp_path):
    """Without a grid the first batch with rows cuts it, and later batches and runs use the same."""
    tables = parts(3)
    said = []
    feed(job(tmp_path, grid=None, say=said.append), [tables[0].slice(0, 0), *tables[:2]])
    assert any("--grid-from" in line for line in said)
    feed(job(tmp_path, grid=None), tables[2:], first=3)
    found = State.load(tmp_path)
    expected = Grid.from_sample(tables[0]["score"].to_numpy(), 10_000)
    assert found.tally.grid == expected
    assert same_counts(found.tally, eo.tally(pa.concat_tables(tables), grid=expected))


def test_old_rows_fade_by_the_rows_own_time(tmp_path):
    """With a half-life of a day, rows a day older weigh half, in counts and a quarter in squares."""
    tables = parts(3)
    settings = StreamSettings(half_life=86_400.0)
    feed(job(tmp_path, settings), tables, clock=lambda number: 86_400.0 * number)
    one, two, three = (counted([table]) for table in tables)
    expected = (one.decay(0.5) + two).decay(0.5) + three
    found = State.load(tmp_path)
    assert same_counts(found.tally, expected)
    assert found.facts.faded == 2.0


def test_late_batches_do_not_turn_the_clock_back(tmp_path):
    """A batch whose rows are older than what came before fades nothing and does not un-fade it."""
    tables = parts(3)
    times = [0.0, 3_600.0, 1_800.0]
    feed(job(tmp_path, StreamSettings(half_life=3_600.0)), tables, clock=times.__getitem__)
    one, two, three = (counted([table]) for table in tables)
    assert same_counts(State.load(tmp_path).tally, one.decay(0.5) + two + three)


def test_what_is_a_thousand_half_lives_old_is_gone(tmp_path):
    """After a long pause only the new rows are left, and no figure is NaN."""
    tables = parts(2)
    feed(job(tmp_path, StreamSettings(half_life=1.0)), tables, clock=lambda number: 1e6 * number)
    found = State.load(tmp_path)
    assert np.array_equal(found.tally.counts, counted(tables[1:]).counts)
    assert found.facts.epoch == 1


def spoilt(table):
    """Return the table with four rows that cannot be counted."""
    score, label = table["score"].to_numpy().copy(), table["label"].to_numpy().copy()
    score[3], label[5], label[6] = np.nan, 7, 7
    group = pa.array(
        [None if place == 9 else value for place, value in enumerate(table["group"].to_pylist())]
    )
    table = table.set_column(table.column_names.index("score"), "score", pa.array(score))
    table = table.set_column(table.column_names.index("label"), "label", pa.array(label))
    return table.set_column(table.column_names.index("group"), "group", group)


def test_bad_rows_are_set_aside_with_their_reasons(tmp_path):
    """Rows that cannot be counted go to quarantine with a reason each; the others are counted."""
    tables = parts(2)
    feed(job(tmp_path), [spoilt(tables[0]), tables[1]])
    aside = pq.read_table(tmp_path / "quarantine" / "batch-000000" / "refused.parquet")
    assert sorted(aside["refused_because"].to_pylist()) == [
        "NaN or infinite score in column 'score'",
        "label outside {0, 1} in column 'label'",
        "label outside {0, 1} in column 'label'",
        "null in column 'group'",
    ]
    kept = tables[0].filter(pa.array([place not in {3, 5, 6, 9} for place in range(len(tables[0]))]))
    assert same_counts(State.load(tmp_path).tally, counted([kept, tables[1]]))
    status = json.loads((tmp_path / "status.json").read_text())
    assert sum(status["refused"].values()) == 4
    assert status["seen"] == sum(map(len, tables))


def test_too_many_bad_rows_stop_the_stream_and_lose_nothing(tmp_path):
    """Past the limit the job stops before it commits; with a higher limit the batch is taken in."""
    table = parts(1)[0]
    broken = table.set_column(
        table.column_names.index("label"), "label", pa.array([2] * 20 + table["label"].to_pylist()[20:])
    )
    with pytest.raises(LogError, match=r"batch 0: 20 of 600 rows cannot be counted.*--max-bad 0.033"):
        feed(job(tmp_path), [broken])
    assert not (tmp_path / "state.tally").exists()
    assert len(pq.read_table(tmp_path / "quarantine" / "batch-000000" / "refused.parquet")) == 20
    feed(job(tmp_path, StreamSettings(max_bad=0.04)), [broken])
    assert State.load(tmp_path).tally.rows == 580


def test_a_state_belongs_to_its_checkpoint_columns_and_cells(tmp_path):
    """Another checkpoint, other columns, other cells, lost counts: refused, each in one line."""
    feed(job(tmp_path), parts(1))
    with pytest.raises(EvenoddsError, match="another checkpoint"):
        job(tmp_path, query="q2")
    with pytest.raises(EvenoddsError, match="other columns"):
        job(tmp_path, roles=replace(ROLES, score="s"))
    with pytest.raises(EvenoddsError, match="other score cells"):
        job(tmp_path, grid=Grid(GRID.boundaries + 1.0, GRID.atoms))
    with pytest.raises(EvenoddsError, match="depth"):
        job(tmp_path, StreamSettings(depth=5))
    (tmp_path / "state.tally").unlink()
    with pytest.raises(EvenoddsError, match="holds no counts, but its checkpoint is at batch 4"):
        feed(job(tmp_path), parts(1), first=4)


def test_fits_come_on_schedule_and_the_last_are_kept(tmp_path):
    """Every two batches a model, three of them kept, the newest at the path that servers watch."""
    tables = parts(9)
    settings = StreamSettings(fit_every=2, keep=3)
    feed(job(tmp_path, settings), tables)
    versions = Versions(tmp_path / "models")
    assert [version.batch for version in versions.listed] == [4, 6, 8]
    assert [version.number for version in versions.listed] == [3, 4, 5]
    assert sorted(path.name for path in (tmp_path / "models").glob("model-*.json")) == [
        f"model-00000{number}.json" for number in (3, 4, 5)
    ]
    served = (tmp_path / "models" / "current.json").read_bytes()
    assert served == (tmp_path / "models" / "model-000005.json").read_bytes()
    expected = eo.EqualOpportunity(points=100).fit(replace(counted(tables), sources=("stream test",)))
    expected.save(tmp_path / "expected.json")
    assert served == (tmp_path / "expected.json").read_bytes()


def test_too_few_rows_are_fitted_later(tmp_path):
    """While there are too few positives no model is fitted; the reason is said, and it is tried again."""
    said = []
    feed(job(tmp_path, StreamSettings(fit_every=1), say=said.append), parts(6, queries=10))
    assert any("not fitted: no group has 50 positives" in line for line in said)
    assert Versions(tmp_path / "models").listed[0].batch > 0


def shifted(table, by):
    """Return the table with the scores of group b lowered."""
    lower = np.where(np.array(table["group"].to_pylist()) == "b", by, 0.0)
    score = np.clip(table["score"].to_numpy() - lower, 0.0, 1.0)
    return table.set_column(table.column_names.index("score"), "score", pa.array(score))


def test_a_drift_is_found_and_fitted_away(tmp_path):
    """When scores change the job finds it, forgets what was before, and fits a model that is fair again."""
    settings = StreamSettings(fit_on_drift=True, drift_every=2, limit=0.1)
    before, after = parts(6, queries=400), [shifted(t, 0.4) for t in parts(8, queries=400)]
    said = []
    made = job(tmp_path, settings, say=said.append)
    feed(made, before)
    assert not any("has drifted" in line for line in said)
    assert [version.reason for version in made.versions.listed] == ["first"]
    feed(made, after, first=6)
    assert any("the correction has drifted" in line for line in said)
    reasons = [version.reason for version in made.versions.listed]
    assert reasons[:2] == ["first", "drift"]
    latest = eo.load(tmp_path / "models" / "current.json")
    fresh = counted([shifted(t, 0.4) for t in [draw(np.random.default_rng(99), 4_000)]])
    first = made.versions.model(made.versions.listed[0])
    assert eo.audit(fresh, latest).unfairness(after=True) < 0.1
    assert eo.audit(fresh, first).unfairness(after=True) > 0.2
    status = json.loads((tmp_path / "status.json").read_text())
    assert status["drift"]["status"] in {"holds", "unsure", "drifted"}
    assert status["model"]["number"] == len(reasons)


def test_many_looks_share_one_chance_of_a_false_alarm(tmp_path, monkeypatch):
    """The levels of all looks after a fit add up to the level that was asked for."""
    from evenodds.stream import job as module

    levels = []
    real = module.drift

    def noted(*arguments, level, **known):
        levels.append(level)
        return real(*arguments, level=level, **known)

    monkeypatch.setattr(module, "drift", noted)
    feed(job(tmp_path, StreamSettings(fit_on_drift=True, drift_every=1, limit=0.3)), parts(8, queries=200))
    assert levels == [pytest.approx(0.05 * 6 / (np.pi * k) ** 2) for k in range(1, 8)]


def test_what_came_since_a_fit_is_the_difference():
    """Counts since a fit are those of the later rows; with forgetting up to rounding."""
    tables = parts(4)
    before, later = counted(tables[:2]), counted(tables[2:])
    exact = since(before + later, before, 0.0)
    assert same_counts(exact, later)
    faded = since(before.decay(0.25) + later, before, 2.0)
    assert np.allclose(faded.counts, later.counts, atol=1e-9)
    assert (faded.counts >= 0).all()
    assert faded.counts[later.counts == 0].max() == 0


class CrashError(Exception):
    """Stands for the end of the process."""


@pytest.mark.parametrize(
    "settings",
    [
        StreamSettings(fit_every=2, keep=2),
        StreamSettings(half_life=7.0),
        StreamSettings(fit_on_drift=True, drift_every=1, limit=0.3),
    ],
)
def test_a_crash_anywhere_changes_nothing(tmp_path, monkeypatch, settings):
    """Stopped before or after any file is put in place, and started again, the job ends with the same files."""
    tables = parts(4, queries=80)
    clock = float if settings.half_life else None
    whole = tmp_path / "whole"
    quick = {"unfitted": lambda: eo.EqualOpportunity(points=20, position_bias="none")}
    feed(job(whole, settings, **quick), tables, clock=clock)
    real, count = os.replace, 0
    left = {"until": 0}

    def falling(source, target, **known):
        nonlocal count
        count += 1
        if count == left["until"]:
            raise CrashError
        real(source, target, **known)
        if count == -left["until"]:
            raise CrashError

    monkeypatch.setattr(os, "replace", falling)
    monkeypatch.setattr(files, "_synced", lambda _path: None)  # a crash of the process, not of the machine
    moments = range(1, 20, 2 if settings.fit_on_drift else 1)
    for moment in [*moments, *(-moment for moment in moments)]:
        folder, count, left["until"] = tmp_path / f"crash{moment}", 0, moment
        for _ in range(3):
            try:
                done = State.load(folder)
                start = max(0, done.facts.batch) if done else 0  # the last batch comes again
                feed(job(folder, settings, **quick), tables[start:], first=start, clock=clock)
                break
            except CrashError:
                continue
        assert same_counts(State.load(folder).tally, State.load(whole).tally), moment
        listed = [(v.number, v.batch, v.sha256) for v in Versions(folder / "models").listed]
        assert listed == [(v.number, v.batch, v.sha256) for v in Versions(whole / "models").listed], moment
        if settings.fits:
            shown = [(place / "models" / "current.json").read_bytes() for place in (folder, whole)]
            assert shown[0] == shown[1], moment
        assert list(folder.rglob("*.part")) == []


def test_a_crash_between_a_fit_for_drift_and_its_note_changes_nothing(tmp_path, monkeypatch):
    """The model is there, the state still holds what should be forgotten: the next start puts it right."""
    settings = StreamSettings(fit_on_drift=True, drift_every=1, limit=0.1)
    tables = [*parts(3, queries=500), *(shifted(t, 0.4) for t in parts(3, queries=500))]
    quick = {"unfitted": lambda: eo.EqualOpportunity(points=20, position_bias="none")}
    feed(job(tmp_path / "whole", settings, **quick), tables)
    real, fell = Job._note_fit, []

    def falling(self, version):
        if version.reason == "drift" and not fell:
            fell.append(version.batch)
            raise CrashError
        real(self, version)

    monkeypatch.setattr(Job, "_note_fit", falling)
    with pytest.raises(CrashError):
        feed(job(tmp_path / "crash", settings, **quick), tables)
    start = State.load(tmp_path / "crash").facts.batch
    assert start == fell[0]
    feed(job(tmp_path / "crash", settings, **quick), tables[start:], first=start)
    states = [State.load(tmp_path / name) for name in ("crash", "whole")]
    assert same_counts(states[0].tally, states[1].tally)
    assert states[0].facts.epoch == states[1].facts.epoch > 0
    listed = [
        [(v.number, v.batch, v.sha256, v.reason) for v in Versions(tmp_path / name / "models").listed]
        for name in ("crash", "whole")
    ]
    assert listed[0] == listed[1]


SCRIPT = """
import sys
from pathlib import Path
import pyarrow.parquet as pq
sys.path[:0] = {path!r}
from test_job import TableBatch, job, State, StreamSettings
folder, logs = Path(sys.argv[1]), sorted(Path(sys.argv[2]).iterdir())
known = State.load(folder)
start = max(0, known.facts.batch) if known else 0
made = job(folder, StreamSettings(fit_every=3))
print("ready", flush=True)
for number in range(start, len(logs)):
    made.batch(TableBatch(number, pq.read_table(logs[number])))
"""


def test_killed_at_random_moments_it_counts_the_same(tmp_path):
    """A process that is killed with SIGKILL five times at random ends with the counts of an unbroken run."""
    tables = parts(30, queries=100)
    logs = tmp_path / "logs"
    logs.mkdir()
    for place, table in enumerate(tables):
        pq.write_table(table, logs / f"{place:03}.parquet")
    here = Path(__file__).parent
    script = tmp_path / "run.py"
    script.write_text(SCRIPT.format(path=[str(here), str(here.parent)]))
    rng = np.random.default_rng(1)
    kills = 0
    for attempt in range(40):
        process = subprocess.Popen(
            [sys.executable, script, tmp_path / "out", logs], stdout=subprocess.PIPE, text=True
        )
        assert process.stdout.readline() == "ready\n"
        if attempt < 5:
            time.sleep(rng.random() * 0.15)
            process.send_signal(signal.SIGKILL)
        code = process.wait(timeout=60)
        process.stdout.close()
        kills += code == -signal.SIGKILL
        if code == 0:
            break
    assert kills >= 3
    assert same_counts(State.load(tmp_path / "out").tally, counted(tables))
    feed(job(tmp_path / "whole", StreamSettings(fit_every=3)), tables)
    shown = [(tmp_path / name / "models" / "current.json").read_bytes() for name in ("out", "whole")]
    assert shown[0] == shown[1]


def test_settings_out_of_range_are_refused():
    """Spans of time without a unit, shares past 1 and models to keep below 1."""
    assert seconds("1.5 hours", "half_life") == 5_400.0
    for bad in ("7", "0 days", "-1 hours", "a day", "2 fortnights"):
        with pytest.raises(eo.SettingsError, match="half_life"):
            seconds(bad, "half_life")
    for wrong in ({"keep": 0}, {"max_bad": 2.0}, {"limit": 0.0}, {"drift_every": 0}, {"cells": 0}):
        with pytest.raises(eo.SettingsError):
            StreamSettings(**wrong)


def test_the_state_of_a_stream_is_not_any_tally(tmp_path):
    """A tally of another making at the state's place is refused, and so is a damaged state."""
    counted(parts(1)).save(tmp_path / "state.tally")
    with pytest.raises(eo.DamagedFileError, match="not the state of a stream"):
        job(tmp_path)
    (tmp_path / "state.tally").write_bytes(b"nothing")
    with pytest.raises(eo.DamagedFileError):
        job(tmp_path)
