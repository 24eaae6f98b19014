"""Real servers in processes of their own: started, loaded, stopped."""

import importlib.util
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from contextlib import contextmanager
from pathlib import Path

import pytest

TOKEN = "a token for tests"
BENCH = Path(__file__).parents[2] / "bench"
BODY = json.dumps({"key": "r", "ids": ["a", "b"], "scores": [0.1, 0.2], "groups": ["men", "women"]}).encode()


def command(*arguments):
    return [sys.executable, "-m", "evenodds", "serve", *map(str, arguments)]


@contextmanager
def running(model, *options, **environment):
    """Run `evenodds serve` on a free port, and stop it."""
    process = subprocess.Popen(
        command(model, "--port", 0, *options),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "EVENODDS_TOKEN": TOKEN, **environment},
    )
    try:
        process.port = int(re.search(r":(\d+) ", process.stdout.readline())[1])
        for _ in range(400):
            try:
                ask(process, "/readyz")
                break
            except OSError:
                time.sleep(0.05)
        yield process
    finally:
        process.terminate()
        try:
            process.communicate(timeout=20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()


def ask(process, path, body=None, token=TOKEN):
    """Ask over a connection of its own; return status and JSON or text."""
    request = urllib.request.Request(
        f"http://127.0.0.1:{process.port}{path}",
        data=body,
        headers={"content-type": "application/json", "authorization": f"Bearer {token}"},
    )
    try:
        with urllib.request.urlopen(request, timeout=15) as answer:
            status, content = answer.status, answer.read()
    except urllib.error.HTTPError as error:
        status, content = error.code, error.read()
    try:
        return status, json.loads(content)
    except ValueError:
        return status, content.decode()


def test_all_workers_serve_one_state(models, tmp_path):
    """A posted model is served by every worker once it is acknowledged; their figures add up."""
    path = tmp_path / "model.json"
    path.write_bytes(models["opportunity"][0].read_bytes())
    with running(path, "--workers", 2, "--log", "events") as process:
        version = ask(process, "/model")[1]["version"]
        until_two = time.monotonic() + 10
        while ask(process, "/mode", b"{}")[1]["workers"] < 2:
            assert time.monotonic() < until_two
        status, said = ask(process, "/model", models["odds"][0].read_bytes())
        assert (status, said["previous"], said["workers"]) == (200, [version], 2)
        assert {ask(process, "/rerank", BODY)[1]["model"] for _ in range(40)} == {said["model"]}
        assert ask(process, "/model/rollback", b"")[1]["model"] == version
        assert {ask(process, "/rerank", BODY)[1]["model"] for _ in range(40)} == {version}
        time.sleep(1.6)  # a worker tells of itself once a second
        metrics = ask(process, "/metrics")[1]
        assert 'evenodds_requests_total{path="/rerank",status="200"} 80.0' in metrics
        process.send_signal(signal.SIGTERM)
        log = process.stderr.read()
        process.wait(20)
        lines = [json.loads(line) for line in log.splitlines()]
        assert process.returncode == 0
        assert len({line["worker"] for line in lines if line.get("event") == "started"}) == 2
        assert sum(line.get("event") == "stopped" for line in lines) == 2


def test_a_restart_keeps_the_model_and_forgets_the_counts(models, tmp_path):
    """With a folder for the state a server starts with what was posted; its counters start at nothing."""
    path, state = tmp_path / "model.json", tmp_path / "state"
    path.write_bytes(models["opportunity"][0].read_bytes())
    options = ("--state", state, "--log", "none")
    with running(path, *options) as process:
        posted = ask(process, "/model", models["half"][0].read_bytes())[1]["model"]
        assert ask(process, "/rerank", BODY)[1]["model"] == posted
    with running(path, *options) as process:
        assert ask(process, "/rerank", BODY)[1]["model"] == posted
        assert 'requests_total{path="/rerank",status="200"} 1.0' in ask(process, "/metrics")[1]
    path.write_bytes(models["odds"][0].read_bytes())
    with running(path, *options) as process:
        assert ask(process, "/model")[1]["criterion"] == "odds"


def test_requests_in_flight_are_answered_before_it_stops(models):
    """A request whose body is still coming when the signal comes gets its answer; then the server ends with 0."""
    with running(models["odds"][0], "--log", "none") as process:
        with socket.create_connection(("127.0.0.1", process.port)) as half:
            half.sendall(
                b"POST /rerank HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n"
                b"content-length: %d\r\n\r\n" % len(BODY) + BODY[:20]
            )
            time.sleep(0.3)
            process.send_signal(signal.SIGTERM)
            time.sleep(0.3)
            assert process.poll() is None
            half.sendall(BODY[20:])
            half.settimeout(10)
            answer = b""
            while part := half.recv(65536):
                answer += part
        assert answer.startswith(b"HTTP/1.1 200"), answer
        assert b'"order":' in answer
        assert process.wait(15) == 0


def test_a_body_that_does_not_come_is_given_up(models):
    """A client that sends half a body and waits gets 408, and is let go."""
    with (
        running(models["odds"][0], "--timeout", 0.4, "--log", "none") as process,
        socket.create_connection(("127.0.0.1", process.port)) as half,
    ):
        half.sendall(b"POST /rerank HTTP/1.1\r\nhost: x\r\ncontent-length: 100\r\n\r\n{")
        half.settimeout(10)
        start = time.monotonic()
        said = b""
        while part := half.recv(65536):
            said += part
        assert said.startswith(b"HTTP/1.1 408"), said
        assert b"did not come within 0.4 s" in said
        assert time.monotonic() - start < 5
        assert ask(process, "/rerank", BODY)[0] == 200


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["no-such.json"], "cannot read no-such.json: No such file or directory"),
        (["damaged.json"], "damaged.json is not a whole model file"),
        (["model.json", "--token-file", "nowhere"], "cannot read the token file nowhere"),
        (["model.json", "--token-file", "empty"], "the token file empty is empty"),
        (["model.json", "--port", "TAKEN"], "cannot listen on 127.0.0.1:TAKEN"),
        (["model.json", "--ramp", "2"], "2.0 is not in the range 0<=x<=1"),
        (["model.json", "--state", "model.json"], "cannot use the state folder model.json"),
    ],
    ids=lambda value: str(value)[:30],
)
def test_what_keeps_it_from_starting_is_one_line(models, tmp_path, options, said):
    """Nothing to serve, no token where one was named, a taken port: one line and exit code 2."""
    (tmp_path / "model.json").write_bytes(models["opportunity"][0].read_bytes())
    (tmp_path / "damaged.json").write_text("{")
    (tmp_path / "empty").write_text("")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        done = subprocess.run(
            command(*(port if option == "TAKEN" else option for option in options)),
            capture_output=True,
            text=True,
            cwd=tmp_path,
            timeout=60,
            check=False,
        )
    assert done.returncode == 2
    assert said.replace("TAKEN", port) in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert done.stdout == ""


def test_without_the_extra_one_line_says_so(models):
    """Without Starlette the command says what is missing and how to get it."""
    code = (
        "import sys; sys.modules['starlette'] = None; sys.modules['starlette.applications'] = None;"
        f"from evenodds.cli import main; main(['serve', {str(models['odds'][0])!r}])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 2
    assert "pip install 'evenodds[serve]'" in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_models_are_swapped_under_load(capsys):
    """Models change by file, over HTTP and back, under load: no answer fails, none mixes two models."""
    bench("load")
    bench("run")
    bench("serving")
    bench("serve")
    bench("reload").main(["--seconds", "3", "--reloads", "4", "--connections", "4"])
    assert "4 of 4 swaps" in capsys.readouterr().out


def bench(name):
    """Import a benchmark by its file."""
    spec = importlib.util.spec_from_file_location(name, BENCH / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def test_a_worker_that_dies_is_replaced(models):
    """A killed worker is replaced, serves the present state, and what it had counted still counts."""
    with running(models["opportunity"][0], "--workers", 2, "--log", "events") as process:
        posted = ask(process, "/model", models["half"][0].read_bytes())[1]["model"]
        for _ in range(20):
            ask(process, "/rerank", BODY)
        time.sleep(1.6)
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        serving = [pid for pid in children if "spawn_main" in Path(f"/proc/{pid}/cmdline").read_text()]
        os.kill(int(serving[0]), signal.SIGKILL)
        stop = time.monotonic() + 15
        while ask_again(process, "/mode", b"{}").get("workers") != 2:
            assert time.monotonic() < stop
            time.sleep(0.2)
        assert {ask_again(process, "/rerank", BODY)["model"] for _ in range(30)} == {posted}
        time.sleep(1.6)
        metrics = ask(process, "/metrics")[1]
    count = re.search(r'evenodds_requests_total{path="/rerank",status="200"} (\d+)', metrics)[1]
    assert int(count) == 50


def ask_again(process, path, body):
    """Ask, once more if the connection went to a worker that has just died."""
    try:
        return ask(process, path, body)[1]
    except OSError:
        return ask(process, path, body)[1]
