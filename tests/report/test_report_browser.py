"""The page in a real browser, offline: make test-browser."""

import json
import os
import shutil
from pathlib import Path

import pytest
from reports import CASES, DAY, HOSTILE, case

from evenodds.report import words
from evenodds.report.make import report
from evenodds.report.texts import texts

pytestmark = [pytest.mark.browser, pytest.mark.filterwarnings("ignore")]
WIDTHS = {"phone": 390, "desktop": 1200}
ARGUMENTS = (
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


@pytest.fixture(scope="module")
def chromium():
    """Debian's Chromium, without a window."""
    from playwright.sync_api import sync_playwright

    path = shutil.which("chromium")
    assert path, "no chromium: make system installs it"
    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=path, args=list(ARGUMENTS))
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """Write the page of a case once; return its path and its facts."""
    folder, made = tmp_path_factory.mktemp("pages"), {}

    def write(name):
        if name not in made:
            path = folder / f"{name.replace(' ', '-')}.html"
            made[name] = path, report(*case(name), path, date=DAY)
        return made[name]

    return write


@pytest.fixture
def opened(chromium, written):
    """Open a page offline; fail at the end if it wrote to the console or asked for anything."""
    contexts, said = [], []

    def open_page(name, *, width=1200, scheme="light"):
        context = chromium.new_context(
            viewport={"width": width, "height": 900},
            color_scheme=scheme,
            offline=True,
            reduced_motion="reduce",
        )
        contexts.append(context)
        page = context.new_page()
        path, facts = written(name)
        page.on("console", lambda message: said.append(f"{message.type}: {message.text}"))
        page.on("pageerror", lambda error: said.append(f"error: {error}"))
        page.on("dialog", lambda dialog: said.append(f"dialog: {dialog.message}"))
        own = path.as_uri()
        page.on(
            "request", lambda request: None if request.url == own else said.append(f"request: {request.url}")
        )
        page.goto(own)
        page.wait_for_selector("body[data-ready=yes]", timeout=120_000)
        return page, facts

    yield open_page
    for context in contexts:
        context.close()
    assert said == []


def slide(page, place):
    """Move the slider as a hand does, and wait until everything has followed."""
    page.evaluate(
        "place => { const s = document.getElementById('alpha'); s.value = place;"
        " s.dispatchEvent(new Event('input', {bubbles: true})); }",
        str(place),
    )
    page.wait_for_selector(f"body[data-at='{place}']", timeout=60_000)


def moving_text(page):
    """Return what the page shows for each key."""
    return page.evaluate(
        "() => Object.fromEntries([...document.querySelectorAll('[data-k]')].map(e => [e.dataset.k, e.textContent]))"
    )


@pytest.mark.parametrize("name", CASES)
def test_every_case_opens_and_draws(opened, name):
    """No console message, no request, a drawing in every place, at desktop and at phone width without overflow."""
    for width in WIDTHS.values():
        page, _ = opened(name, width=width)
        figures = page.locator("figure[data-chart]")
        drawn = page.locator("figure[data-chart] .chart svg")
        assert drawn.count() == figures.count() >= 6
        assert all(box["width"] > 80 for box in (drawn.nth(k).bounding_box() for k in range(drawn.count())))
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        marks = page.locator("figure .chart svg .mark-line path, figure .chart svg .mark-rect path")
        assert marks.count() > 0


@pytest.mark.parametrize("name", ["plain", "odds", "unit", "crossed"])
def test_the_slider_moves_every_number(opened, name):
    """At each place of the slider every number is that of the facts at that alpha, and the charts follow."""
    page, facts = opened(name)
    told = texts(facts)
    shown = moving_text(page)
    assert shown == {key: told[key][facts.own] for key in shown}
    assert len(shown) > 15
    for place in (0, 4, len(facts.after) - 1):
        slide(page, place)
        shown = moving_text(page)
        assert shown == {key: told[key][place] for key in shown}
        said = page.locator("#alpha").get_attribute("aria-valuetext")
        assert said == words.strength(facts.after[place].alpha)
    assert shown["unfairness"] == words.number(facts.after[-1].unfairness.value)


def test_the_slider_moves_every_chart(opened):
    """Every chart of the corrected ranking changes its drawing with the slider; those of the log do not."""
    script = (
        "() => Object.fromEntries([...document.querySelectorAll('figure[data-chart]')]"
        ".map(f => [f.dataset.chart, f.querySelector('svg').innerHTML.replace(/[a-z]+\\d+(?=[\")])/g, '')]))"
    )
    for name in ("crossed", "odds"):
        page, facts = opened(name)
        slide(page, 0)
        first = page.evaluate(script)
        slide(page, 6)
        second = page.evaluate(script)
        still = {chart for chart in first if first[chart] == second[chart]}
        assert still == {chart for chart in first if chart.endswith("-before") or chart == "position-bias"}
        page.locator("#back").click()
        page.wait_for_selector(f"body[data-at='{facts.own}']")
        assert page.locator("#alpha").input_value() == str(facts.own)


def test_the_slider_takes_the_keyboard(opened):
    """Tab reaches the slider, arrows and Home move it, and the verdict is announced politely."""
    page, facts = opened("plain")
    page.locator("#alpha").focus()
    page.keyboard.press("ArrowLeft")
    page.wait_for_selector(f"body[data-at='{facts.own - 1}']")
    page.keyboard.press("Home")
    page.wait_for_selector("body[data-at='0']")
    assert page.locator("[aria-live=polite]").inner_text() == words.short_verdict(facts, facts.after[0])


def test_a_table_stands_behind_each_chart(opened):
    """Each chart's numbers open below it, and follow the slider."""
    page, facts = opened("plain")
    for place in range(page.locator("figure details").count()):
        figure = page.locator("figure").nth(place)
        figure.locator("summary").click()
        figure.locator("tbody tr").nth(1).wait_for()
        assert figure.locator("thead th").count() > 1
    after = page.locator("figure[data-chart=scores-1-after] tbody")
    first = after.inner_text()
    slide(page, 0)
    assert after.inner_text() != first
    cells = page.locator("figure[data-chart=tradeoff-unfairness] tbody tr").first.locator("td, th")
    assert float(cells.nth(1).inner_text()) == pytest.approx(facts.before.unfairness.value, abs=1e-3)


def test_a_group_called_script_does_nothing(opened):
    """Names with markup appear in headline, tables and legends as they are, and run nothing."""
    page, _ = opened("hostile")
    assert page.evaluate("document.querySelectorAll('script').length") == 3
    assert HOSTILE[0] in page.locator("main").inner_text()
    legend = page.locator("figure[data-chart=positions-before] svg").text_content()
    assert "<script>" in legend
    page.locator("figure[data-chart=seen] summary").click()
    page.locator("figure[data-chart=seen] tbody tr").nth(1).wait_for()
    assert HOSTILE[0] in page.locator("figure[data-chart=seen] tbody").inner_text()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", ["plain", "twelve odds", "crossed", "small group"])
def test_it_is_accessible(opened, name, scheme):
    """axe-core finds nothing serious or critical, in light and in dark, with tables open, on a phone too."""
    from axe_playwright_python.sync_playwright import Axe

    for width in WIDTHS.values():
        page, _ = opened(name, width=width, scheme=scheme)
        page.evaluate(
            "document.querySelectorAll('figure details').forEach((d, k) => { if (k < 3) d.open = true; })"
        )
        slide(page, 3)
        found = Axe().run(page).response["violations"]
        grave = [one for one in found if one["impact"] in {"serious", "critical"}]
        told = json.dumps([(one["id"], one["nodes"][0]["html"][:300]) for one in grave], indent=1)
        assert not grave, told


def test_text_of_charts_follows_light_and_dark(opened):
    """Text in charts has the colour of the text around them, in either scheme."""
    script = (
        "() => { const t = document.querySelector('.chart svg text');"
        " return [getComputedStyle(t).fill, getComputedStyle(document.body).color]; }"
    )
    seen = set()
    for scheme in ("light", "dark"):
        page, _ = opened("plain", scheme=scheme)
        inside, outside = page.evaluate(script)
        assert inside == outside
        seen.add(inside)
    assert len(seen) == 2


def test_it_prints(opened, tmp_path):
    """On paper nothing is cut off at the side, the slider is gone, and its value is there."""
    page, _ = opened("crossed")
    page.emulate_media(media="print")
    assert not page.locator("#alpha").is_visible()
    assert page.locator("output").is_visible()
    assert page.locator("figure details").first.is_hidden()
    page.set_viewport_size({"width": 700, "height": 1000})
    assert page.evaluate("document.documentElement.scrollWidth") <= 700
    pdf = page.pdf(path=tmp_path / "page.pdf", format="A4", print_background=True)
    assert pdf.startswith(b"%PDF")
    assert 3 <= pdf.count(b"/Type /Page\n") + pdf.count(b"/Type /Page/") <= 14 or len(pdf) > 50_000


def test_screenshots_for_the_eye(opened, tmp_path):
    """Write screenshots where REPORT_SCREENSHOTS says, for people to look at; they are never empty."""
    folder = Path(os.environ.get("REPORT_SCREENSHOTS", tmp_path))
    for name in ("plain", "twelve odds"):
        for width, scheme in ((1200, "light"), (390, "light"), (1200, "dark")):
            page, _ = opened(name, width=width, scheme=scheme)
            path = folder / f"{name.replace(' ', '-')}-{width}-{scheme}.png"
            page.screenshot(path=path, full_page=True)
            assert path.stat().st_size > 50_000


@pytest.mark.parametrize("name", ["twelve odds", "crossed", "many", "outcomes"])
def test_it_stays_small(written, name):
    """A page is at most 1.5 MB whatever the number of groups, outcomes and cells."""
    path, _ = written(name)
    assert path.stat().st_size <= 1_500_000
