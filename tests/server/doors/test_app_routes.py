"""What the front end asks for beside its socket."""

from __future__ import annotations

import base64
import contextlib
import io
import zipfile
from collections.abc import AsyncIterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from tests.interaction.doors import Door, Json, Served, soon
from tests.server.app_door import PIXEL, PageModel, call, create, generate
from tests.tools.page.looks import colours, needs_chromium
from tests.tools.page.play import png

from ronda.server.features.app_stream.design_systems import MAX_CONTENT, MAX_COUNT, DesignSystems


async def ask(served: Served, method: str, path: str, body: Any = None, key: str = "test") -> tuple[int, Any]:
    url = served.url.removesuffix("/v1") + path
    sent = {"authorization": f"Bearer {key}"}
    async with soon(), served.http.request(method, url, json=body, headers=sent) as answer:
        return answer.status, await answer.json() if answer.content_type == "application/json" else await answer.read()


async def test_design_systems_are_their_owners(door: Door) -> None:
    async with door.serving(PageModel()) as served:
        status, made = await ask(served, "POST", "/api/design-systems", {"name": "  House ", "content": "Two colours."})
        assert (status, made["name"], made["content"]) == (200, "House", "Two colours.")
        assert made["createdAt"] == made["updatedAt"]
        status, changed = await ask(served, "PATCH", f"/api/design-systems/{made['id']}", {"content": ""})
        assert (status, changed["name"], changed["content"]) == (200, "House", "")
        assert changed["updatedAt"] > made["updatedAt"]
        assert await ask(served, "GET", "/api/design-systems") == (200, [changed])
        assert await ask(served, "GET", "/api/design-systems", key="other") == (200, [])
        absent = (404, {"detail": "Design system not found"})
        assert await ask(served, "DELETE", f"/api/design-systems/{made['id']}", key="other") == absent
        assert await ask(served, "DELETE", f"/api/design-systems/{made['id']}") == (204, b"")
        assert await ask(served, "DELETE", f"/api/design-systems/{made['id']}") == absent


async def test_a_page_gets_the_copies_that_are_kept_of_what_it_loads_from_cdns(door: Door, tmp_path: Path) -> None:
    (tmp_path / "jquery/dist").mkdir(parents=True)
    (tmp_path / "jquery/dist/jquery.min.js").write_text("window.jQuery = 1;")
    async with door.serving(PageModel(), page={"folder": str(tmp_path)}) as served:
        found = await ask(served, "GET", "/api/library?url=https%3A%2F%2Fcode.jquery.com%2Fjquery-3.7.1.min.js")
        assert found == (200, b"window.jQuery = 1;")
        for absent in (
            "https://cdn.jsdelivr.net/npm/vue@3",
            "https://evil.example/../../etc/passwd",
            "file:///etc/passwd",
            "",
        ):
            assert await ask(served, "GET", f"/api/library?url={absent}") == (204, b"")


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"name": "  ", "content": "x"}, 400),
        ({"name": "x"}, 422),
        ({"name": 7, "content": None}, 422),
        ([], 422),
        ({"name": "x", "content": "x" * (MAX_CONTENT + 1)}, 413),
    ],
)
async def test_what_is_no_design_system_is_refused(door: Door, body: Any, status: int) -> None:
    async with door.serving(PageModel()) as served:
        found, answer = await ask(served, "POST", "/api/design-systems", body)

    assert found == status
    assert answer["detail"]


async def test_design_systems_outlive_the_server_and_are_bounded(tmp_path: Path) -> None:
    made = await DesignSystems(tmp_path).add("me", "House", "Two colours.")
    again = DesignSystems(tmp_path)

    assert await again.all("me") == [made]
    assert await again.all("you") == []
    for number in range(MAX_COUNT - 1):
        await again.add("me", f"n{number}", "")
    with pytest.raises(ValueError, match=str(MAX_COUNT)):
        await again.add("me", "one more", "")


async def test_a_picture_is_saved_and_served(door: Door) -> None:
    bytes_ = base64.b64decode(PIXEL.partition(",")[2])
    call_id = f"tmp_asset_{sha256(bytes_).hexdigest()[:24]}"
    model = PageModel([call("save_assets", asset_ids=[call_id])], [create()])
    async with door.serving(model) as served:
        heard = await generate(served, inputMode="image", prompt={"text": "", "images": [PIXEL], "videos": []})
        (saved,) = heard.of(0, "toolResult")[0]["data"]["output"]["images"]
        path = "/local-assets/" + saved["public_url"].rpartition("/")[2]
        status, picture = await ask(served, "GET", path, key="nobody's")
        names = ("absent.png", "..%2f..%2fetc%2fpasswd", call_id + ".x")
        odd = [await ask(served, "GET", f"/local-assets/{name}") for name in names]

    assert call_id in str(model.requests[0].turns[1])
    assert saved["public_url"].startswith("http://127.0.0.1:")
    assert (status, picture) == (200, bytes_)
    assert odd == [(404, {"detail": "Not Found"})] * 3


@contextlib.asynccontextmanager
async def neighbour() -> AsyncIterator[str]:
    """A web site on this machine: its HOST:PORT."""

    async def answer(request: web.Request) -> web.Response:
        if request.path == "/red.png":
            return web.Response(body=png(), content_type="image/png")
        return web.Response(text="<body style='background: #008000'>", content_type="text/html")

    app = web.Application()
    app.router.add_get("/{path:.*}", answer)
    runner = web.AppRunner(app)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        yield f"127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


@needs_chromium
async def test_a_picture_is_taken_of_a_page_that_may_be_looked_at(door: Door) -> None:
    async with neighbour() as here:
        body = {"url": f"http://{here}/", "apiKey": "sk-of-a-service"}
        async with door.serving(PageModel(), fetch_allow=(here,)) as served:
            status, taken = await ask(served, "POST", "/api/screenshot", body)
        async with door.serving(PageModel()) as served:
            refused = await ask(served, "POST", "/api/screenshot", body)

    assert (status, taken.keys()) == (200, {"url"})
    seen = colours(base64.b64decode(taken["url"].removeprefix("data:image/png;base64,")))
    assert max(seen, key=lambda colour: seen[colour]) == (0, 128, 0)
    assert (refused[0], refused[1].keys()) == (500, {"detail"})
    assert "127.0.0.1" in refused[1]["detail"]


async def test_a_page_is_packed_with_the_pictures_that_may_be_had(door: Door) -> None:
    async with neighbour() as here:
        code = f'<img src="http://{here}/red.png"><img src="{PIXEL}"><img src="http://127.0.0.1:9/private.png">'
        async with door.serving(PageModel(), fetch_allow=(here,)) as served:
            status, packed = await ask(served, "POST", "/api/export", {"code": code, "baseUrl": None})
            wrong, _ = await ask(served, "POST", "/api/export", {"baseUrl": None})

    assert (status, wrong) == (200, 422)
    files = zipfile.ZipFile(io.BytesIO(packed))
    assert sorted(files.namelist()) == ["assets/image-1.png", "assets/image-2.png", "index.html"]
    assert "http://127.0.0.1:9/private.png" in files.read("index.html").decode()


async def test_without_a_browser_the_page_is_told_so(door: Door) -> None:
    async with door.serving(PageModel(), page={"chromium": "/nowhere/chromium"}) as served:
        can = await ask(served, "GET", "/api/capabilities")
        taken = await ask(served, "POST", "/api/screenshot", {"url": "http://127.0.0.1:9/", "apiKey": "x"})

    assert can == (200, {"screenshot_preview": False})
    assert taken[0] == 500


async def test_capabilities_and_addresses_that_are_none(door: Door) -> None:
    async with door.serving(PageModel()) as served:
        status, found = await ask(served, "GET", "/api/capabilities")
        absent: tuple[int, Json] = await ask(served, "GET", "/api/absent")
        by_http = await ask(served, "GET", "/generate-code")

    assert status == 200
    assert isinstance(found["screenshot_preview"], bool)
    assert absent == (404, {"detail": "Not Found"})
    assert by_http == (404, {"detail": "Not Found"})
