"""The paths of the server, asked in this process."""

import io
import json
import re
import time
from pathlib import Path

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from starlette.testclient import TestClient

import evenodds as eo
from evenodds.apply import apply_to_log
from evenodds.serve.app import Application
from evenodds.serve.settings import ServeSettings

BEARER = {"authorization": "Bearer a token for tests"}
ARROW = "application/vnd.apache.arrow.stream"
MSGPACK = "application/msgpack"


def candidates(size=60, seed=0):
    rng = np.random.default_rng(seed)
    return {
        "key": f"request{seed}",
        "ids": [f"item{number}" for number in rng.permutation(900)[:size]],
        "scores": rng.normal(0.3, 1.0, size).tolist(),
        "groups": np.array(["women", "men", "other"])[rng.integers(0, 3, size)].tolist(),
    }


def fair_of(model, asked):
    keys = ([asked["key"]] * len(asked["scores"]), asked["ids"])
    return model.transform(asked["scores"], asked["groups"], keys)


def until(holds, seconds=5.0):
    stop = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < stop, "it did not happen in time"
        time.sleep(0.01)


# Ranking


@pytest.mark.parametrize("name", ["opportunity", "half", "odds"])
def test_the_answer_is_the_models_transform(serving, models, name):
    """Fair scores are those of `transform`, bit for bit, and the order is theirs from the top down."""
    asked = candidates()
    with serving(name) as client:
        answer = client.post("/rerank", json=asked).json()
        version = client.get("/model").json()["version"]
    fair = fair_of(models[name][1], asked)
    assert answer["scores"] == fair.tolist()
    assert answer["order"] == np.argsort(-fair, kind="stable").tolist()
    assert (answer["arm"], answer["unknown"], answer["model"]) == ("fair", 0, version)


def test_a_served_score_is_the_offline_one(serving, models, log, tmp_path):
    """The key is the log's query and an id its item: `apply` draws the same scores and positions."""
    rows = log.slice(0, 3_000).sort_by("query")
    out = tmp_path / "fair.parquet"
    apply_to_log(models["odds"][1], eo.Log(rows, label="label", query="query", item="item"), out)
    offline = pq.read_table(out).to_pydict()
    query = np.array(offline["query"])
    with serving("odds") as client:
        for one in np.unique(query)[:40].tolist():
            places = np.flatnonzero(query == one)
            asked = {
                "key": one,
                "ids": [offline["item"][place] for place in places],
                "scores": [offline["score"][place] for place in places],
                "groups": [offline["group"][place] for place in places],
            }
            answer = client.post("/rerank", json=asked).json()
            assert answer["scores"] == [offline["fair_score"][place] for place in places]
            position = np.empty(places.size, int)
            position[answer["order"]] = np.arange(1, places.size + 1)
            assert position.tolist() == [offline["fair_position"][place] for place in places]


def test_a_batch_is_its_lists(serving):
    """Lists of a batch are answered as each would be alone; an empty list, and an empty batch, are fine."""
    asked = [candidates(20, 1), candidates(3, 2), {"scores": [], "groups": [], "ids": [], "key": "k"}]
    with serving("odds") as client:
        whole = client.post("/rerank", json={"requests": asked}).json()
        alone = [client.post("/rerank", json=one).json() for one in asked]
        assert client.post("/rerank", json={"requests": []}).json()["results"] == []
    for one in alone:
        assert one.pop("model") == whole["model"]
    assert whole["results"] == alone


def test_every_media_type_says_the_same(serving):
    """JSON, MessagePack and Arrow in, JSON, MessagePack and Arrow out: the same scores and order."""
    asked = candidates(30, 3)
    table = pa.table(
        {
            "score": asked["scores"],
            "group": pa.array(asked["groups"]).dictionary_encode(),
            "item": asked["ids"],
            "key": [asked["key"]] * 30,
        }
    )
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        for batch in table.to_batches(max_chunksize=7):
            writer.write_batch(batch)
    bodies = {
        "application/json": json.dumps(asked).encode(),
        MSGPACK: msgspec.msgpack.encode(asked),
        ARROW: sink.getvalue(),
    }
    found = []
    with serving("odds") as client:
        for sent, body in bodies.items():
            for wanted in ("application/json", MSGPACK, ARROW, None):
                headers = {"content-type": sent, "accept": wanted or "*/*"}
                answer = client.post("/rerank", content=body, headers=headers)
                assert answer.status_code == 200, answer.text
                kind = answer.headers["content-type"]
                assert kind == (wanted or sent)
                found.append(columns_of(answer.content, kind))
    assert all(one == found[0] for one in found)


def columns_of(content, kind):
    if kind == ARROW:
        table = pa.ipc.open_stream(content).read_all()
        assert table.schema.metadata[b"model"]
        order = np.argsort(table["fair_position"].to_numpy()).tolist()
        return table["fair_score"].to_pylist(), order
    said = msgspec.msgpack.decode(content) if kind == MSGPACK else json.loads(content)
    said = said["results"][0] if "results" in said else said
    return said["scores"], said["order"]


def test_an_arrow_stream_holds_many_lists(serving, models):
    """Rows of one key stand together; whole-number keys and items draw as such, in place."""
    rng = np.random.default_rng(5)
    keys = np.repeat([7, 8, 7], [4, 5, 6])
    items, scores = rng.integers(0, 99, 15), rng.normal(size=15)
    table = pa.table({"key": keys, "item": items, "score": scores, "group": ["men"] * 14 + [None]})
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    with serving("odds") as client:
        answer = client.post("/rerank", content=sink.getvalue(), headers={"content-type": ARROW})
    said = pa.ipc.open_stream(answer.content).read_all()
    fair = models["odds"][1].transform(scores, ["men"] * 14 + [None], (keys, items))
    assert said["fair_score"].to_pylist() == fair.tolist()
    expected = np.concatenate(
        [np.argsort(np.argsort(-part, kind="stable")) + 1 for part in np.split(fair, [4, 9])]
    )
    assert said["fair_position"].to_pylist() == expected.tolist()


def test_crossed_groups_are_columns_by_name(serving, models):
    """A model with several group columns takes them by name, numbers or text, in any order."""
    groups = {"age": [20, 40, "20"], "group": ["men", "women", "other"]}
    with serving("crossed") as client:
        answer = client.post("/rerank", json={"scores": [0.1, 0.2, 0.3], "groups": groups}).json()
        wrong = client.post("/rerank", json={"scores": [0.1], "groups": ["men"]})
    fair = models["crossed"][1].transform([0.1, 0.2, 0.3], (groups["group"], groups["age"]))
    assert answer["scores"] == fair.tolist()
    assert wrong.status_code == 422
    assert "groups as an object with a list for group and age" in wrong.json()["hint"]


def test_unknown_groups_are_counted_or_refused(serving, models):
    """Null and unseen groups are counted in the answer; where the model says error, they are refused."""
    asked = {"scores": [0.1, 0.2, 0.3], "groups": ["men", None, "nobody"]}
    with serving("opportunity") as client:
        answer = client.post("/rerank", json=asked).json()
        assert answer["unknown"] == 2
        assert (
            answer["scores"] == models["opportunity"][1].transform([0.1, 0.2, 0.3], asked["groups"]).tolist()
        )
        metrics = client.get("/metrics").text
    assert 'evenodds_unknown_groups_total{arm="fair"} 2.0' in metrics
    with serving("strict") as client:
        refused = client.post("/rerank", json=asked)
        assert refused.status_code == 422
        assert "unknown group 'None' for 2 of 3 items" in refused.json()["detail"]


def test_the_documented_request_has_the_documented_answer(tmp_path):
    """The curl in docs/serving.md, sent to a model of the log that ships, is answered as shown there."""
    root = Path(__file__).parents[2]
    page = (root / "docs" / "serving.md").read_text(encoding="utf-8")
    asked, answered = re.search(r"-d '(\{.*?\})'\n(\{.*?\})\n", page, re.DOTALL).groups()
    eo.EqualOpportunity().fit(str(root / "examples" / "impressions.parquet")).save(tmp_path / "model.json")
    settings = ServeSettings(model=str(tmp_path / "model.json"), state=str(tmp_path / "state"), log="none")
    with TestClient(Application(settings)) as client:
        said = client.post("/rerank", content=asked, headers={"content-type": "application/json"}).json()
    shown = json.loads(answered)
    assert shown.pop("scores") == pytest.approx(said.pop("scores"), rel=1e-9)
    assert len(shown.pop("model")) == len(said.pop("model"))
    assert shown == said


# Shadow and ramp


def test_shadow_mode_computes_and_shows_the_old_order(serving, capfd):
    """In shadow mode scores and order are those that were sent; what the model would do is counted."""
    asked = candidates()
    with serving("odds", shadow=True, log="all") as client:
        answer = client.post("/rerank", json=asked).json()
        metrics = client.get("/metrics").text
    assert answer["arm"] == "shadow"
    line = json.loads(
        next(line for line in capfd.readouterr().err.splitlines() if '"shadow"' in line and "lists" in line)
    )
    assert line["moved"] > 0
    assert answer["scores"] == asked["scores"]
    assert answer["order"] == np.argsort(-np.array(asked["scores"]), kind="stable").tolist()
    moved = float(
        next(line for line in metrics.splitlines() if line.startswith("evenodds_shadow_moved")).split()[1]
    )
    assert moved == line["moved"]
    assert 'evenodds_candidates_total{arm="shadow, fair",group="men"}' in metrics


def test_a_key_stays_in_its_arm(serving, models):
    """The ramp's share of keys is served fair; a larger ramp only adds keys, another model moves none."""
    asked = [{"scores": [0.1], "groups": ["men"], "ids": ["a"], "key": f"viewer{n}"} for n in range(1_000)]

    def fair(client):
        results = client.post("/rerank", json={"requests": asked}).json()["results"]
        return {n for n, one in enumerate(results) if one["arm"] == "fair"}

    with serving("odds", ramp=0.2) as client:
        some = fair(client)
        # Four standard errors of a share of 1,000.
        assert abs(len(some) - 200) < 4 * np.sqrt(1_000 * 0.2 * 0.8)
        client.post("/mode", json={"ramp": 0.6}, headers=BEARER)
        more = fair(client)
        client.model_file.write_bytes(models["opportunity"][0].read_bytes())
        until(lambda: client.get("/model").json()["serving"]["generation"] == 3)
        assert fair(client) == more
        assert some < more
        client.post("/mode", json={"ramp": 0}, headers=BEARER)
        assert fair(client) == set()
        client.post("/mode", json={"ramp": 1}, headers=BEARER)
        assert len(fair(client)) == 1_000


def test_a_ramp_needs_a_key(serving):
    """While a model is ramped, a request without a key is refused: its arm could not be told."""
    with serving("opportunity", ramp=0.5) as client:
        refused = client.post("/rerank", json={"scores": [0.1], "groups": ["men"]})
        assert refused.status_code == 422
        assert "ramped by key" in refused.json()["detail"]


# Changing models


def test_a_changed_file_is_served(serving, models):
    """A new file under the model's name is served soon; a damaged one is refused and the old one kept."""
    asked = candidates()
    with serving("opportunity") as client:
        first = client.get("/model").json()["version"]
        client.model_file.write_text("{", encoding="utf-8")
        until(lambda: client.get("/model").json()["serving"]["refused"])
        card = client.get("/model").json()
        assert card["version"] == first
        assert "not a whole model file" in card["serving"]["refused"]
        assert client.post("/rerank", json=asked).json()["model"] == first
        client.model_file.write_bytes(models["odds"][0].read_bytes())
        until(lambda: client.get("/model").json()["version"] != first)
        answer = client.post("/rerank", json=asked).json()
        assert answer["scores"] == fair_of(models["odds"][1], asked).tolist()
        assert client.get("/model").json()["serving"]["refused"] is None
        client.model_file.unlink()
        until(lambda: client.get("/model").json()["serving"]["refused"])
        assert client.post("/rerank", json=asked).json()["scores"] == answer["scores"]


def test_models_are_posted_and_taken_back(serving, models):
    """A posted model is served when the answer comes; rollback goes back one by one, to the first."""
    asked = candidates()
    with serving("opportunity") as client:
        first = client.get("/model").json()["version"]
        assert client.post("/model/rollback", headers=BEARER).status_code == 409
        versions = [first]
        for name in ("half", "odds"):
            said = client.post("/model", content=models[name][0].read_bytes(), headers=BEARER).json()
            assert said["previous"] == versions
            versions.append(said["model"])
            answer = client.post("/rerank", json=asked).json()
            assert (answer["model"], answer["scores"]) == (
                said["model"],
                fair_of(models[name][1], asked).tolist(),
            )
        for version in versions[-2::-1]:
            assert client.post("/model/rollback", headers=BEARER).json()["model"] == version
            assert client.post("/rerank", json=asked).json()["model"] == version
        # The watched file has not changed: going back is not undone by it.
        time.sleep(0.1)
        assert client.get("/model").json()["version"] == first


def test_a_sender_can_say_what_it_replaces(serving, models):
    """With if-match a model is only replaced if it is the one that the sender knows."""
    whole = models["half"][0].read_bytes()
    with serving("opportunity") as client:
        first = client.get("/model").json()["version"]
        stale = client.post("/model", content=whole, headers={**BEARER, "if-match": '"0123456789abcdef"'})
        assert stale.status_code == 412
        assert client.get("/model").json()["version"] == first
        known = client.get("/model").headers["etag"]
        assert known == f'"{first}"'
        assert client.post("/model", content=whole, headers={**BEARER, "if-match": known}).is_success


def test_a_state_folder_outlives_the_server(serving, models):
    """With a folder for the state, a posted model and the ramp are served after a restart."""
    with serving("opportunity") as client:
        posted = client.post("/model", content=models["odds"][0].read_bytes(), headers=BEARER).json()["model"]
        client.post("/mode", json={"ramp": 0.5}, headers=BEARER)
        path, state = client.model_file, client.app_under_test.settings.state
    settings = ServeSettings(model=str(path), state=state, log="none", poll=0.02)
    with TestClient(Application(settings)) as again:
        assert again.get("/model").json()["version"] == posted
        assert again.get("/model").json()["serving"]["ramp"] == 0.5
        assert 'arm="fair"' not in again.get("/metrics").text


def test_a_worker_starts_while_the_file_is_damaged(serving):
    """A worker that is started anew serves what the others serve, whatever the model file holds by then."""
    with serving("opportunity") as client:
        version = client.get("/model").json()["version"]
        settings = client.app_under_test.settings
        client.model_file.write_text("{", encoding="utf-8")
        with TestClient(Application(settings)) as another:
            assert another.get("/model").json()["version"] == version
            until(lambda: another.get("/model").json()["serving"]["refused"])


# Who may do what


def test_nothing_changes_without_the_token(serving):
    """Each path that changes state answers 401 to no token and to a wrong one, and changes nothing."""
    with serving() as client:
        before = client.get("/model").json()
        changing = [route.path for route in client.app_under_test.routes if "POST" in route.methods]
        assert {"/model", "/model/rollback", "/mode"} <= set(changing)
        documented = client.get("/openapi.json").json()["paths"]
        assert {path for path, said in documented.items() if "post" in said} == {"/rerank", *changing}
        for path in changing:
            assert documented[path]["post"]["security"] == [{"bearer": []}]
            for headers in ({}, {"authorization": "Bearer wrong"}, {"authorization": "a token for tests"}):
                refused = client.post(path, json={"shadow": True}, headers=headers)
                assert (refused.status_code, refused.json()["status"]) == (401, 401)
                assert refused.headers["www-authenticate"] == "Bearer"
        assert client.get("/model").json() == before
        assert client.post("/mode", json={"shadow": True}, headers=BEARER).json()["shadow"]
    with serving(token=None) as client:
        refused = client.post("/mode", json={"shadow": True}, headers=BEARER)
        assert refused.status_code == 401
        assert "started without a token" in refused.json()["detail"]


# What it tells


def test_metrics_count_what_was_served(serving, models):
    """Requests, times, candidates and exposure by group are those of the answers."""
    asked = [candidates(40, seed) for seed in range(5)]
    bias = models["opportunity"][1].position_bias_
    weights = bias.at(range(int(bias.positions[0]), int(bias.positions[0]) + 40))
    exposure, count = 0.0, 0
    with serving("opportunity") as client:
        for one in asked:
            order = client.post("/rerank", json=one).json()["order"]
            women = [place for place, index in enumerate(order) if one["groups"][index] == "women"]
            exposure += weights[women].sum()
            count += len(women)
        client.post("/rerank", content=b"{")
        client.get("/nothing/of/the/kind")
        lines = dict(
            line.rsplit(" ", 1)
            for line in client.get("/metrics").text.splitlines()
            if not line.startswith("#")
        )
        version = client.get("/model").json()["version"]
    assert float(lines['evenodds_requests_total{path="/rerank",status="200"}']) == 5
    assert float(lines['evenodds_requests_total{path="/rerank",status="400"}']) == 1
    assert float(lines['evenodds_requests_total{path="other",status="404"}']) == 1
    assert float(lines['evenodds_request_seconds_count{path="/rerank"}']) == 6
    assert float(lines['evenodds_lists_total{arm="fair"}']) == 5
    assert float(lines['evenodds_candidates_total{arm="fair",group="women"}']) == count
    assert float(lines['evenodds_average_exposure{arm="fair",group="women"}']) == pytest.approx(
        exposure / count
    )
    assert float(lines[f'evenodds_model_info{{criterion="opportunity",version="{version}"}}']) == 1


def test_logs_name_nobody(serving, capfd):
    """Each line is JSON; keys and ids stand in it only where that was asked for."""
    for log_ids in (False, True):
        with serving("odds", log="all", log_ids=log_ids) as client:
            client.post("/rerank", json={**candidates(3), "key": "anna", "ids": ["ben", "cem", "dan"]})
            client.post("/rerank", json={**candidates(3), "key": "anna", "ids": ["ben", "cem", 1]})
        text = capfd.readouterr().err
        lines = [json.loads(line) for line in text.splitlines()]
        served = next(line for line in lines if line.get("lists"))
        assert (served["path"], served["status"], served["candidates"], served["arm"]) == (
            "/rerank",
            200,
            3,
            "fair",
        )
        assert [line["event"] for line in lines if "event" in line] == ["started", "stopped"]
        assert any(name in text for name in ("anna", "ben", "cem")) == log_ids
        if log_ids:
            assert (served["keys"], served["ids"]) == (["anna"], [["ben", "cem", "dan"]])


def test_health_and_readiness(serving):
    """The process answers, and is ready until it stops."""
    with serving() as client:
        assert client.get("/healthz").text == "ok\n"
        assert client.get("/readyz").text == "ready\n"
        client.app_under_test.stopping = True
        assert client.get("/readyz").status_code == 503


def test_the_card_says_what_is_served(serving, models):
    """The card has criterion, settings, groups, diagnostics, checksum and what it was fitted on."""
    with serving("odds") as client:
        card = client.get("/model").json()
    said = models["odds"][1].to_dict()
    for name in ("criterion", "settings", "diagnostics", "fitted_on", "groups", "group_columns"):
        assert card[name] == said[name]
    assert card["checksum"].startswith("sha256:" + card["version"])


def test_the_page_needs_nothing_from_elsewhere(serving):
    """The page to try it is one file without an address of any other host."""
    with serving() as client:
        page = client.get("/docs")
    assert page.headers["content-type"].startswith("text/html")
    assert "http://" not in page.text
    assert "https://" not in page.text
    assert "default-src 'none'" in page.headers["content-security-policy"]


def test_too_many_at_a_time_are_turned_away(serving):
    """A worker that is full answers 503 and when to come again."""
    with serving(max_concurrent=1) as client:
        client.app_under_test._active = 1
        refused = client.post("/rerank", json=candidates())
        assert (refused.status_code, refused.headers["retry-after"]) == (503, "1")
        client.app_under_test._active = 0
        assert client.post("/rerank", json=candidates()).is_success


def test_a_batch_that_takes_too_long_is_given_up(serving):
    """Lists of a batch are ranked until the time is over; then the answer is 503, not half an answer."""
    with serving(timeout=1e-9) as client:
        refused = client.post("/rerank", json={"requests": [candidates()] * 2})
        assert refused.status_code == 503
        assert "not done within" in refused.json()["detail"]
