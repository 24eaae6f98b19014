"""Logs, models and pages that the report is tried on."""

import datetime as dt
from functools import cache

import numpy as np
import pyarrow as pa

import evenodds as eo
from evenodds.report.facts import About
from evenodds.report.gather import gather

DAY = dt.date(2026, 11, 19)
ABOUT = About(
    version="0",
    date=str(DAY),
    command="evenodds report",
    criterion="",
    checksum="sha256:0",
    written_by="evenodds 0",
    settings={},
    fitted_rows=0,
    fitted_sources=(),
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
HOSTILE = ["<script>alert(1)</script>", "</script><!-- '\"& -->", "\u2028a\u2029b", "ß × ü"]


def lists(queries, names, *, length=12, seed=5, columns=("group",), outcomes=1, shift=0.5):
    """Draw ranked lists whose groups' scores are off by more the later a group comes; `names` by column."""
    rng = np.random.default_rng(seed)
    size = queries * length
    codes = [rng.integers(0, len(values), size) for values in names]
    off = sum(shift * code / max(len(values) - 1, 1) for code, values in zip(codes, names, strict=True))
    merit = rng.random(size) < 0.35
    score = rng.normal(1.2 * merit, 1.0) - off
    query = np.repeat(np.arange(queries), length)
    order = np.lexsort((-score, query))
    position = np.tile(np.arange(1, length + 1), queries)
    label = (merit[order] & (rng.random(size) < 1 / np.log2(1 + position))).astype(np.int8)
    if outcomes > 1:
        label *= rng.integers(1, outcomes + 1, size).astype(np.int8)
    table = {"score": score[order], "label": label, "position": position, "query": query}
    for column, values, code in zip(columns, names, codes, strict=True):
        table[column] = pa.array(np.array(values, dtype=object)[code[order]])
    return pa.table(table)


@cache
def case(name):
    """Return the tally and the model of a case."""
    two, twelve = [["a", "b"]], [[f"group {k:02d}" for k in range(12)]]
    crossed = [["man", "woman"], ["18-29", "30-49", "50+"]]
    roles, cells, tables = {}, 300, lists(600, two)
    model = eo.EqualOpportunity()
    if name == "odds":
        model = eo.EqualizedOdds(bins=20)
    elif name == "hostile":
        tables = lists(600, [HOSTILE])
    elif name == "twelve":
        tables = lists(1_500, twelve)
    elif name == "twelve odds":
        tables, model = lists(1_500, twelve), eo.EqualizedOdds(bins=20)
    elif name == "crossed":
        tables, roles = lists(900, crossed, columns=("gender", "age")), {"group": ["gender", "age"]}
    elif name == "no positions":
        tables = tables.drop_columns(["position"])
    elif name == "no queries":
        tables = tables.drop_columns(["query"])
    elif name == "neither":
        tables = tables.drop_columns(["query", "position"])
    elif name == "ties":
        rounded = np.round(tables["score"].to_numpy())
        tables = tables.set_column(0, "score", pa.array(rounded))
    elif name == "observed":
        model = eo.EqualizedOdds(bins=20, target="observed")
    elif name == "outcomes":
        tables, roles = lists(900, two, outcomes=3), {"outcomes": 3}
        model = eo.EqualizedOdds(bins=15)
    elif name == "unit":
        model = eo.EqualOpportunity(scale="unit", alpha=0.35)
    elif name == "small group":
        few = lists(600, [["a", "b"]])
        tables = pa.concat_tables([few, lists(5, [["rare"]], seed=8)])
    elif name == "many":
        tables, cells = lists(1_500, [[f"country {k:02d}" for k in range(25)]]), 60
    elif name != "plain":
        raise ValueError(name)
    counts = eo.tally(tables, cells=cells, **roles)
    return counts, model.fit(counts)


CASES = (
    "plain",
    "odds",
    "hostile",
    "twelve",
    "twelve odds",
    "crossed",
    "no positions",
    "no queries",
    "neither",
    "ties",
    "observed",
    "outcomes",
    "unit",
    "small group",
)


@cache
def facts_of(name):
    """Return the facts of a case."""
    counts, model = case(name)
    return gather(counts, model, about(model))


def about(model):
    """Return where a page of a model comes from."""
    changed = {
        "criterion": model.criterion,
        "settings": model.to_settings(),
        "fitted_rows": model.fitted_on_["rows"],
        "fitted_sources": tuple(model.fitted_on_["sources"]),
    }
    return About(**{**vars(ABOUT), **changed})
