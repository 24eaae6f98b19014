import warnings

import numpy as np
import pytest
from scipy.special import expit

from evenodds.errors import SettingsError, TallyError
from evenodds.odds.coupling import couple, least_movement
from evenodds.odds.frontier import best_threshold, find_frontier, reach, solve_frontier
from evenodds.odds.problem import OddsProblem
from evenodds.simulate import draw_population
from oracles import roc


def problem_of(given, visits=None):
    given = np.asarray(given, dtype=np.float64)
    given = given / given.sum(axis=2, keepdims=True)
    visits = given.mean(axis=1) / len(given) if visits is None else visits
    return OddsProblem(given, visits, np.zeros((given.shape[2], given.shape[2])))


def counted(group, label, score, bins):
    edges = np.quantile(score, np.linspace(0, 1, bins + 1)[1:-1])
    counts = np.zeros((int(group.max()) + 1, 2, bins))
    np.add.at(counts, (group, label, np.searchsorted(edges, score)), 1)
    return problem_of(counts, counts.sum(axis=1) / counts.sum())


def crossing_groups(size, *, seed=0):
    """Four groups whose ROC curves cross: means, spreads and base rates all differ."""
    rng = np.random.default_rng(seed)
    group = rng.integers(0, 4, size)
    label = (rng.random(size) < np.array([0.3, 0.4, 0.5, 0.35])[group]).astype(int)
    shift = np.array([0, 0.3, -0.2, 0.1])[group] + label * np.array([1, 0.8, 1.2, 1.1])[group]
    spread = np.where(label == 1, np.array([1, 0.6, 1.4, 1])[group], 1)
    return group, label, rng.normal(shift, spread)


def random_problem(rng):
    """Bins of every kind: flat, spiky, sparse counts, almost empty, empty in one label or in both."""
    groups, bins = rng.integers(2, 5), rng.choice([1, 2, 3, 7, 30, 200])
    kind = rng.integers(4)
    if kind == 0:
        given = rng.dirichlet(np.full(bins, rng.choice([0.2, 1, 20])), size=(groups, 2))
    elif kind == 1:
        given = rng.poisson(rng.choice([0.5, 5, 500]), size=(groups, 2, bins)) + np.eye(bins)[0]
    elif kind == 2:
        given = rng.random((groups, 2, bins)) * 10.0 ** rng.integers(-18, 1, size=(groups, 2, bins))
    else:
        given = np.repeat(rng.random((groups, 1, bins)), 2, axis=1)
        given *= 1 + 10.0 ** rng.integers(-15, 0) * rng.random((groups, 2, bins))
    return problem_of(given)


def rank_cost(frontier, bins, base_rate=0.4):
    edges = frontier.edges(base_rate)
    return np.abs((np.arange(bins)[:, None] + 0.5) / bins - (edges[1:] + edges[:-1]) / 2)


@pytest.mark.parametrize("seed", range(6))
def test_curve_is_the_minimum_over_all_mixtures_of_all_rules(seed):
    """Every vertex, and the area, are those of the minimum of the hulls found by brute force."""
    rng = np.random.default_rng(seed)
    problem = problem_of(rng.random((3, 2, 5)) * (rng.random((3, 2, 5)) < 0.8) + 1e-3)
    frontier = find_frontier(problem, loss=0.0)
    for x, y in zip(frontier.false_positive_rate[1:], frontier.true_positive_rate[1:], strict=True):
        assert y == pytest.approx(min(roc.best_rate(group, x) for group in problem.given), abs=1e-12)
    assert frontier.auc == pytest.approx(roc.area(*roc.shared_curve(problem.given)), abs=1e-12)


def test_each_groups_own_auc_is_that_of_its_hull():
    """`own_auc` is the brute-force area of each group by itself, `raw_auc` counts pairs; price is what is lost."""
    problem = problem_of(np.random.default_rng(7).random((3, 2, 6)))
    frontier = find_frontier(problem)
    for c, given in enumerate(problem.given):
        assert frontier.own_auc[c] == pytest.approx(roc.area(*roc.shared_curve(given[None])), abs=1e-12)
        assert frontier.raw_auc[c] == pytest.approx(roc.pair_auc(given), abs=1e-12)
    assert frontier.price == pytest.approx(frontier.own_auc - frontier.auc)
    assert frontier.price.min() >= 0


@pytest.mark.parametrize("seed", range(8))
def test_kernels_reach_the_theoretical_auc_on_any_data(seed):
    """Bins of every kind: residual at most 1e-9, and an AUC within 1e-6 of the minimum of the hulls."""
    rng = np.random.default_rng(seed)
    for _ in range(25):
        problem = random_problem(rng)
        solution = solve_frontier(problem, order=rng.choice(["likelihood", "score"]))
        assert solution.kernel.residual(problem) <= 1e-9
        negative, positive = solution.kernel.target
        reached = float(positive @ (np.cumsum(negative) - negative / 2))
        assert abs(reached - solution.frontier.exact_auc) <= 1e-6


@pytest.mark.parametrize("seed", range(4))
def test_no_feasible_kernel_found_by_linear_programs_does_better(seed):
    """Random extreme kernels, and climbs along the AUC's slope, stay under the frontier and come near it."""
    rng = np.random.default_rng(seed)
    problem = problem_of(rng.random((2, 2, 4)) ** 2)
    rows = roc.odds_rows(problem.given, 7)
    best = 0.0
    for _ in range(8):
        target = roc.extreme_target(problem.given, rows, rng.normal(size=(2, 7)))
        for _ in range(8):
            mass = target.sum(axis=0)
            ordered = target[:, np.argsort(np.divide(target[1], mass, out=np.ones(7), where=mass > 0))]
            best = max(best, roc.pair_auc(ordered))
            target = roc.extreme_target(problem.given, rows, roc.auc_slope(ordered))
    exact = find_frontier(problem).exact_auc
    assert best <= exact + 1e-9
    assert best >= exact - 0.03


def test_ten_thousand_cells_with_thin_bins_stay_exact():
    """10,000 cells, four groups, every third bin of mass 1e-7: residual under 1e-9, loss under 1e-7."""
    group, label, score = crossing_groups(400_000)
    given = counted(group, label, score, 10_000).given.copy()
    given[:, :, ::3] = 1e-7 * np.random.default_rng(0).random((4, 2, 3334))
    problem = problem_of(given)
    solution = solve_frontier(problem)
    assert solution.kernel.residual(problem) <= 1e-9
    assert 0 <= solution.frontier.exact_auc - solution.frontier.auc <= 1e-7


def test_target_bins_stand_in_increasing_likelihood_ratio():
    """Target bin t + 1 has a greater share of positives than bin t, and the best bin is the last."""
    frontier = find_frontier(counted(*crossing_groups(50_000), 300), loss=0.0)
    assert (np.diff(frontier.target[1] / frontier.target.sum(axis=0)) > 0).all()
    assert frontier.target.sum(axis=1).tolist() == pytest.approx([1.0, 1.0], abs=1e-15)


def test_a_coupling_is_sparse():
    """A group's coupling has at most K + 3T entries."""
    problem = counted(*crossing_groups(100_000), 2_000)
    solution = solve_frontier(problem)
    targets = solution.frontier.target.shape[1]
    assert max(rows.nnz for rows in solution.kernel.rows) <= 2_000 + 3 * targets


def test_two_fits_are_identical():
    """The same bins give the same bytes, by coupling and by least movement."""
    problem = counted(*crossing_groups(20_000), 60)
    for columns in (0, 10**6):
        first, second = (
            solve_frontier(problem, cost=lambda f: rank_cost(f, 60), affordable_columns=columns)
            for _ in range(2)
        )
        for one, other in zip(first.kernel.rows, second.kernel.rows, strict=True):
            assert one.toarray().tobytes() == other.toarray().tobytes()


def test_few_target_bins_are_chosen_well():
    """With a loss allowed, the segments are at most a tenth more than the fewest possible."""
    rng = np.random.default_rng(3)
    problem = problem_of(
        [np.cumsum(rng.random((2, 120)), axis=1) * [[1], [0.5]] ** np.arange(2)[:, None]] * 2
    )
    whole = find_frontier(problem, loss=0.0)
    for loss in (1e-6, 1e-5, 1e-4):
        frontier = find_frontier(problem, loss=loss)
        fewest = roc.fewest_segments(whole.false_positive_rate, whole.true_positive_rate, loss)
        assert whole.auc - frontier.auc <= loss
        assert fewest <= frontier.target.shape[1] <= np.ceil(1.1 * fewest)


@pytest.mark.parametrize("most", [1, 2, 5, 40])
def test_max_targets_is_kept_and_its_loss_is_stated(most):
    """No more target bins than asked for, still reachable, and `exact_auc - auc` is what that loses."""
    problem = counted(*crossing_groups(30_000), 200)
    whole = find_frontier(problem, loss=0.0)
    frontier = find_frontier(problem, max_targets=most)
    assert frontier.target.shape[1] <= most
    assert frontier.exact_auc == pytest.approx(whole.auc, abs=1e-12)
    assert frontier.auc == pytest.approx(roc.pair_auc(frontier.target), abs=1e-12)
    assert frontier.auc < whole.auc
    assert reach(problem, frontier).kernel.residual(problem) <= 1e-9


@pytest.mark.parametrize("bins", [6, 25])
def test_least_movement_is_the_optimum_of_the_whole_program(bins):
    """Movement equals the whole LP given to a solver, and the stated gap is nothing."""
    problem = counted(*crossing_groups(50_000), bins)
    frontier = find_frontier(problem)
    cost = rank_cost(frontier, bins)
    solution = reach(problem, frontier, cost)
    optimum = sum(
        roc.least_movement(given, visits, frontier.target, cost)
        for given, visits in zip(problem.given, problem.visits, strict=True)
    )
    assert solution.method == "least movement"
    assert solution.movement == pytest.approx(optimum, rel=1e-7)
    assert solution.gap <= 1e-9
    assert solution.kernel.residual(problem) <= 1e-9


@pytest.mark.parametrize("seed", range(10, 20))
def test_least_movement_is_proven_where_curves_touch_and_bins_are_thin(seed):
    """Bins of one group that differ by eight orders of magnitude, curves that touch: no gap, no residual."""
    rng = np.random.default_rng(seed)
    problem = problem_of(rng.random((3, 2, 40)) * 10.0 ** -rng.integers(0, 9, size=(3, 2, 40)))
    solution = solve_frontier(problem, cost=lambda f: rank_cost(f, 40))
    assert solution.method == "least movement"
    assert solution.gap <= 1e-9
    assert solution.kernel.residual(problem) <= 1e-9


@pytest.mark.parametrize("seed", range(10))
def test_bins_that_defeat_the_solver_leave_an_exact_kernel(seed):
    """Masses that differ by 18 orders of magnitude: constraints hold, and nothing moves more than coupled."""
    rng = np.random.default_rng(seed)
    problem = problem_of(rng.random((2, 2, 20)) * 10.0 ** -rng.integers(0, 19, size=(2, 2, 20)))
    frontier = find_frontier(problem)
    cost = rank_cost(frontier, 20)
    solution = reach(problem, frontier, cost)
    assert solution.kernel.residual(problem) <= 1e-9
    assert solution.movement <= reach(problem, frontier, cost, affordable_columns=0).movement + 1e-9


def test_coupling_moves_no_less_than_the_least_movement():
    """Beyond the affordable columns a coupling is built; its movement is stated, and is not the least."""
    problem = counted(*crossing_groups(50_000), 40)
    frontier = find_frontier(problem)
    cost = rank_cost(frontier, 40)
    coupling = reach(problem, frontier, cost, affordable_columns=10)
    least = reach(problem, frontier, cost)
    assert (coupling.method, coupling.gap) == ("coupling", None)
    assert coupling.movement > 1.1 * least.movement
    assert reach(problem, frontier).movement is None


def test_without_time_the_bound_still_holds():
    """A time limit of nothing leaves a feasible kernel, and a gap that contains the optimum."""
    problem = counted(*crossing_groups(50_000), 40)
    frontier = find_frontier(problem)
    cost = rank_cost(frontier, 40)
    hurried, least = reach(problem, frontier, cost, time_limit=0.0), reach(problem, frontier, cost)
    assert hurried.kernel.residual(problem) <= 1e-9
    assert (hurried.method, least.method) == ("bounded movement", "least movement")
    assert hurried.gap > 1e-3
    assert hurried.movement - hurried.gap <= least.movement <= hurried.movement


def test_bins_without_mass_go_where_it_is_cheapest():
    """A bin that a group never uses, but is visited, goes to its cheapest target bin at full certainty."""
    problem = problem_of([[[4, 0, 3, 2], [1, 0, 2, 4]], [[4, 1, 3, 2], [1, 1, 2, 4]]], np.full((2, 4), 0.125))
    frontier = find_frontier(problem)
    cost = rank_cost(frontier, 4)
    solution = reach(problem, frontier, cost)
    assert solution.kernel.rows[0].toarray()[1, cost[1].argmin()] == 1.0
    assert solution.gap <= 1e-9


def test_a_group_that_sets_the_frontier_is_moved_as_one_must():
    """Where a group's hull is the frontier each of its bins has one target: nothing is drawn."""
    weak, strong = [[3, 2, 1, 1], [2, 2, 1, 2]], [[8, 4, 2, 1], [1, 2, 4, 8]]
    problem = problem_of([weak, strong])
    solution = solve_frontier(problem, cost=lambda f: rank_cost(f, 4), loss=0.0)
    assert set(solution.kernel.rows[0].data) == {1.0}
    assert solution.frontier.price[0] == 0.0 < solution.frontier.price[1]
    assert solution.kernel.residual(problem) <= 1e-12


@pytest.mark.parametrize("columns", [0, 10**6])
def test_identical_groups_stay_as_they_are(columns):
    """Two groups with the same bins, better bins scored higher, get the identity when nothing may be lost."""
    given = [[[5, 4, 3, 2, 1], [1, 2, 3, 4, 5]]] * 2
    problem = problem_of(given)
    solution = solve_frontier(problem, cost=lambda f: rank_cost(f, 5), loss=0.0, affordable_columns=columns)
    for rows in solution.kernel.rows:
        assert rows.toarray().tolist() == np.eye(5).tolist()
    assert solution.frontier.price.tolist() == pytest.approx([0.0, 0.0], abs=1e-15)


def test_a_group_with_all_scores_tied_sends_everyone_to_one_bin():
    """A group whose scores tell nothing has the diagonal, so all groups share one target bin."""
    problem = problem_of([[[0, 1, 0], [0, 1, 0]], [[3, 2, 1], [1, 2, 3]]])
    solution = solve_frontier(problem, cost=lambda f: rank_cost(f, 3))
    assert solution.frontier.auc == 0.5
    assert [rows.toarray().tolist() for rows in solution.kernel.rows] == [[[1.0]] * 3] * 2


def test_perfect_separation_is_kept():
    """Groups that separate the labels perfectly share the perfect curve, without a trace of rounding."""
    problem = problem_of([[[0.3, 0.7, 0, 0], [0, 0, 0.6, 0.4]], [[0.1, 0.9, 0, 0], [0, 0, 0.2, 0.8]]])
    solution = solve_frontier(problem)
    assert solution.frontier.auc == 1.0
    assert solution.kernel.target.tolist() == [[1, 0], [0, 1]]
    assert solution.kernel.rows[0].toarray().tolist() == [[1, 0], [1, 0], [0, 1], [0, 1]]


def test_one_bin_is_enough():
    """K = 1: one target bin, AUC one half."""
    solution = solve_frontier(problem_of([[[1], [1]], [[1], [1]]]), cost=lambda f: np.zeros((1, 1)))
    assert solution.frontier.auc == 0.5
    assert solution.kernel.rows[0].toarray().tolist() == [[1.0]]


def test_a_reversed_score_is_turned_round_by_likelihood_only():
    """A group below the diagonal is turned round by likelihood; by score its frontier is the diagonal."""
    up, down = [[4, 3, 2, 1], [1, 2, 3, 4]], [[1, 2, 3, 4], [4, 3, 2, 1]]
    problem = problem_of([up, down])
    solution = solve_frontier(problem, loss=0.0)
    assert solution.frontier.raw_auc[1] < 0.5 < solution.frontier.auc
    best = [rows.toarray()[:, -1].argmax() for rows in solution.kernel.rows]
    assert best == [3, 0]
    assert find_frontier(problem, order="score").auc == 0.5


@pytest.mark.parametrize("seed", range(4))
def test_by_score_the_curve_is_the_minimum_over_mixtures_of_thresholds(seed):
    """Under order="score" the vertices are the best that thresholds of the score, mixed, reach in all groups."""
    problem = problem_of(np.random.default_rng(seed).random((3, 2, 9)) * (1 + np.arange(9) * [[0], [1]]))
    frontier = find_frontier(problem, order="score", loss=0.0)
    for x, y in zip(frontier.false_positive_rate[1:], frontier.true_positive_rate[1:], strict=True):
        rates = [roc.best_rate(group, x, thresholds=True) for group in problem.given]
        assert y == pytest.approx(min(rates), abs=1e-12)
    assert frontier.auc < find_frontier(problem, loss=0.0).auc


def test_by_score_bins_of_a_pool_are_treated_alike():
    """Adjacent bins that contradict the score's order share a row, and the movement is still the least."""
    problem = counted(*crossing_groups(8_000), 40)
    frontier = find_frontier(problem, order="score")
    cost = rank_cost(frontier, 40)
    solution = reach(problem, frontier, cost)
    assert solution.gap <= 1e-9
    assert solution.movement < reach(problem, frontier, cost, affordable_columns=0).movement
    for pool, rows in zip(frontier.pools, solution.kernel.rows, strict=True):
        assert pool[-1] < 39
        for one in range(pool[-1] + 1):
            assert np.ptp(rows.toarray()[pool == one], axis=0).max() == 0.0


def test_by_score_the_frontier_keeps_its_promise_on_fresh_data():
    """Thin bins: the AUC promised by likelihood is lost on fresh data, the one promised by score is kept."""
    train = counted(*crossing_groups(40_000, seed=1), 2_000)
    group, label, score = crossing_groups(40_000, seed=1)
    edges = np.quantile(score, np.linspace(0, 1, 2_001)[1:-1])
    group, label, score = crossing_groups(400_000, seed=2)
    fresh = np.zeros((4, 2, 2_000))
    np.add.at(fresh, (group, label, np.searchsorted(edges, score)), 1)
    fresh /= fresh.sum(axis=2, keepdims=True)
    broken = {}
    for order in ("likelihood", "score"):
        solution = solve_frontier(train, order=order)
        met = [given @ rows for given, rows in zip(fresh, solution.kernel.rows, strict=True)]
        auc = [float(p @ (np.cumsum(n) - n / 2)) for n, p in met]
        broken[order] = solution.frontier.auc - min(auc)
    assert broken["likelihood"] > 0.05
    assert broken["score"] < 0.02


def test_the_papers_population_pays_in_the_better_group():
    """The paper's two groups: the curves hardly cross, so the weaker group pays next to nothing."""
    people = draw_population(50_000)
    problem = counted(people.group, people.merit, people.relevance, 100)
    solution = solve_frontier(problem, cost=lambda f: rank_cost(f, 100, float(people.merit.mean())))
    assert solution.frontier.price.min() < 1e-3
    assert solution.frontier.price.max() > 0.05
    assert solution.kernel.residual(problem) <= 1e-9


def fairlearn_rates(group, label, score):
    """TPR and FPR of fairlearn's ThresholdOptimizer on a fine grid, the same in all groups."""
    from fairlearn.postprocessing import ThresholdOptimizer
    from sklearn.base import BaseEstimator

    class Scorer(BaseEstimator):
        def fit(self, X, y):
            return self

        def predict(self, X):
            return X[:, 0]

        def __sklearn_is_fitted__(self):
            return True

    optimizer = ThresholdOptimizer(
        estimator=Scorer(),
        constraints="equalized_odds",
        objective="accuracy_score",
        grid_size=20_000,
        prefit=True,
        predict_method="predict",
    )
    optimizer.fit(score[:, None], label, sensitive_features=group)
    chance = optimizer._pmf_predict(score[:, None], sensitive_features=group)[:, 1]
    return [[chance[(group == c) & (label == y)].mean() for y in (0, 1)] for c in np.unique(group)]


@pytest.mark.parametrize(("size", "spread"), [(6_000, 1.0), (9_000, 1.4)])
def test_one_threshold_agrees_with_fairlearn(size, spread):
    """The most accurate point of the shared curve is fairlearn's, within 0.003 in TPR and FPR."""
    rng = np.random.default_rng(size)
    group = rng.integers(0, 3, size)
    label = (rng.random(size) < np.array([0.3, 0.5, 0.4])[group]).astype(int)
    lift = label * np.array([1.0, 1.6, 1.3])[group]
    score = expit(rng.normal(lift, np.where(label == 1, spread, 1.0))).round(2)
    values, cell = np.unique(score, return_inverse=True)
    counts = np.zeros((3, 2, values.size))
    np.add.at(counts, (group, label, cell), 1)
    problem = problem_of(counts)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs = fairlearn_rates(group, label, score)
    ours = best_threshold(find_frontier(problem, order="score"), label.mean())
    for false, true in theirs:
        assert ours.false_positive_rate == pytest.approx(false, abs=0.003)
        assert ours.true_positive_rate == pytest.approx(true, abs=0.003)
    free = best_threshold(find_frontier(problem), label.mean())
    assert free.accuracy >= ours.accuracy - 1e-7


def test_best_threshold_names_the_target_bins_it_accepts():
    """The rates are those of the target bins from `first` on, and no other cut is more accurate."""
    frontier = find_frontier(counted(*crossing_groups(30_000), 50))
    for base_rate in (0.0, 0.1, 0.5, 1.0):
        best = best_threshold(frontier, base_rate)
        above = frontier.target[:, best.first :].sum(axis=1)
        assert above == pytest.approx([best.false_positive_rate, best.true_positive_rate], abs=1e-12)
        for cut in range(frontier.target.shape[1] + 1):
            false, true = frontier.target[:, cut:].sum(axis=1)
            assert base_rate * true + (1 - base_rate) * (1 - false) <= best.accuracy + 1e-12


def test_edges_keep_the_pooled_distribution():
    """Target bin t is as wide in ranks as its share of all items at that base rate."""
    frontier = find_frontier(counted(*crossing_groups(30_000), 50))
    edges = frontier.edges(0.25)
    assert (edges[0], edges[-1]) == (0.0, pytest.approx(1.0))
    assert np.diff(edges) == pytest.approx(0.75 * frontier.target[0] + 0.25 * frontier.target[1])


def test_the_functions_behind_take_one_group():
    """`couple` and `least_movement` reach any target under the hull, exactly, and the bound is met."""
    given = np.array([[0.4, 0.3, 0.2, 0.1], [0.1, 0.2, 0.3, 0.4]])
    target = np.array([[0.6, 0.4], [0.4, 0.6]])
    cost, visits = np.array([[0.0, 1.0]] * 4), np.full(4, 0.25)
    assert given @ couple(given, target) == pytest.approx(target, abs=1e-15)
    rows, bound = least_movement(given, visits, target, cost)
    assert given @ rows == pytest.approx(target, abs=1e-12)
    assert bound == pytest.approx(roc.least_movement(given, visits, target, cost), abs=1e-9)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"loss": -1e-9}, "loss"),
        ({"loss": float("nan")}, "loss"),
        ({"max_targets": 0}, "max_targets"),
        ({"order": "rank"}, "order"),
        ({"cost": lambda f: np.zeros((2, 9))}, "cost"),
        ({"cost": lambda f: np.full((2, f.target.shape[1]), -1.0)}, "cost"),
        ({"cost": lambda f: np.full((2, f.target.shape[1]), np.nan)}, "cost"),
    ],
)
def test_a_setting_out_of_range_is_refused(settings, words):
    """Settings that cannot be meant are named in the error."""
    with pytest.raises(SettingsError, match=words):
        solve_frontier(problem_of([[[1, 2], [2, 1]], [[1, 3], [3, 1]]]), **settings)


def test_a_base_rate_out_of_range_is_refused():
    """A base rate is a probability."""
    with pytest.raises(SettingsError, match="base_rate"):
        best_threshold(find_frontier(problem_of([[[1, 2], [2, 1]]])), 1.5)


def test_more_than_two_labels_are_refused():
    """The AUC is defined for two labels; the error says which objective takes more."""
    with pytest.raises(SettingsError, match="movement"):
        find_frontier(OddsProblem(np.full((2, 3, 2), 0.5), np.full((2, 2), 0.25), np.zeros((2, 2))))


@pytest.mark.parametrize("row", [[0.0, 0.0], [np.nan, np.nan], [1.5, -0.5], [0.5, 0.6]])
def test_a_group_without_a_distribution_is_named(row):
    """No positives, NaN, a negative mass or a sum other than one: the error names group and label."""
    given = np.full((2, 2, 2), 0.5)
    given[1, 1] = row
    with pytest.raises(TallyError, match=r"group 1 .* label 1"):
        find_frontier(OddsProblem(given, np.full((2, 2), 0.25), np.zeros((2, 2))))
