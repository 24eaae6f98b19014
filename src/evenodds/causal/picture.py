"""A causal graph as a picture, one panel for each open path: SVG or PNG by Vega-Lite, or DOT for Graphviz."""

from __future__ import annotations

import json
import os
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evenodds.causal.layout import Layout, lay_out
from evenodds.causal.paths import OpenPath
from evenodds.causal.words import KINDS
from evenodds.errors import MissingExtraError, OutputError
from evenodds.files import written_aside

if TYPE_CHECKING:
    from evenodds.causal.reading import CausalReading

SUFFIXES = (".svg", ".png", ".dot")
PANELS = 9
_COLUMNS = 2
_OPEN, _PLAIN = "#D55E00", "#8A8F98"
_FILL = {"group": "#0072B2", "label": "#222222", "score": "#00745A"}
_STYLES = ["plain", "way", "open"]
_LETTER = 9.0  # pixels of a title's letter, on the wide side
_TYPED = {"fontSize": 13, "font": "Helvetica, Arial, sans-serif"}


def draw(reading: CausalReading, path: str | os.PathLike[str], *, overwrite: bool = False) -> None:
    """Draw a reading; the suffix says as what."""
    name = os.fspath(path)
    suffix = Path(name).suffix.lower()
    if suffix not in SUFFIXES:
        raise OutputError(f"cannot draw {name}: expected a name ending in .svg, .png or .dot")
    if suffix == ".dot":
        drawn = dot(reading).encode()
    else:
        convert = _converter()
        chart = specification(reading)
        drawn = (
            convert.vegalite_to_svg(chart).encode()
            if suffix == ".svg"
            else convert.vegalite_to_png(chart, scale=2)
        )
    with written_aside(name, overwrite=overwrite) as aside:
        aside.write_bytes(drawn)


def _converter() -> Any:
    try:
        return import_module("vl_convert")
    except ImportError:
        raise MissingExtraError(
            "a picture in SVG or PNG needs vl_convert, which is not installed",
            hint="pip install 'evenodds[report]', or a name ending in .dot",
        ) from None


def specification(reading: CausalReading) -> dict[str, Any]:
    """Return the picture as a Vega-Lite chart."""
    graph, layout = reading.graph, lay_out(reading.graph)
    shown = reading.open_paths[:PANELS]
    many = "" if reading.complete else "more than "
    number = len(reading.open_paths)
    paths = f"{many}{number} open path{'' if number == 1 else 's'}"
    if reading.equalized_odds:
        says = f"equalized odds holds: {graph.label} separates {graph.score} from {graph.group}"
    else:
        says = f"equalized odds does not hold: {paths} from {graph.group} to {graph.score}"
    columns = min(max(len(shown), 1), _COLUMNS)
    letters = max(
        len(says) // columns, *(max(len(str(path)), len(KINDS[path.kind]) * 3 // 4) for path in shown), 0
    )
    panels = [
        _panel(reading, layout, path, place, letters) for place, path in enumerate(shown or [None], start=1)
    ]
    key = [f"blue: group {graph.group}; black: label {graph.label}, held fixed; green: score {graph.score}"]
    if shown:
        dashed = any(len(way) > 1 for path in shown for way in path.opened)
        key.append("orange: an open path" + ("; dashed: why its collider is open" if dashed else ""))
    if number > len(shown):
        key.append(f"the {len(shown)} shortest are shown")
    return {
        "$schema": "https://vega.github.io/schema/vega-lite/v5.json",
        "title": {"text": says, "subtitle": key, "anchor": "start", "offset": 14},
        "background": "white",
        "padding": 12,
        "concat": panels,
        "columns": columns,
        "spacing": 30,
        "config": {
            "view": {"stroke": None},
            "title": {"fontSize": 14, "subtitleFontSize": 12, "subtitleColor": "#555555"},
        },
    }


def _panel(
    reading: CausalReading, layout: Layout, path: OpenPath | None, number: int, letters: int
) -> dict[str, Any]:
    graph = reading.graph
    on_path = set(path.arrows) if path else set()
    ways = {arrow for way in (path.opened if path else ()) for arrow in pairwise(way)} - on_path
    colliders = set(path.colliders) if path else set()
    lines, heads = [], []
    for arrow, curve in layout.curves.items():
        style = "open" if arrow in on_path else "way" if arrow in ways else "plain"
        name = f"{arrow[0]} -> {arrow[1]}"
        lines += [{"x": x, "y": y, "arrow": name, "style": style} for x, y in curve.points.round(2).tolist()]
        x, y = curve.points[-1].round(2).tolist()
        heads.append({"x": x, "y": y, "angle": round(curve.angle, 1), "style": style})
    role_of = {graph.group: "group", graph.label: "label", graph.score: "score"}
    boxes = [
        {
            "name": box.name,
            "role": role_of.get(box.name, "other"),
            "open": box.name in colliders,
            "x": box.x,
            "y": box.y,
            **dict(zip(("left", "right", "top", "bottom"), box.sides, strict=True)),
        }
        for box in layout.boxes
    ]
    for drawn in (lines, heads):  # what is marked lies on top
        drawn.sort(key=lambda point: _STYLES.index(str(point["style"])))
    width, down = layout.size
    across = max(width, _LETTER * letters)
    scaled = {
        "x": {
            "scale": {"domain": [0, across], "nice": False, "zero": False},
            "axis": None,
            "type": "quantitative",
        },
        "y": {
            "scale": {"domain": [down, 0], "nice": False, "zero": False},
            "axis": None,
            "type": "quantitative",
        },
    }
    x, y = ({"field": axis, **scaled[axis]} for axis in ("x", "y"))
    colour = _by_style([_PLAIN, _OPEN, _OPEN])
    by_role = {
        "field": "role",
        "type": "nominal",
        "legend": None,
        "scale": {"domain": [*_FILL, "other"], "range": [*_FILL.values(), "#FFFFFF"]},
    }
    panel: dict[str, Any] = {
        "width": across,
        "height": down,
        "layer": [
            {
                "data": {"values": lines},
                "mark": {"type": "line"},
                "encoding": {
                    "x": x,
                    "y": y,
                    "order": {"value": None},
                    "detail": {"field": "arrow"},
                    "color": colour,
                    "strokeWidth": _by_style([1.5, 2.5, 3.5]),
                    "strokeDash": _by_style([[1, 0], [5, 4], [1, 0]]),
                },
            },
            {
                "data": {"values": heads},
                "mark": {"type": "point", "shape": "triangle", "filled": True, "size": 90, "opacity": 1},
                "encoding": {
                    "x": x,
                    "y": y,
                    "angle": {"field": "angle", "type": "quantitative", "scale": None},
                    "color": colour,
                },
            },
            {
                "data": {"values": boxes},
                "mark": {"type": "rect", "cornerRadius": 6},
                "encoding": {
                    "x": {**x, "field": "left"},
                    "x2": {"field": "right"},
                    "y": {**y, "field": "top"},
                    "y2": {"field": "bottom"},
                    "fill": by_role,
                    "stroke": {"condition": {"test": "datum.open", "value": _OPEN}, "value": _PLAIN},
                    "strokeWidth": {"condition": {"test": "datum.open", "value": 3}, "value": 1},
                },
            },
            {
                "data": {"values": boxes},
                "mark": {"type": "text", **_TYPED},
                "encoding": {
                    "x": x,
                    "y": y,
                    "text": {"field": "name", "type": "nominal"},
                    "color": {
                        "condition": {"test": "datum.role == 'other'", "value": "#222222"},
                        "value": "white",
                    },
                },
            },
        ],
    }
    if path is not None:
        panel["title"] = {
            "text": f"{number}. {path.text('→', '←')}",
            "subtitle": KINDS[path.kind],
            "anchor": "start",
            "limit": across,
        }
    return panel


def _by_style(values: list[Any]) -> dict[str, Any]:
    return {
        "field": "style",
        "type": "nominal",
        "legend": None,
        "scale": {"domain": _STYLES, "range": values},
    }


def dot(reading: CausalReading) -> str:
    """Return the graph in DOT, open paths in orange, the ways that open their colliders dashed."""
    graph = reading.graph
    on_path = {arrow for path in reading.open_paths for arrow in path.arrows}
    ways = {arrow for path in reading.open_paths for way in path.opened for arrow in pairwise(way)} - on_path
    colliders = {name for path in reading.open_paths for name in path.colliders}
    role_of = {graph.group: "group", graph.label: "label", graph.score: "score"}
    lines = ["digraph {", "  rankdir=LR", '  node [shape=box, style="rounded,filled", fillcolor=white]']
    for name in graph.variables:
        style = []
        if name in role_of:
            style += [f'fillcolor="{_FILL[role_of[name]]}"', "fontcolor=white"]
        if name in colliders:
            style += [f'color="{_OPEN}"', "penwidth=3"]
        lines.append(f"  {_quoted(name)}" + (f" [{', '.join(style)}]" if style else ""))
    for one, two in graph.arrows:
        style = []
        if (one, two) in on_path:
            style = [f'color="{_OPEN}"', "penwidth=3"]
        elif (one, two) in ways:
            style = [f'color="{_OPEN}"', "style=dashed"]
        lines.append(f"  {_quoted(one)} -> {_quoted(two)}" + (f" [{', '.join(style)}]" if style else ""))
    return "\n".join([*lines, "}"]) + "\n"


def _quoted(name: str) -> str:
    return json.dumps(name, ensure_ascii=False)
