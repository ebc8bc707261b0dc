"""Calls of MCP servers that the request named, as blocks of the message: the call, and what came of it."""

from __future__ import annotations

from ronda.core.parts import ToolCall, ToolResult
from ronda.core.plan import Origin
from ronda.wire.anthropic.content import Part, input_of
from ronda.wire.json import encode, to_raws


def block_id(run: str, place: int) -> str:
    return f"mcptoolu_{run.removeprefix('run_')}_{place}"


def use_part(id: str, call: ToolCall, origin: Origin) -> Part:
    input = input_of(call.arguments)
    members = {"type": "mcp_tool_use", "id": id, "name": origin.tool, "server_name": origin.server, "input": input}
    return Part("other", encode(input).decode(), members=to_raws(members))


def result_part(id: str, result: ToolResult) -> Part:
    content = [{"type": "text", "text": result.content}]
    members = {"type": "mcp_tool_result", "tool_use_id": id, "is_error": result.failed, "content": content}
    return Part("other", members=to_raws(members))
