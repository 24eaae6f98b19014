"""Has the correction stopped being fair: no false alarms, known drifts found, numbers as from rows."""

import importlib.util
import json
import sys
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import evenodds as eo
from evenodds.cli import main
from evenodds.drift import SCHEMA
from evenodds.drift.sides import ALL
from evenodds.drift.twosample import Noise
from evenodds.grid import Grid
from oracles.drift_rows import moved
from worlds import decay, draw

spec = importlib.util.spec_from_file_location(
    "drift_level", Path(__file__).parents[2] / "bench" / "drift_level.py"
)
bench = sys.modules["drift_level"] = importlib.util.module_from_spec(spec)
spec.loader.exec_module(bench)
BEFORE, CASES, World = bench.BEFORE, bench.CASES, bench.World


@pytest.fixture(scope="module")
def old():
    """Ten thousand lists of ten, ranked by the score."""
    return eo.tally(BEFORE.log(np.random.default_rng(0), 10_000, None), cells=1_000)


@pytest.fixture(scope="module")
def model(old):
    return eo.EqualOpportunity().fit(old)


@pytest.fixture(scope="module")
def newer(old, model):
    """Draw a newer log of each case, ranked by the fair score."""
    return {
        name: eo.tally(case.log(np.random.default_rng(place), 10_000, model.transform), grid=old)
        for place, (name, case) in enumerate(CASES.items(), 1)
    }


def test_without_a_drift_nothing_is_found(old, model, newer):
    """A log of the same world, though ranked by the fair score, has not changed in any way that matters."""
    found = eo.drift(old, newer["no drift"], model, limit=0.1)
    assert found.status == "holds"
    assert found.changes == []
    assert "still holds" in found.verdict()
    # Logged positives do change with the ranking, and are told without being tested.
    rates = {(rate.name, rate.group): rate for rate in found.rates}
    assert abs(rates["positive_rate", "a"].ratio.value - 1) > 0.02
    assert rates["positive_rate", "a"].p_adjusted is None


def test_scores_that_fall_are_a_drift_with_a_reason(old, model, newer):
    """When a group's scores fall the correction has drifted, and the verdict names the group."""
    found = eo.drift(old, newer["scores of b fall"], model)
    assert found.status == "drifted"
    assert found.unfairness.low > 0.05
    assert "scores of positives of b moved by 0." in found.verdict()
    matter = {(one.group, one.label) for one in found.distributions if one.matters}
    assert matter == {("b", 1), ("b", ALL)}


def test_other_position_bias_is_a_change_that_leaves_the_correction_fair(old, model, newer):
    """Users who look further down change w, which is found at all positions at once; nothing is unfair."""
    found = eo.drift(old, newer["users look further down"], model, limit=0.1)
    assert found.status == "holds"
    assert found.weights.matters
    assert "position bias at" in found.verdict()
    deep = found.weights.positions[-1]
    truth = (1 / np.log2(11)) ** 0.6 / (1 / np.log2(11))
    assert deep.ratio.low < truth < deep.ratio.high


def test_other_base_rates_leave_the_correction_fair(old, model, newer):
    """Group b's merit up by a third is found in its merit rate, and does no harm to the correction."""
    found = eo.drift(old, newer["merit of b up by a third"], model, limit=0.1)
    assert found.status == "holds"
    rates = {(rate.name, rate.group): rate for rate in found.rates}
    assert rates["merit_rate", "b"].matters
    assert not rates["merit_rate", "a"].matters
    assert rates["merit_rate", "b"].ratio.low < 1.33 < rates["merit_rate", "b"].ratio.high


def test_false_alarms_are_rare():
    """In 40 pairs of logs without a drift, tests reject about as often as they may, and none is "drifted"."""
    found = [
        bench.compared(BEFORE, seed, (500, 2_000), stored=seed % 2 == 1, limit=0.05) for seed in range(40)
    ]
    assert not any(one.status == "drifted" for one in found)
    changed = [any(pair.p_adjusted < 0.05 for pair in one.pairs) for one in found]
    some = [any(p is not None and p < 0.05 for p in every(one)) for one in found]
    # Five percent of 40 are 2; seven or more come by chance once in two hundred times.
    assert sum(changed) <= 6
    assert sum(some) <= 6


def every(found):
    return [part.p_adjusted for part in (*found.distributions, found.weights, *found.rates) if part]


def test_unfairness_is_the_audits(old, newer):
    """The distance under the model is what an audit of the newer log finds with its own position bias."""
    model = eo.EqualOpportunity(position_bias=decay(10)).fit(old)
    new = newer["scores of b fall"]
    found = eo.drift(old, new, model)
    expected = eo.audit(new, model).distances
    pair = next(one for one in expected if one.label == 1 and one.kind == "merit")
    assert found.unfairness.value == pytest.approx(pair.after, abs=1e-12)
    now, same = found.pairs[0].now, pair.fair.ks
    assert now.low == pytest.approx(same.low, abs=1e-3)
    assert now.high == pytest.approx(same.high, abs=1e-3)
    assert found.weights is None  # given weights do not change


def test_distances_are_the_oracles():
    """KS and W1 between old and new are those computed row by row, positives weighted by 1 / w."""
    rng = np.random.default_rng(5)
    then = draw(rng, 400)
    now = draw(rng, 300, rate=lambda s, g: 0.2 + 0.3 * s + 0.3 * (g == 1))
    counted = eo.tally(then, cells=50)
    found = eo.drift(counted, eo.tally(now, grid=counted), position_bias=decay(10))
    columns = [{name: log[name].to_numpy() for name in log.column_names} for log in (then, now)]
    ends = counted.grid.boundaries
    for one in found.distributions:
        rows = []
        for column in columns:
            own = np.array(column["group"].tolist()) == one.group
            if one.label != ALL:
                own &= column["label"] == one.label
            weight = 1 / decay(10)[column["position"][own] - 1] if one.label == 1 else np.ones(own.sum())
            rows.append((column["score"][own].tolist(), weight.tolist()))
        ks, w1 = moved(*rows, ends.tolist())
        assert one.ks.value == pytest.approx(ks, abs=1e-12)
        assert one.wasserstein.value == pytest.approx(w1, rel=1e-3)  # ends of the outermost cells apart


def test_a_model_file_stands_for_its_log(model, newer, tmp_path):
    """A model read from a file gives the same verdicts: its curves, weights and counts suffice."""
    model.save(tmp_path / "model.json")
    loaded = eo.load(tmp_path / "model.json")
    assert eo.drift(loaded, newer["no drift"], limit=0.1).status == "holds"
    found = eo.drift(loaded, newer["scores of b fall"])
    assert found.status == "drifted"
    assert [one.group for one in found.distributions if one.matters] == ["b"]
    assert eo.drift(loaded, newer["users look further down"], limit=0.1).weights.matters
    assert any("errors are taken from the newer one" in note for note in found.notes)
    assert found.old["kind"] == "model"


def test_a_newer_log_is_counted_in_the_old_cells(model, tmp_path):
    """A log is counted in the cells of the tally, or of the model that stands for it."""
    log = BEFORE.log(np.random.default_rng(9), 3_000, None)
    model.save(tmp_path / "model.json")
    for source in (model, eo.load(tmp_path / "model.json")):
        found = eo.drift(source, log, limit=0.2)
        assert found.status == "holds"
        assert len(found.distributions) >= 2


def test_other_cells_are_compared_where_they_meet_or_refused(old, newer):
    """A coarser grid with the same boundaries will do; one without any is refused with a hint."""
    new = newer["no drift"]
    thinned, kept = old.grid.thinned(100)
    log = BEFORE.log(np.random.default_rng(1), 10_000, None)
    coarse = eo.tally(log, grid=Grid(old.grid.boundaries[kept], thinned.atoms))
    assert not any(one.matters for one in eo.drift(old, coarse).distributions)
    other = eo.tally(log, grid=Grid(old.grid.boundaries + 1e-9, old.grid.atoms))
    with pytest.raises(eo.GridMismatchError, match="--grid-from"):
        eo.drift(old, other)
    assert eo.drift(old, new).status in {"unchanged", "unsure"}


def test_a_correction_that_never_was_fair_has_not_drifted():
    """Fitted on few rows it is off from the start; that is said to be unfair, not to have changed."""
    rng = np.random.default_rng(3)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        first = eo.tally(BEFORE.log(rng, 150, None), cells=200)
        model = eo.EqualOpportunity(position_bias=decay(10)).fit(first)
        found = eo.drift(first, eo.tally(BEFORE.log(rng, 20_000, None), grid=first), model, limit=0.02)
    assert found.status == "unfair"
    assert "not shown to have changed" in found.verdict()


def test_a_new_group_without_a_map_is_a_drift(old, model):
    """A group that the model has not seen gets the pooled map; the verdict names it."""
    log = BEFORE.log(np.random.default_rng(4), 10_000, None)
    group = np.array(log["group"].to_pylist())
    renamed = np.where((group == "b") & (np.arange(group.size) % 2 == 0), "c", group)
    log = log.set_column(log.column_names.index("group"), "group", pa.array(renamed))
    found = eo.drift(old, eo.tally(log, grid=old), model)
    assert found.appeared == ("c",)
    assert found.status == "drifted"
    assert "new group c" in found.verdict()
    assert eo.drift(eo.tally(log, grid=old), old).vanished == ("c",)


def test_too_few_rows_are_said(old, model):
    """Of a hundred lists nothing can be told; of a few positives neither."""
    small = eo.tally(BEFORE.log(np.random.default_rng(2), 100, None), grid=old)
    found = eo.drift(old, small, model)
    assert found.status == "unsure"
    assert "cannot tell" in found.verdict()
    assert "times as many rows would tell" in found.verdict()


def test_logs_without_queries_or_positions(tied):
    """Without queries there is a note; without positions nothing about w, and observed labels are judged."""
    half = tied.num_rows // 2
    counted = eo.tally(tied.slice(0, half))
    model = eo.EqualOpportunity().fit(counted)
    found = eo.drift(counted, tied.slice(half), model, limit=0.2)
    assert found.weights is None
    assert found.kind == "observed"
    assert found.status == "holds"
    assert any("names no queries" in note for note in found.notes)


@pytest.mark.parametrize("settings", [{}, {"target": "observed"}])
def test_equalized_odds_are_judged_given_each_label(old, newer, settings):
    """What the model promises counts: both labels; scores that fall break it."""
    odds = eo.EqualizedOdds(bins=20, **settings).fit(old)
    found = eo.drift(old, newer["scores of b fall"], odds)
    assert {pair.label for pair in found.pairs} == {0, 1}
    assert found.status == "drifted"
    assert eo.drift(old, newer["no drift"], odds, limit=0.3).status == "holds"
    odds.tally_ = None
    stored = eo.drift(odds, newer["scores of b fall"])
    assert stored.distributions == ()
    assert any("keeps no score distributions" in note for note in stored.notes)


def test_part_of_the_way_counts_from_where_the_fit_left_it(old, newer):
    """A model with alpha 0.5 left unfairness on purpose; that alone is no drift."""
    half = eo.EqualOpportunity(alpha=0.5).fit(old)
    found = eo.drift(old, newer["no drift"], half, limit=0.1)
    assert found.left > 0.02
    assert found.status == "holds"


def test_logs_that_say_nothing_about_each_other_are_refused(old, model, mixed):
    """Other group columns, no positions, other outcomes: one line each."""
    with pytest.raises(eo.GridMismatchError, match="group columns differ"):
        eo.drift(old, eo.tally(mixed, group=["group", "age"]), model)
    log = BEFORE.log(np.random.default_rng(1), 100, None)
    with pytest.raises(eo.GridMismatchError, match="a position column differ, True before and False now"):
        eo.drift(old, log.drop(["position"]), model)
    with pytest.raises(eo.SettingsError, match="limit"):
        eo.drift(old, old, limit=2)


def test_the_log_fitted_on_is_recognised(old, model):
    """Compared with itself a model looks fair; a note says so."""
    assert any("fitted on" in note for note in eo.drift(old, old, model).notes)


def test_json_is_plain_and_as_documented(old, model, newer):
    """Every key of the JSON stands in docs/drift.md, and there is no NaN in it."""
    told = eo.drift(old, newer["scores of b fall"], model).to_dict()
    text = json.dumps(told, allow_nan=False)
    assert json.loads(text)["schema"] == SCHEMA
    page = (Path(__file__).parents[2] / "docs" / "drift.md").read_text("utf-8")
    keys = set()

    def collect(value):
        if isinstance(value, dict):
            keys.update(value)
            for part in value.values():
                collect(part)
        if isinstance(value, list):
            for part in value:
                collect(part)

    collect(told)
    assert [key for key in sorted(keys) if f"`{key}`" not in page] == []


def test_welch_is_students_test_for_one_fold_pattern():
    """The p-value of one number is that of SciPy's Welch test on fold means."""
    from scipy.stats import ttest_ind

    rng = np.random.default_rng(0)
    one, two = rng.normal(0.0, 1.0, 20), rng.normal(0.8, 2.0, 20)
    expected = ttest_ind(one, two, equal_var=False).pvalue
    parts = [(part - part.mean()) / np.sqrt(part.size * (part.size - 1)) for part in (one, two)]
    found = Noise((20, 20), (20, 20), 1).p_of_one(two.mean() - one.mean(), np.concatenate(parts))
    assert found == pytest.approx(expected, rel=1e-9)


@pytest.fixture(scope="module")
def files(old, model, newer, tmp_path_factory):
    folder = tmp_path_factory.mktemp("drift")
    replace(old, sources=("old",)).save(folder / "old.tally")
    for name, new in newer.items():
        new.save(folder / f"{name.split()[0]}.tally")
    model.save(folder / "model.json")
    return folder


def run(capsys, *arguments):
    with warnings.catch_warnings(), pytest.raises(SystemExit) as stopped:
        main(["drift", *map(str, arguments)])
    out, err = capsys.readouterr()
    return stopped.value.code, out, err


def test_the_command_gates(files, capsys):
    """--fail-on compares how bad things are: 0 below it, 1 from it on."""
    old, model = files / "old.tally", files / "model.json"
    code, out, _ = run(capsys, old, files / "scores.tally", "--model", model, "--fail-on", "drifted")
    assert code == 1
    assert out.startswith("the correction has drifted")
    calm = (old, files / "no.tally", "--model", model, "--limit", "0.1")
    assert run(capsys, *calm, "--fail-on", "unsure")[0] == 0
    assert run(capsys, old, files / "no.tally", "--model", model, "--limit", "0.001")[0] == 0
    code, _, err = run(
        capsys, old, files / "no.tally", "--model", model, "--limit", "0.001", "--fail-on", "unsure"
    )
    assert code == 1
    assert "--fail-on unsure" in err
    code, out, _ = run(capsys, model, files / "scores.tally", "--json")
    assert code == 0
    assert json.loads(out)["status"] == "drifted"


def test_the_command_takes_logs_and_says_what_is_wrong(files, capsys, tmp_path):
    """A log as NEW takes its columns from OLD; what is neither tally nor model is said in one line."""
    import pyarrow.parquet as pq

    log = BEFORE.log(np.random.default_rng(8), 2_000, None).rename_columns(
        ["query", "position", "group", "score", "label"]
    )
    pq.write_table(log, tmp_path / "log.parquet")
    code, out, _ = run(capsys, files / "model.json", tmp_path / "log.parquet", "--limit", "0.3")
    assert (code, out.split(":")[0]) == (0, "the correction still holds")
    code, out, err = run(capsys, tmp_path / "log.parquet", files / "no.tally")
    assert code == 2
    assert out == ""
    assert "neither a tally nor a model" in err
    code, _, err = run(capsys, files / "old.tally", files / "no.tally", tmp_path / "log.parquet")
    assert code == 2
    assert "one or the other" in err
