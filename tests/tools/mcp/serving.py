"""MCP servers on 127.0.0.1 and as programs, and what a test needs to call their tools."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import uvicorn
from starlette.types import ASGIApp

from ronda.core.parts import File
from ronda.drive import ToolContext, ToolOutput
from ronda.tools.mcp.config import Http, McpServer, Process, Source, slug
from ronda.tools.mcp.servers import McpServers

PROGRAM = str(Path(__file__).with_name("everything.py"))
TINY = str(Path(__file__).with_name("tiny.py"))
SECONDS = 20.0  # the bound of every wait here; nothing is asserted of how long a thing takes


def program(**changes: Any) -> McpServer:
    return config(Process(sys.executable, (PROGRAM,)), **changes)


def config(source: Source, name: str = "every", **changes: Any) -> McpServer:
    settings: dict[str, Any] = {"prefix": slug(name), "connect_seconds": SECONDS, "call_seconds": SECONDS, **changes}
    return McpServer(name=name, source=source, **settings)


@asynccontextmanager
async def opened(*configs: McpServer) -> AsyncIterator[McpServers]:
    servers = McpServers(configs)
    try:
        await servers.ready()
        yield servers
    finally:
        await servers.close()


@asynccontextmanager
async def listening(app: ASGIApp, port: int = 0, certificate: str | None = None) -> AsyncIterator[str]:
    """The app on a port of the system's choice, and its address; with a certificate over https."""
    # A stream that is open does not hold the end up: the time is up at once.
    server = uvicorn.Server(
        uvicorn.Config(
            app,
            host="127.0.0.1",
            port=port,
            log_level="critical",
            timeout_graceful_shutdown=0,
            ssl_certfile=certificate,
        )
    )
    task = asyncio.create_task(server.serve())
    try:
        async with asyncio.timeout(SECONDS):
            while not server.started:  # noqa: ASYNC110 (uvicorn has no event for it)
                await asyncio.sleep(0.005)
        chosen = server.servers[0].sockets[0].getsockname()[1]
        yield f"{'https' if certificate else 'http'}://127.0.0.1:{chosen}"
    finally:
        server.should_exit = True
        await task


def http(url: str, **changes: Any) -> McpServer:
    return config(Http(f"{url}/mcp"), **changes)


class Watcher:
    """The run's side of a call: what was shown, and the answers that people give."""

    def __init__(self, *answers: dict[str, Any] | None) -> None:
        self.shown: list[str] = []
        self.questions: list[tuple[str, Mapping[str, Any] | None]] = []
        self._answers = list(answers)
        self.files: tuple[File, ...] = ()
        self.whole_results: frozenset[str] = frozenset()
        self.marks: frozenset[str] = frozenset()

    def progress(self, call_id: str, text: str, stream: str = "", part: int = 0) -> None:
        self.shown.append(text)

    async def ask(self, call_id: str, message: str, schema: Mapping[str, Any] | None) -> dict[str, Any] | None:
        self.questions.append((message, schema))
        return self._answers.pop(0)


async def call(
    servers: McpServers,
    name: str,
    arguments: dict[str, Any] | None = None,
    watcher: Watcher | None = None,
    run: str = "run",
) -> ToolOutput:
    tool = next(tool for tool in servers.tools() if tool.spec.name == name)
    context = ToolContext(run, "session", 0, f"call_{name}", channel=watcher)
    return await tool.run(arguments or {}, context)


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(SECONDS):
        while not holds():  # noqa: ASYNC110 (what is waited for is of another process, or has no event)
            await asyncio.sleep(0.01)
