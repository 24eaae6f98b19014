"""Data that follow a graph agree with its verdict: exactly in the tables, and in samples by the audit's tests."""

from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from scipy.stats import binom

import evenodds as eo
from evenodds.causal.simulate import mechanisms
from graphs import dags, random_dags
from oracles import causal_paths as oracle

ROWS = 6_000


@settings(max_examples=200)
@given(dags(), st.integers(0, 1000))
def test_partial_correlation_is_zero_if_and_only_if_separated(graph, seed):
    """In a linear-Gaussian model, score and group are uncorrelated given the label just where the graph says."""
    correlation = oracle.partial_correlation(graph, "C", "Y", "S", np.random.default_rng(seed))
    assert (abs(correlation) < 1e-9) == eo.causal(graph).equalized_odds


@settings(max_examples=60)
@given(dags(largest=5), st.integers(0, 1000))
def test_tables_are_independent_if_and_only_if_separated(graph, seed):
    """Summed over all values of the others, both labels' distances are zero just where the graph says.

    A dependence at Y = 1 alone or at Y = 0 alone never comes up: a graph's answer is for both.
    """
    reading = eo.causal(graph)
    distances = oracle.exact_distances(mechanisms(reading.graph, seed=seed, form="discrete"))
    for distance in distances:
        assert (distance < 1e-9) == reading.equalized_odds


@cache
def samples(form):
    """Return the comparisons of 100 seeded graphs with data drawn from them."""
    rng = np.random.default_rng(8)
    found = []
    for seed, graph in enumerate(random_dags(rng, 100)):
        reading = eo.causal(graph)
        found.append((reading, seed, reading.compare(reading.simulate(ROWS, seed=seed, form=form))))
    return found


@pytest.mark.parametrize("form", ["linear", "discrete"])
def test_samples_of_separated_graphs_show_no_dependence(form):
    """Where the graph says independent, tests at 5 % reject about as often as they should."""
    separated = [found for reading, _, found in samples(form) if reading.equalized_odds]
    assert len(separated) >= 15
    rejected = sum(not found.agrees for found in separated)
    assert rejected <= binom.ppf(0.999, len(separated), 0.05)


def test_samples_of_connected_graphs_show_the_exact_distance():
    """Where the graph says dependent, what the audit measures is what the tables give, label by label."""
    checked = 0
    for reading, seed, found in samples("discrete"):
        if reading.equalized_odds or len(found.tests) < 2:
            continue
        made = mechanisms(reading.graph, seed=seed, form="discrete")
        data = made.draw(ROWS)
        exact = oracle.exact_distances(made)
        for test in found.tests:
            at_label = data.filter(np.asarray(data["Y"]) == test.label)
            sizes = np.bincount(np.asarray(at_label["C"]), minlength=2)
            noise = 0.5 * np.sqrt((1 / sizes).sum())  # one standard error at the most
            assert abs(test.distance.value - exact[test.label]) < 4 * noise
            if exact[test.label] > 6 * noise:
                assert test.outcome == "agree", (reading, test)
                checked += 1
    assert checked > 20


def test_samples_of_connected_linear_graphs_are_told():
    """Nine of ten open paths through linear mechanisms are seen in 6,000 rows; the others are long."""
    connected = [found for reading, _, found in samples("linear") if not reading.equalized_odds]
    seen = [any(test.outcome == "agree" for test in found.tests) for found in connected]
    assert np.mean(seen) > 0.9


def test_the_same_seed_draws_the_same_rows():
    """Bytes repeat; another seed draws others; columns come in the graph's order."""
    reading = eo.causal("C -> Y -> S; C -> X -> S")
    one, two = (reading.simulate(50, seed=3) for _ in range(2))
    assert one.equals(two)
    assert not one.equals(reading.simulate(50, seed=4))
    assert one.column_names == ["C", "Y", "S", "X"]
    assert set(one["C"].to_pylist()) == {0, 1}


def test_settings_are_checked():
    """Unknown forms and too few rows are said."""
    reading = eo.causal("C -> Y -> S")
    with pytest.raises(eo.SettingsError, match="form must be one of linear, discrete"):
        reading.simulate(form="cubic")
    with pytest.raises(eo.SettingsError, match="rows must be at least 1"):
        reading.simulate(0)
