"""A model applied to counts: many masses at once, and in parts."""

import numpy as np
import pytest

import evenodds as eo
from evenodds.audit import after


@pytest.mark.parametrize("alpha", [0.0, 0.4, 1.0])
@pytest.mark.parametrize(
    "make",
    [
        eo.EqualOpportunity,
        lambda: eo.EqualizedOdds(bins=20),
        lambda: eo.EqualizedOdds(bins=10, keep_order=True),
    ],
)
@pytest.mark.parametrize("log", ["tied", "simulated"])
def test_several_masses_are_mapped_as_each_alone(log, make, alpha, request):
    """fair_cdf of masses with leading axes is the fair_cdf of each of them, with and without ties."""
    counts = eo.tally(request.getfixturevalue(log), cells=300)
    model = make().fit(counts)
    model.alpha = alpha
    mass = np.moveaxis(counts.counts.sum(axis=2, dtype=np.float64), 1, 0)
    both = np.stack((mass, mass[::-1] + 1.0))
    thresholds, together = model.fair_cdf(counts, both)
    for place in np.ndindex(2, 2):
        alone = model.fair_cdf(counts, both[place])
        assert (alone[0] == thresholds).all()
        assert np.allclose(alone[1], together[place], rtol=0, atol=1e-12)


def test_an_audit_in_many_parts_is_the_same(counted, fitted, monkeypatch):
    """How many replicates are held in memory at a time changes nothing."""
    whole = eo.audit(counted, fitted).to_dict()
    monkeypatch.setattr(after, "_HELD", 1)
    assert eo.audit(counted, fitted).to_dict() == whole


def test_fewer_steps_hardly_change_an_interval(counted, fitted, monkeypatch):
    """With many groups steps are joined; that moves the ends of an interval by little."""
    whole = eo.audit(counted, fitted).unfairness_at_most(after=True)
    monkeypatch.setattr(after, "_STEPS", 200)
    assert eo.audit(counted, fitted).unfairness_at_most(after=True) == pytest.approx(whole, rel=0.05)
