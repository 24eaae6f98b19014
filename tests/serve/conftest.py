import itertools
from contextlib import contextmanager

import numpy as np
import pyarrow as pa
import pytest
from starlette.testclient import TestClient

import evenodds as eo
from evenodds.serve.app import Application
from evenodds.serve.run import extensions_of
from evenodds.serve.settings import ServeSettings

TOKEN = "a token for tests"
BEARER = {"authorization": f"Bearer {TOKEN}"}


@pytest.fixture(scope="session")
def log():
    """Three groups, no ties, with queries and items."""
    rng = np.random.default_rng(11)
    size = 30_000
    group = rng.integers(0, 3, size)
    score = rng.normal(0.4 * group, 1.0)
    return pa.table(
        {
            "query": rng.integers(0, 1_500, size),
            "item": np.array([f"item{number}" for number in rng.integers(0, 900, size)]),
            "group": np.array(["women", "men", "other"])[group],
            "age": np.array([20, 40])[rng.integers(0, 2, size)],
            "score": score,
            "label": (rng.random(size) < 1 / (1 + np.exp(-score))).astype(np.int8),
        }
    )


@pytest.fixture(scope="session")
def models(log, tmp_path_factory):
    """Model files by name: deterministic, drawn, and with crossed groups."""
    folder = tmp_path_factory.mktemp("models")
    made = {
        "opportunity": eo.EqualOpportunity(points=500).fit(log),
        "half": eo.EqualOpportunity(points=500, alpha=0.5).fit(log),
        "odds": eo.EqualizedOdds(bins=20).fit(log),
        "crossed": eo.EqualOpportunity(points=200).fit(log, group=["group", "age"]),
        "strict": eo.EqualOpportunity(points=200, unknown="error").fit(log),
    }
    for name, model in made.items():
        model.save(folder / f"{name}.json")
    return {name: (folder / f"{name}.json", model) for name, model in made.items()}


@pytest.fixture
def serving(models, tmp_path):
    """Start an application in this process: `with serving("odds") as client:`."""
    number = itertools.count()

    @contextmanager
    def start(name="opportunity", **settings):
        path = tmp_path / "model.json"
        path.write_bytes(models[name][0].read_bytes())
        plain = {"token": TOKEN, "log": "none", "poll": 0.02, "state": str(tmp_path / f"state{next(number)}")}
        asked = ServeSettings(model=str(path), **{**plain, **settings})
        app = Application(asked, extensions_of(asked))
        with TestClient(app, raise_server_exceptions=True) as client:
            client.app_under_test = app
            client.model_file = path
            yield client

    return start
