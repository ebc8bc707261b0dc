"""Calls of MCP servers that the request named, as output items: what each server has, and each call with what came of it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import msgspec

from ronda.core.events import RunStarted
from ronda.core.parts import ToolResult
from ronda.core.plan import Origin, ToolSpec
from ronda.wire.approvals import Approval
from ronda.wire.json import encode, in_one_line
from ronda.wire.mcp_servers import ERRORS
from ronda.wire.openai_responses.output_items import Frames

OWN_LABEL: Final = "ronda"  # of tools that are no MCP server's


def labels(servers: Iterable[msgspec.Raw]) -> list[str]:
    return [msgspec.json.decode(raw)["server_label"] for raw in servers]


def errors_of(start: RunStarted) -> dict[str, str]:
    raw = start.about.get(ERRORS)
    return {} if raw is None else msgspec.json.decode(raw, type=dict[str, str])


def write_listing(
    frames: Frames, id: bytes, index: int, label: str, specs: Iterable[ToolSpec], error: str | None
) -> bytes:
    """What a server has, as far as the request wants it."""
    head: dict[str, Any] = {"type": "mcp_list_tools", "id": id.decode(), "server_label": label}
    tools = [
        _tool_entry(spec, spec.origin) for spec in specs if spec.origin is not None and spec.origin.server == label
    ]
    item = in_one_line(encode({**head, "tools": tools, "error": error}))
    if frames.writing:
        place = b'"item_id":"%b","output_index":%d' % (id, index)
        begun = encode({**head, "tools": [], "error": None})
        frames.put(b"response.output_item.added", b'"output_index":%d,"item":%b' % (index, begun))
        frames.put(b"response.mcp_list_tools.in_progress", place)
        frames.put(b"response.mcp_list_tools.failed" if error else b"response.mcp_list_tools.completed", place)
        frames.put(b"response.output_item.done", b'"output_index":%d,"item":%b' % (index, item))
    return item


def _tool_entry(spec: ToolSpec, origin: Origin) -> dict[str, Any]:
    about = {"name": origin.tool, "description": spec.description or None, "annotations": None}
    return {**about, "input_schema": spec.parameters}


def write_request(approval: Approval) -> bytes:
    """A call that waits for a person. The API has this item for MCP servers alone, so that other tools are of one of ours."""
    question, spec = approval.question, approval.spec
    origin = (spec.origin if spec is not None else None) or Origin(OWN_LABEL, question.tool)
    item = {"type": "mcp_approval_request", "id": question.id, "server_label": origin.server, "name": origin.tool}
    return encode({**item, "arguments": question.arguments})


class McpCall:
    """A call, from its beginning on."""

    __slots__ = ("_frames", "_head", "_id", "_place", "index")

    def __init__(
        self, frames: Frames, id: bytes, index: int, origin: Origin, arguments: str, approval: str | None = None
    ) -> None:
        self._frames = frames
        self._id = id
        self.index = index
        self._place = b'"item_id":"%b","output_index":%d' % (id, index)
        self._head: dict[str, Any] = {
            "type": "mcp_call",
            "id": id.decode(),
            "server_label": origin.server,
            "name": origin.tool,
            "approval_request_id": approval,
        }
        if frames.writing:
            item = self._item(arguments="", status="in_progress")
            frames.put(b"response.output_item.added", b'"output_index":%d,"item":%b' % (index, item))
            frames.put(b"response.mcp_call.in_progress", self._place)
            frames.delta(b"response.mcp_call_arguments.delta", self._place, arguments)
            done = b'%b,"arguments":%b' % (self._place, encode(arguments))
            frames.put(b"response.mcp_call_arguments.done", done)
        self._head["arguments"] = arguments

    def close(self, result: ToolResult | None) -> bytes:
        """None: the run ended before it did."""
        if result is None:
            item = self._item(status="incomplete")
        elif result.failed:
            content = [{"type": "text", "text": result.content}]
            item = self._item(status="failed", error={"type": "mcp_tool_execution_error", "content": content})
        else:
            item = self._item(status="completed", output=result.content)
        if self._frames.writing:
            if result is not None:
                kind = b"response.mcp_call.failed" if result.failed else b"response.mcp_call.completed"
                self._frames.put(kind, self._place)
            self._frames.put(b"response.output_item.done", b'"output_index":%d,"item":%b' % (self.index, item))
        return item

    def _item(self, **more: Any) -> bytes:
        return encode({**self._head, "output": None, "error": None, **more})
