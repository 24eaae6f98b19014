import highspy
import numpy as np
import pytest
from scipy import sparse

from evenodds.errors import EvenoddsError, SettingsError, TallyError
from evenodds.odds import lp, movement, relax
from evenodds.odds.movement import solve_movement
from evenodds.odds.problem import Kernel, OddsProblem
from oracles.odds_lp import KINDS, least_movement, line_cost, paper_bins, random_bins, shifted_groups

STRICT = (0.0, 0.0)
EXTREME = {"thin bins", "thin labels", "nearly identical"}  # linprog itself errs there


def whole_optimum(problem):
    agreement = relax.Agreement((0.0,) * problem.labels, problem.groups, problem.bins)
    rows, _ = movement._whole(agreement, problem, np.inf)
    return Kernel(rows, problem.given[0]).movement(problem)


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind not in EXTREME])
def test_a_few_bins_reach_the_optimum_of_the_obvious_program(kind):
    """The movement is that of linprog on dense p, to 1e-9, and is certified."""
    for seed in range(8):
        problem = random_bins(kind, seed, 1 + seed % 7, 2 + seed % 3, 1 + seed % 3)
        solution = solve_movement(problem)
        assert solution.objective == pytest.approx(least_movement(problem), abs=1e-9)
        assert solution.certified


@pytest.mark.parametrize("kind", KINDS)
def test_every_stored_kernel_satisfies_its_constraints(kind):
    """Row sums, images and signs are right to 1e-9 after rounding, however thin or empty the bins."""
    for seed in range(9):
        problem = random_bins(kind, seed, 2 + seed, 2 + seed % 3, 1 + seed % 3)
        solution = solve_movement(problem)
        assert solution.kernel.residual(problem) <= 1e-9
        assert solution.objective == pytest.approx(solution.kernel.movement(problem), abs=1e-12)
        assert solution.bound <= solution.objective + 1e-9


@pytest.mark.parametrize("kind", ["plain", "counts", "empty bins", "thin bins", "one point", "any cost"])
def test_refined_kernels_satisfy_their_constraints_and_their_gap(kind):
    """From coarse bins to fine: constraints hold to 1e-9, and the whole optimum lies within the gap."""
    problem = random_bins(kind, 0, 72, 3, 2)
    rows, duals = movement._refined(movement._thicken(problem), relax.Agreement(STRICT, 3, 72), 1e-4, np.inf)
    agreement = relax.Agreement(STRICT, 3, 72)
    settled = relax.settle(problem, agreement, rows)
    kernel = Kernel(settled, relax.images_of(problem, settled)[0])
    bound, optimum = agreement.bound(lp.sides_of(problem), duals), whole_optimum(problem)
    assert kernel.residual(problem) <= 1e-9
    assert bound <= optimum * (1 + 1e-9)
    assert optimum * (1 - 1e-7) <= kernel.movement(problem) <= optimum * (1 + 1e-3)


def test_a_hundred_bins_reach_the_whole_optimum_to_seven_digits():
    """On the paper's simulation at K = 100 the movement is that of the whole program, to 1e-7."""
    problem = paper_bins(100)
    solution = solve_movement(problem)
    assert solution.objective == pytest.approx(whole_optimum(problem), rel=1e-7)
    assert solution.gap <= 1e-7
    assert solution.kernel.residual(problem) <= 1e-9


def test_a_hundred_bins_fall_back_to_the_whole_program(monkeypatch):
    """Where pricing cannot prove seven digits, the whole program is solved instead."""
    problem = paper_bins(80)
    monkeypatch.setattr(movement, "ROUNDS", 0)
    solution = solve_movement(problem)
    assert solution.method == "whole"
    assert solution.gap <= 1e-9


def test_a_whole_program_out_of_time_leaves_the_priced_kernel(monkeypatch):
    """Where pricing fell short and time ends during the whole program, the priced kernel is returned."""
    problem, solve = paper_bins(80), movement._solve

    def no_time_for_the_whole(agreement, sides, columns, deadline):
        whole = sum(moves.size for moves in columns) == sum(side.costs.size for side in sides)
        return None if whole and agreement.bins == 80 else solve(agreement, sides, columns, deadline)

    monkeypatch.setattr(movement, "_solve", no_time_for_the_whole)
    monkeypatch.setattr(movement, "ROUNDS", 1)
    monkeypatch.setattr(movement, "NEAR", 1)
    monkeypatch.setattr(movement, "FACE", 0)
    solution = solve_movement(problem)
    assert solution.method == "refined"
    assert solution.gap > 5e-8
    assert solution.kernel.residual(problem) <= 1e-9


def test_fine_bins_end_with_a_certified_gap():
    """Above 20,000 columns the gap asked for is reached, and the whole optimum lies inside it."""
    problem = paper_bins(130)
    solution = solve_movement(problem, gap=1e-3)
    optimum = whole_optimum(problem)
    assert solution.method == "refined"
    assert solution.certified
    assert solution.gap <= 1e-3
    assert solution.bound <= optimum * (1 + 1e-9)
    assert optimum * (1 - 1e-9) <= solution.objective <= optimum * (1 + 1e-3)
    assert solution.kernel.residual(problem) <= 1e-9


def test_many_groups_and_labels_end_with_a_certified_gap():
    """Eight groups and four labels at 54 bins: certified, and exact constraints."""
    problem = shifted_groups(54, 8, 4)
    solution = solve_movement(problem, gap=1e-3)
    assert solution.method == "refined"
    assert solution.certified
    assert solution.kernel.residual(problem) <= 1e-9


def test_a_refined_kernel_is_sparse():
    """It has fewer entries than twice the constraints, not one for every pair of bins."""
    rows = solve_movement(paper_bins(110), gap=1e-3).kernel.rows
    assert sum(matrix.nnz for matrix in rows) < 2 * 4 * 110


def test_the_same_bins_give_the_same_kernel():
    """Two runs agree to the last bit."""
    problem = paper_bins(104)
    first, second = (solve_movement(problem, gap=1e-3).kernel for _ in range(2))
    for one, other in zip(first.rows, second.rows, strict=True):
        assert np.array_equal(one.toarray(), other.toarray())


def test_any_prices_bound_the_optimum_from_below():
    """Random duals, which satisfy nothing, still give a bound that the optimum respects."""
    rng = np.random.default_rng(0)
    for seed in range(20):
        problem = random_bins("plain", seed, 2 + seed % 5, 2 + seed % 3, 2)
        agreement = relax.Agreement(STRICT, problem.groups, problem.bins)
        prices = rng.normal(0.0, 0.3, problem.given.shape)
        bound = agreement.bound(lp.sides_of(problem), agreement.duals_of(prices))
        assert bound <= least_movement(problem) + 1e-12


@pytest.mark.parametrize("groups", [2, 4])
def test_interior_prices_bound_within_the_gap_asked_for(groups):
    """The interior point method's prices give a lower bound within 1e-6 of the whole optimum."""
    problem = shifted_groups(30, groups, 2)
    agreement = relax.Agreement(STRICT, groups, 30)
    sides = lp.sides_of(problem)
    prices, _ = lp.interior_prices(sides, gap=1e-6, deadline=np.inf)
    optimum = whole_optimum(problem)
    bound = agreement.bound(sides, agreement.duals_of(prices))
    assert optimum * (1 - 1e-6) <= bound <= optimum * (1 + 1e-9)


def test_interior_prices_survive_bins_that_they_cannot_solve():
    """Bins fourteen orders of magnitude apart give finite prices and a valid bound."""
    problem = random_bins("thin labels", 1, 12, 3, 3)
    sides = lp.sides_of(problem)
    prices, _ = lp.interior_prices(sides, gap=1e-9, deadline=np.inf)
    agreement = relax.Agreement((0.0,) * 3, 3, 12)
    assert agreement.bound(sides, agreement.duals_of(prices)) <= solve_movement(problem).objective + 1e-9


def test_identical_groups_stay_where_they_are():
    """Groups with equal distributions get the identity, at the cost of redrawing within bins."""
    given = np.random.default_rng(1).dirichlet(np.ones(150), (1, 2)).repeat(3, axis=0)
    solution = solve_movement(OddsProblem(given, given.sum(axis=1) / 6, line_cost(150)))
    for rows in solution.kernel.rows:
        assert np.array_equal(rows.toarray(), np.eye(150))
    assert solution.method == "unmoved"
    assert solution.certified
    assert solution.objective == pytest.approx(1 / 450)


def test_one_bin_needs_no_moves():
    """With K = 1 the kernel is the identity."""
    solution = solve_movement(OddsProblem(np.ones((3, 2, 1)), np.full((3, 1), 1 / 3), np.zeros((1, 1))))
    assert [rows.toarray().item() for rows in solution.kernel.rows] == [1.0, 1.0, 1.0]
    assert solution.certified


def test_all_mass_in_one_bin_stays_there():
    """When every group sits in one bin nothing moves, and the empty bins move as that bin does."""
    given = np.zeros((2, 2, 5))
    given[:, :, 3] = 1.0
    solution = solve_movement(OddsProblem(given, given.sum(axis=1) / 4, line_cost(5)))
    for rows in solution.kernel.rows:
        assert np.array_equal(rows.toarray(), np.eye(5)[[3] * 5])


def test_a_group_in_one_bin_drags_the_others_to_equal_labels():
    """A group whose labels cannot be told apart forces both labels of all groups onto one distribution."""
    given = np.array([[[0.0, 1.0, 0.0]] * 2, [[0.6, 0.3, 0.1], [0.1, 0.3, 0.6]]])
    problem = OddsProblem(given, given.sum(axis=1) / 4, line_cost(3))
    target = solve_movement(problem).kernel.target
    assert np.abs(target[0] - target[1]).max() <= 1e-9


def test_a_bin_without_mass_moves_as_its_nearest_neighbour():
    """A bin that holds nothing of a group copies the nearest bin of that group that does."""
    given = np.array(
        [[[0.5, 0.3, 0.2, 0.0, 0.0], [0.2, 0.3, 0.5, 0.0, 0.0]], [[0.2] * 5, [0.1, 0.1, 0.2, 0.3, 0.3]]]
    )
    rows = solve_movement(OddsProblem(given, given.sum(axis=1) / 4, line_cost(5))).kernel.rows[0].toarray()
    assert np.array_equal(rows[3], rows[2])
    assert np.array_equal(rows[4], rows[2])


def test_a_visited_bin_without_labels_takes_the_cheapest_move():
    """Where no constraint binds but items are seen, they stay."""
    given = np.array([[[0.5, 0.0, 0.5], [0.2, 0.0, 0.8]], [[0.8, 0.0, 0.2], [0.3, 0.0, 0.7]]])
    visits = given.sum(axis=1) / 5 + 0.1 * np.array([0.0, 1.0, 0.0])
    for rows in solve_movement(OddsProblem(given, visits, line_cost(3))).kernel.rows:
        assert rows.toarray()[1] == pytest.approx([0.0, 1.0, 0.0])


def test_no_time_is_a_clear_error():
    """A time limit that leaves no feasible kernel is an error that says so."""
    with pytest.raises(EvenoddsError, match="not solved within its time limit"):
        solve_movement(paper_bins(60), time_limit=1e-9)


def test_out_of_time_returns_the_best_kernel_with_its_true_gap(monkeypatch):
    """When time ends after the coarsest level, its kernel is carried to the fine bins, uncertified."""
    problem = paper_bins(130)
    whole, late = movement._whole, [0.0]

    def solve_and_run_late(*arguments):
        solved = whole(*arguments)
        late[0] = 1e6
        return solved

    class Clock:
        monotonic = staticmethod(lambda: late[0])

    monkeypatch.setattr(movement, "_whole", solve_and_run_late)
    monkeypatch.setattr(movement, "time", Clock)
    monkeypatch.setattr(lp, "time", Clock)
    solution = solve_movement(problem)
    monkeypatch.undo()
    optimum = whole_optimum(problem)
    assert not solution.certified
    assert solution.gap == pytest.approx((solution.objective - solution.bound) / solution.objective)
    assert solution.kernel.residual(problem) <= 1e-9
    assert solution.bound <= optimum <= solution.objective <= 1.1 * optimum


def test_a_gap_out_of_reach_is_not_certified(monkeypatch):
    """With few columns and one round of pricing the optimum is missed, and not claimed."""
    monkeypatch.setattr(movement, "ROUNDS", 1)
    monkeypatch.setattr(movement, "NEAR", 1)
    solution = solve_movement(paper_bins(130), gap=1e-6)
    assert not solution.certified
    assert solution.gap > 1e-6


@pytest.mark.parametrize("kind", KINDS)
def test_any_rows_at_all_can_be_settled(kind):
    """Kernels that miss equality by far, and have no room on their entries, are mended to 1e-9."""
    rng = np.random.default_rng(3)
    for seed in range(6):
        problem = random_bins(kind, seed, 2 + seed, 2 + seed % 3, 1 + seed % 3)
        agreement = relax.Agreement((0.0,) * problem.labels, problem.groups, problem.bins)
        rows = tuple(
            sparse.csr_array(np.eye(problem.bins)[rng.integers(problem.bins, size=problem.bins)])
            for _ in range(problem.groups)
        )
        settled = relax.settle(problem, agreement, rows)
        target = relax.images_of(problem, settled).mean(axis=0)
        assert Kernel(settled, target).residual(problem) <= 1e-9


def test_settling_spreads_a_small_error_over_the_entries_there_are():
    """An error of 1e-6 is mended without a new entry, and moves no probability by more than 1e-4."""
    problem = paper_bins(40)
    exact = solve_movement(problem).kernel.rows
    rng = np.random.default_rng(5)
    rough = []
    for rows in exact:
        noisy = rows.copy()
        noisy.data = noisy.data * (1.0 + 1e-6 * rng.normal(size=noisy.nnz))
        rough.append(noisy)
    settled = relax.settle(problem, relax.Agreement(STRICT, 2, 40), tuple(rough))
    target = relax.images_of(problem, settled).mean(axis=0)
    assert Kernel(settled, target).residual(problem) <= 1e-11
    for one, other in zip(exact, settled, strict=True):
        assert np.abs(one - other).max() <= 1e-4
        assert other.nnz <= one.nnz


@pytest.mark.parametrize("bins", [8, 9])
def test_a_coarse_kernel_stays_feasible_on_finer_bins(bins):
    """Carried to bins of half the width, a kernel still gives all groups one distribution a label."""
    fine = random_bins("plain", 4, bins, 3, 2)
    coarse = movement._coarsen(fine)
    rows = movement._prolong(solve_movement(coarse).kernel.rows, bins)
    assert Kernel(rows, relax.images_of(fine, rows)[0]).residual(fine) <= 1e-12


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"gap": 0.0}, "gap must lie between 0 and 1"),
        ({"gap": float("nan")}, "gap must lie between 0 and 1"),
        ({"time_limit": 0.0}, "time_limit must be a positive number"),
        ({"time_limit": float("nan")}, "time_limit must be a positive number"),
    ],
)
def test_settings_out_of_range_are_refused(settings, message):
    """A gap or a time limit that means nothing is named."""
    with pytest.raises(SettingsError, match=message):
        solve_movement(random_bins("plain", 0, 3, 2, 2), **settings)


def test_bins_without_a_label_are_refused():
    """A group with nothing under a label is named, since nothing can be equalized for it."""
    given = random_bins("plain", 0, 4, 2, 2).given.copy()
    given[1, 0] = 0.0
    with pytest.raises(TallyError, match="group 1, label 0 sum to 0, expected 1"):
        solve_movement(OddsProblem(given, given.sum(axis=1) / 3, line_cost(4)))


@pytest.mark.parametrize("value", [-0.1, np.nan, np.inf])
def test_probabilities_that_are_none_are_refused(value):
    """Negative, missing or infinite shares are refused, wherever they stand."""
    problem = random_bins("plain", 0, 4, 2, 2)
    for name in ("given", "visits", "cost"):
        tables = {"given": problem.given, "visits": problem.visits, "cost": problem.cost}
        tables[name] = tables[name].copy()
        tables[name][(0,) * tables[name].ndim] = value
        with pytest.raises(TallyError, match=f"{name} must be finite and not negative"):
            solve_movement(OddsProblem(**tables))


def test_tables_that_do_not_fit_are_refused():
    """Shapes that disagree, and a single group, are refused."""
    problem = random_bins("plain", 0, 4, 2, 2)
    for wrong in (
        OddsProblem(problem.given, problem.visits[:, :3], problem.cost),
        OddsProblem(problem.given[:1], problem.visits[:1], problem.cost),
    ):
        with pytest.raises(TallyError, match="do not fit together"):
            solve_movement(wrong)
    with pytest.raises(TallyError, match="visits are 0"):
        solve_movement(OddsProblem(problem.given, 0.0 * problem.visits, problem.cost))


def test_an_infeasible_program_is_an_error():
    """HiGHS reports an objective even then; it is never taken for a kernel."""
    one = np.ones(1)
    impossible = lp.Program(one, sparse.csc_array([[1.0]]), 2 * one, 2 * one, 0 * one, one)
    with pytest.raises(EvenoddsError, match="kInfeasible"):
        lp.solve_with_highs(impossible, deadline=np.inf)


def test_an_option_that_highs_refuses_is_an_error(monkeypatch):
    """The return of setOptionValue is looked at: a refused option is named, not passed over."""
    monkeypatch.setattr(highspy.Highs, "setOptionValue", lambda *_: highspy.HighsStatus.kError)
    with pytest.raises(EvenoddsError, match="refused the option output_flag"):
        solve_movement(paper_bins(10))


def test_highs_failing_on_a_restricted_program_leaves_the_coarser_kernel(monkeypatch):
    """Where HiGHS errs on fine bins the kernel from the coarse ones stands, with its true gap."""
    problem, solve = paper_bins(130), movement._solve

    def fail_when_restricted(agreement, sides, columns, deadline):
        if sum(moves.size for moves in columns) < sum(side.costs.size for side in sides):
            raise EvenoddsError("out of order")
        return solve(agreement, sides, columns, deadline)

    monkeypatch.setattr(movement, "_solve", fail_when_restricted)
    solution = solve_movement(problem)
    assert not solution.certified
    assert solution.kernel.residual(problem) <= 1e-9
    assert 0.01 < solution.gap < 0.1


def test_prices_of_a_failed_interior_point_method_cost_no_certainty(monkeypatch):
    """Without its factors there are no interior prices: pricing goes on, and claims what it can prove."""
    problem = paper_bins(110)

    def fail(*_):
        raise np.linalg.LinAlgError

    monkeypatch.setattr(lp, "_factor", fail)
    monkeypatch.setattr(movement, "ROUNDS", 3)
    solution = solve_movement(problem)
    monkeypatch.undo()
    assert not solution.certified
    assert solution.bound <= whole_optimum(problem) * (1 + 1e-9)
    assert solution.kernel.residual(problem) <= 1e-9


def test_blas_is_held_to_one_thread_and_given_back():
    """Inside, every BLAS library runs one thread; outside, as many as before."""
    from threadpoolctl import threadpool_info

    def threads():
        return [pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"]

    before = threads()
    with lp.one_blas_thread():
        assert set(threads()) == {1}
    assert threads() == before
