"""The paths of the server, asked in this process."""

import numpy as np
import pytest

BEARER = {"authorization": "Bearer a token for tests"}


def candidates(size=60, seed=0):
    rng = np.random.default_rng(seed)
    return {
        "key": f"request{seed}",
        "ids": [f"item{number}" for number in rng.permutation(900)[:size]],
        "scores": rng.normal(0.3, 1.0, size).tolist(),
        "groups": np.array(["women", "men", "other"])[rng.integers(0, 3, size)].tolist(),
    }


@pytest.mark.parametrize("name", ["opportunity", "half", "odds"])
def test_the_answer_is_the_models_transform(serving, models, name):
    """Fair scores are those of `transform`, bit for bit, and the order is theirs from the top down."""
    asked = candidates()
    with serving(name) as client:
        answer = client.post("/rerank", json=asked).json()
    model = models[name][1]
    keys = ([asked["key"]] * 60, asked["ids"])
    fair = model.transform(asked["scores"], asked["groups"], keys)
    assert answer["scores"] == fair.tolist()
    assert answer["order"] == np.argsort(-fair, kind="stable").tolist()
    assert (answer["arm"], answer["unknown"]) == ("fair", 0)


def test_nothing_changes_without_the_token(serving):
    """Each path that changes state answers 401 to no token and to a wrong one, and changes nothing."""
    with serving() as client:
        before = client.get("/model").json()
        changing = [route.path for route in client.app_under_test.routes if "POST" in route.methods]
        assert {"/model", "/model/rollback", "/mode"} <= set(changing)
        for path in changing:
            for headers in ({}, {"authorization": "Bearer wrong"}, {"authorization": "a token for tests"}):
                refused = client.post(path, json={"shadow": True}, headers=headers)
                assert (refused.status_code, refused.json()["status"]) == (401, 401)
        assert client.get("/model").json() == before
        assert client.post("/mode", json={"shadow": True}, headers=BEARER).json()["shadow"]
