"""The model file: back bit for bit, the same bytes every time, or refused."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

import evenodds as eo
from evenodds.reranker import VERSION, readable_json, sealed
from worlds import decay, draw

GOLDEN = Path(__file__).parent / "golden"


@pytest.fixture(scope="module")
def log():
    return draw(np.random.default_rng(0), 800)


@pytest.fixture(scope="module")
def counts(log):
    return eo.tally(log, cells=300)


@pytest.fixture(scope="module")
def model(counts):
    return eo.EqualOpportunity().fit(counts)


@pytest.fixture
def saved(model, tmp_path):
    path = tmp_path / "model.json"
    model.save(path)
    return path


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"scale": "unit"},
        {"alpha": 0.3, "interpolation": "cubic", "points": 77},
        {"unknown": "keep"},
        {"position_bias": decay(10)},
        {"position_bias": {1: 1.0, 5: 0.4}},
    ],
    ids=str,
)
def test_a_loaded_model_transforms_bit_for_bit(counts, tmp_path, settings):
    """Saving and loading keeps every bit of every transform, and every setting."""
    before = eo.EqualOpportunity(**settings).fit(counts)
    before.save(tmp_path / "m.json")
    after = eo.load(tmp_path / "m.json")
    scores = np.random.default_rng(2).uniform(-0.2, 1.2, 3_000)
    groups = np.array(["a", "b", "zzz"])[np.random.default_rng(3).integers(0, 3, 3_000)]
    assert (after.transform(scores, groups) == before.transform(scores, groups)).all()
    assert type(after) is eo.EqualOpportunity
    assert after.to_dict() == before.to_dict()
    after.save(tmp_path / "again.json")
    assert (tmp_path / "again.json").read_bytes() == (tmp_path / "m.json").read_bytes()


def test_keyed_draws_survive_saving(tied, tmp_path):
    """A model with ties draws the same numbers for the same keys after it was loaded."""
    before = eo.EqualOpportunity().fit(tied)
    before.save(tmp_path / "m.json")
    columns = tied["score"], tied["group"]
    assert (
        eo.load(tmp_path / "m.json").transform(*columns, keys=tied["item"])
        == before.transform(*columns, keys=tied["item"])
    ).all()


def test_the_same_log_gives_the_same_bytes(log, saved, tmp_path):
    """Counting, fitting and saving the same log again gives a byte-identical file."""
    eo.EqualOpportunity().fit(eo.tally(log, cells=300)).save(tmp_path / "again.json")
    assert (tmp_path / "again.json").read_bytes() == saved.read_bytes()


def test_another_process_writes_the_same_bytes(log, tmp_path):
    """Another process, with another hash seed and other threads, fits the same file byte for byte."""
    pq.write_table(log, tmp_path / "log.parquet")
    source = str(tmp_path / "log.parquet")
    eo.EqualOpportunity().fit(source).save(tmp_path / "here.json")
    code = "import sys, evenodds as eo; eo.EqualOpportunity().fit(sys.argv[1]).save(sys.argv[2])"
    other = {**os.environ, "PYTHONHASHSEED": "7", "OMP_NUM_THREADS": "2", "OPENBLAS_NUM_THREADS": "2"}
    subprocess.run([sys.executable, "-c", code, source, tmp_path / "there.json"], env=other, check=True)
    assert (tmp_path / "there.json").read_bytes() == (tmp_path / "here.json").read_bytes()


def test_the_file_can_be_read_by_people(saved, log):
    """The file is JSON, one entry a line, and tells what it was fitted on."""
    body = json.loads(saved.read_text(encoding="utf-8"))
    assert body["format"] == "evenodds-model"
    assert body["criterion"] == "opportunity"
    assert body["fitted_on"]["rows"] == log.num_rows
    assert body["fitted_on"]["roles"] == {
        "score": "score", "group": ["group"], "label": "label", "position": "position", "query": "query",
    }  # fmt: skip
    assert [row["group"] for row in body["tables"]["cdf"]] == ["a", "b", "pooled"]
    lines = saved.read_text(encoding="utf-8").splitlines()
    assert '  "criterion": "opportunity",' in lines
    assert lines[-2].startswith('  "checksum": "sha256:')


def test_the_checksum_is_over_the_bytes_before_it(saved):
    """Any program can check the file: SHA-256 over the text up to the checksum's own line."""
    import hashlib

    text = saved.read_text(encoding="utf-8")
    body, _, seal = text.rpartition(',\n  "checksum": "sha256:')
    assert hashlib.sha256(body.encode()).hexdigest() == seal[:64]


def test_a_damaged_file_is_refused(saved):
    """A file cut anywhere, emptied or overwritten is refused by name."""
    content = saved.read_bytes()
    for broken in (
        b"",
        content[:1],
        content[: len(content) // 2],
        content[:-3],
        b"\xff\xfe\x00",
        b"[1]",
        b'{"a": 1}',
    ):
        saved.write_bytes(broken)
        with pytest.raises(eo.DamagedFileError, match=r"model.json is not a (whole )?model file"):
            eo.load(saved)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"alpha": 1.0', '"alpha": 0.5'),
        ('"rows": 8000', '"rows": 9000'),
        ('"unknown": "pooled"', '"unknown": "keep"'),
        ('"group": "a"', '"group": "x"'),
        ("\n}\n", "\n}\n\n"),
    ],
)
def test_an_edited_file_is_refused(saved, old, new):
    """A file in which any entry, or even a blank, was changed is refused by its checksum."""
    text = saved.read_text(encoding="utf-8")
    assert old in text
    saved.write_text(text.replace(old, new, 1), encoding="utf-8")
    with pytest.raises(eo.DamagedFileError, match=r"has been changed since it was written.*evenodds fit"):
        eo.load(saved)


def test_a_newer_file_is_refused(model, tmp_path):
    """A file of a later version is refused, with the advice to upgrade."""
    newer = model.to_dict() | {"version": VERSION + 1}
    (tmp_path / "m.json").write_text(sealed(readable_json(newer)), encoding="utf-8")
    with pytest.raises(
        eo.NewerVersionError, match=f"version {VERSION + 1}; this program reads up to {VERSION}"
    ):
        eo.load(tmp_path / "m.json")


def test_an_unknown_criterion_is_refused(model, tmp_path):
    """A sealed file of a criterion that this program does not know is refused by name."""
    other = model.to_dict() | {"criterion": "karma"}
    (tmp_path / "m.json").write_text(sealed(readable_json(other)), encoding="utf-8")
    with pytest.raises(eo.DamagedFileError, match="unknown criterion 'karma'"):
        eo.load(tmp_path / "m.json")


def test_missing_files_and_folders_are_refused(tmp_path):
    """A path without a file, and a folder, are refused by name."""
    with pytest.raises(eo.DamagedFileError, match=r"no such file: .*none.json"):
        eo.load(tmp_path / "none.json")
    with pytest.raises(eo.DamagedFileError, match="cannot read"):
        eo.load(tmp_path)


def test_a_loaded_model_cannot_be_updated(saved, counts):
    """A file holds no counts: updating is refused, with the way around it."""
    with pytest.raises(eo.EvenoddsError, match=r"holds no counts to add to.*merge the tallies"):
        eo.load(saved).update(counts)


def test_nothing_is_left_of_a_failed_save(model, saved, monkeypatch):
    """When the disk is full in the middle of writing, the old file stands and no part of a new one."""
    before = saved.read_bytes()

    def full_disk(path, text, **_options):
        with path.open("w") as file:
            file.write(text[:100])
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_text", full_disk)
    with pytest.raises(eo.OutputError, match=r"cannot write .*model.json: No space left on device"):
        model.save(saved, overwrite=True)
    assert saved.read_bytes() == before
    assert [path.name for path in saved.parent.iterdir()] == ["model.json"]


def test_an_existing_file_is_kept(model, saved):
    """Saving over a file is refused unless it is asked for."""
    with pytest.raises(eo.OutputError, match="exists already"):
        model.save(saved)
    model.save(saved, overwrite=True)


def test_golden_transforms():
    """The committed model gives the committed fair scores, bit for bit: old files keep their meaning."""
    table = json.loads((GOLDEN / "transforms.json").read_text(encoding="utf-8"))
    model = eo.load(GOLDEN / "model.json")
    fair = model.transform(table["scores"], table["groups"], keys=table["keys"])
    assert [float(value).hex() for value in fair] == table["fair"]
