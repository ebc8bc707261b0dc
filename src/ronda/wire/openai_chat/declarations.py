"""Tools and `tool_choice` of a request, in all the forms that clients use."""

from __future__ import annotations

import re
from typing import Literal

import msgspec
from msgspec import Raw, Struct

from ronda.core.parts import NULL
from ronda.core.plan import ANY_OBJECT, ToolChoice, ToolSpec
from ronda.errors import BadRequest
from ronda.wire.openai_chat import API
from ronda.wire.openai_chat.fields import decode_field, must_be_schema

_NAME = re.compile(r"[A-Za-z0-9_.-]{1,64}")


class _Function(Struct, frozen=True):
    name: str | None = None
    description: str | None = None
    parameters: Raw = NULL
    arguments: Raw = NULL  # another name some clients have for `parameters`
    strict: bool | None = None


class _Tool(_Function, frozen=True):
    """Nested as OpenAI has it, or flat as the Responses API does: both are in use on this endpoint."""

    type: str = "function"
    function: _Function | None = None


class _KnownFunction(_Function, frozen=True, forbid_unknown_fields=True):
    pass


class _KnownTool(_Tool, frozen=True, forbid_unknown_fields=True):
    """The same without room for anything else: the quick way to see that nothing would be lost."""

    function: _KnownFunction | None = None


_HOSTED = {
    "web_search": 'tools[].type="web_search" is only supported by the Responses API; '
    "use web_search_options with Chat Completions",
    "web_search_preview": 'tools[].type="web_search_preview" is only supported by the Responses API; '
    "use web_search_options with Chat Completions",
    "shell": 'tools[].type="shell" is only supported by the Responses API.',
    "namespace": 'tools[].type="namespace" is only supported by the Responses API.',
    "code_interpreter": 'tools[].type="code_interpreter" is not available: this server has no code execution',
}


def read_tools(raws: list[Raw]) -> tuple[ToolSpec, ...]:
    tools: list[ToolSpec] = []
    seen: set[str] = set()
    for at, raw in enumerate(raws):
        path = f"tools[{at}]"
        said: _Tool = decode_field(raw, _Tool, path)
        if said.type != "function":
            known = _HOSTED.get(said.type, f"'{path}.type' is {said.type!r}; only \"function\" is supported here")
            raise BadRequest(known, param=f"{path}.type")
        function: _Function = said.function if said.function is not None else said
        inner = f"{path}.function" if said.function is not None else path
        if function.name is None:
            raise BadRequest(f"'{inner}.name' is missing", param=f"{inner}.name")
        if not _NAME.fullmatch(function.name):
            raise BadRequest(
                f"'{inner}.name' is {function.name[:80]!r}; it must be 1 to 64 letters, digits, '_', '-' or '.'",
                param=f"{inner}.name",
            )
        if function.name in seen:
            raise BadRequest(f"'{path}': a tool named '{function.name}' is declared twice", param=path)
        seen.add(function.name)
        parameters = function.parameters if function.parameters != NULL else function.arguments
        needs_none = True
        if parameters == NULL:
            parameters = ANY_OBJECT
        else:
            schema = must_be_schema(parameters, f"{inner}.parameters")
            needs_none = not schema.get("required")
        native = NULL if _is_known(raw) else raw.copy()
        tools.append(
            ToolSpec(
                name=function.name,
                description=function.description or "",
                parameters=parameters.copy(),
                strict=function.strict,
                kind="caller",
                no_arguments_needed=needs_none,
                native=native,
                native_api=API if native != NULL else "",
            )
        )
    return tuple(tools)


def _is_known(raw: Raw) -> bool:
    try:
        msgspec.json.decode(raw, type=_KnownTool)
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
    if said.type in _HOSTED:
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
