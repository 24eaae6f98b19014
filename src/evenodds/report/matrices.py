"""The charts made of cells: where items of each rank go, distances of pairs, crossed groups."""

from __future__ import annotations

from collections.abc import Sequence

from evenodds.report.charts import Spec, framed, tips


def heat(parts: int, description: str) -> Spec:
    """Return where a group's items go: rank before across, rank after up, darkest where most go."""
    step = 100 // parts

    def axis(title: str) -> Spec:
        return {
            "title": title,
            "values": [0, 20, 40, 60, 80, 100 - step],
            "labelExpr": f"datum.value == {100 - step} ? 'top' : datum.value == 0 ? 'bottom' : ''",
            "labelAngle": 0,
            "ticks": False,
            "domain": False,
        }

    told = tips(("from", "from rank, %", None), ("to", "to rank, %", None), ("share", "% of them", ".0f"))
    body = {
        "mark": {"type": "rect"},
        "encoding": {
            "x": {"field": "from", "type": "ordinal", "axis": axis("old rank"), "sort": "ascending"},
            "y": {"field": "to", "type": "ordinal", "axis": axis("new rank"), "sort": "descending"},
            "color": {
                "field": "share",
                "type": "quantitative",
                "title": "% of them",
                "scale": {"type": "sqrt", "scheme": "viridis", "reverse": True, "domain": [0, 100]},
                "legend": {
                    "orient": "top",
                    "gradientLength": 120,
                    "titleOrient": "left",
                    "values": [0, 10, 50, 100],
                },
            },
            "tooltip": told,
        },
    }
    return framed(220, body, description)


def pairs(groups: Sequence[str], description: str) -> Spec:
    """Return the distances of all pairs; pairs that rest on too few rows are grey."""
    many = len(groups) > 7
    side = {"type": "nominal", "title": None, "sort": None}
    reliable = "datum.small == null"
    told = tips(
        ("one", "group", None),
        ("other", "and", None),
        ("ks", "distance", ".3f"),
        ("low", "from", ".3f"),
        ("high", "to", ".3f"),
        ("small", "too few rows", None),
    )
    body = {
        "encoding": {
            "x": {
                **side,
                "field": "other",
                "scale": {"domain": list(groups[:-1])},
                "axis": {"labelLimit": 110, "labelAngle": -40, "domain": False, "ticks": False},
            },
            "y": {
                **side,
                "field": "one",
                "scale": {"domain": list(groups[1:])},
                "axis": {"labelLimit": 110, "domain": False, "ticks": False, "grid": False},
            },
            "tooltip": told,
        },
        "layer": [
            {
                "transform": [{"filter": reliable}],
                "mark": {"type": "rect", "stroke": "#ffffff", "strokeWidth": 1},
                "encoding": {
                    "color": {
                        "field": "ks",
                        "type": "quantitative",
                        "title": "distance",
                        "scale": {"scheme": "viridis", "reverse": True, "domain": [0, 1]},
                        "legend": {"gradientLength": 120, "titleOrient": "left"},
                    }
                },
            },
            {
                "transform": [{"filter": f"!({reliable})"}],
                "mark": {"type": "rect", "color": "#b8b8b8", "stroke": "#ffffff", "strokeWidth": 1},
            },
            {
                "mark": {"type": "text", "fontSize": 9 if many else 12, "baseline": "middle"},
                "encoding": {
                    "text": {"field": "ks", "type": "quantitative", "format": ".2f"},
                    "color": {
                        "condition": {"test": f"{reliable} && datum.ks > 0.45", "value": "#ffffff"},
                        "value": "#1b1b1b",
                    },
                },
            },
        ],
    }
    return framed(max(120, 30 * len(groups)), body, description)


def crossed(
    rows: Sequence[str],
    columns: Sequence[str],
    names: Sequence[str],
    ends: tuple[float, float],
    description: str,
) -> Spec:
    """Return a cell for each combination of two group columns: where its positives stand on average."""
    reliable = "datum.small == null"
    told = tips(
        ("row", names[0], None),
        ("column", names[1], None),
        ("rank", "mean rank, %", ".1f"),
        ("rows", "rows", ",.0f"),
        ("small", "too few rows", None),
    )
    body = {
        "encoding": {
            "x": {
                "field": "column",
                "type": "nominal",
                "title": names[1],
                "sort": None,
                "scale": {"domain": list(columns)},
                "axis": {"labelAngle": -40, "labelLimit": 110, "domain": False, "ticks": False},
            },
            "y": {
                "field": "row",
                "type": "nominal",
                "title": names[0],
                "sort": None,
                "scale": {"domain": list(rows)},
                "axis": {"labelLimit": 110, "domain": False, "ticks": False, "grid": False},
            },
            "tooltip": told,
        },
        "layer": [
            {
                "transform": [{"filter": reliable}],
                "mark": {"type": "rect", "stroke": "#ffffff", "strokeWidth": 1},
                "encoding": {
                    "color": {
                        "field": "rank",
                        "type": "quantitative",
                        "title": "mean rank, %",
                        "scale": {"scheme": "cividis", "domain": list(ends)},
                        "legend": {"gradientLength": 120, "titleOrient": "left"},
                    }
                },
            },
            {
                "transform": [{"filter": f"!({reliable})"}],
                "mark": {"type": "rect", "color": "#b8b8b8", "stroke": "#ffffff", "strokeWidth": 1},
            },
            {
                "mark": {"type": "text", "fontSize": 12},
                "encoding": {
                    "text": {"field": "rank", "type": "quantitative", "format": ".0f"},
                    "color": {
                        "condition": {
                            "test": f"{reliable} && datum.rank < {(ends[0] + ends[1]) / 2:.4g}",
                            "value": "#ffffff",
                        },
                        "value": "#1b1b1b",
                    },
                },
            },
        ],
    }
    return framed(max(110, 40 * len(rows)), body, description)
