"""Position bias: how much less likely a positive is further down, for the same item.

``w_j = P(Y(j) = 1 | Y(1) = 1)``, with w = 1 at the first position. One estimator a file; each takes
counts by stratum and position and returns w. This module chooses between them, pools positions
with too few positives, and gives every estimate a standard error from the tally's folds of queries.
"""

from evenodds.position.estimate import METHODS, Method, position_bias
from evenodds.position.reading import Reading, read_bias
from evenodds.position.result import Goodness, PositionBias

__all__ = ["METHODS", "Goodness", "Method", "PositionBias", "Reading", "position_bias", "read_bias"]
