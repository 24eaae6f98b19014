"""Score cells: quantiles, atoms, and the fast way to find a cell."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, strategies as st

import evenodds as eo
from evenodds.grid import MAX_CELLS, Grid

numbers = st.floats(-1e9, 1e9, allow_nan=False).map(lambda x: x + 0.0)
samples = st.lists(st.one_of(numbers, st.sampled_from([-1.0, 0.0, 0.5, 3.0])), min_size=1, max_size=60)


@given(samples, st.integers(1, 20))
def test_boundaries_ascend_and_atoms_hold_one_value(sample, cells):
    """Boundaries ascend strictly, and an atom's cell holds one value of the sample and no other."""
    grid = Grid.from_sample(np.array(sample), cells)
    assert (np.diff(grid.boundaries) > 0).all()
    cell = grid.locate(np.array(sample))
    for atom in grid.atoms:
        assert len(set(np.array(sample)[cell == atom])) == 1


@given(samples, st.integers(1, 20))
def test_every_heavy_tie_is_an_atom(sample, cells):
    """A value that came twice, and oftener than a cell's share, has an atom of its own; no other has."""
    grid = Grid.from_sample(np.array(sample), cells)
    values, mass = np.unique(sample, return_counts=True)
    heavy = values[(mass > 1) & (mass * cells > len(sample))]
    assert sorted(grid.locate(heavy).tolist()) == grid.atoms.tolist()


def test_a_value_that_came_once_is_no_tie():
    """A log with fewer rows than cells, all scores different, has no atoms: nothing will be drawn."""
    grid = Grid.from_sample(np.random.default_rng(0).random(300), MAX_CELLS)
    assert grid.atoms.size == 0
    assert grid.cells > 250


def test_no_cell_lies_outside_the_sample():
    """The lowest and the highest score are inside a cell with others, unless they are atoms."""
    sample = np.random.default_rng(8).random(40)
    cell = Grid.from_sample(sample, MAX_CELLS).locate(np.sort(sample))
    assert cell[0] == 0
    assert cell[-1] == cell[-2]


def test_cells_hold_equal_shares_of_the_sample():
    """Without ties, cells are quantiles: each holds its share of the sample, to within one row."""
    sample = np.random.default_rng(1).normal(size=5_000)
    grid = Grid.from_sample(sample, 100)
    assert grid.cells == 100
    assert set(np.bincount(grid.locate(sample)).tolist()) <= {49, 50, 51}


@pytest.mark.parametrize("shape", ["even", "skewed", "tied", "tiny range", "far outliers"])
def test_the_bucket_table_agrees_with_a_binary_search(shape):
    """The table of buckets finds the cell that a binary search finds, for every score, bit for bit."""
    rng = np.random.default_rng(2)
    sample = {
        "even": lambda: rng.random(40_000),
        "skewed": lambda: rng.lognormal(0, 3, 40_000),
        "tied": lambda: rng.integers(0, 90, 40_000) / 7 + (rng.random(40_000) < 0.3) * rng.random(40_000),
        "tiny range": lambda: 1.0 + rng.random(40_000) * 1e-12,
        "far outliers": lambda: np.append(rng.random(40_000), [1e300, -1e300]),
    }[shape]()
    grid = Grid.from_sample(sample, 2_000)
    around = np.concatenate(
        [
            sample,
            grid.boundaries,
            np.nextafter(grid.boundaries, np.inf),
            np.nextafter(grid.boundaries, -np.inf),
            [-1.7e308, 1.7e308, 0.0, -0.0],
        ]
    )
    assert (grid.locate(around) == np.searchsorted(grid.boundaries, around, side="right")).all()


@given(samples, st.integers(1, 12), st.integers(1, 12))
def test_thinning_keeps_atoms_and_joins_neighbours(sample, cells, fewer):
    """A thinned grid has the same atoms, no new boundary, and its kept boundaries are where it says."""
    grid = Grid.from_sample(np.array(sample), cells)
    thin, kept = grid.thinned(fewer)
    assert thin.boundaries.tolist() == grid.boundaries[kept].tolist()
    held = [
        np.unique(np.array(sample)[g.locate(np.array(sample)) == a]) for g in (grid, thin) for a in g.atoms
    ]
    assert len(thin.atoms) == len(grid.atoms)
    assert (
        np.concatenate([*held, []]).tolist()
        == np.tile(np.concatenate([*held, []])[: len(grid.atoms)], 2).tolist()
    )


def test_coarse_cells_are_runs_of_about_equal_length():
    """Coarse cells follow one another and differ by at most one in how many cells they hold."""
    grid = Grid.from_sample(np.random.default_rng(4).random(3_000), 1_000)
    runs = grid.coarse(37)
    assert (np.diff(runs) >= 0).all()
    assert np.ptp(np.bincount(runs)) <= 1
    assert runs[-1] == 36


def test_equal_content_is_an_equal_grid():
    """Grids are equal, and hash equal, exactly when their boundaries and atoms are."""
    sample = np.random.default_rng(5).random(500)
    one, same, other = (Grid.from_sample(part, 20) for part in (sample, sample[::-1], sample[1:]))
    assert one == same
    assert hash(one) == hash(same)
    assert one != other


def test_a_constant_score_is_one_atom():
    """A score that is always the same is one atom with an empty cell on each side."""
    grid = Grid.from_sample(np.full(50, 0.5), 10)
    assert grid.cells == 3
    assert grid.atoms.tolist() == [1]


@pytest.mark.parametrize("cells", [0, -3, MAX_CELLS + 1, 10.5])
def test_a_senseless_number_of_cells_is_refused(cells):
    """The number of cells is a whole number from 1 to 10,000."""
    with pytest.raises(eo.SettingsError, match=r"whole number in 1\.\.10000"):
        Grid.from_sample(np.ones(3), cells)


@pytest.mark.parametrize("stored", ["memory", "parquet"])
def test_the_sample_is_representative_of_a_sorted_log(tmp_path, stored):
    """With rows sorted by query and position in lists of 50, the grid's quantiles are the log's own.

    A sample of every k-th row saw some positions only, because k lined up with the length of lists.
    """
    import pyarrow.parquet as pq

    rng = np.random.default_rng(6)
    queries = 20_000
    score = -np.sort(-rng.random((queries, 50)), axis=1).ravel()  # a million rows: four in one are sampled
    label = rng.integers(0, 2, score.size, dtype=np.int8)
    group = pa.DictionaryArray.from_arrays(rng.integers(0, 2, score.size, dtype=np.int8), ["a", "b"])
    log = pa.table({"score": score, "label": label, "group": group})
    if stored == "parquet":
        pq.write_table(log, tmp_path / "log.parquet", row_group_size=50_000, compression="none")
        log = tmp_path / "log.parquet"
    sample = np.sort(eo.Log(log).score_sample())
    assert 200_000 < sample.size < 520_000
    # Kolmogorov's bound at p < 1e-6 for the sample, with the log's own distribution beside it.
    distance = np.abs(
        np.searchsorted(np.sort(score), sample) / score.size - np.arange(sample.size) / sample.size
    )
    assert distance.max() < 2.7 / np.sqrt(sample.size)


def test_the_sample_is_the_same_every_time(simulated):
    """Two samples of the same log are equal, row for row."""
    log = eo.Log(simulated)
    assert (log.score_sample() == log.score_sample()).all()
