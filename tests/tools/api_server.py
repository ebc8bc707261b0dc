"""A real server on 127.0.0.1 that answers with what it was asked, for tools that call APIs."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import web


class Api:
    """`asked` is every request, in order. `answers` maps a path to what is said there instead of the echo."""

    def __init__(self) -> None:
        self.url = ""
        self.asked: list[dict[str, Any]] = []
        self.answers: dict[str, web.Response] = {}

    async def handle(self, request: web.Request) -> web.Response:
        data = await request.read()
        self.asked.append(
            {
                "method": request.method,
                "path": request.raw_path,
                "headers": dict(request.headers),
                "body": data.decode(),
            }
        )
        said = self.answers.get(request.path)
        if said is None:
            return web.json_response({"method": request.method, "path": request.raw_path})
        return web.Response(status=said.status, headers=said.headers, body=said.body)  # one can be sent only once

    def last(self) -> dict[str, Any]:
        return self.asked[-1]


@asynccontextmanager
async def serve() -> AsyncIterator[Api]:
    api = Api()
    app = web.Application()
    app.router.add_route("*", "/{any:.*}", api.handle)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    host, port = runner.addresses[0][:2]
    api.url = f"http://{host}:{port}"
    try:
        yield api
    finally:
        await runner.cleanup()
