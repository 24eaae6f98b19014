"""Data that follow a causal graph, to try what its reading says.

Each variable is drawn from its parents alone, in the order of the arrows, so that whatever the graph
says is independent is so exactly. Group and label are 0 or 1, as in a log. Two forms:

- "linear": the score and all other variables are sums of their parents plus N(0, 1), with coefficients
  of a size between 0.7 and 1.5 and a random sign; group and label are 1 where such a sum is above 0.
- "discrete": the score and all others take three values; a row of a conditional table is drawn anew for
  each combination of the parents' values, proportional to exp(1.5 N(0, 1)) and mixed with an even one, so that
  no value is rare.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np
import numpy.typing as npt

from evenodds.causal.graph import CausalGraph, networkx
from evenodds.errors import SettingsError

if TYPE_CHECKING:
    import pyarrow as pa

Floats = npt.NDArray[np.float64]
Form = Literal["linear", "discrete"]

FORMS = ("linear", "discrete")
LEVELS = 3
_SMALLEST, _LARGEST = 0.7, 1.5  # near zero a path would be open and yet too weak to see
_EVEN = 0.3


@dataclass(frozen=True)
class Mechanisms:
    """How each variable comes about.

    Attributes
    ----------
    order
        The variables, causes before effects.
    tables
        By variable. Linear: one coefficient a parent. Discrete: the probability of each value, one axis
        a parent and the variable's own last.
    """

    graph: CausalGraph
    form: Form
    seed: int
    order: tuple[str, ...]
    tables: dict[str, Floats]

    def levels(self, name: str) -> int:
        """How many values a variable takes; 0 for a number."""
        if name in {self.graph.group, self.graph.label}:
            return 2
        return LEVELS if self.form == "discrete" else 0

    def draw(self, rows: int) -> pa.Table:
        """Draw rows; the same ones for the same seed."""
        import pyarrow as pa

        if rows < 1:
            raise SettingsError(f"rows must be at least 1, got {rows}")
        rng = np.random.default_rng([self.seed, 1])
        values: dict[str, npt.NDArray[np.generic]] = {}
        for name in self.order:
            causes = [values[parent] for parent in self.graph.parents(name)]
            table = self.tables[name]
            if self.form == "discrete":
                chances = np.cumsum(table, axis=-1)[
                    tuple(causes)
                ]  # one row for all where there are no causes
                drawn = (rng.random(rows)[:, None] >= chances[..., :-1]).sum(axis=1)
                values[name] = drawn.astype(np.int8)
                continue
            total = rng.standard_normal(rows)
            for coefficient, cause in zip(table, causes, strict=True):
                total += coefficient * _centred(cause)
            values[name] = (total > 0).astype(np.int8) if self.levels(name) else total
        return pa.table({name: values[name] for name in self.graph.variables})


def mechanisms(graph: CausalGraph, *, seed: int = 0, form: str = "linear") -> Mechanisms:
    """Draw a mechanism for each variable of a graph."""
    if form not in FORMS:
        raise SettingsError(f"form must be one of {', '.join(FORMS)}, got {form!r}")
    rng = np.random.default_rng([seed, 0])
    order = tuple(networkx().lexicographical_topological_sort(graph.network))
    made = Mechanisms(graph, "linear" if form == "linear" else "discrete", seed, order, {})
    for name in order:
        causes = graph.parents(name)
        if made.form == "linear":
            sizes = rng.uniform(_SMALLEST, _LARGEST, len(causes))
            made.tables[name] = sizes * rng.choice([-1.0, 1.0], len(causes))
            continue
        shape = tuple(made.levels(cause) for cause in causes)
        weights = np.exp(1.5 * rng.standard_normal((*shape, made.levels(name))))
        chances = weights / weights.sum(axis=-1, keepdims=True)
        made.tables[name] = (1 - _EVEN) * chances + _EVEN / made.levels(name)
    return made


def _centred(values: npt.NDArray[np.generic]) -> Floats:
    """Return numbers as they are, and 0 and 1 as -1 and 1, so that sums lie on both sides of 0."""
    numbers = values.astype(np.float64)
    return numbers if values.dtype.kind == "f" else 2.0 * numbers - 1.0
