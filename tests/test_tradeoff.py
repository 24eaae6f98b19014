"""What to expect of a model, and sweeps."""

import numpy as np
import pytest

import evenodds as eo
from evenodds.simulate import draw_population, outcome_on_fresh_lists
from evenodds.tradeoff import prospect


@pytest.fixture(scope="module")
def simulated():
    return eo.tally(eo.simulate(queries=20_000))


@pytest.mark.parametrize(
    "model", [eo.EqualOpportunity(), eo.EqualOpportunity(alpha=0.4), eo.EqualizedOdds(alpha=0.5)], ids=str
)
def test_it_foretells_fresh_lists(simulated, model):
    """Expected distances and positives match lists that are re-ranked with clicks redrawn."""
    fitted = model.fit(simulated)
    told = prospect(fitted, simulated, fitted.position_bias_)
    found = outcome_on_fresh_lists(
        draw_population(), lambda s, g: fitted.transform(s, g, seed=1), queries=20_000
    )
    assert told.merit["positive"] == pytest.approx(found.merit[1], abs=0.02)
    assert told.observed["positive"] == pytest.approx(found.observed[1], abs=0.02)
    assert told.observed["negative"] == pytest.approx(found.observed[0], abs=0.02)
    assert told.positives == pytest.approx(found.click_rate, rel=0.01)


def test_auc_and_movement_match_rows(simulated):
    """Without re-ranking (alpha = 0) movement is nil and the AUC is that of the scores for merit labels."""
    fitted = eo.EqualOpportunity(alpha=0.0).fit(simulated)
    told = prospect(fitted, simulated, fitted.position_bias_)
    population = draw_population()
    score = population.relevance + np.random.default_rng(1).normal(0, 0.1, population.relevance.size)
    rank = np.argsort(np.argsort(score)) + 1
    positive = population.merit == 1
    auc = (rank[positive].mean() - (positive.sum() + 1) / 2) / (~positive).sum()
    assert told.movement == 0
    assert told.auc == pytest.approx(auc, abs=0.01)


def test_a_sweep_fits_once_and_leaves_the_model_alone(simulated):
    """A sweep returns a row for each alpha: unfairness falls, and the model that was passed stays unfitted."""
    model = eo.EqualOpportunity()
    rows = eo.sweep(model, simulated, alphas=(0, 0.5, 1))
    worst = [row.prospect.merit["positive"] for row in rows]
    assert worst[0] > worst[1] > worst[2]
    assert not hasattr(model, "index_")
    assert rows[0].to_dict()["alpha"] == 0


def test_a_sweep_over_epsilon(simulated):
    """Looser epsilons move scores less and leave more unfairness."""
    rows = eo.sweep(eo.EqualizedOdds(bins=20), simulated, alphas=(1,), epsilons=(None, 0.1, 0.5))
    movement = [row.prospect.movement for row in rows]
    assert movement[0] > movement[1] > movement[2]
    assert rows[0].prospect.merit["worst"] < rows[1].prospect.merit["worst"] < rows[2].prospect.merit["worst"]
    with pytest.raises(eo.SettingsError, match="has no epsilon"):
        eo.sweep(eo.EqualOpportunity(), simulated, epsilons=(0.1,))
