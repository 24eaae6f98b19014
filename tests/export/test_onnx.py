"""ONNX files give the fair scores of `transform`, to the bit, in onnxruntime."""

import json
import subprocess
import sys

import numpy as np
import onnx
import onnxruntime
import pytest

import evenodds as eo
from evenodds.cli import main
from evenodds.export import to_onnx
from evenodds.export.onnx import onnx_bytes
from fitted_models import Items, fitted
from other_stacks import feed, session


@pytest.mark.parametrize("name", ["opportunity, ties", "odds, movement", "odds, kept order"])
def test_the_same_without_optimisation(name):
    """The graph is right as it stands, also for runtimes that compute nothing beforehand."""
    model = fitted(name)
    items = Items(model, seed=1)
    plain = session(onnx_bytes(model), onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL)
    np.testing.assert_array_equal(plain.run(None, feed(model, items))[0], items.fair(model))


@pytest.mark.parametrize(
    "name", ["opportunity, plain", "opportunity, ties", "odds, frontier", "odds, one bin"]
)
def test_any_number_of_items(name):
    """None, one and many items at a time give the same."""
    model = fitted(name)
    items = Items(model)
    run, given, want = session(onnx_bytes(model)), feed(model, items), items.fair(model)
    for size in (0, 1, 2, 17):
        found = run.run(None, {key: values[:size] for key, values in given.items()})[0]
        np.testing.assert_array_equal(found, want[:size])


@pytest.mark.parametrize("name", ["opportunity, plain", "opportunity, ties", "odds, movement", "odds, error"])
def test_what_transform_refuses_is_nan(name):
    """Scores that are not finite and draws outside [0, 1) come out as NaN and touch no other item."""
    model = fitted(name)
    items = Items(model)
    given, want = feed(model, items), items.fair(model)
    given = {key: values.copy() for key, values in given.items()}
    given["scores"][:3] = np.nan, np.inf, -np.inf
    bad = 3
    if model.draws_:
        given["draws"][3:7] = np.nan, 1.0, -1e-9, np.inf
        bad = 7
    found = session(onnx_bytes(model)).run(None, given)[0]
    assert np.isnan(found[:bad]).all()
    np.testing.assert_array_equal(found[bad:], want[bad:])


def test_codes_outside_the_list_are_unknown_groups():
    """Any code that is none of the groups' is an unknown group: pooled, kept, or NaN, by the model's policy."""
    for name in ("opportunity, plain", "opportunity, half way, keep", "odds, half way, keep"):
        model = fitted(name)
        items = Items(model)
        items.codes[:] = np.resize([-1, -(2**63), len(model.groups_), 2**63 - 1], items.codes.size)
        items.groups = ["never seen"] * items.codes.size
        found = session(onnx_bytes(model)).run(None, feed(model, items))[0]
        np.testing.assert_array_equal(found, items.fair(model))
    model = fitted("opportunity, error")
    items = Items(model)
    items.codes[:] = -1
    assert np.isnan(session(onnx_bytes(model)).run(None, feed(model, items))[0]).all()


def test_the_file_says_what_it_is(tmp_path):
    """Metadata name the model, its groups in the order of the codes, and what draws are made of."""
    model = fitted("odds, awkward")
    model.save(tmp_path / "model.json")
    to_onnx(eo.load(tmp_path / "model.json"), tmp_path / "model.onnx")
    read = onnx.load(tmp_path / "model.onnx")
    onnx.checker.check_model(read, full_check=True)
    told = {entry.key: entry.value for entry in read.metadata_props}
    assert told["checksum"] == json.loads((tmp_path / "model.json").read_text())["checksum"]
    assert [tuple(group) for group in json.loads(told["groups"])] == list(model.groups_)
    assert json.loads(told["group_columns"]) == ["group", "adult"]
    assert (told["unknown_code"], told["salt"]) == (str(len(model.groups_)), f"{model.salt_:016x}")
    assert read.producer_name == "evenodds"
    assert read.producer_version == eo.__version__
    assert [entry.name for entry in read.graph.input] == ["scores", "groups", "draws"]
    assert all(entry.doc_string for entry in (*read.graph.input, *read.graph.output))


def test_overwriting_is_asked_for(tmp_path):
    """An existing file stays unless told otherwise."""
    path = tmp_path / "model.onnx"
    path.write_text("mine")
    with pytest.raises(eo.OutputError, match="exists already"):
        to_onnx(fitted("opportunity, plain"), path)
    assert path.read_text() == "mine"
    to_onnx(fitted("opportunity, plain"), path, overwrite=True)
    assert onnx.load(path).producer_name == "evenodds"


def test_a_missing_extra_is_one_line(tmp_path, monkeypatch, capsys):
    """Without the package onnx the command says in one line what to install, and writes nothing."""
    fitted("opportunity, plain").save(tmp_path / "m.json")
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(SystemExit) as end:
        main(["export", str(tmp_path / "m.json"), "--to", "onnx", "-o", str(tmp_path / "m.onnx")])
    assert end.value.code == 2
    said = capsys.readouterr().err
    assert said == "evenodds: ONNX files need the package onnx (hint: pip install 'evenodds[export]')\n"
    assert not (tmp_path / "m.onnx").exists()


def test_onnx_is_imported_only_when_it_is_needed():
    """Neither evenodds nor its exports import onnx before a file is made."""
    code = "import sys, evenodds, evenodds.export; sys.exit('onnx' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
