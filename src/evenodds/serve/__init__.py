"""In the request path: the scorer, and an HTTP server around it."""

from evenodds.scoring.scorer import Scorer

__all__ = ["Scorer"]
