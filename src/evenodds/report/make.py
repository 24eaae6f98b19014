"""Make the page, and the same figures as pictures."""

from __future__ import annotations

import copy
import datetime as dt
import json
import os
from collections.abc import Sequence
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

from evenodds._version import __version__
from evenodds.errors import MissingExtraError, OutputError, SettingsError
from evenodds.files import PathLike, check_output, written_aside
from evenodds.model_file import readable_json, sealed
from evenodds.report import charts
from evenodds.report.exhibits import exhibits
from evenodds.report.facts import About, Facts
from evenodds.report.gather import ALPHAS, gather
from evenodds.report.page import html
from evenodds.reranker import Reranker, load
from evenodds.tally import as_tally, check_comparable

_WIDTH = 560  # of a picture's plot; on the page a chart is as wide as its column
_KINDS = ("png", "svg")


def report(
    data: object,
    model: Reranker | PathLike,
    path: PathLike,
    *,
    figures: PathLike | None = None,
    overwrite: bool = False,
    command: str | None = None,
    date: dt.date | None = None,
    **roles: object,
) -> Facts:
    """Write one self-contained page: what is unfair, how sure that is, what the model does about it and costs.

    Parameters
    ----------
    data
        A tally, a log, or a table with its column roles.
    model
        A fitted reranker, or the path of its file.
    path
        Where to write the page (.html).
    figures
        A folder for the same figures as PNG and SVG.
    overwrite
        Replace files that are there.
    command, date
        What the page says it was made by, and when; the date defaults to today, or to SOURCE_DATE_EPOCH.

    Returns
    -------
    Facts
        Everything that the page says, as plain values; ``.to_dict()`` for JSON.

    Notes
    -----
    Needs the extra ``report``. The page asks nothing of any network, and says so to the browser.

    Examples
    --------
    >>> from evenodds import EqualOpportunity, simulate, tally
    >>> counts = tally(simulate(queries=1000), cells=500)
    >>> model = EqualOpportunity().fit(counts)
    >>> facts = report(counts, model, "report.html")  # doctest: +SKIP
    >>> facts.before.unfairness.value > facts.after[facts.own].unfairness.value  # doctest: +SKIP
    True
    """
    convert = converter()
    target = check_output(path, overwrite=overwrite)
    folder = None if figures is None else _folder(figures)
    fitted, checksum, written_by = _model(model)
    tally = as_tally(data, roles)
    check_comparable(tally)
    about = About(
        version=__version__,
        date=str(date or _today()),
        command=command or f'eo.report(tally, model, "{target.name}")',
        criterion=fitted.criterion,
        checksum=checksum,
        written_by=written_by,
        settings=fitted.to_settings(),
        fitted_rows=int(fitted.fitted_on_["rows"]),
        fitted_sources=tuple(map(str, fitted.fitted_on_["sources"])),
        sources=(),
        columns={},
        grid="",
        cells=0,
        folds=None,
        unit=None,
        in_sample=False,
        weighted=False,
        depth=None,
        notes=(),
    )
    facts = gather(tally, fitted, about, ALPHAS)
    text = html(facts, _scripts(convert))
    if folder is not None:
        draw(facts, folder, convert, overwrite=overwrite)
    with written_aside(target, overwrite=overwrite) as aside:
        aside.write_text(text, encoding="utf-8")
    return facts


def converter() -> Any:
    """Return vl-convert, which brings the JavaScript and draws pictures; say so if it is missing."""
    try:
        return import_module("vl_convert")
    except ImportError as error:
        raise MissingExtraError(
            f"a report needs {error.name}, which is not installed", hint="pip install 'evenodds[report]'"
        ) from None


@cache
def _scripts(convert: Any) -> str:
    """Return Vega, Vega-Lite and Vega-Embed as one script; bundling them takes most of a second."""
    bundle: str = convert.javascript_bundle()
    return bundle


def draw(facts: Facts, folder: Path, convert: Any, *, overwrite: bool = False) -> list[Path]:
    """Write every figure of the page, at the model's own strength, as PNG and SVG."""
    shown = exhibits(facts)
    paths = [folder / f"{exhibit.name}.{kind}" for exhibit in shown for kind in _KINDS]
    for path in paths:
        check_output(path, overwrite=overwrite)
    for exhibit in shown:
        spec = copy.deepcopy(exhibit.spec)
        height = spec["height"]
        width = height if exhibit.name.startswith("kernel") else _WIDTH
        spec |= {
            "width": width,
            "autosize": {"type": "pad"},
            "title": exhibit.title,
            "padding": 12,
            "data": {"name": "d", "values": exhibit.table.rows(facts.own)},
            "config": charts.theme("#1b1b1f", "#ffffff"),
        }
        for param in spec.get("params", ()):
            if param["name"] == "alpha":
                param["value"] = facts.after[facts.own].alpha
        for kind in _KINDS:
            drawn: bytes = (
                convert.vegalite_to_svg(spec).encode()
                if kind == "svg"
                else convert.vegalite_to_png(spec, scale=2)
            )
            with written_aside(folder / f"{exhibit.name}.{kind}", overwrite=overwrite) as aside:
                aside.write_bytes(drawn)
    return paths


def _model(model: Reranker | PathLike) -> tuple[Reranker, str, str]:
    """Return the model, the checksum of its file, and what wrote it."""
    if isinstance(model, str | os.PathLike):
        fitted = load(model)
        text = Path(model).read_text("utf-8")
    elif isinstance(model, Reranker):
        fitted, text = model, sealed(readable_json(model.to_dict()))
    else:
        raise SettingsError(
            f"a model is expected, got {type(model).__name__}",
            hint="fit one, or give the path of a model file",
        )
    body = json.loads(text)
    return fitted, str(body["checksum"]), str(body["written_by"])


def _folder(path: PathLike) -> Path:
    folder = Path(path)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OutputError(f"cannot make the folder {folder}: {error.strerror}") from None
    return folder


def _today() -> dt.date:
    """Return the date in UTC; builds that must repeat set SOURCE_DATE_EPOCH."""
    epoch = os.environ.get("SOURCE_DATE_EPOCH", "")
    moment = dt.datetime.now(dt.UTC)
    if epoch.isdigit():
        moment = dt.datetime.fromtimestamp(int(epoch), dt.UTC)
    return moment.date()


__all__: Sequence[str] = ("converter", "draw", "report")
