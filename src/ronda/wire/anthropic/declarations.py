"""Tools and `tool_choice` of a request. Tools of Anthropic's own are told by their type.

An upstream of this dialect runs those itself, or hands their calls to the caller: it is sent the declaration as it came.
Elsewhere they are what the request needs of the server (`wire.shared.capabilities`), or functions of the caller's
(`client_tools`).
"""

from __future__ import annotations

import re
from typing import Final

from msgspec import Raw, Struct
from msgspec.structs import replace

from ronda.core.parts import NULL
from ronda.core.plan import AUTO, NONE, ToolChoice, ToolSpec
from ronda.core.taint import EGRESS, UNTRUSTED
from ronda.errors import BadRequest
from ronda.wire.anthropic import API
from ronda.wire.anthropic.client_tools import CLIENT_TOOLS
from ronda.wire.anthropic.mcp_servers import Toolset
from ronda.wire.anthropic.tools import TOOLSET
from ronda.wire.codec.json import decode_or
from ronda.wire.shared.capabilities import SHELL, Need, hosted_by, hosted_labels
from ronda.wire.shared.fields import MAX_TOOLS, bad, check_count, decode_field, must_be_schema
from ronda.wire.shared.mcp_servers import check_label
from ronda.wire.web.search import SearchOptions, WebTools, read_search_options

_NAME: Final = re.compile(r"[A-Za-z0-9_.-]{1,128}")
_DATED: Final = re.compile(r"(?P<kind>[a-z0-9_]+?)_20\d{6}")

# Anthropic's own tools, by their type without its date.
HOSTED: Final = (
    "web_search", "web_fetch", "code_execution", "bash", "text_editor", "memory", "computer", "computer_toolset",
    "browser_toolset", "tool_search_tool_bm25", "tool_search_tool_regex", "advisor", "mcp_toolset",
)  # fmt: skip

# What a declaration may say, and what becomes of it. For a tool that Anthropic's API runs, the API reads it all.
TOOL_FIELDS: Final[dict[str, str]] = {
    "type": 'read: "custom", or a tool of Anthropic\'s own by its dated name: what the server has runs there; else by Anthropic, '
    "if the model is its own",
    "name": "read",
    "description": "read",
    "input_schema": "read",
    "strict": "read",
    "cache_control": "passed on to Anthropic; elsewhere ignored: caches are the upstream's own business",
    "eager_input_streaming": "passed on to Anthropic; elsewhere ignored: arguments are streamed as they come",
    "input_examples": "passed on to Anthropic; elsewhere refused: the model would not see them",
    "defer_loading": "passed on to Anthropic; elsewhere read: the model is shown it when find_tools has found it",
    "allowed_callers": "passed on to Anthropic; elsewhere refused: tools are called by the model only",
    "citations": "passed on to Anthropic; elsewhere read: of web_fetch, whose pages are cited where it is enabled",
    "use_cache": "passed on to Anthropic; elsewhere read: nothing is cached, every page is as it is now",
    "url_sources": "passed on to Anthropic; elsewhere refused: addresses are told by their domains only (allowed_domains)",
}


class _UrlSource(Struct, frozen=True):
    type: str = "all"


class _Tool(Struct, frozen=True):
    type: str | None = None
    name: str | None = None
    description: str | None = None
    input_schema: Raw = NULL
    strict: bool | None = None
    defer_loading: bool | None = None
    allowed_callers: list[str] | None = None
    input_examples: list[dict[str, Raw]] | None = None
    url_sources: dict[str, _UrlSource] | None = None


class _PlainTool(Struct, frozen=True, forbid_unknown_fields=True):
    """What our writer says in the same way."""

    name: str
    input_schema: dict[str, Raw]
    description: str = ""


class DeclaredTools(Struct, frozen=True):
    """`elsewhere` is what an upstream of another dialect makes impossible: the field and why."""

    tools: tuple[ToolSpec, ...] = ()  # the caller's
    every: tuple[ToolSpec, ...] = ()  # Anthropic's own too, in the caller's order
    needs: tuple[Need, ...] = ()  # Anthropic's own, where the model's API is another
    elsewhere: tuple[tuple[str, str], ...] = ()
    toolsets: dict[str, tuple[str, Toolset]] = {}  # of MCP servers, by the server's name, and where they are declared


def read_tools(raws: list[Raw]) -> DeclaredTools:
    tools: list[ToolSpec] = []
    every: list[ToolSpec] = []
    needs: list[Need] = []
    elsewhere: list[tuple[str, str]] = []
    seen: set[str] = set()
    toolsets: dict[str, tuple[str, Toolset]] = {}
    check_count(raws, MAX_TOOLS, "tools")
    for index, raw in enumerate(raws):
        path = f"tools[{index}]"
        tool: _Tool = decode_field(raw, _Tool, path)
        if tool.type in (None, "custom") and (tool.input_schema != NULL or tool.name not in HOSTED):
            spec = _caller_s(tool, raw, path)
            tools.append(spec)
            only_direct = tool.allowed_callers in (None, ["direct"])
            elsewhere += _elsewhere(path, input_examples=bool(tool.input_examples), allowed_callers=not only_direct)
        elif (client_tool := CLIENT_TOOLS.get(_kind(tool.type or ""))) is not None:
            spec = client_tool.spec(_name_of(tool, path), raw)
            tools.append(spec)
        elif tool.type == "mcp_toolset":
            toolset: Toolset = decode_field(raw, Toolset, path)
            server = check_label(toolset.mcp_server_name, f"{path}.mcp_server_name")
            spec = ToolSpec(
                toolset_name(server),
                kind="caller",
                native=raw.copy(),
                native_api=API,
                is_hosted=True,
                labels=(UNTRUSTED, EGRESS),
            )
            toolsets[server] = (path, toolset)
        else:
            need = _need(tool, _name_of(tool, path), raw, path)
            needs.append(need)
            spec = ToolSpec(
                need.called,
                kind="caller",
                native=raw.copy(),
                native_api=API,
                is_hosted=not need.runs_nothing,
                labels=() if need.runs_nothing else hosted_labels(need.hosted),
            )
            is_narrowed = any(source.type != "all" for source in (tool.url_sources or {}).values())
            never_direct = "direct" not in (tool.allowed_callers or ["direct"])
            elsewhere += _elsewhere(path, allowed_callers=never_direct, url_sources=is_narrowed)
        if spec.name in seen:
            raise BadRequest(f"'{path}': a tool named '{spec.name}' is declared twice", param=path)
        seen.add(spec.name)
        every.append(spec)
    return DeclaredTools(tuple(tools), tuple(every), tuple(needs), tuple(elsewhere), toolsets)


def _caller_s(tool: _Tool, raw: Raw, path: str) -> ToolSpec:
    if tool.name is None:
        raise bad(f"{path}.name", "is missing")
    name = _checked_name(tool.name, path)
    if tool.input_schema == NULL:
        raise bad(f"{path}.input_schema", "is missing")
    schema = must_be_schema(tool.input_schema, f"{path}.input_schema")
    if schema.get("type", "object") != "object":
        raise bad(f"{path}.input_schema.type", 'must be "object": arguments are one')
    native = raw.copy() if decode_or(None, _PlainTool, raw) is None else NULL
    return ToolSpec(
        name=name,
        description=tool.description or "",
        parameters=tool.input_schema.copy(),
        strict=tool.strict,
        kind="caller",
        no_arguments_needed=not schema.get("required"),
        native=native,
        native_api=API if native != NULL else "",
        deferred=bool(tool.defer_loading),
    )


def _elsewhere(path: str, **wishes: bool) -> list[tuple[str, str]]:
    """Those of a declaration's wishes that only Anthropic's API can keep to."""
    return [
        (f"{path}.{name}", TOOL_FIELDS[name].partition("refused: ")[2])
        for name, is_wished in wishes.items()
        if is_wished
    ]


_IDLE: Final = frozenset({"type", "name", "cache_control"})
# Of Anthropic's own: those whose calls it leaves to the client, and those that only choose which tools the model is shown.
_RUN_NOTHING: Final = frozenset(
    {"computer", "computer_toolset", "browser_toolset", "tool_search_tool_bm25", "tool_search_tool_regex"}
)


def toolset_name(server: str) -> str:
    return TOOLSET + server


def undeclared(server: str) -> ToolSpec:
    """The tools of an MCP server that a request gives Anthropic without declaring any: all there are. No request writes this."""
    labels = (UNTRUSTED, EGRESS)
    return ToolSpec(toolset_name(server), kind="caller", native_api=API, is_hosted=True, labels=labels)


def _name_of(tool: _Tool, path: str) -> str:
    return _checked_name(tool.name or _kind(tool.type or ""), path)


def _checked_name(name: str, path: str) -> str:
    if not _NAME.fullmatch(name):
        raise bad(f"{path}.name", f"is {name[:80]!r}; it must be 1 to 128 letters, digits, '_', '-' or '.'")
    return name


def _kind(kind: str) -> str:
    dated = _DATED.fullmatch(kind)
    return dated["kind"] if dated is not None else kind


def _need(tool: _Tool, name: str, raw: Raw, path: str) -> Need:
    kind = tool.type or tool.name or ""
    hosted = hosted_by(kind) if _kind(kind) in HOSTED else None
    if hosted is None:
        known = ", ".join(f"{name}_…" for name in HOSTED)
        raise bad(f"{path}.type", f'is {kind[:80]!r}; it can be "custom" or one of Anthropic\'s own: {known}')
    members: dict[str, Raw] = decode_field(raw, dict[str, Raw], path)
    settings = [f"{path}.{name}" for name, value in members.items() if name not in _IDLE and value != NULL]
    runs_nothing = _kind(kind) in _RUN_NOTHING
    need = Need(kind, f"{path}.type", hosted, called=name, settings=tuple(settings), runs_nothing=runs_nothing)
    match hosted.capability:  # each is one tool here, with its own options
        case "search":
            return replace(need, web=WebTools(search=read_search_options(raw, path)))
        case "fetch":
            return replace(need, web=WebTools(fetch=_fetch_options(raw, path)))
        case "python" if _has_bash(kind):
            return replace(need, also=(SHELL,))
        case _:
            return need


class _Enabled(Struct, frozen=True):
    enabled: bool = False


class _Fetch(Struct, frozen=True):
    citations: _Enabled | None = None
    use_cache: bool | None = None  # nothing is cached here: every page is as it is now


def _fetch_options(raw: Raw, path: str) -> SearchOptions:
    """Pages are cited only where that is asked for, and as documents."""
    fetch: _Fetch = decode_field(raw, _Fetch, path)
    is_cited = fetch.citations is not None and fetch.citations.enabled
    return replace(read_search_options(raw, path), page_citations="document" if is_cited else "none")


_BASH_SINCE: Final = "20250825"


def _has_bash(kind: str) -> bool:
    """From that version on code execution has a bash besides its Python."""
    dated = _DATED.fullmatch(kind)
    return dated is not None and kind[-len(_BASH_SINCE) :] >= _BASH_SINCE


# ---- which of them ----------------------------------------------------------------------------------------------------


class _Choice(Struct, frozen=True, forbid_unknown_fields=True):
    type: str
    name: str | None = None
    disable_parallel_tool_use: bool | None = None


class ReadChoice(Struct, frozen=True):
    choice: ToolChoice = AUTO
    one_at_a_time: bool = False


def read_choice(raw: Raw) -> ReadChoice:
    wish: _Choice = decode_field(raw, _Choice, "tool_choice")
    match wish.type:
        case "auto":
            choice = AUTO
        case "any":
            choice = ToolChoice("required")
        case "none":
            choice = NONE
        case "tool":
            if not wish.name:
                raise bad("tool_choice.name", "is missing")
            choice = ToolChoice("required", (wish.name,), named=True)
        case other:
            raise bad("tool_choice.type", f'is {other[:40]!r}; it can be "auto", "any", "tool" or "none"')
    if wish.name and wish.type != "tool":
        raise bad("tool_choice.name", 'goes with {"type": "tool"}')
    return ReadChoice(choice, bool(wish.disable_parallel_tool_use))
