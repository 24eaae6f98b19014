"""Logs of which the truth is known, for the audit's coverage: worlds to draw them from, and their figures.

Two kinds of world. In :class:`World` scores are normal within a group and queries differ: each has its
own mix of groups and its own readiness to click, so that its rows hang together. :class:`PaperWorld` is
the paper's simulation: merit is fixed by item, lists are 50 long, and the lowest slots see few clicks.

Truths are those of a very long log in which every label is replaced by its chance, so that no click is
drawn; a model's are those of the same lists, ranked by its fair scores.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, cached_property
from itertools import combinations
from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from scipy.special import ndtri

import evenodds as eo
from evenodds.simulate import draw_lists, draw_population, position_weights

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

_ROWS = 4_000_000  # of the very long log
_ROWS_AFTER = 1_000_000  # of the lists that every model ranks anew


class Drawn(NamedTuple):
    """Lists, one row a list, in the order in which they were ranked.

    `chance` is P(Y(1) = 1) of the item to a viewer of mean readiness, `ready` that of this viewer.
    """

    group: Ints
    score: Floats
    chance: Floats
    ready: Floats


class AnyWorld(Protocol):
    """What a study needs of a world."""

    def __hash__(self) -> int: ...

    @property
    def names(self) -> tuple[str, ...]:
        """The groups' names."""

    @property
    def length(self) -> int:
        """How long the lists are."""

    def draw(self, rng: np.random.Generator, queries: int) -> Drawn:
        """Draw lists."""


@dataclass(frozen=True)
class World:
    """Scores are N(shift g, spread g); P(Y(1) = 1) = readiness level sigmoid(score - shift g + gain g).

    With neither shift nor gain and one spread the groups are alike in everything.
    """

    shifts: tuple[float, ...] = (0.0, 0.5)
    gains: tuple[float, ...] = (0.0, 0.5)
    spreads: tuple[float, ...] = (1.0, 1.0)
    level: float = 0.5
    length: int = 10

    @property
    def names(self) -> tuple[str, ...]:
        """a, b, c, ..."""
        return tuple("abcdefgh"[: len(self.shifts)])

    def draw(self, rng: np.random.Generator, queries: int) -> Drawn:
        """Draw lists, ranked by score."""
        shape = (queries, self.length)
        mix = np.cumsum(rng.dirichlet(np.full(len(self.shifts), 1.5), queries), axis=1)[:, None, :-1]
        group = (rng.random(shape)[:, :, None] > mix).sum(axis=2)
        ready = np.broadcast_to(rng.choice([0.4, 1.6], queries)[:, None], shape)
        shift, spread = np.array(self.shifts), np.array(self.spreads)
        score = rng.normal(shift[group], spread[group])
        order = np.argsort(-score, axis=1)
        group, score = np.take_along_axis(group, order, 1), np.take_along_axis(score, order, 1)
        return Drawn(group, score, self._chance(group, score), ready)

    def evened(self, drawn: Drawn) -> Drawn:
        """Put the quantiles of its distribution in place of each group's scores, in the same order.

        Else a distance that is zero would come out at what chance makes of four million rows, 0.002.
        """
        group = drawn.group.ravel()
        even: Floats = np.empty(group.size)
        for code, (shift, spread) in enumerate(zip(self.shifts, self.spreads, strict=True)):
            own = np.flatnonzero(group == code)
            order = np.argsort(drawn.score.ravel()[own])
            even[own[order]] = shift + spread * ndtri((np.arange(own.size) + 0.5) / own.size)
        score = even.reshape(drawn.group.shape)
        return Drawn(drawn.group, score, self._chance(drawn.group, score), drawn.ready)

    def _chance(self, group: Ints, score: Floats) -> Floats:
        shift, gain = np.array(self.shifts), np.array(self.gains)
        chance: Floats = self.level / (1.0 + np.exp(-(score - shift[group] + gain[group])))
        return chance


@dataclass(frozen=True)
class PaperWorld:
    """The paper's simulation: one population, from which lists of 50 are drawn."""

    length: int = 50
    seed: int = 0
    names: tuple[str, ...] = ("A", "B")

    def draw(self, rng: np.random.Generator, queries: int) -> Drawn:
        """Draw lists, ranked by score."""
        population = draw_population(seed=self.seed)
        lists = draw_lists(population, queries, lengths=(self.length, self.length), rng=rng)
        order = np.argsort(-lists.score, axis=1)
        item, score = np.take_along_axis(lists.item, order, 1), np.take_along_axis(lists.score, order, 1)
        return Drawn(
            population.group[item], score, population.merit[item].astype(np.float64), np.ones(item.shape)
        )


def log_of(world: AnyWorld, rng: np.random.Generator, queries: int) -> pa.Table:
    """Draw a log: lists, and clicks on them."""
    drawn = world.draw(rng, queries)
    label = rng.random(drawn.score.shape) < drawn.chance * drawn.ready * position_weights(world.length)
    return pa.table(
        {
            "query": np.repeat(np.arange(queries), world.length),
            "position": np.tile(np.arange(1, world.length + 1), queries),
            "group": pa.DictionaryArray.from_arrays(drawn.group.ravel().astype(np.int8), list(world.names)),
            "score": drawn.score.ravel(),
            "label": label.ravel().astype(np.int8),
        }
    )


@cache
def long_log(world: AnyWorld, rows: int = _ROWS) -> Drawn:
    """Draw the lists that truths are taken from, once for all; scores as evenly spread as they can be."""
    drawn = world.draw(np.random.default_rng(7), rows // world.length)
    return world.evened(drawn) if isinstance(world, World) else drawn


@cache
def truth_of(world: AnyWorld) -> dict[str, float]:
    """Return the true figures of the ranking as logged."""
    drawn = long_log(world)
    return _Figures(world, drawn).all()


def truth_after(world: AnyWorld, model: eo.Reranker) -> dict[str, float]:
    """Return the true figures of what a model makes of it: new scores, new positions, new labels."""
    drawn = long_log(world, _ROWS_AFTER)
    fair = model.transform(drawn.score.ravel(), np.array(world.names)[drawn.group.ravel()], seed=1)
    fair = fair.reshape(drawn.score.shape)
    order = np.argsort(-fair, axis=1)
    again = Drawn(
        np.take_along_axis(drawn.group, order, 1),
        np.take_along_axis(fair, order, 1),
        np.take_along_axis(drawn.chance, order, 1),
        drawn.ready,
    )
    figures = _Figures(world, again).all()
    return {f"after: {name}": value for name, value in figures.items()}


@dataclass(frozen=True)
class _Figures:
    """The figures of lists in the order of their ranking, straight from their rows."""

    world: AnyWorld
    drawn: Drawn

    @cached_property
    def _sorted(self) -> tuple[Floats, Ints, dict[str, tuple[Floats, Floats]]]:
        """Rows in the order of the score: scores, groups, and chances of each label by kind."""
        order = np.argsort(self.drawn.score, axis=None)
        merit = self.drawn.chance.ravel()[order]
        seen = (self.drawn.chance * position_weights(self.world.length)).ravel()[order]
        label = {"merit": (1 - merit, merit), "observed": (1 - seen, seen)}
        return self.drawn.score.ravel()[order], self.drawn.group.ravel()[order], label

    def all(self) -> dict[str, float]:
        """Return every figure of an audit by name."""
        score, group, labels = self._sorted
        names = self.world.names
        found: dict[str, float] = {}
        for kind, (negative, positive) in labels.items():
            for name, chance in (("positive", positive), ("negative", negative)):
                cdf = [np.cumsum(chance * (group == code)) for code in range(len(names))]
                for i, j in combinations(range(len(names)), 2):
                    apart = np.abs(cdf[i] / cdf[i][-1] - cdf[j] / cdf[j][-1])
                    pair = f"{names[i]}/{names[j]}"
                    found[f"KS {name} ({kind}) {pair}"] = float(apart.max())
                    found[f"W1 {name} ({kind}) {pair}"] = float(apart[:-1] @ np.diff(score))
            for j, other in enumerate(names):
                own = negative * (group == j)
                below = np.cumsum(own) - own / 2
                for i, name in enumerate(names):
                    worth = positive * (group == i)
                    found[f"AUC {name} over {other} ({kind})"] = float(
                        worth @ below / worth.sum() / own.sum()
                    )
        return found | self._by_group()

    def _by_group(self) -> dict[str, float]:
        group, chance, names = self.drawn.group, self.drawn.chance, self.world.names
        weights = np.broadcast_to(position_weights(self.world.length), group.shape)
        found = {}
        for code, name in enumerate(names):
            own = group == code
            rate, worth = float((chance * weights)[own].mean()), float(chance[own].mean())
            found[f"positive rate {name}"] = rate
            found[f"merit rate {name}"] = worth
            found[f"parity {name}"] = rate / worth
            found[f"exposure {name}"] = float(weights[own].mean())
            for position in (1, self.world.length):
                found[f"share of {name} at {position}"] = float(own[:, position - 1].mean())
        for one, other in combinations(names, 2):
            found[f"parity {one} over {other}"] = found[f"parity {one}"] / found[f"parity {other}"]
        return found
