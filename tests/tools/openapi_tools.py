"""Documents of APIs, and the tools they become, for the tests of both."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from ronda import ToolContext
from ronda.drive import Tool
from ronda.prompty.model import AnonymousConnection, KeyConnection, OpenApiTool, Prompty
from ronda.prompty.tool_kinds import tools_of

CONTEXT = ToolContext("run", "", 0, "call")


def document(paths: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"openapi": "3.1.0", "info": {"title": "t", "version": "1"}, "paths": paths, **more}


async def tools(
    said: dict[str, Any] | str,
    endpoint: str | None = None,
    key: str | None = None,
    folder: Path | None = None,
    **more: Any,
) -> dict[str, Tool]:
    connection: Any = None
    if key is not None:
        connection = KeyConnection(endpoint=endpoint, api_key=key)
    elif endpoint is not None:
        connection = AnonymousConnection(endpoint=endpoint)
    tool = OpenApiTool(name="api", connection=connection, specification=said, **more)
    path = str(folder / "agent.prompty") if folder is not None else None
    return await tools_of(Prompty(tools=(tool,), path=path))


def schema_of(tool: Tool) -> Any:
    return msgspec.json.decode(tool.spec.parameters)


def with_body(media: str, schema: dict[str, Any]) -> dict[str, Any]:
    return {"requestBody": {"required": True, "content": {media: {"schema": schema}}}}
