"""The tally on disk: back as it was, or refused."""

import json
from contextlib import suppress

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import evenodds as eo
from evenodds.tally_file import VERSION, is_tally


@pytest.fixture(scope="module")
def tally(mixed):
    return eo.tally(mixed, cells=12)


@pytest.fixture
def saved(tally, tmp_path):
    path = tmp_path / "day.tally"
    tally.save(path)
    return path


def rewritten(path, change):
    """Write the file again after a change to its table or to its head."""
    table = pq.read_table(path)
    head = json.loads(table.schema.metadata[b"evenodds"])
    table, head = change(table, head)
    pq.write_table(table.replace_schema_metadata({b"evenodds": json.dumps(head).encode()}), path)


@pytest.mark.parametrize(
    "roles", [{}, {"weight": None}, {"query": None}, {"position": None}, {"group": ["group", "age"]}], ids=str
)
def test_a_tally_comes_back_as_it_was(mixed, tmp_path, roles):
    """What is loaded equals what was saved: counts, kinds of number, grid, roles and provenance."""
    before = eo.tally(mixed, cells=12, **roles)
    before.save(tmp_path / "t")
    after = eo.Tally.load(tmp_path / "t")
    assert after.equals(before)
    assert (after.roles, after.sources, after.depth) == (before.roles, before.sources, before.depth)
    assert after.counts.dtype == before.counts.dtype
    assert after.grid.atoms.tolist() == before.grid.atoms.tolist()


def test_swaps_and_decay_come_back(mixed, tmp_path):
    """Counts of swapped pairs and decayed counts are kept to the last bit."""
    position = mixed["position"].to_numpy().astype(int)
    table = mixed.append_column("swap", pa.array(position - (position + 1) % 2))
    before = eo.tally(table, cells=5, swap="swap").decay(1 / 3)
    before.save(tmp_path / "t")
    assert eo.Tally.load(tmp_path / "t").equals(before)


def test_a_loaded_tally_merges(mixed, tally, saved):
    """A loaded tally merges with a fresh one, and serves as a grid."""
    again = eo.Tally.load(saved)
    assert eo.tally(mixed, grid=again).equals(tally)
    assert (again + tally).rows == 2 * tally.rows


def test_the_same_tally_is_the_same_file(mixed, tally, saved, tmp_path):
    """Counting and saving twice gives byte-identical files."""
    eo.tally(mixed, cells=12).save(tmp_path / "twice.tally")
    assert (tmp_path / "twice.tally").read_bytes() == saved.read_bytes()


def test_a_truncated_file_is_refused(saved):
    """A file cut anywhere is refused as not whole."""
    content = saved.read_bytes()
    for size in (0, 3, len(content) // 2, len(content) - 1):
        saved.write_bytes(content[:size])
        with pytest.raises(eo.DamagedFileError, match=r"day.tally is not a whole tally file"):
            eo.Tally.load(saved)


def test_no_flipped_bit_goes_unnoticed(tally, saved):
    """A file with one flipped bit either is refused, or holds exactly the same tally."""
    content = saved.read_bytes()
    for place in range(4, len(content), len(content) // 60):
        damaged = bytearray(content)
        damaged[place] ^= 0x10
        saved.write_bytes(damaged)
        with suppress(eo.DamagedFileError):
            assert eo.Tally.load(saved).equals(tally)


CHANGES = {
    "a count": lambda table, head: (
        table.set_column(2, "count", pa.array(table["count"].to_numpy() + (np.arange(table.num_rows) == 3))),
        head,
    ),
    "a place": lambda table, head: (
        table.set_column(1, "place", pa.array(table["place"].to_numpy() + (np.arange(table.num_rows) == 3))),
        head,
    ),
    "a row left out": lambda table, head: (table.slice(1), head),
    "a column left out": lambda table, head: (table.drop_columns(["place"]), head),
    "a group's name": lambda table, head: (table, {**head, "groups": [["x"], *head["groups"][1:]]}),
    "a boundary": lambda table, head: (
        table,
        {**head, "grid": {**head["grid"], "boundaries": [b + 1e-9 for b in head["grid"]["boundaries"]]}},
    ),
    "no checksum": lambda table, head: (table, {k: v for k, v in head.items() if k != "checksum"}),
}


@pytest.mark.parametrize("change", CHANGES)
def test_an_edited_file_is_refused(saved, change):
    """A file with any number, name or column changed is refused by its checksum."""
    rewritten(saved, CHANGES[change])
    with pytest.raises(eo.DamagedFileError, match="has been changed since it was written"):
        eo.Tally.load(saved)


def test_a_newer_file_is_refused(saved):
    """A file of a later version is refused, with the advice to upgrade."""
    rewritten(saved, lambda table, head: (table, {**head, "version": VERSION + 1}))
    with pytest.raises(eo.NewerVersionError, match=f"version {VERSION + 1}.*up to {VERSION}.*upgrade"):
        eo.Tally.load(saved)


def test_other_files_are_refused(tmp_path, mixed):
    """A log, a text and a missing file are not tallies, and are told apart."""
    pq.write_table(mixed, tmp_path / "log.parquet")
    (tmp_path / "note.tally").write_text("hello")
    for name, message in (
        ("log.parquet", "is not a tally file"),
        ("note.tally", "is not a whole tally file"),
        ("nowhere.tally", "no such file"),
    ):
        with pytest.raises(eo.DamagedFileError, match=message):
            eo.Tally.load(tmp_path / name)


def test_tallies_are_told_from_logs(tmp_path, mixed, tally):
    """A tally is known by its content or its name; a log is none."""
    tally.save(tmp_path / "odd-name.parquet")
    pq.write_table(mixed, tmp_path / "log.parquet")
    assert is_tally(tmp_path / "odd-name.parquet")
    assert is_tally("missing.tally")
    assert not is_tally(tmp_path / "log.parquet")
    assert not is_tally(tmp_path / "missing.csv")


def test_an_existing_file_is_kept(tally, saved):
    """Saving over a file is refused unless it is asked for."""
    before = saved.read_bytes()
    with pytest.raises(eo.OutputError, match="exists already"):
        tally.decay(0.5).save(saved)
    assert saved.read_bytes() == before
    tally.decay(0.5).save(saved, overwrite=True)
    assert saved.read_bytes() != before


def test_nothing_is_left_of_a_failed_write(tally, saved, monkeypatch):
    """When writing fails half-way, the old file stands as it was and no part of a new one is left."""
    before = saved.read_bytes()

    def full_disk(_table, path, **_options):
        path.write_bytes(b"half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(pq, "write_table", full_disk)
    with pytest.raises(eo.OutputError, match=r"cannot write .*day.tally: No space left on device"):
        tally.save(saved, overwrite=True)
    assert saved.read_bytes() == before
    assert [path.name for path in saved.parent.iterdir()] == ["day.tally"]


def test_facts_that_stand_and_fall_with_the_counts(tmp_path, counted):
    """What is written beside the counts comes back, other readers pass over it, and the checksum covers it."""
    from evenodds.tally_file import read_with_extra, write

    path = tmp_path / "state.tally"
    write(counted, path, extra={"batch": 7, "refused": {"ä": 1}}, durable=True)
    tally, extra = read_with_extra(path)
    assert extra == {"batch": 7, "refused": {"ä": 1}}
    assert tally.equals(counted)
    assert eo.Tally.load(path).equals(counted)
    table = pq.read_table(path)
    head = table.schema.metadata[b"evenodds"].replace(b'"batch": 7', b'"batch": 8')
    pq.write_table(table.replace_schema_metadata({b"evenodds": head}), path)
    with pytest.raises(eo.DamagedFileError, match="checksum"):
        eo.Tally.load(path)
