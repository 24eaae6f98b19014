"""The pictures of a study, as SVG and PNG, drawn from its results alone."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

from evenodds.errors import MissingExtraError
from evenodds.files import written_aside
from evenodds.reproduce.claims import NAMES

COLOURS = {
    "truth": "#000000",
    "joint": "#0072B2",
    "adjacent": "#D55E00",
    "EOpp": "#0072B2",
    "EOdds": "#D55E00",
    "EOdds observed": "#009E73",
    "EOdds raw scale": "#999999",
    "none": "#000000",
    "none, fair start": "#999999",
    "A": "#0072B2",
    "B": "#D55E00",
}
NAMES_OF = {
    "paper": ("position_bias", "score_distributions", "unfairness", "performance"),
    "network": ("feedback",),
}
CURVES = ("truth", "joint", "adjacent")
RERANKERS = ("EOpp", "EOdds", "EOdds observed", "EOdds raw scale")
WORLDS = ("none", "EOpp", "EOdds", "none, fair start")
Rows = list[dict[str, Any]]
_ASIDE = 0.75  # pixels


def paths(study: str, folder: Path) -> list[Path]:
    """Return the files that `draw` writes."""
    return [folder / f"{name}.{kind}" for name in NAMES_OF[study] for kind in ("svg", "png")]


def draw(study: str, results: dict[str, Any], folder: Path, *, overwrite: bool = False) -> list[Path]:
    """Draw every picture of a study; each file is whole or not there."""
    alt, convert = _libraries()
    charts = _paper(alt, results) if study == "paper" else _network(alt, results)
    written = []
    for name, chart in zip(NAMES_OF[study], charts, strict=True):
        specification = chart.configure_view(continuousWidth=300, stroke=None).to_dict()
        for kind in ("svg", "png"):
            drawn: bytes = (
                convert.vegalite_to_svg(specification).encode()
                if kind == "svg"
                else convert.vegalite_to_png(specification, scale=2)
            )
            path = folder / f"{name}.{kind}"
            with written_aside(path, overwrite=overwrite) as aside:
                aside.write_bytes(drawn)
            written.append(path)
    return written


def _libraries() -> tuple[Any, Any]:
    try:
        return import_module("altair"), import_module("vl_convert")
    except ImportError as error:
        raise MissingExtraError(
            f"pictures need {error.name}, which is not installed",
            hint="pip install 'evenodds[report]', or --no-pictures",
        ) from None


def _paper(alt: Any, results: dict[str, Any]) -> Iterator[Any]:
    yield _position_bias(alt, results["position_bias"])
    yield _distributions(alt, results["distributions"])
    unfairness: Rows = [
        {**row, "given": NAMES[key]}
        for name, part in results["tradeoff"].items()
        for key, steps in part["unfairness"].items()
        for row in _over(results["size"]["alphas"], steps, name)
    ]
    chart = _lines(alt, RERANKERS, "alpha", "KS distance between groups", width=260, height=170)
    yield chart.properties(data=alt.Data(values=unfairness)).facet(
        facet=alt.Facet("given:N", title=None, sort=list(NAMES.values())),
        columns=2,
        title="Unfairness on fresh lists over alpha (± one standard deviation over replicates)",
    )
    performance: Rows = [
        row
        for name, part in results["tradeoff"].items()
        for row in _over(results["size"]["alphas"], part["performance"], name)
    ]
    yield _lines(alt, RERANKERS, "alpha", "share of positives", width=420, height=260, zero=False).properties(
        data=alt.Data(values=performance),
        title="Performance on fresh lists over alpha (± one standard deviation over replicates)",
    )


def _over(points: list[float], steps: Rows, name: str) -> Rows:
    return [
        {
            "x": point,
            "mean": step["mean"],
            "low": step["mean"] - step["sd"],
            "high": step["mean"] + step["sd"],
            "name": name,
        }
        for point, step in zip(points, steps, strict=True)
    ]


def _lines(
    alt: Any, names: tuple[str, ...], across: str, up: str, *, width: int, height: int, zero: bool = True
) -> Any:
    """Lines with error bars; rows hold x, mean, low, high and name."""
    scale = alt.Scale(domain=list(names), range=[COLOURS[name] for name in names])
    colour = alt.Color("name:N", title=None, scale=scale, legend=alt.Legend(symbolOpacity=1.0))
    base = alt.Chart(width=width, height=height).encode(x=alt.X("x:Q", title=across), color=colour)
    heights = alt.Scale(zero=zero)
    line = base.mark_line(point={"size": 18}).encode(y=alt.Y("mean:Q", title=up, scale=heights))
    bars = base.mark_rule(opacity=0.6).encode(y=alt.Y("low:Q", title=up, scale=heights), y2="high:Q")
    # Bars at the same x would hide each other: those of a series stand a little to the side.
    shifted = [
        bars.transform_filter(alt.datum.name == name).mark_rule(
            opacity=0.6, xOffset=_ASIDE * (2 * place + 1 - len(names))
        )
        for place, name in enumerate(names)
    ]
    return alt.layer(*shifted, line)


def _position_bias(alt: Any, bias: dict[str, Any]) -> Any:
    positions, truth = bias["positions"], bias["truth"]
    exact = [{"mean": weight, "sd": 0.0} for weight in truth]
    curve, ratio = [], []
    for name, steps in (("truth", exact), ("joint", bias["joint"]), ("adjacent", bias["adjacent"])):
        curve += _over(positions, steps, name)
        relative = [
            {"mean": step["mean"] / weight, "sd": step["sd"] / weight}
            for step, weight in zip(steps, truth, strict=True)
        ]
        ratio += _over(positions, relative, name)
    left = _lines(alt, CURVES, "position", "w", width=330, height=240).properties(data=alt.Data(values=curve))
    right = _lines(alt, CURVES, "position", "estimated w / true w", width=330, height=240, zero=False)
    return alt.hconcat(
        left,
        right.properties(data=alt.Data(values=ratio)),
        title="Position bias: truth 1 / log2(1 + j), joint, and adjacent pairs with T = 30 (± one standard deviation)",
    )


def _distributions(alt: Any, distributions: dict[str, Any]) -> Any:
    from evenodds.reproduce.paper import HISTOGRAM_BINS, SCORES_SHOWN

    width = (SCORES_SHOWN[1] - SCORES_SHOWN[0]) / HISTOGRAM_BINS
    shown = {"before": "before", "EOpp": "EOpp", "EOdds": "EOdds", "EOdds observed": "EOdds, target observed"}
    rows: Rows = [
        {"x": round(SCORES_SHOWN[0] + (place + 0.5) * width, 4), "density": density, "group": group}
        | {"ranking": title, "given": NAMES[key]}
        for name, title in shown.items()
        for key, groups in distributions[name].items()
        for group, densities in groups.items()
        for place, density in enumerate(densities)
    ]
    area = (
        alt.Chart(width=190, height=90)
        .mark_area(opacity=0.35, line=True, interpolate="step")
        .encode(
            x=alt.X("x:Q", title="score"),
            y=alt.Y("density:Q", title=None, stack=None),
            color=alt.Color(
                "group:N", scale=alt.Scale(domain=["A", "B"], range=[COLOURS["A"], COLOURS["B"]])
            ),
        )
    )
    return area.properties(data=alt.Data(values=rows)).facet(
        column=alt.Column("ranking:N", title=None, sort=list(shown.values())),
        row=alt.Row("given:N", title=None, sort=list(NAMES.values())),
        title="Score distributions by group on fresh lists, before and after (alpha = 1, first replicate)",
    )


def _network(alt: Any, results: dict[str, Any]) -> Iterator[Any]:
    titles = {
        "exposure": "IM's share of exposure",
        "sent": "IM's share of invitations",
        "parity": "exposure of qualified IM / of qualified FM",
    }
    rows: Rows = [
        {**row, "what": title}
        for measure, title in titles.items()
        for name, world in results["feedback"]["worlds"].items()
        for row in _over(results["feedback"]["weeks"], world[measure], name)
    ]
    chart = _lines(alt, WORLDS, "week", "", width=270, height=230, zero=False)
    yield (
        chart.properties(data=alt.Data(values=rows))
        .facet(
            facet=alt.Facet("what:N", title=None, sort=list(titles.values())),
            columns=3,
            title="SIMULATED: infrequent members (IM) over weeks, the model retrained each week on its own logs",
        )
        .resolve_scale(y="independent")
    )
