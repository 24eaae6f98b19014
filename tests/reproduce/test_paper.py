import json

import numpy as np
import pyarrow as pa
import pytest

import evenodds as eo
from evenodds.reproduce.paper import on_unit_scale, run_paper

# So few rows that bins are thin: said by the fits, and no matter here.
pytestmark = pytest.mark.filterwarnings("ignore::evenodds.SmallGroupWarning")


def test_moving_the_cell_ends_is_counting_the_moved_scores(simulated):
    """The tally on the unit scale equals the one counted from inverse logits."""
    counted = eo.tally(simulated, cells=500)
    moved = simulated.set_column(
        simulated.column_names.index("score"),
        "score",
        pa.array(1.0 / (1.0 + np.exp(-simulated["score"].to_numpy()))),
    )
    assert on_unit_scale(counted).equals(eo.tally(moved, grid=on_unit_scale(counted)))


def test_the_same_seed_gives_the_same_numbers(tiny, tiny_size):
    """Two runs agree in every number but the seconds, and both are plain JSON."""
    again = run_paper(tiny_size, seed=4)
    one, other = ({**part, "timings": None} for part in (tiny, again))
    assert json.loads(json.dumps(one)) == one == other


def test_at_alpha_zero_all_rerankers_are_the_old_ranking(tiny):
    """Same lists, same luck: at alpha 0 the numbers are the same to the last digit."""
    starts = [
        (part["performance"][0], *(steps[0] for steps in part["unfairness"].values()))
        for part in tiny["tradeoff"].values()
    ]
    assert all(start == starts[0] for start in starts)


def test_densities_are_densities(tiny):
    """Every histogram of scores adds up to one."""
    for ranking in tiny["distributions"].values():
        for groups in ranking.values():
            for density in groups.values():
                assert sum(density) * 0.1 == pytest.approx(1.0, abs=1e-3)
