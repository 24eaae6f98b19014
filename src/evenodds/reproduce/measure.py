"""What is measured on a ranking, and how sure a mean over replicates is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

# Mean of the Kolmogorov distribution, sqrt(pi / 2) log 2: what two samples of one distribution show.
_KOLMOGOROV_MEAN = float(np.sqrt(np.pi / 2) * np.log(2))


def group_distances(
    scores: Floats, group: Ints, labels: Mapping[str, Ints]
) -> tuple[dict[str, float], dict[str, float]]:
    """Return KS distances between groups 0 and 1 by kind of label and label, and their sampling noise.

    One sort serves all labels. Keys are a kind and a label, as "observed 1". The noise is the mean
    distance of two samples of these sizes from one distribution.

    Examples
    --------
    >>> found, _ = group_distances(
    ...     np.array([1.0, 2.0, 2.0, 3.0]), np.array([0, 0, 1, 1]), {"merit": np.array([1, 1, 1, 1])}
    ... )
    >>> found["merit 1"]
    0.5
    """
    order = np.argsort(scores)
    ordered = scores[order]
    last = np.append(ordered[1:] != ordered[:-1], True)  # of a run of ties: F jumps over the whole run
    first_group = group[order] == 0
    found: dict[str, float] = {}
    noise: dict[str, float] = {}
    for kind, label in labels.items():
        in_order = label[order]
        for y in (0, 1):
            has = in_order == y
            sizes = int((has & first_group).sum()), int((has & ~first_group).sum())
            if min(sizes) == 0:
                found[f"{kind} {y}"] = noise[f"{kind} {y}"] = float("nan")
                continue
            steps = np.where(has, np.where(first_group, 1.0 / sizes[0], -1.0 / sizes[1]), 0.0)
            found[f"{kind} {y}"] = float(np.abs(np.cumsum(steps)[last]).max())
            noise[f"{kind} {y}"] = sampling_noise(*sizes)
    return found, noise


def sampling_noise(*sizes: int) -> float:
    """Return the mean KS distance that samples of these sizes, all from one distribution, lead to.

    >>> round(sampling_noise(1000, 1000), 3)
    0.039
    """
    return _KOLMOGOROV_MEAN * float(np.sqrt(sum(1.0 / size for size in sizes)))


@dataclass(frozen=True)
class Estimate:
    """A mean over replicates.

    Attributes
    ----------
    mean, sd
        Over replicates; the sd is what the error bars of the pictures show.
    reach
        Half of the mean's 95 % interval: Student's t times the standard error.
    """

    mean: float
    sd: float
    reach: float

    @property
    def low(self) -> float:
        """The lower end of the interval."""
        return self.mean - self.reach

    @property
    def high(self) -> float:
        """The upper end of the interval."""
        return self.mean + self.reach


def estimate(values: Sequence[float]) -> Estimate:
    """Return the mean of replicates and how sure it is; with one replicate it is not sure at all.

    >>> estimate([1.0, 3.0]).mean, estimate([1.0]).reach
    (2.0, inf)
    """
    sample = np.asarray(values, dtype=np.float64)
    if sample.size < 2:
        return Estimate(float(sample.mean()), 0.0, float("inf"))
    from scipy.special import stdtrit

    sd = float(sample.std(ddof=1))
    reach = float(stdtrit(sample.size - 1, 0.975)) * sd / float(np.sqrt(sample.size))
    return Estimate(float(sample.mean()), sd, reach)


def summary(values: Sequence[float]) -> dict[str, Any]:
    """Return mean, standard deviation and the replicates themselves, as JSON values.

    >>> summary([1.0, 3.0])
    {'mean': 2.0, 'sd': 1.414, 'replicates': [1.0, 3.0]}
    """
    whole = estimate(values)
    return {
        "mean": float(f"{whole.mean:.8g}"),
        "sd": float(f"{whole.sd:.4g}"),
        "replicates": [float(f"{value:.8g}") for value in values],
    }
