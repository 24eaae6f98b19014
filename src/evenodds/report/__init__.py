"""One self-contained page that shows what is unfair, how sure that is, and what a correction does.

`facts` holds what the page says, `gather` computes it, `words` says it, `exhibits` and `charts` draw it,
and `page` puts it into HTML.
"""

from evenodds.report.facts import Facts
from evenodds.report.make import report

__all__ = ["Facts", "report"]
