"""Items of tools that ran here, as a client brings them back → calls and results (`wire.shared.told_calls`).

Some hold the result of the call; a search, and code whose outputs were not asked for, do not (`lacks_result`): that is for the
server to find, by the item's id.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from msgspec import Raw, Struct

from ronda.core.parts import NULL, ToolCall, ToolResult
from ronda.wire.codec.json import decode_or
from ronda.wire.shared import told_calls
from ronda.wire.shared.told_calls import ToldCall

TYPES: Final = frozenset(
    {
        "code_interpreter_call",
        "mcp_call",
        "mcp_list_tools",
        "shell_call",
        "shell_call_output",
        "tool_search_call",
        "tool_search_output",
        "web_search_call",
    }
)
_UNKNOWN: Final = "(The result of this call is not known any more.)"


class _Kind(Struct, frozen=True):
    type: str = ""
    id: str | None = None
    outputs: Raw = NULL


class _Output(Struct, frozen=True):
    type: str = ""
    logs: str = ""


class _Action(Struct, frozen=True):
    type: str = ""
    query: str | None = None
    url: str | None = None
    commands: list[str] = []
    timeout_ms: int | None = None
    max_output_length: int | None = None


class _Outcome(Struct, frozen=True):
    type: str = "exit"
    exit_code: int | None = None


class _Ran(Struct, frozen=True):
    stdout: str = ""
    stderr: str = ""
    outcome: _Outcome = _Outcome()


class _Found(Struct, frozen=True):
    name: str = ""
    description: str | None = None


class _Content(Struct, frozen=True):
    text: str = ""


class _Error(Struct, frozen=True):
    message: str = ""
    content: list[_Content] = []


class _Item(Struct, frozen=True):
    type: str = ""
    id: str = ""
    status: str | None = None
    call_id: str | None = None
    code: str | None = None
    outputs: list[_Output] | None = None
    action: _Action = _Action()
    output: list[_Ran] | str | None = None
    tools: list[_Found] = []
    arguments: str | dict[str, Any] = ""
    server_label: str = ""
    name: str = ""
    error: _Error | str | None = None
    approval_request_id: str | None = None


def own_item(raw: Raw) -> str | None:
    """The id that the call of an item has in the conversation; None for an item that was not made here."""
    if b"_ronda_" not in bytes(raw):  # quick: most are not
        return None
    kind = decode_or(_Kind(), _Kind, raw)
    return told_calls.own_id(kind.id or "") if kind.type in TYPES else None


def lacks_result(raw: Raw) -> bool:
    """Whether an item of ours lacks the result of its call."""
    kind = decode_or(_Kind(), _Kind, raw)
    return kind.type == "web_search_call" or (kind.type == "code_interpreter_call" and kind.outputs == NULL)


class ToldItems:
    """Reads the items of one conversation. `known`: what the server has found of calls, by their ids in the conversation."""

    def __init__(self, known: Mapping[str, ToldCall]) -> None:
        self._known = known
        self._ids: dict[str, str] = {}  # of calls whose results are items of their own: what the item calls it → its id

    def read(self, call_id: str, raw: Raw) -> ToldCall | ToolResult | None:
        """A call, with its result if it is known; or the result of a call that came before. None for what says nothing of
        either, and for what cannot be read: it is the client's word, and nothing depends on it."""
        item: _Item | None = decode_or(None, _Item, raw)
        if item is None:
            return None
        match item.type:
            case "code_interpreter_call" if item.outputs is not None:
                logs = "".join([one.logs for one in item.outputs])
                ran = told_calls.ran(call_id, logs, failed=item.status == "failed")
                return ToldCall(told_calls.code_call(call_id, item.code or ""), ran)
            case "code_interpreter_call":
                return self._found(told_calls.code_call(call_id, item.code or ""), told_calls.CODE_MARKS)
            case "web_search_call":
                action = item.action
                if action.type == "search":
                    return self._found(told_calls.search_call(call_id, action.query or ""), told_calls.WEB_MARKS)
                return self._found(told_calls.page_call(call_id, action.url or ""), told_calls.WEB_MARKS)
            case "shell_call":
                self._ids[item.call_id or ""] = call_id
                limits = {name: getattr(item.action, name) for name in ("timeout_ms", "max_output_length")}
                return ToldCall(told_calls.shell_call(call_id, item.action.commands, **limits))
            case "shell_call_output":
                outputs = item.output if isinstance(item.output, list) else []
                return _shell_result(self._ids.pop(item.call_id or "", None), outputs)
            case "tool_search_call":
                self._ids["tools"] = call_id
                arguments = item.arguments if isinstance(item.arguments, dict) else {}
                return ToldCall(told_calls.finder_call(call_id, arguments))
            case "tool_search_output":
                found = [(one.name, one.description or "") for one in item.tools]
                asked_by = self._ids.pop("tools", None)
                return None if asked_by is None else told_calls.found_tools(asked_by, found)
            case "mcp_call":
                return _server_call(call_id, item)
            case _:  # what a server has is said with every request
                return None

    def _found(self, call: ToolCall, marks: tuple[str, ...]) -> ToldCall:
        return self._known.get(call.id) or ToldCall(call, ToolResult(call.id, _UNKNOWN, marks=marks))


def _shell_result(call_id: str | None, outputs: Sequence[_Ran]) -> ToolResult | None:
    if call_id is None:
        return None
    stdout, stderr = "".join([one.stdout for one in outputs]), "".join([one.stderr for one in outputs])
    codes = [one.outcome.exit_code for one in outputs if one.outcome.exit_code is not None]
    is_over = all(one.outcome.type == "exit" for one in outputs)
    failed = not is_over or any(codes)
    return told_calls.ran(call_id, stdout, stderr, codes[-1] if codes else None, failed=failed)


def _server_call(call_id: str, item: _Item) -> ToldCall | None:
    """One that people were asked about goes by the question: the journal has its result."""
    question = item.approval_request_id
    call_id = f"ronda_{question}" if question is not None and question.startswith("appr_") else call_id
    arguments = item.arguments if isinstance(item.arguments, str) and item.arguments else "{}"
    call = told_calls.server_call(call_id, item.server_label, item.name, arguments)
    if item.error is not None:
        text = item.error if isinstance(item.error, str) else item.error.message
        text = text or "".join([one.text for one in item.error.content]) if isinstance(item.error, _Error) else text
        return ToldCall(call, told_calls.server_result(call_id, item.server_label, text, failed=True))
    if not isinstance(item.output, str):  # it was cut short
        return ToldCall(call)
    return ToldCall(call, told_calls.server_result(call_id, item.server_label, item.output, failed=False))
