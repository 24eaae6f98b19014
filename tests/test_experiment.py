import json
from collections import defaultdict
from math import sqrt

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from scipy.stats import kstest, ttest_ind

import evenodds as eo
from evenodds import unit_sums
from evenodds.cli import main


def draw(rng, units=200, lifts=(0.0, 0.0), *, arms=("control", "fair"), level=0.2, mean_rows=6):
    """Draw a log in which units differ in rate and in how much they see, and groups a and b in lift."""
    arm = rng.integers(0, len(arms), units)
    rows = rng.poisson(mean_rows, units) + 1
    member = np.repeat(np.arange(units), rows)
    own = rng.beta(2, 2 * (1 - level) / level, units)[member]  # rows of one unit go together
    group = rng.integers(0, 2, member.size)
    lift = np.array(lifts)[group] * (arm[member] > 0)
    label = rng.random(member.size) < own * (1 + lift)
    return pa.table(
        {
            "member": member,
            "arm": np.array(arms)[arm[member]],
            "group": np.array(["a", "b"])[group],
            "label": label.astype(np.int8),
        }
    )


def told(result, group, per="member", metric="label", arm=None):
    found = [
        one
        for one in result.comparisons
        if one.group == group and one.per == per and one.metric == metric and arm in {None, one.arm}
    ]
    assert len(found) == 1
    return found[0]


def by_unit(table, group=None):
    """Sum labels and rows of each unit, arm by arm, row after row."""
    sums = defaultdict(lambda: defaultdict(lambda: [0.0, 0.0]))
    for row in table.to_pylist():
        own = sums[row["arm"]][row["member"]]
        if group in {None, row["group"]}:
            own[0] += row["label"]
            own[1] += 1
    return {arm: list(units.values()) for arm, units in sums.items()}


def delta_method(pairs):
    """Return a ratio of sums and its variance, from the formula."""
    n = len(pairs)
    top, below = sum(x for x, _ in pairs), sum(d for _, d in pairs)
    ratio = top / below
    return ratio, n / (n - 1) * sum((x - ratio * d) ** 2 for x, d in pairs) / below**2


@pytest.fixture(scope="module")
def log():
    return draw(np.random.default_rng(1), 1500, (0.0, 0.8))


def test_means_and_p_values_per_unit_are_those_of_welchs_test(log):
    """Positives per unit, units without rows of a group included, compare as scipy's t test does."""
    result = eo.experiment(log)
    for group in ("a", "b", None):
        sums = by_unit(log, group)
        control, treated = ([x for x, _ in sums[arm]] for arm in ("control", "fair"))
        found = told(result, group or "all")
        assert found.control == pytest.approx(np.mean(control))
        assert found.treated == pytest.approx(np.mean(treated))
        assert found.lift == pytest.approx(np.mean(treated) / np.mean(control) - 1)
        assert found.p_value == pytest.approx(ttest_ind(treated, control, equal_var=False).pvalue)


def test_rates_are_ratios_of_sums_with_the_delta_methods_variance(log):
    """The positive rate per impression and its p-value follow the formula on raw rows."""
    result = eo.experiment(log)
    for group in ("a", "b", None):
        control, treated = (delta_method(by_unit(log, group)[arm]) for arm in ("control", "fair"))
        found = told(result, group or "all", per="impression")
        assert (found.control, found.treated) == pytest.approx((control[0], treated[0]))
        z = (treated[0] - control[0]) / sqrt(control[1] + treated[1])
        assert found.p_value == pytest.approx(2 * (1 - normal(abs(z))), rel=0.1, abs=1e-4)


def normal(z):
    from scipy.stats import norm

    return norm.cdf(z)


def test_intervals_leave_out_zero_exactly_when_the_p_value_is_small():
    """Fieller's interval and the test of the difference agree in every readout."""
    rng = np.random.default_rng(2)
    for _ in range(60):
        for one in eo.experiment(draw(rng, 150, (0.2, 0.5))).comparisons:
            low, high = one.interval
            assert low <= one.lift <= high
            assert (low > 0 or high < 0) == (one.p_value < 0.05)


def test_p_values_of_an_a_a_test_are_uniform():
    """Without a difference 5 % of the p-values lie below 0.05, within three binomial errors."""
    rng = np.random.default_rng(3)
    found = defaultdict(list)
    for _ in range(500):
        for one in eo.experiment(draw(rng)).comparisons:
            found[one.group, one.per].append(one.p_value)
    assert len(found) == 6
    for p_values in found.values():
        false = np.mean(np.array(p_values) < 0.05)
        assert abs(false - 0.05) < 3 * sqrt(0.05 * 0.95 / 500)
        assert kstest(p_values, "uniform").pvalue > 1e-3


def test_rows_of_a_unit_are_not_taken_as_independent():
    """Every row a unit of its own would raise false alarms; by unit there are few."""
    rng = np.random.default_rng(4)
    by_row = by_member = 0
    for _ in range(100):
        table = draw(rng, 200, mean_rows=40)
        by_member += told(eo.experiment(table), "all", "impression").p_value < 0.05
        rows = table.set_column(0, "member", pa.array(np.arange(table.num_rows)))
        by_row += told(eo.experiment(rows), "all", "impression").p_value < 0.05
    assert by_member <= 12
    assert by_row > 30


def test_intervals_of_an_a_b_test_cover_the_true_lift():
    """95 % intervals cover the lifts of both groups in 92 to 98 % of 400 experiments."""
    rng = np.random.default_rng(5)
    lifts = {"a": -0.2, "b": 0.4}
    covered = defaultdict(int)
    for _ in range(400):
        result = eo.experiment(draw(rng, 400, tuple(lifts.values())))
        for one in result.comparisons:
            if one.group in lifts:
                covered[one.group, one.per] += one.interval[0] <= lifts[one.group] <= one.interval[1]
    assert len(covered) == 4
    assert all(0.92 * 400 <= count <= 0.98 * 400 for count in covered.values())


def test_corrected_p_values_are_holms(log):
    """The i-th smallest of m p-values is multiplied by m - i + 1, and never falls below the one before."""
    result = eo.experiment(log)
    ordered = sorted(result.comparisons, key=lambda one: one.p_value)
    largest = 0.0
    for place, one in enumerate(ordered):
        largest = max(largest, min(1.0, (len(ordered) - place) * one.p_value))
        assert one.adjusted == pytest.approx(largest)
        assert one.changed == (largest < 0.05)


def test_the_verdict_is_in_words(log):
    """What moved is up or down by so much, what did not is no significant change."""
    result = eo.experiment(log)
    lift = 100 * told(result, "b").lift
    assert result.verdict.startswith(f"fair, label per member: a no significant change, b up {lift:.1f} %")
    assert result.guard_rail == "no group is significantly down"
    turned = eo.experiment(log, control="fair")
    assert [one.group for one in turned.harmed] == ["b", "b"]
    assert turned.guard_rail.startswith("down: b (control, label per member)")


def test_a_sample_ratio_mismatch_is_called_out(log):
    """Arms of 1,000 and 1,200 units do not fit an even split; they fit the plan they were drawn by."""
    member = log["member"].to_numpy()
    arm = np.array(log["arm"].to_pylist())
    kept = (arm == "fair") | (member % 3 > 0)
    thinned = log.filter(pa.array(kept))
    result = eo.experiment(thinned)
    assert result.sample_ratio.mismatch
    assert "SAMPLE RATIO MISMATCH" in str(result)
    assert result.verdict.startswith("SAMPLE RATIO MISMATCH")
    assert result.to_dict()["sample_ratio"]["mismatch"] is True
    planned = eo.experiment(thinned, split={"control": 2, "fair": 3})
    assert not planned.sample_ratio.mismatch
    assert planned.sample_ratio.planned == {"control": 0.4, "fair": 0.6}
    assert not eo.experiment(log).sample_ratio.mismatch


def test_pieces_of_a_log_give_the_whole_readout(log, monkeypatch, tmp_path):
    """Small batches, early merging, text ids and any order of rows change nothing."""
    whole = eo.experiment(log).to_dict()
    order = np.random.default_rng(0).permutation(log.num_rows)
    pq.write_table(log.take(order), tmp_path / "log.parquet", row_group_size=97)
    monkeypatch.setattr(unit_sums, "_HELD_ROWS", 10)
    assert eo.experiment(str(tmp_path / "log.parquet")).to_dict() == whole
    texts = pa.array([f"m{member}" for member in log["member"].to_pylist()]).dictionary_encode()
    assert eo.experiment(log.set_column(0, "member", texts)).to_dict() == whole


def test_three_arms_are_each_compared_with_the_control():
    """More than two arms give a comparison with the control each, corrected together."""
    table = draw(np.random.default_rng(6), 900, (0.5, 0.5), arms=("old", "new", "newer"))
    result = eo.experiment(table, control="old")
    assert len(result.comparisons) == 2 * 2 * 3
    assert {one.arm for one in result.comparisons} == {"new", "newer"}
    pair = eo.experiment(table.filter(pa.array(np.array(table["arm"].to_pylist()) != "new")), control="old")
    alone, among = told(pair, "a"), told(result, "a", arm="newer")
    assert alone.p_value == among.p_value
    assert alone.adjusted <= among.adjusted
    assert result.verdict.count("\n") == 1


def test_several_metrics_of_any_numbers(log):
    """Metrics may be booleans, counts or amounts; sums per unit are compared."""
    rng = np.random.default_rng(7)
    table = log.append_column("paid", [rng.exponential(3.0, log.num_rows)])
    table = table.append_column("opened", [pa.array(rng.random(log.num_rows) < 0.5)])
    result = eo.experiment(table, metrics=["label", "paid", "opened"])
    arm = np.array(table["arm"].to_pylist()) == "control"
    assert told(result, "all", "impression", "paid").control == pytest.approx(
        table["paid"].to_numpy()[arm].mean()
    )
    assert told(result, "all", "impression", "opened").control == pytest.approx(
        table["opened"].to_numpy()[arm].mean()
    )
    assert told(result, "a").p_value == told(eo.experiment(log), "a").p_value


def test_groups_may_be_those_of_the_units(log):
    """Where each unit is of one group, positives count per unit of that group."""
    member = log["member"].to_numpy()
    table = log.set_column(2, "group", pa.array(np.array(["a", "b"])[member % 2]))
    result = eo.experiment(table)
    arm, label = np.array(table["arm"].to_pylist()) == "fair", table["label"].to_numpy()
    chosen = arm & (member % 2 == 1)
    expected = label[chosen].sum() / np.unique(member[chosen]).size
    assert told(result, "b").treated == pytest.approx(expected)
    assert any("groups are those of units" in note for note in result.notes)
    per_any = eo.experiment(table, group_of="item")
    assert told(per_any, "b").treated == pytest.approx(label[chosen].sum() / np.unique(member[arm]).size)
    with pytest.raises(eo.LogError, match="more than one group"):
        eo.experiment(log, group_of="unit")


def test_a_log_brings_its_roles(log):
    """Group and label columns come from a Log; several kinds of positive count as one."""
    label = log["label"].to_numpy() * np.random.default_rng(8).integers(1, 3, log.num_rows)
    table = log.set_column(3, "y", pa.array(label)).rename_columns(["member", "arm", "g", "y"])
    table = table.append_column("score", [np.zeros(log.num_rows)])
    result = eo.experiment(eo.Log(table, group="g", label="y", outcomes=2))
    assert told(result, "b", metric="y").p_value == told(eo.experiment(log), "b").p_value


def test_crossed_groups_are_named_like_everywhere(log):
    """Several group columns give their combinations."""
    table = log.append_column("age", [np.random.default_rng(9).integers(0, 2, log.num_rows)])
    result = eo.experiment(table, group=["group", "age"])
    assert [one.group for one in result.comparisons][:5] == ["a × 0", "a × 1", "b × 0", "b × 1", "all"]


def test_a_metric_without_variance_is_told_not_tested(log):
    """A constant has no p-value and takes no part in the correction."""
    result = eo.experiment(log.append_column("none", [np.zeros(log.num_rows)]), metrics=["label", "none"])
    constant = told(result, "a", metric="none")
    assert (constant.p_value, constant.adjusted, constant.interval) == (None, None, None)
    assert constant.words == "no variance"
    assert told(result, "b").adjusted == told(eo.experiment(log), "b").adjusted
    assert "none per member: a no variance" in result.verdict
    json.dumps(result.to_dict(), allow_nan=False)


def test_a_change_from_zero_has_no_percentage(log):
    """With nothing in the control a change is seen, and its lift is left open."""
    arm = np.array(log["arm"].to_pylist()) == "fair"
    table = log.append_column("new", [log["label"].to_numpy() * arm])
    found = told(eo.experiment(table, metrics=["new"]), "b", metric="new")
    assert found.words == "up from zero"
    assert found.interval is None
    json.dumps(found.to_dict(), allow_nan=False)


def changed(table, name, values):
    return table.set_column(table.column_names.index(name), name, pa.array(values))


@pytest.mark.parametrize(
    ("change", "options", "said"),
    [
        (lambda t: changed(t, "arm", ["x"] * t.num_rows), {}, r"only one arm \(x\)"),
        (lambda t: changed(t, "member", t["arm"].to_pylist()), {}, "has one unit in column 'member'"),
        (
            lambda t: changed(t, "member", [None, *t["member"].to_pylist()[1:]]),
            {},
            "null .* 'member'.* row 0",
        ),
        (lambda t: changed(t, "arm", ["", *t["arm"].to_pylist()[1:]]), {}, "empty text in column 'arm'"),
        (lambda t: changed(t, "label", np.full(t.num_rows, np.nan)), {}, "NaN or infinite value"),
        (lambda t: changed(t, "label", ["x"] * t.num_rows), {}, "expected numbers or booleans"),
        (lambda t: changed(t, "member", t["member"].to_numpy() / 2), {}, "expected text or whole numbers"),
        (lambda t: changed(t, "member", t["member"].to_numpy() // 7), {}, "are in more than one arm"),
        (lambda t: t.slice(0, 0), {}, "empty"),
        (lambda t: t.drop_columns(["arm"]), {}, "no column 'arm' for arm"),
        (lambda t: t, {"unit": "membr"}, "did you mean 'member'"),
        (lambda t: t, {"metrics": ["lable"]}, "did you mean 'label'"),
        (lambda t: t, {"control": "contrl"}, "no arm 'contrl'.*did you mean 'control'"),
        (lambda t: t, {"split": {"control": 1}}, "split must give a share"),
        (lambda t: t, {"confidence": 95}, "confidence"),
        (lambda t: t, {"group_of": "x"}, "group_of"),
    ],
)
def test_bad_input_is_refused_in_one_line(log, change, options, said):
    """Each problem is named in one line."""
    with pytest.raises(eo.EvenoddsError, match=said) as caught:
        eo.experiment(change(log), **options)
    assert "\n" not in str(caught.value)


def test_few_units_are_said_to_be_few():
    """Arms below 30 units get a note."""
    result = eo.experiment(draw(np.random.default_rng(10), 40))
    assert any("intervals are rough" in note for note in result.notes)


def test_the_command_prints_a_readout_or_json(log, tmp_path, capsys):
    """`evenodds experiment` prints what the function returns, as text or as JSON."""
    pq.write_table(log, tmp_path / "log.parquet")
    path = str(tmp_path / "log.parquet")
    with pytest.raises(SystemExit) as done:
        main(["experiment", path, "--arm", "arm", "--unit", "member"])
    assert done.value.code == 0
    assert capsys.readouterr().out.strip() == str(eo.experiment(path)).strip()
    with pytest.raises(SystemExit):
        main(["experiment", path, "--metric", "label", "--split", "control=1,fair=1", "--json"])
    found = json.loads(capsys.readouterr().out)
    assert found == eo.experiment(path).to_dict()
    assert list(found["comparisons"][0]) == [
        "arm",
        "group",
        "metric",
        "per",
        "control",
        "treated",
        "lift",
        "interval",
        "p_value",
        "adjusted",
        "changed",
        "verdict",
    ]


@pytest.mark.parametrize("arguments", [["--unit", "nobody"], ["--split", "half"], ["--control", "x"]])
def test_the_command_refuses_in_one_line(log, tmp_path, capsys, arguments):
    """Bad input ends the command with one line and exit code 2."""
    pq.write_table(log, tmp_path / "log.parquet")
    with pytest.raises(SystemExit) as done:
        main(["experiment", str(tmp_path / "log.parquet"), *arguments])
    assert done.value.code == 2
    said = capsys.readouterr().err
    assert said.startswith("evenodds: ")
    assert said.count("\n") == 1
