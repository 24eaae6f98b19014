"""What the README and the pages of the site show is what the program does, and their links lead somewhere."""

import re
import subprocess

import pytest

from pages import FENCE, NOT_RUN, ROOT, commands, pages, rendered, runs, session_of

NAMES = [str(page.relative_to(ROOT)) for page in pages()]
LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)")


def prose(text):
    """Return a page without its code."""
    return re.sub(r"`[^`\n]*`", "", re.sub(r"^( *)```.*?^\1```$", "", text, flags=re.DOTALL | re.MULTILINE))


def anchors(text):
    """Return the anchors of a page's headings, as the site and code hosts make them."""
    heads = re.findall(
        r"^#+ (.*)$", re.sub(r"^```.*?^```$", "", text, flags=re.DOTALL | re.MULTILINE), re.MULTILINE
    )
    given = set(re.findall(r"\{ *#([\w-]+) *\}", text)) | set(re.findall(r'id="([\w-]+)"', text))
    plain = (
        re.sub(r"\{[^}]*\}|[^\w\s-]", "", re.sub(r"<[^>]*>", "", head)).strip().lower() for head in heads
    )
    return given | {re.sub(r"[\s]+", "-", head) for head in plain}


@pytest.mark.parametrize("name", [name for name in NAMES if runs((ROOT / name).read_text("utf-8"))])
def test_a_page_shows_what_its_blocks_print(name, tmp_path):
    """Every command and every line of Python in a page runs, in order, and prints what stands below it."""
    text = (ROOT / name).read_text("utf-8")
    session = session_of(ROOT / name, tmp_path)
    assert rendered(text, session) == text, "run `make readme` if the new output is right"
    assert getattr(session, "left", []) == [], "the script does more than the page shows"


def test_the_readme_shows_the_main_commands():
    """The README's console blocks cover the way from demo to forecast."""
    shown = {
        c.split()[1]
        for kind, body in runs((ROOT / "README.md").read_text("utf-8"))
        if kind == "console"
        for c, _ in commands(body)
    }
    assert {"fit", "audit", "apply", "tally", "forecast"} <= shown


def test_what_does_not_run_says_why():
    """Code that is shown as a console or as Python runs, or a comment before it gives the reason."""
    for page in pages():
        text = page.read_text("utf-8")
        for match in FENCE.finditer(text):
            reason = NOT_RUN.search(text, 0, match.start())
            assert reason is None or len(reason[0]) > len("<!-- not run:  -->") + 10, (
                f"{page.name}: {match[0]}"
            )


@pytest.mark.parametrize("name", NAMES)
def test_links_lead_somewhere(name):
    """Every file and every heading that a page links to exists; pages of the site link to each other only."""
    page = ROOT / name
    for target in LINK.findall(prose(page.read_text("utf-8"))):
        if re.match(r"(https?|mailto):", target) or "reference/" in target:
            continue  # the reference is made when the site is built, which checks the links into it
        path, _, anchor = target.partition("#")
        file = (page.parent / path).resolve() if path else page
        assert file.exists(), target
        assert page.parent == ROOT or (ROOT / "docs") in [*file.parents, file.parent], (
            f"{target} is not on the site"
        )
        if anchor and file.suffix == ".md":
            assert anchor in anchors(file.read_text("utf-8")), target


def test_scripts_that_ship_are_clean():
    """Shell scripts parse."""
    for script in (ROOT / "examples").rglob("*.sh"):
        subprocess.run(["bash", "-n", script], check=True)
