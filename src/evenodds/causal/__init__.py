"""Why a score is unfair: read off a causal graph.

Equalized odds is independence of score and group given the label; in a causal graph that is d-separation.
A graph that breaks it names the paths by which it does, and a log can be held against it.
"""

from evenodds.causal.reading import SCHEMA, CausalReading, causal

__all__ = ["SCHEMA", "CausalReading", "causal"]
