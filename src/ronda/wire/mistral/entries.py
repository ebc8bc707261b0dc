"""Entries of a conversation that a client sends → turns. Those that the loop adds are written in `conversation_answer`.

Six types: what a person or an assistant said, a call of a function and its result, a tool that ran on the server, and the
handing over to another agent.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, Literal, TypeAlias

import msgspec
from msgspec import Raw, Struct

from ronda.core.parts import AssistantPart, AssistantTurn, Native, Text, ToolCall, ToolResult, ToolTurn, Turn, UserTurn
from ronda.wire.codec.json import decode_or, encode, text_of
from ronda.wire.mistral.call_ids import made_up_id
from ronda.wire.mistral.chunks import Chunk, assistant_parts, user_parts
from ronda.wire.mistral.validation_errors import BODY, Loc, check_count, read_value, refuse
from ronda.wire.shared.code_tools import PYTHON
from ronda.wire.shared.fields import MAX_MESSAGES
from ronda.wire.shared.told_calls import with_marks
from ronda.wire.web.search import EXTRACT, SEARCH


class _Entry(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True, tag_field="type"):
    object: Literal["entry"] | None = "entry"
    id: str | None = None
    created_at: str | None = None
    completed_at: str | None = None


class MessageInput(_Entry, frozen=True, kw_only=True, tag="message.input"):
    role: Literal["user", "assistant"]
    content: str | list[Chunk]
    prefix: bool | None = False


class MessageOutput(_Entry, frozen=True, kw_only=True, tag="message.output"):
    content: str | list[Chunk]
    role: Literal["assistant"] | None = "assistant"
    agent_id: str | None = None
    model: str | None = None


class FunctionCall(_Entry, frozen=True, kw_only=True, tag="function.call"):
    tool_call_id: str
    name: str
    arguments: str | dict[str, Raw]
    agent_id: str | None = None
    model: str | None = None
    confirmation_status: Literal["pending", "allowed", "denied"] | None = None


class FunctionResult(_Entry, frozen=True, kw_only=True, tag="function.result"):
    tool_call_id: str
    result: str


class ToolExecution(_Entry, frozen=True, kw_only=True, tag="tool.execution"):
    name: str
    arguments: str
    info: dict[str, Raw] | None = None
    agent_id: str | None = None
    model: str | None = None


class AgentHandoff(_Entry, frozen=True, kw_only=True, tag="agent.handoff"):
    previous_agent_id: str
    previous_agent_name: str
    next_agent_id: str
    next_agent_name: str


Entry: TypeAlias = MessageInput | MessageOutput | FunctionCall | FunctionResult | ToolExecution | AgentHandoff


def read_inputs(inputs: str | Sequence[Raw] | None, loc: Loc = (*BODY, "inputs")) -> list[Entry]:
    if inputs is None:
        return []
    if isinstance(inputs, str):
        return [MessageInput(role="user", content=inputs)]
    check_count(inputs, MAX_MESSAGES, loc)
    entries: list[Entry] = []
    for index, raw in enumerate(inputs):
        members: dict[str, Raw] = read_value(raw, dict[str, Raw], (*loc, index))
        if "type" not in members:  # a message, as a rule
            entries.append(read_value(raw, FunctionResult if "result" in members else MessageInput, (*loc, index)))
        else:
            entries.append(read_value(raw, Entry, (*loc, index)))
        entry = entries[-1]
        if isinstance(entry, MessageInput) and entry.prefix and (entry.role != "assistant" or index < len(inputs) - 1):
            refuse("value_error", (*loc, index, "prefix"), "only the last entry, an assistant's, can be a prefix", True)
    return entries


def keep_inputs(entries: Sequence[Entry]) -> Raw:
    """As they are kept with a run: without the ids, which are ours to give."""
    return Raw(encode([msgspec.structs.replace(one, id=None, created_at=None, completed_at=None) for one in entries]))


# ---- turns ------------------------------------------------------------------------------------------------------------


_OWN_NAMES: Final = {"code_interpreter": PYTHON}


class _Turns:
    """Puts entries together: a message and the calls behind it are one turn, results are the next."""

    def __init__(self) -> None:
        self.turns: list[Turn] = []
        self._parts: list[AssistantPart] = []
        self._native: Native | None = None
        self._results: list[ToolResult] = []

    def flush(self) -> None:
        if self._parts:
            calls = any(isinstance(part, ToolCall) for part in self._parts)
            self.turns.append(AssistantTurn(tuple(self._parts), "tool_calls" if calls else "stop", self._native))
        if self._results:
            self.turns.append(ToolTurn(tuple(self._results)))
        self._parts, self._native, self._results = [], None, []

    def add(self, entry: Entry) -> None:
        match entry:
            case MessageInput(role="user"):
                self.flush()
                self.turns.append(UserTurn(user_parts(entry.content)))
            case MessageInput() | MessageOutput():
                self.flush()
                self._parts, self._native = assistant_parts(entry.content)
                self._parts = self._parts or [Text("")]
            case FunctionCall():
                self._call(ToolCall(entry.tool_call_id, entry.name, text_of(entry.arguments)))
            case FunctionResult():
                self._results.append(ToolResult(entry.tool_call_id, entry.result))
            case ToolExecution():
                call_id = made_up_id(entry.id or "execution", len(self.turns), len(self._parts))
                self._call(ToolCall(call_id, _own_name(entry), entry.arguments))
                self._results.append(_outcome(call_id, entry.info or {}))
            case AgentHandoff():
                pass

    def _call(self, call: ToolCall) -> None:
        if self._results:
            self.flush()
        self._parts.append(call)


def _own_name(entry: ToolExecution) -> str:
    """What a tool is called here that goes by Mistral's name for it."""
    if entry.name != "web_search":
        return _OWN_NAMES.get(entry.name, entry.name)
    return EXTRACT if "url" in decode_or({}, dict[str, Raw], entry.arguments) else SEARCH


def _outcome(call_id: str, info: dict[str, Raw]) -> ToolResult:
    try:
        text = msgspec.json.decode(info["result"], type=str) if "result" in info else encode(info).decode()
    except msgspec.DecodeError:
        text = bytes(info["result"]).decode()
    return ToolResult(call_id, text, failed=bytes(info.get("failed", b"")) == b"true")


def turns_of(entries: Sequence[Entry]) -> tuple[Turn, ...]:
    turns = _Turns()
    for entry in entries:
        turns.add(entry)
    turns.flush()
    found = tuple(turns.turns)
    return with_marks(found) if ToolTurn in map(type, found) else found


decode_entries: Any = msgspec.json.Decoder(list[Entry]).decode


def end_in_prefix(entries: Sequence[Entry]) -> bool:
    last = entries[-1] if entries else None
    return isinstance(last, MessageInput) and bool(last.prefix)
