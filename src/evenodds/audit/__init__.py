"""How unfair is a ranking: distances between groups, exposure and merit, each with its uncertainty.

**Unfairness** is the largest Kolmogorov-Smirnov distance between any two groups' score distributions,
for one label. Each figure is given for observed labels, as logged, and for merit labels, with position
bias undone; for the ranking as logged, and for what a model would make of it. Everything comes from a
tally; intervals come from its folds of queries.
"""

from evenodds.audit.intervals import Figure
from evenodds.audit.measure import audit, largest_distance
from evenodds.audit.result import SCHEMA, Audit, Distance, label_name

__all__ = ["SCHEMA", "Audit", "Distance", "Figure", "audit", "label_name", "largest_distance"]
