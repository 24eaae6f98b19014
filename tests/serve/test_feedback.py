"""Feedback over HTTP: joined to what was served, safe when it is acknowledged, and the loop that it closes."""

import json
import sqlite3

import msgspec
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

import evenodds as eo

BEARER = {"authorization": "Bearer a token for tests"}


@pytest.fixture
def store(tmp_path):
    """Return where the store of this test is."""
    return str(tmp_path / "feedback.db")


@pytest.fixture
def collecting(serving, store):
    """Start a server with a store: `with collecting("odds") as client:`."""

    def start(name="opportunity", **settings):
        return serving(name, **{"feedback": store, "plain_ids": True, **settings})

    return start


def candidates(size=6, seed=0, **more):
    """Return a request."""
    rng = np.random.default_rng(seed)
    return {
        "key": f"request{seed}",
        "ids": [f"item{number}" for number in rng.permutation(900)[:size]],
        "scores": rng.normal(0.3, 1.0, size).tolist(),
        "groups": np.array(["women", "men", "other"])[rng.integers(0, 3, size)].tolist(),
        **more,
    }


def rows(store, *columns):
    """Return the rows of the store."""
    return [
        row
        for batch in eo.Log(store, settle=0).batches(list(columns))
        for row in zip(*(column.to_pylist() for column in batch.columns), strict=True)
    ]


def send(client, *events, status=200, **more):
    """Send events; return the answer."""
    answer = client.post("/feedback", json={"events": list(events)}, headers=BEARER, **more)
    assert answer.status_code == status, answer.text
    return answer.json()


def test_what_is_served_is_recorded_in_the_order_shown(collecting, store):
    """Each candidate is a row: position as answered, original score, group, model, arm."""
    asked = candidates(20)
    with collecting() as client:
        answer = client.post("/rerank", json=asked).json()
    found = rows(store, "query", "item", "position", "score", "group", "label", "model", "arm")
    assert found == [
        (
            asked["key"],
            asked["ids"][i],
            place,
            asked["scores"][i],
            asked["groups"][i],
            0,
            answer["model"],
            "fair",
        )
        for place, i in enumerate(answer["order"], 1)
    ]


def test_feedback_is_joined_and_counted_once(collecting, store):
    """News, repetitions and labels for what was not served are told apart; the tally has each positive once."""
    asked = candidates()
    first, second, third = ({"key": asked["key"], "item": item, "label": 1} for item in asked["ids"][:3])
    with collecting() as client:
        client.post("/rerank", json=asked)
        assert send(client, first, first, {**second, "label": True}) == {
            "counted": 2,
            "repeated": 1,
            "waiting": 0,
        }
        assert send(client, first, {**third, "label": 0}) == {"counted": 1, "repeated": 1, "waiting": 0}
        assert send(client, {**third, "position": 9}, {**first, "item": "nobody"}) == {
            "counted": 1,
            "repeated": 0,
            "waiting": 1,
        }
        single = client.post("/feedback", json={"key": "not yet", "item": 7, "label": 1}, headers=BEARER)
        assert single.json() == {"counted": 0, "repeated": 0, "waiting": 1}
        later = {**candidates(3), "key": "not yet", "ids": [7, 8, 9]}
        client.post("/rerank", json=later)
    found = {(q, i): (label, p) for q, i, label, p in rows(store, "query", "item", "label", "position")}
    assert found[asked["key"], third["item"]] == (1, 9)
    assert found["not yet", "7"][0] == 1
    assert sum(label for label, _ in found.values()) == 4


def test_msgpack_batches_arrow_lists_and_crossed_groups(collecting, store):
    """Lists of every kind of body are recorded, several in a request, and feedback comes as MessagePack, too."""
    crossed = {"group": ["women", "men"], "age": [20, 40]}
    with collecting("crossed") as client:
        many = {"requests": [{**candidates(2, seed), "groups": crossed} for seed in (1, 2)]}
        client.post("/rerank", json=many)
        table = pa.table(
            {
                "key": ["a1", "a1", "a2"],
                "query": [5, 6, 6],
                "item": [1, 2, 3],
                "score": [0.1, 0.2, 0.3],
                "group": ["women", "men", None],
                "age": [20, 40, 20],
            }
        )
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, table.schema) as writer:
            writer.write_table(table)
        kind = "application/vnd.apache.arrow.stream"
        answer = client.post("/rerank", content=bytes(sink.getvalue()), headers={"content-type": kind})
        assert answer.status_code == 200, answer.text
        body = msgspec.msgpack.encode({"query": 5, "key": "a1", "item": 1, "label": 1})
        answer = client.post(
            "/feedback", content=body, headers={**BEARER, "content-type": "application/msgpack"}
        )
        assert msgspec.msgpack.decode(answer.content) == {"counted": 1, "repeated": 0, "waiting": 0}
    found = rows(store, "query", "item", "group", "age", "label")
    assert sorted(found)[:2] == [("5", "1", "women", "20", 1), ("6", "2", "men", "40", 0)]  # null is left out
    assert len(found) == 6


def test_the_query_names_the_list_where_keys_are_people(collecting, store):
    """A key that comes again with another query is another list; feedback says which by the query."""
    with collecting() as client:
        for query in ("monday", "tuesday"):
            client.post("/rerank", json=candidates(4, query=query))
        item = candidates(4)["ids"][0]
        event = {"key": "request0", "query": "tuesday", "item": item, "label": 1}
        assert send(client, event)["counted"] == 1
        assert send(client, {"key": "request0", "item": item, "label": 1})["waiting"] == 1
    found = rows(store, "query", "label")
    assert sorted(set(found)) == [("monday", 0), ("tuesday", 0), ("tuesday", 1)]
    assert len(found) == 8


def test_arms_are_recorded_as_they_were_shown(collecting, store):
    """Outside the ramp and in the shadow the old order was shown, and that is what the rows say."""
    with collecting(ramp=0.0) as client:
        client.post("/rerank", json=candidates(9, 1))
        client.post("/mode", json={"shadow": True}, headers=BEARER)
        client.post("/rerank", json=candidates(9, 2))
    found = rows(store, "arm", "score", "position")
    for arm in ("original", "shadow"):
        scores = [score for name, score, _ in found if name == arm]
        assert len(scores) == 9
        assert scores == sorted(scores, reverse=True)


def test_only_what_is_shown_is_recorded(collecting, store):
    """With a top of three, three candidates of an answer are impressions."""
    with collecting(feedback_top=3) as client:
        answer = client.post("/rerank", json=candidates(9)).json()
    ids = candidates(9)["ids"]
    assert rows(store, "item", "position") == [
        (ids[i], place) for place, i in enumerate(answer["order"][:3], 1)
    ]


def test_lists_without_a_name_are_served_and_counted_as_such(collecting, store):
    """A list without key or ids cannot be joined: it is answered, not recorded, and the metrics say so."""
    with collecting() as client:
        for missing in ("key", "ids"):
            assert client.post("/rerank", json={**candidates(), missing: None}).status_code == 200
        assert client.post("/rerank", json={**candidates(), "key": ""}).status_code == 200
        client.post("/rerank", json=candidates())
        text = client.get("/metrics").text
    assert 'evenodds_events_total{event="list not recorded: no key or no ids"} 2.0' in text
    assert 'evenodds_events_total{event="list recorded"} 1.0' in text
    assert len(rows(store, "item")) == 6


def test_metrics_count_events_by_what_became_of_them(collecting):
    """Counted, repeated and waiting events are counters."""
    asked = candidates()
    event = {"key": asked["key"], "item": asked["ids"][0], "label": 1}
    with collecting() as client:
        client.post("/rerank", json=asked)
        send(client, event, event, {**event, "item": "x"})
        text = client.get("/metrics").text
    for fate in ("counted", "repeated", "waiting"):
        assert f'evenodds_events_total{{event="feedback {fate}"}} 1.0' in text


def test_without_its_token_feedback_changes_nothing(collecting, store):
    """No token or a wrong one is 401, for a good event and for a bad one, and nothing is stored."""
    asked = candidates()
    event = {"key": asked["key"], "item": asked["ids"][0], "label": 1}
    with collecting() as client:
        client.post("/rerank", json=asked)
        for headers in ({}, {"authorization": "Bearer wrong"}, {"authorization": "Basic a token for tests"}):
            for body in (event, {"events": [event]}, {"what": 1}):
                assert client.post("/feedback", json=body, headers=headers).status_code == 401
        assert client.get("/feedback", headers=BEARER).status_code == 405
    assert not any(label for (label,) in rows(store, "label"))


BAD = {
    "label 2": ({"key": "k", "item": "i", "label": 2}, 422, "label 2; expected 0 or 1"),
    "label -1": ({"key": "k", "item": "i", "label": -1}, 422, "label -1"),
    "label 0.5": ({"key": "k", "item": "i", "label": 0.5}, 422, "Expected `bool | int | null`"),
    "label text": ({"key": "k", "item": "i", "label": "1"}, 422, "Expected `bool | int | null`"),
    "label huge": ({"key": "k", "item": "i", "label": 10**30}, 422, ""),
    "position 0": (
        {"key": "k", "item": "i", "label": 1, "position": 0},
        422,
        "position 0; expected a whole number from 1",
    ),
    "position -5": ({"key": "k", "item": "i", "label": 1, "position": -5}, 422, "position -5"),
    "position 1.5": ({"key": "k", "item": "i", "label": 1, "position": 1.5}, 422, "Expected `int | null`"),
    "position 2**31": ({"key": "k", "item": "i", "label": 1, "position": 2**31}, 422, "position 2147483648"),
    "no key": ({"item": "i", "label": 1}, 422, "no key (hint"),
    "no item": ({"key": "k", "label": 1}, 422, "the body has no item and label, and no events"),
    "no label": ({"key": "k", "item": "i"}, 422, "the body has no item and label"),
    "empty key": ({"key": "", "item": "i", "label": 1}, 422, "key is empty text"),
    "long item": ({"key": "k", "item": "i" * 1001, "label": 1}, 422, "item has 1,001 characters"),
    "null byte": ({"key": "k", "item": "a\0", "label": 1}, 422, "no text that can be stored"),
    "key too large": ({"key": 2**64, "item": "i", "label": 1}, 422, ""),
    "unknown field": ({"key": "k", "item": "i", "label": 1, "lable": 1}, 422, "unknown field `lable`"),
    "both": ({"key": "k", "events": []}, 422, "events, and one of its own beside them"),
    "in events": (
        {"events": [{"key": "k", "item": "i", "label": 1}, {"item": "i", "label": 1}]},
        422,
        "events[1]: no key",
    ),
    "array": ([1, 2], 422, "Expected `object`"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_feedback_is_one_line_and_stores_nothing(collecting, store, name):
    """Each bad event is refused in one line, with all that came with it."""
    body, status, message = BAD[name]
    with collecting() as client:
        answer = client.post("/feedback", json=body, headers=BEARER)
        said = answer.json()
        assert answer.status_code == status
        assert message.partition(" (hint")[0] in said["detail"]
        assert "\n" not in said["detail"]
    database = sqlite3.connect(store)
    assert database.execute("SELECT count(*) FROM labels").fetchone() == (0,)
    database.close()


@pytest.mark.parametrize(
    ("body", "kind", "status"),
    [
        (b"", "application/json", 400),
        (b"{", "application/json", 400),
        (b'{"key": "k", "item": "i", "label": NaN}', "application/json", 400),
        (b'{"key": "\xff", "item": "i", "label": 1}', "application/json", 400),
        (b"[" * 100_000, "application/json", 422),
        (b'{"events": ' + b"[" * 50_000, "application/json", 422),
        (b"\xc1", "application/msgpack", 400),
        (b"{}", "text/plain", 415),
        (b"{}", "application/vnd.apache.arrow.stream", 415),
        (b"x" * (9 << 20), "application/json", 413),
        (
            json.dumps({"events": [{"key": "k", "item": "i", "label": 1}] * 10_001}).encode(),
            "application/json",
            422,
        ),
    ],
)
def test_bad_bodies_are_answered(collecting, body, kind, status):
    """What is no feedback at all is refused with the right status, never with 500."""
    with collecting() as client:
        answer = client.post("/feedback", content=body, headers={**BEARER, "content-type": kind})
        assert answer.status_code == status, answer.text
        assert answer.json()["detail"]


ANY = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(max_size=20),
    st.lists(st.integers(), max_size=3),
    st.dictionaries(st.text(max_size=3), st.integers(), max_size=2),
)
NAME = st.one_of(st.sampled_from(["key", "", "a" * 1000, "\0", "ä\u2028", 0, -1, 2**63 - 1, -(2**63)]), ANY)
FUZZED = st.fixed_dictionaries(
    {},
    optional={
        "key": NAME,
        "query": NAME,
        "item": NAME,
        "label": ANY,
        "position": ANY,
        "events": ANY,
        "more": ANY,
    },
)


@pytest.mark.parametrize("plain", [True, False])
def test_any_feedback_is_stored_or_refused(collecting, store, plain):
    """Whatever the fields hold, the answer is 200, 400 or 422; and what was stored can be read."""
    with collecting(plain_ids=plain) as client:
        client.post("/rerank", json={**candidates(3), "key": "key", "ids": [0, -1, "a" * 1000]})

        @settings(max_examples=150, suppress_health_check=list(HealthCheck), database=None)
        @given(one=FUZZED, many=st.lists(FUZZED, max_size=3), msgpack=st.booleans())
        def fuzzed(one, many, msgpack):
            for body in (one, {"events": many}, {**one, "events": many}):
                try:
                    content = msgspec.msgpack.encode(body) if msgpack else json.dumps(body).encode()
                except (OverflowError, UnicodeEncodeError):
                    continue
                kind = "application/msgpack" if msgpack else "application/json"
                answer = client.post("/feedback", content=content, headers={**BEARER, "content-type": kind})
                assert answer.status_code in {200, 400, 422}, (body, answer.text)

        fuzzed()
        assert send(client, {"key": "key", "item": 0, "label": 1})["waiting"] == 0
    assert len(rows(store, "item")) == 3


def test_a_store_that_fails_stops_feedback_but_not_the_ranking(collecting, store):
    """While the store is locked, feedback is 503 and the ranking goes on; what was not stored is counted as lost."""
    asked = candidates()
    event = {"key": asked["key"], "item": asked["ids"][0], "label": 1}
    with collecting(timeout=1.0) as client:
        client.post("/rerank", json=asked)
        other = sqlite3.connect(store, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        answer = client.post("/feedback", json=event, headers=BEARER)
        assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")
        assert "send it again" in answer.json()["hint"]
        assert client.post("/rerank", json=candidates(6, 1)).status_code == 200
        other.execute("ROLLBACK")
        other.close()
        assert send(client, event)["repeated"] + send(client, event)["repeated"] >= 1
    assert sum(label for (label,) in rows(store, "label")) == 1


def test_a_full_store_says_so(collecting, store):
    """No space left is 503 with a line that says so; the ranking goes on."""
    with collecting() as client:
        feedback = client.app_under_test.extensions[0]
        client.post("/rerank", json=candidates())
        database = feedback._store._database._connection
        pages = database.execute("PRAGMA page_count").fetchone()[0]
        database.execute(f"PRAGMA max_page_count = {pages}")
        events = [{"key": "k" * 900, "item": f"{n}" * 100, "label": 1} for n in range(100)]
        assert "no space left" in send(client, *events, status=503)["detail"]
        for seed in range(40):
            assert client.post("/rerank", json=candidates(60, seed)).status_code == 200
        text = client.get("/metrics").text
        assert 'event="list lost: the store failed"' in text
        database.execute("PRAGMA max_page_count = 100000")
        assert send(client, *events)["waiting"] == 100


def test_a_model_of_other_rows_is_refused_and_the_old_one_kept(collecting, models):
    """A model with other group columns does not go with the store: it is refused, and the old one serves."""
    with collecting() as client:
        before = client.get("/model").json()["version"]
        answer = client.post("/model", content=models["crossed"][0].read_bytes(), headers=BEARER)
        assert answer.status_code == 422
        assert "was made for group_columns" in answer.json()["detail"]
        assert client.get("/model").json()["version"] == before
        answer = client.post("/model", content=models["odds"][0].read_bytes(), headers=BEARER)
        assert answer.status_code == 200


def test_outcomes_and_positions_are_those_of_the_model(tmp_path, store, log):
    """A model of two kinds of positive and positions from 0 takes labels to 2 and the position 0."""
    from starlette.testclient import TestClient

    from evenodds.serve.app import Application
    from evenodds.serve.run import extensions_of
    from evenodds.serve.settings import ServeSettings

    rng = np.random.default_rng(0)
    table = log.slice(0, 6_000)
    place = pa.array(np.arange(6_000) % 20)
    table = table.set_column(
        table.schema.get_field_index("label"), "label", pa.array(rng.integers(0, 3, 6_000))
    )
    eo.EqualOpportunity(points=100).fit(table.append_column("position", place), outcomes=2).save(
        tmp_path / "model.json"
    )
    asked = ServeSettings(
        model=str(tmp_path / "model.json"),
        state=str(tmp_path / "state"),
        token="a token for tests",
        log="none",
        feedback=store,
    )
    with TestClient(Application(asked, extensions_of(asked))) as client:
        client.post("/rerank", json=candidates(3))
        event = {"key": "request0", "item": candidates(3)["ids"][0], "label": 2, "position": 0}
        assert send(client, event)["counted"] == 1
        assert "expected 0 to 2" in send(client, {**event, "label": 3}, status=422)["detail"]
        assert (
            "expected a whole number from 0 on"
            in send(client, {**event, "position": -1}, status=422)["detail"]
        )
    counts = eo.tally(store, settle=0, cells=3)
    assert counts.roles.outcomes == 2
    assert counts.counts.sum(axis=(0, 2, 3)).tolist() == [2, 0, 1]


def test_ids_are_hashed_unless_they_are_to_be_plain(collecting, store, tmp_path):
    """By default a server stores no id, and feedback finds its list all the same."""
    asked = candidates()
    with collecting(plain_ids=False) as client:
        client.post("/rerank", json=asked)
        assert send(client, {"key": asked["key"], "item": asked["ids"][0], "label": 1})["counted"] == 1
    content = b"".join(
        path.read_bytes() for path in tmp_path.iterdir() if path.name.startswith("feedback.db")
    )
    assert b"item" in content  # the column
    assert not any(name.encode() in content for name in (asked["key"], *asked["ids"]))


def test_an_answer_need_not_wait(collecting, store):
    """Without waiting the answer goes out at once, and the list is stored soon after."""
    with collecting(feedback_wait=False) as client:
        for seed in range(5):
            client.post("/rerank", json=candidates(6, seed))
    assert len(rows(store, "item")) == 30


def test_the_document_describes_feedback(collecting):
    """The OpenAPI entry names the fields that the server takes, and no others."""
    with collecting() as client:
        paths = client.app_under_test.extensions[0].paths()
    one, many = paths["/feedback"]["post"]["requestBody"]["content"]["application/json"]["schema"]["oneOf"]
    assert set(one["properties"]) == {"key", "query", "item", "label", "position"}
    assert set(many["properties"]) == {"events"}


def test_the_loop_closes(tmp_path, serving, store):
    """Serve, click, tell, fit, reload: a ranking by an unfair score becomes fair from its own feedback alone.

    The first model does nothing (alpha 0). People look at position j with probability 1 / log2(1 + j) and click
    what has merit; group B's scores are two higher. The model that is fitted on the store is reloaded, and among
    clicked items of fresh lists the groups' scores then have one distribution.
    """
    from evenodds.cli import main
    from evenodds.simulate import (
        GROUP_NAMES,
        draw_clicks,
        draw_lists,
        draw_population,
        position_weights,
        rank,
    )

    population = draw_population(20_000, seed=5)
    names = np.array(GROUP_NAMES)[population.group]
    rng = np.random.default_rng(5)
    first = eo.EqualOpportunity(alpha=0.0).fit(eo.simulate(200, seed=9, list_length=20))
    first.save(tmp_path / "first.json")

    def play(client, lists, number):
        """Serve lists and return scores as answered, groups and clicks; tell the clicks."""
        fair = np.empty_like(lists.score)
        for row in range(0, lists.queries, 200):
            asked = [
                {
                    "key": f"{number}-{q}",
                    "ids": lists.item[q].tolist(),
                    "scores": lists.score[q].tolist(),
                    "groups": names[lists.item[q]].tolist(),
                }
                for q in range(row, row + 200)
            ]
            answer = client.post("/rerank", json={"requests": asked}).json()
            fair[row : row + 200] = [part["scores"] for part in answer["results"]]
        position = rank(lists, fair)
        clicks = draw_clicks(population, lists, position, position_weights(20), rng)
        events = [
            {
                "key": f"{number}-{q}",
                "item": int(lists.item[q, i]),
                "label": 1,
                "position": int(position[q, i]),
            }
            for q, i in zip(*np.nonzero(clicks), strict=True)
        ]
        for start in range(0, len(events), 2_000):
            send(client, *events[start : start + 2_000])
        return fair, population.group[lists.item], clicks

    def unfairness(fair, group, clicks):
        from evenodds.distance import ks_distance

        return ks_distance(fair[(clicks == 1) & (group == 0)], fair[(clicks == 1) & (group == 1)])

    with serving(feedback=store) as client:
        client.post("/model", content=(tmp_path / "first.json").read_bytes(), headers=BEARER)
        before = unfairness(*play(client, draw_lists(population, 1_200, lengths=(20, 20), rng=rng), 1))
        with pytest.raises(SystemExit) as done:
            main(["fit", store, "--settle", "0", "-o", str(tmp_path / "second.json")])
        assert not done.value.code
        answer = client.post("/model", content=(tmp_path / "second.json").read_bytes(), headers=BEARER)
        assert answer.status_code == 200
        after = unfairness(*play(client, draw_lists(population, 1_200, lengths=(20, 20), rng=rng), 2))
        assert len({row for (row,) in rows(store, "model")}) == 2
    assert before > 0.4
    assert after < 0.08
