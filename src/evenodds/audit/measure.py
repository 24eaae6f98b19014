"""Put an audit together: the figures of the whole log, and of the log with each fold left out."""

from __future__ import annotations

import copy
from itertools import combinations

import numpy as np
import numpy.typing as npt

from evenodds.audit.after import Fair, Masses, look_ahead
from evenodds.audit.distances import Comparison, adjusted
from evenodds.audit.figures import exposure_figures, group_figures
from evenodds.audit.intervals import Figure, area_under_curve, positive, share
from evenodds.audit.models import fitted_on, promised, strangers
from evenodds.audit.replicates import MIN_FOLDS, replicates
from evenodds.audit.result import (
    Audit,
    CrossAuc,
    Distance,
    GroupFigures,
    Parity,
    PositionShares,
    Spread,
    label_name,
)
from evenodds.errors import TallyError
from evenodds.exposure import misplaced
from evenodds.groups import group_name
from evenodds.merit import merit_mass, position_weights, unclipped_mass
from evenodds.position import read_bias
from evenodds.position.estimate import Method
from evenodds.position.strata import folds_note
from evenodds.reranker import Reranker
from evenodds.tally import Tally, as_tally, check_comparable, worth

Floats = npt.NDArray[np.float64]
Named = dict[str, Floats]
Figures = dict[str, npt.NDArray[np.object_]]  # each of them a Figure

SMALL = 50  # rows' worth of a label; as many as a fit asks for before it gives a group a map of its own
_OUTER = 0.25  # share of a Wasserstein distance in the two outermost cells, past which it is said


def audit(
    data: object,
    model: Reranker | None = None,
    *,
    position_bias_method: Method | None = None,
    **roles: object,
) -> Audit:
    """Audit a log or tally as it was ranked, and as a model would score it.

    Parameters
    ----------
    data
        A tally, a log, or a table with its column roles.
    model
        A fitted reranker.
    position_bias_method
        How to estimate position bias from the data, or the weights. If not given: as the model did, from
        the data, unless the model's estimate comes from four times as many rows; without a model "joint". It
        is not smoothed: a smooth curve is nearer to the truth at each position, and leans in every sum.

    Notes
    -----
    Distances are ``KS = max over t of |F_a(t) - F_b(t)|`` and ``W1 = integral of |F_a(t) - F_b(t)| dt``;
    merit labels weigh each positive by 1 / w (Nandy et al., FAccT 2022, section "Tackling Position
    Bias"). Intervals are of 95 % and respect queries; p-values turn the signs of folds of queries.

    Examples
    --------
    >>> from evenodds import simulate, tally
    >>> result = audit(tally(simulate(queries=1000), cells=500))
    >>> round(result.unfairness(label=1), 1), round(result.unfairness(label=0), 1)
    (0.6, 0.8)
    >>> result.unfairness_at_most() > result.unfairness()
    True
    """
    tally = as_tally(data, roles)
    check_comparable(tally)
    return Auditor(tally, model, position_bias_method).run()


class Auditor:
    """One audit: what its steps share; `brief` for a sweep: distances only, fewer steps and intervals."""

    def __init__(
        self, tally: Tally, model: Reranker | None, method: Method | None = None, *, brief: bool = False
    ) -> None:
        self.tally, self.model = tally, model
        self.names = [group_name(group) for group in tally.groups]
        self.in_sample = model is not None and fitted_on(model, tally)
        stated = model.position_bias_ if model is not None and method is None else None
        reading = read_bias(
            tally,
            stated,
            "joint" if method is None else method,
            rows=0.0 if model is None else float(model.fitted_on_["rows"]),
            same_log=self.in_sample,
        )
        self.bias = reading.bias
        self.biased = bool((self.bias.weights != 1.0).any())
        self.positioned = tally.roles.position is not None
        self.rows = tally.counts.sum(axis=(1, 3), dtype=np.float64)  # group, position
        self.observed = tally.counts.sum(axis=2, dtype=np.float64)
        runs = model.runs(tally) if model is not None else None
        self.merit = merit_mass(tally, self.bias, runs) if self.biased else self.observed
        self.negative = unclipped_mass(tally, self.bias)[:, 0] if self.biased else self.observed[:, 0]
        self.made = replicates(tally, reading)
        self.evidence = tally.effective()
        self.evidence_by_position = worth(
            self.rows.sum(axis=0), tally.squares.sum(axis=(0, 1), dtype=np.float64)
        )
        self.small = [_why_small(row) for row in self.evidence]
        self.brief, self.notes = brief, list[str]()
        labels = self.observed.shape[1]
        self.compare = Comparison(self.made, len(self.names), labels, len(self._kinds()), brief=brief)
        self._known: dict[tuple[str, int], list[Spread]] = {}
        self.look_ahead()

    def look_ahead(self) -> None:
        """Apply the model."""
        self.fair: Fair | None = None
        self.ahead: tuple[Fair, Fair] | None = None
        if self.model is not None:
            masses = Masses(self.merit, self.negative, self.observed.sum(axis=1))
            self.fair, self.ahead = look_ahead(
                self.model, self.tally, self.bias, masses, self.made, brief=self.brief
            )

    def at(self, model: Reranker) -> Auditor:
        """Return an auditor of the same log for another strength of the model; what stays is shared."""
        other = copy.copy(self)
        other.model, other.notes = model, []
        other.look_ahead()
        return other

    def run(self) -> Audit:
        """Compute everything."""
        tally, model = self.tally, self.model
        unseen = [] if model is None else strangers(model, tally)
        distances = self.distances()
        if not any(distance.label for distance in distances):
            raise TallyError(
                "fewer than two groups have positives: there is nothing to compare",
                hint="more rows; or is this the right group column?",
            )
        figures = None if self.brief else self._figures()
        return Audit(
            rows=tally.rows,
            groups=() if figures is None else self._groups(*figures),
            distances=distances,
            auc=() if figures is None else self._auc(*figures),
            parity=() if figures is None else self._parity(*figures),
            positions=() if figures is None else self._positions(*figures),
            position_bias=self.bias,
            notes=(*self.bias.notes, *unseen, *self._remarks(), *self.notes),
            folds=None if self.made is None else self.made.folds,
            unit=None if self.made is None else ("impression" if tally.folds is None else "query"),
            outcomes=tally.roles.outcomes,
            promised=promised(model, tally.counts.shape[1]),
            target=str(getattr(model, "target", "merit")),
        )

    # Distances

    def distances(self) -> tuple[Distance, ...]:
        """Compare every pair of groups, given each label."""
        labels, kinds = (*range(1, self.observed.shape[1]), 0), self._kinds()
        compare = self.compare
        found: list[Distance] = []
        for label in labels:
            empty = [place for place in range(len(self.names)) if self.observed[place, label].sum() <= 0]
            what = label_name(label, self.tally.roles.outcomes)
            self.notes += [f"group {self.names[place]} has no {what} label: left out" for place in empty]
            for kind in kinds:
                if (kind, label) not in self._known:
                    self._known[kind, label] = self._logged(compare, kind, label)
                logged = self._known[kind, label]
                fair = self._compared_fair(compare, kind, label)
                for (i, j), one, two in zip(compare.pairs, logged, fair, strict=True):
                    if i not in empty and j not in empty and one.ks.value is not None:
                        names = (self.names[i], self.names[j])
                        found.append(Distance(label, kind, names, one, two, self._small_pair(label, i, j)))
        return adjusted(found)

    def _small_pair(self, label: int, i: int, j: int) -> str | None:
        few = [place for place in (i, j) if self.evidence[place, label] < SMALL]
        what = label_name(label, self.tally.roles.outcomes)
        said = [
            f"{self.names[place]} has {self.evidence[place, label]:.0f} rows with label {what}"
            for place in few
        ]
        return "; ".join(said) + f", fewer than {SMALL}" if said else None

    def _logged(self, compare: Comparison, kind: str, label: int) -> list[Spread]:
        # Distribution functions of merit negatives are sums over cells, as areas under curves are: clipped
        # cell by cell they would put negatives where there are none, and groups would look more alike.
        free = kind == "merit" and label == 0
        made, edges = self.made, self.tally.edges
        mass = self.negative if free else (self.merit if kind == "merit" else self.observed)[:, label]
        if made is None:
            return compare.spreads((edges, mass), None)
        starts = np.flatnonzero(np.diff(self.tally.grid.coarse(made.observed.shape[-1]), prepend=-1))
        ends = edges[np.append(starts, self.tally.grid.cells)]
        if free:
            return compare.spreads((edges, mass), (ends, made.whole[2], made.negative))
        whole, left = (made.whole[1], made.merit) if kind == "merit" else (made.whole[0], made.observed)
        return compare.spreads((edges, mass), (ends, whole[:, label], left[:, :, label]))

    def _compared_fair(self, compare: Comparison, kind: str, label: int) -> list[Spread] | list[None]:
        if self.fair is None:
            return [None] * len(compare.pairs)
        fine = (self.fair.ends, self.fair.mass(kind, label))
        if self.ahead is None:
            return compare.spreads(fine, None)
        left, same = self.ahead
        small = (same.ends, same.mass(kind, label)[0], left.mass(kind, label))
        return compare.spreads(fine, small, in_sample=self.in_sample)

    # Figures by group

    def _figures(
        self,
    ) -> tuple[Figures, Figures | None]:
        weights = position_weights(self.tally, self.bias)
        made = self.made
        values = group_figures(self.observed, self.merit, self.negative, self.rows.sum(axis=1))
        values |= exposure_figures(self.rows, weights)
        left = None
        if made is not None:
            left = group_figures(made.observed, made.merit, made.negative, made.rows.sum(axis=2))
            left |= exposure_figures(made.rows, made.weights)
        before = self._with_intervals(values, left)
        if self.fair is None:
            return before, None
        beyond = np.zeros_like(self.rows)
        if made is not None and left is not None:
            # What the reckoning of new positions gets wrong beyond chance for the old ones.
            beyond = np.maximum(
                misplaced(self.tally) ** 2 - made.standard_error(left["position_share"]) ** 2, 0.0
            )
        fair_left = None if self.ahead is None else self._fair_figures(self.ahead[0])
        return before, self._with_intervals(self._fair_figures(self.fair), fair_left, beyond)

    def _fair_figures(self, fair: Fair) -> Named:
        found = group_figures(fair.observed, fair.merit, fair.negative, fair.rows.sum(axis=-1))
        shown = fair.rows / np.maximum(fair.rows.sum(axis=-2, keepdims=True), 1e-300)
        return found | {"exposure": fair.exposure, "position_share": shown}

    def _with_intervals(self, values: Named, left: Named | None, beyond: Floats | None = None) -> Figures:
        """Give figures their intervals; those after a model are not counted, and have `beyond` in their variance."""
        made = self.made
        counted = beyond is None
        rows = {
            "positive_rate": self.evidence.sum(axis=1),
            "position_share": np.broadcast_to(self.evidence_by_position, self.rows.shape),
        }
        found = {}
        for name, value in values.items():
            errors = np.full(value.shape, np.nan)
            if left is not None and made is not None:
                errors = made.standard_error(left[name])
            if beyond is not None and name == "position_share":
                errors = np.sqrt(errors**2 + beyond)
            quantile = 2.0 if made is None else made.quantile
            figures = np.empty(value.shape, dtype=object)
            for place in np.ndindex(value.shape):
                ends = float(value[place]), float(errors[place]), quantile
                if name.startswith("auc"):
                    figures[place] = area_under_curve(*ends)
                elif name in rows:
                    figures[place] = share(*ends, float(rows[name][place]) if counted else np.inf)
                else:
                    figures[place] = positive(*ends)
            found[name] = figures
        return found

    def _kinds(self) -> tuple[str, ...]:
        return ("merit", "observed") if self.biased else ("observed",)

    def _groups(
        self,
        before: Figures,
        after: Figures | None,
    ) -> tuple[GroupFigures, ...]:
        wanted = ["positive_rate"]
        if self.biased:
            wanted += ["merit_rate"]
        if self.positioned:
            wanted += ["exposure", "parity"]

        def of(figures: Figures, place: int) -> dict[str, Figure]:
            picked = {name: figures[name][place] for name in wanted}
            return picked | {f"auc_{kind}": figures[f"auc_{kind}"][place, place] for kind in self._kinds()}

        return tuple(
            GroupFigures(
                name,
                float(self.rows[place].sum()),
                float(self.observed[place, 1:].sum()),
                of(before, place),
                None if after is None else of(after, place),
                self.small[place],
            )
            for place, name in enumerate(self.names)
        )

    def _auc(
        self,
        before: Figures,
        after: Figures | None,
    ) -> tuple[CrossAuc, ...]:
        return tuple(
            CrossAuc(
                kind,
                one,
                other,
                before[f"auc_{kind}"][i, j],
                None if after is None else after[f"auc_{kind}"][i, j],
            )
            for kind in self._kinds()
            for i, one in enumerate(self.names)
            for j, other in enumerate(self.names)
        )

    def _parity(
        self,
        before: Figures,
        after: Figures | None,
    ) -> tuple[Parity, ...]:
        if not self.positioned:
            return ()
        return tuple(
            Parity(
                (self.names[i], self.names[j]),
                before["parity_ratio"][i, j],
                None if after is None else after["parity_ratio"][i, j],
            )
            for i, j in combinations(range(len(self.names)), 2)
        )

    def _positions(self, before: Figures, after: Figures | None) -> tuple[PositionShares, ...]:
        if not self.positioned:
            return ()
        shown = self.rows.sum(axis=0)

        def by_group(figures: Figures, position: int) -> dict[str, Figure]:
            return dict(zip(self.names, figures["position_share"][:, position], strict=True))

        return tuple(
            PositionShares(
                int(position),
                float(shown[position]),
                by_group(before, int(position)),
                None if after is None else by_group(after, int(position)),
            )
            for position in np.flatnonzero(shown)
        )

    def _remarks(self) -> list[str]:
        said = []
        if self.made is None:
            said.append(
                f"fewer than {MIN_FOLDS} folds of queries hold rows: no figure has an interval or a p-value"
            )
        elif (note := folds_note(self.tally)) is not None and note not in self.bias.notes:
            said.append(note)
        if self.tally.folds is None and self.made is not None:
            said.append("every interval and p-value here is too narrow if the rows of a query hang together")
        few = [f"{name}: {why}" for name, why in zip(self.names, self.small, strict=True) if why]
        if few:
            said.append(
                f"groups with few rows of a label do not count towards its unfairness ({'; '.join(few)})"
            )
        if self.in_sample:
            said.append("audited on the log it was fitted on: intervals after the model allow for that")
        if self.compare.outer > _OUTER:
            part = f"{100 * self.compare.outer:.0f} % of a Wasserstein distance"
            said.append(f"{part} lies in the outermost score cells: outliers?")
        return said


def _why_small(evidence: Floats) -> str | None:
    positives, negatives = float(evidence[1:].sum()), float(evidence[0])
    for what, count in (("positives", positives), ("negatives", negatives)):
        if count < SMALL:
            return f"fewer than {SMALL} {what}: {count:.0f}"
    return None


def largest_distance(thresholds: Floats, cdf: Floats) -> float:
    """Return the largest Kolmogorov-Smirnov distance between any two rows."""
    del thresholds
    return float(np.ptp(cdf, axis=0).max(initial=0.0))
