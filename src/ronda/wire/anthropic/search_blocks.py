"""What the text of a message cites of searches and pages that were read here, and the same when a client sends it back."""

from __future__ import annotations

from typing import Any, Final

import msgspec
from msgspec import Raw, Struct

from ronda.wire.codec.json import UNREADABLE, encode
from ronda.wire.web.calls import is_ronda_id, ronda_id
from ronda.wire.web.citations import CitedText, Source

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


def without_citations(members: dict[str, Raw]) -> dict[str, Raw]:
    """A block of an assistant's without what it cites of ours: Anthropic would take none that it has not made itself."""
    if "citations" not in members:
        return members
    try:
        is_ours = any(one.is_ours for one in _decode_cited(members["citations"]) or ())
    except UNREADABLE:  # the reader of the block says it better
        return members
    return {name: value for name, value in members.items() if name != "citations"} if is_ours else members
