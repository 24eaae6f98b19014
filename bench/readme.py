"""Write what every command and every line of Python prints below it: in the README and in the site's pages.

python bench/readme.py                     # all of them
python bench/readme.py docs/tutorial.md    # some
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]


def main() -> None:
    """Run the blocks of each page in a folder of its own, and put what they print into the page."""
    sys.path.insert(0, str(ROOT / "tests"))
    from pages import pages, rendered, runs, session_of  # type: ignore[import-not-found]  # what the tests use

    for page in [Path(name).resolve() for name in sys.argv[1:]] or pages():
        text = page.read_text("utf-8")
        if runs(text):
            with tempfile.TemporaryDirectory() as folder:
                page.write_text(rendered(text, session_of(page, folder)), "utf-8")


if __name__ == "__main__":
    main()
