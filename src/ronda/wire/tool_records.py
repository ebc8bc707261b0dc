"""Tools that ran here, as any dialect tells of them: what is said while they run, and a record of each in the end."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import Raw

from ronda.core.parts import NULL, File, Image, ToolCall, ToolResult
from ronda.wire.citations import Source, sources_of
from ronda.wire.json import UNREADABLE, encode
from ronda.wire.web_search import WEB_TOOLS, calling, found


class ToolRecords:
    """Those of one choice. `choice` is which of several it is."""

    __slots__ = ("_choice", "_details", "_first_round", "_records", "calls", "round", "sources")

    def __init__(self, choice: int = 0) -> None:
        self.calls: dict[str, ToolCall] = {}  # of the last turn, by their ids
        self._choice = choice
        self.round = 0
        self._first_round = 0  # of this run, among the rounds of all that handed over
        self._records: list[tuple[int, int, dict[str, Any]]] = []
        self._details: dict[str, Raw] = {}  # what tools of the last turn said of themselves
        self.sources: tuple[Source, ...] = ()  # that the model was shown, by number

    def begin_round(self, round: int) -> None:
        self.round = self._first_round + round

    def go_on(self) -> None:
        """Another run follows."""
        self._first_round = self.round + 1
        self.calls = {}
        self.sources = ()

    def asked(self, calls: Sequence[ToolCall]) -> None:
        """What the model asked for in this round."""
        self.calls = {call.id: call for call in calls}
        if self._details:
            self._details = {}

    def record(self, result: ToolResult, details: Raw = NULL, files: Sequence[File] = ()) -> None:
        call = self.calls[result.call_id]
        record: dict[str, Any] = {
            "round": self.round,
            "tool_call_id": call.id,
            "name": call.name,
            "arguments": call.arguments,
            "result_content": result.content,
        }
        if images := [image for image in map(_base64, result.attachments) if image]:
            record["result_images_base64"] = images
        if files:
            record["file_ids"] = [file.id for file in files if file.id]
        if details != NULL:
            record["data"] = self._details[call.id] = details
            if call.name in WEB_TOOLS:
                record["result_content"] = found(_object(details) or {})
                self._show_sources(sources_of(details))
        if result.failed:
            record["failed"] = True
        if self._choice:
            record["choice"] = self._choice
        # Beside the model's own order: tools finish in any.
        self._records.append((self.round, list(self.calls).index(call.id), record))

    def _show_sources(self, sources: Sequence[Source]) -> None:
        numbers = {source.number for source in self.sources}
        self.sources += tuple([source for source in sources if source.number not in numbers])

    def details(self, call_id: str) -> Raw | None:
        return self._details.get(call_id)

    @property
    def records(self) -> list[dict[str, Any]]:
        """In the model's order."""
        return [record for _, _, record in sorted(self._records, key=lambda one: one[:2])]

    def progress(self, call_id: str, result: ToolResult | None = None) -> dict[str, Any]:
        """What is said when a tool begins, and with its result when it is done: what it says of itself, if it does."""
        call = self.calls[call_id]
        data: dict[str, Any] = {"tool_type": "custom", "arguments": call.arguments, "input": _parsed(call.arguments)}
        if result is None and call.name in WEB_TOOLS:
            data = calling(call.arguments)
        if result is not None:
            if (details := _object(self._details.get(call_id))) is not None:
                data = details if "tool_type" in details else {**data, **details}
            if data.get("tool_type") == "custom":
                data["content"] = result.content
            if result.failed:
                data["failed"] = True
        return {
            "round": self.round,
            "tool_name": call.name,
            "tool_call_id": call.id,
            "phase": "calling" if result is None else "complete",
            "data": data,
        }


def _base64(attachment: object) -> str | None:
    if isinstance(attachment, Image) and attachment.url.startswith("data:"):
        return attachment.url.partition(",")[2]
    return None


def _object(details: Raw | None) -> dict[str, Any] | None:
    """Its members, each as it was written."""
    try:
        return None if details is None else msgspec.json.decode(details, type=dict[str, Any])
    except msgspec.ValidationError:  # an old journal, or one of another program: no object
        return None


def _parsed(arguments: str) -> Raw | str:
    try:
        # Written at once, since what can just be read at this depth of the stack may not be written at another.
        return Raw(encode(msgspec.json.decode(arguments)))
    except UNREADABLE:
        return arguments
