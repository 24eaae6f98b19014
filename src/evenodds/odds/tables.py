"""Kernels as JSON: for each bin the targets it can move to, and how likely."""

from __future__ import annotations

import numpy as np
from scipy import sparse


def kernel_to_json(rows: sparse.csr_array) -> list[list[list[float]]]:
    """Return ``[[targets], [probabilities]]`` for each bin."""
    matrix = rows.tocsr().sorted_indices()
    parts = [slice(int(a), int(b)) for a, b in zip(matrix.indptr[:-1], matrix.indptr[1:], strict=True)]
    return [[matrix.indices[part].tolist(), matrix.data[part].tolist()] for part in parts]


def kernel_from_json(rows: list[list[list[float]]], targets: int) -> sparse.csr_array:
    """Read what `kernel_to_json` wrote."""
    sizes = [len(row[0]) for row in rows]
    indices = np.array([target for row in rows for target in row[0]], dtype=np.int64)
    data = np.array([chance for row in rows for chance in row[1]], dtype=np.float64)
    indptr = np.concatenate(([0], np.cumsum(sizes)))
    return sparse.csr_array((data, indices, indptr), shape=(len(rows), targets))
