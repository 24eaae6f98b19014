"""What the simulated network says to the paper's table and to its worry that the rich get richer."""

from __future__ import annotations

from typing import Any

import numpy as np

from evenodds.reproduce.ab_test import METRICS
from evenodds.reproduce.claims import Claim, Part
from evenodds.reproduce.measure import Estimate, estimate

LEVEL = 0.05
TEST_RULE = f"in each simulated A/B test p <= {LEVEL}, clustered by member, with the claim's sign"
WEEKS_RULE = (
    "the 95 % interval over worlds (Student's t, paired) of the change to the last week, or of the "
    "difference in every week, lies on the claim's side"
)
CRITERIA = ("EOpp", "EOdds")


def decide_network(results: dict[str, Any]) -> list[Claim]:
    """Decide the application's claims from what `run_network` measured. The numbers are simulated."""
    return [_gains(results), _neutral(results), _order(results), _richer(results), _stopped(results)]


def in_words(found: dict[str, Any]) -> str:
    """Put a lift as the paper's table does.

    >>> in_words({"lift": 0.0572, "p_value": 0.01}), in_words({"lift": 0.01, "p_value": 0.3})
    ('+5.72%', 'Neutral')
    """
    return f"{100 * found['lift']:+.2f}%" if found["p_value"] <= LEVEL else "Neutral"


def table(results: dict[str, Any]) -> str:
    """Lay the first simulated A/B test out in the shape of the paper's table, the paper's beside ours."""
    experiment = results["experiment"]
    first, paper = experiment["replicates"][0], experiment["paper_per_cent"]
    members = ", ".join(f"{arm} {count:,}" for arm, count in first["members"].items())
    lines = [
        "SIMULATED A/B test, change against no reranker (p, clustered by member); the paper's real test beside",
        f"{'':<12}" + "".join(f"{arm} {group}".ljust(38) for arm in CRITERIA for group in ("IM", "FM")),
    ]
    for what in ("sent", "accepted"):
        cells = []
        for arm in CRITERIA:
            for group in ("IM", "FM"):
                found = first["lifts"][arm][f"{what} {group}"]
                told = paper[arm][f"{what} {group}"]
                theirs = "Neutral" if told is None else f"{told:+.2f}%"
                cells.append(f"{in_words(found)} (p {found['p_value']:.2g}), paper {theirs}".ljust(38))
        lines.append(f"{what:<12}" + "".join(cells))
    in_all = "; ".join(
        f"{arm} {what} {in_words(found)} (p {found['p_value']:.2g})"
        for arm in CRITERIA
        for what, found in ((what, first["lifts"][arm][f"{what} in all"]) for what in ("sent", "accepted"))
    )
    unfairness = ", ".join(
        f"{arm} {found['merit 1']:.3f} and {found['merit 0']:.3f}"
        for arm, found in first["unfairness"].items()
    )
    halves = ", ".join(
        f"{metric} p {first['control_against_control'][metric]['p_value']:.2g}" for metric in METRICS
    )
    lines += [
        f"both groups together: {in_all}",
        f"KS distance between groups in the first test week, merit positives and negatives: {unfairness}",
        f"control against control: {halves}",
        f"members an arm: {members}",
    ]
    return "\n".join(line.rstrip() for line in lines)


def _tests(results: dict[str, Any], arm: str, metric: str) -> list[dict[str, Any]]:
    return [part["lifts"][arm][metric] for part in results["experiment"]["replicates"]]


def _told(found: list[dict[str, Any]]) -> str:
    return ", ".join(f"{100 * part['lift']:+.1f} % (p {part['p_value']:.2g})" for part in found)


def _gains(results: dict[str, Any]) -> Claim:
    parts = []
    for arm in CRITERIA:
        for what in ("sent", "accepted"):
            found = _tests(results, arm, f"{what} IM")
            up = all(part["p_value"] <= LEVEL and part["lift"] > 0 for part in found)
            parts.append(Part(f"{arm}, {what} IM: {_told(found)}", up))
    return Claim(
        "n1",
        "more invitations are sent to IM, and accepted by them",
        "Table of A/B results",
        TEST_RULE,
        tuple(parts),
    )


def _neutral(results: dict[str, Any]) -> Claim:
    parts = []
    for arm in CRITERIA:
        for what in ("sent", "accepted"):
            found = _tests(results, arm, f"{what} FM")
            harmed = any(part["p_value"] <= LEVEL and part["lift"] < 0 for part in found)
            parts.append(Part(f"{arm}, {what} FM: {_told(found)}", not harmed))
    return Claim(
        "n2",
        "without a significant loss for FM",
        "Table of A/B results",
        f"in no simulated A/B test a loss with p <= {LEVEL}, clustered by member",
        tuple(parts),
    )


def _order(results: dict[str, Any]) -> Claim:
    parts = []
    for metric in METRICS:
        found = [part["EOpp_against_EOdds"][metric] for part in results["experiment"]["replicates"]]
        ahead = all(part["p_value"] <= LEVEL and part["lift"] > 0 for part in found)
        text = f"EOpp against EOdds, {metric}: {_told(found)}"
        parts.append(Part(text, ahead if metric.endswith("IM") else None))
    return Claim("n3", "EOpp gains IM more than EOdds does", "Table of A/B results", TEST_RULE, tuple(parts))


def _change(results: dict[str, Any], world: str, measure: str) -> tuple[Estimate, Estimate, Estimate]:
    steps = results["feedback"]["worlds"][world][measure]
    first, last = (np.array(steps[place]["replicates"]) for place in (0, -1))
    return estimate(first.tolist()), estimate(last.tolist()), estimate((last - first).tolist())


def _richer(results: dict[str, Any]) -> Claim:
    parts = []
    for world in ("none", "none, fair start"):
        for measure, name in (("exposure", "exposure"), ("sent", "invitations")):
            first, last, change = _change(results, world, measure)
            text = (
                f"{world}: IM's share of {name} {first.mean:.3f} in week 0, {last.mean:.3f} in week "
                f"{results['feedback']['weeks'][-1]}, change {change.mean:+.3f} ± {change.reach:.3f}"
            )
            parts.append(Part(text, change.high < 0))
    parts.append(Part("fair start: history was ranked by signal alone, not by activity"))
    ideal = results["feedback"]["ideal"]
    parts.append(
        Part(
            f"ranked by the true probability IM would have {ideal['exposure']['mean']:.3f} of exposure "
            f"and {ideal['sent']['mean']:.3f} of invitations"
        )
    )
    return Claim(
        "n4",
        "the model, retrained on its own logs, takes more and more from IM (the rich get richer)",
        "Social Network Application, motivation",
        WEEKS_RULE,
        tuple(parts),
    )


def _stopped(results: dict[str, Any]) -> Claim:
    worlds = results["feedback"]["worlds"]
    parts = []
    for arm in CRITERIA:
        for measure, name in (("exposure", "share of exposure"), ("sent", "share of invitations")):
            gaps = [
                estimate((np.array(one["replicates"]) - np.array(other["replicates"])).tolist())
                for one, other in zip(worlds[arm][measure][1:], worlds["none"][measure][1:], strict=True)
            ]
            ends = [worlds[world][measure][-1]["mean"] for world in (arm, "none")]
            least = min(gaps, key=lambda gap: gap.low)
            text = (
                f"{arm}: IM's {name} in the last week {ends[0]:.3f} against {ends[1]:.3f} without; the "
                f"difference in the least certain week {least.mean:+.3f} ± {least.reach:.3f}"
            )
            parts.append(Part(text, least.low > 0))
        for measure, name in (
            ("parity", "exposure of qualified IM over that of qualified FM"),
            ("sent_per_list", "invitations a list"),
        ):
            ends = [estimate(worlds[world][measure][-1]["replicates"]).mean for world in (arm, "none")]
            parts.append(Part(f"{arm}: {name} in the last week {ends[0]:.3f}, without {ends[1]:.3f}"))
    return Claim(
        "n5",
        "the reranker keeps IM above what they get without it, week after week",
        "Social Network Application, motivation",
        WEEKS_RULE,
        tuple(parts),
    )
