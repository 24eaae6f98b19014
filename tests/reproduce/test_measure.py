import numpy as np
import pytest

from evenodds.distance import ks_distance
from evenodds.reproduce.measure import estimate, group_distances, sampling_noise


@pytest.mark.parametrize("tied", [False, True])
def test_one_sort_gives_the_distances_of_samples_taken_apart(tied):
    """All distances equal those of the plain two-sample function, with and without ties."""
    rng = np.random.default_rng(1)
    scores = rng.normal(size=3_000)
    scores = np.round(scores, 1) if tied else scores
    group, label = rng.integers(0, 2, 3_000), rng.integers(0, 2, 3_000)
    found, _ = group_distances(scores, group, {"merit": label})
    for y in (0, 1):
        apart = [scores[(label == y) & (group == code)] for code in (0, 1)]
        assert found[f"merit {y}"] == pytest.approx(ks_distance(*apart), abs=1e-12)


def test_noise_is_the_mean_distance_of_two_samples_of_one_distribution():
    """The stated noise agrees with simulation to a few per cent."""
    rng = np.random.default_rng(2)
    simulated = [ks_distance(rng.random(400), rng.random(900)) for _ in range(400)]
    assert sampling_noise(400, 900) == pytest.approx(np.mean(simulated), rel=0.06)


def test_the_interval_of_a_mean_covers_at_its_level():
    """Student's interval over four replicates covers the truth in about 95 % of 2,000 studies."""
    rng = np.random.default_rng(3)
    found = [estimate(rng.normal(1.0, 2.0, 4).tolist()) for _ in range(2_000)]
    assert np.mean([one.low <= 1.0 <= one.high for one in found]) == pytest.approx(0.95, abs=0.02)


def test_a_label_that_a_group_lacks_has_no_distance():
    """Nothing to compare is not a number, not 0."""
    found, _ = group_distances(np.arange(4.0), np.array([0, 0, 1, 1]), {"merit": np.array([1, 1, 0, 1])})
    assert np.isnan(found["merit 0"])
    assert found["merit 1"] == 1.0
