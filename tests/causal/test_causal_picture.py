"""Pictures: what is marked is what is open, nothing covers a name, files are whole."""

import re
import sys
from xml.etree import ElementTree as ET

import numpy as np
import pytest
from hypothesis import given, settings

import evenodds as eo
from evenodds.causal.graph import make_graph
from evenodds.causal.layout import lay_out
from evenodds.causal.parse import parse_edges
from evenodds.causal.picture import specification
from graphs import SELECTION, SEPARATED, dags

ORANGE = "#D55E00"


def test_an_svg_shows_every_variable_and_marks_the_open_path(tmp_path):
    """The file is XML, names every variable and the path, and has orange in it only where a path is open."""
    eo.causal(SELECTION).picture(tmp_path / "open.svg")
    text = (tmp_path / "open.svg").read_text()
    shown = [node.text for node in ET.fromstring(text).iter() if node.tag.endswith("text")]
    assert {"C", "X1", "X2", "Y", "S", "1. C → X1 ← X2 → S"} <= set(shown)
    assert ORANGE.lower() in text.lower()
    eo.causal(SEPARATED).picture(tmp_path / "closed.svg")
    assert ORANGE.lower() not in (tmp_path / "closed.svg").read_text().lower()


def test_the_same_reading_draws_the_same_bytes(tmp_path):
    """Pictures repeat."""
    for name in ("one", "two"):
        eo.causal(SELECTION).picture(tmp_path / f"{name}.svg")
    assert (tmp_path / "one.svg").read_bytes() == (tmp_path / "two.svg").read_bytes()


def test_a_png_is_a_png(tmp_path):
    """PNG by the same chart."""
    eo.causal(SELECTION).picture(tmp_path / "graph.png")
    assert (tmp_path / "graph.png").read_bytes().startswith(b"\x89PNG")


def test_one_panel_a_path_with_its_arrows_marked():
    """In each panel just the arrows of its path are drawn as open, and the ways that open colliders dashed."""
    reading = eo.causal("C -> X1 <- X2 -> S; X1 -> M -> Y -> S; C -> S")
    panels = specification(reading)["concat"]
    assert len(panels) == len(reading.open_paths) == 2
    for panel, path in zip(panels, reading.open_paths, strict=True):
        styles = {row["arrow"]: row["style"] for row in panel["layer"][0]["data"]["values"]}
        marked = {arrow for arrow, style in styles.items() if style == "open"}
        assert marked == {f"{one} -> {two}" for one, two in path.arrows}
    assert {arrow for arrow, style in styles.items() if style == "way"} == {"X1 -> M", "M -> Y"}


def test_dot_can_be_read_back_and_needs_no_extra(tmp_path, monkeypatch):
    """The DOT file holds the same graph, with odd names quoted; without vl_convert it is what is offered."""
    monkeypatch.setitem(sys.modules, "vl_convert", None)
    reading = eo.causal('C -> "X \\"1\\"" <- X2 -> S; "X \\"1\\"" -> Y')
    reading.picture(tmp_path / "graph.dot")
    text = (tmp_path / "graph.dot").read_text()
    assert sorted(parse_edges(text)[1]) == sorted(reading.graph.arrows)
    assert len(re.findall(rf'-> .*{ORANGE}", penwidth', text)) == 3
    assert len(re.findall("style=dashed", text)) == 1
    with pytest.raises(eo.MissingExtraError, match=r"evenodds\[report\].*\.dot"):
        reading.picture(tmp_path / "graph.svg")
    assert not (tmp_path / "graph.svg").exists()


def test_other_names_and_existing_files_are_refused(tmp_path):
    """One line each; nothing is overwritten unless asked."""
    reading = eo.causal(SEPARATED)
    with pytest.raises(eo.OutputError, match=r"ending in \.svg, \.png or \.dot"):
        reading.picture(tmp_path / "graph.pdf")
    (tmp_path / "graph.dot").write_text("mine")
    with pytest.raises(eo.OutputError, match="exists already"):
        reading.picture(tmp_path / "graph.dot")
    assert (tmp_path / "graph.dot").read_text() == "mine"
    reading.picture(tmp_path / "graph.dot", overwrite=True)


@settings(max_examples=60)
@given(dags())
def test_boxes_do_not_overlap_and_arrows_reach_them(graph):
    """Whatever the graph: boxes apart, all inside the picture, every arrow from box to box, left to right."""
    layout = lay_out(make_graph(graph))
    boxes = {box.name: box for box in layout.boxes}
    for box in layout.boxes:
        left, right, top, bottom = box.sides
        assert left >= 0
        assert top >= 0
        assert right <= layout.size[0]
        assert bottom <= layout.size[1]
        for other in layout.boxes:
            if other is not box:
                apart = abs(box.x - other.x) >= (box.width + other.width) / 2 or abs(box.y - other.y) >= 26
                assert apart
    for (one, two), curve in layout.curves.items():
        assert boxes[one].x < boxes[two].x
        assert boxes[one].distance(curve.points[:1])[0] < 12
        assert boxes[two].distance(curve.points[-1:])[0] < 12
        assert np.isfinite(curve.points).all()
