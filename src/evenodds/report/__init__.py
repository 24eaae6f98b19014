"""One self-contained page that shows what is unfair, how sure that is, and what a correction does.

`facts` holds what the page says, `gather` computes it, `words` and `notes` say it, `exhibits` draw it by `charts`
and `matrices`, and `page` puts it into HTML.
"""

from evenodds.report.facts import Facts
from evenodds.report.make import report

__all__ = ["Facts", "report"]
