"""What is written is read: once, whole, joined, in any order, on both databases."""

import itertools
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

import evenodds as eo
from evenodds.feedback import Event, Fate, ServedList, Store, store as store_module
from oracles import feedback as oracle


def shown(key, items, *, scores=None, groups=None, served=None, model="m1"):
    """Return a served list."""
    size = len(items)
    return ServedList(
        key,
        items,
        scores if scores is not None else [0.9 - 0.1 * place for place in range(size)],
        groups if groups is not None else [("ab"[place % 2],) for place in range(size)],
        model,
        served,
    )


def read(target, *columns, settle=0):
    """Return the settled rows as a list of tuples, sorted."""
    log = eo.Log(target, settle=settle)
    batches = list(log.batches(list(columns)))
    return sorted(
        row for batch in batches for row in zip(*(c.to_pylist() for c in batch.columns), strict=True)
    )


def test_what_was_served_is_read_with_its_labels(target, opened):
    """Each item is a row: its list, place, score, group and model; label 0 without feedback."""
    store = opened(kind="plain")
    store.record(
        [shown("r1", ["x", "y", 7]), shown("r2", ["x"], model="m2")],
        [Event("r1", "y", 1), Event("r2", "x", 0)],
    )
    assert read(target, "query", "item", "position", "score", "group", "label", "model") == [
        ("r1", "7", 3, pytest.approx(0.7), "a", 0, "m1"),
        ("r1", "x", 1, pytest.approx(0.9), "a", 0, "m1"),
        ("r1", "y", 2, pytest.approx(0.8), "b", 1, "m1"),
        ("r2", "x", 1, pytest.approx(0.9), "a", 0, "m2"),
    ]


def test_fates_tell_what_became_of_events(opened):
    """News is counted, a repetition is not, and what was not served waits."""
    store = opened()
    store.record([shown("r1", ["x", "y"])], [])
    events = [
        Event("r1", "x", 1),
        Event("r1", "x", 1),
        Event("r1", "x", 0),
        Event("r1", "z", 1),
        Event("r2", "x", 1),
    ]
    c, r, w = Fate.COUNTED, Fate.REPEATED, Fate.WAITING
    assert store.record([], events) == [c, r, r, w, w]
    assert store.record([], events) == [r, r, r, w, w]
    assert store.record([], [Event("r1", "y", 0), Event("r1", "y", 1), Event("r1", "y", 0)]) == [c, c, r]


def test_the_order_of_events_and_lists_does_not_matter(target, opened):
    """Lists and events in any order, split over transactions in any way, end in the same rows."""
    parts = [
        ([shown("r1", ["x", "y"], served=1.0)], []),
        ([], [Event("r1", "x", 0, 2)]),
        ([], [Event("r1", "x", 1, 4)]),
        ([], [Event("r1", "x", 1), Event("r1", "y", 0, 1)]),
    ]
    seen = set()
    for number, order in enumerate(itertools.permutations(range(4))):
        store = opened(kind="plain")
        for part in order:
            lists, events = parts[part]
            store.record(
                [
                    ServedList(f"{number}", one.items, one.scores, one.groups, one.model, one.served)
                    for one in lists
                ],
                [Event(f"{number}", e.item, e.label, e.position) for e in events],
            )
        rows = read(target, "query", "item", "label", "position")
        seen.add(tuple(row[1:] for row in rows if row[0] == str(number)))
    assert seen == {(("x", 1, 2), ("y", 0, 1))}


def test_the_position_that_was_told_counts(target, opened):
    """Where the client showed an item beats where it was served; of several, the one nearest to the top."""
    store = opened(kind="plain")
    store.record([shown("r1", ["x", "y", "z"])], [Event("r1", "x", 1, 9), Event("r1", "y", 0)])
    store.record([], [Event("r1", "x", 0, 4), Event("r1", "x", 1, 6)])
    assert read(target, "item", "position", "label") == [("x", 4, 1), ("y", 2, 0), ("z", 3, 0)]


def test_a_label_may_come_before_its_list(target, opened):
    """Feedback for what is not served yet waits, is not read, and counts once its list is there."""
    store = opened(kind="plain")
    assert store.record([], [Event("r1", "x", 1)]) == [Fate.WAITING]
    assert store.status().waiting == 1
    store.record([shown("r1", ["x"])], [])
    assert read(target, "item", "label") == [("x", 1)]
    assert store.record([], [Event("r1", "x", 1)]) == [Fate.REPEATED]
    assert store.status().waiting == 0


def test_a_repeated_request_is_one_list(target, opened):
    """The same list served twice is one; an item of a key's second list counts where the first showed it."""
    store = opened(kind="plain")
    first = shown("r1", ["x", "y"], served=10.0)
    store.record([first, first], [])
    store.record([first], [])
    store.record([shown("r1", ["z", "y"], scores=[0.5, 0.4], served=20.0)], [Event("r1", "y", 1)])
    assert read(target, "item", "score", "position", "label") == [
        ("x", pytest.approx(0.9), 1, 0),
        ("y", pytest.approx(0.8), 2, 1),
        ("z", pytest.approx(0.5), 1, 0),
    ]


def test_an_item_twice_in_a_list_counts_once(target, opened):
    """Of an item that stands twice in one list, the upper place counts."""
    store = opened(kind="plain")
    store.record([shown("r1", ["x", "y", "x"])], [Event("r1", "x", 1)])
    assert read(target, "item", "position", "label") == [("x", 1, 1), ("y", 2, 0)]


def test_lists_settle_whole(target, opened):
    """Before the settling time a list is left out, its positives too; afterwards it is read whole."""
    store = opened(kind="plain")
    now = time.time()
    store.record(
        [shown("old", ["x", "y"], served=now - 120), shown("new", ["x", "y"], served=now - 30)],
        [Event("old", "x", 1), Event("new", "y", 1)],
    )
    assert read(target, "query", "item", "label", settle=60) == [("old", "x", 1), ("old", "y", 0)]
    assert len(read(target, "query", settle=0)) == 4
    with pytest.raises(
        eo.LogError, match=r"no settled impressions; 4 were served too recently \(hint: settle=0"
    ):
        eo.Log(target)


def test_late_labels_count_in_the_next_fit(target, opened):
    """A label that comes after its list has settled turns a negative into a positive."""
    store = opened(kind="plain")
    store.record([shown("r1", ["x"], served=time.time() - 1e6)], [])
    assert read(target, "label", settle=60) == [(0,)]
    assert store.record([], [Event("r1", "x", 1)]) == [Fate.COUNTED]
    assert read(target, "label", settle=60) == [(1,)]


def test_a_log_holds_one_state(target, opened):
    """What is written after a log was opened is not read through it: its passes agree."""
    store = opened(kind="plain")
    store.record([shown("r1", ["x", "y"])], [])
    log = eo.Log(target, settle=0)
    store.record([shown("r2", ["x"])], [Event("r1", "x", 1)])
    for _ in range(2):
        assert sum(batch.num_rows for batch in log.batches()) == log.rows == 2
        assert all(not any(batch["label"].to_pylist()) for batch in log.batches())
    assert len(read(target, "item")) == 3


def test_ids_are_not_in_the_store(target, opened):
    """By default no id is stored, only its hash under a secret; the same id has the same hash."""
    store = opened()
    store.record(
        [shown("anna@example.org", ["job-4711", "job-4712"])], [Event("anna@example.org", "job-4711", 1)]
    )
    if not target.startswith("postgres"):
        files = [path for path in Path(target).parent.iterdir() if path.name.startswith("feedback.db")]
        content = b"".join(path.read_bytes() for path in files)
        assert len(files) >= 2  # the file and its log
        assert not any(told in content for told in (b"anna", b"4711", b"secret that is"))
    rows = read(target, "query", "item", "label")
    assert len({row[0] for row in rows}) == 1
    assert all(isinstance(value, int) for value in rows[0])
    assert sorted(row[2] for row in rows) == [0, 1]


def test_ids_join_by_how_they_print(target, opened):
    """7 and "7" are one id, for keys and for items."""
    store = opened()
    store.record([shown(12, [7, "8"])], [])
    assert store.record([], [Event("12", "7", 1), Event(12, 8, 1)]) == [Fate.COUNTED, Fate.COUNTED]


def test_groups_and_their_columns_are_kept(target, opened):
    """Crossed groups come back as columns of their names; an item without a known group is left out."""
    store = opened(group_columns=["gender", "label"], kind="plain")
    groups = [("f", "30-39"), ("m", "30-39"), (None, "30-39"), ("", "x"), ("f", "40 × 49")]
    store.record([shown("r1", list("abcde"), groups=groups)], [])
    log = eo.Log(target, settle=0)
    assert log.roles.group == ("gender", "group_label")
    assert read(target, "item", "gender", "group_label") == [
        ("a", "f", "30-39"),
        ("b", "m", "30-39"),
        ("e", "f", "40 × 49"),
    ]
    assert eo.tally(log, cells=5).groups == (("f", "30-39"), ("f", "40 × 49"), ("m", "30-39"))


def test_outcomes_and_the_first_position_come_from_the_store(target, opened):
    """A store for three outcomes and positions from 0 is counted so without being told."""
    store = opened(outcomes=3, first_position=0, kind="plain")
    store.record([shown("r1", ["x", "y"])], [Event("r1", "x", 3, 0), Event("r1", "y", 2)])
    counts = eo.tally(target, cells=5, settle=0)
    assert counts.roles.outcomes == 3
    assert counts.counts.sum(axis=(0, 2, 3)).tolist() == [0, 0, 1, 1]
    assert counts.counts.sum(axis=(0, 1, 3)).tolist() == [1, 1]


def test_a_store_counts_as_the_same_rows_in_a_table(target, opened, mixed):
    """The tally of a store is that of the same rows as an Arrow table, folds included, with plain ids."""
    rows = mixed.select(["query", "item", "group", "score", "position"]).to_pylist()
    store = opened(kind="plain", group_columns=["group"])
    lists, events, table = [], [], []
    for key, members in itertools.groupby(rows, key=lambda row: row["query"]):
        known = {}
        for row in members:
            known.setdefault(row["item"], row)
        kept = list(known.values())
        lists.append(
            ServedList(
                key,
                [r["item"] for r in kept],
                [r["score"] for r in kept],
                [(r["group"],) for r in kept],
            )
        )
        for place, row in enumerate(kept, 1):
            label = int((row["item"] * 7 + place) % 3 == 0)
            events += [Event(key, row["item"], 1)] if label else []
            table.append({**row, "position": place, "label": label})
    store.record(lists, events)
    expected = eo.tally(pa.Table.from_pylist(table), cells=12)
    assert eo.tally(target, cells=12, settle=0).equals(expected)


EVENTS = st.lists(
    st.tuples(
        st.sampled_from(["list", "event"]),
        st.integers(0, 3),
        st.lists(st.integers(0, 4), min_size=1, max_size=4),
        st.integers(0, 2),
        st.one_of(st.none(), st.integers(1, 6)),
    ),
    max_size=25,
)


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(history=EVENTS, cuts=st.lists(st.integers(1, 6), max_size=6))
def test_any_history_reads_as_the_oracle_says(tmp_path, history, cuts):
    """Lists and events in any order and grouping, with repetitions, read as a loop over them says."""
    path = tmp_path / f"{abs(hash((str(history), str(cuts))))}.db"
    path.unlink(missing_ok=True)
    store = Store(path, outcomes=2, kind="plain")
    at = 0
    for size in [*cuts, len(history)]:
        part, at = history[at : at + size], at + size
        store.record(
            [
                shown(f"k{k}", items, served=1.0 + history.index(h))
                for h in part
                for kind, k, items, _, _ in [h]
                if kind == "list"
            ],
            [
                Event(f"k{k}", items[0], label, position)
                for kind, k, items, label, position in part
                if kind == "event"
            ],
        )
    store.close()
    expected = oracle.rows(
        [
            (f"k{k}", [str(item) for item in items], 1.0 + history.index(h))
            for h in history
            for kind, k, items, _, _ in [h]
            if kind == "list"
        ],
        [
            (f"k{k}", str(items[0]), label, position)
            for kind, k, items, label, position in history
            if kind == "event"
        ],
    )
    if expected:
        assert read(path, "query", "item", "position", "label") == expected
    path.unlink()


def test_waiting_labels_are_bounded_and_dropped(opened, monkeypatch):
    """Labels without a list are refused past a limit, and dropped after a time; served ones stay."""
    monkeypatch.setattr(store_module, "MAX_WAITING", 3)
    store = opened()
    store.record([shown("r", ["x"])], [])
    fates = store.record([], [Event(f"no {n}", "x", 1) for n in range(5)] + [Event("r", "x", 1)])
    assert fates == [Fate.WAITING] * 3 + [Fate.REFUSED] * 2 + [Fate.COUNTED]
    assert store.record([], [Event("another", "x", 1)]) == [Fate.REFUSED]
    store.record([shown("no 1", ["x"])], [])
    store.tidy()
    assert store.waiting == 2
    monkeypatch.setattr(store_module, "WAIT", -1.0)
    store.tidy()
    assert (store.waiting, store.status().waiting) == (0, 0)
    assert store.status().labels == {1: 2}
    assert store.record([], [Event("another", "x", 1)]) == [Fate.WAITING]


def test_too_many_group_names_do_not_fill_the_store(opened, monkeypatch):
    """A column of ids that was taken for groups stops being stored, and its items are not counted."""
    monkeypatch.setattr(store_module, "MAX_GROUPS", 3)
    store = opened(kind="plain")
    store.record([shown("r1", list("abcdef"), groups=[(f"person {n}",) for n in range(6)])], [])
    assert len(store.status().groups) <= 3


def test_status_counts(opened):
    """The status says how much there is, how much has settled, and what waits."""
    store = opened()
    now = time.time()
    store.record(
        [shown("r1", ["x", "y"], served=now - 7200), shown("r2", ["x", "y", "z"], served=now)],
        [Event("r1", "x", 1), Event("r1", "y", 0), Event("r9", "y", 1)],
    )
    found = store.status()
    assert (found.lists, found.rows, found.settled_lists, found.settled_rows) == (2, 5, 1, 2)
    assert (found.labels, found.waiting, found.models) == ({0: 1, 1: 1}, 1, ("m1",))
    assert found.oldest == pytest.approx(now - 7200, abs=0.01)
    assert found.newest == pytest.approx(now, abs=0.01)
    assert found.bytes > 0


def test_many_lists_of_one_key_are_joined_across_blocks(target, opened, monkeypatch):
    """A key whose lists do not fit one block of reading is still deduplicated and joined as a whole."""
    monkeypatch.setattr("evenodds.feedback.rows._FETCH", 2)
    store = opened(kind="plain")
    lists = [shown("k", [f"i{n}", "same"], served=10.0 + n) for n in range(7)] + [
        shown("l", ["x"]),
        shown("a", ["x"]),
    ]
    store.record(lists, [Event("k", "i6", 1), Event("k", "same", 1), Event("l", "x", 1)])
    rows = read(target, "query", "item", "position", "label")
    assert [row for row in rows if row[3]] == [("k", "i6", 1, 1), ("k", "same", 2, 1), ("l", "x", 1, 1)]
    assert len(rows) == 10


def test_numbers_come_back_to_the_bit(target, opened):
    """Scores of any size come back as they were, and negative zero stays."""
    scores = [1e-308, -0.0, 1e300, 0.1, float(np.nextafter(1, 2))]
    store = opened(kind="plain")
    store.record([shown("r", list("abcde"), scores=scores)], [])
    assert [row[1] for row in read(target, "item", "score")] == scores
