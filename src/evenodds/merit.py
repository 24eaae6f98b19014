"""From observed labels to merit labels: undo position bias on the counts.

    n1'[c, j, k] = n1[c, j, k] / w_j,    n0' = (n0 + n1) - n1'

(section "Tackling Position Bias for Equalized Odds"). In thin cells n0' can fall below zero. So
negatives are adjusted in runs of cells, clipped at zero there, and laid back on the run's cells; how
much was clipped is part of a fit's diagnostics.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from evenodds.position import PositionBias
from evenodds.tally import Tally

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

RUNS = 200


def position_weights(tally: Tally, bias: PositionBias) -> Floats:
    """Return w along the tally's position axis."""
    return bias.at(range(tally.counts.shape[2]))


def merit_mass(tally: Tally, bias: PositionBias, starts: Ints | None = None) -> Floats:
    """Return ``mass[group, label, cell]`` given the merit label, none below zero.

    `starts` are the first cells of the runs in which negatives are clipped: 200 of them, if not given.
    """
    if starts is None:
        starts = np.flatnonzero(np.diff(tally.grid.coarse(RUNS), prepend=-1))
    mass = unclipped_mass(tally, bias)
    by_run = clipped(np.add.reduceat(mass, starts, axis=2))[0][:, 0]
    mass[:, 0] = np.maximum(mass[:, 0], 0.0)
    held = np.add.reduceat(mass[:, 0], starts, axis=1)
    share = np.divide(by_run, held, out=np.zeros_like(held), where=held > 0)
    mass[:, 0] *= np.repeat(share, np.diff(np.append(starts, tally.grid.cells)), axis=1)
    return mass


def unclipped_mass(tally: Tally, bias: PositionBias) -> Floats:
    """Return the adjusted counts as the formula gives them."""
    inverse = 1.0 / position_weights(tally, bias)
    counts = tally.counts
    merit = np.einsum("clpk,p->clk", counts.astype(np.float64, copy=False), inverse)
    merit[:, 0] = counts.sum(axis=(1, 2), dtype=np.float64) - merit[:, 1:].sum(axis=1)
    return merit


def clipped(merit: Floats) -> tuple[Floats, Floats]:
    """Clip negatives at zero; return the share of each group's negatives that was added by it."""
    kept = np.maximum(merit, 0.0)
    added = (kept - merit)[:, 0].sum(axis=1)
    return kept, added / np.maximum(kept[:, 0].sum(axis=1), 1e-300)
