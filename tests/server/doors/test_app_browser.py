"""The front end's calls from a real browser, and from another origin: a page of our own that does what the real one does."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path
from urllib.parse import urlencode

import pytest
from aiohttp import web
from tests.interaction.doors import Door, Json, Remembering
from tests.server.app_door import PAGE, PIXEL, PageModel, Parts, call, create
from tests.timeouts import TIMEOUT

from ronda.core.events import ModelFinished, TextDelta
from ronda.core.parts import Reasoning, Text, UserTurn
from ronda.core.request import ModelRequest
from ronda.drive import Show
from ronda.tools.page.browser import find_chromium

pytestmark = pytest.mark.skipif(find_chromium() is None, reason="Chromium is not installed")

FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--no-proxy-server",
)


class Building(PageModel):
    """Four variants of a page, two of its change, and four that are never ready."""

    def __init__(self) -> None:
        super().__init__(of_variant=self._turn)
        self.waiting = 0
        self.left = asyncio.Event()

    async def call(self, request: ModelRequest, show: Show) -> ModelFinished:
        if self.variant_of(request) < 6:
            return await super().call(request, show)
        show([TextDelta("Let me think.")])
        self.waiting += 1
        try:
            return await asyncio.Future[ModelFinished]()
        finally:
            self.waiting -= 1
            if not self.waiting:
                self.left.set()

    def _turn(self, variant: int, round: int) -> Parts:
        turns: list[Parts]
        if variant >= 4:
            turns = [[call("edit_file", old_text="<p>one</p>", new_text="<p>goodbye</p>")], [Text("Changed.")]]
        else:
            asset = next(word for word in self._user_text.split() if word.startswith("tmp_asset_"))
            saving = call("save_assets", id="s", asset_ids=[asset.strip("`.,;()[]")])
            page = create(PAGE.replace("Small", f"Number {variant}"))
            turns = [[Reasoning("Hm."), Text("I write."), saving], [page], [Text("There it is.")]]
        return turns[round]

    @property
    def _user_text(self) -> str:
        [user] = [turn for turn in self.requests[0].turns if isinstance(turn, UserTurn)]
        return "".join(part.text for part in user.parts if isinstance(part, Text))


@contextlib.asynccontextmanager
async def page_server() -> AsyncIterator[tuple[str, asyncio.Future[Json]]]:
    """Where the page comes from, and what it reports there."""
    reported: asyncio.Future[Json] = asyncio.get_running_loop().create_future()

    async def report(request: web.Request) -> web.Response:
        reported.set_result(await request.json())
        return web.Response()

    async def page(request: web.Request) -> web.FileResponse:
        return web.FileResponse(Path(__file__).parents[1] / "app_page.html")

    app = web.Application(client_max_size=2**24)
    app.add_routes([web.get("/", page), web.post("/report", report)])
    runner = web.AppRunner(app)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        yield f"http://localhost:{runner.addresses[0][1]}", reported
    finally:
        await runner.cleanup()


@contextlib.asynccontextmanager
async def chromium(url: str, profile: Path) -> AsyncIterator[None]:
    command = [find_chromium() or "", *FLAGS, f"--user-data-dir={profile}", url]
    process = await asyncio.create_subprocess_exec(
        *command, stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.DEVNULL, start_new_session=True
    )
    try:
        yield
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        await process.wait()


async def visit(door: Door, model: PageModel, tmp_path: Path, *, allow: bool) -> Json:
    """What the page reports of a server that lets it in, or does not."""
    async with asyncio.timeout(TIMEOUT), page_server() as (origin, reported):
        allowed = (origin,) if allow else ()
        async with door.serving(model, journal=Remembering(), allow_origins=allowed) as served:
            query = urlencode({"backend": served.url.removesuffix("/v1"), "picture": PIXEL})
            async with chromium(f"{origin}/?{query}", tmp_path / "profile"):
                report = await reported
                if isinstance(model, Building) and model.waiting:
                    await model.left.wait()
                return report


def tools_of(variant: Json) -> list[tuple[str, str]]:
    return [(item["name"], item["status"]) for item in variant["items"].values() if item["type"] == "tool"]


async def test_the_page_works_from_another_origin(door: Door, tmp_path: Path) -> None:
    model = Building()
    report = await visit(door, model, tmp_path, allow=True)

    assert "failed" not in report, report
    assert (report["start"]["status"], report["start"]["body"]) == (200, [])
    assert report["added"]["body"]["name"] == "Ours"
    assert report["changed"]["body"]["content"] == "Use blue."
    assert [report[name]["status"] for name in ("deleted", "gone")] == [204, 404]
    assert report["gone"]["body"] == {"detail": "Design system not found"}
    assert report["capabilities"]["body"].keys() == {"screenshot_preview"}
    assert (report["screenshot"]["status"], report["screenshot"]["body"].keys()) == (500, {"detail"})

    create = report["create"]
    assert create["close"] == {"code": 1000, "reason": ""}
    assert (create["errors"], create["broken"], create["beyond"]) == ([], [], 0)
    assert [variant["status"] for variant in create["variants"]] == ["complete"] * 4
    assert {variant["code"] for variant in create["variants"]} == {
        PAGE.replace("Small", f"Number {n}") for n in range(4)
    }
    for variant in create["variants"]:
        assert tools_of(variant) == [("save_assets", "complete"), ("create_file", "complete")]
        assert {item["status"] for item in variant["items"].values()} == {"complete"}
        assert [item["content"] for item in variant["items"].values() if item["type"] == "thinking"] == ["Hm."]
    assert report["picture"] == 24  # pixels: it was loaded from us
    assert report["exported"]["name"] == 'attachment; filename="screenshot-to-code-export.zip"'
    assert (report["exported"]["status"], report["exported"]["body"] > 100) == (200, True)

    update = report["update"]
    assert update["close"]["code"] == 1000
    assert [variant["status"] for variant in update["variants"]] == ["complete"] * 2
    before = create["variants"][1]["code"]
    assert [variant["code"] for variant in update["variants"]] == [before.replace("one", "goodbye")] * 2
    assert [tools_of(variant) for variant in update["variants"]] == [[("edit_file", "complete")]] * 2

    assert report["refused"]["close"]["code"] == 4332
    assert report["refused"]["errors"] == [report["refused"]["close"]["reason"]] == ["Invalid input mode: smell"]
    assert report["cancelled"]["close"]["code"] == 4333
    assert model.waiting == 0  # its model is asked no longer


async def test_a_page_that_nobody_named_gets_nothing(door: Door, tmp_path: Path) -> None:
    model = Building()
    report = await visit(door, model, tmp_path, allow=False)

    assert report == {"failed": "TypeError: Failed to fetch"}
    assert model.requests == []
