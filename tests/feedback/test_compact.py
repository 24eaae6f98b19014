"""Folding keeps every count, once, and makes room; both databases."""

import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

import evenodds as eo
from evenodds.compact import compact
from evenodds.feedback import Event, Fate, ServedList
from evenodds.feedback.postgres import Postgres
from evenodds.feedback.rows import Rows
from evenodds.feedback.sqlite import SQLite
from evenodds.tally_file import to_bytes

DAY = 86_400.0


@pytest.fixture(autouse=True)
def no_pause(monkeypatch):
    """Fold one block right after the other."""
    monkeypatch.setattr("evenodds.compact._PAUSE", 0.0)


def fill(store, lists, age, *, size=8, first=0, seed=0):
    """Serve lists of an age in seconds and click some of it."""
    rng = np.random.default_rng([seed, first])
    now = time.time()
    shown, events = [], []
    for number in range(first, first + lists):
        scores = np.sort(rng.random(size))[::-1]
        groups = [("ab"[code],) for code in rng.integers(0, 2, size)]
        shown.append(ServedList(f"r{number}", [f"i{n}" for n in range(size)], scores, groups, "m", now - age))
        events += [Event(f"r{number}", f"i{n}", 1, n + 1) for n in np.flatnonzero(rng.random(size) < 0.3)]
    store.record(shown, events)
    return events


def same_counts(one, other):
    """Whether two tallies hold the same counts; the number of rows included."""
    return one.groups == other.groups and (one.counts == other.counts).all() and one.rows == other.rows


def test_folding_changes_no_count(target, opened):
    """A store counts the same before and after some of it is folded, on the same cells."""
    store = opened()
    fill(store, 60, 40 * DAY)
    recent = len(fill(store, 40, 2 * 3600.0, first=60))
    before = eo.tally(target, cells=20)
    compact(target, older_than=30 * DAY, cells=20)
    after = eo.tally(target)
    assert before.rows == after.rows == 800
    again = eo.tally(target, grid=after)
    assert same_counts(after, again)
    assert before.counts.sum() == after.counts.sum()
    assert (before.counts.sum(axis=3) == after.counts.sum(axis=3)).all()
    found = store.status()
    assert (found.lists, found.folded_lists, found.folded_rows) == (40, 60, 480)
    assert sum(found.labels.values()) == recent


@pytest.mark.parametrize("size", [1, 7, 2_000])
def test_folding_in_blocks_counts_each_row_once(target, opened, monkeypatch, size):
    """Blocks of any size, in several runs, end in the tally of one count over all rows."""
    monkeypatch.setattr("evenodds.compact._LISTS", size + 1)
    store = opened()
    fill(store, 30, 40 * DAY)
    whole = eo.tally(target, cells=15)
    done = compact(target, older_than=30 * DAY, cells=15)
    assert (done.lists, done.rows) == (30, 240)
    assert same_counts(eo.tally(target), whole)
    fill(store, 10, 40 * DAY, first=30)
    expected = eo.tally(target)
    assert compact(target, older_than=30 * DAY).lists == 10
    assert same_counts(eo.tally(target), expected)
    assert compact(target, older_than=30 * DAY).lists == 0
    assert same_counts(eo.tally(target), expected)


def test_labels_after_folding_are_not_counted(target, opened):
    """A label for what was folded waits and changes nothing; sent twice or not."""
    store = opened()
    events = fill(store, 20, 40 * DAY)
    compact(target, older_than=30 * DAY, cells=10)
    counts = eo.tally(target)
    late = [events[0], Event("r0", "i0", 1), Event("r1", "i1", 1)]
    assert store.record([], late) == [Fate.WAITING] * 3
    assert eo.tally(target).equals(counts)


def test_a_key_is_folded_with_all_its_lists(target, opened):
    """A key of which one list is recent stays whole, or its item would be an impression twice."""
    store = opened()
    now = time.time()
    one = ServedList("k", ["x", "y"], [0.5, 0.4], [("a",), ("b",)], "m", now - 40 * DAY)
    two = ServedList("k", ["x", "z"], [0.5, 0.3], [("a",), ("b",)], "m", now - 3 * 3600)
    store.record([one, two], [Event("k", "x", 1)])
    assert compact(target, older_than=30 * DAY).lists == 0
    assert compact(target, older_than=3600, cells=3).rows == 3
    assert eo.tally(target).counts[:, 1:].sum() == 1


def test_folding_that_fails_changes_nothing(target, opened, monkeypatch):
    """When the tally cannot be written, rows and labels are all still there."""
    store = opened()
    fill(store, 20, 40 * DAY)
    expected = eo.tally(target, cells=10)

    def fails(_tally):
        raise MemoryError

    monkeypatch.setattr("evenodds.compact.to_bytes", fails)
    with pytest.raises(MemoryError):
        compact(target, older_than=30 * DAY, cells=10)
    assert eo.tally(target, cells=10).equals(expected)
    monkeypatch.undo()


def test_folding_that_fails_half_way_changes_nothing(target, opened, monkeypatch):
    """When rows cannot be deleted the tally is not kept either: nothing counts twice."""
    store = opened()
    fill(store, 20, 40 * DAY)
    expected = eo.tally(target, cells=10)

    def fails(_self, _keys):
        raise eo.StoreError("no space left")

    for kind in (SQLite, Postgres):
        monkeypatch.setattr(kind, "delete", fails)
    with pytest.raises(eo.StoreError, match="no space left"):
        compact(target, older_than=30 * DAY, cells=10)
    monkeypatch.undo()
    assert eo.tally(target, cells=10).equals(expected)
    assert store.status().folded_lists == 0


def test_nobody_writes_while_a_block_is_folded(target, opened, monkeypatch):
    """A label that comes while its list is being counted waits for the block, and is not deleted with it unseen."""
    store = opened()
    fill(store, 5, 40 * DAY)
    store._database._busy = 0.1
    if target.startswith("postgres"):
        store._database.execute("SET lock_timeout = 100")
    refused = []

    def meanwhile(tally):
        try:
            store.record([], [Event("r0", "i0", 1)])
        except eo.StoreError as error:
            refused.append(str(error))
        return to_bytes(tally)

    monkeypatch.setattr("evenodds.compact.to_bytes", meanwhile)
    compact(target, older_than=30 * DAY, cells=10)
    assert len(refused) == 1
    assert "is locked by another process" in refused[0]
    assert store.record([], [Event("r0", "i0", 1)]) == [Fate.WAITING]


def test_a_key_at_the_end_of_a_block_is_folded_whole(target, opened, monkeypatch):
    """Lists of one key go in one block, or the item that stands in both would be an impression twice."""
    monkeypatch.setattr("evenodds.compact._LISTS", 3)
    store = opened(kind="plain")
    old = time.time() - 40 * DAY
    lists = [
        ServedList(key, ["same", own], [0.5, 0.4], [("a",), ("b",)], "m", old + place)
        for place, (key, own) in enumerate([("a", "1"), ("b", "2"), ("b", "3"), ("c", "4"), ("c", "5")])
    ]
    store.record(lists, [Event("b", "same", 1), Event("c", "same", 1)])
    done = compact(target, older_than=30 * DAY, cells=3)
    assert (done.lists, done.rows, done.positives) == (5, 8, 2)
    monkeypatch.setattr("evenodds.compact._LISTS", 2)
    store.record([ServedList("d", [own], [0.5], [("a",)], "m", old) for own in "123"], [])
    assert compact(target, older_than=30 * DAY).lists == 3  # one key, more lists than a block
    assert eo.tally(target).rows == 11


def test_a_server_has_its_turn_while_much_is_folded(target, opened, monkeypatch):
    """Between two blocks others write: nobody waits for the whole of a compaction."""
    monkeypatch.setattr("evenodds.compact._LISTS", 5)
    monkeypatch.setattr("evenodds.compact._PAUSE", 0.01)
    store = opened()
    fill(store, 60, 40 * DAY)
    folding = threading.Thread(target=compact, args=(target,), kwargs={"older_than": 30 * DAY, "cells": 10})
    folding.start()
    written = 0
    while folding.is_alive():
        store.record([], [Event("new", f"i{written}", 1)])
        written += 1
    folding.join()
    assert written > 5
    assert store.status(settle=0).folded_lists == 60


def test_models_are_the_same_from_rows_and_from_what_was_folded(target, opened):
    """A model fitted on the tally of a folded store has the same numbers as one fitted on its rows."""
    store = opened()
    fill(store, 400, 40 * DAY, size=10)
    settings = {"min_positives": 5, "position_bias": "none"}
    rows = eo.EqualOpportunity(**settings).fit(eo.tally(target, cells=50))
    compact(target, older_than=30 * DAY, cells=50)
    folded = eo.EqualOpportunity(**settings).fit(eo.tally(target))
    assert rows.to_dict()["tables"] == folded.to_dict()["tables"]


def test_compacting_makes_no_store_and_needs_no_secret(target, tmp_path, monkeypatch):
    """A store that is not there is an error, not a new store."""
    with pytest.raises(eo.EvenoddsError, match=r"no such file|holds no feedback store"):
        compact(target)
    with pytest.raises(eo.EvenoddsError):
        Rows(target)


def test_an_empty_store_compacts_to_nothing(target, opened):
    """Nothing served, nothing folded."""
    opened()
    assert compact(target).lists == 0


def test_items_without_a_group_are_folded_away(target, opened):
    """A block in which no item has a known group is deleted and counts nothing."""
    store = opened()
    old = time.time() - 40 * DAY
    store.record([ServedList("k", ["x"], [0.5], [(None,)], "m", old)], [Event("k", "x", 1)])
    done = compact(target, older_than=DAY)
    assert (done.lists, done.rows) == (1, 0)
    assert store.status().lists == 0


KILLED = """
import sys
from evenodds import compact
compact._LISTS, compact._PAUSE = 3, 0.0
print(flush=True)
compact.compact(sys.argv[1], older_than=30 * 86_400.0, progress=lambda rows: print(rows, flush=True))
"""


def test_a_compaction_that_is_killed_goes_on_where_it_was(target, opened):
    """Killed in the middle twice, and run once more: the same tally as one count over all rows."""
    store = opened()
    fill(store, 150, 40 * DAY)
    seen = []
    for blocks in (4, 3):
        process = subprocess.Popen([sys.executable, "-c", KILLED, target], stdout=subprocess.PIPE, text=True)
        for _ in range(1 + blocks):
            process.stdout.readline()
        process.send_signal(signal.SIGKILL)
        process.communicate()
        found = store.status(settle=0)
        seen.append(found.folded_lists)
        assert found.folded_lists + found.lists == 150
        assert found.folded_rows + found.rows == 1_200
    assert 0 < seen[0] < seen[1] < 150
    grid = eo.tally(target)
    compact(target, older_than=30 * DAY)
    whole = eo.tally(target)
    assert (store.status(settle=0).lists, whole.rows) == (0, 1_200)
    assert same_counts(whole, grid)
