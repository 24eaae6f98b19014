"""Bad requests: answered with one line and a 4xx, whatever they are."""

import asyncio
import gc
import io
import json
import tracemalloc

import msgspec
import numpy as np
import pyarrow as pa
import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings, strategies as st
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from evenodds.serve.intake import Intake

CHECKS = [not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance]
BEARER = {"authorization": "Bearer a token for tests"}
GOOD = {"key": "r", "ids": ["a", "b"], "scores": [0.1, 0.2], "groups": ["men", "women"]}
JSON, MSGPACK = "application/json", "application/msgpack"
ARROW = "application/vnd.apache.arrow.stream"


def stream(table, **options):
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, table.schema, options=pa.ipc.IpcWriteOptions(**options)) as writer:
        writer.write_table(table)
    return sink.getvalue()


def changed(**parts):
    return {name: value for name, value in {**GOOD, **parts}.items() if value is not ...}


@pytest.fixture(scope="module")
def odds(models, tmp_path_factory):
    """One server for all these requests: a model that draws, small limits."""
    from starlette.testclient import TestClient

    from evenodds.serve.app import Application
    from evenodds.serve.run import extensions_of
    from evenodds.serve.settings import ServeSettings

    settings = ServeSettings(
        model=str(models["odds"][0]),
        feedback=str(tmp_path_factory.mktemp("store") / "feedback.db"),
        state=str(tmp_path_factory.mktemp("state")),
        token="a token for tests",
        log="none",
        max_body=1 << 20,
        max_candidates=1_000,
        max_lists=20,
    )
    with TestClient(Application(settings, extensions_of(settings))) as client:
        yield client


def refused(client, body, kind=JSON, path="/rerank", **headers):
    answer = client.post(path, content=body, headers={"content-type": kind, **headers})
    assert 400 <= answer.status_code < 500, (answer.status_code, answer.text[:300])
    said = answer.json()
    assert answer.headers["content-type"] == "application/problem+json"
    assert said["status"] == answer.status_code
    assert "\n" not in said["detail"]
    assert len(said["detail"]) < 400
    return said


@pytest.mark.parametrize(
    ("body", "status", "said"),
    [
        (b"", 400, "truncated"),
        (b"{", 400, "truncated"),
        (b"null", 422, "Expected `object`"),
        (b"[]", 422, "Expected `object`, got `array`"),
        (b"{}", 422, "no scores and groups"),
        (b"\xff\xfe{}", 400, "malformed"),
        (b'{"scores": [0.1], "groups": ["\xff"]}', 400, "utf-8"),
        (b'{"scores": [NaN], "groups": ["a"]}', 400, "malformed"),
        (b'{"scores": [1e400], "groups": ["a"]}', 422, "out of range"),
        (b'{"scores": [1' + b"0" * 400 + b'], "groups": ["a"]}', 422, "out of range"),
        (b'{"scores": [true], "groups": ["a"]}', 422, "Expected `float`, got `bool`"),
        (b'{"scores": ' + b"[" * 100_000, 422, "Expected `float`"),
        (b'{"a":' * 100_000, 422, "unknown field"),
        (b'{"requests": {}}', 422, "Expected `array"),
        (b'{"requests": [{"scores": [0.1]}]}', 422, "missing required field `groups`"),
        (b'{"requests": [], "scores": [], "groups": []}', 422, "expected one of the two"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_bytes_that_are_no_request(odds, body, status, said):
    """A body that cannot be read is 400, one that says something else 422; the line says what and where."""
    answer = refused(odds, body)
    assert answer["status"] == status
    assert said in answer["detail"]


@pytest.mark.parametrize(
    ("parts", "said"),
    [
        ({"groups": ["men"]}, "2 scores but 1 groups"),
        ({"ids": ["a"]}, "2 scores but 1 ids"),
        ({"scores": []}, "0 scores but 2"),
        ({"key": None}, "no key: this model draws at random"),
        ({"ids": ...}, "no ids: this model draws"),
        ({"ids": ["a", 1]}, "ids must be all text or all whole numbers"),
        ({"ids": [1, "a"]}, "ids must be all text or all whole numbers"),
        ({"ids": [1, 2**63]}, "ids must be all text or all whole numbers"),
        ({"ids": [1, 2**80]}, "ids must be all text or all whole numbers"),
        ({"key": 2**70}, "does not fit in 64 bits"),
        ({"key": 1.5}, "got `float` - at `$.key`"),
        ({"groups": {"gender": ["men", "women"]}}, "groups by 'gender'; this model has them by 'group'"),
        ({"groups": [["men"], ["women"]]}, "Expected"),
        ({"groups": "men"}, "Expected"),
        ({"group": ["men", "women"]}, "unknown field `group`"),
        ({"scores": [0.1] * 1_001, "groups": ["men"] * 1_001}, "1,001 candidates; this server takes 1,000"),
    ],
    ids=str,
)
def test_columns_that_do_not_fit(odds, parts, said):
    """Columns of other lengths, types or names, and too many candidates, are 422 with a reason."""
    for kind, write in ((JSON, json.dumps), (MSGPACK, msgspec.msgpack.encode)):
        if kind == MSGPACK and isinstance(parts.get("key", parts.get("ids")), list | int):
            flat = parts.get("ids", [parts.get("key")])
            if any(isinstance(value, int) and value >= 2**64 for value in flat):
                continue  # MessagePack has no such numbers
        body = write(changed(**parts))
        answer = refused(odds, body, kind)
        assert answer["status"] == 422
        assert said in answer["detail"]


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
def test_scores_that_are_not_finite(odds, value):
    """MessagePack and Arrow can carry NaN and infinity; they are refused by place."""
    said = refused(odds, msgspec.msgpack.encode(changed(scores=[0.1, value])), MSGPACK)
    assert f"score {value} at place 1" in said["detail"]
    table = pa.table({"score": [0.1, value], "group": ["men", "men"], "item": ["a", "b"], "key": ["r", "r"]})
    assert f"score {value} at place 1" in refused(odds, stream(table), ARROW)["detail"]


def test_lists_in_a_batch_are_named(odds):
    """In a batch the line says which list is wrong, and nothing of the batch is answered."""
    body = {"requests": [GOOD, changed(ids=["a"])]}
    assert refused(odds, json.dumps(body))["detail"].startswith("requests[1]: 2 scores but 1 ids")
    many = {"requests": [GOOD] * 21}
    assert "21 lists; this server takes 20" in refused(odds, json.dumps(many))["detail"]


@pytest.mark.parametrize(
    "body",
    [
        b"\xdd\xff\xff\xff\xff",
        b"\xdf\xff\xff\xff\xff",
        b"\x81\xa6scores\xdd\xff\xff\xff\xff" + b"\x00" * 100,
        b"\x81\xa1z" + b"\x91" * 100_000,
        b"\x91" * 1_000_000,
        b"\xc1",
        b"\xc7\xff\x01" + b"a" * 255,
        b"\x81\xa6groups\x91\xc4\x01a",
    ],
    ids=lambda body: repr(body[:12]),
)
def test_messagepack_bombs(odds, body):
    """Headers that promise more than there is, deep nesting and foreign types cost nothing."""
    refused(odds, body, MSGPACK)


def test_arrow_streams_that_are_none(odds):
    """Truncated, foreign, compressed and mistyped streams are 4xx."""
    table = pa.table({"score": [0.1, 0.2], "group": ["men", "women"], "item": ["a", "b"], "key": ["r", "r"]})
    whole = stream(table)
    for cut in (0, 1, 8, len(whole) // 2, len(whole) - 9):
        if cut != len(whole) - 9:
            refused(odds, whole[:cut], ARROW)
    assert "compressed" in refused(odds, stream(table, compression="zstd"), ARROW)["detail"]
    assert "compressed" in refused(odds, stream(table, compression="lz4"), ARROW)["detail"]
    for name, column, said in (
        ("score", ["a", "b"], "expected numbers"),
        ("score", [[1.0], [2.0]], "expected numbers"),
        ("group", [[1], [2]], "expected text, whole numbers or booleans"),
        ("item", [None, "b"], "null in the column 'item'"),
        ("item", [1.5, 2.5], "expected text or whole numbers"),
        ("key", [b"a", b"b"], "expected text"),
    ):
        changed_table = table.set_column(table.schema.get_field_index(name), name, pa.array(column))
        assert said in refused(odds, stream(changed_table), ARROW)["detail"]
    assert "no column 'score'" in refused(odds, stream(table.drop_columns("score")), ARROW)["detail"]
    twice = pa.Table.from_arrays([*table.columns, table["score"]], [*table.column_names, "score"])
    assert "more than once" in refused(odds, stream(twice), ARROW)["detail"]
    rows = pa.table({"score": pa.nulls(10**7), "group": pa.nulls(10**7)})
    assert "10,000,000 candidates" in refused(odds, stream(rows), ARROW)["detail"]


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_damaged_streams_never_fail_the_server(odds, data):
    """Any few bytes of an Arrow stream changed: an answer or a 4xx."""
    table = pa.table(
        {
            "score": [0.1, 0.2],
            "group": pa.array(["men", "women"]).dictionary_encode(),
            "item": ["a", "b"],
            "key": ["r", "r"],
        }
    )
    body = bytearray(stream(table))
    for place, value in data.draw(
        st.lists(st.tuples(st.integers(0, len(body) - 1), st.integers(0, 255)), min_size=1, max_size=6)
    ):
        body[place] = value
    answer = odds.post("/rerank", content=bytes(body), headers={"content-type": ARROW})
    assert answer.status_code < 500, answer.text


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_damaged_messages_never_fail_the_server(odds, data):
    """Any few bytes of a JSON or MessagePack body changed: an answer or a 4xx."""
    kind, write = data.draw(st.sampled_from([(JSON, msgspec.json.encode), (MSGPACK, msgspec.msgpack.encode)]))
    body = bytearray(write(data.draw(st.sampled_from([GOOD, {"requests": [GOOD, GOOD]}]))))
    for place, value in data.draw(
        st.lists(st.tuples(st.integers(0, len(body) - 1), st.integers(0, 255)), min_size=1, max_size=6)
    ):
        body[place] = value
    answer = odds.post("/rerank", content=bytes(body), headers={"content-type": kind})
    assert answer.status_code < 500, answer.text


def test_what_http_itself_can_get_wrong(odds):
    """Other types, methods, paths and encodings have answers of their own."""
    whole = json.dumps(GOOD)
    assert refused(odds, whole, "text/csv")["status"] == 415
    assert "curl -H" in refused(odds, whole, "application/x-www-form-urlencoded")["hint"]
    assert refused(odds, whole, **{"content-encoding": "gzip"})["status"] == 415
    assert refused(odds, whole, accept="text/html")["status"] == 406
    assert refused(odds, b" " * ((1 << 20) + 1))["status"] == 413
    assert odds.get("/rerank").status_code == 405
    assert odds.get("/rerank").headers["allow"] == "POST"
    assert odds.get("/nothing").json()["status"] == 404
    assert odds.put("/model").json()["status"] == 405


def test_a_million_candidates_are_refused_in_little_memory(odds):
    """10^6 candidates are more than the limits: 413 before they are read, 422 when they are counted."""
    scores = b"[" + b"0," * 999_999 + b"0]"
    body = b'{"scores": ' + scores + b', "groups": []}'
    assert refused(odds, body)["status"] == 413


def test_bad_bodies_cost_bounded_memory(odds):
    """Whatever a body of 1 MB says, reading and refusing it takes some tens of MB at most, and keeps nothing."""
    full = (1 << 20) - 100
    bodies = [
        (JSON, b'{"scores": [' + b"0," * (full // 2 - 20) + b"0]}"),
        (JSON, b'{"scores": [], "groups": [' + b'"",' * (full // 3 - 20) + b'""]}'),
        (JSON, b'{"scores": [], "ids": [' + b"1," * (full // 2 - 20) + b"1]}"),
        (JSON, b'{"requests": [' + b'{"scores":[],"groups":[]},' * (full // 27) + b"{}]}"),
        (JSON, b"[" * full),
        (MSGPACK, b"\x81\xa6scores\xdd\x00\x0f\xff\xff" + b"\x00" * (full - 20)),
        (MSGPACK, b"\xdd\xff\xff\xff\xff" + b"\x90" * (full - 10)),
        (ARROW, b"\xff\xff\xff\xff" + b"\x7f" * (full - 10)),
        (ARROW, stream(pa.table({"score": np.zeros(100_000), "group": pa.nulls(100_000)}))),
    ]
    for kind, body in bodies:
        refused(odds, body, kind)
    tracemalloc.start()
    try:
        for kind, body in bodies:
            before = tracemalloc.get_traced_memory()[0]
            arrow = pa.total_allocated_bytes()
            tracemalloc.reset_peak()
            refused(odds, body, kind)
            gc.collect()
            after, peak = tracemalloc.get_traced_memory()
            assert peak - before < 64 << 20, (kind, body[:30])
            assert after - before < 200_000, (kind, body[:30])
            assert pa.total_allocated_bytes() - arrow < 200_000
    finally:
        tracemalloc.stop()


def chunked(body):
    for start in range(0, len(body), 1 << 16):
        yield body[start : start + (1 << 16)]


def test_a_body_without_a_length_is_limited_too(odds):
    """A chunked body is cut off at the limit."""
    answer = odds.post("/rerank", content=chunked(b" " * (3 << 20)), headers={"content-type": JSON})
    assert answer.status_code == 413


def test_bodies_that_come_together_are_limited(monkeypatch):
    """What half-sent bodies hold in memory is limited for all of them, and given free when they end."""
    monkeypatch.setattr("evenodds.serve.intake._TOGETHER", 900)
    taking = Intake(limit=800, seconds=5.0)

    async def sent(last):
        await asyncio.sleep(0)
        for part in range(3):
            yield {"type": "http.request", "body": b"x" * 200, "more_body": part < 2 or not last}
            await asyncio.sleep(0.01)

    async def body(last=True):
        parts = sent(last)
        return await taking.body(lambda: anext(parts), None)

    async def two():
        return await asyncio.gather(body(), body(), return_exceptions=True)

    for _ in range(3):
        found = asyncio.run(two())
        assert [getattr(one, "status", 200) for one in found].count(503) == 1
        assert [one for one in found if isinstance(one, bytes)] == [b"x" * 600]
    assert asyncio.run(body()) == b"x" * 600


def test_models_that_cannot_be_served_are_refused(odds, models):
    """Damaged, edited, foreign and later files are refused by name, and the old model is served."""
    before = odds.get("/model").json()["version"]
    whole = models["half"][0].read_text(encoding="utf-8")
    later = whole.replace('"version": 1', '"version": 2', 1)
    for body, said in (
        (b"", "not a whole model file"),
        (whole[: len(whole) // 2].encode(), "not a whole model file"),
        (whole.replace('"alpha": 0.5', '"alpha": 0.6').encode(), "its checksum does not fit"),
        (later.encode(), "reads up to 1"),
        (b'{"format": "another"}', "not a model file"),
        (b"\xff\xff", "not a whole model file"),
        (b"[" * 100_000, "not a whole model file"),
        (sealed_with(whole, '"version": 1', '"version": 0'), "model version 0"),
        (sealed_with(whole, '"criterion": "opportunity"', '"criterion": "other"'), "unknown criterion"),
        (sealed_with(whole, '"boundaries": [', '"boundaries": [[], '), "cannot be used"),
        (sealed_with(whole, '"groups": ', '"groups": [], "was": '), "cannot be used"),
    ):
        answer = refused(odds, body, path="/model", **BEARER)
        assert said in answer["detail"], answer
        assert answer["detail"].endswith(f"{before} is served as before")
    assert odds.get("/model").json()["version"] == before


def sealed_with(text, old, new):
    from evenodds.model_file import sealed

    assert old in text
    body = text.replace(old, new, 1)
    return sealed(body[: body.rindex(',\n  "checksum"')] + "\n}\n").encode()


def test_settings_of_the_mode_are_checked(odds):
    """A ramp outside 0..1, unknown names and other types are refused."""
    for body in (
        b'{"ramp": 1.5}',
        b'{"ramp": -1}',
        b'{"ramp": "x"}',
        b'{"shade": true}',
        b'{"shadow": 1}',
        b"[",
    ):
        refused(odds, body, path="/mode", **BEARER)
    assert (odds.get("/model").json()["serving"]["ramp"], odds.get("/model").json()["serving"]["shadow"]) == (
        1.0,
        False,
    )


def test_numbers_at_the_end_of_their_range_are_served(odds):
    """The largest numbers that are numbers get finite fair scores."""
    for scores in ([1.7e308, -1.7e308], [5e-324, -0.0], [10**300, -(10**22)]):
        answer = odds.post("/rerank", json=changed(scores=scores))
        assert answer.status_code == 200
        assert np.isfinite(answer.json()["scores"]).all()


def conforms(client, operation, seen):
    """Send requests that the document describes, and others, and hold the answers against it."""

    @settings(max_examples=40, suppress_health_check=list(HealthCheck), database=None)
    @given(
        case=operation.as_strategy(GenerationMode.POSITIVE) | operation.as_strategy(GenerationMode.NEGATIVE)
    )
    def tried(case):
        sent = case.as_transport_kwargs(base_url="http://testserver")
        headers = {name: value.encode() for name, value in (sent.pop("headers", None) or {}).items()}
        sent.pop("cookies", None)
        if operation.path != "/model/rollback":
            headers["authorization"] = BEARER["authorization"].encode()
        data = sent.pop("data", None)
        if data is not None:
            sent["content"] = data if isinstance(data, bytes | str) else str(data)
        answer = client.request(**sent, headers=headers)
        seen.add((operation.path, answer.status_code))
        case.validate_response(answer, checks=CHECKS)

    tried()


def test_the_openapi_document_holds(odds):
    """Requests made from the document, right and wrong ones, get the answers that it promises; examples get 200."""
    document = odds.get("/openapi.json").json()
    schema = schemathesis.openapi.from_dict(document)
    seen = set()
    for path, described in document["paths"].items():
        body = described.get("post", {}).get("requestBody", {}).get("content", {}).get(JSON, {})
        if "example" in body:
            seen.add((path, odds.post(path, json=body["example"], headers=BEARER).status_code))
    for found in schema.get_all_operations():
        conforms(odds, found.ok(), seen)
    odds.post("/mode", json={"ramp": 1.0, "shadow": False}, headers=BEARER)
    assert len({path for path, _ in seen}) >= 8
    assert {("/feedback", 200), ("/feedback", 422)} <= seen
    assert {("/rerank", 200), ("/rerank", 422), ("/mode", 200), ("/mode", 422), ("/model", 422)} <= seen
