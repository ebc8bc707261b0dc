"""A search of the web, or a page that was read, as an item of its own: `web_search_call`, from its beginning on."""

from __future__ import annotations

from typing import Any

from ronda.wire.json import encode
from ronda.wire.openai_responses.output_items import Frames
from ronda.wire.web_calls import WebCall


class SearchItem:
    """`shows_sources`: the request wants to know where was looked."""

    __slots__ = ("_begun", "_frames", "_id", "_shows_sources", "index")

    def __init__(self, frames: Frames, id: str, index: int, begun: WebCall, *, shows_sources: bool) -> None:
        self._frames = frames
        self._id = id
        self._begun = begun
        self._shows_sources = shows_sources
        self.index = index
        if frames.writing:
            self._put(b"added", self._item("in_progress", begun))
            self._tell(b"in_progress")
            self._tell(b"searching")

    def close(self, ended: WebCall | None) -> bytes:
        """None: nobody knows what came of it."""
        status = "incomplete" if ended is None else "failed" if ended.error_code else "completed"
        item = self._item(status, ended or self._begun)
        if self._frames.writing:
            if ended is not None:  # there is no event for one that failed; the item says it
                self._tell(b"completed")
            self._put(b"done", item)
        return item

    def _item(self, status: str, call: WebCall) -> bytes:
        action: dict[str, Any] = {"type": "open_page", "url": call.url}
        if call.query is not None:
            action = {"type": "search", "query": call.query, "queries": [call.query]}
            if self._shows_sources:
                action["sources"] = [{"type": "url", "url": source.url} for source in call.results]
        return encode({"type": "web_search_call", "id": self._id, "status": status, "action": action})

    def _put(self, what: bytes, item: bytes) -> None:
        self._frames.put(b"response.output_item." + what, b'"output_index":%d,"item":%b' % (self.index, item))

    def _tell(self, what: bytes) -> None:
        place = b'"item_id":%b,"output_index":%d' % (encode(self._id), self.index)
        self._frames.put(b"response.web_search_call." + what, place)
