"""The form that calls had before there were tools → tools: `functions`, `function_call`, and messages of the role "function".

OpenAI still takes it, and old programs know no other. It is translated on the way in, so that nothing else has to know it and no
upstream is sent it. An answer has one call at most there, and its call has no id: one is made of its place, unless it was
ours and came back with the id that we had put into it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, Protocol

from msgspec import Raw, Struct

from ronda.core.parts import NULL
from ronda.core.plan import ToolChoice, ToolSpec
from ronda.wire.codec.json import encode, encode_message
from ronda.wire.openai_chat import API
from ronda.wire.shared.fields import MAX_TOOLS, bad, check_count, decode_field
from ronda.wire.shared.functions import FunctionTool, is_known, spec_of

FIELDS: Final = frozenset({"functions", "function_call"})
_NO_CALLS: Final = Raw(b"[]")


class _NamedFunction(Struct, frozen=True):
    name: str


def read_functions(fields: Mapping[str, Raw]) -> tuple[tuple[ToolSpec, ...], ToolChoice]:
    """What a request declares and chooses in this form."""
    if "functions" not in fields:
        raise bad("function_call", "goes with 'functions'")
    if "tools" in fields:
        raise bad("functions", "is the deprecated form of 'tools'; give one of them")
    if "tool_choice" in fields:
        raise bad("tool_choice", "goes with 'tools'; next to 'functions' it is called 'function_call'")
    raws: list[Raw] = decode_field(fields["functions"], list[Raw], "functions")
    check_count(raws, MAX_TOOLS, "functions")
    specs: dict[str, ToolSpec] = {}
    for index, raw in enumerate(raws):
        path = f"functions[{index}]"
        declared: FunctionTool = decode_field(raw, FunctionTool, path)
        native = NULL if is_known(raw) else Raw(encode({"type": "function", "function": raw}))
        spec = spec_of(declared, path, native, API)
        if spec.name in specs:
            raise bad(path, f"is the second function named '{spec.name}'")
        specs[spec.name] = spec
    return tuple(specs.values()), _read_choice(fields, specs)


def _read_choice(fields: Mapping[str, Raw], specs: Mapping[str, ToolSpec]) -> ToolChoice:
    if "function_call" not in fields:
        return ToolChoice()
    choice: str | _NamedFunction = decode_field(fields["function_call"], str | _NamedFunction, "function_call")
    match choice:
        case "none" | "auto":
            return ToolChoice(choice)
        case str():
            raise bad("function_call", f'is {choice[:60]!r}; it can be "none", "auto" or {{"name": …}}')
        case _NamedFunction(name=name):
            if name not in specs:
                raise bad("function_call", f"names {name[:80]!r}, which is not among the 'functions'")
            return ToolChoice("required", (name,), named=True)


class FunctionCall(Struct, frozen=True):
    """As an assistant's message has it."""

    name: str
    arguments: str | dict[str, Raw] | None = None
    id: str | None = None  # ours


class OldMessage(Protocol):
    @property
    def role(self) -> str: ...

    @property
    def name(self) -> str | None: ...

    @property
    def function_call(self) -> FunctionCall | None: ...


def is_old(message: OldMessage) -> bool:
    return message.role == "function" or message.function_call is not None


def translate_messages(raws: Sequence[Raw], messages: Sequence[OldMessage]) -> list[Raw]:
    """The same messages with calls and results of tools."""
    translated: list[Raw] = []
    open_calls: dict[str, str] = {}  # of the assistant's last message: name → id
    for index, (raw, message) in enumerate(zip(raws, messages, strict=True)):
        path = f"messages[{index}]"
        if message.role == "assistant":
            open_calls = {}
        if message.role == "function":
            if not message.name:
                raise bad(f"{path}.name", "is missing: it says which function this is the result of")
            content = decode_field(raw, dict[str, Raw], path).get("content", NULL)
            result = {"role": "tool", "tool_call_id": open_calls.pop(message.name, message.name)}
            raw = Raw(encode_message({**result, "content": "" if content == NULL else content}))
        elif (call := message.function_call) is not None:
            open_calls[call.name] = call_id = call.id or f"function_call_{index}"
            raw = _translate_call(raw, call_id, path)
        translated.append(raw)
    return translated


def _translate_call(raw: Raw, call_id: str, path: str) -> Raw:
    message: dict[str, Raw] = decode_field(raw, dict[str, Raw], path)
    if message.pop("tool_calls", NULL) not in (NULL, _NO_CALLS):
        raise bad(f"{path}.function_call", "stands next to 'tool_calls'; give one of them")
    members: dict[str, Raw] = decode_field(message.pop("function_call"), dict[str, Raw], path)
    function = {name: members.pop(name) for name in ("name", "arguments") if name in members}
    call = {**members, "id": call_id, "type": "function", "function": function}
    return Raw(encode_message({**message, "tool_calls": [call]}))
