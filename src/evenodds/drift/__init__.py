"""Has a fitted correction stopped being fair? Two logs compared, and the newer one under the model.

The primary question is the unfairness of the newer log under the model, with position bias as that log
shows it. What has changed between the logs, each group's score distribution, position bias, base rates,
says why. Errors come from folds of queries, of both logs; p-values are corrected for how many there are.
"""

from evenodds.drift.measure import drift
from evenodds.drift.result import SCHEMA, Drift

__all__ = ["SCHEMA", "Drift", "drift"]
