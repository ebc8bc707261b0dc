"""Searches and pages that were read here, as blocks of a message: the call, what it found, and what the text cites of it.

A client sends them back with the conversation. What was found stands in the text behind them, so that they are left out there:
Anthropic would take none that it has not made itself.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec
from msgspec import Raw, Struct

from ronda.core.parts import ToolResult
from ronda.wire.citations import CitedText, Source
from ronda.wire.json import UNREADABLE, encode, to_raws
from ronda.wire.web_calls import WebCall, is_ronda_id, ronda_id, seal, texts_of


def block_id(run: str, place: int) -> str:
    return ronda_id("srvtoolu", f"{run.removeprefix('run_')}_{place}")


def use_block(id: str, call: WebCall) -> tuple[dict[str, Raw], str]:
    """The block that says what is asked for, and its input as text."""
    members = {"type": "server_tool_use", "id": id, "name": _name(call), "input": call.arguments}
    return to_raws(members), encode(call.arguments).decode()


def result_block(id: str, call: WebCall, result: ToolResult) -> dict[str, Raw]:
    kind = f"{_name(call)}_tool_result"
    content: Any
    if call.error_code:
        content = {"type": f"{kind}_error", "error_code": call.error_code}
    elif call.query is not None:
        texts = texts_of(result)
        content = [_result_block(source, text) for source, text in zip(call.results, texts, strict=False)]
    else:
        content = _page(call, "".join(texts_of(result)))
    return to_raws({"type": kind, "tool_use_id": id, "content": content})


def _name(call: WebCall) -> str:
    return "web_fetch" if call.query is None else "web_search"


def _result_block(source: Source, text: str) -> dict[str, Any]:
    return {
        "type": "web_search_result",
        "url": source.url,
        "title": source.title,
        "encrypted_content": seal(text),
        "page_age": None,
    }


def _page(call: WebCall, text: str) -> dict[str, Any]:
    url, title = (call.results[0].url, call.results[0].title) if call.results else (call.url or "", "")
    source = {"type": "text", "media_type": "text/plain", "data": text}
    citations = {"enabled": True} if call.results and call.results[0].document is not None else None
    document = {"type": "document", "source": source, "title": title or None, "citations": citations}
    return {"type": "web_fetch_result", "url": url, "retrieved_at": None, "content": document}


# ---- citations --------------------------------------------------------------------------------------------------------


_IN_DOCUMENT: Final = "char_location"


def citations_of(piece: CitedText) -> tuple[Raw, ...]:
    return tuple([Raw(encode(_location(source))) for source in piece.sources])


def _location(source: Source) -> dict[str, Any]:
    if source.document is not None:
        return {
            "type": _IN_DOCUMENT,
            "cited_text": source.excerpt,
            "document_index": source.document,
            "document_title": source.title or None,
            "start_char_index": 0,
            "end_char_index": len(source.excerpt),
            "file_id": None,
            "url": source.url,  # ours: Anthropic's have none
        }
    return {
        "type": "web_search_result_location",
        "url": source.url,
        "title": source.title or None,
        "cited_text": source.excerpt,
        "encrypted_index": ronda_id("index", str(source.number)),
    }


# ---- on the way back --------------------------------------------------------------------------------------------------


class _CitedBlock(Struct):
    encrypted_index: str = ""
    type: str = ""
    url: str | None = None

    @property
    def is_ours(self) -> bool:
        return is_ronda_id(self.encrypted_index) or (self.type == _IN_DOCUMENT and self.url is not None)


_decode_cited = msgspec.json.Decoder(list[_CitedBlock] | None).decode


def without_ours(members: dict[str, Raw]) -> dict[str, Raw] | None:
    """A block of an assistant's as Anthropic would have made it; None for one that is ours alone."""
    try:
        if "citations" in members and any(one.is_ours for one in _decode_cited(members["citations"]) or ()):
            return {name: value for name, value in members.items() if name != "citations"}
        ids = [msgspec.json.decode(members[name], type=str) for name in ("id", "tool_use_id") if name in members]
    except UNREADABLE:  # which whoever reads the block says better
        return members
    return None if any(map(is_ronda_id, ids)) else members
