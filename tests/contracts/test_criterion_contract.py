"""What every criterion must do. A new one joins by being a Reranker, with its settings below."""

import inspect

import numpy as np
import pyarrow as pa
import pytest

import evenodds as eo
from evenodds.reranker import Reranker
from worlds import draw

VARIANTS = [
    eo.EqualOpportunity(points=1_000),
    eo.EqualOpportunity(points=1_000, interpolation="cubic"),
    eo.EqualizedOdds(bins=20),
    eo.EqualizedOdds(bins=20, objective="auc"),
    eo.EqualizedOdds(bins=20, target="observed"),
]
VARIANT = pytest.mark.parametrize("variant", VARIANTS, ids=repr)
SCORES, GROUPS = np.linspace(0.0, 1.0, 400), np.array(["a", "b"] * 200)
KEYS = (np.arange(400) % 17, np.arange(400))


@pytest.fixture(scope="module")
def log():
    return draw(np.random.default_rng(0), 2_000)


@pytest.fixture(scope="module")
def tally(log):
    return eo.tally(log, cells=300)


def fitted(variant, tally, **changed):
    settings = {name: getattr(variant, name) for name in variant.settings}
    return type(variant)(**{**settings, **changed}).fit(tally)


def test_every_criterion_is_under_contract():
    """A criterion that is added stands among the variants here."""
    assert {type(variant) for variant in VARIANTS} == set(Reranker.kinds.values())


@VARIANT
def test_settings_are_the_arguments(variant):
    """Settings are attributes named like the arguments, all by keyword, as scikit-learn users expect."""
    signature = inspect.signature(type(variant)).parameters
    assert tuple(signature) == variant.settings
    assert all(parameter.kind == inspect.Parameter.KEYWORD_ONLY for parameter in signature.values())


@VARIANT
def test_it_does_what_it_promises_on_its_own_tally(variant, tally):
    """Groups are alike given the labels of the promise, to a thousandth, and were not before."""
    unfair = fitted(variant, tally).diagnostics_["unfairness"]
    assert unfair["before"] > 0.05
    assert unfair["after"] < (
        0.01 if variant.settings.count("target") and variant.target == "observed" else 0.001
    )


@VARIANT
def test_alpha_zero_leaves_every_score_alone(variant, tally):
    """At alpha 0 scores come out as they went in; at 1 they stay within the range of the log."""
    none, all_the_way = (fitted(variant, tally, alpha=alpha) for alpha in (0.0, 1.0))
    assert none.transform(SCORES, GROUPS, keys=KEYS).tolist() == SCORES.tolist()
    fair = all_the_way.transform(SCORES, GROUPS, keys=KEYS)
    low, high = tally.score_range
    assert (fair >= low).all()
    assert (fair <= high).all()


@VARIANT
def test_what_is_foreseen_loses_nobody(variant, tied):
    """The share of positives foreseen without position bias is the logged one at any alpha, ties at the ends too."""
    counts = eo.tally(tied)
    logged = counts.counts[:, 1].sum() / counts.rows
    rows = eo.sweep(variant, counts, alphas=(0.0, 0.5, 1.0))
    assert [row.prospect.positives for row in rows] == pytest.approx([logged] * 3, abs=1e-9)
    auc = eo.audit(counts).to_dict()["auc"]
    assert min(one["before"]["value"] for one in auc) < rows[0].prospect.auc
    assert rows[0].prospect.auc < max(one["before"]["value"] for one in auc)


@VARIANT
def test_an_item_does_not_depend_on_its_batch(variant, tally):
    """One by one, in reverse, or all at once: an item with its key gets the same score, to the bit."""
    model = fitted(variant, tally)
    together = model.transform(SCORES, GROUPS, keys=KEYS)
    back = model.transform(SCORES[::-1], GROUPS[::-1], keys=tuple(key[::-1] for key in KEYS))[::-1]
    alone = [
        model.transform(SCORES[i : i + 1], GROUPS[i : i + 1], keys=tuple(key[i : i + 1] for key in KEYS))[0]
        for i in range(0, 400, 37)
    ]
    assert together.tolist() == back.tolist()
    assert together[::37].tolist() == alone


@VARIANT
def test_the_same_log_gives_the_same_file(variant, log, tally, tmp_path):
    """Counted again in another order, fitted again: the same bytes; read back: the same scores."""
    shuffled = log.take(np.random.default_rng(1).permutation(log.num_rows))
    model = fitted(variant, tally)
    again = fitted(variant, eo.tally(shuffled, grid=tally.grid))
    model.save(tmp_path / "one.json")
    again.save(tmp_path / "two.json")
    assert (tmp_path / "one.json").read_bytes() == (tmp_path / "two.json").read_bytes()
    read = eo.load(tmp_path / "one.json")
    assert (
        read.transform(SCORES, GROUPS, keys=KEYS).tolist()
        == model.transform(SCORES, GROUPS, keys=KEYS).tolist()
    )


@VARIANT
def test_nobody_is_dropped(variant, tally):
    """A group unseen in training, a missing group, a score beyond the log's range: all get a finite score."""
    model = fitted(variant, tally)
    groups = ["a", "nobody has seen me", None, "b", "a"]
    fair = model.transform([0.5, 0.5, 0.5, 9.0, -9.0], groups, keys=list("abcde"))
    assert np.isfinite(fair).all()
    assert len(set(fair[:3])) > 1 or fair[0] != 0.0
    with pytest.raises(eo.UnknownGroupError, match="nobody has seen me"):
        fitted(variant, tally, unknown="error").transform([0.5] * 5, groups, keys=list("abcde"))


@VARIANT
def test_what_is_wrong_is_said_in_one_line(variant, tally):
    """Not a number, other lengths, settings of the wrong kind: refused, nothing is guessed."""
    model = fitted(variant, tally)
    for scores, groups in (([np.nan], ["a"]), ([0.1, 0.2], ["a"]), (["x"], ["a"])):
        with pytest.raises(eo.SettingsError) as caught:
            model.transform(scores, groups, keys=["k"] * len(scores))
        assert "\n" not in str(caught.value)
    with pytest.raises(eo.SettingsError, match="alpha"):
        fitted(variant, tally, alpha=2.0)


@VARIANT
def test_it_works_with_three_groups_and_crossed_ones(variant, log):
    """Several group columns are crossed; each combination is a group."""
    age = pa.array(np.array(["old", "young"])[np.arange(log.num_rows) % 2])
    crossed = eo.tally(log.append_column("age", age), group=["group", "age"], cells=100)
    model = fitted(variant, crossed)
    assert len(model.groups_) == 4
    fair = model.transform([0.3, 0.3], (["a", "b"], ["old", "young"]), keys=[1, 2])
    assert np.isfinite(fair).all()
