"""The charts as Vega-Lite specifications, without their data: one function a kind of chart.

Groups are told apart by colour (Okabe and Ito's, made for colour-blind readers) and by dash or shape, so
that a page in black and white says the same. Text and axes take the colour of the text around them.

Names of groups stand in data and in the domains of scales, never in an expression: neither in a condition
nor in a custom order, which becomes one. A name may hold anything.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

Spec = dict[str, Any]

INK = "currentColor"
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
DASHES = ([1, 0], [7, 3], [2, 2], [9, 3, 2, 3], [4, 2], [1, 3])
SHAPES = ("circle", "square", "triangle-up", "diamond", "cross", "triangle-down")
GREY = "#9a9a9a"
FAINT = "rgba(140, 140, 148, 0.5)"  # of groups that do not stand out
_FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'DejaVu Sans', sans-serif"


def theme(ink: str = INK, background: str | None = None) -> Spec:
    """Return the look that all charts share."""
    faint = {"gridColor": ink, "gridOpacity": 0.13, "domainColor": ink, "domainOpacity": 0.5}
    return {
        "background": background,
        "font": _FONT,
        "view": {"stroke": None},
        "axis": {
            **faint,
            "tickColor": ink,
            "tickOpacity": 0.5,
            "labelColor": ink,
            "titleColor": ink,
            "labelFontSize": 12,
            "titleFontSize": 12,
            "titleFontWeight": "normal",
            "titlePadding": 8,
        },
        "axisX": {"grid": False},
        "legend": {
            "orient": "top",
            "labelColor": ink,
            "titleColor": ink,
            "labelFontSize": 12,
            "labelLimit": 180,
            "symbolStrokeWidth": 2.5,
            "symbolSize": 180,
            "columns": 4,
        },
        "header": {"labelColor": ink, "titleColor": ink},
        "title": {"color": ink, "anchor": "start", "fontSize": 14},
        "text": {"color": ink, "fontSize": 12},
        "rule": {"color": ink},
        "line": {"strokeWidth": 2},
    }


def _legend(groups: Sequence[str], lit: Sequence[str]) -> Spec:
    """Return as many columns as fit on a phone: a legend that runs out of its chart is of no use."""
    wide = 40 + 7 * min(max(map(len, lit), default=1), 24)
    return {
        "symbolType": "stroke",
        "symbolOpacity": 1,
        "columns": max(1, 300 // wide),
        **({"values": list(lit)} if len(lit) < len(groups) else {}),
    }


def _colour(groups: Sequence[str], lit: Sequence[str] | None = None) -> Spec:
    """Give the groups that stand out a colour each, and the others grey."""
    known = list(groups)[: len(COLOURS)] if lit is None else list(lit)
    colours = [COLOURS[known.index(group)] if group in known else FAINT for group in groups]
    return {
        "field": "group",
        "type": "nominal",
        "title": None,
        "sort": None,
        "scale": {"domain": list(groups), "range": colours},
        "legend": _legend(groups, known),
    }


def _dash(groups: Sequence[str], lit: Sequence[str] | None = None) -> Spec:
    known = list(groups)[: len(COLOURS)] if lit is None else list(lit)
    dashes = [DASHES[known.index(group)] if group in known else [1, 0] for group in groups]
    return {
        "field": "group",
        "type": "nominal",
        "title": None,
        "sort": None,
        "scale": {"domain": list(groups), "range": dashes},
        "legend": _legend(groups, known),
    }


def framed(height: int, body: Spec, description: str) -> Spec:
    """Return a chart as wide as its column, whose data come later."""
    return {
        "$schema": "https://vega.github.io/schema/vega-lite/v6.json",
        "description": description,
        "width": "container",
        "height": height,
        "autosize": {"type": "fit-x", "contains": "padding"},
        "data": {"name": "d"},
        **body,
    }


def _x(field: str, title: str, **more: Any) -> Spec:
    return {"field": field, "type": "quantitative", "title": title, **more}


def tips(*pairs: tuple[str, str, str | None]) -> list[Spec]:
    """Return what a pointer shows: field, title, and a format for numbers."""
    return [
        {"field": field, "title": title}
        | ({"format": form, "type": "quantitative"} if form else {"type": "nominal"})
        for field, title, form in pairs
    ]


def distribution(groups: Sequence[str], lit: Sequence[str], top: float, description: str) -> Spec:
    """Return lines: how a group's items lie over the scores; `top` keeps before and after on one scale."""
    y = {
        "field": "share",
        "type": "quantitative",
        "title": "% of the group's items",
        "scale": {"domain": [0, top]},
        "stack": None,
    }
    layers: list[Spec] = [
        {
            "mark": {"type": "line", "clip": True},
            "encoding": {
                "tooltip": tips(
                    ("group", "group", None), ("score", "score", ".3g"), ("share", "% of its items", ".2f")
                )
            },
        }
    ]
    if len(groups) <= 3:
        layers.insert(0, {"mark": {"type": "area", "opacity": 0.12, "clip": True}})
    layers[-1]["encoding"]["strokeDash"] = _dash(groups, lit)
    body = {
        "encoding": {
            "x": _x("score", "score", scale={"nice": False, "zero": False}),
            "y": y,
            "color": _colour(groups, lit),
        },
        "layer": layers,
    }
    return framed(200, body, description)


def tradeoff(
    title: str, form: str, description: str, *, series: Sequence[str] = (), zero: bool = False
) -> Spec:
    """Return a line over alpha with its band of 95 %, and a rule at the alpha of the page."""
    alpha = _x("alpha", "strength of the correction (alpha)", scale={"domain": [0, 1], "nice": False})
    y = {
        "field": "value",
        "type": "quantitative",
        "title": title,
        "scale": {"zero": zero},
        "axis": {"format": form},
    }
    told = tips(
        ("alpha", "alpha", ".2f"), ("value", title, form), ("low", "from", form), ("high", "to", form)
    )
    by: Spec = {}
    if series:
        by = {"color": _colour(series), "strokeDash": _dash(series)}
        told = [*tips(("group", "given", None)), *told]
    one = {} if series else {"color": COLOURS[0]}
    band = {"color": _colour(series)} if series else {}
    body = {
        "params": [{"name": "alpha", "value": 1}],
        "layer": [
            {
                "mark": {"type": "area", "opacity": 0.2, **one},
                "encoding": {"x": alpha, "y": {**y, "field": "low"}, "y2": {"field": "high"}, **band},
            },
            {"mark": {"type": "line", **one}, "encoding": {"x": alpha, "y": y, **by}},
            {
                "mark": {"type": "point", "filled": True, "size": 45, "opacity": 1, **one},
                "encoding": {
                    "x": alpha,
                    "y": y,
                    "tooltip": told,
                    **({"color": _colour(series)} if series else {}),
                },
            },
            {
                "data": {"values": [{}]},
                "mark": {"type": "rule", "strokeDash": [4, 3], "strokeWidth": 1.5},
                "encoding": {"x": {"datum": {"expr": "alpha"}, "type": "quantitative"}},
            },
        ],
    }
    return framed(190, body, description)


def bias(description: str) -> Spec:
    """Return w by position with two standard errors either way."""
    x = _x("position", "position in the list", scale={"nice": False, "zero": False}, axis={"tickMinStep": 1})
    y = {
        "field": "weight",
        "type": "quantitative",
        "title": "chance to be looked at",
        "scale": {"domain": [0, 1.1], "clamp": True},
    }
    told = tips(("position", "position", None), ("weight", "w", ".3f"), ("error", "standard error", ".3f"))
    body = {
        "layer": [
            {
                "mark": {"type": "area", "opacity": 0.22, "color": COLOURS[0]},
                "encoding": {"x": x, "y": {**y, "field": "low"}, "y2": {"field": "high"}},
            },
            {"mark": {"type": "line", "color": COLOURS[0]}, "encoding": {"x": x, "y": y}},
            {
                "mark": {"type": "point", "filled": True, "size": 22, "opacity": 1, "color": COLOURS[0]},
                "encoding": {"x": x, "y": y, "tooltip": told},
            },
        ]
    }
    return framed(220, body, description)


def shares(groups: Sequence[str], lit: Sequence[str], top: float, description: str) -> Spec:
    """Return each group's share of the impressions at each position."""
    told = tips(
        ("group", "group", None), ("position", "position", None), ("share", "% of what stands there", ".1f")
    )
    body = {
        "mark": {"type": "line", "clip": True},
        "encoding": {
            "x": _x(
                "position",
                "position in the list",
                scale={"nice": False, "zero": False},
                axis={"tickMinStep": 1},
            ),
            "y": {
                "field": "share",
                "type": "quantitative",
                "title": "% of the items there",
                "scale": {"domain": [0, top]},
            },
            "color": _colour(groups, lit),
            "strokeDash": _dash(groups, lit),
            "tooltip": told,
        },
    }
    return framed(200, body, description)


def moves(groups: Sequence[str], form: str, description: str) -> Spec:
    """Return a row a group: where it stood before, where it stands after, and an arrow's length between."""
    y = {
        "field": "group",
        "type": "nominal",
        "title": None,
        "sort": None,
        "scale": {"domain": list(groups)},
        "axis": {"labelLimit": 150, "grid": True},
    }
    x = {
        "field": "value",
        "type": "quantitative",
        "title": None,
        "scale": {"zero": False, "padding": 12},
        "axis": {"format": form, "grid": True},
    }
    state = {
        "field": "state",
        "type": "nominal",
        "title": None,
        "sort": ["before", "after"],
        "scale": {"domain": ["before", "after"]},
    }
    told = tips(
        ("group", "group", None),
        ("state", "", None),
        ("value", "value", form),
        ("low", "from", form),
        ("high", "to", form),
    )
    offset = {"field": "state", "sort": ["before", "after"]}
    body = {
        "encoding": {"y": y, "yOffset": offset},
        "layer": [
            {
                "mark": {"type": "rule", "strokeWidth": 2},
                "encoding": {
                    "x": {**x, "field": "low"},
                    "x2": {"field": "high"},
                    "color": {
                        **state,
                        "scale": {"domain": ["before", "after"], "range": [COLOURS[1], COLOURS[0]]},
                    },
                },
            },
            {
                "mark": {"type": "point", "size": 90, "strokeWidth": 2, "filled": True, "opacity": 1},
                "encoding": {
                    "x": x,
                    "color": {
                        **state,
                        "scale": {"domain": ["before", "after"], "range": [COLOURS[1], COLOURS[0]]},
                    },
                    "shape": {
                        **state,
                        "scale": {"domain": ["before", "after"], "range": ["diamond", "circle"]},
                    },
                    "tooltip": told,
                },
            },
        ],
    }
    return framed(max(90, 34 * len(groups)), body, description)


def curves(
    groups: Sequence[str], lit: Sequence[str], ends: tuple[float, float] | None, description: str
) -> Spec:
    """Return what becomes of each score: old score across, fair score up, and the line of no change."""
    told = tips(
        ("group", "group", None),
        ("score", "score", ".3g"),
        ("low", "fair score", ".3g"),
        ("high", "to", ".3g"),
    )
    x = _x("score", "score as it was", scale={"nice": False, "zero": False})
    height = {"zero": False} if ends is None else {"domain": list(ends), "nice": False}
    y = {"field": "low", "type": "quantitative", "title": "fair score", "scale": height}
    body = {
        "layer": [
            {
                "mark": {"type": "line", "strokeWidth": 1, "clip": True, "color": GREY},
                "encoding": {"x": x, "y": {**y, "field": "score", "title": "fair score"}},
            },
            {
                "mark": {"type": "area", "opacity": 0.18, "clip": True},
                "encoding": {"x": x, "y": y, "y2": {"field": "high"}, "color": _colour(groups, lit)},
            },
            {
                "mark": {"type": "line", "clip": True},
                "encoding": {
                    "x": x,
                    "y": y,
                    "color": _colour(groups, lit),
                    "strokeDash": _dash(groups, lit),
                    "tooltip": told,
                },
            },
            {
                "mark": {"type": "line", "clip": True},
                "encoding": {
                    "x": x,
                    "y": {**y, "field": "high"},
                    "color": _colour(groups, lit),
                    "strokeDash": _dash(groups, lit),
                },
            },
        ]
    }
    return framed(260, body, description)
