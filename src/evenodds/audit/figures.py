"""Figures of each group, from masses: rates, AUC, exposure and the group parity of the paper's corollary.

Every function takes any leading axes, so that one call serves the log and all its left-out versions.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]


def group_figures(observed: Floats, merit: Floats, negative: Floats, rows: Floats) -> dict[str, Floats]:
    """Return rates, parity and AUC.

    Parameters
    ----------
    observed, merit
        ``mass[..., group, label, cell]`` by observed and by merit label, cells in the order of the score.
    negative
        ``mass[..., group, cell]`` of merit negatives before any was clipped at zero. AUC is linear in them,
        so it needs no clipping, which would put negatives where there are none: high up.
    rows
        ``rows[..., group]``: impressions.

    Returns
    -------
    dict
        ``positive_rate`` v = P(Y(gamma) = 1 | group), ``merit_rate`` M = P(Y(1) = 1 | group), ``parity`` =
        v / M, which equals the mean position weight of the group's merit positives; its ``parity_ratio``
        between groups (Corollary "weighted CDF" of Nandy et al., after Singh and Joachims, 2019: 1 when
        exposure follows merit); ``auc_observed`` and ``auc_merit``, see :func:`cross_auc`.
    """
    clicked, worthy = observed[..., 1:, :].sum(axis=-2), merit[..., 1:, :].sum(axis=-2)
    rates = rate_figures(clicked.sum(axis=-1), worthy.sum(axis=-1), rows)
    parity = rates["parity"]
    return {
        **rates,
        "parity_ratio": _ratio(parity[..., :, None], parity[..., None, :]),
        "auc_observed": cross_auc(clicked, observed[..., 0, :]),
        "auc_merit": cross_auc(worthy, negative),
    }


def rate_figures(clicked: Floats, worthy: Floats, rows: Floats) -> dict[str, Floats]:
    """Return ``positive_rate``, ``merit_rate`` and ``parity`` from observed and merit positives, and rows."""
    rate, merit_rate = _ratio(clicked, rows), _ratio(worthy, rows)
    return {"positive_rate": rate, "merit_rate": merit_rate, "parity": _ratio(rate, merit_rate)}


def exposure_figures(rows: Floats, weights: Floats) -> dict[str, Floats]:
    """Return ``exposure[..., group]``, the mean position weight, and each group's share by position.

    `rows` are impressions ``[..., group, position]``, `weights` are w ``[..., position]``.
    """
    mean = _ratio((rows * weights[..., None, :]).sum(axis=-1), rows.sum(axis=-1))
    return {"exposure": mean, "position_share": _ratio(rows, rows.sum(axis=-2, keepdims=True))}


def cross_auc(positive: Floats, negative: Floats) -> Floats:
    """Return ``auc[..., a, b]`` = P(score of a positive of a > score of a negative of b), half of ties.

    Within a cell scores are taken as evenly spread, which makes half of its pairs come out right.
    """
    below = np.cumsum(negative, axis=-1) - negative / 2
    won = np.einsum("...ak,...bk->...ab", positive, below, optimize=True)
    pairs = positive.sum(axis=-1)[..., :, None] * negative.sum(axis=-1)[..., None, :]
    return _ratio(won, pairs)


def cumulated(mass: Floats) -> Floats:
    """Return the distribution function at the ends of the cells, from 0 on; NaN without mass."""
    total = np.cumsum(mass, axis=-1)
    return _ratio(np.concatenate((np.zeros_like(total[..., :1]), total), axis=-1), total[..., -1:])


def area(widths: Floats, difference: Floats) -> Floats:
    """Return the integral of |difference|, straight between the ends of the cells: Wasserstein-1.

        W1(F, G) = integral of |F(t) - G(t)| dt

    (Vallender, "Calculation of the Wasserstein distance between distributions on the line", 1973).
    """
    left, right = difference[..., :-1], difference[..., 1:]
    size = np.abs(left) + np.abs(right)
    crossing = (left * left + right * right) / np.maximum(size, 1e-300)
    mean = np.where(left * right >= 0.0, size, crossing) / 2
    return (mean * widths).sum(axis=-1)


def _ratio(one: Floats, other: Floats) -> Floats:
    one, other = np.broadcast_arrays(one, other)
    return np.divide(one, other, out=np.full(one.shape, np.nan), where=other > 0)
