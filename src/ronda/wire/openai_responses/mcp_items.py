"""Calls of MCP servers that the request named, as output items: what each server has, and each call with its result."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from ronda.core.events import RunStarted
from ronda.core.parts import ToolCall, ToolResult
from ronda.core.plan import Origin, ToolSpec
from ronda.wire.codec.json import encode, in_one_line, present
from ronda.wire.openai_responses.hosted_items import RunningCall
from ronda.wire.openai_responses.output_items import Output, OutputItem
from ronda.wire.shared.approvals import Approval
from ronda.wire.shared.mcp_servers import ERRORS
from ronda.wire.shared.told_calls import OWN_LABEL
from ronda.wire.shared.tool_records import ToolRecords
from ronda.wire.web.calls import ronda_kind


def labels(servers: Iterable[msgspec.Raw]) -> list[str]:
    return [msgspec.json.decode(raw)["server_label"] for raw in servers]


def errors_of(start: RunStarted) -> dict[str, str]:
    raw = start.about.get(ERRORS)
    return {} if raw is None else msgspec.json.decode(raw, type=dict[str, str])


class ServerListing(OutputItem):
    """What a server has, as far as the request wants it."""

    def __init__(self, output: Output, label: str, specs: Iterable[ToolSpec], error: str | None) -> None:
        super().__init__(output, ronda_kind("mcpl"))
        head: dict[str, Any] = {"type": "mcp_list_tools", "id": self._id.decode(), "server_label": label}
        tools = [
            _tool_entry(spec, spec.origin) for spec in specs if spec.origin is not None and spec.origin.server == label
        ]
        # What is empty is left out: the schema of Vercel's AI SDK takes no null for either member.
        self._announce(encode({**head, "tools": []}))
        self._tell(b"mcp_list_tools.in_progress")
        self._tell(b"mcp_list_tools.failed" if error else b"mcp_list_tools.completed")
        self._finish(in_one_line(encode({**head, "tools": tools, **present(error=error or None)})))


def _tool_entry(spec: ToolSpec, origin: Origin) -> dict[str, Any]:
    return present(name=origin.tool, description=spec.description or None, input_schema=spec.parameters)


def write_request(approval: Approval) -> bytes:
    """A call that waits for a person. The API has this item for MCP servers only, so that other tools are of one of ours."""
    question, spec = approval.question, approval.spec
    origin = (spec.origin if spec is not None else None) or Origin(OWN_LABEL, question.tool)
    item = {"type": "mcp_approval_request", "id": question.id, "server_label": origin.server, "name": origin.tool}
    return encode({**item, "arguments": question.arguments})


class McpCall(RunningCall):
    """A call, from its beginning on."""

    __slots__ = ("_head",)

    def __init__(self, output: Output, call: ToolCall, origin: Origin, approval: str | None = None) -> None:
        super().__init__(output, "mcp", call)
        self._head: dict[str, Any] = {
            "type": "mcp_call",
            "id": self._id.decode(),
            "server_label": origin.server,
            "name": origin.tool,
            "approval_request_id": approval,
        }
        if self._frames.writing:
            self._announce(self._item(arguments="", status="in_progress"))
            self._tell(b"mcp_call.in_progress")
            self._frames.delta(b"response.mcp_call_arguments.delta", self._place, call.arguments)
            self._tell(b"mcp_call_arguments.done", b',"arguments":%b' % encode(call.arguments))
        self._head["arguments"] = call.arguments

    def end(self, result: ToolResult, tools: ToolRecords) -> None:
        if result.failed:
            content = [{"type": "text", "text": result.content}]
            self._tell(b"mcp_call.failed")
            self._finish(self._item(status="failed", error={"type": "mcp_tool_execution_error", "content": content}))
        else:
            self._tell(b"mcp_call.completed")
            self._finish(self._item(status="completed", output=result.content))

    def cut(self) -> None:
        self._finish(self._item(status="incomplete"))

    def _item(self, **more: Any) -> bytes:
        return encode({**self._head, "output": None, "error": None, **more})
