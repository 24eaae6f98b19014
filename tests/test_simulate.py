"""The paper's population, queries and clicks."""

import numpy as np
import pytest

import evenodds as eo
from evenodds.simulate import (
    draw_clicks,
    draw_lists,
    draw_population,
    outcome_on_fresh_lists,
    position_weights,
    rank,
    simulate_batches,
)


def test_the_population_is_the_papers():
    """Shares of groups, base rates, and means of relevance are those of the paper's formulas."""
    people = draw_population(200_000, seed=1)
    group, merit, relevance = people.group, people.merit, people.relevance
    assert group.mean() == pytest.approx(0.6, abs=5 * 0.5 / np.sqrt(200_000))
    for c in (0, 1):
        own = group == c
        assert merit[own].mean() == pytest.approx(0.4 + 0.1 * c, abs=5 * 0.5 / np.sqrt(own.sum()))
        for y in (0, 1):
            part = relevance[own & (merit == y)]
            mean = 0.6 * y + 2.0 * c + (1 - c) * (1 + y) / 2
            variance = 0.25 + (1 - c) * (1 + y) ** 2 / 12  # N(., 0.5) has the standard deviation 0.5
            assert part.mean() == pytest.approx(mean, abs=5 * np.sqrt(variance / part.size))
            assert part.var() == pytest.approx(variance, rel=0.05)


def test_position_bias_is_the_papers():
    """w_j = 1 / log2(1 + j)."""
    assert position_weights(7)[[0, 1, 2, 6]] == pytest.approx([1, 1 / np.log2(3), 0.5, 1 / 3])


def test_the_same_seed_gives_the_same_log():
    """A seed gives the same log every time; another seed gives another."""
    assert eo.simulate(50, seed=3).equals(eo.simulate(50, seed=3))
    assert not eo.simulate(50, seed=3).equals(eo.simulate(50, seed=4))


def test_the_log_is_a_ranking(simulated):
    """Each query has 50 distinct items, in descending order of score, at positions 1 to 50."""
    columns = {
        name: simulated[name].to_numpy(zero_copy_only=False).reshape(-1, 50)
        for name in simulated.column_names
    }
    assert (columns["query"] == np.arange(4_000)[:, None]).all()
    assert (columns["position"] == np.arange(1, 51)).all()
    assert (np.diff(columns["score"], axis=1) <= 0).all()
    assert all(len(set(items)) == 50 for items in columns["item"])


def test_clicks_fall_with_the_position():
    """Given merit, the share of clicks at each position is w."""
    people = draw_population(5_000, seed=0)
    rng = np.random.default_rng(1)
    lists = draw_lists(people, 4_000, lengths=(10, 10), rng=rng)
    position = rank(lists, lists.score)
    label = draw_clicks(people, lists, position, position_weights(10), rng)
    merit = people.merit[lists.item]
    assert (label <= merit).all()
    for j in (1, 2, 10):
        at = (position == j) & (merit == 1)
        w = position_weights(10)[j - 1]
        assert label[at].mean() == pytest.approx(w, abs=5 * np.sqrt(w * (1 - w) / at.sum()) + 1e-12)


def test_lists_of_varying_length():
    """Lengths are uniform between the bounds, and positions run without a gap."""
    log = eo.simulate(3_000, seed=2, list_length=(3, 7), population_size=500)
    query, position = log["query"].to_numpy(), log["position"].to_numpy()
    lengths = np.bincount(query)
    assert set(lengths.tolist()) == {3, 4, 5, 6, 7}
    assert ((np.bincount(lengths)[3:] - 600) ** 2 / 600).sum() < 23  # p = 0.0001 with 4 degrees of freedom
    assert (position == np.concatenate([np.arange(1, n + 1) for n in lengths])).all()


def test_batches_are_the_log():
    """The batches of a larger log, end to end, are the log; its head is that of a smaller one's first batch."""
    import pyarrow as pa

    batches = list(simulate_batches(20_050, seed=5, list_length=2, population_size=100))
    assert [batch.num_rows for batch in batches] == [40_000, 100]
    assert pa.Table.from_batches(batches).equals(
        eo.simulate(20_050, seed=5, list_length=2, population_size=100)
    )
    assert batches[1]["query"].to_pylist()[:2] == [20_000, 20_000]


def test_fresh_lists_are_as_unfair_as_the_log(counted):
    """Without a model, fresh lists show the unfairness that an audit finds in the log."""
    found = outcome_on_fresh_lists(draw_population(seed=0), queries=4_000, seed=9)
    assert found.observed[1] == pytest.approx(eo.audit(counted).unfairness(1, kind="observed"), abs=0.02)
    assert 0.13 < found.click_rate < 0.155


@pytest.mark.parametrize(
    "settings",
    [
        {"queries": 0},
        {"population_size": 0},
        {"list_length": 0},
        {"list_length": (5, 3)},
        {"list_length": 60, "population_size": 50},
    ],
    ids=str,
)
def test_senseless_settings_are_refused(settings):
    """Numbers that make no log are refused."""
    with pytest.raises(eo.SettingsError):
        eo.simulate(**{"queries": 5, **settings})
