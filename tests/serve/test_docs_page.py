"""The page to try the server, in a real browser."""

import threading
import time

import pytest
import uvicorn

from evenodds.serve.app import Application
from evenodds.serve.settings import ServeSettings

pytestmark = pytest.mark.browser


@pytest.fixture
def address(models, tmp_path):
    """Serve the crossed model on a free port of this machine, from a thread."""
    settings = ServeSettings(
        model=str(models["crossed"][0]),
        state=str(tmp_path / "state"),
        token="a token for tests",
        log="none",
    )
    server = uvicorn.Server(
        uvicorn.Config(Application(settings), port=0, log_level="critical", access_log=False)
    )
    thread = threading.Thread(target=server.run)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    server.should_exit = True
    thread.join(10)


def test_every_path_can_be_tried(address):
    """The page lists every path, sends what stands in it, takes the token, and asks no other host."""
    from axe_playwright_python.sync_playwright import Axe
    from playwright.sync_api import expect, sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path="/usr/bin/chromium", args=["--no-sandbox"])
        page = browser.new_page()
        asked, errors = [], []
        page.on("request", lambda request: asked.append(request.url))
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.goto(f"{address}/docs")
        page.wait_for_selector("#post-rerank")
        assert page.locator("#paths > details").count() == 8
        page.click("#post-rerank button")
        answer = page.locator("#post-rerank pre[role=status]")
        answer.wait_for(state="visible")
        assert answer.inner_text().startswith("200 OK")
        assert '"order"' in answer.inner_text()
        page.click("#post-mode summary >> nth=0")
        page.click("#post-mode button")
        refused = page.locator("#post-mode pre[role=status]")
        refused.wait_for(state="visible")
        assert refused.inner_text().startswith("401")
        page.fill("#token", "a token for tests")
        page.click("#post-mode button")
        expect(refused).to_contain_text("200 OK")
        assert '"ramp": 0.1' in refused.inner_text()
        found = [one["id"] for one in Axe().run(page).response["violations"]]
        browser.close()
    assert found == []
    assert errors == []
    assert all(url.startswith((address, "data:")) for url in asked)
