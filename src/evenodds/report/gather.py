"""From a tally and a model to the facts of a page: one audit, and what changes with the strength."""

from __future__ import annotations

import copy
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from evenodds.audit import Audit, Distance, Figure
from evenodds.audit.after import Fair
from evenodds.audit.figures import cross_auc, cumulated, exposure_figures, rate_figures
from evenodds.audit.intervals import area_under_curve, positive, share
from evenodds.audit.measure import Auditor
from evenodds.merit import clipped, position_weights, unclipped_mass
from evenodds.report.facts import About, Bias, Cut, Facts, Gap, GroupCounts, GroupState, Parity, State
from evenodds.report.shapes import Shape, Shapes
from evenodds.reranker import Reranker
from evenodds.tally import Tally

Floats = npt.NDArray[np.float64]

ALPHAS = tuple(place / 10 for place in range(11))
DRAWN = 12  # groups that charts show
_FEW = 3  # groups, up to which nothing is left out of an audit to save time
_SLOTS = 60  # positions that charts show


def gather(tally: Tally, model: Reranker, about: About, alphas: Sequence[float] = ALPHAS) -> Facts:
    """Compute everything that a page says.

    Parameters
    ----------
    tally, model
        The counts, and the model; its own alpha is added to `alphas`.
    about
        Where the page comes from; what the audit knows of that is filled in.
    """
    return _Gatherer(tally, model, alphas).run(about)


class _Gatherer:
    """One page's facts: what the steps share."""

    def __init__(self, tally: Tally, model: Reranker, alphas: Sequence[float]) -> None:
        self.tally, self.model = tally, model
        self.alphas = sorted({*alphas, 0.0, model.alpha})
        self.auditor = Auditor(tally, model, brief=len(tally.groups) > _FEW)
        self.audit: Audit = self.auditor.run()
        self.main, self.promised = self.audit.main_kind, self.audit.gated
        mass = self.auditor.merit if self.main == "merit" else self.auditor.observed
        self.mass = mass
        self.shapes = Shapes(tally, model, mass)
        self.labels = (*range(1, mass.shape[1]), 0)
        self.names = self.auditor.names
        self.quantile = 2.0 if self.auditor.made is None else self.auditor.made.quantile
        self.start: tuple[float, Floats | None] | None = None
        self.worst_off: tuple[int, int] | None = None

    def run(self, about: About) -> Facts:
        """Put the facts together."""
        audit, auditor, tally = self.audit, self.auditor, self.tally
        before = self._before()
        self.drawn = self._drawn(before)
        after = tuple(self._after(alpha) for alpha in self.alphas)
        shown = np.flatnonzero(auditor.rows.sum(axis=0))
        slots = shown[_some(shown.size)] if auditor.positioned else np.zeros(0, np.int64)
        bias = audit.position_bias
        known = bias.goodness
        return Facts(
            about=_completed(about, self),
            rows=tally.rows,
            outcomes=tally.roles.outcomes,
            main=self.main,
            promised=self.promised,
            labels=self.labels,
            groups=self._counts(),
            drawn=self.drawn,
            bias=Bias(
                bias.method,
                tuple(bias.positions.tolist()),
                tuple(bias.weights.tolist()),
                tuple(bias.standard_errors.tolist()),
                None if known is None else known.p_value,
                None if known is None else known.excess,
                known is not None and known.fails,
            ),
            tied=self.shapes.tied,
            positions=tuple(slots.tolist()),
            edges=self.shapes.edges,
            scores=self.shapes.scores,
            before=self._cut_down(before, slots),
            after=tuple(self._cut_down(state, slots) for state in after),
            own=self.alphas.index(self.model.alpha),
        )

    # States

    def _before(self) -> State:
        auditor = self.auditor
        made = auditor.made
        weights = position_weights(self.tally, auditor.bias)
        left = None
        if made is not None:
            left = {
                **_rates(made.observed, made.merit, made.rows.sum(axis=-1)),
                "exposure": exposure_figures(made.rows, made.weights)["exposure"],
                "auc": _pooled_auc(made.merit, made.negative),
            }
        figures = {
            **_rates(auditor.observed, auditor.merit, auditor.rows.sum(axis=-1)),
            "exposure": exposure_figures(auditor.rows, weights)["exposure"],
            "auc": _pooled_auc(auditor.merit, auditor.negative),
        }
        gaps = tuple(_gap(one, after=False) for one in self.audit.distances)
        return self._state(None, gaps, figures, left, auditor.rows, self.shapes.before(), None)

    def _after(self, alpha: float) -> State:
        model = copy.copy(self.model)
        model.alpha = alpha
        here = self.auditor if alpha == self.model.alpha else self.auditor.at(model)
        distances = self.audit.distances if here is self.auditor else here.distances()
        fair, ahead = here.fair, here.ahead
        if fair is None:  # there is a model: it cannot be
            raise AssertionError
        left = None if ahead is None else _fair_figures(ahead[0])
        # Nothing is corrected at 0: distances given merit are those of the log.
        same = {"merit"} if alpha == 0.0 else set()
        gaps = tuple(_gap(one, after=one.kind not in same) for one in distances)
        shape = self.shapes.after(model)
        state = self._state(alpha, gaps, _fair_figures(fair), left, fair.rows, shape, fair, model)
        if here is not self.auditor:
            vars(here).clear()  # the left-out versions of many groups are large
        return state

    def _state(
        self,
        alpha: float | None,
        gaps: tuple[Gap, ...],
        figures: dict[str, Floats],
        left: dict[str, Floats] | None,
        rows: Floats,
        shape: Shape,
        fair: Fair | None,
        model: Reranker | None = None,
    ) -> State:
        errors = self._errors(figures, left)
        worst = worst_of(gaps, self.promised, self.main)
        change = None
        all_positive = float(figures["all_positive"])
        if fair is not None:
            change = self._change(all_positive, None if left is None else left["all_positive"])
        shares = rows / np.maximum(rows.sum(axis=0), 1e-300)
        worth = (
            float(self.auditor.evidence.sum()) if fair is None else np.inf
        )  # what is expected is not counted
        return State(
            alpha=alpha,
            unfairness=figure_of(gaps, self.promised, self.main),
            by_label=tuple(figure_of(gaps, (label,), self.main) for label in self.promised),
            gaps=gaps,
            cut=None if worst is None else self._cut(worst, fair),
            groups=self._groups(figures, errors, rows, shape),
            parity=self._parity(figures["parity"], None if left is None else left["parity"]),
            columns=self._columns(fair),
            positives=share(all_positive, float(errors["all_positive"]), self.quantile, worth),
            change=change,
            auc=area_under_curve(float(figures["auc"]), float(errors["auc"]), self.quantile),
            movement=0.0 if model is None else model.movement(self.tally),
            shares=shares if self.auditor.positioned else None,
            density=shape.density,
            flow=shape.flow,
            curve=None if model is None else self.shapes.curve(model),
        )

    def _errors(self, figures: dict[str, Floats], left: dict[str, Floats] | None) -> dict[str, Floats]:
        made = self.auditor.made
        if left is None or made is None:
            return {name: np.full(np.shape(value), np.nan) for name, value in figures.items()}
        return {name: made.standard_error(left[name]) for name in figures}

    def _change(self, now: float, left: Floats | None) -> Figure | None:
        """Compare with the old scores ranked anew, so that both sides are expected in the same way."""
        if self.start is None:
            self.start = now, left
        first, first_left = self.start
        if not self.auditor.positioned:  # nothing is known of who is seen, so nothing of what comes of it
            return None
        made, error = self.auditor.made, float("nan")
        if left is not None and first_left is not None and made is not None:
            error = float(made.standard_error(left / np.maximum(first_left, 1e-300)))
        ratio = positive(now / first if first > 0 else float("nan"), error, self.quantile)
        ends = [None if end is None else end - 1.0 for end in (ratio.value, ratio.low, ratio.high)]
        return Figure(*ends)

    def _groups(
        self, figures: dict[str, Floats], errors: dict[str, Floats], rows: Floats, shape: Shape
    ) -> tuple[GroupState, ...]:
        positioned, biased = self.auditor.positioned, self.auditor.biased
        shown = np.flatnonzero(self.auditor.rows.sum(axis=0))
        slots = np.arange(rows.shape[1]) - (int(shown[0]) if shown.size else 0) + 1.0
        from_part = self.shapes.share_from()
        found = []
        for place, name in enumerate(self.names):
            rising = falling = None
            if shape.flow is not None:
                moved = from_part[place][:, None] * shape.flow[place]
                rising, falling = (abs(float(part.sum())) for part in (np.triu(moved, 1), np.tril(moved, -1)))

            def told(figure: str, at: int = place) -> Figure:
                return positive(float(figures[figure][at]), float(errors[figure][at]), self.quantile)

            total = float(rows[place].sum())
            found.append(
                GroupState(
                    name,
                    float(shape.rank[place]),
                    told("exposure") if positioned else None,
                    told("parity") if positioned and biased else None,
                    float(rows[place] @ slots) / total if positioned and total > 0 else None,
                    rising,
                    falling,
                )
            )
        return tuple(found)

    def _parity(self, parity: Floats, left: Floats | None) -> Parity | None:
        auditor = self.auditor
        if not (auditor.positioned and auditor.biased):
            return None
        if self.worst_off is None:
            sound = [place for place, why in enumerate(auditor.small) if why is None]
            sound = [place for place in sound if np.isfinite(parity[place])]
            if len(sound) < 2:
                return None
            least = min(sound, key=lambda place: float(parity[place]))
            self.worst_off = least, max(sound, key=lambda place: float(parity[place]))
        one, other = self.worst_off
        error, made = float("nan"), auditor.made
        if left is not None and made is not None:
            error = float(made.standard_error(left[:, one] / left[:, other]))
        ratio = positive(float(parity[one] / parity[other]), error, self.quantile)
        return Parity((self.names[one], self.names[other]), ratio)

    def _cut(self, worst: Gap, fair: Fair | None) -> Cut:
        if fair is None:
            ends, mass = self.tally.edges, self.mass
        else:
            ends, mass = fair.ends, fair.merit if self.main == "merit" else fair.observed
        below = cumulated(mass[:, worst.label])
        one, other = (self.names.index(name) for name in worst.groups)
        place = int(np.nan_to_num(np.abs(below[one] - below[other])).argmax())
        low, high = (one, other) if below[one, place] >= below[other, place] else (other, one)
        passing = float(1 - below[low, place]), float(1 - below[high, place])
        names = self.names[low], self.names[high]
        # The cell of a tied score ends at the next number a computer knows: that is the score itself.
        wide = float(ends[-1] - ends[0])
        score = float(ends[place]) if abs(float(ends[place])) > 1e-9 * wide else 0.0
        return Cut(worst.label, worst.kind, names, score, passing)

    def _columns(self, fair: Fair | None) -> tuple[float, ...]:
        """Return the largest distance by each group column alone."""
        groups = self.tally.groups
        if len(self.tally.roles.group) < 2:
            return ()
        mass = self.mass if fair is None else (fair.merit if self.main == "merit" else fair.observed)
        found = []
        for column in range(len(self.tally.roles.group)):
            values = sorted({group[column] for group in groups})
            held = np.array([[group[column] == value for group in groups] for value in values], float)
            below = cumulated(held @ mass[:, self.promised[0]])
            below = below[np.isfinite(below).all(axis=1)]
            found.append(float(np.ptp(below, axis=0).max()) if len(below) > 1 else 0.0)
        return tuple(found)

    # The log and the model

    def _counts(self) -> tuple[GroupCounts, ...]:
        tally, model = self.tally, self.model
        told = {entry["group"]: entry for entry in model.diagnostics_["groups"]}
        known = set(model.groups_)
        starts = model.runs(tally)
        if starts is None:
            starts = np.flatnonzero(np.diff(tally.grid.coarse(200), prepend=-1))
        added = clipped(np.add.reduceat(unclipped_mass(tally, self.auditor.bias), starts, axis=2))[1]
        return tuple(
            GroupCounts(
                name,
                group,
                float(self.auditor.rows[place].sum()),
                float(self.auditor.observed[place, 1:].sum()),
                self.auditor.small[place],
                told.get(name, {}).get("map", "own") == "own" if group in known else None,
                float(added[place]),
                told.get(name, {}).get("thin"),
            )
            for place, (name, group) in enumerate(zip(self.names, tally.groups, strict=True))
        )

    def _drawn(self, before: State) -> tuple[int, ...]:
        """Pick the groups for the charts: those furthest apart, then the largest."""
        if len(self.names) <= DRAWN:
            return tuple(range(len(self.names)))
        judged = [one for one in before.gaps if one.kind == self.main and one.label in self.promised]
        judged.sort(key=lambda one: (one.small is not None, -(one.ks.value or 0.0)))
        apart = dict.fromkeys(self.names.index(name) for one in judged for name in one.groups)
        picked = list(apart)[: DRAWN // 2]
        by_size = np.argsort(-self.auditor.rows.sum(axis=1), kind="stable").tolist()
        picked += [place for place in by_size if place not in picked][: DRAWN - len(picked)]
        return tuple(sorted(picked))

    def _cut_down(self, state: State, slots: npt.NDArray[np.int64]) -> State:
        """Keep of the charts' arrays what is drawn."""
        drawn = list(self.drawn)

        def kept(values: Floats | None) -> Floats | None:
            return None if values is None else values[drawn]

        shares = None if state.shares is None else state.shares[drawn][:, slots]
        order = state.density[list(self.labels)][:, drawn]
        flow = kept(state.flow) if self.model.criterion == "odds" else None
        changed = {"shares": shares, "density": order, "flow": flow, "curve": kept(state.curve)}
        return State(**{**vars(state), **changed})


def worst_of(gaps: Sequence[Gap], labels: Sequence[int], kind: str) -> Gap | None:
    """Return the largest distance that counts: pairs with a small group only where there is no other."""
    found = [one for one in gaps if one.label in labels and one.kind == kind and one.ks.value is not None]
    kept = [one for one in found if one.small is None] or found
    return max(kept, key=lambda one: one.ks.value or 0.0, default=None)


def figure_of(gaps: Sequence[Gap], labels: Sequence[int], kind: str) -> Figure:
    """Return the largest distance with its lower end, and the largest upper end."""
    top = worst_of(gaps, labels, kind)
    if top is None:
        return Figure(None)
    counted = [
        one
        for one in gaps
        if one.label in labels and one.kind == kind and (one.small is None) == (top.small is None)
    ]
    ends = [one.ks.high for one in counted if one.ks.high is not None]
    return Figure(top.ks.value, top.ks.low, max(ends) if ends else None)


def _gap(one: Distance, *, after: bool) -> Gap:
    spread = one.fair if after else one.logged
    if spread is None:
        return Gap(one.label, one.kind, one.groups, Figure(None), None, one.small)
    return Gap(one.label, one.kind, one.groups, spread.ks, spread.p_adjusted, one.small)


def _rates(observed: Floats, merit: Floats, rows: Floats) -> dict[str, Floats]:
    clicked, worthy = observed[..., 1:, :].sum(axis=(-1, -2)), merit[..., 1:, :].sum(axis=(-1, -2))
    found = rate_figures(clicked, worthy, rows)
    return {"parity": found["parity"], "all_positive": clicked.sum(axis=-1) / rows.sum(axis=-1)}


def _fair_figures(fair: Fair) -> dict[str, Floats]:
    found = _rates(fair.observed, fair.merit, fair.rows.sum(axis=-1))
    return {**found, "exposure": fair.exposure, "auc": _pooled_auc(fair.merit, fair.negative)}


def _pooled_auc(merit: Floats, negative: Floats) -> Floats:
    worthy = merit[..., 1:, :].sum(axis=(-2, -3))
    found: Floats = cross_auc(worthy[..., None, :], negative.sum(axis=-2)[..., None, :])[..., 0, 0]
    return found


def _some(size: int) -> npt.NDArray[np.int64]:
    """Return the places of the positions that charts show: the top ones, then ever fewer."""
    if size <= _SLOTS:
        return np.arange(size)
    top = _SLOTS // 2
    return np.unique(np.concatenate((np.arange(top), np.geomspace(top, size - 1, top)))).astype(np.int64)


def _completed(about: About, made: _Gatherer) -> About:
    audit, tally = made.audit, made.tally
    last = tally.counts.shape[2] - 1
    known = {
        "sources": tally.sources,
        "columns": tally.roles.to_dict(),
        "grid": tally.grid.fingerprint,
        "cells": tally.grid.cells,
        "folds": audit.folds,
        "unit": audit.unit,
        "in_sample": made.auditor.in_sample,
        "weighted": tally.weighted,
        "depth": tally.depth if last == tally.depth + 1 else None,
        "notes": audit.notes,
    }
    return About(**{**vars(about), **known})
