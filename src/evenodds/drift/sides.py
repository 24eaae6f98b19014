"""The two sides of a comparison: the newer log, and the older log or what a model has kept of it."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from evenodds.audit.after import Fair, Masses, look_ahead
from evenodds.audit.figures import cumulated, group_figures
from evenodds.audit.replicates import Replicates, replicates
from evenodds.errors import EvenoddsWarning
from evenodds.groups import group_name
from evenodds.merit import merit_mass, unclipped_mass
from evenodds.position import PositionBias, read_bias
from evenodds.position.estimate import Method
from evenodds.reranker import Reranker
from evenodds.tally import Tally

Floats = npt.NDArray[np.float64]

ALL = -1  # every impression, whatever its label


class Curve(NamedTuple):
    """A group's distribution function at ascending scores.

    Attributes
    ----------
    ends, cdf
        Scores, and the share at or below them.
    coarse, parts
        Some of the scores, and there the deviations ``[part, score]`` whose squares add up to the variance.
    evidence
        How many rows it is worth.
    """

    ends: Floats
    cdf: Floats
    coarse: Floats
    parts: Floats | None
    evidence: float


@dataclass(frozen=True)
class Rates:
    """Figures of each group, and the deviations of their logarithms ``[part, group]``."""

    values: dict[str, Floats]
    parts: dict[str, Floats]


@dataclass(frozen=True)
class Known:
    """What is left of an older log in a model file.

    Attributes
    ----------
    names
        The groups.
    rows, positives
        Of each of them; what the positives are worth.
    curves
        The distribution of the merit positives of each group with a map of its own.
    bias
        Position bias with its standard errors.
    """

    names: list[str]
    rows: Floats
    positives: Floats
    curves: dict[str, Curve]
    bias: PositionBias

    @classmethod
    def of(cls, model: Reranker) -> Known:
        """Read a model's tables and diagnostics."""
        told = model.diagnostics_["groups"]
        names = [str(part["group"]) for part in told]
        positives = np.array([float(part["positives"]) for part in told])
        kept = model.learned()
        curves: dict[str, Curve] = {}
        if kept is not None:
            worth = dict(zip(names, positives, strict=True))
            curves = {
                group_name(group): Curve(kept.ends, row, kept.ends, None, worth[group_name(group)])
                for group, row in kept.cdf.items()
            }
        rows_by_group = np.array([float(part["rows"]) for part in told])
        return cls(names, rows_by_group, positives, curves, model.position_bias_)


@dataclass(frozen=True)
class Side:
    """One counted log, with position bias as it shows it, and the log with each fold left out."""

    tally: Tally
    bias: PositionBias
    made: Replicates | None
    merit: Floats = field(repr=False)
    negative: Floats = field(repr=False)

    @classmethod
    def of(cls, tally: Tally, method: Method, model: Reranker | None) -> Side:
        """Estimate position bias on this log and leave folds of it out."""
        with warnings.catch_warnings():  # what is said here belongs into the result's notes
            warnings.simplefilter("ignore", EvenoddsWarning)
            reading = read_bias(tally, method=method)
        bias = reading.bias
        runs = model.runs(tally) if model is not None else None
        made = replicates(tally, reading)
        return cls(tally, bias, made, merit_mass(tally, bias, runs), unclipped_mass(tally, bias)[:, 0])

    @cached_property
    def names(self) -> list[str]:
        """The groups' names."""
        return [group_name(group) for group in self.tally.groups]

    @cached_property
    def evidence(self) -> Floats:
        """Rows' worth by group and label."""
        return self.tally.effective()

    @cached_property
    def rows(self) -> Floats:
        """Rows by group, as weighted."""
        return self.tally.counts.sum(axis=(1, 2, 3), dtype=np.float64)

    @cached_property
    def _starts(self) -> npt.NDArray[np.int64]:
        cells = self.tally.grid.cells if self.made is None else self.made.observed.shape[-1]
        return np.flatnonzero(np.diff(self.tally.grid.coarse(cells), prepend=-1))

    def curve(self, group: int, label: int) -> Curve | None:
        """Return the distribution of a group's scores given the merit label; None without any."""
        mass = self.tally.counts[group].sum(axis=(0, 1)) if label == ALL else self.merit[group, label]
        if not mass.sum() > 0:
            return None
        edges = self.tally.edges
        worth = self.evidence[group].sum() if label == ALL else self.evidence[group, label]
        coarse = edges[np.append(self._starts, self.tally.grid.cells)]
        parts = None
        if self.made is not None:
            left = self.made.observed.sum(axis=2) if label == ALL else self.made.merit[:, :, label]
            parts = self.made.deviations(cumulated(left[:, group]))
            if np.isnan(parts).any():  # without some fold the group has none of the label
                parts = None
        return Curve(edges, cumulated(mass.astype(np.float64)), coarse, parts, float(worth))

    def rates(self) -> Rates:
        """Return each group's share of the impressions, rate of positives and rate of merit positives."""
        observed = self.tally.counts.sum(axis=2, dtype=np.float64)
        found = group_figures(observed, self.merit, self.negative, self.rows)
        names = ("positive_rate", "merit_rate")
        values = {"share": self.rows / self.rows.sum(), **{name: found[name] for name in names}}
        made = self.made
        if made is None:
            return Rates(values, {})
        rows = made.rows.sum(axis=2)
        left = group_figures(made.observed, made.merit, made.negative, rows)
        with np.errstate(divide="ignore", invalid="ignore"):
            logs = {
                "share": np.log(rows / rows.sum(axis=1, keepdims=True)),
                **{name: np.log(left[name]) for name in names},
            }
        with np.errstate(invalid="ignore"):
            return Rates(values, {name: made.deviations(log) for name, log in logs.items()})

    def weight_parts(self) -> Floats | None:
        """Return the deviations of log w, ``[part, position]``, along the tally's position axis."""
        if self.made is None or self.bias.method in {"given", "none"}:
            return None
        return self.made.deviations(np.log(self.made.weights))

    def fair(self, model: Reranker) -> tuple[Fair, tuple[Fair, Fair] | None]:
        """Apply a model: to the whole log, and to the log with each fold left out."""
        everyone = self.tally.counts.sum(axis=(1, 2), dtype=np.float64)
        return look_ahead(
            model, self.tally, self.bias, Masses(self.merit, self.negative, everyone), self.made
        )


def folds_of(old: Side | None, new: Side) -> tuple[int, int] | None:
    """Return from how many folds each side's errors come; None where one has too few.

    Without the older log's counts its errors are taken from the newer one's.
    """
    if new.made is None:
        return None
    if old is None:
        return new.made.folds, new.made.folds
    return None if old.made is None else (old.made.folds, new.made.folds)
