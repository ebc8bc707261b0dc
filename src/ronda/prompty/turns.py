"""Messages → turns, as a model call needs them: `rich.to_turns`, and what Prompty says beside text, media and calls.

The Prompty profile of the wires. Where a message says something that the turns have no word for, the JSON in which the
provider's dialect says it rides along and goes out as it is; other dialects get the turn alone:

    a name, and whatever else a marker or thread   OpenAI chat has it beside role and content, on every message
    a file that is an address                      `{"type": "file", "file": {"url": …}}`
    `responses_function_call` in the metadata      the Responses API's own item, and the message's text as its output
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec
from msgspec import Raw

from ronda.core.parts import AssistantTurn, File, Native, ToolCall, ToolResult, ToolTurn, Turn, UserTurn
from ronda.prompty.message_parts import Message, to_turns
from ronda.wire.openai_chat import API as CHAT
from ronda.wire.openai_chat.client_request import write_turn
from ronda.wire.openai_responses import API as RESPONSES

_ITEM: Final = "responses_function_call"
# What turns have words for themselves, and what is no member of a message.
_SAID: Final = frozenset({"role", "content", "tool_calls", "tool_call_id", "nonce", _ITEM})


def turns_of(messages: Sequence[Message]) -> list[Turn]:
    turns: list[Turn] = []
    for message in messages:
        for turn in _turns(message):
            if type(turn) is ToolTurn and turns and type(turns[-1]) is ToolTurn:
                turns[-1] = ToolTurn((*turns[-1].results, *turn.results))
            else:
                turns.append(turn)
    return turns


def _turns(message: Message) -> list[Turn]:
    item = message.metadata.get(_ITEM)
    if isinstance(item, Mapping) and isinstance(item.get("name"), str):
        return _function_call(message, item)
    turns = to_turns([message])
    if len(turns) == 1 and message.role != "tool" and (native := _chat(message, turns[0])) is not None:
        return [msgspec.structs.replace(turns[0], native=native)]
    return turns


def _function_call(message: Message, item: Mapping[str, Any]) -> list[Turn]:
    value = message.metadata.get("tool_call_id")
    id = str(item.get("call_id") or value or item.get("id") or "")
    arguments = item.get("arguments", "{}")
    written = arguments if isinstance(arguments, str) else msgspec.json.encode(arguments).decode()
    native = Native(RESPONSES, Raw(msgspec.json.encode([{"type": "function_call", **item}])))
    call = AssistantTurn((ToolCall(id, item["name"], written),), "tool_calls", native)
    return [call] if message.role == "assistant" else [call, ToolTurn((ToolResult(id, message.text),))]


def _chat(message: Message, turn: Turn) -> Native | None:
    more = {name: value for name, value in message.metadata.items() if name not in _SAID and _is_json(value)}
    if type(turn) is UserTurn and turn.name is not None:
        more.pop("name", None)
    remote = type(turn) is UserTurn and any(map(_is_address, turn.parts))
    if not (more or remote) or not (written := write_turn(turn)):
        return None
    fields: dict[str, Any] = msgspec.json.decode(written)
    if remote:
        fields["content"] = [_as_address(part) for part in fields["content"]]
    return Native(CHAT, Raw(msgspec.json.encode({**fields, **more})))


def _is_json(value: Any) -> bool:
    """A thread may come from a program, with things of its own in it."""
    try:
        msgspec.json.encode(value)
    except (TypeError, ValueError, RecursionError):
        return False
    return True


def _is_address(part: object) -> bool:
    return isinstance(part, File) and part.data is not None and part.data[:4].lower() == "http"


def _as_address(part: dict[str, Any]) -> dict[str, Any]:
    data = part.get("file", {}).get("file_data", "")
    return {"type": "file", "file": {"url": data}} if data[:4].lower() == "http" else part
