"""Tools and `tool_choice` of a request, in all the forms that clients use."""

from __future__ import annotations

from typing import Literal

import msgspec
from msgspec import Raw, Struct

from ronda.core.parts import NULL
from ronda.core.plan import ToolChoice, ToolSpec
from ronda.errors import BadRequest
from ronda.wire.capabilities import HOSTED, Need
from ronda.wire.fields import MAX_TOOLS, check_count, decode_field
from ronda.wire.functions import Function, FunctionTool, spec_of
from ronda.wire.openai_chat import API


class _KnownFunction(Function, frozen=True, forbid_unknown_fields=True):
    pass


class _KnownTool(FunctionTool, frozen=True, forbid_unknown_fields=True):
    """Without room for anything else: the quick way to see that nothing would be lost."""

    function: _KnownFunction | None = None


_decode_known = msgspec.json.Decoder(_KnownTool).decode

_HOSTED = {
    "web_search": 'tools[].type="web_search" is only supported by the Responses API; '
    "use web_search_options with Chat Completions",
    "web_search_preview": 'tools[].type="web_search_preview" is only supported by the Responses API; '
    "use web_search_options with Chat Completions",
    "shell": 'tools[].type="shell" is only supported by the Responses API.',
    "namespace": 'tools[].type="namespace" is only supported by the Responses API.',
    "custom": 'tools[].type="custom" is only supported by the Responses API; declare it as a function',
}
_PYTHON = "code_interpreter"  # the one tool of the service's that is declared here


class Declared(Struct, frozen=True):
    """The caller's tools, and what the server must have."""

    specs: tuple[ToolSpec, ...] = ()
    needs: tuple[Need, ...] = ()


_NOTHING = Declared()


def read_tools(raws: list[Raw]) -> Declared:
    if not raws:
        return _NOTHING
    needs: list[Need] = []
    tools: list[ToolSpec] = []
    seen: set[str] = set()
    check_count(raws, MAX_TOOLS, "tools")
    for at, raw in enumerate(raws):
        path = f"tools[{at}]"
        said: FunctionTool = decode_field(raw, FunctionTool, path)
        if said.type == _PYTHON:
            needs.append(Need(_PYTHON, f"{path}.type", HOSTED[_PYTHON], called=_PYTHON))
            continue
        if said.type != "function":
            known = _HOSTED.get(said.type, f"'{path}.type' is {said.type!r}; only \"function\" is supported here")
            raise BadRequest(known, param=f"{path}.type")
        tool = spec_of(said, path, NULL if _is_known(raw) else raw.copy(), API)
        if tool.name in seen:
            raise BadRequest(f"'{path}': a tool named '{tool.name}' is declared twice", param=path)
        seen.add(tool.name)
        tools.append(tool)
    return Declared(tuple(tools), tuple(needs))


def _is_known(raw: Raw) -> bool:
    try:
        _decode_known(raw)
    except msgspec.ValidationError:
        return False
    return True


class _Named(Struct, frozen=True):
    name: str | None = None
    type: str | None = None
    function: _Named | None = None


class _Allowed(Struct, frozen=True):
    mode: Literal["auto", "required"] = "auto"
    tools: list[_Named] = []


class _Choice(Struct, frozen=True):
    type: str
    function: _Named | None = None
    name: str | None = None
    mode: Literal["auto", "required"] = "auto"
    tools: list[_Named] | None = None
    allowed_tools: _Allowed | None = None


def read_choice(raw: Raw) -> ToolChoice:
    """All forms in use: a word, a named function nested or flat, and `allowed_tools` nested or flat."""
    said: str | _Choice = decode_field(raw, str | _Choice, "tool_choice")
    if isinstance(said, str):
        if said == "any":  # Mistral's word, whose clients come to this address too
            return ToolChoice("required")
        if said not in ("none", "auto", "required"):
            raise BadRequest(
                f'\'tool_choice\' is {said!r}; it can be "none", "auto", "required" or an object', param="tool_choice"
            )
        return ToolChoice(said)  # type: ignore[arg-type]  # one of the three, as just seen
    if said.type == "function":
        name = said.function.name if said.function is not None else said.name
        if not name:
            raise BadRequest("'tool_choice' names no function", param="tool_choice.function.name")
        return ToolChoice("required", (name,), named=True)
    if said.type == "allowed_tools":
        allowed = said.allowed_tools or _Allowed(said.mode, said.tools or [])
        names = tuple(dict.fromkeys(_allowed_name(tool) for tool in allowed.tools))
        if not names:
            raise BadRequest("tool_choice.allowed_tools requires at least one tool.", param="tool_choice")
        return ToolChoice(allowed.mode, names)
    if said.type in _HOSTED or said.type == _PYTHON:
        raise BadRequest(f"tool_choice forcing hosted tool `{said.type}` is not supported.", param="tool_choice")
    raise BadRequest(
        f'\'tool_choice.type\' is {said.type!r}; it can be "function" or "allowed_tools"', param="tool_choice"
    )


def _allowed_name(tool: _Named) -> str:
    name = tool.function.name if tool.function is not None else tool.name
    if not name:
        kind = tool.type or "?"
        raise BadRequest(
            f"tool_choice.allowed_tools contains hosted tool `{kind}`; hosted tool forcing/filtering is not supported.",
            param="tool_choice",
        )
    return name
