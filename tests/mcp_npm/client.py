"""The client that the conformance suite runs, once per scenario: our MCP client, doing what the scenario wants done.

Called as `python -m tests.mcp_npm.client URL`; the suite names the scenario in the environment, and what to call it with.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import aiohttp
from msgspec.structs import replace

from ronda.core.parts import File
from ronda.drive import ToolContext
from ronda.errors import ToolFailed
from ronda.tools.mcp.config import Http, McpServer, with_login
from ronda.tools.mcp.login import log_in
from ronda.tools.mcp.offers import McpTool, ResourceTool
from ronda.tools.mcp.servers import McpServers

# What a tool is called with, where its own schema does not say it.
ARGUMENTS: dict[str, dict[str, Any]] = {"add_numbers": {"a": 2, "b": 3}}


class Person:
    """The person who is asked takes what is proposed."""

    files: tuple[File, ...] = ()
    whole_results: frozenset[str] = frozenset()
    marks: frozenset[str] = frozenset()

    def progress(self, call_id: str, text: str, stream: str = "", part: int = 0) -> None:
        pass

    async def ask(self, call_id: str, message: str, schema: Mapping[str, Any] | None) -> dict[str, Any] | None:
        members = (schema or {}).get("properties", {})
        return {name: member["default"] for name, member in members.items() if "default" in member}


def wanted_calls(tools: list[McpTool | ResourceTool]) -> list[tuple[str, dict[str, Any]]]:
    """What the scenario says is to be called; else each tool once."""
    context = json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT") or "{}")
    if calls := context.get("toolCalls"):
        return [(call["name"], call.get("arguments", {})) for call in calls]
    schemas = {tool.tool: json.loads(bytes(tool.spec.parameters)) for tool in tools}
    if "json_schema_echo" in schemas:  # wants to see that a schema arrives as it was sent
        [other] = [name for name in schemas if name != "json_schema_echo"] or ["json_schema_echo"]
        return [("json_schema_echo", {"schema": schemas[other]})]
    return [(name, ARGUMENTS.get(name, {})) for name in schemas]


class Browser:
    """Opens what it is shown: the suite's authorization service consents at once."""

    def __init__(self) -> None:
        self._tasks: list[asyncio.Task[None]] = []

    def show(self, address: str) -> None:
        self._tasks.append(asyncio.create_task(self._open(address)))

    async def _open(self, address: str) -> None:
        async with aiohttp.ClientSession() as http, http.get(address) as answer:
            await answer.read()

    async def pasted(self) -> str:
        return await asyncio.get_running_loop().create_future()  # type: ignore[no-any-return]  # no address is pasted


async def main(url: str) -> None:
    server = McpServer(name="suite", source=Http(url), prefix="suite")
    if not os.environ.get("MCP_CONFORMANCE_SCENARIO", "").startswith("auth/"):
        await use(server)
        return
    context = json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT") or "{}")
    client = {name: context.get(name) for name in ("client_id", "client_secret")}
    with tempfile.TemporaryDirectory() as folder:
        server = with_login(replace(server, **client), Path(folder))
        with contextlib.suppress(ToolFailed):  # which the scenario may want
            await log_in(server, Browser())
            await use(server)


async def use(server: McpServer) -> None:
    servers = McpServers([server])
    try:
        await servers.ready()
        tools = {tool.tool: tool for tool in servers.tools()}
        for name, arguments in wanted_calls(list(tools.values())):
            if name in tools:
                with contextlib.suppress(ToolFailed):  # which the model would read
                    await tools[name].run(arguments, ToolContext("run", "s", 0, "call", channel=Person()))
    finally:
        await servers.close()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[-1]))
