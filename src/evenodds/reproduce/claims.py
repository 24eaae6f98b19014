"""The paper's claims, each decided by a stated rule from the measured numbers, not by eye."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from evenodds.reproduce.measure import Estimate, estimate

LIMIT = 0.01
NAMES = {
    "observed 0": "observed negatives",
    "observed 1": "observed positives",
    "merit 0": "merit negatives",
    "merit 1": "merit positives",
}
ZERO_RULE = (
    f"zero: the 95 % interval of the mean over replicates (Student's t) ends less than {LIMIT} above what "
    "sampling alone leads to; falls: no step of alpha at which the paired difference is above 0 with 95 %"
)
PAIRED_RULE = "every paired difference has the claim's sign with its whole 95 % interval (Student's t)"


@dataclass(frozen=True)
class Part:
    """One thing measured; `holds` is None where it is told but decides nothing."""

    text: str
    holds: bool | None = None


@dataclass(frozen=True)
class Claim:
    """A claim, the rule that decides it, and the numbers."""

    key: str
    text: str
    source: str
    rule: str
    parts: tuple[Part, ...]

    @property
    def holds(self) -> bool:
        """Whether every part that decides holds."""
        return all(part.holds for part in self.parts if part.holds is not None)

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON values."""
        return {**asdict(self), "parts": [asdict(part) for part in self.parts], "holds": self.holds}

    def __str__(self) -> str:
        lines = [f"({self.key}) {self.text}: {verdict(self.holds)}"]
        lines += [f"    {verdict(part.holds):<13}  {part.text}" for part in self.parts]
        return "\n".join(lines)


def verdict(holds: bool | None) -> str:
    """Put a decision in words.

    >>> verdict(True), verdict(False), verdict(None)
    ('holds', 'does not hold', 'note')
    """
    return "note" if holds is None else ("holds" if holds else "does not hold")


def decide(results: dict[str, Any]) -> list[Claim]:
    """Decide every claim of the simulation study from what `run_paper` measured."""
    return [
        _falls_to_zero(results),
        _below(results),
        _performs_better(results),
        _performance_rises(results),
        _both_labels(results, "merit"),
        _both_labels(results, "observed"),
        _drifts_low(results),
        _insensitive(results),
    ]


def _unfairness(results: dict[str, Any], name: str, key: str) -> list[list[float]]:
    return [step["replicates"] for step in results["tradeoff"][name]["unfairness"][key]]


def _performance(results: dict[str, Any], name: str) -> list[list[float]]:
    return [step["replicates"] for step in results["tradeoff"][name]["performance"]]


def _paired(one: Sequence[float], other: Sequence[float]) -> Estimate:
    return estimate((np.asarray(one) - np.asarray(other)).tolist())


def is_zero(values: Sequence[float], noise: float) -> bool:
    """Whether a distance is zero for practical purposes, by ZERO_RULE."""
    return estimate(values).high - noise < LIMIT


def _end(values: Sequence[float], noise: float) -> str:
    if is_zero(values, noise):
        return "zero"
    return "not zero" if estimate(values).low - noise >= LIMIT else "too few replicates to tell it from zero"


def rising_steps(series: Sequence[Sequence[float]]) -> list[int]:
    """Return the steps at which a series over alpha rises beyond doubt."""
    return [step for step in range(1, len(series)) if _paired(series[step], series[step - 1]).low > 0]


def _at(values: Sequence[float]) -> str:
    found = estimate(values)
    return f"{found.mean:.4f} ± {found.reach:.4f}" if np.isfinite(found.reach) else f"{found.mean:.4f}"


def _to_zero(results: dict[str, Any], name: str, key: str, *, expected: bool = True) -> Part:
    series, noise = _unfairness(results, name, key), results["noise"][key]
    rises = [results["size"]["alphas"][step] for step in rising_steps(series)]
    zero = is_zero(series[-1], noise)
    shape = "falls all the way" if not rises else f"rises at alpha = {', '.join(map(str, rises))}"
    end = _end(series[-1], noise)
    text = (
        f"{name}, {NAMES[key]}: {estimate(series[0]).mean:.4f} at alpha 0, {_at(series[-1])} at 1 "
        f"(sampling alone {noise:.4f}): {shape}, {end}"
    )
    return Part(text if expected else f"{text}, as the paper expects", (zero and not rises) == expected)


def _falls_to_zero(results: dict[str, Any]) -> Claim:
    parts = [
        _to_zero(results, name, f"{kind} {label}", expected=(name, label) != ("EOpp", 0))
        for kind in ("observed", "merit")
        for name in ("EOpp", "EOdds")
        for label in (1, 0)
    ]
    return Claim(
        "a",
        "unfairness falls to zero as alpha grows, except EOpp's among negatives",
        "Simulation Study, observation 1",
        ZERO_RULE,
        tuple(parts),
    )


def _by_alpha(
    results: dict[str, Any],
    lower: list[list[float]],
    higher: list[list[float]],
    least: float,
    *,
    digits: int = 4,
) -> Part:
    """Decide that one series lies below another at every alpha from `least` on."""
    alphas = results["size"]["alphas"]
    asked = [step for step, alpha in enumerate(alphas) if alpha >= least and alpha > 0]
    gaps = {alphas[step]: _paired(higher[step], lower[step]) for step in asked}
    sure = {alpha: gap for alpha, gap in gaps.items() if gap.low > 0}
    told = [f"{alpha}: {_signed(gap, digits)}" for alpha, gap in gaps.items() if alpha not in sure]
    text = f"not at alpha {', '.join(told)}" if told else "at every alpha"
    if sure:
        ends = (choose(sure, key=lambda alpha: sure[alpha].mean) for choose in (min, max))
        span = " to ".join(f"{_signed(sure[alpha], digits)} (alpha {alpha})" for alpha in ends)
        text = f"{span} {text}" if not told else f"{span}; {text}"
    return Part(text, not told)


def _signed(gap: Estimate, digits: int = 4) -> str:
    return f"{gap.mean:+.{digits}f} ± {gap.reach:.{digits}f}"


def _below(results: dict[str, Any]) -> Claim:
    parts = []
    for key in ("observed 1", "merit 1"):
        one, other = (_unfairness(results, name, key) for name in ("EOpp", "EOdds"))
        part = _by_alpha(results, one, other, 0.0)
        parts.append(Part(f"{NAMES[key]}, EOdds less EOpp: {part.text}", part.holds))
        both = [is_zero(series[-1], results["noise"][key]) for series in (one, other)]
        at_one = f"{_at(one[-1])} (EOpp) and {_at(other[-1])} (EOdds)"
        ends = "both zero by the rule of (a): neither can be below" if all(both) else "not both zero"
        parts.append(Part(f"{NAMES[key]} at alpha 1: {at_one}, {ends}"))
    parts.append(Part("alpha 0 is left out: both are the old score there"))
    return Claim(
        "b",
        "EOpp's unfairness among positives is below EOdds's at every alpha",
        "Simulation Study, observation 2",
        PAIRED_RULE,
        tuple(parts),
    )


def _performs_better(results: dict[str, Any]) -> Claim:
    one, other = (_performance(results, name) for name in ("EOdds", "EOpp"))
    part = _by_alpha(results, one, other, 0.4, digits=5)
    small = _by_alpha(results, one, other, 0.0, digits=5)
    return Claim(
        "c",
        "EOpp's performance (share of positives) is higher than EOdds's for alpha of 0.4 and more",
        "Simulation Study, observation 2",
        PAIRED_RULE,
        (Part(f"EOpp less EOdds: {part.text}", part.holds), Part(f"over all alpha: {small.text}")),
    )


def _performance_rises(results: dict[str, Any]) -> Claim:
    series = _performance(results, "EOpp")
    alphas = results["size"]["alphas"]
    fails = [
        alphas[step] for step in range(1, len(series)) if not _paired(series[step], series[step - 1]).low > 0
    ]
    told = ", ".join(
        f"{alpha}: {estimate(values).mean:.4f}" for alpha, values in zip(alphas, series, strict=True)
    )
    where = f"; no certain rise to alpha = {', '.join(map(str, fails))}" if fails else ""
    gain = _paired(series[-1], series[0])
    odds = _performance(results, "EOdds")
    best = int(np.argmax([estimate(values).mean for values in odds]))
    last = _paired(odds[-1], odds[0])
    return Claim(
        "d",
        "EOpp's performance rises with alpha",
        "Simulation Study, observation 3",
        PAIRED_RULE,
        (
            Part(f"by alpha {told}{where}", not fails),
            Part(f"from alpha 0 to 1 the share of positives changes by {_signed(gain, 5)}"),
            Part(
                f"EOdds's is highest at alpha = {alphas[best]} and changes by {_signed(last, 5)} from 0 to 1"
            ),
        ),
    )


def _zero_at_one(results: dict[str, Any], name: str, key: str, *, decides: bool) -> Part:
    before, *_, after = _unfairness(results, name, key)
    noise = results["noise"][key]
    zero = is_zero(after, noise)
    text = (
        f"{name}, {NAMES[key]}: {estimate(before).mean:.4f} before, {_at(after)} after "
        f"(sampling alone {noise:.4f}): {_end(after, noise)}"
    )
    return Part(text, zero if decides else None)


def _both_labels(results: dict[str, Any], kind: str) -> Claim:
    parts = [_zero_at_one(results, "EOdds", f"{kind} {label}", decides=True) for label in (1, 0)]
    if kind == "merit":
        return Claim(
            "e",
            "EOdds gives the groups one score distribution for positives and one for negatives (merit labels)",
            "Simulation Study, results; Theorem on EOdds",
            ZERO_RULE,
            tuple(parts),
        )
    parts += [
        Part(
            "why: the proof of the theorem on EOdds with position bias covers y = 1 only; observed negatives "
            "mix true negatives with positives that nobody looked at, in shares that differ by group"
        ),
        *(
            _zero_at_one(results, "EOdds observed", key, decides=False)
            for key in ("observed 1", "observed 0", "merit 1", "merit 0")
        ),
    ]
    return Claim(
        "f",
        "EOdds does the same for observed labels, drawn at the new positions",
        "Tackling Position Bias for Equalized Odds, theorem; figure of the score distributions",
        ZERO_RULE,
        tuple(parts),
    )


def _drifts_low(results: dict[str, Any]) -> Claim:
    bias = results["position_bias"]
    truth = np.log(np.array(bias["truth"]))
    parts = []
    for method in ("adjacent", "adjacent, 4000 cells", "joint"):
        # Past T = 30 the estimator holds its last weight on purpose; that is no drift.
        errors = np.log(np.array([step["replicates"] for step in bias[method]]))[1:30] - truth[1:30, None]
        drift, size = estimate(errors.mean(axis=0).tolist()), float(np.abs(errors).mean())
        text = (
            f"{method}: mean error of log w over positions 2 to 30 {_signed(drift)}, "
            f"mean absolute error {size:.4f}"
        )
        parts.append(Part(text, drift.high < 0 if method != "joint" else None))
    return Claim(
        "g",
        "the adjacent-pair estimator (T = 30) underestimates the position bias weights",
        "Appendix, Position Bias Estimation",
        "the whole 95 % interval of the mean error lies below 0",
        tuple(parts),
    )


def _insensitive(results: dict[str, Any]) -> Claim:
    ways = results["by_position_bias"]
    parts = []
    for way in ("adjacent", "joint"):
        for name in ("EOpp", "EOdds"):
            for key in ("observed 1", "merit 1"):
                one, truth = (ways[used][name][key]["replicates"] for used in (way, "truth"))
                gap = _paired(one, truth)
                text = f"{name}, {NAMES[key]} at alpha 1: {_at(one)} with w by {way}, {_at(truth)} with the true w"
                parts.append(Part(text, gap.high < LIMIT if way == "adjacent" else None))
    return Claim(
        "h",
        "the mitigation is insensitive to errors of the estimated position bias (adjacent pairs)",
        "Appendix, Position Bias Estimation",
        f"the 95 % interval of the paired difference to the true w ends below {LIMIT}",
        tuple(parts),
    )
