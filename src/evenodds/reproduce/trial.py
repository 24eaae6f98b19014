"""The network study: history, an A/B test, and weeks in which the model learns from its own logs. Simulated."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from evenodds.odds.equalized import EqualizedOdds
from evenodds.opportunity import EqualOpportunity
from evenodds.position import PositionBias, position_bias
from evenodds.reproduce.ab_test import ARMS, METRICS, run_test
from evenodds.reproduce.measure import summary
from evenodds.reproduce.network import (
    FADING,
    FAIR_START,
    GROUPS,
    HISTORY,
    SHOWN,
    WEIGHTS,
    Members,
    Shown,
    draw_members,
    logistic,
    received,
    sigmoid,
    week,
)
from evenodds.reranker import Reranker
from evenodds.tally import Tally, tally

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

WORLDS = (*ARMS, "none, fair start")
# The paper's table, in per cent; None where it says "Neutral".
PAPER_LIFTS = {
    "EOpp": {"sent IM": 5.72, "sent FM": None, "accepted IM": 4.85, "accepted FM": None},
    "EOdds": {"sent IM": 2.77, "sent FM": None, "accepted IM": 2.26, "accepted FM": None},
}
FEATURES = ("constant", "signal", "activity", "standing")
_HISTORY_WEEKS = 4
_LOG_WEEKS = 2


@dataclass(frozen=True)
class NetworkSize:
    """How much is simulated; queries are a week's, in the test an arm's."""

    members: int
    queries: int
    test_weeks: int
    feedback_weeks: int
    replicates: int


FULL_NETWORK = NetworkSize(40_000, 20_000, 2, 8, 3)
QUICK_NETWORK = NetworkSize(10_000, 4_000, 1, 3, 2)


@dataclass
class Week:
    """A week's log, rows in the order of the lists."""

    features: Floats
    group: Ints
    position: Ints
    query: Ints
    sent: npt.NDArray[np.bool_]


def run_network(
    size: NetworkSize = FULL_NETWORK, *, seed: int = 0, progress: Callable[[int], None] | None = None
) -> dict[str, Any]:
    """Run the study; return plain JSON values, the same for the same seed."""
    found = []
    for number in range(size.replicates):
        found.append(_replicate(size, seed * 1000 + number))
        if progress is not None:
            progress(1)
    weeks = list(range(size.feedback_weeks + 1))
    measures = list(found[0]["feedback"]["none"][0])
    return {
        "simulated": True,
        "size": asdict(size),
        "model": {"features": list(FEATURES), "coefficients": [part["coefficients"] for part in found]},
        "experiment": {
            "replicates": [part["experiment"] for part in found],
            "paper_per_cent": PAPER_LIFTS,
            "over_worlds": {
                arm: {
                    metric: summary([part["experiment"]["lifts"][arm][metric]["lift"] for part in found])
                    for metric in METRICS
                }
                for arm in ("EOpp", "EOdds")
            },
        },
        "feedback": {
            "weeks": weeks,
            "worlds": {
                arm: {
                    measure: [
                        summary([part["feedback"][arm][number][measure] for part in found])
                        for number in weeks
                    ]
                    for measure in measures
                }
                for arm in WORLDS
            },
            "ideal": {measure: summary([part["ideal"][measure] for part in found]) for measure in measures},
        },
    }


def _replicate(size: NetworkSize, seed: int) -> dict[str, Any]:
    past = _history(size, HISTORY, seed)
    counted = count(past.logs, past.coefficients)
    bias = position_bias(counted)
    rerankers = fit_all(counted, bias)
    feedback = {arm: [past.measured, *_feedback(past, size, rerankers[arm], seed)] for arm in ARMS}
    ideal = _live(deepcopy(past.members), size, None, None, [seed, 22, 0])[1]
    fair = _history(size, FAIR_START, seed)
    feedback["none, fair start"] = [fair.measured, *_feedback(fair, size, None, seed)]
    return {
        "coefficients": [float(f"{value:.6g}") for value in past.coefficients],
        "experiment": run_test(
            past.members,
            past.coefficients,
            rerankers,
            queries=size.queries,
            weeks=size.test_weeks,
            seed=seed,
        ),
        "feedback": feedback,
        "ideal": ideal,
    }


@dataclass
class Past:
    """A network with a model in service for two weeks: its members, the model, the logs, the last week."""

    members: Members
    coefficients: Floats
    logs: list[Week]
    measured: dict[str, float]


def _history(size: NetworkSize, rule: Floats, seed: int) -> Past:
    """Live under a rule for four weeks, train the first model on the last two, serve it for two."""
    members = draw_members(size.members, seed)
    logs = [_live(members, size, rule, None, [seed, 20, number])[0] for number in range(_HISTORY_WEEKS)]
    coefficients = learn(logs[-_LOG_WEEKS:])
    weeks = [_live(members, size, coefficients, None, [seed, 21, number]) for number in range(_LOG_WEEKS)]
    return Past(members, coefficients, [log for log, _ in weeks], weeks[-1][1])


def learn(logs: list[Week]) -> Floats:
    """Train the model: a logistic regression on the logs as they are, positions not undone."""
    return logistic(
        np.concatenate([log.features for log in logs]), np.concatenate([log.sent for log in logs])
    )


def count(logs: list[Week], coefficients: Floats) -> Tally:
    """Count logs under a model's scores."""
    import pyarrow as pa

    parts = []
    for number, log in enumerate(logs):
        parts.append(
            pa.table(
                {
                    "score": sigmoid(log.features @ coefficients),
                    "group": pa.DictionaryArray.from_arrays(log.group.astype(np.int8), list(GROUPS)),
                    "label": log.sent.astype(np.int8),
                    "position": log.position,
                    "query": log.query + number * 10_000_000,
                }
            )
        )
    return tally(pa.concat_tables(parts))


def fit_all(counted: Tally, bias: PositionBias) -> dict[str, Reranker | None]:
    """Fit both criteria as the paper served them: a CDF of 10,000 points; 100 equally spaced bins."""
    return {
        "none": None,
        "EOpp": EqualOpportunity(points=10_000, position_bias=bias).fit(counted),
        "EOdds": EqualizedOdds(bins=100, binning="equal", position_bias=bias).fit(counted),
    }


def _live(
    members: Members,
    size: NetworkSize,
    coefficients: Floats | None,
    reranker: Reranker | None,
    luck: list[int],
) -> tuple[Week, dict[str, float]]:
    """Live through a week: serve, count invitations, update standing; return the log and measures."""
    shown = [part for _, part in week(members, size.queries, coefficients, {"": reranker}, luck=luck)]
    members.standing *= FADING
    for part in shown:
        members.standing += received(part, members.frequent.size)
    lists = sum(part.viewer.size for part in shown)
    log = Week(
        np.concatenate([part.features.reshape(-1, len(FEATURES)) for part in shown]),
        np.concatenate([part.group.ravel() for part in shown]),
        np.tile(np.arange(1, SHOWN + 1), lists),
        np.repeat(np.arange(lists), SHOWN),
        np.concatenate([part.sent.ravel() for part in shown]),
    )
    return log, _measure(shown, members)


def _measure(shown: list[Shown], members: Members) -> dict[str, float]:
    group, merit, sent, accepted = (
        np.concatenate([getattr(part, name) for part in shown])
        for name in ("group", "merit", "sent", "accepted")
    )
    infrequent = group == 0
    weight = np.broadcast_to(WEIGHTS, group.shape)
    exposure = np.zeros(members.frequent.size)
    for part in shown:
        exposure += np.bincount(
            part.item.ravel(), weights=np.tile(WEIGHTS, len(part.item)), minlength=exposure.size
        )
    most = np.sort(exposure)[::-1][: exposure.size // 10]
    found = {
        "exposure": weight[infrequent].sum() / weight.sum(),
        "sent": sent[infrequent].sum() / sent.sum(),
        "accepted": accepted[infrequent].sum() / accepted.sum(),
        # The paper's corollary: observed exposure over merit, IM against FM; 1 is parity.
        "parity": weight[merit & infrequent].mean() / weight[merit & ~infrequent].mean(),
        "sent_per_list": sent.sum() / len(sent),
        "accepted_per_list": accepted.sum() / len(sent),
        "top_tenth": most.sum() / exposure.sum(),
    }
    return {name: float(f"{value:.8g}") for name, value in found.items()}


def _feedback(past: Past, size: NetworkSize, reranker: Reranker | None, seed: int) -> list[dict[str, float]]:
    """Live on for weeks: each week the model, then the reranker, is learned from its own last logs."""
    members, coefficients, recent = deepcopy(past.members), past.coefficients, list(past.logs)
    found = []
    for number in range(size.feedback_weeks):
        log, measured = _live(members, size, coefficients, reranker, [seed, 22, number])
        found.append(measured)
        recent = [recent[-1], log]
        coefficients = learn(recent)
        if reranker is not None:
            # How people look at a page does not change with the model, so w is not learned again.
            reranker = type(reranker)(**{name: getattr(reranker, name) for name in reranker.settings}).fit(
                count(recent, coefficients)
            )
    return found
