"""Functions and the choice of one, as OpenAI's APIs have them: nested in Chat Completions, flat in Responses. Both take both."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final, Literal

import msgspec
from msgspec import Raw, Struct

from ronda.core.parts import NULL
from ronda.core.plan import ANY_OBJECT, ToolChoice, ToolSpec
from ronda.errors import BadRequest
from ronda.wire.shared.fields import bad, decode_field, must_be_schema

_NAME: Final = re.compile(r"[A-Za-z0-9_.-]{1,64}")


class Function(Struct, frozen=True):
    name: str | None = None
    description: str | None = None
    parameters: Raw = NULL
    arguments: Raw = NULL  # another name some clients have for `parameters`
    strict: bool | None = None
    defer_loading: bool | None = None


class FunctionTool(Function, frozen=True):
    type: str = "function"
    function: Function | None = None


class _KnownFunction(Function, frozen=True, forbid_unknown_fields=True):
    pass


class _KnownTool(FunctionTool, frozen=True, forbid_unknown_fields=True):
    """Without room for anything else: the quick way to see that nothing would be lost."""

    function: _KnownFunction | None = None


_decode_known = msgspec.json.Decoder(_KnownTool).decode


def is_known(raw: Raw) -> bool:
    """Whether a declaration says nothing but what is read of it."""
    try:
        _decode_known(raw)
    except msgspec.ValidationError:
        return False
    return True


def spec_of(tool: FunctionTool, path: str, native: Raw, api: str, namespace: str = "") -> ToolSpec:
    """The caller's tool. `native` is the declaration as it came, where it says more than we would write."""
    function: Function = tool.function if tool.function is not None else tool
    inner = f"{path}.function" if tool.function is not None else path
    name = must_be_name(function.name, f"{inner}.name")
    if namespace:
        name = must_be_name(f"{namespace}.{name}", f"{inner}.name")
    parameters = function.parameters if function.parameters != NULL else function.arguments
    needs_none = True
    if parameters == NULL:
        parameters = ANY_OBJECT
    else:
        schema = must_be_schema(parameters, f"{inner}.parameters")
        needs_none = not schema.get("required")
    return ToolSpec(
        name=name,
        description=function.description or "",
        parameters=parameters.copy(),
        strict=function.strict,
        kind="caller",
        no_arguments_needed=needs_none,
        native=native,
        native_api=api if native != NULL or namespace else "",
        deferred=bool(tool.defer_loading or function.defer_loading),
    )


def must_be_name(name: str | None, path: str) -> str:
    if name is None:
        raise bad(path, "is missing")
    if not _NAME.fullmatch(name):
        raise bad(path, f"is {name[:80]!r}; it must be 1 to 64 letters, digits, '_', '-' or '.'")
    return name


# ---- tool_choice ------------------------------------------------------------------------------------------------------


class NamedTool(Struct, frozen=True):
    type: str | None = None
    name: str | None = None
    namespace: str | None = None
    server_label: str | None = None  # of an MCP server
    function: NamedTool | None = None
    custom: NamedTool | None = None


class _AllowedTools(Struct, frozen=True):
    mode: Literal["auto", "required", "none"] = "auto"
    tools: list[NamedTool] = []


class Choice(NamedTool, frozen=True, kw_only=True):
    type: str
    mode: Literal["auto", "required", "none"] = "auto"
    tools: list[NamedTool] | None = None
    allowed_tools: _AllowedTools | None = None


def decode_choice(raw: Raw) -> ToolChoice | Choice:
    """A word is read; what an object means is the dialect's to say."""
    choice: str | Choice = decode_field(raw, str | Choice, "tool_choice")
    match choice:
        case "none" | "auto" | "required":
            return ToolChoice(choice)
        case str():
            raise bad("tool_choice", f'is {choice[:60]!r}; it can be "none", "auto", "required" or an object')
        case _:
            return choice


def allowed_tools(choice: Choice, name_of: Callable[[NamedTool], str]) -> ToolChoice:
    allowed = choice.allowed_tools or _AllowedTools(choice.mode, choice.tools or [])
    if not allowed.tools:
        raise BadRequest("tool_choice.allowed_tools requires at least one tool.", param="tool_choice")
    return ToolChoice(allowed.mode, tuple(dict.fromkeys([name_of(tool) for tool in allowed.tools])))
