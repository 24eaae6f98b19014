"""The page as text: what stands in it, what cannot get into it, and how large it is."""

import json
import re
from functools import cache
from html.parser import HTMLParser
from pathlib import Path

import altair as alt
import pytest
from reports import CASES, DAY, HOSTILE, case, facts_of

import evenodds as eo
from evenodds.errors import MissingExtraError, OutputError, SettingsError
from evenodds.report import charts, notes, words
from evenodds.report.exhibits import exhibits
from evenodds.report.make import report
from evenodds.report.page import embedded, html
from evenodds.report.table import Dim, Field, Table
from evenodds.report.texts import texts

pytestmark = pytest.mark.filterwarnings("ignore::evenodds.EvenoddsWarning")
GOLDEN = Path(__file__).parents[1] / "golden"


class Elements(HTMLParser):
    """Collects elements, and the text outside scripts."""

    def __init__(self, text):
        super().__init__()
        self.found, self.text, self.inside, self.open = [], [], None, []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        """Note an element."""
        self.found.append((tag, dict(attrs)))
        if tag not in {"meta", "link", "input", "br"}:
            self.open.append(tag)
        if tag in {"script", "style"}:
            self.inside = tag

    def handle_endtag(self, tag):
        """Close the innermost element, which must be this one."""
        assert self.open.pop() == tag, tag
        self.inside = None

    def handle_data(self, data):
        """Note text that is shown."""
        if self.inside is None:
            self.text.append(data)


@cache
def page_of(name):
    """Return a case's page, without Vega."""
    return html(facts_of(name), "/* vega */")


def held(page):
    """Return what the page holds for its script."""
    return json.loads(re.search(r'id="facts">(.*?)</script>', page, re.DOTALL)[1])


@pytest.mark.parametrize("name", CASES)
def test_every_case_makes_a_whole_page(name):
    """Elements are closed, ids are used once, headings go down by one, every chart has its place and its text."""
    page = page_of(name)
    parsed = Elements(page)
    assert parsed.open == []
    ids = [attrs["id"] for _, attrs in parsed.found if "id" in attrs]
    assert len(ids) == len(set(ids))
    for _, attrs in parsed.found:
        if attrs.get("href", "").startswith("#"):
            assert attrs["href"][1:] in ids
    data = held(page)
    drawn = [attrs["data-chart"] for tag, attrs in parsed.found if tag == "figure"]
    assert sorted(drawn) == sorted(data["charts"])
    assert all(attrs["aria-label"] for _, attrs in parsed.found if attrs.get("role") == "img")
    keys = {attrs["data-k"] for _, attrs in parsed.found if "data-k" in attrs}
    assert keys <= set(data["text"])
    assert {len(told) for told in data["text"].values()} == {len(data["alphas"])}
    assert len(page.encode()) < 600_000


@pytest.mark.parametrize("name", CASES)
def test_no_words_are_missing(name):
    """No sentence shows None, nan, or an unfilled place."""
    said = " ".join(Elements(page_of(name)).text)
    assert not re.search(
        r"\bNone\b(?![ .]*(\.|in this log|$))|\bnan\b|\binf\b|[{}]", said.replace("None.", "")
    )
    for told in texts(facts_of(name)).values():
        assert not any(re.search(r"\bnan\b|\bNone\b", text) for text in told)


def test_a_group_called_script_is_data():
    """Names with markup, comments or line separators appear as text and nowhere as markup."""
    page = page_of("hostile")
    assert page.count("<script") == 3
    assert page.count("</script>") == 3
    assert "<!--" not in page
    assert not {"\u2028", "\u2029"} & set(page[page.index('id="facts"') :])
    parsed = Elements(page)
    assert not any("alert" in str(attrs) and tag == "script" for tag, attrs in parsed.found)
    text = " ".join(parsed.text)
    assert all(name in text for name in HOSTILE)
    groups = held(page)["charts"]["scores-1-before"]["table"]["dims"][0]["v"]
    assert sorted(groups) == sorted(HOSTILE)
    assert json.loads(embedded({"a": HOSTILE})) == {"a": HOSTILE}


def test_the_policy_names_the_scripts_and_nothing_else():
    """The content security policy allows the page's own scripts by their hashes, and no address."""
    import base64
    import hashlib

    page = page_of("plain")
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', page)[1]
    scripts = re.findall(r"<script>(.*?)</script>", page, re.DOTALL)
    assert len(scripts) == 2
    for script in scripts:
        digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
        assert f"'sha256-{digest}'" in policy
    assert policy.startswith("default-src 'none'")
    assert not re.search(r"https?:|\*|connect-src|'unsafe-inline'[^;]*script", policy)
    own = re.sub(r"https://vega.github.io/schema/vega-lite/v\d.json", "", page)
    assert not re.search(r"(src|href)=\"?(https?:)?//", own)


@pytest.mark.parametrize("name", ["plain", "odds", "twelve", "crossed", "outcomes", "ties", "small group"])
def test_charts_are_vega_lite(name):
    """Every specification is valid by Altair's copy of the schema, and names fields that its table has."""
    for exhibit in exhibits(facts_of(name)):
        rows = exhibit.table.rows(facts_of(name).own)
        assert rows, exhibit.name
        spec = {**exhibit.spec, "config": charts.theme("#000000", "#ffffff"), "data": {"values": rows[:3]}}
        alt.Chart.from_dict(spec, validate=True)
        fields = set(re.findall(r"'field': '(\w+)'", str(exhibit.spec)))
        known = {dim.name for dim in exhibit.table.dims} | {field.name for field in exhibit.table.fields}
        assert fields <= known, exhibit.name


def test_a_tables_rows_are_the_products_of_its_dims():
    """Rows come in the order of the dims, the last fastest; rows without a value, and sparse zeros, are left out."""
    table = Table(
        (Dim("group", "group", ["a", "b"]), Dim("x", "x", [1, 2])),
        (
            Field("y", "y", [0.5, None, 0, 2]),
            Field("z", "z", moving=[[1, None, 0, 0], [0, 0, 3, 0]], sparse=True),
        ),
    )
    assert table.rows(0) == [
        {"group": "a", "x": 1, "y": 0.5, "z": 1},
        {"group": "b", "x": 1, "y": 0, "z": None},
        {"group": "b", "x": 2, "y": 2, "z": None},
    ]
    assert table.rows(1)[1] == {"group": "b", "x": 1, "y": 0, "z": 3}
    assert table.moves
    assert table.to_dict()["fields"][1]["m"] == [[1, None, 0, 0], [0, 0, 3, 0]]


def test_numbers_are_for_people():
    """Shares in percent, counts with commas, a minus sign that is one, and no sign on nothing."""
    assert words.whole(50_000.0) == "50,000"
    assert words.percent(0.005) == "0.5\xa0%"
    assert words.signed(-0.0312) == "\N{MINUS SIGN}3.1\xa0%"
    assert words.signed(-0.0001) == "0.0\xa0%"
    assert words.number(float("nan")) == "\N{EN DASH}"
    assert [words.strength(alpha) for alpha in (0.0, 0.35, 1.0)] == [
        "0 \N{EN DASH} no correction",
        "0.35 \N{EN DASH} 35\xa0% of the way",
        "1 \N{EN DASH} all the way",
    ]


def test_the_verdict_says_to_whom():
    """The headline names the group that stands lower; without a difference it says that there is none."""
    facts = facts_of("plain")
    first, effect = words.headline(facts, facts.after[10])
    assert first == "Qualified items of b are ranked below equally qualified items of a."
    assert effect.startswith("The correction closes the gap")
    assert "stays as it is" in words.headline(facts, facts.after[0])[1]
    assert words.headline(facts, facts.after[5])[1].startswith("At strength 0.5 the correction narrows")
    from reports import about, lists

    from evenodds.report.gather import gather

    counts = eo.tally(lists(400, [["a", "b"]], shift=0.0, seed=8), cells=100)
    model = eo.EqualOpportunity().fit(counts)
    alike = gather(counts, model, about(model), alphas=(0.0, 1.0))
    assert words.headline(alike, alike.after[-1])[0] == (
        "Among qualified items, no difference between groups beyond chance."
    )
    assert words.headline(alike, alike.after[-1])[1] == "There is no gap to close."
    assert "often makes it as large" in words.how_sure(alike)


def test_promises_differ_by_criterion():
    """Equality of opportunity promises nothing about unqualified items; equalized odds draws at random."""
    plain, odds = (" ".join(notes.promise(facts_of(name))) for name in ("plain", "odds"))
    assert "Nothing is promised about unqualified items" in plain
    assert "at random between bins" in odds
    assert all("trusts the labels" in said for said in (plain, odds))
    assert "as they will be logged" in " ".join(notes.promise(facts_of("observed")))


@pytest.mark.parametrize("name", ["plain", "odds"])
def test_the_page_is_the_golden_one(name):
    """With fixed data, command and date the page reads word for word as it did; python tests/golden/report_pages.py."""
    expected = (GOLDEN / f"report-{name}.txt").read_text("utf-8")
    assert readable(page_of(name)) == expected


def readable(page):
    """Return the elements and the words of a page, a line each, without scripts and styles."""
    body = re.sub(r"<(script|style)\b.*?</\1>", "", page, flags=re.DOTALL)
    body = re.sub(r'content="default-src[^"]*"', 'content="..."', body)
    return re.sub(r"\s*\n\s*", "\n", re.sub(r"(<[^>]+>)", r"\n\1\n", body)).strip() + "\n"


def test_a_report_is_written_whole_and_not_over_another(tmp_path):
    """Report writes one file and returns its facts; it refuses a path that exists, a bad model, a missing folder."""
    counts, model = case("plain")
    path = tmp_path / "report.html"
    facts = report(counts, model, path, date=DAY)
    assert facts.about.date == "2026-11-19"
    assert facts.about.checksum.startswith("sha256:")
    text = path.read_text("utf-8")
    assert len(text.encode()) < 1_500_000
    assert [one.name for one in tmp_path.iterdir()] == ["report.html"]
    with pytest.raises(OutputError, match="exists already"):
        report(counts, model, path)
    with pytest.raises(OutputError, match="no folder"):
        report(counts, model, tmp_path / "none" / "report.html")
    with pytest.raises(SettingsError, match="a model is expected"):
        report(counts, 3, tmp_path / "other.html")
    report(counts, model, path, date=DAY, overwrite=True)
    assert path.read_text("utf-8") == text


def test_the_checksum_is_that_of_the_model_file(tmp_path):
    """The page of a model in memory and that of its file name the same checksum, which the file holds."""
    counts, model = case("plain")
    model.save(tmp_path / "model.json")
    held_ = json.loads((tmp_path / "model.json").read_text("utf-8"))["checksum"]
    one = report(counts, model, tmp_path / "one.html", date=DAY)
    two = report(counts, tmp_path / "model.json", tmp_path / "two.html", date=DAY)
    assert one.about.checksum == two.about.checksum == held_


def test_figures_are_written_beside(tmp_path):
    """With a folder every chart of the page is a PNG and an SVG there."""
    counts, model = case("plain")
    facts = report(counts, model, tmp_path / "report.html", figures=tmp_path / "figures")
    names = {f"{one.name}.{kind}" for one in exhibits(facts) for kind in ("png", "svg")}
    assert {path.name for path in (tmp_path / "figures").iterdir()} == names
    for path in (tmp_path / "figures").iterdir():
        begin = path.read_bytes()[:8]
        assert begin == b"\x89PNG\r\n\x1a\n" if path.suffix == ".png" else begin.startswith(b"<svg")
        assert path.stat().st_size > 2_000


def test_without_the_extra_one_line_says_so(monkeypatch, tmp_path):
    """Without vl-convert nothing is computed, and the error names the extra."""
    from evenodds.report import make

    def missing(name):
        raise ImportError(name=name)

    monkeypatch.setattr(make, "import_module", missing)
    with pytest.raises(MissingExtraError, match=r"needs vl_convert.*evenodds\[report\]"):
        eo.report(*case("plain"), tmp_path / "report.html")
    assert list(tmp_path.iterdir()) == []
