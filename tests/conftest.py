import os
import tempfile
import warnings
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import settings

import evenodds as eo

# The same examples every time, and no stopwatch: other work may run on the machine.
settings.register_profile("evenodds", derandomize=True, deadline=None)
settings.load_profile("evenodds")


@pytest.fixture(scope="session")
def simulated():
    """The paper's simulation, 4,000 lists of 50."""
    return eo.simulate(4_000, seed=0)


@pytest.fixture(scope="session")
def counted(simulated):
    """Its tally."""
    return eo.tally(simulated, cells=1_000)


@pytest.fixture(scope="session")
def fitted(counted):
    """Equality of opportunity, fitted on it. Not to be changed."""
    return eo.EqualOpportunity().fit(counted)


@pytest.fixture(scope="session")
def mixed():
    """A small log with every role, two group columns, unequal lists and tied scores."""
    rng = np.random.default_rng(7)
    length = rng.integers(1, 12, 120)
    query = np.repeat(np.arange(120), length)
    size = query.size
    position = np.concatenate([np.arange(1, n + 1) for n in length])
    return pa.table(
        {
            "query": pa.array([f"q{number}" for number in query]),
            "item": rng.integers(0, 40, size),
            "position": position.astype(np.int16),
            "group": pa.array(np.array(["a", "b", "ß"])[rng.integers(0, 3, size)]),
            "age": rng.integers(0, 2, size).astype(bool),
            "score": np.where(rng.random(size) < 0.3, 0.5, rng.random(size)),
            "label": (rng.random(size) < 0.4).astype(np.int8),
            "weight": rng.integers(1, 9, size).astype(np.float64),
        }
    )


@pytest.fixture(scope="session")
def tied():
    """A log whose score takes ten values, with other base rates and other scores in each group."""
    rng = np.random.default_rng(3)
    size = 12_000
    group = rng.integers(0, 2, size)
    merit = rng.random(size) < 0.3 + 0.2 * group
    score = np.clip(np.rint(rng.normal(4 + 2 * merit + 1.5 * group, 2)), 1, 10) / 10
    return pa.table(
        {
            "item": np.arange(size),
            "group": np.array(["a", "b"])[group],
            "score": score,
            "label": merit.astype(np.int8),
        }
    )


@pytest.fixture(scope="session")
def spark():
    """Start one Spark for all tests: two cores, four tries a task, little of everything else."""
    from evenodds.engines.spark_session import spark_session

    settings = {
        "spark.sql.shuffle.partitions": "2",
        "spark.driver.memory": "1g",
        "spark.sql.session.timeZone": "UTC",
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what PySpark itself says while it starts
        session = spark_session("local[2,4]", settings)
    yield session
    session.stop()


@pytest.fixture(scope="session")
def postgres_server(tmp_path_factory):
    """Start a real PostgreSQL, for this session only."""
    with warnings.catch_warnings():  # it looks for a runtime folder, which containers do not have
        warnings.simplefilter("ignore")
        os.environ.setdefault("XDG_RUNTIME_DIR", str(tmp_path_factory.mktemp("runtime")))
        import pgserver

    # PostgreSQL refuses sockets with long paths, and folders that others can read.
    folder = Path(tempfile.mkdtemp(prefix="pg"))
    server = pgserver.get_server(folder, cleanup_mode="delete")
    yield server.get_uri()
    server.cleanup()
