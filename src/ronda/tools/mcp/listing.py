"""What a server has → values of ours, by name and within bounds.

The order of what a model is offered must stay the same for its cache, whatever order a server lists it in.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Any, Final

import mcp_types as types
import msgspec
from mcp.client.client import Client
from msgspec import Raw, Struct

from ronda.schema.validate import check_schema
from ronda.tools.mcp.config import McpServer

log = logging.getLogger("ronda.mcp")

MAX_TOOLS: Final = 2_000  # of one server
MAX_PAGES: Final = 100
MAX_DESCRIPTION: Final = 16_000
MAX_SCHEMA: Final = 256 * 1024
MAX_SCHEMAS: Final = 4 * 1024 * 1024  # of all of them
MAX_RESOURCES: Final = 1_000


class ListedTool(Struct, frozen=True):
    name: str
    description: str
    parameters: Raw
    is_read_only: bool
    needs_arguments: bool


class ListedResource(Struct, frozen=True):
    uri: str
    name: str
    description: str


class ListedPrompt(Struct, frozen=True):
    name: str
    description: str
    arguments: tuple[str, ...]  # their names, with a `?` behind those that may be left out


async def list_tools(client: Client) -> tuple[ListedTool, ...]:
    if client.server_capabilities.tools is None:
        return ()
    found: dict[str, ListedTool] = {}
    cursor: str | None = None
    for _ in range(MAX_PAGES):
        page = await client.list_tools(cursor=cursor)
        await asyncio.to_thread(_add, page.tools, found)  # looking at schemas takes its time
        cursor = page.next_cursor
        if cursor is None or len(found) >= MAX_TOOLS:
            break
    return tuple([found[name] for name in sorted(found)[:MAX_TOOLS]])


def _add(tools: list[types.Tool], found: dict[str, ListedTool]) -> None:
    size = sum([len(bytes(one.parameters)) for one in found.values()])
    for tool in tools:
        if len(found) >= MAX_TOOLS or size > MAX_SCHEMAS:
            log.warning(
                "of the tools of an MCP server only the first %d are taken: there is too much of them", len(found)
            )
            return
        if (listed := _listed_tool(tool)) is not None:
            found[tool.name] = listed
            size += len(bytes(listed.parameters))


def _listed_tool(tool: types.Tool) -> ListedTool | None:
    """None where the schema is none, or too large for any prompt: a provider would refuse all tools for the one."""
    schema: dict[str, Any] = tool.input_schema
    parameters = msgspec.json.encode(schema)
    problem = f"has {len(parameters)} bytes" if len(parameters) > MAX_SCHEMA else check_schema(parameters)
    if problem is not None:
        log.warning("the MCP tool %r is left out, because of its schema: %s", tool.name, problem)
        return None
    text = (tool.description or tool.title or "")[:MAX_DESCRIPTION]
    is_read_only = tool.annotations is not None and tool.annotations.read_only_hint is True
    return ListedTool(tool.name, text, Raw(parameters), is_read_only, bool(schema.get("required")))


async def list_resources(client: Client, server: McpServer) -> tuple[ListedResource, ...]:
    """Those that the configuration lets every client read."""
    if client.server_capabilities.resources is None:
        return ()
    found: dict[str, ListedResource] = {}
    cursor: str | None = None
    for _ in range(MAX_PAGES):
        page = await client.list_resources(cursor=cursor)
        for one in page.resources:
            if server.may_read(one.uri):
                found[one.uri] = ListedResource(one.uri, one.name, (one.description or "")[:MAX_DESCRIPTION])
        cursor = page.next_cursor
        if cursor is None or len(found) >= MAX_RESOURCES:
            break
    return tuple([found[uri] for uri in sorted(found)[:MAX_RESOURCES]])


async def list_prompts(client: Client, server: McpServer) -> tuple[ListedPrompt, ...]:
    """Those that the configuration lets a model read."""
    if client.server_capabilities.prompts is None:
        return ()
    found: dict[str, ListedPrompt] = {}
    cursor: str | None = None
    for _ in range(MAX_PAGES):
        page = await client.list_prompts(cursor=cursor)
        for one in page.prompts:
            if server.may_prompt(one.name):
                names = [each.name if each.required else f"{each.name}?" for each in one.arguments or ()]
                found[one.name] = ListedPrompt(one.name, (one.description or "")[:MAX_DESCRIPTION], tuple(names))
        cursor = page.next_cursor
        if cursor is None or len(found) >= MAX_RESOURCES:
            break
    return tuple([found[name] for name in sorted(found)[:MAX_RESOURCES]])
