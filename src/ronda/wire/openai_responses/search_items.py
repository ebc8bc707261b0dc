"""A search of the web, or a page that was read, as an item of its own: `web_search_call`, from its beginning on."""

from __future__ import annotations

from typing import Any

from ronda.core.parts import ToolCall, ToolResult
from ronda.wire.codec.json import encode
from ronda.wire.openai_responses.hosted_items import RunningCall
from ronda.wire.openai_responses.output_items import Output
from ronda.wire.shared.tool_records import ToolRecords
from ronda.wire.web.calls import WebCall, read_outcome


class SearchItem(RunningCall):
    """`shows_sources`: the request wants to know where was looked."""

    def __init__(self, output: Output, call: ToolCall, begun: WebCall, *, shows_sources: bool) -> None:
        super().__init__(output, "ws", call)
        self._begun = begun
        self._shows_sources = shows_sources
        if self._frames.writing:
            self._announce(self._item("in_progress", begun))
            self._tell(b"web_search_call.in_progress")
            self._tell(b"web_search_call.searching")

    def end(self, result: ToolResult, tools: ToolRecords) -> None:
        ended = read_outcome(self._call, result, tools.details(self._call.id)) or self._begun
        self._tell(b"web_search_call.completed")  # there is no event for one that failed; the item says it
        self._finish(self._item("failed" if ended.error_code else "completed", ended))

    def cut(self) -> None:
        """Its result is unknown."""
        self._finish(self._item("incomplete", self._begun), is_kept=False)

    def _item(self, status: str, call: WebCall) -> bytes:
        action: dict[str, Any] = {"type": "open_page", "url": call.url}
        if call.query is not None:
            action = {"type": "search", "query": call.query, "queries": [call.query]}
            if self._shows_sources:
                action["sources"] = [{"type": "url", "url": source.url} for source in call.results]
        return encode({"type": "web_search_call", "id": self._id.decode(), "status": status, "action": action})
