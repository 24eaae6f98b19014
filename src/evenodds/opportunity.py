"""Equality of opportunity: among positives, one distribution of the fair score for all groups.

Section "Equality of Opportunity in Rankings" of Nandy et al. (FAccT 2022). Each group's scores go
through the distribution function of its own positives, weighted by 1 / w to undo position bias;
then all groups together go back to the scale of the scores, by one function for all.
"""

from __future__ import annotations

import warnings
from typing import Any, Literal, cast

import numpy as np
import numpy.typing as npt

from evenodds.audit import largest_distance
from evenodds.errors import SettingsError, SmallGroupWarning, TallyError
from evenodds.groups import GroupIndex, Unknown, group_name
from evenodds.maps import Interpolation, ReturnScale, quantile_function
from evenodds.merit import merit_mass
from evenodds.position import PositionBias, position_bias
from evenodds.position.estimate import Method
from evenodds.reranker import THRESHOLDS, Learned, Reranker
from evenodds.scoring.opportunity import OpportunityScorer, cdf_maps
from evenodds.scoring.scorer import Scorer
from evenodds.tally import Tally, check_comparable
from evenodds.tradeoff import prospect, rounded, short

Floats = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]

_ORDER = 1e-6  # share of the group's all-rows distribution blended in, see _distributions
_ATOM_STEPS = 64  # an atom's draws are represented by so many points when a tally is mapped


class EqualOpportunity(Reranker):
    """Post-processing for equality of opportunity at every threshold.

    The fair score is ``alpha F^-1(F~(F*_c(s))) + (1 - alpha) s``, with F*_c the distribution function
    of the scores of group c's positives, weighted by 1 / w (Theorem "weighted CDF"), F~ that of all
    transformed scores and F that of all scores.

    Parameters
    ----------
    scale
        "original": fair scores are distributed as the scores were; "unit": F*_c(s) in [0, 1].
    alpha
        How far to go, from the old score (0) to the fair one (1).
    points
        How many points stand for each function.
    interpolation
        Between them: "linear" or "cubic" (monotone).
    position_bias
        A method of :func:`evenodds.position_bias`, or given weights.
    min_positives
        A group with fewer positives takes the map of all groups together.
    unknown
        What a null or unseen group gets: "pooled", the map of all groups together; "keep", its score
        as it is; "error".

    Examples
    --------
    >>> from evenodds import simulate, tally
    >>> counts = tally(simulate(queries=2000), cells=500)
    >>> model = EqualOpportunity().fit(counts)
    >>> before, after = model.diagnostics_["unfairness"].values()
    >>> before > 0.5, after < 0.005
    (True, True)
    """

    criterion = "opportunity"
    settings = ("scale", "alpha", "points", "interpolation", "position_bias", "min_positives", "unknown")

    def __init__(
        self,
        *,
        scale: Literal["original", "unit"] = "original",
        alpha: float = 1.0,
        points: int = 10_000,
        interpolation: Interpolation = "linear",
        position_bias: Method = "joint",
        min_positives: int = 50,
        unknown: Unknown = "pooled",
    ) -> None:
        self.scale = scale
        self.alpha = alpha
        self.points = points
        self.interpolation: Interpolation = interpolation
        self.position_bias = position_bias
        self.min_positives = min_positives
        self.unknown = unknown

    def check_settings(self) -> None:
        """Refuse settings outside their range; `fit` does it first."""
        super().check_settings()
        if self.scale not in {"original", "unit"}:
            raise SettingsError(f"scale must be 'original' or 'unit', got {self.scale!r}")
        if not 0.0 <= self.alpha <= 1.0:
            raise SettingsError(
                f"alpha must lie in 0..1, got {self.alpha}", hint="0 leaves scores alone, 1 is all the way"
            )
        if not 2 <= self.points <= 1_000_000:
            raise SettingsError(f"points must lie in 2..1000000, got {self.points}")
        if self.interpolation not in {"linear", "cubic"}:
            raise SettingsError(f"interpolation must be 'linear' or 'cubic', got {self.interpolation!r}")
        if self.min_positives < 1:
            raise SettingsError(f"min_positives must be at least 1, got {self.min_positives}")
        if self.unknown == "keep" and self.scale == "unit":
            raise SettingsError("unknown='keep' mixes scores of two scales", hint="use scale='original'")

    def _fit(self, tally: Tally) -> None:
        check_comparable(tally)
        bias = position_bias(tally, self.position_bias)
        positives = merit_mass(tally, bias)[:, 1:].sum(axis=1)
        everyone = tally.counts.sum(axis=(1, 2), dtype=np.float64)
        grid, kept = tally.grid.thinned(self.points)
        starts = np.concatenate(([0], kept + 1))
        positives = np.add.reduceat(positives, starts, axis=1)
        everyone = np.add.reduceat(everyone, starts, axis=1)
        evidence = tally.effective_positives()
        small = evidence < self.min_positives
        if small.all():
            most = float(evidence.max())
            raise TallyError(
                f"no group has {self.min_positives} positives (the largest has {most:.0f}): too few to learn from",
                hint="more rows, or a lower min_positives",
            )
        cdf = _distributions(positives, everyone, small)
        self.groups_, self.group_columns_ = tally.groups, tally.roles.group
        self.position_bias_ = bias
        maps = cdf_maps(
            grid,
            *tally.score_range,
            cdf,
            scale=self.scale,
            points=self.points,
            interpolation=self.interpolation,
        )
        levels = np.linspace(0.0, 1.0, self.points + 1)
        share = everyone.sum(axis=1) / everyone.sum()
        mixture = np.zeros(levels.size)
        for part, row, mass in zip(share, cdf, everyone, strict=False):
            mixture += part * _share_below(levels, row, mass)
        values = quantile_function(
            maps.edges, grid.is_atom(), everyone.sum(axis=0), np.clip(mixture, 0.0, 1.0)
        )
        back = ReturnScale(np.maximum.accumulate(values))
        index = GroupIndex(self.groups_, self.group_columns_, maps.stride)
        self.take(
            OpportunityScorer(maps, back, index, scale=self.scale, alpha=self.alpha, unknown=self.unknown)
        )
        self.diagnostics_ = self._diagnose(tally, bias, evidence, small)

    def take(self, scorer: Scorer) -> None:
        """Take in what was fitted, or read from a file."""
        super().take(scorer)
        fitted = cast("OpportunityScorer", scorer)
        self.maps_, self.return_ = fitted.maps, fitted.back

    def _diagnose(self, tally: Tally, bias: PositionBias, evidence: Floats, small: Flags) -> dict[str, Any]:
        mass = merit_mass(tally, bias)[:, 1:].sum(axis=1)
        own = ~small
        expected = prospect(self, tally, bias, own)
        before = largest_distance(tally.edges, _cumulated(mass)[own])
        after = largest_distance(*_only(self.fair_cdf(tally, mass), own))
        warned = [
            f"group {group_name(tally.groups[place])} has {evidence[place]:.0f} positives, fewer than "
            f"{self.min_positives}: it takes the map of all groups together"
            for place in np.flatnonzero(small)
        ]
        for said in warned:
            warnings.warn(said, SmallGroupWarning, stacklevel=5)
        atoms = tally.grid.is_atom()
        everyone = tally.counts.sum(axis=(0, 1, 2), dtype=np.float64)
        rows = tally.counts.sum(axis=(1, 2, 3), dtype=np.float64)
        return {
            "unfairness": {"before": short(before), "after": short(after)},
            "expected": rounded(expected),
            "groups": [
                {
                    "group": group_name(group),
                    "rows": short(rows[place]),
                    "positives": short(evidence[place]),
                    "map": "pooled" if small[place] else "own",
                }
                for place, group in enumerate(tally.groups)
            ],
            "tied_rows": short(float(everyone[atoms].sum() / everyone.sum())),
            "notes": [*bias.notes, *warned],
        }

    def fair_cdf(self, tally: Tally, mass: Floats, *, most: int = THRESHOLDS) -> tuple[Floats, Floats]:
        """Return thresholds and the share of each group's mass at or below them."""
        edges, atom = tally.edges, tally.grid.is_atom()
        # Within a cell mass lies evenly; an atom is cut into steps, to follow the way back closely.
        points = np.where(atom, _ATOM_STEPS + 1, 2)
        cell = np.repeat(np.arange(atom.size), points)
        step = (np.arange(cell.size) - np.repeat(np.cumsum(points) - points, points)) / (points[cell] - 1)
        score = np.where(atom[cell], edges[cell], edges[cell] + np.diff(edges)[cell] * step)
        knots = []
        for code in self.rows_of(tally).tolist():
            row = code // self.maps_.stride
            below, at = self.maps_.limits(edges, row)
            stop = np.where(atom, at[:-1], below[1:])
            # A cell between an atom and nothing has no width, and starts where it stops.
            start = np.minimum(np.where(atom, below[:-1], at[:-1]), stop)
            run = start[cell] + (stop - start)[cell] * step
            keeps = row == len(self.groups_) and self.unknown == "keep"
            knots.append(score if keeps else run if self._only_units else self._blend(run, score))
        thresholds = np.unique(np.concatenate(knots))
        if thresholds.size > most:  # the shares stay exact
            thresholds = thresholds[np.linspace(0, thresholds.size - 1, most).astype(np.intp)]
        total = np.cumsum(mass, axis=-1)
        total = total / np.maximum(total[..., -1:], 1e-300)
        total = np.concatenate((np.zeros_like(total[..., :1]), total), axis=-1)
        shares = np.empty((*mass.shape[:-1], thresholds.size))
        for place, points in enumerate(knots):
            part = total[..., place, :]
            heights = part[..., cell] + np.diff(part)[..., cell] * step
            shares[..., place, :] = _at_or_below(thresholds, points, heights)
        # All the way there is one way back for all groups: compare before it, where cells are straight.
        if self._only_units and self.scale == "original":
            thresholds = self.return_(thresholds.copy())
        return thresholds, shares

    def learned(self) -> Learned:
        """Return the score cells and each group's F* at their ends, for groups with a map of their own."""
        own = [part["map"] == "own" for part in self.diagnostics_["groups"]]
        rows = zip(self.groups_, own, self.maps_.cdf, strict=False)  # the last map is the pooled one
        cdf = {group: row for group, is_own, row in rows if is_own}
        return Learned(self.maps_.grid, self.maps_.edges, cdf)

    def spans(self, scores: Floats, code: int) -> tuple[Floats, Floats]:
        """Return the lowest and the highest fair score of a group's items: they differ where scores tie."""
        row = code // self.maps_.stride
        if row == len(self.groups_) and self.unknown == "keep":
            return scores, scores
        below, at = self.maps_.limits(scores, row)
        return self._blend(below, scores), self._blend(at, scores)

    def movement(self, tally: Tally) -> float:
        """Return E|fair score - score| over a tally's impressions, each cell at its middle."""
        edges, atom = tally.edges, tally.grid.is_atom()
        middle = np.where(atom, edges[:-1], (edges[:-1] + edges[1:]) / 2)
        everyone = tally.counts.sum(axis=(1, 2), dtype=np.float64)
        total = 0.0
        for code, mass in zip(self.rows_of(tally), everyone, strict=True):
            row = int(code // self.maps_.stride)
            if row == len(self.groups_) and self.unknown == "keep":
                continue
            below, at = self.maps_.limits(middle, row)
            total += float(np.abs(self._blend((below + at) / 2, middle) - middle) @ mass)
        return total / float(everyone.sum())

    @property
    def _only_units(self) -> bool:
        return self.alpha == 1.0 and self.unknown != "keep"

    def _blend(self, run: Floats, scores: Floats) -> Floats:
        fair = run if self.scale == "unit" else self.return_(run.copy())
        return self.alpha * fair + (1.0 - self.alpha) * scores


def _distributions(positives: Floats, everyone: Floats, small: Flags) -> Floats:
    """Return the distribution function of each group's positives, and last the pooled one.

    A millionth of the group's all-rows distribution is blended in: where a group has rows but no
    positives the function would be flat, and scores that differ would come out tied.
    """

    def blended(by_positive: Floats, by_row: Floats) -> Floats:
        mass = (1 - _ORDER) * by_positive / by_positive.sum() + _ORDER * by_row / by_row.sum()
        heights = np.concatenate(([0.0], np.cumsum(mass)))
        # Twelve digits: a hundred-millionth of a cell, and a file that is a third shorter.
        return np.round(heights / heights[-1], 12)

    pooled = blended(positives.sum(axis=0), everyone.sum(axis=0))
    own = [
        pooled if is_small else blended(by_positive, by_row)
        for by_positive, by_row, is_small in zip(positives, everyone, small, strict=True)
    ]
    return np.stack([*own, pooled])


def _share_below(levels: Floats, heights: Floats, mass: Floats) -> Floats:
    total = np.concatenate(([0.0], np.cumsum(mass)))
    return np.interp(levels, heights, total / max(total[-1], 1e-300))


def _at_or_below(thresholds: Floats, points: Floats, heights: Floats) -> Floats:
    """Evaluate ``heights[..., point]``, distribution functions at ascending points, the upper value at a jump."""
    place = np.searchsorted(points, thresholds, side="right")
    left = np.clip(place - 1, 0, points.size - 2)
    width = points[left + 1] - points[left]
    far = np.divide(thresholds - points[left], width, out=np.ones_like(width), where=width > 0)
    below = heights[..., left]
    below += np.where(place > 0, np.clip(far, 0.0, 1.0), 0.0) * (heights[..., left + 1] - below)
    return below


def _cumulated(mass: Floats) -> Floats:
    total = np.cumsum(mass, axis=1)
    share: Floats = np.hstack((np.zeros((mass.shape[0], 1)), total / np.maximum(total[:, -1:], 1e-300)))
    return share


def _only(cdf: tuple[Floats, Floats], rows: Flags) -> tuple[Floats, Floats]:
    return cdf[0], cdf[1][rows]
