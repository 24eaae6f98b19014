"""What a reranker will do to each group's positives and exposure, before it is launched.

Every logged list is ranked anew by the fair score. An item of group c in score cell b is positive at
position j with probability ``w_j r(b, c)``, so that moving all items from positions j to j' gives

    expected positives of c = sum over b of r(b, c) W'(b, c),    r(b, c) = Y(b, c) / W(b, c),

with Y the positives, W the sum of w_j and W' that of w_j' over the group's rows in the cell. All three
come from two counts of the log, one at the logged positions and one at the new ones.

Choices, and why (`bench/forecast_coverage.py` shows the outcome):

- Nearly all of the error is that of w: with w held fixed, 95 % intervals cover 40 %. So w is estimated
  anew for every part of every interval, and on the log at hand, not smoothed: a model's smooth curve
  leans, by up to half a standard error of the forecast (:mod:`evenodds.position.reading`).
- Cells: n^(1/3) a group, n its positives, of equal W. Finer ones change nothing on other logs, and on
  the log that the model was fitted on they show the model its own noise: equalized odds then promises
  0.7 % too many positives on 3,000 lists.
- Correcting each row by its own label (doubly robust, or weights w_j' / w_j alone) has the same error,
  as w is in it all the same; so it is left out. The simplest stays.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager

import numpy as np
import numpy.typing as npt

from evenodds.engines.arrow import COARSE_CELLS
from evenodds.engines.partial import Plan
from evenodds.errors import EvenoddsError, LogError, SettingsError, TallyError
from evenodds.grid import Grid
from evenodds.groups import group_name
from evenodds.log import Log
from evenodds.outlook import Forecast, GroupForecast, figures, intervals, percent
from evenodds.position import PositionBias, Reading, read_bias
from evenodds.position.estimate import Method
from evenodds.recount import Lists, Passes, recounting
from evenodds.replay import check_keys, default_keys
from evenodds.reranker import Reranker
from evenodds.tally import DEPTH, Tally, as_log, from_counted

Floats = npt.NDArray[np.float64]

_FEW_POSITIVES = 100
_FAR_OFF = 4.0  # standard errors; two independent estimates of w differ by 1.4 of them
_POSITIVES, _RELATIVE = 1, 3  # places in the figures


def forecast(
    model: Reranker,
    log: object,
    *,
    keys: Sequence[str] | None = None,
    seed: int = 0,
    position_bias: Method | None = None,
    max_cut_off: float = 0.05,
    confidence: float = 0.95,
    progress: Callable[[int], None] | None = None,
    **roles: object,
) -> Forecast:
    """Forecast what a model will do, by ranking a log's lists anew.

    The intervals are for the expected change on further lists of the same kind (same items and viewers,
    logged under the same ranker), as many as are in the log. They respect queries: a jackknife over 20
    folds of queries, position bias included.

    A log whose lists are all cut at the same depth looks whole; then nothing is known of the items
    below the cut, and the forecast is for re-ranking those above it.

    Parameters
    ----------
    model
        A fitted reranker.
    log
        A :class:`Log`, or anything that `Log` takes, with its column roles; query and position needed.
    keys, seed
        What makes random draws repeat: columns, else query and item, else the row number under a seed.
    position_bias
        A method of :func:`evenodds.position_bias` to use on this log, or weights. If not given: as the
        model did, from this log, unless the model's estimate comes from four times as many rows.
    max_cut_off
        The share of lists that may lack positions. Their rows share out the slots that they held.
    confidence
        Of the intervals.
    progress
        Called with numbers of rows, twice the log's rows in all.

    Examples
    --------
    >>> from evenodds import EqualOpportunity, simulate
    >>> log = simulate(queries=1000)
    >>> result = forecast(EqualOpportunity().fit(log), log)
    >>> [round(group.positives.relative, 1) for group in result.groups]
    [0.4, -0.1]
    """
    if not hasattr(model, "position_bias_"):
        raise EvenoddsError(
            f"this {type(model).__name__} is not fitted", hint="call fit first, or eo.load a model"
        )
    if not 0 < confidence < 1:
        raise SettingsError(f"confidence must lie between 0 and 1, got {confidence}", hint="0.95 is usual")
    if not 0 <= max_cut_off <= 1:
        raise SettingsError(f"max_cut_off must lie in 0..1, got {max_cut_off}")
    known = as_log(log, roles)
    _check_roles(known, keys or ())
    keys = list(keys) if keys else default_keys(known)
    stated = model.position_bias_
    depth = max(DEPTH, int(stated.positions[-1]))
    sample = known.score_sample()
    grid = Grid.from_sample(sample if sample.size else np.zeros(1), COARSE_CELLS)
    plan = Plan(known.roles, grid, depth, known.first_position)
    with _passes(model, known, plan, keys, seed, progress) as passes:
        counted = passes.plan.roles
        old = from_counted(passes.old, grid, counted, depth, known.names)
        if not old.counts[:, 1:].any():
            raise TallyError("no positive label in the log: nothing to forecast from")
        if position_bias is None:
            reading = read_bias(old, stated, rows=float(model.fitted_on_["rows"]))
        else:
            reading = read_bias(old, method=position_bias)
        _check_bias(reading.bias)
        first = _first(stated if stated.method != "none" else reading.bias, known, old)
        lists = passes.ranked(first)
        _check_lists(lists, max_cut_off, first)
        new = from_counted(passes.recounted(), grid, counted, depth, known.names)
    return _result(model, reading, lists, old, new, confidence)


def _passes(
    model: Reranker,
    log: Log,
    plan: Plan,
    keys: Sequence[str],
    seed: int,
    progress: Callable[[int], None] | None,
) -> AbstractContextManager[Passes]:
    if log.spark_frame is None:
        return recounting(model, log, plan, keys, seed, progress)
    from evenodds.spark_replay import recounting_on_spark

    return recounting_on_spark(model, log, plan, keys)


def _check_roles(log: Log, keys: Sequence[str]) -> None:
    problems = check_keys(log, keys)
    if log.roles.query is None:
        problems.append("no query column: a forecast re-ranks lists, so it must know what was shown together")
    if log.roles.position is None:
        problems.append("no position column: a forecast must know where the rows stood")
    if problems:
        raise LogError(problems, hint=f"columns: {', '.join(log.schema.names)}")


def _check_bias(bias: PositionBias) -> None:
    if (bias.weights == 1.0).all():
        raise SettingsError(
            "the model knows no position bias, so no ranking would change anything",
            hint="position_bias='joint' estimates it on this log (--position-bias joint)",
        )


def _first(bias: PositionBias, log: Log, old: Tally) -> int:
    """Return the number of the top slot: the log says it, or the model's log did."""
    top = int(np.flatnonzero(old.squares.any(axis=(0, 1)))[0])
    if top < int(bias.positions[0]):
        raise LogError(
            [f"positions start at {top} in the log and at {bias.positions[0]} in the model"],
            hint="count the log's positions as the model's log did",
        )
    return int(bias.positions[0]) if log.first_position is None else log.first_position


def _check_lists(lists: Lists, allowed: float, first: int) -> None:
    share = lists.cut_off / max(lists.queries, 1)
    if share > allowed:
        said = (
            f"{lists.cut_off:,} of {lists.queries:,} queries ({100 * share:.3g} %) do not hold each of the "
            f"positions {first}, {first + 1}, ... once, for instance that of {lists.example}; a forecast "
            f"re-ranks whole lists, and takes up to {100 * allowed:.3g} % of others"
        )
        raise LogError(
            [said],
            hint="log every row that was shown, not only clicked or sampled ones; max_cut_off=1 "
            "(--max-cut-off 1) re-ranks what is there",
        )


def _result(
    model: Reranker, reading: Reading, lists: Lists, old: Tally, new: Tally, confidence: float
) -> Forecast:
    plain = figures(old, new, reading.bias)
    errors, degrees = intervals(old, new, reading)
    notes = _notes(model, reading.bias, lists, old)
    if degrees < 1:
        notes.append("all queries fall in one fold: too few for intervals")
    elif degrees < 19:
        notes.append(f"only {degrees + 1} of 20 folds hold queries: intervals are rough")
    if reading.other is not None:
        notes += _compared(model, reading, old, new, errors)
    names = [*(group_name(group) for group in old.groups), "all"]
    rows = old.counts.sum(axis=(1, 2, 3), dtype=np.float64)
    groups = [
        GroupForecast.of(name, float(held), plain[place], errors[place], degrees, confidence)
        for place, (name, held) in enumerate(zip(names, [*rows, rows.sum()], strict=True))
    ]
    return Forecast(
        rows=old.rows,
        queries=lists.queries,
        cut_off=lists.cut_off,
        confidence=confidence,
        criterion=model.criterion,
        alpha=float(model.alpha),
        overall=groups[-1],
        groups=tuple(groups[:-1]),
        notes=tuple(notes),
    )


def _compared(model: Reranker, reading: Reading, old: Tally, new: Tally, errors: Floats) -> list[str]:
    """Say so if the model's curve and this log's own would forecast different things."""
    curves = {
        bias is model.position_bias_: bias for bias in (reading.bias, reading.other) if bias is not None
    }
    found = {
        is_model: figures(old, new, bias)[-1, _POSITIVES, _RELATIVE] for is_model, bias in curves.items()
    }
    if len(found) < 2 or not abs(found[True] - found[False]) > _FAR_OFF * errors[-1, _POSITIVES, _RELATIVE]:
        return []
    return [
        (
            f"the model's position bias does not fit this log: by it all positives would change by "
            f"{percent(float(found[True]))}, by this log's own by {percent(float(found[False]))}"
        )
    ]


def _notes(model: Reranker, bias: PositionBias, lists: Lists, old: Tally) -> list[str]:
    notes: list[str] = []
    if lists.cut_off:
        notes.append(
            f"{lists.cut_off:,} of {lists.queries:,} lists lack positions: their rows share out the "
            "slots that they held"
        )
    deepest, known = old.counts.shape[2] - 1, int(bias.positions[-1])
    if deepest > known:
        notes.append(f"positions go down to {deepest}; past {known}, w stays what it is at {known}")
    elif deepest < known:
        notes.append(
            f"lists end at position {deepest} and the model was fitted down to {known}: if the log is cut "
            "there, nothing is known of items below"
        )
    if bias.goodness is not None and bias.goodness.fails:
        notes.append(
            f"position bias was not the same for all items (beyond chance by {100 * bias.goodness.excess:.0f} %): "
            "the forecast takes it to be"
        )
    unseen = model.rows_of(old) == model.index_.unknown
    policy = "takes the pooled map" if model.unknown == "pooled" else "keeps its scores"
    notes += [
        f"group {group_name(old.groups[place])} is not in the model: it {policy}"
        for place in np.flatnonzero(unseen)
    ]
    positives = old.effective_positives()
    notes += [
        f"group {group_name(group)} has {count:.0f} positives: its forecast is rough"
        for group, count in zip(old.groups, positives, strict=True)
        if count < _FEW_POSITIVES
    ]
    if bias.method != "none" and not bias.standard_errors.any():
        notes.append("the position weights carry no standard errors: intervals take them as exact")
    return notes


__all__ = ["Forecast", "forecast"]
