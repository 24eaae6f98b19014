"""Put a comparison together: unfairness now, what has changed, and whether that matters."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from evenodds.audit.intervals import Figure, holm
from evenodds.audit.measure import SMALL
from evenodds.audit.models import promised
from evenodds.audit.replicates import MIN_FOLDS
from evenodds.drift.pairs import Pairs
from evenodds.drift.result import Change, Distribution, Drift, PairNow, Rate, Status, Weight, Weights
from evenodds.drift.sides import ALL, Curve, Known, Side, folds_of
from evenodds.drift.twosample import Moved, Noise, moved, ratio_of, stacked
from evenodds.errors import GridMismatchError, SettingsError
from evenodds.position import PositionBias
from evenodds.position.estimate import Method
from evenodds.reranker import Reranker
from evenodds.tally import Tally, as_tally, check_comparable, is_counted

Floats = npt.NDArray[np.float64]


def drift(
    old: object,
    new: object,
    model: Reranker | None = None,
    *,
    limit: float = 0.05,
    relative: float = 0.1,
    level: float = 0.05,
    position_bias: Method | None = None,
    **roles: object,
) -> Drift:
    """Tell whether a fitted correction is still fair, and what has changed since.

    Parameters
    ----------
    old
        A tally (or what makes one), or a model, whose stored facts then stand for its log.
    new
        A tally, or a log with its column roles; a log is counted in the score cells of the old one.
    model
        The correction in question; `old` itself, if that is a model. Without one only changes are told.
    limit
        The unfairness that is put up with, over what the fit left; the same number is the least
        distance by which a score distribution has to move to matter.
    relative
        By how much position bias or a rate has to change to matter.
    level
        Of the tests: the chance of a false alarm.
    position_bias
        How to estimate position bias on both logs; the model's method, if not given, else "joint".

    Notes
    -----
    "Drifted" takes three things: some pair's Kolmogorov-Smirnov distance of fair scores on `new` has its
    95 % interval above the limit, the difference between the two groups is not what it was (maximum of
    errors drawn anew from the folds of both logs, corrected by Holm's method), and both groups have 50 rows
    of the label. Distributions are compared given the merit label, which does not depend on how items
    were ranked: a log that was ranked by the fair score may be compared with one that was not.

    Examples
    --------
    >>> from evenodds import EqualOpportunity, simulate, tally
    >>> monday = tally(simulate(queries=4000, seed=1), cells=500)
    >>> model = EqualOpportunity().fit(monday)
    >>> drift(monday, simulate(queries=4000, seed=2), model, limit=0.1).status
    'holds'
    """
    if not 0.0 < limit < 1.0 or not relative > 0.0 or not 0.0 < level < 1.0:
        raise SettingsError(
            f"limit and level must lie in (0, 1) and relative above 0, got {limit}, {level} and {relative}"
        )
    if isinstance(old, Reranker):
        model = old if model is None else model
        old = old.tally_ if old.tally_ is not None else old
    first = None if isinstance(old, Reranker) else as_tally(old)
    second = _counted(new, old if first is None else first, roles)
    _check(old if first is None else first, second)
    comparison = _Comparison(first, cast("Reranker | None", None if first else old), second, model)
    return comparison.run(limit, relative, level, position_bias)


def _counted(new: object, old: object, roles: dict[str, object]) -> Tally:
    """Count a log in the old one's cells."""
    if is_counted(new):
        return as_tally(new, roles)
    if isinstance(old, Tally):
        return as_tally(new, {**roles, "grid": old, "depth": old.depth})
    kept = cast("Reranker", old).learned()
    return as_tally(new, roles if kept is None else {**roles, "grid": kept.grid})


def _check(old: object, new: Tally) -> None:
    """Refuse logs that have nothing to say about each other."""
    check_comparable(new)
    if isinstance(old, Tally):
        then = {
            "group columns": old.roles.group,
            "kinds of positive": old.roles.outcomes,
            "a position column": old.roles.position is not None,
        }
    else:
        told = cast("Reranker", old).fitted_on_["roles"]
        then = {
            "group columns": tuple(told["group"]),
            "kinds of positive": told.get("outcomes", 1),
            "a position column": "position" in told,
        }
    now = {
        "group columns": new.roles.group,
        "kinds of positive": new.roles.outcomes,
        "a position column": new.roles.position is not None,
    }
    for what, value in then.items():
        if now[what] != value:
            shown = [list(one) if isinstance(one, tuple) else one for one in (value, now[what])]
            raise GridMismatchError(
                f"the two logs cannot be compared: {what} differ, {shown[0]} before and {shown[1]} now",
                hint="name the same columns for both",
            )


class _Comparison:
    """One comparison: what its steps share."""

    def __init__(
        self, old: Tally | None, source: Reranker | None, new: Tally, model: Reranker | None
    ) -> None:
        self.model = model
        self._old, self._source, self._new = old, source, new
        self.notes: list[str] = []

    def run(self, limit: float, relative: float, level: float, method: Method | None) -> Drift:
        """Compute everything."""
        model = self.model
        chosen = method if method is not None else self._method()
        self.new = Side.of(self._new, chosen, model)
        self.old = None if self._old is None else Side.of(self._old, chosen, model)
        self.known = None if self._source is None else Known.of(self._source)
        self.outcomes = self._new.roles.outcomes
        labels = promised(model, self._new.counts.shape[1])
        names = self.old.names if self.old else cast("Known", self.known).names
        appeared = tuple(name for name in self.new.names if name not in names)
        vanished = tuple(name for name in names if name not in self.new.names)
        kind = "merit"
        if getattr(model, "target", "merit") == "observed" or not (self.new.bias.weights != 1.0).any():
            kind = "observed"
        pairs, left = self._pairs(labels, kind)
        distributions = self._distributions([*labels, ALL])
        weights = self._weights()
        rates = self._rates()
        changes = _adjusted([*distributions, *([weights] if weights else []), *rates])
        distributions = [
            replace(one, matters=_sure(one, level) and (one.ks.value or 0.0) >= limit and one.small is None)
            for one in changes
            if isinstance(one, Distribution)
        ]
        rates = [
            replace(one, matters=_sure(one, level) and _far(one.ratio.value, relative))
            for one in changes
            if isinstance(one, Rate)
        ]
        for one in changes:
            if isinstance(one, Weights):
                top = one.largest
                far = top is not None and _far(top.ratio.value, relative)
                weights = replace(one, matters=_sure(one, level) and far)
        self._remark(distributions)
        found = Drift(
            status="unsure",
            limit=limit,
            left=left,
            level=level,
            kind=kind,
            outcomes=self.outcomes,
            pairs=tuple(pairs),
            distributions=tuple(distributions),
            weights=weights,
            rates=tuple(rates),
            appeared=appeared,
            vanished=vanished,
            old=self._told(self.old, self._source),
            new=self._told(self.new, None),
            notes=tuple(self.notes),
        )
        return replace(found, status=_status(found))

    def _method(self) -> Method:
        """Estimate as the model did; weights that were given to it hold for both logs."""
        if self.model is None:
            return "joint"
        bias = self.model.position_bias_
        return bias if bias.method in {"given", "none"} else bias.method

    def _told(self, side: Side | None, source: Reranker | None) -> dict[str, Any]:
        if side is None:
            kept = cast("Reranker", source).fitted_on_
            return {"kind": "model", "rows": kept["rows"], "sources": list(kept["sources"])}
        return {"kind": "tally", "rows": side.tally.rows, "sources": list(side.tally.sources)}

    # Unfairness

    def _pairs(self, labels: tuple[int, ...], kind: str) -> tuple[list[PairNow], float | None]:
        if self.model is None:
            return [], None
        left = float(self.model.diagnostics_["unfairness"]["after"])
        return Pairs(self.model, self.new, self.old, self.known, left).compared(labels, kind), left

    def _places(self, *groups: int) -> tuple[int, ...] | None:
        """Return the places of groups on the older side; None if one was not there."""
        names = self.old.names if self.old else cast("Known", self.known).names
        wanted = [self.new.names[group] for group in groups]
        return tuple(names.index(name) for name in wanted) if set(wanted) <= set(names) else None

    # Changes

    def _distributions(self, labels: list[int]) -> list[Distribution]:
        found = []
        for label in labels:
            for place, name in enumerate(self.new.names):
                was, now = self._curve(name, label), self.new.curve(place, label)
                if was is None or now is None:
                    continue
                tests = len(labels) * len(self.new.names)
                change: Moved = moved(was, now, folds_of(self.old, self.new), tests)
                few = min(was.evidence, now.evidence)
                small = f"{few:.0f} rows, fewer than {SMALL}" if few < SMALL else None
                p_value = None if small else change.p_value
                found.append(
                    Distribution(p_value, None, False, name, label, change.ks, change.wasserstein, small)
                )
        return found

    def _curve(self, name: str, label: int) -> Curve | None:
        if self.old is not None:
            return self.old.curve(self.old.names.index(name), label) if name in self.old.names else None
        if label == 1 and self.outcomes == 1:
            return cast("Known", self.known).curves.get(name)
        return None

    def _weights(self) -> Weights | None:
        was: PositionBias = self.old.bias if self.old else cast("Known", self.known).bias
        now = self.new.bias
        new = self.new.weight_parts()
        if new is None or was.method in {"given", "none"}:
            return None
        deepest = min(side.depth for side in (self._old, self._new) if side is not None)
        both = np.intersect1d(was.positions, now.positions)
        positions = both[(both <= deepest) & (both > now.positions[0])]
        if both.size < 2 or was.positions[0] != now.positions[0] or positions.size == 0:
            return None
        old = None if self.old is None else self.old.weight_parts()
        borrowed = np.ones(positions.size)
        if self.old is None:  # the model states how large its errors are, not how they hang together
            stated = np.interp(positions, was.positions, was.standard_errors / was.weights)
            own = np.sqrt((new[:, positions] ** 2).sum(axis=0))
            borrowed = np.divide(stated, own, out=np.ones_like(own), where=own > 0)
        elif old is None:
            return None
        pair = stacked(None if old is None else old[:, positions], new[:, positions], borrowed)
        folds = folds_of(self.old, self.new)
        weights = [was.at(positions), now.at(positions)]
        change = np.log(weights[1]) - np.log(weights[0])
        if pair is None or folds is None:
            listed = tuple(
                Weight(int(j), float(a), float(b), Figure(float(b / a)), None)
                for j, a, b in zip(positions, *weights, strict=True)
            )
            return Weights(None, None, False, listed)
        noise = Noise((len(pair[0]), len(pair[1])), folds, 1)
        parts = np.concatenate(pair)
        errors = np.maximum(np.sqrt((parts**2).sum(axis=0)), 1e-12)
        joint = noise.p_value(change / errors, parts / errors)
        single = holm([noise.p_of_one(c, parts[:, k]) for k, c in enumerate(change)])
        listed = tuple(
            Weight(int(j), float(a), float(b), ratio_of(float(b / a), parts[:, k], noise.quantile), single[k])
            for k, (j, a, b) in enumerate(zip(positions, *weights, strict=True))
        )
        return Weights(joint, None, False, listed)

    def _rates(self) -> list[Rate]:
        now, folds = self.new.rates(), folds_of(self.old, self.new)
        then = self.old.rates() if self.old is not None else None
        known = self.known
        found = []
        for name in ("share", "merit_rate", "positive_rate"):
            for place, group in enumerate(self.new.names):
                was = self._places(place)
                new = float(now.values[name][place])
                old, borrowed = math.nan, 1.0
                old_parts = None
                if was is not None and then is not None:
                    old = float(then.values[name][was[0]])
                    old_parts = then.parts[name][:, was[0]] if name in then.parts else None
                elif was is not None and known is not None and name != "merit_rate":
                    rows = known.rows[was[0]]
                    old = rows / known.rows.sum() if name == "share" else known.positives[was[0]] / rows
                    borrowed = math.sqrt(self.new.rows[place] / max(rows, 1.0))
                new_parts = now.parts[name][:, place] if name in now.parts else None
                found.append(self._rate(group, name, (old, new), (old_parts, new_parts), borrowed, folds))
        return found

    @staticmethod
    def _rate(
        group: str,
        name: str,
        values: tuple[float, float],
        parts: tuple[Floats | None, Floats | None],
        borrowed: float,
        folds: tuple[int, int] | None,
    ) -> Rate:
        old, new = (value if np.isfinite(value) else None for value in values)
        if not old or not new:
            return Rate(None, None, False, group, name, old, new, Figure(None))
        pair = stacked(*parts, borrowed)
        if pair is None or folds is None or not all(np.isfinite(part).all() for part in pair):
            return Rate(None, None, False, group, name, old, new, Figure(new / old))
        noise = Noise((len(pair[0]), len(pair[1])), folds, 1)
        both = np.concatenate(pair)
        p_value = noise.p_of_one(math.log(new / old), both)
        return Rate(p_value, None, False, group, name, old, new, ratio_of(new / old, both, noise.quantile))

    def _seen(self, model: Reranker) -> bool:
        """Whether the model was fitted on the newer log; tables in memory have no names to tell by."""
        if model.tally_ is not None and model.tally_.equals(self._new):
            return True
        shared = set(model.fitted_on_["sources"]) & set(self._new.sources)
        return any(not name.startswith("<") for name in shared)

    def _remark(self, distributions: list[Distribution]) -> None:
        """Say what the reader has to know about the figures."""
        for when, side in (("older", self.old), ("newer", self.new)):
            if side is None:
                continue
            if side.made is None:
                few = f"fewer than {MIN_FOLDS} folds of queries hold rows"
                self.notes.append(f"the {when} log: {few}: nothing that has an error in it can be said")
            elif side.tally.folds is None:
                self.notes.append(f"the {when} log names no queries: errors take impressions as independent")
            self.notes += [f"the {when} log: {note}" for note in side.bias.notes if "no query" not in note]
        if self.old is None:
            self.notes.append(
                "the older log's errors are taken from the newer one's, by how many rows there are"
            )
            if not distributions:
                self.notes.append(
                    "this model keeps no score distributions: compare with the tally it was fitted on"
                )
        if self.model is not None and self._seen(self.model):
            self.notes.append(
                "the newer log is one that the model was fitted on: there it can only look fair"
            )


def _adjusted(changes: list[Any]) -> list[Change]:
    """Correct the p-values for everything that was tested.

    Rates of logged positives are told but not tested: they follow from the ranking too.
    """
    tested = [
        None if isinstance(one, Rate) and one.name == "positive_rate" else one.p_value for one in changes
    ]
    return [replace(one, p_adjusted=p) for one, p in zip(changes, holm(tested), strict=True)]


def _sure(change: Change, level: float) -> bool:
    return change.p_adjusted is not None and change.p_adjusted < level


def _far(ratio: float | None, relative: float) -> bool:
    return ratio is not None and (ratio > 1.0 + relative or ratio < 1.0 / (1.0 + relative))


def _status(found: Drift) -> Status:
    """Weigh size and sureness, see :func:`drift`."""
    if found.left is None:
        if found.changes or found.appeared or found.vanished:
            return "changed"
        wide = [one for one in found.distributions if one.small is None]
        if not wide or any(one.ks.high is None or one.ks.high > found.limit for one in wide):
            return "unsure"
        return "unchanged"
    most = found.left + found.limit
    judged = found.judged
    over = [pair for pair in judged if pair.now.low is not None and pair.now.low > most]
    if judged and all(pair.small is None for pair in judged):
        if any(pair.p_adjusted is None or pair.p_adjusted < found.level for pair in over):
            return "drifted"
        if over:
            return "unfair"
        if all(pair.now.high is not None and pair.now.high <= most for pair in judged):
            return "holds"
    return "unsure"
