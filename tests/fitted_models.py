"""Models of every kind that exports must carry over, and items to put them to the test."""

import warnings
from functools import cache

import numpy as np
import pyarrow as pa

import evenodds as eo
from worlds import draw

# What has to be quoted somewhere: in SQL, in JSON, in a page.
AWKWARD = [
    "O'Hara",
    'say "hi"',
    "two\nlines",
    "<script>alert(1)</script>",
    "ß 中 😀",
    "semi;colon",
    "back\\slash",
    "`tick`",
    "${x} {{y}}",
    " blank ",
]


@cache
def plain():
    return eo.tally(draw(np.random.default_rng(0), 1_000), cells=400)


def log(size, seed, scores, groups, **columns):
    """Count a log in which labels follow the score; what is given makes a column of that size."""
    rng = np.random.default_rng(seed)
    score, group = scores(rng, size), groups(rng, size)
    label = (rng.random(size) < 0.2 + 0.5 * (score - score.min()) / max(np.ptp(score), 1e-9)).astype(np.int8)
    more = {name: make(rng, size) for name, make in columns.items()}
    return pa.table({"score": score, "group": group, "label": label, **more})


def two(rng, size):
    return np.array(["a", "b"])[rng.integers(0, 2, size)]


def even(rng, size):
    return rng.random(size)


def half_tied(rng, size):
    """Ten values, and between and beyond them scores without ties."""
    return np.where(rng.random(size) < 0.5, rng.integers(0, 10, size) / 10, rng.normal(0.5, 1, size))


@cache
def ties():
    return eo.tally(log(8_000, 1, half_tied, two), cells=60)


@cache
def one_score():
    return eo.tally(log(1_000, 2, lambda _rng, size: np.full(size, 0.5), two), cells=60)


@cache
def one_cell():
    return eo.tally(log(1_000, 3, even, two), cells=1)


@cache
def gap():
    """Scores in two heaps, far apart: the way back has a step of the size of the gap."""
    heaps = log(4_000, 4, lambda rng, size: rng.random(size) + 1e6 * rng.integers(0, 2, size), two)
    return eo.tally(heaps, cells=300)


@cache
def awkward():
    """Two group columns: names that have to be quoted, and booleans."""

    def names(rng, size):
        return pa.array([AWKWARD[place] for place in rng.integers(0, len(AWKWARD), size)])

    crossed = log(30_000, 5, even, names, adult=lambda rng, size: rng.random(size) < 0.5)
    return eo.tally(crossed, group=["group", "adult"], cells=100)


@cache
def many():
    return eo.tally(
        log(40_000, 6, lambda rng, size: rng.normal(0, 1, size), lambda rng, size: rng.integers(0, 25, size)),
        cells=200,
    )


@cache
def outcomes():
    """Two kinds of positive."""
    rng = np.random.default_rng(8)
    score = rng.random(6_000)
    label = rng.integers(0, 3, 6_000) * (rng.random(6_000) < score + 0.2)
    return eo.tally(
        pa.table({"score": score, "group": two(rng, 6_000), "label": label}), outcomes=2, cells=100
    )


OPPORTUNITY = {
    "plain": (plain, {}),
    "cubic": (plain, {"interpolation": "cubic"}),
    "unit": (plain, {"scale": "unit"}),
    "half way, keep": (plain, {"alpha": 0.5, "unknown": "keep"}),
    "error": (plain, {"unknown": "error"}),
    "few points": (plain, {"points": 7}),
    "ties": (ties, {}),
    "ties, cubic, unit": (ties, {"interpolation": "cubic", "scale": "unit"}),
    "ties, cubic, half way": (ties, {"interpolation": "cubic", "alpha": 0.3}),
    "one score": (one_score, {}),
    "one cell": (one_cell, {}),
    "gap": (gap, {}),
    "awkward": (awkward, {}),
    "many groups": (many, {}),
}
ODDS = {
    "movement": (plain, {}),
    "frontier": (plain, {"objective": "auc"}),
    "frontier by score": (plain, {"objective": "auc", "order": "score"}),
    "uniform": (plain, {"bins": 10, "within": "uniform"}),
    "kept order": (plain, {"bins": 20, "keep_order": True}),
    "kept order, uniform": (plain, {"bins": 20, "keep_order": True, "within": "uniform", "unknown": "keep"}),
    "observed": (plain, {"bins": 30, "target": "observed"}),
    "half way, keep": (plain, {"bins": 30, "alpha": 0.5, "unknown": "keep"}),
    "error": (plain, {"bins": 10, "unknown": "error"}),
    "one bin": (plain, {"bins": 1}),
    "epsilon": (plain, {"bins": 20, "epsilon": 0.2}),
    "one label free": (plain, {"bins": 10, "epsilon": (float("inf"), 0.0)}),
    "equal width": (plain, {"bins": 20, "binning": "equal"}),
    "ties": (ties, {"bins": 15}),
    "ties, kept order": (ties, {"bins": 15, "keep_order": True}),
    "one score": (one_score, {}),
    "gap": (gap, {"bins": 40}),
    "awkward": (awkward, {"bins": 5}),
    "many groups": (many, {"bins": 4}),
    "outcomes": (outcomes, {"bins": 10}),
}
NAMES = [*(f"opportunity, {name}" for name in OPPORTUNITY), *(f"odds, {name}" for name in ODDS)]


@cache
def fitted(name):
    """Return a model by its name, fitted. Not to be changed."""
    criterion, _, name = name.partition(", ")
    tally, settings = {"opportunity": OPPORTUNITY, "odds": ODDS}[criterion][name]
    kind = {"opportunity": eo.EqualOpportunity, "odds": eo.EqualizedOdds}[criterion]
    bias = {} if tally is plain else {"position_bias": "none"}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", eo.SmallGroupWarning)  # small on purpose
        return kind(min_positives=10, **bias, **settings).fit(tally())


class Items:
    """Items for a model: scores in, between, beside and beyond its cells; known, unknown and missing groups."""

    def __init__(self, model, seed=0, size=2_000):
        rng = np.random.default_rng(seed)
        edges = model.scorer_.maps.edges if model.criterion == "opportunity" else model.scorer_.edges
        beside = np.concatenate((edges, np.nextafter(edges, -np.inf), np.nextafter(edges, np.inf)))
        beside = rng.permutation(beside)[: size // 2]
        spread = max(edges[-1] - edges[0], 1.0)
        inside = rng.uniform(edges[0] - 0.1 * spread, edges[-1] + 0.1 * spread, size - beside.size - 4)
        self.scores = np.concatenate((beside, inside, [-1e150, 1e150, 0.0, -0.0]))
        known = len(model.groups_)
        # Every model meets groups that it has not seen, but those that refuse them.
        self.codes = rng.integers(0, known + (model.unknown != "error"), size)
        names = [*model.groups_, (None,) * len(model.group_columns_)]
        columns = tuple(
            [names[code][place] for code in self.codes] for place in range(len(model.group_columns_))
        )
        for column in columns:  # an unseen one now and then, where there would be none at all
            for place in np.flatnonzero(self.codes == known)[::2]:
                column[place] = "never seen"
        for place in np.flatnonzero(self.codes == known)[1::4] if len(columns) > 1 else ():
            columns[0][place] = model.groups_[0][0]  # known in one column, missing in the other
        self.columns = columns
        self.groups = columns if len(columns) > 1 else columns[0]
        self.keys = [
            f"viewer {place % 7}/item ä{place}" if place % 3 else f"k{place}" for place in range(size)
        ]
        self.numbers = rng.integers(-(2**63), 2**63 - 1, size)
        self.both = (self.keys, self.numbers)

    def fair(self, model, keys=None):
        """Return what Python says."""
        return model.transform(self.scores, self.groups, keys=self.both if keys is None else keys)
