"""Equalized odds: given each label, one distribution of the fair score for all groups.

Section "Equalized Odds in Rankings" of Nandy et al. (FAccT 2022). Each group's score bins move at
random to target bins that all groups share, and the point within a target bin is drawn from one
distribution for all; so the fair score has one distribution for all groups given each label.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from functools import partial
from typing import Any, Literal, cast

import numpy as np
import numpy.typing as npt

from evenodds.errors import SettingsError, SmallGroupWarning, TallyError
from evenodds.groups import GroupIndex, Unknown
from evenodds.keys import key_words, seeded_words, uniforms
from evenodds.maps import ReturnScale, quantile_function
from evenodds.odds.bins import Binning, Bins, Cost, bin_tally
from evenodds.odds.diagnose import diagnose
from evenodds.odds.fit import fit_kernels
from evenodds.odds.order import harmless_order
from evenodds.position import PositionBias, position_bias
from evenodds.position.estimate import Method
from evenodds.reranker import THRESHOLDS, Reranker
from evenodds.scoring.kernel import MAX_ROWS
from evenodds.scoring.odds import OddsScorer, Within
from evenodds.scoring.scorer import Scorer
from evenodds.tally import Tally, check_comparable

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

_POINTS = 10_000  # of the way back from levels to scores


class EqualizedOdds(Reranker):
    """Post-processing for equalized odds at every threshold.

    Parameters
    ----------
    bins
        How many score bins, K.
    binning
        "quantile": of equal mass; "equal": of equal width, after an inverse logit if scores leave [0, 1].
    objective
        "movement": the least E|s - s'|, exact or with a certified gap; "auc": the best ROC curve that
        all groups can share.
    order
        For "auc": "likelihood", the exact frontier of the bins, in which each group's bins count in the
        order of their share of positives; "score", the best curve that keeps to the order of the scores,
        which does not mistake noise in thin bins for information. The fit states the AUC of both.
    target
        "merit": given the label at the top position; "observed": given the label as it will be logged
        after re-ranking (movement only).
    epsilon
        Relaxes "equal" to a ratio of at most exp(epsilon) between the groups' distribution functions at
        every bin edge: one number, or one a label from 0 on; infinity leaves a label free.
    alpha
        How far to go, from the old score (0) to the fair one (1).
    cost
        What a move costs: "score" units, or "rank" (share of all scores moved past).
    within
        How the point in a target bin is drawn: "empirical", like all scores that fell there, or "uniform".
    keep_order
        Leave items that stay in their bin in their old order there, in bins where that changes no
        group's distribution by more than 0.0005.
    position_bias
        A method of :func:`evenodds.position_bias`, or given weights.
    min_positives
        A group with fewer rows of any label takes the mean kernel of the other groups.
    unknown
        What a null or unseen group gets: "pooled", the groups' mean kernel at its score; "keep", its
        score as it is; "error".
    gap
        How far above the certified lower bound the movement may end, relative to itself.
    time_limit
        Seconds for the solver.

    Examples
    --------
    >>> from evenodds import simulate, tally
    >>> model = EqualizedOdds(bins=20).fit(tally(simulate(queries=2000), cells=500))
    >>> before, after = model.diagnostics_["unfairness"].values()
    >>> before > 0.5, after < 1e-9
    (True, True)
    >>> fair = model.transform([2.0, 2.0], ["A", "B"], keys=["anna/7", "ben/7"])
    >>> bool((fair == model.transform([2.0, 2.0], ["A", "B"], keys=["anna/7", "ben/7"])).all())
    True
    """

    criterion = "odds"
    settings = (
        "bins",
        "binning",
        "objective",
        "order",
        "target",
        "epsilon",
        "alpha",
        "cost",
        "within",
        "keep_order",
        "position_bias",
        "min_positives",
        "unknown",
        "gap",
        "time_limit",
    )

    def __init__(
        self,
        *,
        bins: int = 100,
        binning: Binning = "quantile",
        objective: Literal["movement", "auc"] = "movement",
        order: Literal["likelihood", "score"] = "likelihood",
        target: Literal["merit", "observed"] = "merit",
        epsilon: float | Sequence[float] | None = None,
        alpha: float = 1.0,
        cost: Cost = "score",
        within: Within = "empirical",
        keep_order: bool = False,
        position_bias: Method = "joint",
        min_positives: int = 50,
        unknown: Unknown = "pooled",
        gap: float = 1e-4,
        time_limit: float = 120.0,
    ) -> None:
        self.bins = bins
        self.binning: Binning = binning
        self.objective = objective
        self.order: Literal["likelihood", "score"] = order
        self.target = target
        self.epsilon = epsilon
        self.alpha = alpha
        self.cost: Cost = cost
        self.within: Within = within
        self.keep_order = keep_order
        self.position_bias = position_bias
        self.min_positives = min_positives
        self.unknown = unknown
        self.gap = gap
        self.time_limit = time_limit

    def check_settings(self) -> None:
        """Refuse settings outside their range; `fit` does it first."""
        super().check_settings()
        choices = {
            "binning": ("quantile", "equal"),
            "objective": ("movement", "auc"),
            "order": ("likelihood", "score"),
            "target": ("merit", "observed"),
            "cost": ("score", "rank"),
            "within": ("empirical", "uniform"),
        }
        for name, known in choices.items():
            if getattr(self, name) not in known:
                raise SettingsError(f"{name} must be one of {', '.join(known)}, got {getattr(self, name)!r}")
        if not 1 <= self.bins <= 10_000:
            raise SettingsError(f"bins must lie in 1..10000, got {self.bins}")
        if not 0.0 <= self.alpha <= 1.0:
            raise SettingsError(f"alpha must lie in 0..1, got {self.alpha}")
        if self.min_positives < 1:
            raise SettingsError(f"min_positives must be at least 1, got {self.min_positives}")
        if not self.gap > 0 or not self.time_limit > 0:
            raise SettingsError(f"gap and time_limit must be above 0, got {self.gap} and {self.time_limit}")
        if self.objective == "auc" and self.epsilon is not None:
            raise SettingsError(
                "epsilon relaxes the movement objective", hint="use objective='movement', or alpha"
            )
        if self.target == "observed" and (self.objective == "auc" or self.epsilon is not None):
            raise SettingsError("target='observed' goes with objective='movement' and no epsilon")
        if self.keep_order and self.objective == "auc":
            raise SettingsError(
                "keep_order needs objective='movement': the frontier has target bins of its own"
            )
        given = () if self.epsilon is None else np.atleast_1d(np.asarray(self.epsilon, dtype=np.float64))
        if any(not value >= 0 for value in given):
            raise SettingsError(
                f"epsilon must not be negative, got {self.epsilon}", hint="0 is strict, infinity free"
            )

    def _fit(self, tally: Tally) -> None:
        check_comparable(tally)
        bias = position_bias(tally, self.position_bias)
        labels = np.flatnonzero(tally.counts.any(axis=(0, 2, 3)))
        if labels.size < 2:
            raise TallyError(f"every label is {labels[0]}: equalized odds needs two labels or more")
        if labels.size > 2 and (self.objective == "auc" or self.target == "observed"):
            raise SettingsError(f"{labels.size} labels go with objective='movement' and target='merit' only")
        bins = bin_tally(tally, bias, self.bins, self.binning)
        own = tally.effective()[:, labels].min(axis=1) >= self.min_positives
        own &= bins.mass[:, labels].sum(axis=2).min(axis=1) > 0
        if not own.any():
            raise TallyError(
                f"no group has {self.min_positives} rows of every label: too few to learn from",
                hint="more rows, or a lower min_positives",
            )
        if len(tally.groups) * bins.count > MAX_ROWS - bins.count:
            raise SettingsError(
                f"{len(tally.groups)} groups x {bins.count} bins are more than {MAX_ROWS} rows of kernel"
            )
        fitted = fit_kernels(self, tally, bias, bins, own, labels)
        self.groups_, self.group_columns_ = tally.groups, tally.roles.group
        self.position_bias_ = bias
        everyone = tally.counts.sum(axis=(0, 1, 2), dtype=np.float64)
        grid_levels = np.linspace(0.0, 1.0, _POINTS + 1)
        back = quantile_function(tally.edges, tally.grid.is_atom(), everyone, grid_levels)
        self.take(
            OddsScorer(
                bins.edges,
                fitted.rows,
                fitted.levels,
                ReturnScale(np.maximum.accumulate(back)),
                harmless_order(tally, bias, bins, fitted, own, labels) if self.keep_order else None,
                partial(GroupIndex, self.groups_, self.group_columns_),
                within=self.within,
                alpha=self.alpha,
                unknown=self.unknown,
            )
        )
        self.diagnostics_ = diagnose(self, tally, bias, bins, fitted, own, labels)
        for note in self.diagnostics_["warnings"]:
            warnings.warn(note, SmallGroupWarning, stacklevel=4)

    def take(self, scorer: Scorer) -> None:
        """Take in what was fitted, or read from a file."""
        super().take(scorer)
        fitted = cast("OddsScorer", scorer)
        self.edges_, self.inner = fitted.edges, fitted.inner
        self.kernel_, self.levels_ = fitted.kernel, fitted.levels
        self.return_, self.order_, self.table_ = fitted.back, fitted.order, fitted.table

    def score_at(self, levels: Floats) -> Floats:
        """Return the scores below which the given shares of all old scores lie."""
        return cast("OddsScorer", self.scorer_).score_at(levels)

    def fair_cdf(self, tally: Tally, mass: Floats, *, most: int = THRESHOLDS) -> tuple[Floats, Floats]:
        """Return thresholds and the share of each group's mass at or below them; they are few."""
        del most
        from evenodds.odds.distribution import fair_distribution

        return fair_distribution(self, tally, mass)

    def runs(self, tally: Tally) -> Ints:
        """Return the first cells of the model's bins: negatives are clipped as they were in the fit."""
        cell_bin = np.searchsorted(self.inner, tally.edges[:-1], side="right")
        return np.flatnonzero(np.diff(cell_bin, prepend=-1))

    def movement(self, tally: Tally) -> float:
        """Return E|fair score - score| over a tally's impressions."""
        from evenodds.odds.distribution import mean_movement

        return mean_movement(self, tally)

    def explain(self, score: float, group: object, key: object = None, *, seed: int = 0) -> dict[str, Any]:
        """Tell how one item came to its fair score.

        Returns
        -------
        dict
            The bin of the score, the kernel's row (target bins, their scores and probabilities), the
            draw, the target bin drawn, and the fair score, the same that `transform` gives.

        Examples
        --------
        >>> from evenodds import simulate, tally
        >>> model = EqualizedOdds(bins=10).fit(tally(simulate(queries=1000), cells=200))
        >>> told = model.explain(2.0, "A", key="anna/7")
        >>> told["fair_score"] == float(model.transform([2.0], ["A"], keys=["anna/7"])[0])
        True
        """
        self._check_fitted()
        groups = tuple([part] for part in group) if isinstance(group, tuple) else [group]
        code = int(self.scorer_.codes(groups, 1)[0])
        row = int(self.inner.searchsorted(score, "right")) + code
        keys = None if key is None else [key]
        words = key_words(keys) if keys is not None else seeded_words(1, seed)
        draw = float(uniforms(words, self.salt_)[0])
        piece = int(self.table_.piece(np.array([row]), np.array([draw]))[0][0])
        pieces = np.flatnonzero(np.floor(self.table_.marks) == row)
        ends = self.score_at(self.levels_)
        k = row - code
        return {
            "score": float(score),
            "group": self.index_.name(code),
            "bin": k,
            "bin_scores": [float(self.edges_[k]), float(self.edges_[k + 1])],
            "kernel": [
                {
                    "target": int(target),
                    "target_scores": [float(ends[target]), float(ends[target + 1])],
                    "probability": float(chance),
                }
                for target, chance in zip(self.table_.target[pieces], self.table_.chance[pieces], strict=True)
            ],
            "draw": draw,
            "target": int(self.table_.target[piece]),
            "fair_score": float(self.transform([score], groups, keys=keys, seed=seed)[0]),
        }


__all__ = ["Bins", "EqualizedOdds", "PositionBias"]
