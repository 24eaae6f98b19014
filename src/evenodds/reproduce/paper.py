"""The simulation study of Nandy et al. (FAccT 2022), section "Empirical Evaluation", from end to end.

A replicate is the whole study anew: population, training log, fits, validation lists. Within a
replicate all rerankers see the same lists and the same luck of the clicks, so that differences
between them are paired. EOdds follows the paper: scores through the inverse logit, 100 equally
spaced bins, least movement, uniform draws within a bin, and the blend by alpha on that scale.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from evenodds.grid import Grid
from evenodds.odds.bins import unit_scale
from evenodds.odds.equalized import EqualizedOdds
from evenodds.opportunity import EqualOpportunity
from evenodds.position import PositionBias, position_bias
from evenodds.reproduce.measure import group_distances, sampling_noise, summary
from evenodds.reranker import Reranker
from evenodds.simulate import (
    GROUP_NAMES,
    Lists,
    Population,
    draw_clicks,
    draw_lists,
    draw_population,
    position_weights,
    rank,
    simulate,
)
from evenodds.tally import Tally, tally

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

SLOTS = 50
HISTOGRAM_BINS = 80
SCORES_SHOWN = (-2.0, 6.0)
KINDS = ("observed", "merit")
# The paper does not say in how many cells of the score it compares neighbours; 200 is our default.
CURVES = ("joint", "adjacent", "adjacent, 4000 cells")
PAPER_SECONDS = {"position bias": 7.0, "EOpp": 9.0, "EOdds": 100.0}
RERANKERS = {
    "EOpp": "equality of opportunity, 10,000 points",
    "EOdds": "equalized odds, inverse logit, 100 equally spaced bins, least movement (the paper's)",
    "EOdds observed": "the same, solved for observed labels: target='observed'",
    "EOdds raw scale": "the paper's bins, but movement and blend on the scale of the scores",
}


@dataclass(frozen=True)
class Size:
    """How much is simulated."""

    population: int
    training: int
    validation: int
    replicates: int
    alphas: tuple[float, ...]


FULL = Size(50_000, 100_000, 50_000, 8, tuple(round(0.1 * step, 1) for step in range(11)))
QUICK = Size(50_000, 10_000, 5_000, 4, tuple(round(0.2 * step, 1) for step in range(6)))


@dataclass(frozen=True)
class Fresh:
    """Validation lists: their groups and merit labels, and a seed for the luck of their clicks."""

    lists: Lists
    group: Ints
    merit: Ints
    luck: list[int]


@dataclass(frozen=True)
class Outcome:
    """What one ranking did on the validation lists."""

    distances: dict[str, float]
    noise: dict[str, float]
    performance: float
    clicked: Ints


def run_paper(
    size: Size = FULL, *, seed: int = 0, progress: Callable[[int], None] | None = None
) -> dict[str, Any]:
    """Run the study; return plain JSON values, the same for the same seed except under "timings"."""
    found = []
    for number in range(size.replicates):
        found.append(_replicate(size, seed * 1000 + number))
        if progress is not None:
            progress(1)
    by_alpha = {
        name: {
            "unfairness": {
                key: [summary([part["curves"][name][step][key] for part in found]) for step in _steps(size)]
                for key in _keys()
            },
            "performance": [
                summary([part["curves"][name][step]["performance"] for part in found])
                for step in _steps(size)
            ],
        }
        for name in RERANKERS
    }
    return {
        "size": {**asdict(size), "alphas": list(size.alphas), "slots": SLOTS},
        "rerankers": RERANKERS,
        "position_bias": {
            "positions": list(range(1, SLOTS + 1)),
            "truth": position_weights(SLOTS).tolist(),
            **{
                method: [summary([part["bias"][method][j] for part in found]) for j in range(SLOTS)]
                for method in CURVES
            },
        },
        "tradeoff": by_alpha,
        "noise": {key: float(np.mean([part["noise"][key] for part in found])) for key in _keys()},
        "by_position_bias": {
            way: {
                name: {key: summary([part["ways"][way][name][key] for part in found]) for key in _keys()}
                for name in ("EOpp", "EOdds")
            }
            for way in ("joint", "adjacent", "truth")
        },
        "distributions": found[0]["distributions"],
        "timings": _timings([part["seconds"] for part in found], size),
    }


def _steps(size: Size) -> range:
    return range(len(size.alphas))


def _keys() -> list[str]:
    return [f"{kind} {label}" for kind in KINDS for label in (0, 1)]


def _replicate(size: Size, seed: int) -> dict[str, Any]:
    population = draw_population(size.population, seed)
    log = simulate(size.training, seed=seed, list_length=SLOTS, population_size=size.population)
    seconds: dict[str, float] = {}

    def timed(what: str, work: Callable[[], Any]) -> Any:
        start = time.perf_counter()
        done = work()
        seconds[what] = time.perf_counter() - start
        return done

    counted: Tally = timed("counting", lambda: tally(log))
    unit = on_unit_scale(counted)
    joint: PositionBias = timed("position bias, joint", lambda: position_bias(counted, "joint"))
    adjacent: PositionBias = timed("position bias, adjacent", lambda: position_bias(counted, "adjacent"))
    finer = position_bias(counted, "adjacent", cells=4_000)
    models: dict[str, Reranker] = {
        "EOpp": timed("EOpp", lambda: EqualOpportunity(position_bias=joint).fit(counted)),
        "EOdds": timed("EOdds", lambda: paper_odds(joint).fit(unit)),
        "EOdds observed": timed("EOdds observed", lambda: paper_odds(joint, "observed").fit(unit)),
        "EOdds raw scale": EqualizedOdds(binning="equal", within="uniform", position_bias=joint).fit(counted),
    }
    fresh = _fresh(size, population, seed)
    curves: dict[str, list[dict[str, float]]] = {}
    distributions: dict[str, Any] = {}
    ways: dict[str, dict[str, dict[str, float]]] = {"joint": {}, "adjacent": {}, "truth": {}}
    learned = counted.effective_positives().astype(int)
    noise: dict[str, float] = {}
    for name, model in models.items():
        old, fair = fair_scores(model, fresh.lists.score.ravel(), fresh.group, seed)
        curves[name] = []
        for alpha in size.alphas:
            blend = alpha * fair + (1.0 - alpha) * old
            outcome = look(population, fresh, blend)
            curves[name].append({**outcome.distances, "performance": outcome.performance})
            if alpha in {0.0, 1.0} and (alpha == 1.0 or not distributions):
                shown = blend if not _on_unit(model) else np.log(blend / (1.0 - blend))
                distributions["before" if alpha == 0.0 else name] = _histograms(fresh, shown, outcome.clicked)
            noise = outcome.noise
        if name in {"EOpp", "EOdds"}:
            ways["joint"][name] = curves[name][-1]
    given = PositionBias("given", np.arange(1, SLOTS + 1), position_weights(SLOTS), np.zeros(SLOTS))
    for way, bias in (("adjacent", adjacent), ("truth", given)):
        for name, other, data in (
            ("EOpp", EqualOpportunity(position_bias=bias), counted),
            ("EOdds", paper_odds(bias), unit),
        ):
            _, fair = fair_scores(other.fit(data), fresh.lists.score.ravel(), fresh.group, seed)
            ways[way][name] = look(population, fresh, fair).distances
    return {
        "curves": curves,
        "bias": {
            "joint": joint.at(range(1, SLOTS + 1)).tolist(),
            "adjacent": adjacent.at(range(1, SLOTS + 1)).tolist(),
            "adjacent, 4000 cells": finer.at(range(1, SLOTS + 1)).tolist(),
        },
        "ways": ways,
        # What is learned from a sample is off by that sample's noise, before any list is validated.
        "noise": {key: float(np.hypot(value, sampling_noise(*learned))) for key, value in noise.items()},
        "distributions": distributions,
        "seconds": seconds,
    }


def paper_odds(bias: PositionBias, target: str = "merit") -> EqualizedOdds:
    """Return equalized odds as the paper's study sets it up; for scores on the unit scale."""
    return EqualizedOdds(
        bins=100,
        binning="equal",
        within="uniform",
        target="observed" if target == "observed" else "merit",
        position_bias=bias,
    )


def on_unit_scale(counted: Tally) -> Tally:
    """Return the tally that counting the inverse logits of the scores would give: only cell ends move."""
    low, high = counted.score_range
    moved = _inverse_logit(np.array([low, high]))
    grid = Grid(_inverse_logit(counted.grid.boundaries), counted.grid.atoms)
    return replace(counted, grid=grid, score_range=(float(moved[0]), float(moved[1])))


def fair_scores(model: Reranker, scores: Floats, group: Ints, seed: int) -> tuple[Floats, Floats]:
    """Return old and fair scores, both on the scale that the model was fitted on."""
    old = _inverse_logit(scores) if _on_unit(model) else scores
    return old, model.transform(old, np.array(GROUP_NAMES)[group], seed=seed)


def _inverse_logit(scores: Floats) -> Floats:
    return 1.0 / (1.0 + np.exp(-scores))


def _on_unit(model: Reranker) -> bool:
    return isinstance(model, EqualizedOdds) and unit_scale(model.edges_) is model.edges_


def _fresh(size: Size, population: Population, seed: int) -> Fresh:
    rng = np.random.default_rng([seed, 2])
    lists = draw_lists(population, size.validation, lengths=(SLOTS, SLOTS), rng=rng)
    items = lists.item.ravel()
    return Fresh(lists, population.group[items], population.merit[items], [seed, 3])


def look(population: Population, fresh: Fresh, scores: Floats) -> Outcome:
    """Rank the validation lists by these scores, draw the clicks at the new positions, and measure."""
    position = rank(fresh.lists, scores.reshape(fresh.lists.score.shape))
    luck = np.random.default_rng(fresh.luck)  # the same for every ranking: a click differs only by its slot
    clicked = draw_clicks(population, fresh.lists, position, position_weights(SLOTS), luck).ravel()
    distances, noise = group_distances(scores, fresh.group, {"observed": clicked, "merit": fresh.merit})
    return Outcome(distances, noise, float(clicked.mean()), clicked)


def _histograms(fresh: Fresh, scores: Floats, clicked: Ints) -> dict[str, Any]:
    """Return densities by kind of label, label and group, on one grid of scores."""
    ends = np.linspace(*SCORES_SHOWN, HISTOGRAM_BINS + 1)
    found: dict[str, Any] = {}
    for kind, label in (("observed", clicked), ("merit", fresh.merit)):
        for y in (0, 1):
            for code, name in enumerate(GROUP_NAMES):
                own = scores[(label == y) & (fresh.group == code)]
                counts = np.histogram(np.clip(own, *SCORES_SHOWN), ends)[0]
                density = counts / max(own.size, 1) / (ends[1] - ends[0])
                found.setdefault(f"{kind} {y}", {})[name] = [float(f"{value:.5g}") for value in density]
    return found


def _timings(seconds: list[dict[str, float]], size: Size) -> dict[str, Any]:
    middle = {what: float(np.median([part[what] for part in seconds])) for what in seconds[0]}
    return {
        "rows": size.training * SLOTS,
        "seconds": {what: float(f"{value:.3g}") for what, value in middle.items()},
        "paper_seconds": PAPER_SECONDS,
        "note": "the paper's were taken in R on a 3.5 GHz dual-core Core i7, from 5 million rows; "
        "ours start from the tally, which is counted once",
    }
