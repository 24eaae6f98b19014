import json
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from scipy.stats import t as student

import evenodds as eo
from evenodds.cli import main
from evenodds.engines.arrow import FOLDS
from evenodds.grid import Grid
from evenodds.keys import fold_of
from evenodds.log import Log
from oracles import forecast_rows
from worlds import decay, draw

W = {j: float(weight) for j, weight in enumerate(decay(12), start=1)}


@pytest.fixture(scope="module")
def log():
    return draw(np.random.default_rng(1), 600, (5, 12))


@pytest.fixture(scope="module")
def exact(log):
    """Fit with w given, so that nothing about w is uncertain."""
    return eo.EqualOpportunity(position_bias=list(W.values())).fit(log)


@pytest.fixture(scope="module")
def fitted(log):
    return eo.EqualOpportunity().fit(log)


def raw(table, model, keys=None):
    """Return the rows as dictionaries, with their cell and their fair score."""
    cell = Grid.from_sample(Log(table).score_sample(), 200).locate(table["score"].to_numpy())
    fair = model.transform(table["score"].to_numpy(), table["group"], keys=keys)
    rows = table.to_pylist()
    for row, own, value in zip(rows, cell, fair, strict=True):
        row["cell"], row["fair"] = int(own), float(value)
    return rows


def assert_agrees(result, rows, w=W):
    expected = forecast_rows.forecast(rows, w)
    assert [group.group for group in result.groups] == list(expected)
    for group in result.groups:
        found = (
            group.positives.before,
            group.positives.after,
            group.exposure.before,
            group.exposure.after,
        )
        assert found == pytest.approx(expected[group.group], rel=1e-9)


def column(table, name, values):
    return table.set_column(table.column_names.index(name), name, pa.array(values))


def test_a_forecast_is_that_of_the_raw_rows(log, exact):
    """Positives and exposure agree with loops over dictionaries."""
    assert_agrees(eo.forecast(exact, log), raw(log, exact))


def test_rows_of_a_query_may_be_scattered(log, exact):
    """Any order of rows gives the same forecast."""
    shuffled = log.take(np.random.default_rng(0).permutation(log.num_rows))
    one, two = (eo.forecast(exact, part).to_dict() for part in (log, shuffled))
    assert json.dumps(one) == json.dumps(two)


def test_draws_are_those_of_the_keys(log):
    """A model that draws puts each row where `transform` with the same keys does."""
    rng = np.random.default_rng(3)
    table = log.append_column("item", [rng.integers(0, 10**9, log.num_rows)])
    model = eo.EqualizedOdds(bins=10, position_bias=list(W.values())).fit(table)
    keys = (table["query"].to_numpy(), table["item"].to_numpy())
    assert_agrees(eo.forecast(model, table), raw(table, model, keys))


def test_files_in_many_pieces_are_read_as_one_log(log, exact, tmp_path):
    """Row groups and several files change nothing."""
    pq.write_table(log.slice(0, 1000), tmp_path / "a.parquet", row_group_size=333)
    pq.write_table(log.slice(1000), tmp_path / "b.parquet", row_group_size=501)
    result = eo.forecast(exact, [str(tmp_path / "a.parquet"), str(tmp_path / "b.parquet")])
    assert result.to_dict() == eo.forecast(exact, log).to_dict()


def test_before_is_what_was_observed(log, fitted):
    """The old expectation is the positives in the log, and all rows together keep their exposure."""
    result = eo.forecast(fitted, log)
    label, group = log["label"].to_numpy(), np.array(log["group"].to_pylist())
    assert [part.positives.before for part in result.groups] == [label[group == g].sum() for g in "ab"]
    assert result.overall.positives.before == label.sum()
    assert result.overall.positives.after == pytest.approx(sum(g.positives.after for g in result.groups))
    assert result.overall.exposure.change == pytest.approx(0, abs=1e-12)


def test_a_model_that_changes_nothing_is_forecast_to_change_nothing(log):
    """With alpha 0 every row stays where it was, for certain."""
    result = eo.forecast(eo.EqualOpportunity(alpha=0.0).fit(log), log)
    for group in (*result.groups, result.overall):
        assert group.positives.relative == pytest.approx(0, abs=1e-12)
        assert group.positives.relative_interval == pytest.approx((0, 0), abs=1e-12)


def test_the_interval_is_a_jackknife_over_folds_of_queries(log, exact):
    """With w known, the interval's half width is t(19) times the jackknife error on raw rows."""
    result = eo.forecast(exact, log)
    queries = np.unique(log["query"].to_numpy())
    folds = dict(zip(queries.tolist(), fold_of(queries, FOLDS).tolist(), strict=True))
    errors = forecast_rows.standard_errors(raw(log, exact), W, folds)
    for group in result.groups:
        low, high = group.positives.relative_interval
        assert (high - low) / 2 == pytest.approx(student.ppf(0.975, 19) * errors[group.group], rel=1e-6)


def test_what_is_not_known_of_w_widens_the_interval(log, exact, fitted):
    """Intervals with a fitted w are wider than with a w that was given."""

    def width(model):
        low, high = eo.forecast(model, log).groups[1].positives.relative_interval
        return high - low

    assert width(fitted) > 1.5 * width(exact)


def test_a_model_from_a_file_gives_the_same_forecast(log, fitted, tmp_path):
    """Saving and loading a model loses nothing that a forecast needs."""
    fitted.save(tmp_path / "m.json")
    one, two = (eo.forecast(model, log).overall for model in (fitted, eo.load(tmp_path / "m.json")))
    assert one.positives.after == pytest.approx(two.positives.after, rel=1e-4)
    assert one.positives.relative_interval == pytest.approx(two.positives.relative_interval, rel=0.01)


def test_a_position_bias_that_does_not_fit_the_log_is_noted(log, fitted):
    """A log of another bias than the model's is told apart; the log of the fit raises nothing."""
    steep = draw(np.random.default_rng(4), 6000, (5, 12), weights=decay(12) ** 3)
    assert any("does not fit this log" in note for note in eo.forecast(fitted, steep).notes)
    assert eo.forecast(fitted, log).notes == ()


@pytest.mark.filterwarnings("ignore::evenodds.SmallGroupWarning")
@pytest.mark.parametrize("criterion", ["opportunity", "odds"])
def test_intervals_cover_the_truth_of_fresh_lists(criterion):
    """On the fit's log, another and a small one, 7 of 8 intervals cover it (bench/forecast_coverage.py runs 100)."""
    sys.path.insert(0, str(Path(__file__).parents[1] / "bench"))
    try:
        from forecast_coverage import coverage
    finally:
        sys.path.pop(0)
    for found in coverage(criterion, 800, 8, fresh=3000):
        assert found["covered"]["all"] >= 7, found["log"]
        assert abs(found["mean_error"]["all"]) < found["mean_width"]["all"] / 4, found["log"]


def test_row_weights_scale_positives_and_nothing_else(log, exact):
    """Rows that count twice double the positives; relative changes and exposure stay."""
    doubled = log.append_column("weight", [np.full(log.num_rows, 2.0)])
    one, two = eo.forecast(exact, log).overall, eo.forecast(exact, doubled).overall
    assert two.positives.after == pytest.approx(2 * one.positives.after)
    assert two.positives.relative_interval == pytest.approx(one.positives.relative_interval)


def test_kinds_of_positive_add_up(log, exact):
    """With several outcomes each gets its forecast, and before they sum to all positives."""
    label = log["label"].to_numpy() * np.random.default_rng(5).integers(1, 3, log.num_rows)
    result = eo.forecast(exact, column(log, "label", label), outcomes=2)
    for group in result.groups:
        assert len(group.outcomes) == 2
        assert sum(kind.before for kind in group.outcomes) == group.positives.before
    assert set(result.to_dict()["groups"][0]["outcomes"]) == {"1", "2"}
    assert "outcome 2" in str(result)


def test_few_cut_off_lists_share_out_their_slots(log, exact):
    """A list with gaps is re-ranked among the positions it holds, and said to be cut off."""
    kept = np.ones(log.num_rows, dtype=bool)
    kept[[3, 50, 51]] = False
    thinned = log.filter(pa.array(kept))
    result = eo.forecast(exact, thinned)
    assert 1 <= result.cut_off <= 3
    assert any("lack positions" in note for note in result.notes)
    assert_agrees(result, raw(thinned, exact))


def test_unseen_groups_are_named(log, exact):
    """A group that the model has not seen is forecast as the model treats it, and noted."""
    group = np.array(log["group"].to_pylist(), dtype=object)
    group[::9] = "new"
    result = eo.forecast(exact, column(log, "group", group))
    assert any("group new is not in the model" in note for note in result.notes)
    strict = eo.EqualOpportunity(unknown="error").fit(log)
    with pytest.raises(eo.UnknownGroupError):
        eo.forecast(strict, column(log, "group", group))


def cut_clicked(log):
    return log.filter(pa.array(log["label"].to_numpy() == 1))


def cut_top(log):
    return log.filter(pa.array(log["position"].to_numpy() > 1))


def cut_sample(log):
    return log.filter(pa.array(np.random.default_rng(0).random(log.num_rows) < 0.5))


def one_query(log):
    return column(log, "query", np.zeros(log.num_rows, np.int64))


@pytest.mark.parametrize("cut", [cut_clicked, cut_top, cut_sample, one_query])
def test_logs_whose_lists_are_cut_off_are_refused(log, exact, cut):
    """Only clicked rows, no top, a sample of rows, one id for all: refused with the share, unless told."""
    with pytest.raises(eo.LogError, match=r"queries \(\d.* %\) do not hold each of the positions 1, 2, "):
        eo.forecast(exact, cut(log))
    assert eo.forecast(exact, cut(log), max_cut_off=1).cut_off > 0


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda t: t.drop_columns(["query"]), "no query column"),
        (lambda t: t.drop_columns(["position"]), "no position column"),
        (lambda t: column(t, "position", t["position"].to_numpy() - 1), "positions start at 0 in the log"),
        (lambda t: column(t, "label", np.zeros(t.num_rows, np.int8)), "no positive label"),
        (lambda t: column(t, "label", np.full(t.num_rows, 7)), "label outside"),
        (lambda t: column(t, "score", np.full(t.num_rows, np.nan)), "NaN or infinite score"),
        (lambda t: column(t, "query", [None, *t["query"].to_pylist()[1:]]), "null in column 'query'"),
        (lambda t: t.slice(0, 0), "empty"),
    ],
)
def test_bad_logs_are_refused_in_one_line(log, exact, change, said):
    """Each problem is named in one line."""
    with pytest.raises(eo.EvenoddsError, match=said) as caught:
        eo.forecast(exact, change(log))
    assert "\n" not in str(caught.value)


def test_bad_settings_are_refused(log, exact):
    """An unfitted model, odd shares and missing keys are refused."""
    with pytest.raises(eo.EvenoddsError, match="not fitted"):
        eo.forecast(eo.EqualOpportunity(), log)
    with pytest.raises(eo.SettingsError, match="confidence"):
        eo.forecast(exact, log, confidence=95)
    with pytest.raises(eo.SettingsError, match="max_cut_off"):
        eo.forecast(exact, log, max_cut_off=2)
    with pytest.raises(eo.LogError, match="no column 'querry' for key, did you mean 'query'"):
        eo.forecast(exact, log, keys=["querry"])


def test_a_model_without_position_bias_needs_one(log):
    """Such a model cannot tell one ranking from another; the log's own estimate can stand in."""
    model = eo.EqualOpportunity(position_bias="none").fit(log)
    with pytest.raises(eo.SettingsError, match="no position bias"):
        eo.forecast(model, log)
    assert eo.forecast(model, log, position_bias="joint").groups[1].positives.change != 0


def test_few_queries_are_said_to_be_few(exact):
    """With queries in few folds intervals are called rough; in one fold there are none."""
    small = draw(np.random.default_rng(2), 4, (12, 12))
    assert any("folds hold queries" in note for note in eo.forecast(exact, small).notes)
    one = eo.forecast(exact, draw(np.random.default_rng(2), 1, (12, 12)))
    assert one.overall.positives.relative_interval is None
    assert "-" in str(one)


def test_the_command_prints_a_table_or_json(log, fitted, tmp_path, capsys):
    """`evenodds forecast` prints what the function returns, as text or as JSON."""
    pq.write_table(log, tmp_path / "log.parquet")
    fitted.save(tmp_path / "m.json")
    paths = [str(tmp_path / "m.json"), str(tmp_path / "log.parquet")]
    with pytest.raises(SystemExit) as done:
        main(["forecast", *paths])
    assert done.value.code == 0
    assert str(eo.forecast(eo.load(paths[0]), paths[1])) in capsys.readouterr().out
    with pytest.raises(SystemExit):
        main(["forecast", *paths, "--json"])
    found = json.loads(capsys.readouterr().out)
    assert found == eo.forecast(eo.load(paths[0]), paths[1]).to_dict()
    assert list(found) == [
        "rows",
        "queries",
        "cut_off_queries",
        "confidence",
        "criterion",
        "alpha",
        "all",
        "groups",
        "notes",
    ]


@pytest.mark.parametrize(
    ("change", "said"),
    [(cut_clicked, "--max-cut-off"), (lambda t: t.drop_columns(["query"]), "no query column: a forecast")],
)
def test_the_command_refuses_in_one_line(log, fitted, tmp_path, capsys, change, said):
    """A log that cannot be re-ranked ends the command with one line and exit code 2."""
    pq.write_table(change(log), tmp_path / "log.parquet")
    fitted.save(tmp_path / "m.json")
    with pytest.raises(SystemExit) as done:
        main(["forecast", str(tmp_path / "m.json"), str(tmp_path / "log.parquet")])
    assert done.value.code == 2
    told = capsys.readouterr().err
    assert told.startswith("evenodds: ")
    assert told.count("\n") == 1
    assert said in told
