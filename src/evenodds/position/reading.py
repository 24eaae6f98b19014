"""Which position bias a log is read with, and how far off that may be.

A smooth curve is nearer to the true one at each position, and worse for whatever is added up over
positions: all of it leans the same way. Where positives came in too high at a position by chance, an
estimate that follows them divides that chance away again; a smooth one leaves it in. So sums (rates,
distances, areas, changes of positives) take the curve of their own log as it comes: they vary no more
than with a smooth one, and lose its bias, a third of a standard error in areas under curves and up to
half of one in forecasts (`bench/audit_coverage.py`, `bench/forecast_coverage.py`).
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from evenodds.errors import HomogeneityWarning
from evenodds.position.estimate import Method, position_bias
from evenodds.position.result import PositionBias
from evenodds.tally import Tally

Floats = npt.NDArray[np.float64]

_CLEARLY = 4.0  # times as many rows: half the error, so that what smoothing adds hardly matters
_LARGEST = 5.0  # factor by which a left-out weight may differ


@dataclass(frozen=True, eq=False)
class Reading:
    """A curve, and its error along the tally's position axis.

    Attributes
    ----------
    bias
        The weights to use.
    other
        The curve that was not chosen, a model's or this log's own, if there was a choice.
    left_out
        The factor by which they change without each fold of queries, ``[fold, position]``; None where
        they do not come from this log.
    aside
        Jackknife values of the error of log w that has nothing to do with this log's counts,
        ``[part, position]``; no parts where w is known, or comes from this log.
    """

    bias: PositionBias
    other: PositionBias | None
    left_out: Floats | None
    aside: Floats


def read_bias(
    tally: Tally,
    stated: PositionBias | None = None,
    method: Method = "joint",
    *,
    rows: float = 0.0,
    same_log: bool = False,
) -> Reading:
    """Choose the curve to read a log with.

    Parameters
    ----------
    stated
        A model's curve. It is used if it was given and not estimated, if it comes from a log four times
        the size of this one, or if it took an experiment that this log is not.
    method
        How to estimate without one; weights are taken as they are.
    rows
        How many rows `stated` comes from.
    same_log
        Whether those are the rows of this very log.
    """
    if isinstance(method, PositionBias):
        stated, rows = method, np.inf
    if stated is None:
        return _own(tally, position_bias(tally, method, smooth=False), None)
    if stated.method in {"given", "none"} or tally.roles.position is None:
        return _taken(tally, stated, None, rows)
    repeats = stated.method in {"joint", "adjacent"} or (
        same_log and (stated.method != "swaps" or tally.swaps is not None)
    )
    with warnings.catch_warnings():  # it was said when the model was fitted
        warnings.simplefilter("ignore", HomogeneityWarning)
        own = position_bias(tally, stated.method if repeats else "joint", smooth=False)
    tells = own.left_out is not None and bool((own.weights != 1.0).any())
    if repeats and tells and (same_log or rows < _CLEARLY * tally.rows):
        return _own(tally, own, stated)
    return _taken(tally, stated, own, rows)


def _own(tally: Tally, own: PositionBias, other: PositionBias | None) -> Reading:
    """Read a log with its own curve."""
    places = tally.counts.shape[2]
    left_out = None if own.left_out is None else _factors(own, own.left_out, places)
    return Reading(own, other, left_out, np.zeros((0, places)))


def _taken(tally: Tally, stated: PositionBias, own: PositionBias | None, rows: float) -> Reading:
    """Read it with another; its error is of the size that is stated, correlated as on this log.

    Errors of a smooth curve are alike from one position to the next, and add up to what they would be
    without smoothing: so they are no less than those seen here, as so many rows would have them. Where
    this log is too small to tell how positions err, all err together.
    """
    places = np.arange(tally.counts.shape[2])
    size = np.interp(places, stated.positions, stated.standard_errors / stated.weights)
    if not size.any():
        aside = np.zeros((0, places.size))
    elif own is None or own.left_out is None:
        aside = np.stack((size, -size))
    else:
        found = np.interp(places, own.positions, own.standard_errors / own.weights)
        if stated.method == "joint" and rows > 0:
            size = np.maximum(size, found * np.sqrt(tally.rows / rows))
        scale = np.clip(np.divide(size, found, out=np.zeros_like(size), where=found > 0), 0.0, 10.0)
        moved = np.log(_factors(own, own.left_out, places.size))
        aside = (moved - moved.mean(axis=0)) * scale
    return Reading(stated, own, None, aside)


def _factors(own: PositionBias, left_out: Floats, places: int) -> Floats:
    """Return by what factor leaving a fold out changes w, along the tally's position axis."""
    whole = own.at(range(places))
    floor = float(whole.min()) / _LARGEST
    left = np.array([replace(own, weights=np.maximum(one, floor)).at(range(places)) for one in left_out])
    return np.clip(left / whole, 1 / _LARGEST, _LARGEST)
