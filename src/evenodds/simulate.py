"""The paper's population, queries and clicks, seeded.

Section "Simulation Study" of Nandy et al. (FAccT 2022): 50,000 items in two groups, lists of
50 items ranked by a noisy score, clicks thinned by the position bias ``1 / log2(1 + j)``.
The normal distributions take standard deviations (0.5 and 0.1), as in the authors' R code.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from evenodds.distance import ks_distance
from evenodds.errors import SettingsError
from evenodds.files import written_aside

if TYPE_CHECKING:
    import pyarrow as pa

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

GROUP_NAMES = ("A", "B")  # the paper's C = 0 and C = 1
_CHUNK = 20_000  # queries drawn at a time; part of the random stream, so a constant


@dataclass(frozen=True)
class Population:
    """Items that can be shown: group (0 or 1), merit label Y(1) and relevance R."""

    group: Ints
    merit: Ints
    relevance: Floats


@dataclass(frozen=True)
class Lists:
    """Candidate lists, one row a query, padded on the right where a list is shorter."""

    item: Ints
    score: Floats
    shown: npt.NDArray[np.bool_]

    @property
    def queries(self) -> int:
        """How many lists there are."""
        return int(self.score.shape[0])


def position_weights(positions: int) -> Floats:
    """Return the simulation's true position bias, ``w_j = 1 / log2(1 + j)`` for j = 1, 2, ...

    >>> position_weights(3).round(3).tolist()
    [1.0, 0.631, 0.5]
    """
    return 1.0 / np.log2(1.0 + np.arange(1, positions + 1, dtype=np.float64))


def draw_population(size: int = 50_000, seed: int = 0) -> Population:
    """Draw the items: C ~ B(0.6), Y(1) | C ~ B(0.4 + 0.1 C), R ~ N(0.6 Y + 2 C, 0.5) + (1 - C) U[0, 1 + Y]."""
    rng = np.random.default_rng([seed, 0])
    group = (rng.random(size) < 0.6).astype(np.int64)
    merit = (rng.random(size) < 0.4 + 0.1 * group).astype(np.int64)
    relevance = rng.normal(0.6 * merit + 2.0 * group, 0.5) + (1 - group) * rng.random(size) * (1 + merit)
    return Population(group, merit, relevance)


def draw_lists(
    population: Population,
    queries: int,
    *,
    lengths: tuple[int, int] = (50, 50),
    rng: np.random.Generator,
) -> Lists:
    """Draw candidate lists: distinct items at random, score = R + N(0, 0.1), length uniform in `lengths`."""
    shortest, longest = lengths
    size = population.group.size
    item = rng.integers(0, size, (queries, longest))
    while True:  # redraw whole lists that hold an item twice: uniform over lists of distinct items
        ordered = np.sort(item, axis=1)
        doubled = (ordered[:, 1:] == ordered[:, :-1]).any(axis=1)
        if not doubled.any():
            break
        item[doubled] = rng.integers(0, size, (int(doubled.sum()), longest))
    score = population.relevance[item] + rng.normal(0.0, 0.1, item.shape)
    length = rng.integers(shortest, longest + 1, queries)
    return Lists(item, score, np.arange(longest) < length[:, None])


def rank(lists: Lists, scores: Floats) -> Ints:
    """Return each candidate's position, 1 for the highest score of its list; padding ranks last."""
    order = np.argsort(np.where(lists.shown, -scores, np.inf), axis=1, kind="stable")
    position = np.empty_like(order)
    np.put_along_axis(position, order, np.arange(1, order.shape[1] + 1)[None, :], axis=1)
    return position


def draw_clicks(
    population: Population, lists: Lists, position: Ints, weights: Floats, rng: np.random.Generator
) -> Ints:
    """Draw the observed label: Y(j) = Y(1) with probability w_j, else 0."""
    seen = rng.random(position.shape) < weights[position - 1]
    return population.merit[lists.item] * seen


def simulate_batches(
    queries: int = 100_000,
    *,
    seed: int = 0,
    list_length: int | tuple[int, int] = 50,
    population_size: int = 50_000,
) -> Iterator[pa.RecordBatch]:
    """Yield the simulated log in record batches, so that a log of any size can be written."""
    lengths = (list_length, list_length) if isinstance(list_length, int) else list_length
    if queries < 1 or population_size < 1:
        raise SettingsError(
            f"queries and population_size must be at least 1, got {queries} and {population_size}"
        )
    if not 1 <= lengths[0] <= lengths[1] <= population_size:
        raise SettingsError(
            f"list_length must lie in 1..{population_size}, got {list_length}",
            hint="give one length, or the shortest and the longest",
        )
    population = draw_population(population_size, seed)
    weights = position_weights(lengths[1])
    for number, first in enumerate(range(0, queries, _CHUNK)):
        rng = np.random.default_rng([seed, 1, number])
        lists = draw_lists(population, min(_CHUNK, queries - first), lengths=lengths, rng=rng)
        position = rank(lists, lists.score)
        label = draw_clicks(population, lists, position, weights, rng)
        yield to_batch(population, lists, position, label, first_query=first)


def to_batch(
    population: Population, lists: Lists, position: Ints, label: Ints, *, first_query: int = 0
) -> pa.RecordBatch:
    """Lay lists out as log rows, each query's rows in the order in which they were shown."""
    import pyarrow as pa

    shown = np.where(lists.shown, position, position.shape[1] + 1)
    order = np.argsort(shown, axis=1, kind="stable")

    def flat(values: npt.NDArray[np.generic]) -> npt.NDArray[np.generic]:
        in_order: npt.NDArray[np.generic] = np.take_along_axis(values, order, axis=1)
        return in_order[np.take_along_axis(lists.shown, order, axis=1)]

    query = np.broadcast_to(np.arange(first_query, first_query + lists.queries)[:, None], lists.item.shape)
    codes = pa.array(flat(population.group[lists.item]).astype(np.int8))
    return pa.record_batch(
        {
            "query": pa.array(flat(query)),
            "item": pa.array(flat(lists.item)),
            "group": pa.DictionaryArray.from_arrays(codes, pa.array(GROUP_NAMES)).cast(pa.string()),
            "score": pa.array(flat(lists.score)),
            "position": pa.array(flat(position).astype(np.int32)),
            "label": pa.array(flat(label).astype(np.int8)),
        }
    )


def write_simulated(
    path: str | os.PathLike[str],
    queries: int,
    *,
    seed: int = 0,
    list_length: int | tuple[int, int] = 50,
    population_size: int = 50_000,
    overwrite: bool = False,
    progress: Callable[[int], None] | None = None,
) -> int:
    """Write the simulated log as Parquet, a batch at a time; return its rows."""
    import pyarrow.parquet as pq

    rows = 0
    batches = simulate_batches(queries, seed=seed, list_length=list_length, population_size=population_size)
    first = next(batches)  # settings out of range are refused here, before a file is made
    with written_aside(path, overwrite=overwrite) as aside, pq.ParquetWriter(aside, first.schema) as writer:
        for batch in chain([first], batches):
            writer.write_batch(batch)
            rows += batch.num_rows
            if progress is not None:
                progress(batch.num_rows)
    return rows


def simulate(
    queries: int = 100_000,
    *,
    seed: int = 0,
    list_length: int | tuple[int, int] = 50,
    population_size: int = 50_000,
) -> pa.Table:
    """Simulate the paper's impression log: columns query, item, group, score, position, label.

    Parameters
    ----------
    queries
        How many lists are shown.
    seed
        The same seed gives the same log.
    list_length
        One length for all lists, or the shortest and the longest of a uniform draw.
    population_size
        How many items there are to draw from.

    Examples
    --------
    >>> log = simulate(queries=2, seed=1, list_length=3)
    >>> log.column_names
    ['query', 'item', 'group', 'score', 'position', 'label']
    >>> log["position"].to_pylist()
    [1, 2, 3, 1, 2, 3]
    """
    import pyarrow as pa

    return pa.Table.from_batches(
        list(simulate_batches(queries, seed=seed, list_length=list_length, population_size=population_size))
    )


@dataclass(frozen=True)
class Outcome:
    """What a ranking did on fresh lists, with the clicks redrawn at the new positions.

    Attributes
    ----------
    observed, merit
        Kolmogorov-Smirnov distance between the two groups' scores by label, given the observed and
        the merit label.
    click_rate
        The share of positives.
    """

    observed: dict[int, float]
    merit: dict[int, float]
    click_rate: float


def outcome_on_fresh_lists(
    population: Population,
    rescore: Callable[[Floats, npt.NDArray[np.str_]], Floats] | None = None,
    *,
    queries: int = 50_000,
    seed: int = 0,
    list_length: int = 50,
) -> Outcome:
    """Rank fresh lists of the same items by `rescore(scores, groups)`, redraw the clicks, and measure."""
    rng = np.random.default_rng([seed, 2])
    lists = draw_lists(population, queries, lengths=(list_length, list_length), rng=rng)
    group = population.group[lists.item]
    scores = lists.score
    if rescore is not None:
        scores = rescore(scores.ravel(), np.array(GROUP_NAMES)[group.ravel()]).reshape(scores.shape)
    clicked = draw_clicks(population, lists, rank(lists, scores), position_weights(list_length), rng)
    merit = population.merit[lists.item]

    def distances(label: Ints) -> dict[int, float]:
        return {
            y: ks_distance(scores[(label == y) & (group == 0)], scores[(label == y) & (group == 1)])
            for y in (0, 1)
        }

    return Outcome(distances(clicked), distances(merit), float(clicked.mean()))
