"""A call of the tools that search and read the web, as every dialect shows it: what was asked for, and its result.

Dialects have items of their own for it, which their service makes. Those that are made here have ids by which they are known
when a client sends them back: no service would take them for its own.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Sequence
from typing import Any, Final

from msgspec import Raw, Struct

from ronda.core.parts import NULL, ToolCall, ToolResult, ToolTurn, Turn
from ronda.wire.codec.json import decode_or, encode
from ronda.wire.web.citations import Source
from ronda.wire.web.search import EXTRACT, WEB_TOOLS

_OWN: Final = "_ronda_"


def ronda_id(kind: str, rest: str) -> str:
    """The id of an item that stands for something that was done here."""
    return f"{ronda_kind(kind)}_{rest}"


def ronda_kind(kind: str) -> str:
    """What such an id begins with."""
    return kind + _OWN.removesuffix("_")


def is_ronda_id(call_id: str) -> bool:
    return _OWN in call_id


class WebCall(Struct, frozen=True):
    """A search has a `query`, the reading of a page a `url`."""

    query: str | None = None
    url: str | None = None
    results: tuple[Source, ...] = ()
    error_code: str = ""  # as the Messages API has them; empty where all went well

    @property
    def arguments(self) -> dict[str, Any]:
        return {"url": self.url} if self.query is None else {"query": self.query}


def read_call(call: ToolCall) -> WebCall | None:
    """None for a call of another tool."""
    if call.name not in WEB_TOOLS:
        return None
    read = decode_or(WebCall(), WebCall, call.arguments)
    return WebCall(url=read.url or "") if call.name == EXTRACT else WebCall(query=read.query or "")


def read_outcome(call: ToolCall, result: ToolResult, details: Raw | None) -> WebCall | None:
    """None for a call of another tool. One that was never run has no details."""
    begun = read_call(call)
    if begun is None:
        return None
    ended = decode_or(WebCall(), WebCall, NULL if details is None else details)
    code = (ended.error_code or "unavailable") if result.failed else ""
    return WebCall(begun.query, begun.url, () if result.failed else ended.results, code)


# ---- what the model was shown -----------------------------------------------------------------------------------------


class FoundPage(Struct, frozen=True):
    """A result of a search, as the model was shown it."""

    content: str = ""
    number: int = 0
    url: str = ""
    title: str = ""
    description: str = ""


class _FoundPage(Struct):
    output: list[FoundPage] | str = ""


_READ: Final = re.compile(r'\{"number": (\d{1,9}), "url": "([^"]*)"')
_RESULT: Final = '{"sources":'  # how every result of theirs begins
_BEFORE: Final = '"content": "'
_BEHIND: Final = '"}'


def _output_of(result: ToolResult) -> list[FoundPage] | str:
    return decode_or(_FoundPage([]), _FoundPage, result.content).output


def found_pages(result: ToolResult) -> list[FoundPage]:
    """What a search has shown the model."""
    output = _output_of(result)
    return [] if isinstance(output, str) else output


def page_text(result: ToolResult) -> str:
    """The text of a page that was read. What it stands in reads like JSON, and is none."""
    output = _output_of(result)
    return output.partition(_BEFORE)[2].removesuffix(_BEHIND) if isinstance(output, str) else ""


def sources_before(turns: Sequence[Turn]) -> list[Source]:
    """What a conversation has shown so far: its numbers are taken, and are said again for the same pages."""
    found: list[Source] = []
    for turn in turns:
        if type(turn) is ToolTurn:
            for result in turn.results:
                if result.content.startswith(_RESULT):
                    found += _sources_in(result)
    return found


def _sources_in(result: ToolResult) -> list[Source]:
    output = _output_of(result)
    if not isinstance(output, str):
        return [Source(page.number, page.url, page.title) for page in output if page.number > 0]
    read = _READ.match(output)
    return [] if read is None else [Source(int(read[1]), read[2])]


class _SealedPage(Struct, frozen=True, array_like=True):
    number: int
    description: str
    content: str


def seal(page: FoundPage) -> str:
    """For a member that a client sends back as it is: what of a result no other member has. It hides nothing, and proves
    nothing."""
    return base64.b64encode(encode(_SealedPage(page.number, page.description, page.content))).decode()


def unseal(sealed: str, url: str, title: str) -> FoundPage:
    try:
        page = decode_or(_SealedPage(0, "", ""), _SealedPage, base64.b64decode(sealed))
    except ValueError:
        return FoundPage(url=url, title=title)
    return FoundPage(page.content, page.number, url, title, page.description)
