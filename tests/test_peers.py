"""Failures that were measured in LiFT, fairlearn and AIF360: none of them happens here."""

import warnings

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import evenodds as eo
from evenodds.distance import ks_distance
from worlds import decay, draw


def test_tied_quantiles_make_no_nan_on_the_original_scale():
    """Scores with long runs of ties go back to the original scale without a single NaN."""
    rng = np.random.default_rng(0)
    score = np.where(rng.random(50_000) < 0.6, np.round(rng.random(50_000), 1), rng.random(50_000))
    table = pa.table(
        {
            "score": score,
            "group": np.array(["a", "b"])[rng.integers(0, 2, 50_000)],
            "label": (rng.random(50_000) < score).astype(int),
        }
    )
    for cells in (10_000, 50):
        model = eo.EqualOpportunity().fit(eo.tally(table, cells=cells))
        fair = model.transform(score, table["group"], keys=np.arange(50_000))
        assert np.isfinite(fair).all()
        assert score.min() - 1e-6 <= fair.min() <= fair.max() <= score.max() + 1e-6


@pytest.mark.parametrize("method", ["joint", "adjacent", "randomized", "swaps"])
def test_a_position_without_positives_gives_no_infinity(method):
    """A position where nobody clicked leaves every weight finite and above 0, for every estimator."""
    log = draw(np.random.default_rng(1), 2_000, order="swapped")
    label = np.where(np.isin(log["position"].to_numpy(), [4, 10]), 0, log["label"].to_numpy())
    log = log.set_column(log.column_names.index("label"), "label", [label])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", eo.HomogeneityWarning)  # as it should
        bias = eo.position_bias(eo.tally(log, cells=100, swap="swap"), method)
        model = eo.EqualOpportunity(position_bias=method).fit(eo.tally(log, cells=100, swap="swap"))
    assert bias.positions.tolist() == list(range(1, 11))
    assert np.isfinite(bias.weights).all()
    assert (bias.weights > 0).all()
    assert np.isfinite(bias.standard_errors).all()
    assert np.isfinite(model.transform(log["score"], log["group"])).all()


@pytest.mark.parametrize("method", ["joint", "randomized", "adjacent"])
def test_cutting_half_of_the_lists_does_not_move_the_bias(method):
    """With half of the lists cut at 25, w at 25 and 26 does not halve, as a ratio over all lists does."""
    whole = draw(np.random.default_rng(2), 4_000, lengths=(40, 40), order="shuffled")
    cut = whole.filter((whole["query"].to_numpy() % 2 == 0) | (whole["position"].to_numpy() <= 25))
    before, after = (eo.position_bias(eo.tally(log, cells=200), method) for log in (whole, cut))
    for place in (24, 25, 39):
        spread = np.hypot(before.standard_errors[place], after.standard_errors[place])
        assert abs(after.weights[place] - before.weights[place]) < 4 * spread
    clicks = np.bincount(cut["position"].to_numpy(), cut["label"].to_numpy(), minlength=41)
    naive = clicks[26] / clicks[1]  # per list, whether it reaches so far or not
    assert naive < 0.6 * decay(40)[25]


def test_the_first_draw_obeys_its_seed(tied):
    """The very first draw of a fresh process, and every later one, is that of the key or the seed."""
    model = eo.EqualOpportunity().fit(tied)
    first = model.transform([0.5] * 3, ["a"] * 3, seed=7)
    model.transform([0.5] * 9, ["b"] * 9, seed=1)
    assert (model.transform([0.5] * 3, ["a"] * 3, seed=7) == first).all()
    fresh = eo.EqualOpportunity().fit(tied)
    assert (fresh.transform([0.5] * 3, ["a"] * 3, seed=7) == first).all()


def test_the_result_does_not_depend_on_the_number_of_parts(tied, tmp_path):
    """One file or twenty, in one order or another: the model's tables and draws are the same."""
    tables = []
    for parts in (1, 20):
        folder = tmp_path / str(parts)
        folder.mkdir()
        for part in range(parts):
            rows = tied.take(np.arange(part, tied.num_rows, parts))
            pq.write_table(rows, folder / f"{part:02}.parquet")
        tables.append(eo.EqualOpportunity().fit(folder))
    one, twenty = tables
    assert one.to_dict()["tables"] == twenty.to_dict()["tables"]
    columns = tied["score"], tied["group"]
    assert (one.transform(*columns, keys=tied["item"]) == twenty.transform(*columns, keys=tied["item"])).all()


def test_the_original_scale_is_that_of_all_rows(fitted, simulated):
    """Fair scores are distributed as all scores were, not as those of positives."""
    fair = fitted.transform(simulated["score"], simulated["group"])
    score, label = simulated["score"].to_numpy(), simulated["label"].to_numpy()
    assert ks_distance(fair, score) < 0.005
    assert ks_distance(score[label == 1], score) > 0.2


def test_rows_of_unlisted_groups_are_kept(fitted):
    """Every row that goes in comes out, also of groups that are null or were never seen."""
    groups = ["A", None, "B", "Z", float("nan")] * 50
    fair = fitted.transform(np.linspace(0, 3, 250), groups)
    assert fair.shape == (250,)
    assert np.isfinite(fair).all()


def test_weights_have_an_effect():
    """Row weights reach the position bias, the maps and the audit: leaving them out changes each."""
    log = draw(np.random.default_rng(3), 3_000)
    weight = np.where(log["position"].to_numpy() > 5, 4.0, 1.0) * np.where(
        log["score"].to_numpy() > 0.5, 3.0, 1.0
    )
    weight *= np.where(log["label"].to_numpy() == 1, 1.0, 2.0)
    heard = log.append_column("weight", [weight])
    found = []
    for column in ("weight", None):
        counts = eo.tally(heard, cells=300, weight=column)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", eo.HomogeneityWarning)
            model = eo.EqualOpportunity().fit(counts)
            found.append(
                (
                    model.position_bias_.weights,
                    model.transform([0.3, 0.6], ["a", "b"]),
                    eo.audit(counts).unfairness(0),
                )
            )
    for with_weights, without in zip(*found, strict=True):
        assert not np.allclose(with_weights, without, rtol=1e-3)


def test_an_unseen_group_is_not_answered_with_zero(fitted):
    """An unseen group gets the pooled map: finite scores in the log's range, in order, and not 0."""
    scores = np.linspace(0.5, 3, 40)
    fair = fitted.transform(scores, ["Z"] * 40)
    assert (np.diff(fair) > 0).all()
    assert (fair > 0).all()
    assert np.abs(fair - scores).max() < 2


@pytest.mark.parametrize("rows", [300, 6_000], ids=["request", "batch"])
def test_single_calls_answer_as_the_batch_does(tied, rows):
    """One row at a time gives what all rows at once give, bit for bit, in small and in large batches."""
    model = eo.EqualOpportunity().fit(tied)
    scores, groups, keys = (tied[name].slice(0, rows) for name in ("score", "group", "item"))
    whole = model.transform(scores, groups, keys=keys)
    names, values, ids = groups.to_pylist(), scores.to_pylist(), keys.to_pylist()
    for i in range(0, rows, rows // 60):
        assert model.transform([values[i]], [names[i]], keys=[ids[i]])[0] == whole[i]
