import copy

import numpy as np
import pytest

from evenodds.reproduce.claims import decide

ALPHAS = [0.0, 0.5, 1.0]
JITTER = np.array([-0.001, 0.0, 0.001, 0.0])


def steps(*means):
    return [{"mean": mean, "sd": 0.001, "replicates": (mean + JITTER).tolist()} for mean in means]


def curve(*, negatives=(0.7, 0.4, 0.003), positives=(0.6, 0.3, 0.003), performance=(0.10, 0.11, 0.12)):
    unfairness = {f"{kind} 0": steps(*negatives) for kind in ("observed", "merit")}
    unfairness |= {f"{kind} 1": steps(*positives) for kind in ("observed", "merit")}
    return {"unfairness": unfairness, "performance": steps(*performance)}


@pytest.fixture
def agreeing():
    """Results in which every claim of the paper holds."""
    truth = [1.0, *[0.5] * 49]
    low = [{**part, "mean": part["mean"]} for part in steps(1.0, *[0.49] * 49)]
    odds = curve(positives=(0.6, 0.4, 0.009), performance=(0.10, 0.105, 0.101))
    way = {key: steps(0.003)[0] for key in ("observed 0", "observed 1", "merit 0", "merit 1")}
    return {
        "size": {"alphas": ALPHAS},
        "noise": dict.fromkeys(way, 0.002),
        "tradeoff": {
            "EOpp": curve(negatives=(0.7, 0.4, 0.2)),
            "EOdds": odds,
            "EOdds observed": copy.deepcopy(odds),
        },
        "position_bias": {
            "truth": truth,
            "adjacent": low,
            "adjacent, 4000 cells": low,
            "joint": steps(*truth),
        },
        "by_position_bias": {used: {"EOpp": way, "EOdds": way} for used in ("joint", "adjacent", "truth")},
    }


def holding(results):
    return {claim.key: claim.holds for claim in decide(results)}


def test_claims_that_agree_with_the_numbers_hold(agreeing):
    """On numbers made up to agree with the paper every claim holds."""
    assert holding(agreeing) == dict.fromkeys("abcdefgh", True)


@pytest.mark.parametrize(
    ("name", "key", "values", "broken"),
    [
        ("EOdds", "observed 0", (0.7, 0.4, 0.04), {"a", "f"}),
        ("EOdds", "merit 0", (0.7, 0.4, 0.04), {"a", "e"}),
        ("EOpp", "merit 1", (0.6, 0.7, 0.003), {"a", "b"}),
        ("EOpp", "observed 0", (0.7, 0.4, 0.003), {"a"}),
        ("EOdds", "observed 1", (0.6, 0.2, 0.009), {"b"}),
    ],
)
def test_a_number_against_a_claim_breaks_that_claim_only(agreeing, name, key, values, broken):
    """One distance out of place: the claims about it fail, the others stand."""
    agreeing["tradeoff"][name]["unfairness"][key] = steps(*values)
    assert {letter for letter, holds in holding(agreeing).items() if not holds} == broken


@pytest.mark.parametrize(("values", "broken"), [((0.10, 0.12, 0.11), {"d"}), ((0.10, 0.103, 0.12), {"c"})])
def test_performance_is_judged_by_its_own_claims(agreeing, values, broken):
    """A fall breaks the rise; less than EOdds breaks the comparison."""
    agreeing["tradeoff"]["EOpp"]["performance"] = steps(*values)
    assert {letter for letter, holds in holding(agreeing).items() if not holds} == broken


def test_a_difference_within_its_error_does_not_hold(agreeing):
    """A rise smaller than its error over replicates is not taken for one."""
    rising = agreeing["tradeoff"]["EOpp"]["performance"]
    rising[2]["replicates"] = (0.1101 + np.array([0.01, -0.01, 0.01, -0.01])).tolist()
    assert not holding(agreeing)["d"]


def test_a_failing_claim_is_printed_as_failing_with_its_number(agreeing):
    """The finding on observed negatives is told with the distance that is left."""
    agreeing["tradeoff"]["EOdds"]["unfairness"]["observed 0"] = steps(0.7, 0.4, 0.04)
    told = "\n".join(map(str, decide(agreeing)))
    (line,) = [line for line in told.splitlines() if line.startswith("(f)")]
    assert line.endswith(": does not hold")
    assert "does not hold  EOdds, observed negatives: 0.7000 before, 0.0400" in told
    assert "covers y = 1 only" in told


def test_too_few_replicates_are_said_to_be_too_few(agreeing):
    """A wide interval across the limit does not hold, and is not called a contradiction."""
    wide = (0.008 + 20 * JITTER).tolist()
    agreeing["tradeoff"]["EOdds"]["unfairness"]["merit 0"][2]["replicates"] = wide
    told = next(str(claim) for claim in decide(agreeing) if claim.key == "e")
    assert "too few replicates" in told
    assert "does not hold" in told
