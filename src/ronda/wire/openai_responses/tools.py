"""Tools and `tool_choice` of a request → what the loop knows of them, and back again for the answer's echo.

A tool that the API's own service would run is here only if this server has one like it. Which ones those are is a table, so
that a server which has one says so in one line.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final, Literal

import msgspec
from msgspec import Raw, Struct

from ronda.core.parts import NULL
from ronda.core.plan import ANY_OBJECT, ToolChoice, ToolSpec
from ronda.errors import BadRequest
from ronda.wire.openai_chat.fields import bad, decode_field, must_be_schema
from ronda.wire.openai_responses import API

# Hosted tools by the type that declares them, and what a server must have for them.
HOSTED: Final[dict[str, str]] = {
    "web_search": "web search",
    "web_search_2025_08_26": "web search",
    "web_search_preview": "web search",
    "web_search_preview_2025_03_11": "web search",
    "file_search": "file search",
    "code_interpreter": "code execution",
    "shell": "shell",
    "local_shell": "shell",
    "apply_patch": "tool that applies patches",
    "computer": "computer to use",
    "computer_use": "computer to use",
    "computer_use_preview": "computer to use",
    "image_generation": "image generation",
    "mcp": "MCP servers that a request may name",
    "custom": "tools without a schema: declare it as a function",
    "tool_search": "search for tools",
    "programmatic_tool_calling": "programmatic tool calls",
}
# For docs/compatibility.md.
FIELDS: Final[dict[str, str]] = {
    "function": "read",
    "namespace": "read: its functions are called NAMESPACE.NAME by the model",
    **{type: f"refused: this server has no {what}" for type, what in HOSTED.items()},
}

_NAME = re.compile(r"[A-Za-z0-9_.-]{1,64}")


class _Function(Struct, frozen=True):
    name: str | None = None
    description: str | None = None
    parameters: Raw = NULL
    arguments: Raw = NULL  # another name some clients have for `parameters`
    strict: bool | None = None


class _Tool(_Function, frozen=True):
    """Flat as this API has it, or nested as Chat Completions does."""

    type: str = "function"
    function: _Function | None = None
    tools: list[Raw] | None = None


class _KnownTool(Struct, frozen=True, forbid_unknown_fields=True):
    """Without room for anything else: the quick way to see that nothing would be lost."""

    type: str = "function"
    name: str | None = None
    description: str | None = None
    parameters: Raw = NULL
    arguments: Raw = NULL
    strict: bool | None = None
    function: Raw = NULL


_decode_known = msgspec.json.Decoder(_KnownTool).decode


def read_tools(raws: Sequence[Raw]) -> tuple[tuple[ToolSpec, ...], tuple[str, ...]]:
    """The tools, and the namespaces that some of their names begin with."""
    tools: dict[str, ToolSpec] = {}
    namespaces: list[str] = []

    def take(said: _Tool, raw: Raw, path: str, namespace: str = "") -> None:
        spec = _spec(said, raw, path, namespace)
        if spec.name in tools:
            raise bad(path, f"declares a second tool named '{spec.name}'")
        tools[spec.name] = spec

    for at, raw in enumerate(raws):
        path = f"tools[{at}]"
        said: _Tool = decode_field(raw, _Tool, path)
        if said.type == "namespace":
            name = _named(said.name, f"{path}.name")
            namespaces.append(name)
            for inner, one in enumerate(said.tools or []):
                within = f"{path}.tools[{inner}]"
                take(_function(decode_field(one, _Tool, within), within), one, within, name)
        else:
            take(_function(said, path), raw, path)
    return tuple(tools.values()), tuple(namespaces)


def _function(said: _Tool, path: str) -> _Tool:
    if said.type == "function":
        return said
    if said.type in HOSTED:
        raise bad(f"{path}.type", f"is {said.type!r}: this server has no {HOSTED[said.type]}")
    raise bad(f"{path}.type", f'is {said.type[:60]!r}; it can be "function" or "namespace"')


def _spec(said: _Tool, raw: Raw, path: str, namespace: str) -> ToolSpec:
    function: _Function = said.function if said.function is not None else said
    inner = f"{path}.function" if said.function is not None else path
    own = _named(function.name, f"{inner}.name")
    name = f"{namespace}.{own}" if namespace else own
    if namespace:
        _named(name, f"{inner}.name")
    parameters = function.parameters if function.parameters != NULL else function.arguments
    needs_none = True
    if parameters == NULL:
        parameters = ANY_OBJECT
    else:
        schema = must_be_schema(parameters, f"{inner}.parameters")
        needs_none = not schema.get("required")
    native = NULL if namespace or _is_known(raw) else raw.copy()
    return ToolSpec(
        name=name,
        description=function.description or "",
        parameters=parameters.copy(),
        strict=function.strict,
        kind="caller",
        no_arguments_needed=needs_none,
        native=native,
        native_api=API if native != NULL else "",
    )


def _named(name: str | None, path: str) -> str:
    if name is None:
        raise bad(path, "is missing")
    if not _NAME.fullmatch(name):
        raise bad(path, f"is {name[:80]!r}; it must be 1 to 64 letters, digits, '_', '-' or '.'")
    return name


def _is_known(raw: Raw) -> bool:
    try:
        _decode_known(raw)
    except msgspec.ValidationError:
        return False
    return True


# ---- tool_choice ------------------------------------------------------------------------------------------------------


class _Named(Struct, frozen=True):
    type: str | None = None
    name: str | None = None
    namespace: str | None = None
    function: _Named | None = None


class _Allowed(Struct, frozen=True):
    mode: Literal["auto", "required"] = "auto"
    tools: list[_Named] = []


class _Choice(Struct, frozen=True):
    type: str
    name: str | None = None
    namespace: str | None = None
    function: _Named | None = None
    mode: Literal["auto", "required", "none"] = "auto"
    tools: list[_Named] | None = None
    allowed_tools: _Allowed | None = None


def read_choice(raw: Raw) -> ToolChoice:
    """All forms in use: a word, a named function flat or nested, and `allowed_tools` flat or nested."""
    said: str | _Choice = decode_field(raw, str | _Choice, "tool_choice")
    if isinstance(said, str):
        if said not in ("none", "auto", "required"):
            raise bad("tool_choice", f'is {said[:60]!r}; it can be "none", "auto", "required" or an object')
        return ToolChoice(said)  # type: ignore[arg-type]  # one of the three, as just seen
    if said.type == "function":
        return ToolChoice("required", (_chosen(_Named(None, said.name, said.namespace, said.function)),), named=True)
    if said.type == "allowed_tools":
        tools = said.allowed_tools.tools if said.allowed_tools is not None else said.tools or []
        mode = said.allowed_tools.mode if said.allowed_tools is not None else said.mode
        if not tools:
            raise BadRequest("tool_choice.allowed_tools requires at least one tool.", param="tool_choice")
        return ToolChoice(mode, tuple(dict.fromkeys([_chosen(tool) for tool in tools])))
    if said.type in HOSTED:
        raise BadRequest(
            f"tool_choice names the hosted tool `{said.type}`: this server has no {HOSTED[said.type]}.",
            param="tool_choice",
        )
    raise bad("tool_choice.type", f'is {said.type[:60]!r}; it can be "function" or "allowed_tools"')


def _chosen(tool: _Named) -> str:
    named = tool.function or tool
    if tool.type is not None and tool.type in HOSTED:
        raise BadRequest(
            f"tool_choice.allowed_tools contains the hosted tool `{tool.type}`: this server has no {HOSTED[tool.type]}.",
            param="tool_choice",
        )
    if not named.name:
        raise BadRequest("'tool_choice' names no function", param="tool_choice")
    return f"{named.namespace}.{named.name}" if named.namespace else named.name


# ---- the echo ---------------------------------------------------------------------------------------------------------

_OF_THE_REQUEST = frozenset({"caller", "callback", "dispatch"})


def echo_tools(tools: Sequence[ToolSpec], namespaces: Sequence[str]) -> list[dict[str, Any]]:
    """What the request declared; the server's own tools are nobody's business."""
    said: list[dict[str, Any]] = []
    spaces: dict[str, list[dict[str, Any]]] = {}
    for tool in tools:
        if tool.kind not in _OF_THE_REQUEST:
            continue
        namespace, name = split_name(tool.name, namespaces)
        function = {
            "type": "function",
            "name": name,
            "description": tool.description or None,
            "parameters": tool.parameters,
            "strict": tool.strict,
        }
        if namespace is None:
            said.append(function)
        elif namespace in spaces:
            spaces[namespace].append(function)
        else:
            spaces[namespace] = [function]
            said.append({"type": "namespace", "name": namespace, "description": "", "tools": spaces[namespace]})
    return said


def split_name(name: str, namespaces: Sequence[str]) -> tuple[str | None, str]:
    for namespace in namespaces:
        if name.startswith(f"{namespace}."):
            return namespace, name[len(namespace) + 1 :]
    return None, name


def echo_choice(choice: ToolChoice) -> str | dict[str, Any]:
    if choice.mode == "none" or not choice.names:
        return choice.mode
    tools = [{"type": "function", "name": name} for name in choice.names]
    return tools[0] if choice.named else {"type": "allowed_tools", "mode": choice.mode, "tools": tools}
