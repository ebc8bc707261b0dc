"""Tools that run here, as a client hears of them: events of our own while they run, and a record of each in the response."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeGuard

import msgspec

from ronda.core.parts import Image, ToolCall, ToolResult
from ronda.wire.json import encode
from ronda.wire.openai_responses.items_out import Frames


class OwnTools:
    __slots__ = ("_calls", "_frames", "_records", "round")

    def __init__(self, frames: Frames) -> None:
        self._frames = frames
        self._calls: dict[str, ToolCall] = {}  # of the last turn
        self._records: list[tuple[int, int, dict[str, Any]]] = []
        self.round = 0

    def asked(self, calls: Sequence[ToolCall]) -> None:
        self._calls = {call.id: call for call in calls}

    def began(self, call_id: str) -> None:
        self._tell(self._calls[call_id], None)

    def ended(self, result: ToolResult) -> None:
        call = self._calls[result.call_id]
        record: dict[str, Any] = {
            "round": self.round,
            "tool_call_id": call.id,
            "name": call.name,
            "arguments": call.arguments,
            "result_content": result.content,
        }
        if pictures := [part.url.partition(",")[2] for part in result.attachments if _is_inline(part)]:
            record["result_images_base64"] = pictures
        if result.failed:
            record["failed"] = True
        # Beside the model's own order: tools finish in any.
        self._records.append((self.round, list(self._calls).index(call.id), record))
        self._tell(call, result)

    @property
    def records(self) -> list[dict[str, Any]]:
        return [record for _, _, record in sorted(self._records, key=lambda one: one[:2])]

    def _tell(self, call: ToolCall, result: ToolResult | None) -> None:
        if not self._frames.writing:
            return
        data: dict[str, Any] = {"tool_type": "custom", "arguments": call.arguments, "input": _parsed(call.arguments)}
        if result is not None:
            data["content"] = result.content
            if result.failed:
                data["failed"] = True
        said = {
            "round": self.round,
            "tool_name": call.name,
            "tool_call_id": call.id,
            "phase": "calling" if result is None else "complete",
            "data": data,
        }
        self._frames.put(b"agentic_tool_call_progress", encode(said)[1:-1])


def _is_inline(part: object) -> TypeGuard[Image]:
    return isinstance(part, Image) and part.url.startswith("data:")


def _parsed(arguments: str) -> Any:
    try:
        return msgspec.json.decode(arguments)
    except (msgspec.DecodeError, ValueError):
        return arguments
