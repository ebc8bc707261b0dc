"""A search for tools as items: `tool_search_call`, which is whole at once, and `tool_search_output` with what was found."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ronda.core.found_tools import found_in
from ronda.core.parts import ToolCall, ToolResult
from ronda.core.plan import ToolSpec
from ronda.wire.codec.json import encode, read_object
from ronda.wire.openai_responses.hosted_items import RunningCall
from ronda.wire.openai_responses.output_items import Output, OutputItem
from ronda.wire.shared.tool_records import ToolRecords
from ronda.wire.web.calls import ronda_kind


class _SearchCall(OutputItem):
    def __init__(self, output: Output, call: ToolCall) -> None:
        super().__init__(output, ronda_kind("tsc"))
        item = {"type": "tool_search_call", "id": self._id.decode(), **_OURS, "arguments": read_object(call.arguments)}
        self._announce(encode({**item, "status": "in_progress"}))
        self._finish(encode({**item, "status": "completed"}))


class ToolSearchOutput(RunningCall):
    def __init__(self, output: Output, call: ToolCall, tools: Mapping[str, ToolSpec]) -> None:
        _SearchCall(output, call)
        super().__init__(output, "tso", call)
        self._tools = tools
        self._item = {"type": "tool_search_output", "id": self._id.decode(), **_OURS}
        self._announce(encode({**self._item, "status": "in_progress", "tools": []}))

    def end(self, result: ToolResult, tools: ToolRecords) -> None:
        found = [_definition(spec) for spec in found_in(tools.members(self._call.id), self._tools)]
        self._finish(encode({**self._item, "status": "incomplete" if result.failed else "completed", "tools": found}))


_OURS: Mapping[str, Any] = {"call_id": None, "execution": "server"}


def _definition(spec: ToolSpec) -> dict[str, Any]:
    return {
        "type": "function",
        "name": spec.name,
        "description": spec.description,
        "parameters": spec.parameters,
        "strict": bool(spec.strict),
        "defer_loading": True,
    }
