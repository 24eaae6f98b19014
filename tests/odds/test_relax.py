import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse

from evenodds.errors import SettingsError
from evenodds.odds import lp, movement, relax
from evenodds.odds.movement import solve_movement
from evenodds.odds.problem import Kernel, OddsProblem
from oracles.odds_lp import KINDS, least_movement, random_bins

CHOICES = [0.0, 0.01, 0.1, 0.5, 2.0, math.inf]
ORDINARY = [kind for kind in KINDS if kind not in {"thin bins", "thin labels", "nearly identical"}]


def random_epsilon(seed, labels):
    return np.random.default_rng([seed, 99]).choice(CHOICES, labels).tolist()


def worst_ratio(images, label):
    """Return the largest log ratio of two groups' cumulative images at any bin edge."""
    below = images[:, label].cumsum(axis=1)
    worst = 0.0
    for one, other in itertools.permutations(below, 2):
        inhabited = one > 1e-7
        worst = max(worst, np.log(one[inhabited] / np.maximum(other[inhabited], 1e-300)).max())
    return worst


def both_relaxed(problem, epsilon):
    return relax.Agreement((epsilon, epsilon), problem.groups, problem.bins)


@pytest.mark.parametrize("kind", ORDINARY)
def test_a_few_bins_reach_the_optimum_of_the_obvious_program(kind):
    """With epsilons of every kind mixed, the movement is that of linprog on all pairs of groups."""
    for seed in range(10):
        labels = 1 + seed % 3
        problem = random_bins(kind, seed, 1 + seed % 7, 2 + seed % 3, labels)
        epsilon = random_epsilon(seed, labels)
        solution = solve_movement(problem, epsilon=epsilon)
        assert solution.objective == pytest.approx(least_movement(problem, epsilon), abs=1e-9)
        assert solution.certified


@pytest.mark.parametrize("kind", KINDS)
def test_ratios_stay_within_epsilon_after_cleaning(kind):
    """Recomputed from the stored kernel, constraints hold to 1e-9 and log ratios to 1e-6."""
    for seed in range(8):
        problem = random_bins(kind, seed, 2 + seed, 2 + seed % 3, 2)
        epsilon = random_epsilon(seed, 2)
        solution = solve_movement(problem, epsilon=epsilon)
        images = np.stack(
            [given @ rows for given, rows in zip(problem.given, solution.kernel.rows, strict=True)]
        )
        assert solution.images == pytest.approx(images, abs=1e-15)
        assert solution.breach <= 1e-9
        for label, bound in enumerate(epsilon):
            if bound == 0.0:
                assert np.abs(images[:, label] - images[0, label]).max() <= 1e-9
            elif bound < math.inf:
                assert worst_ratio(images, label) <= bound + 1e-6
        for rows in solution.kernel.rows:
            assert np.abs(rows.sum(axis=1) - 1.0).max() <= 1e-12
            assert rows.data.min() >= 0.0


@pytest.mark.parametrize("groups", [2, 3])
def test_epsilon_zero_is_strict_equalized_odds(groups):
    """Zeros agree with no epsilon to 1e-7, and the ratio program at 2e-6 comes within 1e-4 of both."""
    problem = random_bins("plain", 5, 30, groups, 2)
    strict = solve_movement(problem).objective
    assert solve_movement(problem, epsilon=(0.0, 0.0)).objective == pytest.approx(strict, rel=1e-7)
    nearly = solve_movement(problem, epsilon=(2e-6, 2e-6)).objective
    assert strict * (1 - 1e-4) <= nearly < strict


def test_movement_falls_as_epsilon_grows():
    """A looser bound never costs more, and here each step saves something."""
    problem = random_bins("plain", 6, 20, 3, 2)
    found = [solve_movement(problem, epsilon=(e, e)).objective for e in (0.0, 0.05, 0.2, 0.8, math.inf)]
    assert all(tight > loose * (1 + 1e-6) for tight, loose in itertools.pairwise(found))


def test_no_bounds_leave_every_bin_at_its_cheapest_move():
    """With infinite epsilons nothing binds: each bin makes its cheapest move, and nothing is solved."""
    problem = random_bins("any cost", 1, 12, 2, 2)
    solution = solve_movement(problem, epsilon=(math.inf, math.inf))
    assert solution.method == "unmoved"
    assert solution.certified
    for rows in solution.kernel.rows:
        assert np.array_equal(rows.toarray().argmax(axis=1), problem.cost.argmin(axis=1))


def test_an_infinite_epsilon_drops_its_label():
    """(inf, 0) is equality of opportunity: label 1 agrees exactly, label 0 need not, at less movement."""
    problem = random_bins("plain", 2, 20, 3, 2)
    solution = solve_movement(problem, epsilon=(math.inf, 0.0))
    apart = np.abs(solution.images - solution.images[0]).max(axis=(0, 2))
    assert apart[1] <= 1e-9
    assert apart[0] > 0.01
    assert solution.objective < solve_movement(problem).objective


def test_the_target_is_the_mean_image_weighted_by_visits():
    """Where images differ the stored target is their mean over impressions."""
    problem = random_bins("plain", 3, 10, 3, 2)
    solution = solve_movement(problem, epsilon=(0.5, 0.5))
    share = problem.visits.sum(axis=1)
    expected = sum(weight * image for weight, image in zip(share, solution.images, strict=True))
    assert np.abs(solution.images - solution.images[0]).max() > 1e-3
    assert solution.kernel.target == pytest.approx(expected, abs=1e-12)


def test_any_duals_bound_the_optimum_from_below():
    """Random duals of the ratio constraints, of either sign, still give a valid bound."""
    rng = np.random.default_rng(0)
    for seed in range(20):
        problem = random_bins("plain", seed, 2 + seed % 5, 2 + seed % 3, 2)
        agreement = relax.Agreement((0.3, 0.0), problem.groups, problem.bins)
        program = agreement.program(lp.sides_of(problem), [np.arange(0)] * problem.groups)
        size = program.row_lower.size - problem.groups * problem.bins
        bound = agreement.bound(lp.sides_of(problem), rng.normal(0.0, 0.2, size))
        assert bound <= least_movement(problem, (0.3, 0.0)) + 1e-12


def test_duals_of_the_wrong_sign_are_not_believed():
    """Turned about, the inequalities cost more; the duals that prove it prove nothing of the program."""
    problem = random_bins("plain", 3, 6, 2, 2)
    agreement, sides = both_relaxed(problem, 0.1), lp.sides_of(problem)
    program = agreement.program(sides, [movement._columns_of(side) for side in sides])
    open_above = np.isinf(program.row_upper)
    turned = replace(
        program,
        row_lower=np.where(open_above, -np.inf, program.row_lower),
        row_upper=np.where(open_above, 0.0, program.row_upper),
    )
    answer = lp.solve_with_highs(turned, deadline=np.inf)
    optimum = least_movement(problem, (0.1, 0.1))
    assert float(program.cost @ answer.values) / 6 > 1.1 * optimum
    assert agreement.bound(sides, answer.duals[12:]) <= optimum


@pytest.mark.parametrize("epsilon", [(0.1, 0.3), (0.0, 0.2), (0.0, 0.0)])
def test_duals_carried_to_finer_bins_lose_nothing(epsilon):
    """Bins cut in equal halves change no optimum, and the coarse duals, carried over, prove it at once."""
    coarse = random_bins("plain", 8, 7, 3, 2)
    halves = np.repeat(np.repeat(coarse.cost, 2, axis=0), 2, axis=1)
    fine = OddsProblem(
        np.repeat(coarse.given, 2, axis=2) / 2, np.repeat(coarse.visits, 2, axis=1) / 2, halves
    )
    agreement, finer = relax.Agreement(epsilon, 3, 7), relax.Agreement(epsilon, 3, 14)
    _, duals = movement._whole(agreement, coarse, np.inf)
    bound = finer.bound(lp.sides_of(fine), agreement.carry(duals, finer))
    assert bound == pytest.approx(least_movement(coarse, epsilon), rel=1e-9)


def test_fine_bins_end_with_a_certified_gap(monkeypatch):
    """Too large for HiGHS at once, the relaxed program is priced from coarse bins to fine."""
    problem = random_bins("plain", 4, 48, 2, 2)
    whole = solve_movement(problem, epsilon=(0.2, 0.1))
    monkeypatch.setattr(movement, "RELAXED", 4_000)
    monkeypatch.setattr(movement, "EXACT", 4_000)
    solution = solve_movement(problem, epsilon=(0.2, 0.1), gap=1e-3)
    assert (whole.method, solution.method) == ("whole", "refined")
    assert solution.certified
    assert solution.breach <= 1e-9
    assert solution.bound <= whole.objective * (1 + 1e-9)
    assert whole.objective * (1 - 1e-9) <= solution.objective <= whole.objective * (1 + 1e-3)


def test_ratios_out_of_bounds_are_lifted_into_them():
    """A kernel that breaks its ratios is mended with the least share of "everyone to the first bin"."""
    problem = random_bins("plain", 7, 8, 3, 2)
    agreement = both_relaxed(problem, 0.2)
    unmoved = (sparse.csr_array(np.eye(8)),) * 3
    assert agreement.breach(relax.images_of(problem, unmoved)) > 0.05
    images = relax.images_of(problem, relax.settle(problem, agreement, unmoved))
    assert max(worst_ratio(images, label) for label in (0, 1)) == pytest.approx(0.2, abs=1e-9)


def test_a_large_epsilon_has_no_overflow():
    """An epsilon of 800, whose exponential no float holds, asks for next to nothing."""
    problem = random_bins("plain", 9, 10, 2, 2)
    solution = solve_movement(problem, epsilon=(800.0, 800.0))
    stay = Kernel((sparse.csr_array(np.eye(10)),) * 2, solution.kernel.target)
    assert solution.objective == pytest.approx(stay.movement(problem), abs=1e-9)
    assert solution.certified


@pytest.mark.parametrize(
    ("epsilon", "message"),
    [
        ((0.1,), "epsilon has 1 values, expected 2"),
        ((0.1, 0.1, 0.1), "epsilon has 3 values, expected 2"),
        ((0.1, -1e-9), "epsilon of label 1 is -1e-09, expected a number of at least 0"),
        ((math.nan, 0.1), "epsilon of label 0 is nan, expected a number of at least 0"),
    ],
)
def test_epsilons_that_mean_nothing_are_refused(epsilon, message):
    """Too few, too many, negative and missing epsilons are named."""
    with pytest.raises(SettingsError, match=message):
        solve_movement(random_bins("plain", 0, 3, 2, 2), epsilon=epsilon)
