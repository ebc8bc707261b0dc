"""The tools of a file → `Tool` values, each of its kind."""

from __future__ import annotations

import difflib
from typing import Any, cast

from ronda.errors import quote_names
from ronda.prompty.connections import read_connection
from ronda.prompty.model import (
    ApprovalMode,
    Binding,
    CustomTool,
    FunctionTool,
    McpTool,
    OpenApiTool,
    PromptyTool,
    Property,
    Tool,
)
from ronda.prompty.read_properties import is_property, read_named, read_properties
from ronda.prompty.report import At

TOOL = ("name", "kind", "description", "bindings")
TOOLS = {
    "function": ("parameters", "strict"),
    "mcp": ("connection", "serverName", "serverDescription", "approvalMode", "allowedTools"),
    "openapi": ("connection", "specification", "allowedTools"),
    "prompty": ("path", "mode"),
}
WRAPPER = ("properties", "kind", "type", "strict", "examples", "description")  # what may stand next to `properties`
APPROVALS = ("always", "never", "specify")
MODES = ("single", "agentic")


def read_tools(at: At) -> tuple[Tool, ...]:
    return read_named(at, "tool", _tool)


def _tool(at: At, name: str) -> Tool | None:
    if not at.is_mapping():
        if not at.is_given:
            at.problem("a tool needs a kind")
        return None
    kind = at["kind"].text()
    if not kind:
        if not at["kind"].is_given or at["kind"].value == "":
            at.problem(f"a tool needs a kind: {quote_names(TOOLS)}, or one that a handler is registered for")
        return None
    at.warn_unknown((*TOOL, *TOOLS.get(kind, ("connection", "options"))))
    common: dict[str, Any] = {
        "name": name,
        "description": at["description"].text(),
        "bindings": {one[0]: one[1] for one in read_named(at["bindings"], "binding", _binding)},
    }
    match kind:
        case "function":
            parameters = _parameters(at["parameters"])
            strict = at["strict"].flag(True) if at["strict"].is_given else None
            return FunctionTool(**common, parameters=parameters, strict=strict)
        case "mcp":
            return _mcp(at, common)
        case "openapi":
            return _openapi(at, common)
        case "prompty":
            if not at["path"].text():
                at.problem("a tool of kind 'prompty' needs the path of another file")
            mode = at["mode"].one_of(MODES, "single")
            return PromptyTool(**common, path=at["path"].text(), mode="agentic" if mode == "agentic" else "single")
        case _:
            if close := difflib.get_close_matches(kind[:60], TOOLS, 1):
                at["kind"].warn(f"unknown kind '{kind[:60]}'; did you mean '{close[0]}'?")
            connection = read_connection(at["connection"])
            return CustomTool(**common, kind=kind, connection=connection, options=at["options"].mapping())


def _binding(at: At, name: str) -> tuple[str, Binding] | None:
    if isinstance(at.value, str):
        return name, Binding(at.value)
    source = at["input"].text()
    if not source:
        at.problem("a binding names the input that it takes its value from")
        return None
    return name, Binding(source)


def _parameters(at: At) -> tuple[Property, ...]:
    """Also the older form, `parameters: {properties: […]}`, which one example of the specification still has."""
    inner = at["properties"]
    wrapped = isinstance(inner.value, list) or (isinstance(inner.value, dict) and not is_property(inner.value))
    if wrapped and at.value.keys() <= set(WRAPPER):
        return read_properties(inner, "parameter")
    return read_properties(at, "parameter")


def _mcp(at: At, common: dict[str, Any]) -> McpTool:
    connection = read_connection(at["connection"])
    if not at["connection"].is_given and not at["serverName"].is_given:
        at.problem("a tool of kind 'mcp' needs a connection or a serverName")
    return McpTool(
        **common,
        connection=connection,
        server_name=at["serverName"].text(),
        server_description=at["serverDescription"].maybe_text(),
        approval_mode=_approval(at["approvalMode"]),
        allowed_tools=at["allowedTools"].texts(),
    )


def _approval(at: At) -> ApprovalMode | None:
    """Fails closed: what cannot be read asks for approval of everything."""
    if not at.is_given:
        return None
    if isinstance(at.value, str):
        return ApprovalMode(kind=cast("Any", at.one_of(APPROVALS, "always")))
    if not at.is_mapping():
        return None
    if not at["kind"].is_given:
        at.problem(f"an approval mode needs a kind: {quote_names(APPROVALS)}")
    return ApprovalMode(
        kind=cast("Any", at["kind"].one_of(APPROVALS, "always")),
        always_require_approval_tools=at["alwaysRequireApprovalTools"].texts() or (),
        never_require_approval_tools=at["neverRequireApprovalTools"].texts() or (),
    )


def _openapi(at: At, common: dict[str, Any]) -> OpenApiTool:
    place = at["specification"]
    specification: str | dict[str, Any] = place.mapping() if isinstance(place.value, dict) else place.text()
    if not specification:
        at.problem("a tool of kind 'openapi' needs a specification: a path, an address, or ${file:…}")
    return OpenApiTool(
        **common,
        connection=read_connection(at["connection"]),
        specification=specification,
        allowed_tools=at["allowedTools"].texts(),
    )


def check_bindings(at: At, tools: tuple[Tool, ...], inputs: tuple[Property, ...]) -> None:
    """A binding whose input is not there injects nothing, so the model would miss a parameter that is never filled in."""
    names = {one.name for one in inputs}
    entries = dict(at.fields())
    for item in at.items():
        if isinstance(item["name"].value, str):
            entries.setdefault(item["name"].value, item)
    for tool in tools:
        bindings = entries[tool.name]["bindings"]
        for parameter, binding in tool.bindings.items():
            place = bindings[parameter] if isinstance(bindings.value, dict) else bindings
            if binding.input not in names:
                place.warn(f"there is no input '{binding.input}' to bind '{parameter}' to")
            if isinstance(tool, FunctionTool) and parameter not in {one.name for one in tool.parameters}:
                place.warn(f"the tool '{tool.name}' has no parameter '{parameter}'")
