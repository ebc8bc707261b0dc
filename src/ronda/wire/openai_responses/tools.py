"""Tools and `tool_choice` of a request → what the loop knows of them, and back again for the answer's echo.

A tool that the API's own service would run is something the request needs (`wire.shared.capabilities`): whether the server has
it, the server knows.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import partial
from typing import Any, Final, Literal

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import replace

from ronda.core.parts import NULL
from ronda.core.plan import ToolChoice, ToolSpec
from ronda.errors import BadRequest
from ronda.wire.codec.json import present
from ronda.wire.openai_responses import API, client_calls
from ronda.wire.shared.capabilities import HOSTED as CAPABILITIES
from ronda.wire.shared.capabilities import OF_SERVICE, Need, hosted_by, with_search_options
from ronda.wire.shared.custom_tools import Format, custom_spec
from ronda.wire.shared.fields import MAX_TOOLS, bad, check_count, decode_field
from ronda.wire.shared.functions import (
    FunctionTool,
    NamedTool,
    allowed_tools,
    decode_choice,
    is_known,
    must_be_name,
    spec_of,
)
from ronda.wire.shared.mcp_servers import EVERY, NO_TOOL, NamedServer, ToolFilter, check_headers, check_label
from ronda.wire.shared.supplies import ANY_CONTAINER, ContainerWish, read_place

# Hosted tools, by the type that declares them.
HOSTED: Final = (
    "web_search",
    "web_search_2025_08_26",
    "web_search_preview",
    "web_search_preview_2025_03_11",
    "file_search",
    "code_interpreter",
    "shell",
    "computer",
    "computer_use",
    "computer_use_preview",
    "image_generation",
    "mcp",
    "tool_search",
    "programmatic_tool_calling",
)
CODE_TOOLS: Final = ("code_interpreter", "shell")  # those that say where they run
# Hosted tools that agents (Codex) offer in every request next to their own, to any service: a model may use them, and does
# without where they are not. By themselves, or chosen, they are what the request is about, and refused like the others.
OFFERED: Final = frozenset({"web_search", "tool_search", "image_generation"})


class _Filter(Struct, frozen=True):
    tool_names: list[str] | None = None
    read_only: bool | None = None


class _Approval(Struct, frozen=True):
    always: _Filter | None = None
    never: _Filter | None = None


class _Mcp(Struct, frozen=True):
    """A server that the request names."""

    server_label: str | None = None
    server_url: str | None = None
    connector_id: str | None = None
    tunnel_id: str | None = None
    server_description: str | None = None
    headers: dict[str, str] | None = None
    authorization: str | None = None
    allowed_tools: list[str] | _Filter | None = None
    require_approval: Literal["always", "never"] | _Approval | None = None
    defer_loading: bool | None = None
    allowed_callers: list[str] | None = None


class _Tool(FunctionTool, frozen=True):
    tools: list[Raw] | None = None  # of a namespace
    format: Format | None = None  # of a custom tool


class DeclaredTools(Struct, frozen=True):
    """The tools; the namespaces that some of their names begin with; those whose calls are text; what the server must have."""

    specs: tuple[ToolSpec, ...] = ()
    namespaces: tuple[str, ...] = ()
    customs: tuple[str, ...] = ()
    waiting: tuple[str, ...] = ()  # whose calls are items of their own
    needs: tuple[Need, ...] = ()
    servers: tuple[Raw, ...] = ()  # MCP servers, as the answer repeats them: without what is secret
    hosted: tuple[Raw, ...] = ()  # the declarations of those
    container: ContainerWish = ANY_CONTAINER


def read_tools(raws: Sequence[Raw]) -> DeclaredTools:
    tools: dict[str, ToolSpec] = {}
    namespaces: list[str] = []
    customs: list[str] = []
    needs: list[Need] = []
    hosted: list[Raw] = []
    servers: dict[str, Raw] = {}
    container = ANY_CONTAINER

    def take(spec: ToolSpec | Need, path: str, raw: Raw = NULL) -> None:
        nonlocal container
        if isinstance(spec, Need):
            needs.append(replace(spec, native=raw.copy()))
            if spec.name in CODE_TOOLS:
                container |= read_place(raw, path)
            hosted.append(raw.copy())
            return
        if spec.name in tools:
            raise bad(path, f"declares a second tool named '{spec.name}'")
        tools[spec.name] = spec

    check_count(raws, MAX_TOOLS, "tools")
    for index, raw in enumerate(raws):
        path = f"tools[{index}]"
        declared: _Tool = decode_field(raw, _Tool, path)
        if declared.type == "namespace":
            name = must_be_name(declared.name, f"{path}.name")
            namespaces.append(name)
            check_count(declared.tools or (), MAX_TOOLS, f"{path}.tools")
            for inner, one in enumerate(declared.tools or []):
                within = f"{path}.tools[{inner}]"
                take(_function(decode_field(one, _Tool, within), one, within, name), within, one)
        elif declared.type == "custom":
            take(custom_spec(declared.name, declared.description, declared.format, path), path)
            customs.append(declared.name or "")
        elif declared.type in client_calls.OFFERED and client_calls.waits(decode_field(raw, client_calls.Place, path)):
            take(_waiting(declared.type, raw), path)
        elif declared.type == "mcp":
            server, echo = _server(raw, path)
            if server.label in servers:
                raise bad(f"{path}.server_label", f"names '{server.label}' a second time")
            servers[server.label] = echo
            called = OF_SERVICE + "mcp"
            needs.append(
                Need("mcp", f"{path}.type", CAPABILITIES["mcp"], called=called, server=server, native=raw.copy())
            )
        else:
            take(_function(declared, raw, path, ""), path, raw)
    if sum(need.name.startswith(_SEARCH) for need in needs) > 1:
        raise BadRequest("Only one web search configuration may be provided.", param="tools")
    if not tools:
        needs = [replace(need, is_optional=False) for need in needs]
    own = [name for name, tool in tools.items() if tool.native != NULL and client_calls.is_waiting(tool)]
    return DeclaredTools(
        tuple(tools.values()),
        tuple(namespaces),
        tuple(customs),
        tuple(own),
        tuple(needs),
        tuple(servers.values()),
        tuple(hosted),
        container,
    )


def _server(raw: Raw, path: str) -> tuple[NamedServer, Raw]:
    """What is meant, and what the answer says of it: neither headers nor tokens, nor an address's query."""
    mcp: _Mcp = decode_field(raw, _Mcp, path)
    label = check_label(mcp.server_label, f"{path}.server_label")
    if mcp.tunnel_id is not None:
        raise bad(f"{path}.tunnel_id", "cannot be used here: this server has no tunnels; give a 'server_url'")
    if mcp.server_url is not None and mcp.connector_id is not None:
        raise bad(f"{path}.connector_id", "is given next to 'server_url'; one of them says where the server is")
    # Of the operator's own servers the operator says which tools ask.
    approval = mcp.require_approval or ("always" if mcp.server_url is not None else "never")
    if isinstance(approval, _Approval):
        always, never = _filter(approval.always, NO_TOOL), _filter(approval.never, NO_TOOL)
    else:
        always, never = (EVERY, NO_TOOL) if approval == "always" else (NO_TOOL, EVERY)
    allowed = mcp.allowed_tools
    server = NamedServer(
        label=label,
        url=mcp.server_url or "",
        configured=mcp.connector_id or label,
        headers=check_headers(mcp.headers or {}, f"{path}.headers"),
        token=mcp.authorization or None,
        allowed=ToolFilter(tuple(allowed)) if isinstance(allowed, list) else _filter(allowed, EVERY),
        always_asks=always,
        never_asks=never,
        deferred=EVERY if mcp.defer_loading else NO_TOOL,
    )
    echo = present(
        type="mcp",
        server_label=label,
        server_url=None if mcp.server_url is None else mcp.server_url.partition("?")[0].partition("#")[0],
        connector_id=mcp.connector_id,
        server_description=mcp.server_description,
        allowed_tools=allowed,
        require_approval=approval,
    )
    return server, Raw(msgspec.json.encode(echo))


def _filter(asked: _Filter | None, otherwise: ToolFilter) -> ToolFilter:
    if asked is None:
        return otherwise
    return ToolFilter(None if asked.tool_names is None else tuple(asked.tool_names), read_only=asked.read_only)


def _waiting(kind: str, raw: Raw) -> ToolSpec:
    offered = client_calls.OFFERED[kind]
    parameters = Raw(msgspec.json.encode(offered.parameters))
    return ToolSpec(kind, offered.description, parameters, kind="caller", native=raw.copy(), native_api=API)


def _function(tool: _Tool, raw: Raw, path: str, namespace: str) -> ToolSpec | Need:
    if tool.type == "function":
        return spec_of(tool, path, NULL if namespace or is_known(raw) else raw.copy(), API, namespace)
    if (need := _need(tool.type, f"{path}.type", is_optional=tool.type in OFFERED and not namespace)) is not None:
        return _search(need, raw, path) if need.name.startswith(_SEARCH) else need
    raise bad(f"{path}.type", f'is {tool.type[:60]!r}; it can be "function", "custom" or "namespace"')


def _need(kind: str | None, path: str, *, is_optional: bool = False) -> Need | None:
    hosted = hosted_by(kind) if kind in HOSTED else None
    return None if hosted is None or kind is None else Need(kind, path, hosted, is_optional, called=OF_SERVICE + kind)


_SEARCH: Final = "web_search"
_PREVIEW: Final = "web_search_preview"


def _search(need: Need, raw: Raw, path: str) -> Need:
    """How it is to search. The preview knows less than what came after it."""
    if need.name.startswith(_PREVIEW):
        members: dict[str, Raw] = decode_field(raw, dict[str, Raw], path)
        for name in ("filters", "return_token_budget"):
            if members.get(name, NULL) != NULL:
                raise BadRequest(
                    f'tools[].type="{_PREVIEW}" {name} {"are" if name == "filters" else "is"} not supported.',
                    param=f"{path}.{name}",
                )
    return with_search_options(need, raw, path)


# ---- tool_choice ------------------------------------------------------------------------------------------------------


def needs_of(choice: ToolChoice) -> list[Need]:
    """What a choice names that is no tool of the caller's."""
    types = [name.removeprefix(OF_SERVICE).partition("/")[0] for name in choice.names if OF_SERVICE in name]
    found = [_need(kind, "tool_choice") for kind in types]
    return [need for need in found if need is not None]


def forced_type(choice: ToolChoice) -> str:
    """Of the one tool of the service's own that must be called; "" where none must."""
    [*names] = choice.names
    is_one = choice.named and len(names) == 1 and names[0].startswith(OF_SERVICE)
    kind = names[0].removeprefix(OF_SERVICE) if is_one else ""
    return kind if kind in HOSTED and kind != "mcp" else ""  # a server's is told with its label


def read_choice(raw: Raw, waiting_tools: Collection[str] = ()) -> ToolChoice:
    """All forms in use: a word, a named function flat or nested, and `allowed_tools` flat or nested.

    `waiting_tools`: those that the request declares as the client's. A shell may be one, or the service's own.
    """
    choice = decode_choice(raw)
    if isinstance(choice, ToolChoice):
        return choice
    name_of = partial(_chosen_name, waiting_tools=waiting_tools)
    if choice.type in ("function", "custom", *client_calls.OFFERED, *HOSTED):
        return ToolChoice("required", (name_of(choice),), named=True)
    if choice.type == "allowed_tools":
        return allowed_tools(choice, name_of)
    raise bad("tool_choice.type", f'is {choice.type[:60]!r}; it can be "function" or "allowed_tools"')


def _chosen_name(tool: NamedTool, waiting_tools: Collection[str] = ()) -> str:
    named = tool.function or tool
    if (
        tool.type is not None
        and tool.type in client_calls.OFFERED
        and (tool.type in waiting_tools or tool.type not in HOSTED)
    ):
        return tool.type
    if tool.type == "mcp" and tool.server_label:
        return "/".join([OF_SERVICE + "mcp", tool.server_label, *([tool.name] if tool.name else [])])
    if tool.type is not None and tool.type in HOSTED:
        return OF_SERVICE + tool.type
    if not named.name:
        raise BadRequest("'tool_choice' names no function", param="tool_choice")
    return f"{named.namespace}.{named.name}" if named.namespace else named.name


def write_hosted(name: str) -> dict[str, Any]:
    """A choice of a tool of the service's own, as a request says it."""
    kind, _, rest = name.removeprefix(OF_SERVICE).partition("/")
    label, _, tool = rest.partition("/")
    return present(type=kind, server_label=label or None, name=tool or None)


# ---- the echo ---------------------------------------------------------------------------------------------------------

_OF_THE_REQUEST = frozenset({"caller", "callback", "dispatch"})


def echo_tools(
    tools: Sequence[ToolSpec], namespaces: Sequence[str], customs: Sequence[str] = (), servers: Sequence[Raw] = ()
) -> list[dict[str, Any] | Raw]:
    """What the request declared; the server's own tools are not shown."""
    fields: list[dict[str, Any] | Raw] = [*servers]
    spaces: dict[str, list[dict[str, Any]]] = {}
    for tool in tools:
        if tool.kind not in _OF_THE_REQUEST or tool.is_hosted:
            continue
        if tool.native != NULL and client_calls.is_waiting(tool):
            fields.append(msgspec.json.decode(tool.native))
            continue
        if tool.name in customs:
            fields.append({"type": "custom", "name": tool.name, "description": tool.description or None})
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
            fields.append(function)
        elif namespace in spaces:
            spaces[namespace].append(function)
        else:
            spaces[namespace] = [function]
            fields.append({"type": "namespace", "name": namespace, "description": "", "tools": spaces[namespace]})
    return fields


def split_name(name: str, namespaces: Sequence[str]) -> tuple[str | None, str]:
    for namespace in namespaces:
        if name.startswith(f"{namespace}."):
            return namespace, name[len(namespace) + 1 :]
    return None, name


def echo_choice(choice: ToolChoice, customs: Sequence[str] = (), own: Sequence[str] = ()) -> str | dict[str, Any]:
    if choice.mode == "none" or not choice.names:
        return choice.mode
    tools = [
        write_hosted(name)
        if name.startswith(OF_SERVICE)
        else {"type": name}
        if name in own
        else {"type": "custom" if name in customs else "function", "name": name}
        for name in choice.names
    ]
    return tools[0] if choice.named else {"type": "allowed_tools", "mode": choice.mode, "tools": tools}
