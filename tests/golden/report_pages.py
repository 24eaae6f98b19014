"""Make the golden pages of the report anew, when its words are meant to change: python tests/golden/report_pages.py."""

import sys
import warnings
from pathlib import Path

HERE = Path(__file__).parent


def main():
    """Write the words of two pages."""
    sys.path[:0] = [str(HERE.parent), str(HERE.parent / "report")]
    warnings.simplefilter("ignore")
    from test_report_page import page_of, readable

    for name in ("plain", "odds"):
        (HERE / f"report-{name}.txt").write_text(readable(page_of(name)), "utf-8")


if __name__ == "__main__":
    main()
