"""The scorer: a model's transform on its own, for the request path."""

import pickle
import sys
import threading
import tracemalloc

import numpy as np
import pyarrow as pa
import pytest

import evenodds as eo
from evenodds.scoring.load import load_scorer
from evenodds.serve import Scorer

MODELS = {
    "opportunity": lambda: eo.EqualOpportunity(points=300),
    "unit": lambda: eo.EqualOpportunity(points=300, scale="unit"),
    "half": lambda: eo.EqualOpportunity(points=300, alpha=0.5),
    "cubic": lambda: eo.EqualOpportunity(points=300, interpolation="cubic"),
    "keep": lambda: eo.EqualOpportunity(points=300, unknown="keep"),
    "odds": lambda: eo.EqualizedOdds(bins=20),
    "odds, half": lambda: eo.EqualizedOdds(bins=20, alpha=0.5),
    "odds, uniform": lambda: eo.EqualizedOdds(bins=20, within="uniform"),
    "odds, in order": lambda: eo.EqualizedOdds(bins=20, keep_order=True),
    "odds, keep": lambda: eo.EqualizedOdds(bins=20, unknown="keep"),
    "odds, auc": lambda: eo.EqualizedOdds(bins=20, objective="auc"),
}


@pytest.fixture(scope="module")
def table():
    """Three groups named by text, number and boolean columns; a third of the scores tied."""
    rng = np.random.default_rng(2)
    size = 20_000
    group = rng.integers(0, 2, size)
    score = np.where(rng.random(size) < 0.3, 0.5, rng.normal(0.4 * group, 1.0))
    return pa.table(
        {
            "text": np.array(["a", "b"])[group],
            "number": group + 20,
            "boolean": group.astype(bool),
            "score": score,
            "label": (rng.random(size) < 1 / (1 + np.exp(-score))).astype(np.int8),
        }
    )


@pytest.fixture(scope="module")
def fitted(table, tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    made = {}
    for name, unfitted in MODELS.items():
        model = unfitted().fit(table, group="text")
        model.save(folder / f"{name}.json")
        made[name] = (folder / f"{name}.json", model)
    return made


@pytest.mark.parametrize("name", MODELS)
def test_a_scorer_gives_the_models_scores(fitted, name):
    """Read from the file, it gives what `transform` gives, bit for bit; ties, unknown groups and keys included."""
    path, model = fitted[name]
    scorer = Scorer.load(path)
    rng = np.random.default_rng(0)
    scores = np.where(rng.random(400) < 0.3, 0.5, rng.normal(0.0, 2.0, 400))
    groups = rng.choice(np.array(["a", "b", "c", None], dtype=object), 400).tolist()
    for keys in (
        [f"key{n}" for n in range(400)],
        np.arange(400),
        (["viewer"] * 400, [f"item{n}" for n in range(400)]),
        (np.full(400, 7), np.arange(400)),
    ):
        expected = model.transform(scores, groups, keys)
        assert scorer.transform(scores, groups, keys).tolist() == expected.tolist()
        assert model.scorer_.transform(scores.tolist(), groups, keys).tolist() == expected.tolist()


@pytest.mark.parametrize("column", ["text", "number", "boolean"])
def test_groups_of_any_type(table, column, tmp_path):
    """Text, whole numbers and booleans, alone and crossed, in lists, arrays and Arrow columns."""
    for roles in ([column], [column, "text"]):
        model = eo.EqualizedOdds(bins=10).fit(table, group=roles)
        model.save(tmp_path / "model.json", overwrite=True)
        scorer = load_scorer(tmp_path / "model.json")
        rows = table.slice(0, 300)
        lists = tuple(rows[name].to_pylist() for name in roles)
        arrays = tuple(rows[name].to_numpy() for name in roles)
        arrow = tuple(rows[name] for name in roles)
        expected = model.transform(rows["score"], lists if len(roles) > 1 else lists[0], np.arange(300))
        for groups in (lists, arrays, arrow):
            found = scorer.transform(rows["score"], groups if len(roles) > 1 else groups[0], np.arange(300))
            assert found.tolist() == expected.tolist()


@pytest.mark.parametrize(
    ("key", "ids"), [("anna", ["x", "yy", "zzz"]), (7, [1, 2, -3]), ("ß" * 40, ["ä", "x", "y"])]
)
def test_one_key_stands_for_all_items(fitted, key, ids):
    """A request's key beside its items' ids draws as the same key repeated for each item."""
    _, model = fitted["odds"]
    items = np.array(ids) if isinstance(ids[0], int) else ids
    repeated = [key] * 3 if isinstance(key, str) else np.full(3, key)
    scores, groups = [0.1, 0.5, 0.9], ["a", "b", "a"]
    alone = model.transform(scores, groups, (key, items))
    assert alone.tolist() == model.transform(scores, groups, (repeated, items)).tolist()
    assert (
        model.transform(scores, groups, (items, key)).tolist()
        == model.transform(scores, groups, (items, repeated)).tolist()
    )


@pytest.mark.parametrize("name", ["opportunity", "odds, in order"])
def test_a_scorer_can_be_pickled(fitted, name):
    """A scorer goes to another process, and gives the same there."""
    scorer = Scorer.load(fitted[name][0])
    again = pickle.loads(pickle.dumps(scorer))
    asked = ([0.1, 0.5, 3.0], ["a", "c", "b"], ["x", "y", "z"])
    assert again.transform(*asked).tolist() == scorer.transform(*asked).tolist()
    assert again.salt == scorer.salt


def test_threads_share_a_scorer_while_it_is_swapped(fitted):
    """Eight threads score while another swaps two models: each answer is the whole of one of them."""
    scorers = [Scorer.load(fitted[name][0]) for name in ("odds", "opportunity")]
    rng = np.random.default_rng(0)
    scores, groups = rng.normal(size=50), rng.choice(["a", "b", "zz"], 50).tolist()
    items = [f"item{n}" for n in range(50)]
    expected = {tuple(scorer.transform(scores, groups, ("v", items)).tolist()) for scorer in scorers}
    held, found, stop = [scorers[0]], set(), threading.Event()

    def score():
        for _ in range(300):
            found.add(tuple(held[0].transform(scores, [*groups], ("v", items)).tolist()))

    def swap():
        while not stop.is_set():
            held[0] = scorers[1] if held[0] is scorers[0] else scorers[0]

    old = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        swapping = threading.Thread(target=swap)
        threads = [threading.Thread(target=score) for _ in range(8)]
        for thread in (swapping, *threads):
            thread.start()
        for thread in threads:
            thread.join()
        stop.set()
        swapping.join()
    finally:
        sys.setswitchinterval(old)
    assert found == expected


@pytest.mark.parametrize(("name", "most"), [("opportunity", 8_000), ("odds", 25_000)])
def test_nothing_but_the_scores_is_left_behind(fitted, name, most):
    """A call leaves nothing but its 800 bytes of scores; what it needs meanwhile is a few times the input."""
    scorer = Scorer.load(fitted[name][0])
    rng = np.random.default_rng(0)
    scores, groups = rng.normal(size=100), rng.choice(["a", "b"], 100).tolist()
    ids = [f"item{n}" for n in range(100)]
    for _ in range(3):
        scorer.transform(scores, groups, ("viewer", ids))
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        tracemalloc.reset_peak()
        kept = [scorer.transform(scores, groups, ("viewer", ids)) for _ in range(50)]
        after, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    # 800 bytes and the array's own head each, and the list that holds them.
    assert (after - before) / 50 < 800 + 200
    assert peak - after < most
    assert len(kept) == 50


def test_loading_a_scorer_takes_no_part_of_fitting(fitted):
    """The scorer's modules know nothing of tallies, logs and engines (an import contract holds them to it)."""
    scorer = Scorer.load(fitted["odds"][0])
    names = {type(value).__module__ for value in vars(scorer).values()}
    assert not {
        name for name in names if name.startswith(("evenodds.tally", "evenodds.engines", "evenodds.log"))
    }


def test_settings_that_change_after_the_fit_are_followed(fitted):
    """Alpha set on a fitted model is that of its next transform."""
    _, model = fitted["opportunity"]
    whole = model.transform([0.3], ["a"])[0]
    try:
        model.alpha = 0.5
        assert model.transform([0.3], ["a"])[0] == pytest.approx((whole + 0.3) / 2)
    finally:
        model.alpha = 1.0
    assert model.transform([0.3], ["a"])[0] == whole
