"""The network's A/B test by member, read out like a real one. Simulated."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import numpy as np
import numpy.typing as npt

from evenodds.experiment import experiment
from evenodds.readout import ALL
from evenodds.reproduce.measure import group_distances
from evenodds.reproduce.network import FADING, GROUPS, Members, Shown, received, week
from evenodds.reranker import Reranker

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Lifts = dict[str, dict[str, dict[str, float]]]

ARMS = ("none", "EOpp", "EOdds")
OUTCOMES = ("sent", "accepted")
METRICS = tuple(f"{what} {group}" for what in OUTCOMES for group in GROUPS)


def run_test(
    members: Members,
    coefficients: Floats,
    rerankers: dict[str, Reranker | None],
    *,
    queries: int,
    weeks: int,
    seed: int,
) -> dict[str, Any]:
    """Run the test: the model is fixed, standing moves on for all arms together.

    Parameters
    ----------
    members
        As they stand when the test begins; left alone.
    queries
        A week's, in each arm.
    """
    members = deepcopy(members)
    size = members.frequent.size
    arms = np.random.default_rng([seed, 30]).integers(0, len(ARMS), size)
    halves = np.random.default_rng([seed, 31]).integers(0, 2, size)
    totals = np.zeros((len(OUTCOMES), len(GROUPS), size))
    visited = np.zeros(size, dtype=bool)
    scored: dict[int, list[Shown]] = {arm: [] for arm in range(len(ARMS))}
    for number in range(weeks):
        gained = np.zeros(size)
        served = week(
            members, queries * len(ARMS), coefficients, rerankers, luck=[seed, 23, number], arms=arms
        )
        for arm, part in served:
            visited[part.viewer] = True
            gained += received(part, size)
            for row, what in enumerate(OUTCOMES):
                for code in range(len(GROUPS)):
                    hits = (getattr(part, what) & (part.group == code)).sum(axis=1)
                    totals[row, code] += np.bincount(part.viewer, weights=hits, minlength=size)
            if number == 0:
                scored[arm].append(part)
        members.standing = FADING * members.standing + gained / len(ARMS)

    names = np.array(ARMS)[arms]
    control = visited & (arms == 0)
    split = read_out(np.array(["control", "other half"])[halves], totals, control, "control")
    lifts = read_out(names, totals, visited, "none")
    return {
        "members": {arm: int((visited & (arms == code)).sum()) for code, arm in enumerate(ARMS)},
        "lifts": {arm: lifts[arm] for arm in ARMS[1:]},
        "EOpp_against_EOdds": read_out(names, totals, visited, "EOdds")["EOpp"],
        "control_against_control": split["other half"],
        "unfairness": {arm: _unfairness(scored[code]) for code, arm in enumerate(ARMS)},
    }


def read_out(arm: npt.NDArray[np.str_], totals: Floats, used: npt.NDArray[np.bool_], control: str) -> Lifts:
    """Compare arms by `evenodds.experiment`; members are the units.

    Parameters
    ----------
    arm
        Of each member.
    totals
        ``totals[outcome, group invited, member]``.
    used
        Members who came; the others were shown nothing in any arm.
    """
    import pyarrow as pa

    chosen = np.flatnonzero(used)
    rows = pa.table(
        {
            "arm": np.tile(arm[chosen], len(GROUPS)),
            "member": np.tile(chosen, len(GROUPS)),
            "group": np.repeat(GROUPS, chosen.size),
            **{what: totals[row][:, chosen].ravel() for row, what in enumerate(OUTCOMES)},
        }
    )
    read = experiment(rows, metrics=OUTCOMES, control=control, group_of="item")
    found: Lifts = {}
    for one in read.comparisons:
        if one.per != "member":  # a row here is a member's sum, not an impression
            continue
        name = f"{one.metric} {'in all' if one.group == ALL else one.group}"
        low, high = one.interval or (float("nan"), float("nan"))
        found.setdefault(one.arm, {})[name] = {
            "lift": float(f"{one.lift:.8g}"),
            "low": float(f"{low:.6g}"),
            "high": float(f"{high:.6g}"),
            "p_value": float(f"{1.0 if one.p_value is None else one.p_value:.4g}"),
        }
    return found


def _unfairness(shown: list[Shown]) -> dict[str, float]:
    fair, group, sent, merit = (
        np.concatenate([getattr(part, name).ravel() for part in shown])
        for name in ("fair", "group", "sent", "merit")
    )
    found, _ = group_distances(
        fair, group, {"observed": sent.astype(np.int64), "merit": merit.astype(np.int64)}
    )
    return {key: float(f"{value:.6g}") for key, value in found.items()}
