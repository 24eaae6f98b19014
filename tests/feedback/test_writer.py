"""Many callers, one thread that writes: everybody hears what became of theirs."""

import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

import evenodds as eo
from evenodds.feedback import Event, Fate, ServedList, Writer


@pytest.fixture
def writer(opened):
    """Return a writer, closed at the end."""
    made = Writer(opened(kind="plain"))
    yield made
    made.close()


def one(key, *items):
    """Return a list of items in one group."""
    return ServedList(key, items, [0.5] * len(items), [("a",)] * len(items))


def test_callers_in_many_threads_get_their_own_fates(writer, target):
    """Fates come back to whoever sent the events, whatever shared the transaction."""

    def call(number):
        key = f"r{number}"
        served = [one(key, "x", "y")] if number % 2 else []
        return writer.submit(served, [Event(key, "x", 1), Event(key, "x", 1), Event(key, "z", 1)]).result(30)

    with ThreadPoolExecutor(16) as pool:
        fates = list(pool.map(call, range(200)))
    for number, found in enumerate(fates):
        first = Fate.COUNTED if number % 2 else Fate.WAITING
        second = Fate.REPEATED if number % 2 else Fate.WAITING
        assert found == [first, second, Fate.WAITING]
    assert eo.tally(target, cells=3, settle=0).counts[:, 1:].sum() == 100


def test_what_waits_shares_a_transaction(writer, monkeypatch):
    """While a transaction is under way others queue, and the next one takes them all."""
    sizes = []
    write = writer.store.write
    gate = threading.Event()

    def slow(shown, events):
        sizes.append(len(events))
        gate.wait(10)
        return write(shown, events)

    monkeypatch.setattr(writer.store, "write", slow)
    futures = [writer.submit([], [Event("k", f"{n}", 1)]) for n in range(50)]
    time.sleep(0.05)
    gate.set()
    assert [future.result(10) for future in futures] == [[Fate.WAITING]] * 50
    assert len(sizes) <= 3
    assert sum(sizes) == 50


def test_too_much_at_once_is_refused(opened, monkeypatch):
    """Past its limit the queue refuses at once, rather than to grow without end."""
    writer = Writer(opened(kind="plain"), max_queued=10)
    gate = threading.Event()
    write = writer.store.write
    monkeypatch.setattr(writer.store, "write", lambda *args: (gate.wait(10), write(*args))[1])
    first = writer.submit([], [Event("k", f"{n}", 1) for n in range(8)])
    with pytest.raises(eo.StoreError, match="is behind: 8 impressions and events"):
        writer.submit([], [Event("k", "a", 1), Event("k", "b", 1), Event("k", "c", 1)])
    gate.set()
    assert len(first.result(10)) == 8
    writer.close()
    with pytest.raises(eo.StoreError, match="is closed"):
        writer.submit([], [])


def test_an_error_reaches_all_that_shared_it_and_no_others(writer, monkeypatch):
    """A store that is locked or full is an error to those who waited; later ones are stored again."""
    write = writer.store.write

    def fails(_shown, _events):
        raise eo.StoreError("no space left")

    monkeypatch.setattr(writer.store, "write", fails)
    futures = [writer.submit([], [Event("k", f"{n}", 1)]) for n in range(3)]
    for future in futures:
        with pytest.raises(eo.StoreError, match="no space left"):
            future.result(10)
    monkeypatch.setattr(writer.store, "write", write)
    assert writer.submit([], [Event("k", "0", 1)]).result(10) == [Fate.WAITING]


def test_one_that_cannot_be_written_does_not_take_others_along(writer, monkeypatch):
    """When a shared transaction fails for a reason of its content, each caller's part is tried by itself."""
    write = writer.store.write
    gate = threading.Event()

    def picky(shown, events):
        gate.wait(10)
        if any(event.item == "bad" for event in events):
            raise ValueError("bad")
        return write(shown, events)

    monkeypatch.setattr(writer.store, "write", picky)
    futures = [writer.submit([], [Event("k", name, 1)]) for name in ("a", "bad", "c")]
    gate.set()
    assert futures[0].result(10) == futures[2].result(10) == [Fate.WAITING]
    with pytest.raises(ValueError, match="bad"):
        futures[1].result(10)


def test_closing_writes_what_is_queued(opened, target):
    """A writer that is closed has written everything that it took."""
    writer = Writer(opened(kind="plain"))
    futures = [writer.submit([one(f"r{n}", "x")], [Event(f"r{n}", "x", n % 2)]) for n in range(300)]
    writer.close()
    assert all(future.done() for future in futures)
    assert eo.tally(target, cells=3, settle=0).rows == 300


def test_a_caller_that_went_away_harms_nobody(writer):
    """A future that was cancelled is left alone; its neighbours get theirs."""
    first = writer.submit([], [Event("k", "a", 1)])
    first.cancel()
    assert writer.submit([], [Event("k", "b", 1)]).result(10) == [Fate.WAITING]


def test_bad_events_are_refused_before_they_are_queued(writer):
    """What cannot be stored is said at once, in one line, and nothing is stored."""
    for event, message in (
        (Event("k", "x", 2), "label 2; expected 0 or 1"),
        (Event("k", "x", -1), "label -1; expected 0 or 1"),
        (Event("k", "x", float("nan")), "label nan"),
        (Event("k", "x", 0.5), "label 0.5"),
        (Event("k", "x", 1, 0), "position 0; expected a whole number from 1 on"),
        (Event("k", "x", 1, -3), "position -3"),
        (Event("k", "x", 1, 2**40), "position 1099511627776"),
        (Event("k", "x", 1, float("nan")), "position nan"),
        (Event("", "x", 1), "key is empty text"),
        (Event("k", "", 1), "item is empty text"),
        (Event(None, "x", 1), "key is a NoneType; expected text or a whole number"),
        (Event("k", 1.5, 1), "item is a float; expected text or a whole number"),
        (Event("k", True, 1), "item is a bool"),
        (Event("k" * 1001, "x", 1), "key has 1,001 characters"),
        (Event("k\0", "x", 1), "no text that can be stored"),
        (Event("k", "\ud800", 1), "no text that can be stored"),
        (Event(2**70, "x", 1), "key has more than 64 bits"),
    ):
        with pytest.raises(eo.SettingsError, match=message) as error:
            writer.submit([], [event])
        assert "\n" not in str(error.value)
    for shown, message in (
        (ServedList("k", ["x"], [0.5, 0.4], [("a",)]), "1 items, 2 scores and 1 groups"),
        (ServedList("k", ["x"], [float("nan")], [("a",)]), "a score is NaN or infinite"),
        (ServedList("k", ["x"], [0.5], [("a", "b")]), "a group does not have 1 names"),
        (ServedList("k", [""], [0.5], [("a",)]), "item 0 is empty text"),
    ):
        with pytest.raises(eo.SettingsError, match=message):
            writer.submit([shown])
    assert writer.store.status().lists == 0


WORKER = """
import sys
from evenodds.feedback import Event, ServedList, Store
target, worker = sys.argv[1:]
store = Store(target, kind="plain")
for n in range(60):
    store.record([ServedList(f"r{n}", ["x", "y"], [0.5, 0.4], [("a",), (f"group {n % 5}",)])],
                 [Event(f"r{n}", "x", 1), Event(f"r{n}", f"only {worker}", 1)])
store.close()
"""


def test_several_processes_write_one_store(target):
    """Processes that make one store at the same time, and write the same lists to it, end in one of each."""
    running = [
        subprocess.Popen(
            [sys.executable, "-c", WORKER, target, str(number)], stderr=subprocess.PIPE, text=True
        )
        for number in range(3)
    ]
    assert [(process.communicate(timeout=60)[1], process.returncode) for process in running] == [("", 0)] * 3
    counts = eo.tally(target, cells=3, settle=0)
    assert counts.rows == 120
    assert counts.counts[:, 1:].sum() == 60


KILLED = """
import sys
from evenodds.feedback import Event, ServedList, Store, Writer
writer = Writer(Store(sys.argv[1], kind="plain"))
for n in range(int(sys.argv[2]), 10**6):
    writer.submit([ServedList(f"r{n}", ["x"], [0.5], [("a",)])], [Event(f"r{n}", "x", n % 2)]).result()
    print(n, flush=True)
"""


def test_nothing_acknowledged_is_lost_when_the_writer_is_killed(target):
    """A process that is killed has stored all that it acknowledged, at most one more, and none in part."""
    first = 0
    for seconds in (0.05, 0.2, 0.12):
        process = subprocess.Popen(
            [sys.executable, "-c", KILLED, target, str(first)], stdout=subprocess.PIPE, text=True
        )
        process.stdout.readline()
        time.sleep(seconds)
        process.send_signal(signal.SIGKILL)
        said = process.communicate(timeout=60)[0].split("\n")
        acknowledged = int([line for line in said[:-1] if line][-1]) + 1 if said[:-1] else first + 1
        counts = eo.tally(target, cells=3, settle=0)
        assert counts.rows in {acknowledged, acknowledged + 1}
        assert counts.counts[:, 1:].sum() == counts.rows // 2
        first = acknowledged  # what was not acknowledged is sent again
    assert first > 10


def test_two_that_write_without_pause_take_turns(opened):
    """Two writers in tight loops both get on: nobody is kept out until its patience ends."""
    stores = [opened(kind="plain"), opened(kind="plain")]
    done = [0, 0]
    until = time.monotonic() + 1.0

    def write(number):
        while time.monotonic() < until:
            stores[number].record([one(f"{number} {done[number]}", "x")], [])
            done[number] += 1

    threads = [threading.Thread(target=write, args=(number,)) for number in (0, 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert min(done) > 0.15 * max(done)
