"""A service that draws pictures: OpenAI's images API on this machine."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import web
from tests.tools.page.play import png

PICTURE = png(40, 20, b"\x00\x80\x00")
FAR = "https://pictures.example/picture.png"


class Studio:
    """What it was asked. It draws what it is told to, but for some prompts."""

    def __init__(self) -> None:
        self.asked: list[dict[str, Any]] = []
        self.url = ""
        self.began = asyncio.Event()  # to draw what is never ready
        self.left = asyncio.Event()  # the client that waited for that

    @property
    def settings(self) -> dict[str, Any]:
        """As [images] has them."""
        return {"base_url": f"{self.url}/v1", "model": "painter", "api_key": "sk-s3cret"}

    async def generate(self, request: web.Request) -> web.Response:
        body = await request.json()
        self.asked.append({"key": request.headers.get("Authorization"), **body})
        match body["prompt"]:
            case "forbidden":
                return web.json_response({"error": {"message": "not with the key sk-s3cret"}}, status=400)
            case "elsewhere":
                return web.json_response({"data": [{"url": FAR}]})
            case "here":
                return web.json_response({"data": [{"url": f"{self.url}/picture.png"}]})
            case "broken":
                return web.json_response({"data": [{"b64_json": "AAAA"}]})
            case "never":
                await self._wait()
        return web.json_response({"data": [{"b64_json": base64.b64encode(PICTURE).decode()}]})

    async def _wait(self) -> None:
        self.began.set()
        try:
            await asyncio.Future[None]()
        finally:
            self.left.set()

    async def edit(self, request: web.Request) -> web.Response:
        form = await request.post()
        images = [value.file.read() for value in form.values() if isinstance(value, web.FileField)]
        words = {name: value for name, value in form.items() if isinstance(value, str)}
        self.asked.append({**words, "images": images})
        return web.json_response({"data": [{"b64_json": base64.b64encode(png(8, 8)).decode()}]})

    async def picture(self, request: web.Request) -> web.Response:
        return web.Response(body=PICTURE, content_type="image/png")


@asynccontextmanager
async def open_studio() -> AsyncIterator[Studio]:
    studio = Studio()
    app = web.Application()
    app.router.add_post("/v1/images/generations", studio.generate)
    app.router.add_post("/v1/images/edits", studio.edit)
    app.router.add_get("/picture.png", studio.picture)
    runner = web.AppRunner(app, handler_cancellation=True)  # a client that goes away ends what was asked for
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        studio.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
        yield studio
    finally:
        await runner.cleanup()
