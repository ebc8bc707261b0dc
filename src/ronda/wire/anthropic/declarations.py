"""Tools and `tool_choice` of a request. Tools of Anthropic's own are told by their type, and looked up in a table of ours.

An upstream of this dialect runs those itself, or hands their calls to the caller: it is sent the declaration as it came.
Elsewhere the server must have the tool that the table names, since it is the server that will run it.
"""

from __future__ import annotations

import re
from typing import Any, Final

import msgspec
from msgspec import Raw, Struct

from ronda.core.parts import NULL
from ronda.core.plan import AUTO, NONE, ToolChoice, ToolSpec
from ronda.errors import BadRequest
from ronda.wire.anthropic import API
from ronda.wire.fields import MAX_TOOLS, bad, check_count, decode_field, must_be_schema
from ronda.wire.json import UNREADABLE

_NAME: Final = re.compile(r"[A-Za-z0-9_.-]{1,128}")
_DATED: Final = re.compile(r"(?P<kind>[a-z0-9_]+?)_20\d{6}")

# Anthropic's tools by their type without its date → the tool of this server that does the same.
HOSTED: Final[dict[str, str]] = {
    "web_search": "search_the_web",
    "web_fetch": "read_page",
    "code_execution": "run_python",
    "bash": "run_shell",
    "text_editor": "edit_file",
    "memory": "remember",
    "computer": "use_computer",
    "computer_toolset": "use_computer",
    "browser_toolset": "use_browser",
    "tool_search_tool_bm25": "find_tools",
    "tool_search_tool_regex": "find_tools",
    "advisor": "ask_advisor",
    "mcp_toolset": "call_mcp",
}

# What a declaration may say, and what becomes of it. For a tool that Anthropic's API runs, the API reads it all.
TOOL_FIELDS: Final[dict[str, str]] = {
    "type": 'read: "custom", or a tool of Anthropic\'s own by its dated name',
    "name": "read",
    "description": "read",
    "input_schema": "read",
    "strict": "read",
    "cache_control": "passed on to Anthropic; elsewhere ignored: caches are the upstream's own business",
    "eager_input_streaming": "passed on to Anthropic; elsewhere ignored: arguments are streamed as they come",
    "input_examples": "passed on to Anthropic; elsewhere refused: the model would not see them",
    "defer_loading": "passed on to Anthropic; elsewhere ignored: every tool is shown from the start",
    "allowed_callers": "passed on to Anthropic; elsewhere refused: tools are called by the model alone",
}
CHOICE_FIELDS: Final[dict[str, str]] = {"type": "read", "name": "read", "disable_parallel_tool_use": "read"}


class _Tool(Struct, frozen=True):
    type: str | None = None
    name: str | None = None
    description: str | None = None
    input_schema: Raw = NULL
    strict: bool | None = None
    defer_loading: bool | None = None
    allowed_callers: list[str] | None = None
    input_examples: list[dict[str, Raw]] | None = None


class _PlainTool(Struct, frozen=True, forbid_unknown_fields=True):
    """What our writer says in the same way."""

    name: str
    input_schema: dict[str, Raw]
    description: str = ""


_decode_plain = msgspec.json.Decoder(_PlainTool).decode


class Hosted(Struct, frozen=True):
    """A tool of Anthropic's own, asked for: `ours` does the same here, if the server has it."""

    path: str
    type: str
    name: str
    ours: str
    native: ToolSpec
    settings: tuple[str, ...] = ()  # members that say how it should run


class Declared(Struct, frozen=True):
    """`elsewhere` is what an upstream of another dialect makes impossible: the field and why."""

    tools: tuple[ToolSpec, ...] = ()  # the caller's
    every: tuple[ToolSpec, ...] = ()  # Anthropic's own too, in the caller's order
    hosted: tuple[Hosted, ...] = ()
    elsewhere: tuple[tuple[str, str], ...] = ()


def read_tools(raws: list[Raw]) -> Declared:
    tools: list[ToolSpec] = []
    every: list[ToolSpec] = []
    hosted: list[Hosted] = []
    elsewhere: list[tuple[str, str]] = []
    seen: set[str] = set()
    check_count(raws, MAX_TOOLS, "tools")
    for at, raw in enumerate(raws):
        path = f"tools[{at}]"
        said: _Tool = decode_field(raw, _Tool, path)
        if said.type in (None, "custom") and (said.input_schema != NULL or said.name not in HOSTED):
            spec = _caller_s(said, raw, path)
            tools.append(spec)
            elsewhere += _elsewhere(said, path)
        else:
            hosted.append(_hosted(said, raw, path))
            spec = hosted[-1].native
        if spec.name in seen:
            raise BadRequest(f"'{path}': a tool named '{spec.name}' is declared twice", param=path)
        seen.add(spec.name)
        every.append(spec)
    return Declared(tuple(tools), tuple(every), tuple(hosted), tuple(elsewhere))


def _caller_s(said: _Tool, raw: Raw, path: str) -> ToolSpec:
    if said.name is None:
        raise bad(f"{path}.name", "is missing")
    if not _NAME.fullmatch(said.name):
        raise bad(f"{path}.name", f"is {said.name[:80]!r}; it must be 1 to 128 letters, digits, '_', '-' or '.'")
    if said.input_schema == NULL:
        raise bad(f"{path}.input_schema", "is missing")
    schema = must_be_schema(said.input_schema, f"{path}.input_schema")
    if schema.get("type", "object") != "object":
        raise bad(f"{path}.input_schema.type", 'must be "object": arguments are one')
    native = NULL if _is_plain(raw) else raw.copy()
    return ToolSpec(
        name=said.name,
        description=said.description or "",
        parameters=said.input_schema.copy(),
        strict=said.strict,
        kind="caller",
        no_arguments_needed=not schema.get("required"),
        native=native,
        native_api=API if native != NULL else "",
    )


def _is_plain(raw: Raw) -> bool:
    try:
        _decode_plain(raw)
    except UNREADABLE:
        return False
    return True


def _elsewhere(said: _Tool, path: str) -> list[tuple[str, str]]:
    asked = {
        "input_examples": bool(said.input_examples),
        "allowed_callers": said.allowed_callers not in (None, ["direct"]),
    }
    return [
        (f"{path}.{name}", TOOL_FIELDS[name].partition("refused: ")[2]) for name, is_asked in asked.items() if is_asked
    ]


_IDLE: Final = frozenset({"type", "name", "cache_control", "mcp_server_name"})


def _hosted(said: _Tool, raw: Raw, path: str) -> Hosted:
    type = said.type or said.name or ""
    dated = _DATED.fullmatch(type)
    kind = dated["kind"] if dated is not None else type
    ours = HOSTED.get(kind)
    if ours is None:
        known = ", ".join(f"{name}_…" for name in HOSTED)
        raise bad(f"{path}.type", f'is {type[:80]!r}; it can be "custom" or one of Anthropic\'s own: {known}')
    members: dict[str, Raw] = decode_field(raw, dict[str, Raw], path)
    settings = [name for name, value in members.items() if name not in _IDLE and value != NULL]
    name = said.name or kind
    if not _NAME.fullmatch(name):
        raise bad(f"{path}.name", f"is {name[:80]!r}; it must be 1 to 128 letters, digits, '_', '-' or '.'")
    native = ToolSpec(name, kind="caller", native=raw.copy(), native_api=API)
    return Hosted(path, type, name, ours, native, tuple(settings))


def held_here(hosted: tuple[Hosted, ...], names: list[str]) -> dict[str, str]:
    """The tools of this server that run in the place of Anthropic's, by the names the request has for them."""
    found: dict[str, str] = {}
    for tool in hosted:
        ours = next((name for name in (tool.ours, tool.name) if name in names), None)
        if ours is None:
            raise bad(
                f"{tool.path}.type", f"is {tool.type!r}: this server has no tool for that, and its model has none"
            )
        if tool.settings:
            field = f"{tool.path}.{tool.settings[0]}"
            raise bad(field, f"cannot be kept to: '{ours}' of this server runs in the place of {tool.type}")
        found[tool.name] = ours
    return found


# ---- which of them ----------------------------------------------------------------------------------------------------


class _Choice(Struct, frozen=True, forbid_unknown_fields=True):
    type: str
    name: str | None = None
    disable_parallel_tool_use: bool | None = None


class Chosen(Struct, frozen=True):
    choice: ToolChoice = AUTO
    one_at_a_time: bool = False


def read_choice(raw: Raw) -> Chosen:
    said: _Choice = decode_field(raw, _Choice, "tool_choice")
    match said.type:
        case "auto":
            choice = AUTO
        case "any":
            choice = ToolChoice("required")
        case "none":
            choice = NONE
        case "tool":
            if not said.name:
                raise bad("tool_choice.name", "is missing")
            choice = ToolChoice("required", (said.name,), named=True)
        case other:
            raise bad("tool_choice.type", f'is {other[:40]!r}; it can be "auto", "any", "tool" or "none"')
    if said.name and said.type != "tool":
        raise bad("tool_choice.name", 'goes with {"type": "tool"}')
    return Chosen(choice, bool(said.disable_parallel_tool_use))


def renamed(choice: ToolChoice, names: dict[str, str]) -> ToolChoice:
    """The choice of a tool of Anthropic's own is the choice of ours."""
    if not names or not choice.names:
        return choice
    chosen: Any = tuple([names.get(name, name) for name in choice.names])
    return msgspec.structs.replace(choice, names=chosen)
