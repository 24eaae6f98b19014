"""What an estimate of position bias is."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Goodness:
    """Test of the paper's homogeneity assumption, ``E[Y | cell b, position j] = w_j r_b``.

    Attributes
    ----------
    statistic, degrees, p_value
        The squared departures over (score, position) pairs, in units of their spread from fold to fold
        of queries, and its degrees of freedom: see :mod:`evenodds.position.homogeneity`.
    excess
        How far positives depart from the model beyond chance: a relative standard deviation.
    """

    statistic: float
    degrees: int
    p_value: float
    excess: float

    @property
    def fails(self) -> bool:
        """Whether the departure is both certain and large enough to matter (over 3 %)."""
        return self.p_value < 0.001 and self.excess > 0.03


@dataclass(frozen=True)
class PositionBias:
    """Estimated position bias.

    Attributes
    ----------
    method
        The estimator's name, or "given".
    positions
        Positions as logged, those with rows, in ascending order.
    weights, standard_errors
        w at each of them, and its standard error; 1 and 0 at the first.
    goodness
        The test of the homogeneity assumption, where the method has one.
    notes
        What was pooled, shifted or missing, in words.
    left_out
        The weights with one fold of queries left out at a time, ``[fold, position]``, for the error of
        whatever is computed with them; None for given weights, and not saved.
    """

    method: str
    positions: Ints
    weights: Floats
    standard_errors: Floats
    goodness: Goodness | None = None
    notes: tuple[str, ...] = field(default_factory=tuple)
    left_out: Floats | None = field(default=None, repr=False, compare=False)

    def at(self, positions: Ints | range) -> Floats:
        """Return w at any positions: between known ones on a log scale, the last one held past the end.

        >>> bias = PositionBias("given", np.array([1, 2]), np.array([1.0, 0.5]), np.zeros(2))
        >>> bias.at(range(1, 5)).tolist()
        [1.0, 0.5, 0.5, 0.5]
        """
        asked = np.asarray(positions, dtype=np.float64)
        held = np.clip(asked, self.positions[0], self.positions[-1])
        weights = np.exp(np.interp(held, self.positions, np.log(self.weights)))
        known = np.isin(held, self.positions)  # exactly what was estimated, not its log and back
        weights[known] = self.weights[np.searchsorted(self.positions, held[known])]
        return weights

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON values."""
        goodness = self.goodness
        return {
            "method": self.method,
            "positions": self.positions.tolist(),
            "weights": [float(f"{weight:.12g}") for weight in self.weights],
            "standard_errors": [float(f"{error:.6g}") for error in self.standard_errors],
            "goodness": None
            if goodness is None
            else {
                "statistic": float(f"{goodness.statistic:.6g}"),
                "degrees": goodness.degrees,
                "p_value": float(f"{goodness.p_value:.4g}"),
                "excess": float(f"{goodness.excess:.4g}"),
            },
            "notes": list(self.notes),
        }

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> PositionBias:
        """Read what `to_dict` wrote."""
        goodness = values["goodness"]
        return cls(
            method=values["method"],
            positions=np.array(values["positions"], np.int64),
            weights=np.array(values["weights"], np.float64),
            standard_errors=np.array(values["standard_errors"], np.float64),
            goodness=None if goodness is None else Goodness(**goodness),
            notes=tuple(values["notes"]),
        )

    def __str__(self) -> str:
        lines = [f"position bias ({self.method})", "position  weight  std. error"]
        lines += [
            f"{position:>8}  {weight:6.4f}  {error:10.4f}"
            for position, weight, error in zip(
                self.positions, self.weights, self.standard_errors, strict=True
            )
        ]
        if self.goodness is not None:
            verdict = "fails" if self.goodness.fails else "not rejected"
            lines.append(
                f"homogeneity {verdict}: p = {self.goodness.p_value:.2g}, "
                f"departure beyond chance {100 * self.goodness.excess:.1f} %"
            )
        return "\n".join([*lines, *self.notes])
