"""One HTML file: it holds its charts, their numbers and all scripts, and asks for nothing from outside."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterable, Sequence
from html import escape
from importlib.resources import files
from typing import Any

from evenodds.report import charts, words
from evenodds.report.exhibits import Exhibit, exhibits
from evenodds.report.facts import Facts
from evenodds.report.sections import SECTIONS, Section
from evenodds.report.texts import texts

Charts = Sequence[Exhibit]


def html(facts: Facts, scripts: str) -> str:
    """Return the page.

    Parameters
    ----------
    facts
        What it says.
    scripts
        The JavaScript that draws the charts: Vega, Vega-Lite and Vega-Embed.
    """
    shown = exhibits(facts)
    told = texts(facts)
    own = _asset("page.js")
    body = "\n".join(_section(facts, section, shown, told) for section in SECTIONS)
    title = escape(f"Fairness report: {words.listed(facts.about.sources)}")
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{_policy((scripts, own))}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="generator" content="evenodds {escape(facts.about.version)}">
<meta name="robots" content="noindex">
<title>{title}</title>
<style>
{_asset("page.css")}</style>
</head>
<body>
<a class="skip" href="#main">Skip to the verdict</a>
{body}
<script type="application/json" id="facts">{embedded(_held(facts, shown, told))}</script>
<script>{scripts}</script>
<script>{own}</script>
</body>
</html>
"""


def embedded(value: object) -> str:
    r"""Return JSON that is safe inside a script element: no markup can begin in it.

    >>> embedded({"group": "</script><!--"})
    '{"group":"\\u003c/script\\u003e\\u003c!--"}'
    """
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    for sign in ("&", "<", ">", "\u2028", "\u2029"):
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return text


def figure(exhibit: Exhibit) -> str:
    """Return a chart's place on the page, with its numbers below."""
    title, alt = escape(exhibit.title), escape(exhibit.alt, quote=True)
    return (
        f'<figure data-chart="{exhibit.name}"><figcaption>{title}</figcaption>'
        f'<div class="chart" role="img" aria-label="{alt}"></div>'
        f'<details><summary>The numbers<span class="hidden">: {title}</span></summary>'
        f'<div class="numbers" tabindex="0" role="region" aria-label="Numbers: {escape(exhibit.title)}"></div>'
        f"</details></figure>"
    )


def _section(facts: Facts, section: Section, shown: Charts, told: dict[str, list[str]]) -> str:
    def drawn(name: str) -> list[str]:
        return [figure(one) for one in shown if one.section == name]

    return section(facts, told, drawn)


def _held(facts: Facts, shown: Charts, told: dict[str, list[str]]) -> dict[str, Any]:
    """Return what the script reads; specifications that several charts share are held once."""
    specs: list[dict[str, Any]] = []
    held = {}
    for exhibit in shown:
        spec = {key: part for key, part in exhibit.spec.items() if key != "description"}
        if spec not in specs:
            specs.append(spec)
        held[exhibit.name] = {
            "title": exhibit.title,
            "alt": exhibit.alt,
            "spec": specs.index(spec),
            "table": exhibit.table.to_dict(),
        }
    return {
        "own": facts.own,
        "alphas": [state.alpha for state in facts.after],
        "config": charts.theme(),
        "text": told,
        "specs": specs,
        "charts": held,
    }


def _policy(scripts: Iterable[str]) -> str:
    """Allow these scripts, and nothing from anywhere; Vega compiles its expressions."""
    hashes = " ".join(
        f"'sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}'"
        for script in scripts
    )
    return (
        f"default-src 'none'; script-src {hashes} 'unsafe-eval'; style-src 'unsafe-inline'; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )


def _asset(name: str) -> str:
    return files("evenodds.report").joinpath(name).read_text("utf-8")
