"""An assistant's message that comes back with the blocks of tools that ran here → the turns that it stands for.

    text, use, result, text     →     the text and its call · the result · the text

Anthropic would take none of these blocks for its own, and no other model knows them: every upstream is sent calls and results.
A call of the caller's next to ours is of the same turn; its result comes with the next message.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import msgspec
from msgspec import Raw, Struct

from ronda.core.parts import NULL, ToolCall, ToolResult
from ronda.wire.anthropic.client_answer import Block
from ronda.wire.codec.json import UNREADABLE, decode_or, encode, to_raws
from ronda.wire.shared import told_calls
from ronda.wire.shared.fields import bad
from ronda.wire.web.calls import unseal

_USES: Final = ("server_tool_use", "mcp_tool_use")
_RESULT: Final = "_tool_result"


class Segment(Struct):
    """The blocks of one turn, in which calls of ours are as any other; and the results of these."""

    blocks: list[Block] = msgspec.field(default_factory=list)
    results: list[ToolResult] = msgspec.field(default_factory=list)
    is_mixed: bool = False  # there are calls of the caller's, too


class _Use(Struct, frozen=True):
    type: str = ""
    id: str = ""
    name: str = ""
    server_name: str = ""
    input: Raw = NULL


class _Result(Struct, frozen=True):
    type: str = ""
    tool_use_id: str = ""
    content: Raw = NULL
    is_error: bool = False


class _Input(Struct, frozen=True):
    """Of any of our tools."""

    code: str = ""
    command: str = ""
    query: str = ""
    url: str = ""


_decode_use = msgspec.json.Decoder(_Use).decode
_decode_result = msgspec.json.Decoder(_Result).decode


def segments_of(contents: Sequence[dict[str, Raw]], path: str) -> list[Segment]:
    """The blocks of one message, each by its members."""
    segments = [Segment()]
    uses: dict[str, _Use] = {}  # by the ids that their calls have in the conversation
    for index, members in enumerate(contents):
        last = segments[-1]
        kind = bytes(members.get("type", b"")).decode("utf-8", "replace").strip('"')
        if kind in _USES and (use := _own_use(members)) is not None:
            call_id = told_calls.own_id(use.id) or ""
            if call_id in uses:
                raise bad(
                    f"{path}[{index}].id", f"is {use.id[:100]!r}, which another block of this message has already"
                )
            if last.results and not last.is_mixed:  # what came before was answered
                segments.append(last := Segment())
            uses[call_id] = use
            last.blocks.append(_call_block(_call(call_id, use)))
        elif kind.endswith(_RESULT) and (result := _own_result(members)) is not None:
            call_id = told_calls.own_id(result.tool_use_id) or ""
            known = {one.call_id for segment in segments for one in segment.results}
            if call_id in uses and call_id not in known:  # else it answers nothing
                last.results.append(_outcome(call_id, uses[call_id], result))
        else:
            if last.results and not last.is_mixed:
                segments.append(last := Segment())
            last.is_mixed = last.is_mixed or kind == "tool_use"
            last.blocks.append(Block(members))
    return [segment for segment in segments if segment.blocks or segment.results]


def _own_use(members: dict[str, Raw]) -> _Use | None:
    try:
        use = _decode_use(encode(members))
    except UNREADABLE:
        return None
    return use if told_calls.own_id(use.id) is not None else None


def _own_result(members: dict[str, Raw]) -> _Result | None:
    try:
        result = _decode_result(encode(members))
    except UNREADABLE:
        return None
    return result if told_calls.own_id(result.tool_use_id) is not None else None


def _call_block(call: ToolCall) -> Block:
    """As the API has a call of a function."""
    members = {"type": "tool_use", "id": call.id, "name": call.name, "input": Raw(call.arguments.encode())}
    return Block(to_raws(members))


# ---- what was called --------------------------------------------------------------------------------------------------


def _call(call_id: str, use: _Use) -> ToolCall:
    given = decode_or(_Input(), _Input, use.input)
    if use.type == "mcp_tool_use":
        return told_calls.server_call(call_id, use.server_name, use.name, _arguments(use))
    match use.name:
        case "code_execution":
            return told_calls.code_call(call_id, given.code)
        case "bash_code_execution":
            return told_calls.shell_call(call_id, [given.command])
        case "web_search":
            return told_calls.search_call(call_id, given.query)
        case "web_fetch":
            return told_calls.page_call(call_id, given.url)
        case "tool_search_tool_bm25":
            return told_calls.finder_call(call_id, decode_or({}, dict[str, Any], use.input))
        case name:  # that people were asked about: the API has no block for it
            return ToolCall(call_id, name, _arguments(use))


def _arguments(use: _Use) -> str:
    return bytes(use.input).decode() if bytes(use.input)[:1] == b"{" else "{}"


# ---- results -----------------------------------------------------------------------------------------------------


class _Executed(Struct, frozen=True):
    stdout: str = ""
    stderr: str = ""
    return_code: int | None = None
    error_code: str = ""


class _SearchResult(Struct, frozen=True):
    url: str = ""
    title: str | None = None
    encrypted_content: str = ""


class _Source(Struct, frozen=True):
    data: str = ""


class _Document(Struct, frozen=True):
    source: _Source = _Source()


class _Page(Struct, frozen=True):
    url: str = ""
    content: _Document = _Document()
    error_code: str = ""


class _Error(Struct, frozen=True):
    error_code: str = ""


class _Reference(Struct, frozen=True):
    tool_name: str = ""


class _FoundTools(Struct, frozen=True):
    tool_references: list[_Reference] = []
    error_code: str = ""


class _Text(Struct, frozen=True):
    text: str = ""


def _outcome(call_id: str, use: _Use, result: _Result) -> ToolResult:
    content = result.content
    if use.type == "mcp_tool_use":
        texts: str | list[_Text] = decode_or([], str | list[_Text], content)
        text = texts if isinstance(texts, str) else "".join([one.text for one in texts])
        return told_calls.server_result(call_id, use.server_name, text, failed=result.is_error)
    match use.name:
        case "code_execution" | "bash_code_execution":
            ran = decode_or(_Executed(), _Executed, content)
            if ran.error_code:
                return told_calls.ran(call_id, "", ran.error_code, failed=True)
            return told_calls.ran(call_id, ran.stdout, ran.stderr, ran.return_code, failed=bool(ran.return_code))
        case "web_search":
            if bytes(content)[:1] == b"{":
                return told_calls.web_failure(call_id, decode_or(_Error(), _Error, content).error_code)
            found: list[_SearchResult] = decode_or([], list[_SearchResult], content)
            return told_calls.found_pages(
                call_id, [unseal(one.encrypted_content, one.url, one.title or "") for one in found]
            )
        case "web_fetch":
            page = decode_or(_Page(), _Page, content)
            if page.error_code:
                return told_calls.web_failure(call_id, page.error_code)
            return told_calls.read_page(call_id, page.url, page.content.source.data)
        case "tool_search_tool_bm25":
            tools = decode_or(_FoundTools(), _FoundTools, content)
            names = [(one.tool_name, "") for one in tools.tool_references]
            return told_calls.found_tools(call_id, names, failed=bool(tools.error_code))
        case _:
            return ToolResult(call_id, bytes(content).decode("utf-8", "replace"), failed=result.is_error)
