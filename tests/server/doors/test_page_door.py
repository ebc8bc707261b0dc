"""The page's door: who gets the page, with which headers, and what is said where there is none."""

from __future__ import annotations

import gzip
from pathlib import Path

import aiohttp
import pytest
from starlette.applications import Starlette
from starlette.routing import Mount
from tests.interaction.doors import Door
from tests.server.doors.own.test_mounted import listening

from ronda.server import create_app
from ronda.server.app import App
from ronda.server.config import ServerConfig
from ronda.server.doors.dialects import OWN
from ronda.server.doors.page.page_files import Build
from ronda.server.doors.page.policy import PAGE_HEADERS
from ronda.server.doors.page.route import PageDoor
from ronda.server.http.routing import Route, Routes
from ronda.server.services.toolbox import Toolbox
from ronda.store.memory import MemoryCatalog
from ronda.testing import ScriptedModel

HTML = {"accept": "text/html,application/xhtml+xml,*/*;q=0.8"}
INDEX = b'<!doctype html><script type="module" src="/ui/assets/main-abc.js"></script>' + b" " * 2000
FRAME = b"<!doctype html><script>addEventListener('message', () => 0)</script>"
SCRIPT = b"console.log('hello');" * 100


@pytest.fixture
def built(tmp_path: Path) -> Path:
    (tmp_path / "assets").mkdir()
    (tmp_path / "index.html").write_bytes(INDEX)
    (tmp_path / "assets/main-abc.js").write_bytes(SCRIPT)
    (tmp_path / "frame.html").write_bytes(FRAME)
    (tmp_path / "made-from.txt").write_text("x")
    return tmp_path


def routes(folder: Path) -> Routes:
    door = PageDoor(lambda: ServerConfig(model="script:test"), MemoryCatalog(), Toolbox(), build=Build(folder))
    pages = [Route("GET", path, OWN, door.page, "public") for path in ("/ui", "/ui/{path:path}")]
    return Routes([Route("GET", "/ui/frame", OWN, door.frame, "public"), *pages], OWN)


async def test_a_browser_that_asks_for_the_root_is_sent_to_the_page(door: Door) -> None:
    async with door.serving(ScriptedModel()) as served:
        root = served.url.removesuffix("/v1") + "/"
        async with served.http.get(root, headers=HTML, allow_redirects=False) as answer:
            assert (answer.status, answer.headers["location"], answer.headers["vary"]) == (302, "/ui", "accept")


@pytest.mark.parametrize("accept", ["*/*", "application/json", ""])
async def test_every_other_client_learns_at_the_root_that_the_server_is_up(door: Door, accept: str) -> None:
    async with door.serving(ScriptedModel()) as served:
        root = served.url.removesuffix("/v1") + "/"
        async with served.http.get(root, headers={"accept": accept}, allow_redirects=False) as answer:
            assert (answer.status, await answer.read()) == (200, b"OK")


@pytest.mark.parametrize("path", ["/ui", "/ui/", "/ui/chat/a/b", "/ui/runs/run_1?at=3", "/ui/frame.html"])
async def test_every_address_of_the_page_is_the_page(door: Door, built: Path, path: str) -> None:
    async with door.serving(ScriptedModel()) as served:
        door.put(App(served.server, routes(built)))
        async with served.http.get(served.url.removesuffix("/v1") + path) as answer:
            assert (answer.status, await answer.read()) == (200, INDEX)
            assert [answer.headers.get(name.decode()) for name, _ in PAGE_HEADERS] == [
                value.decode() for _, value in PAGE_HEADERS
            ]
            assert answer.headers["cache-control"] == "no-cache"


async def test_a_file_of_the_page_is_kept_by_browsers_and_sent_compressed(door: Door, built: Path) -> None:
    async with door.serving(ScriptedModel()) as served:
        door.put(App(served.server, routes(built)))
        url = served.url.removesuffix("/v1") + "/ui/assets/main-abc.js"
        async with served.http.get(url, headers={"accept-encoding": "gzip"}) as answer:
            assert await answer.read() == SCRIPT
            assert answer.headers["content-encoding"] == "gzip"
            assert int(answer.headers["content-length"]) == len(gzip.compress(SCRIPT, 9, mtime=0))
            assert answer.headers["content-type"] == "text/javascript; charset=utf-8"
            assert "immutable" in answer.headers["cache-control"]
            tag = answer.headers["etag"]
        async with served.http.get(url, headers={"if-none-match": tag}) as answer:
            assert (answer.status, await answer.read()) == (304, b"")
        async with served.http.get(url, headers={"accept-encoding": "identity"}) as answer:
            assert "content-encoding" not in answer.headers


@pytest.mark.parametrize("path", ["/ui/assets/gone.js", "/ui/assets/../../secret.js", "/ui/assets/%2e%2e/index.html"])
async def test_a_file_that_the_page_does_not_have_is_a_404(door: Door, built: Path, path: str) -> None:
    async with door.serving(ScriptedModel()) as served:
        door.put(App(served.server, routes(built)))
        async with served.http.get(served.url.removesuffix("/v1") + path) as answer:
            text = await answer.text()
            assert answer.status == 404 or text.encode() == INDEX  # a client that resolves the dots asks for the page


async def test_a_new_build_is_served_without_a_restart(door: Door, built: Path) -> None:
    async with door.serving(ScriptedModel()) as served:
        door.put(App(served.server, routes(built)))
        url = served.url.removesuffix("/v1") + "/ui"
        async with served.http.get(url) as answer:
            assert await answer.read() == INDEX
        (built / "index.html").write_bytes(b"newer")
        async with served.http.get(url) as answer:
            assert await answer.read() == b"newer"


async def test_where_the_page_is_not_built_it_says_what_to_run(door: Door, tmp_path: Path) -> None:
    async with door.serving(ScriptedModel()) as served:
        door.put(App(served.server, routes(tmp_path)))
        async with served.http.get(served.url.removesuffix("/v1") + "/ui", headers=HTML) as answer:
            assert answer.status == 503
            assert "make setup" in await answer.text()


@pytest.mark.parametrize("path", ["/ui", "/ui/chat", "/ui/frame", "/ui/server"])
async def test_a_server_without_its_page_has_no_address_of_it(door: Door, path: str) -> None:
    async with door.serving(ScriptedModel(), no_ui=True) as served:
        async with served.http.get(served.url.removesuffix("/v1") + path, headers=HTML) as answer:
            body = await answer.json()
            assert (answer.status, body["error"]["code"]) == (404, "no_ui")
        async with served.http.get(served.url.removesuffix("/v1") + "/", headers=HTML, allow_redirects=False) as answer:
            assert await answer.read() == b"OK"


async def test_a_preview_has_no_origin_and_no_network(door: Door, built: Path) -> None:
    async with door.serving(ScriptedModel()) as served:
        door.put(App(served.server, routes(built)))
        async with served.http.get(served.url.removesuffix("/v1") + "/ui/frame") as answer:
            assert (answer.status, await answer.read()) == (200, FRAME)
            policy = answer.headers["content-security-policy"]
    assert policy.startswith("sandbox allow-scripts;")
    assert "allow-same-origin" not in policy
    assert "connect-src 'none'" in policy
    assert "default-src 'unsafe-inline' data: blob:" in policy


async def test_the_page_learns_what_the_server_has(door: Door) -> None:
    async with (
        door.serving(ScriptedModel(), max_tool_rounds=7) as served,
        served.http.get(served.url.removesuffix("/v1") + "/ui/server") as answer,
    ):
        told = await answer.json()
    assert (told["model"], told["rounds"], told["has_keys"], told["tools"]) == ("script:test", 7, False, [])
    assert told["features"] == {
        "python": False,
        "shell": False,
        "search": False,
        "search_always": False,
        "round_requests": True,
        "events": True,
        "operate": True,
        "budgets": False,
    }


async def test_the_page_of_a_server_in_another_app_finds_its_files_there(built: Path) -> None:
    app = create_app(ScriptedModel())
    app._app = App(app._server, routes(built))
    outer = Starlette(routes=[Mount("/ai", app)])
    async with listening(outer) as url, aiohttp.ClientSession() as http, http.get(f"{url}/ai/ui") as answer:
        assert b'src="/ai/ui/assets/main-abc.js"' in await answer.read()
