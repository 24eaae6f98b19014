"""Monotone maps on score cells."""

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from scipy.interpolate import PchipInterpolator

from evenodds.grid import Grid
from evenodds.maps import CdfMaps, ReturnScale, quantile_function


def maps_of(rng, *, cells=30, maps=2, atoms=True, interpolation="linear"):
    """Return maps over a grid with or without atoms."""
    sample = np.round(rng.random(400), 1 if atoms else 12)
    sample = np.concatenate((sample, rng.random(400)))
    grid = Grid.from_sample(sample, cells)
    cdf = np.cumsum(rng.random((maps, grid.cells + 1)), axis=1)
    cdf = (cdf - cdf[:, :1]) / (cdf[:, -1:] - cdf[:, :1])
    return CdfMaps(grid, float(sample.min()), float(sample.max()), cdf, interpolation)


def rows(maps, which, size):
    return np.full(size, which * maps.stride, dtype=np.intp)


@pytest.mark.parametrize("interpolation", ["linear", "cubic"])
@pytest.mark.parametrize("atoms", [True, False])
def test_maps_pass_through_their_points(interpolation, atoms):
    """At the ends of cells a map has the values that it was given; on an atom the lower one."""
    maps = maps_of(np.random.default_rng(0), atoms=atoms, interpolation=interpolation)
    for which in (0, 1):
        found = maps(maps.edges, rows(maps, which, maps.edges.size))
        inside = slice(0, -1)
        assert found[inside] == pytest.approx(maps.cdf[which][inside], abs=1e-12)


@given(st.integers(0, 10**6), st.sampled_from(["linear", "cubic"]), st.booleans())
@settings(max_examples=40)
def test_maps_are_monotone(seed, interpolation, atoms):
    """A higher score never gets a lower value, whatever the cells, the atoms and the draws."""
    rng = np.random.default_rng(seed)
    maps = maps_of(rng, atoms=atoms, interpolation=interpolation)
    scores = np.sort(np.concatenate((rng.uniform(-0.2, 1.2, 300), maps.edges)))
    draws = np.sort(rng.random(scores.size))  # among equal scores, a larger draw comes later
    found = maps(scores, rows(maps, 1, scores.size), draws)
    assert (np.diff(found) >= -1e-12).all()
    assert found.min() >= -1e-12
    assert found.max() <= 1 + 1e-12


def test_few_and_many_scores_take_the_same_values():
    """The two ways of finding a cell, for a request and for a log, give equal values bit for bit."""
    rng = np.random.default_rng(1)
    maps = maps_of(rng, cells=200)
    scores = np.concatenate((rng.uniform(-0.1, 1.1, 5_000), maps.edges))
    which = rng.integers(0, 2, scores.size) * maps.stride
    whole = maps(scores, which)
    parts = [
        maps(scores[start : start + 100], which[start : start + 100]) for start in range(0, scores.size, 100)
    ]
    assert (np.concatenate(parts) == whole).all()


def test_scores_outside_map_to_the_ends():
    """Scores below all cells map to 0, above all to 1."""
    maps = maps_of(np.random.default_rng(2))
    assert maps(np.array([-1e308, -5.0, 7.0, 1e308]), rows(maps, 0, 4)).tolist() == [0, 0, 1, 1]


def test_an_atom_jumps_by_the_draw():
    """On an atom the value lies between F(s-) and F(s), as far up as the draw says."""
    grid = Grid.from_sample(np.array([0.0, 0.5, 0.5, 0.5, 0.9, 1.0]), 3)
    maps = CdfMaps(grid, 0.0, 1.0, np.array([[0.0, 0.2, 0.8, 1.0]]), "linear")
    scores = np.full(3, 0.5)
    assert maps(scores, rows(maps, 0, 3), np.array([0.0, 0.5, 0.75])) == pytest.approx([0.2, 0.5, 0.65])
    assert maps.jumps(np.array([0.4, 0.5, 0.6]), rows(maps, 0, 3)) == pytest.approx([0, 0.6, 0])
    below, at = maps.limits(np.array([0.5]), 0)
    assert (below[0], at[0]) == pytest.approx((0.2, 0.8))


def test_cubic_is_fritsch_and_carlsons():
    """Between interior points of a smooth function the cubic is SciPy's PCHIP, to rounding."""
    edges = np.sort(np.random.default_rng(3).random(60))
    grid = Grid(edges[1:-1], np.array([], dtype=np.int64))
    cdf = ((1 - np.cos(np.pi * (edges - edges[0]) / (edges[-1] - edges[0]))) / 2)[None, :]
    maps = CdfMaps(grid, float(edges[0]), float(edges[-1]), cdf, "cubic")
    scores = np.linspace(edges[1], edges[-2], 5_000)
    assert maps(scores, rows(maps, 0, scores.size)) == pytest.approx(
        PchipInterpolator(edges, cdf[0])(scores), abs=1e-12
    )


def test_cubic_is_nearer_to_a_smooth_function_than_linear():
    """On a smooth function with few points, cubic is at least three times as exact as linear."""
    edges = np.linspace(0, 1, 21)
    grid = Grid(edges[1:-1], np.array([], dtype=np.int64))
    function = lambda x: x * x * (3 - 2 * x)  # noqa: E731
    scores = np.linspace(0.05, 0.95, 2_000)
    errors = [
        np.abs(
            CdfMaps(grid, 0.0, 1.0, function(edges)[None], kind)(scores, np.zeros(2_000, int))
            - function(scores)
        )
        for kind in ("linear", "cubic")
    ]
    assert errors[1].max() < errors[0].max() / 3


def test_the_way_back_interpolates_between_even_points():
    """The return scale is linear between its points and exact at both ends."""
    back = ReturnScale(np.array([-2.0, 0.0, 8.0]))
    assert back(np.array([0.0, 0.5, 1.0, 1.25, 2.0])).tolist() == [-2.0, -1.0, 0.0, 2.0, 8.0]


def test_quantiles_step_over_empty_cells():
    """Cells without mass take no part in the quantile function, and ends are met."""
    edges = np.array([0.0, 1.0, 2.0, 3.0])
    found = quantile_function(
        edges,
        np.zeros(3, bool),
        np.array([1.0, 0.0, 3.0]),
        np.array([0, 0.125, 0.2499999, 0.2500001, 0.625, 1]),
    )
    assert found == pytest.approx([0.0, 0.5, 1.0, 2.0, 2.5, 3.0], abs=1e-5)


def test_an_atoms_quantiles_keep_their_order():
    """Levels that fall on an atom map to its value, apart by less than a millionth, and in order."""
    above = np.nextafter(0.5, 1)
    edges, atom = np.array([0.0, 0.5, above, 1.0]), np.array([False, True, False])
    found = quantile_function(edges, atom, np.array([1.0, 2.0, 1.0]), np.linspace(0.3, 0.7, 9))
    assert (np.diff(found) > 0).all()
    assert found == pytest.approx(0.5, abs=1e-6)
