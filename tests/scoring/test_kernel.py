"""Sampling from kernels."""

import numpy as np
import pytest
from scipy import sparse

from evenodds.keys import key_words, uniforms
from evenodds.maps import ReturnScale
from evenodds.scoring.kernel import KernelTable


def random_rows(rng, groups=2, bins=7, targets=5):
    dense = rng.random((groups, bins, targets)) * (rng.random((groups, bins, targets)) < 0.5)
    dense[:, :, 0] += 0.05
    dense /= dense.sum(axis=2, keepdims=True)
    return tuple(sparse.csr_array(part) for part in dense), dense


def test_targets_come_up_as_often_as_the_kernel_says():
    """Each target's share of draws is its probability, within four standard errors."""
    rows, dense = random_rows(np.random.default_rng(1))
    table = KernelTable(rows, np.arange(5.0), np.arange(1.0, 6.0))
    draws = uniforms(key_words(np.arange(200_000)), salt=3)
    for row in (0, 6, 7, 13):
        targets = np.floor(table.outcome(np.full(draws.size, row), draws)).astype(int)
        share = np.bincount(targets, minlength=5) / draws.size
        chance = dense[row // 7, row % 7]
        error = np.sqrt(chance * (1 - chance) / draws.size)
        assert (np.abs(share - chance) <= 4 * error + 1e-12).all()


def test_points_within_a_target_are_uniform():
    """Given the target, the outcome is uniform on it (Kolmogorov-Smirnov, 0.1 % level)."""
    rows, _ = random_rows(np.random.default_rng(2))
    table = KernelTable(rows, np.arange(5.0), np.arange(1.0, 6.0))
    draws = uniforms(key_words(np.arange(100_000)), salt=4)
    far = np.sort(table.outcome(np.full(draws.size, 3), draws) % 1.0)
    distance = np.abs(far - (np.arange(far.size) + 0.5) / far.size).max()
    assert distance < 1.95 / np.sqrt(far.size)


@pytest.mark.parametrize("draw", [0.0, 1 - 2.0**-36])
def test_the_ends_of_the_unit_interval_stay_in_their_row(draw):
    """The smallest and the largest draw give targets of the row asked for, even far down the line."""
    rows = tuple(sparse.csr_array(np.eye(1000)) for _ in range(100))
    table = KernelTable(rows, np.arange(1000.0), np.arange(1.0, 1001.0))
    asked = np.array([0, 999, 50_000, 99_999])
    piece, _ = table.piece(asked, np.full(asked.size, draw))
    assert (table.target[piece] == asked % 1000).all()
    assert (table.source[piece] == asked % 1000).all()


def test_piece_and_outcome_agree():
    """The outcome is the target's low end plus how far into it the draw lies."""
    rows, _ = random_rows(np.random.default_rng(5))
    low, high = np.array([0.0, 1, 4, 5, 9]), np.array([1.0, 4, 5, 9, 10])
    table = KernelTable(rows, low, high)
    asked = np.random.default_rng(6).integers(0, 14, 500)
    draws = uniforms(key_words(np.arange(500)), salt=5)
    piece, place = table.piece(asked, draws)
    expected = low[table.target[piece]] + table.within(piece, place) * table.span[piece]
    np.testing.assert_allclose(table.outcome(asked, draws), expected, rtol=1e-12)


@pytest.mark.parametrize("ends", [[0.0, 3.5, 3.6, 20.0, 40.25, 50.0], [0.0, 10.0, 10.0, 20.0, 49.9, 50.0]])
def test_cutting_at_the_steps_of_the_way_back_changes_nothing(ends):
    """An outcome read through a bent way back is that way back of the plain outcome, wherever targets end."""
    rng = np.random.default_rng(7)
    rows, _ = random_rows(rng)
    back = ReturnScale(np.cumsum(rng.random(51) ** 4))
    low, high = np.array(ends[:-1]), np.array(ends[1:])
    asked = rng.integers(0, 14, 5_000)
    draws = uniforms(key_words(np.arange(5_000)), salt=8)
    plain = KernelTable(rows, low, high).outcome(asked, draws)
    np.testing.assert_allclose(
        KernelTable(rows, low, high, back).outcome(asked, draws), back(plain), rtol=1e-9
    )
