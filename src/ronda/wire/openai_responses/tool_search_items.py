"""A search for tools as items: `tool_search_call`, which is whole at once, and `tool_search_output` with what was found."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ronda.core.events import ToolProgressed
from ronda.core.parts import ToolCall, ToolResult
from ronda.core.plan import ToolSpec
from ronda.wire.json import read_object
from ronda.wire.openai_responses.hosted_items import Items, put_item
from ronda.wire.tool_search import found_in


class ToolSearchCall:
    def __init__(self, items: Items, call: ToolCall, tools: Mapping[str, ToolSpec]) -> None:
        self._items = items
        self._tools = tools
        id, index = items.next_item("tsc")
        item = {"type": "tool_search_call", "id": id, **_OURS, "arguments": read_object(call.arguments)}
        put_item(items.frames, "added", index, {**item, "status": "in_progress"})
        items.finish_item(index, put_item(items.frames, "done", index, {**item, "status": "completed"}))
        id, self._index = items.next_item("tso")
        self._output = {"type": "tool_search_output", "id": id, **_OURS}
        put_item(items.frames, "added", self._index, {**self._output, "status": "in_progress", "tools": []})

    def progress(self, progress: ToolProgressed) -> None:
        """It has none."""

    def end(self, result: ToolResult, details: Mapping[str, Any]) -> None:
        tools = [_definition(spec) for spec in found_in(details, self._tools)]
        item = {**self._output, "status": "incomplete" if result.failed else "completed", "tools": tools}
        self._items.finish_item(self._index, put_item(self._items.frames, "done", self._index, item))


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
