"""Calls of tools that ran here, as a dialect told a client of them and the client brings them back → calls and results.

A dialect has blocks or items of its own for them; their ids say that they are ours (`own_id`). What they hold is the client's
word: it is read as a part of the conversation, marked as the tool's own results are (`core.taint`), and counts for nothing
else. The texts are as near to what the model read as the dialect's words allow.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from ronda.core.found_tools import FIND_TOOLS
from ronda.core.parts import AssistantTurn, ToolCall, ToolResult, ToolTurn, Turn
from ronda.core.taint import PRIVATE, UNTRUSTED
from ronda.wire.codec.json import encode
from ronda.wire.shared.code_tools import PYTHON, SHELL
from ronda.wire.web.calls import FoundPage
from ronda.wire.web.search import EXTRACT, SEARCH, domains_of

OWN_LABEL: Final = "ronda"  # of tools that are no MCP server's, where a dialect has a place for those alone
_OWN: Final = re.compile(r"[a-z]{1,12}_(ronda_[A-Za-z0-9_-]{1,80})")
_APPROVAL: Final = "ronda_appr_"
_RUN: Final = re.compile(r"ronda_([0-9a-f]{24})(?:-\d{1,9})?_\d{1,9}")
_NOT_NAME: Final = re.compile(r"[^A-Za-z0-9_-]")

# What results of these are marked with.
CODE_MARKS: Final = (PRIVATE,)
WEB_MARKS: Final = (UNTRUSTED,)
MCP_MARKS: Final = (UNTRUSTED,)


_MARKS: Final = {PYTHON: CODE_MARKS, SHELL: CODE_MARKS, SEARCH: WEB_MARKS, EXTRACT: WEB_MARKS}


class ToldCall(Struct, frozen=True):
    call: ToolCall
    result: ToolResult | None = None  # None: its result is not told


def own_id(call_id: str) -> str | None:
    """The id that a call has in a conversation, by that of its block or item; None where that is none of ours."""
    own = _OWN.fullmatch(call_id)
    return None if own is None else own[1]


def is_told(call_id: str) -> bool:
    """Whether a call of a conversation is one that ran here, as the client was told about it."""
    return call_id.startswith("ronda_")


def approval_of(call_id: str) -> str | None:
    """The question that people were asked about a call, where its id says which."""
    return call_id.removeprefix("ronda_") if call_id.startswith(_APPROVAL) else None


def run_of(call_id: str) -> str | None:
    """The run that reported a call, where its id says which."""
    found = _RUN.fullmatch(call_id)
    return None if found is None else f"run_{found[1]}"


def with_marks(turns: tuple[Turn, ...]) -> tuple[Turn, ...]:
    """A conversation of a client's in which results of our own tools are marked, whether the tools are still there or not."""
    names: dict[str, str] = {}
    marked: list[Turn] = []
    for turn in turns:
        if type(turn) is AssistantTurn:
            names = {call.id: call.name for call in turn.calls if call.name in _MARKS}
        elif type(turn) is ToolTurn and names:
            turn = ToolTurn(tuple([_marked(result, names.get(result.call_id, "")) for result in turn.results]))
        marked.append(turn)
    return tuple(marked)


def _marked(result: ToolResult, name: str) -> ToolResult:
    return replace(result, marks=_MARKS[name]) if name and not result.marks else result


class Record(Struct, frozen=True):
    """A call that ran here, as an answer reports it next to its message (`agentic_tool_calls`)."""

    name: str
    round: int = 0
    tool_call_id: str = ""
    arguments: str = "{}"
    result_content: str = ""
    failed: bool = False


def recorded_turns(records: Sequence[Record]) -> list[Turn]:
    """Round by round: the calls, and their results."""
    rounds: dict[int, list[ToldCall]] = {}
    for index, record in enumerate(records):
        call_id = f"ronda_{_NOT_NAME.sub('_', record.tool_call_id)[:60]}_{index}"
        result = ToolResult(call_id, record.result_content, record.failed)
        rounds.setdefault(record.round, []).append(ToldCall(ToolCall(call_id, record.name, record.arguments), result))
    turns: list[Turn] = []
    for _, calls in sorted(rounds.items()):
        turns.append(AssistantTurn(tuple([one.call for one in calls]), "tool_calls"))
        turns.append(ToolTurn(tuple([one.result for one in calls if one.result is not None])))
    return turns


def _call(call_id: str, name: str, arguments: Mapping[str, Any]) -> ToolCall:
    return ToolCall(call_id, name, encode(arguments).decode())


def _text(**members: Any) -> str:
    """As a tool tells a model: what is empty is left out."""
    return encode({name: value for name, value in members.items() if value not in (None, "")}).decode()


def code_call(call_id: str, code: str) -> ToolCall:
    return _call(call_id, PYTHON, {"code": code})


def shell_call(call_id: str, commands: Sequence[str], **limits: int | None) -> ToolCall:
    given = {name: value for name, value in limits.items() if value is not None}
    return _call(call_id, SHELL, {"commands": list(commands), **given})


def ran(call_id: str, stdout: str, stderr: str = "", exit_code: int | None = None, *, failed: bool) -> ToolResult:
    text = _text(status="error" if failed else "success", stdout=stdout, stderr=stderr, exit_code=exit_code)
    return ToolResult(call_id, text, failed, marks=CODE_MARKS)


def search_call(call_id: str, query: str) -> ToolCall:
    return _call(call_id, SEARCH, {"query": query})


def found_pages(call_id: str, pages: Sequence[FoundPage]) -> ToolResult:
    """In the very words of the search: its sources are numbered on from these (`web.calls.sources_before`)."""
    output = [
        {name: getattr(page, name) for name in ("number", "title", "description", "url", "content")} for page in pages
    ]
    text = encode({"sources": domains_of([page.url for page in pages]), "output": output}).decode()
    return ToolResult(call_id, text, marks=WEB_MARKS)


def page_call(call_id: str, url: str) -> ToolCall:
    return _call(call_id, EXTRACT, {"url": url})


def read_page(call_id: str, url: str, text: str) -> ToolResult:
    content = encode({"sources": domains_of([url]), "output": text}).decode()
    return ToolResult(call_id, content, marks=WEB_MARKS)


def web_failure(call_id: str, code: str) -> ToolResult:
    return ToolResult(call_id, _text(error=code), failed=True, marks=WEB_MARKS)


def finder_call(call_id: str, arguments: Mapping[str, Any]) -> ToolCall:
    return _call(call_id, FIND_TOOLS, arguments)


def found_tools(call_id: str, tools: Sequence[tuple[str, str]], *, failed: bool = False) -> ToolResult:
    """`tools` are names and what is said of them; the model is shown the tools of a conversation that it has found."""
    lines = [f"{name}: {about}" for name, about in tools]
    return ToolResult(call_id, "\n".join(lines) or "No tool fits. Try other words.", failed)


def server_call(call_id: str, label: str, tool: str, arguments: str) -> ToolCall:
    """A call of an MCP server's tool, by a name like those that such tools have here."""
    name = tool if label == OWN_LABEL else f"{_NOT_NAME.sub('_', label)}_{tool}"
    return ToolCall(call_id, name, arguments)


def server_result(call_id: str, label: str, text: str, *, failed: bool) -> ToolResult:
    return ToolResult(call_id, text, failed, marks=() if label == OWN_LABEL else MCP_MARKS)
