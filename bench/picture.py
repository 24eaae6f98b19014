"""Make docs/images/report.png, the picture of a report in the README: the demo's page in Chromium, offline.

python bench/picture.py
"""

from __future__ import annotations

import datetime as dt
import os
import shutil
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
QUERIES = 20_000  # enough for the demo's numbers, and made in seconds
WIDTH, HEIGHT, SCALE = 1000, 1660, 0.72
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


def main() -> None:
    """Simulate, fit, write the page, and photograph the top of it."""
    from playwright.sync_api import sync_playwright

    import evenodds as eo

    browser = shutil.which("chromium")
    if browser is None:
        sys.exit("picture: no chromium (hint: make system installs it)")
    target = ROOT / "docs" / "images" / "report.png"
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as play:
        os.chdir(folder)
        Path("demo").mkdir()
        import pyarrow.parquet as pq

        pq.write_table(eo.simulate(QUERIES, seed=0), "demo/impressions.parquet")
        counts = eo.tally("demo/impressions.parquet")
        model = eo.EqualOpportunity().fit(counts)
        eo.report(counts, model, "report.html", date=dt.date(2026, 11, 19), command="evenodds demo")
        chromium = play.chromium.launch(executable_path=browser, args=FLAGS)
        context = chromium.new_context(
            viewport={"width": WIDTH, "height": HEIGHT}, device_scale_factor=SCALE, offline=True
        )
        page = context.new_page()
        page.goto(Path("report.html").absolute().as_uri())
        page.wait_for_selector("body[data-ready=yes]", timeout=120_000)
        page.screenshot(path=target)
        chromium.close()
    print(f"wrote {target.relative_to(ROOT)} ({target.stat().st_size / 1000:.0f} KB)")


if __name__ == "__main__":
    main()
