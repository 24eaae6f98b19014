import pytest

from evenodds.reproduce.paper import Size, run_paper

TINY = Size(20_000, 400, 200, 2, (0.0, 0.4, 1.0))


@pytest.fixture(scope="session")
def tiny():
    """Run a tiny simulation study. Not to be changed."""
    return run_paper(TINY, seed=4)


@pytest.fixture(scope="session")
def tiny_size():
    """Return how much of it there is."""
    return TINY
