"""The tools that a file declares → tools that can be called, for one run.

    function    the run's own handler, else the one registered under its name
    prompty     another file, started as a child of the run
    openapi     one tool for each operation of the document, which really calls the API
    mcp         one tool for each tool of the server
    any other   what is registered for the kind, or an installed package that brings it along

and for each name under `agents` the agent of that name, started as a child of the run.

Who runs a call is found in this order: what was given to the run, what is registered under the name, what is registered for
the kind, what is built in. A declared tool that none of them runs is still shown to the model; a call of it ends the run
with a `ToolMissing`. Neither the file nor a registry is changed.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import msgspec
from msgspec import Raw

from ronda._extras import check_extra
from ronda.core.plan import ANY_OBJECT, ToolSpec
from ronda.drive import Tool
from ronda.errors import BadConfig, RondaError
from ronda.prompty.children import Children
from ronda.prompty.errors import BadPrompty
from ronda.prompty.handlers import (
    DeclaredTool,
    KindTool,
    MissingTool,
    bound_values,
    handler_tool,
)
from ronda.prompty.model import CustomTool, FunctionTool, Host, McpTool, OpenApiTool, Prompty, PromptyTool
from ronda.prompty.model import Tool as Declared
from ronda.prompty.parameters import without_bound
from ronda.prompty.registry import (
    Handler,
    KindHandler,
    Lent,
    get_tool,
    get_tool_handler,
    installed_tool_handler,
    name_of,
)
from ronda.prompty.tool_specs import spec_of
from ronda.tools.function import DEFAULT_TIMEOUT, AsTool, BoundTool, as_tool
from ronda.tools.function import FunctionTool as Function

Overlay: TypeAlias = Sequence[Handler | AsTool] | Mapping[str, Handler | AsTool]

log = logging.getLogger("ronda.tools")

_BUILT_IN = (FunctionTool, PromptyTool, OpenApiTool, McpTool)


async def tools_of(
    prompty: Prompty,
    overlay: Overlay | None = None,
    inputs: Mapping[str, Any] | None = None,
    *,
    leave_out: bool = False,
) -> dict[str, Tool]:
    """The tools of one run, by the name the model calls them by.

    Args:
        prompty: The loaded file.
        overlay: Functions, or name → handler, for this run only. One that the file does not declare is a tool as its own
            signature describes it.
        inputs: The run's inputs, after `validate_inputs`: bound parameters are filled in from them.
        leave_out: A tool that cannot be made is left out, instead of raising what is wrong with it.
    """
    handlers = _by_name(overlay)
    if not prompty.tools and not prompty.agents and not isinstance(overlay, Lent):
        return {name: as_tool(handler, name) for name, handler in handlers.items()}
    lent = overlay if isinstance(overlay, Lent) else Lent()
    making = _Making(prompty, Lent(handlers, lent.otherwise, lent.mcp, lent.agents), dict(inputs or {}))
    added = () if lent.agents is None else lent.agents.agents_of(prompty.path)
    table: dict[str, Tool] = {}
    for declared in (*prompty.tools, *dict.fromkeys((*prompty.agents, *added))):
        try:
            made = [await making.agent(declared)] if isinstance(declared, str) else await making.tools(declared)
        except RondaError as error:
            if not leave_out:
                raise
            name = declared if isinstance(declared, str) else declared.name
            log.warning("the tool '%s' cannot be called any more: %s", name, error)
            continue
        table |= {tool.spec.name: tool for tool in made}
    for name, handler in handlers.items():
        if name not in table and not isinstance(overlay, Lent):
            table[name] = as_tool(handler, name)
    return table


def _by_name(overlay: Overlay | None) -> dict[str, Handler]:
    if overlay is None:
        return {}
    if isinstance(overlay, Mapping):
        return {name: _handler_of(item, name) for name, item in overlay.items()}
    handlers: dict[str, Handler] = {}
    for item in overlay:
        handler = _handler_of(item)
        name = name_of(handler)
        if name in handlers:
            raise BadConfig(f"two tools are named '{name}'; give one of them another name")
        handlers[name] = handler
    return handlers


def _handler_of(item: Handler | AsTool, name: str | None = None) -> Handler:
    return item.as_tool(name=name) if isinstance(item, AsTool) else item


class _Making:
    """The tools of one file, one after the other."""

    def __init__(
        self,
        prompty: Prompty,
        lent: Lent,
        inputs: Mapping[str, Any],
    ) -> None:
        host = prompty.host or Host()
        self._prompty = prompty
        self._lent = lent
        self._inputs = inputs
        self._children = Children(host, lent)
        self._made = {tool.name for tool in prompty.tools}
        self._taken = self._made | set(lent)

    async def tools(self, declared: Declared) -> list[Tool]:
        """What is bound to an input that is absent is the model's to say, if it does."""
        absent = {name for name, one in declared.bindings.items() if one.input not in self._inputs}
        made = await self._tools(declared)
        return [_without_bound(tool, absent) for tool in made] if absent else made

    async def _tools(self, declared: Declared) -> list[Tool]:
        handler = self._handler(declared.name)
        if handler is not None:
            return [self._by_handler(declared, handler)]
        kind = get_tool_handler(declared.kind)
        if kind is None and not isinstance(declared, _BUILT_IN):
            kind = installed_tool_handler(declared.kind) or get_tool_handler("*")
        if kind is not None:
            return [KindTool(_spec(declared, kind), declared, kind, self._prompty, self._inputs)]
        match declared:
            case PromptyTool():
                child = await self._children.tool(declared, self._prompty)
                return [self._bound(child, declared)]
            case OpenApiTool():
                return await self._operations(declared)
            case McpTool():
                return await self._server_tools(declared)
            case FunctionTool() if self._lent.otherwise is not None:
                return [self._by_handler(declared, self._lent.otherwise(declared.name))]
            case _:
                return [MissingTool(_spec(declared))]

    async def agent(self, name: str) -> Tool:
        """Another agent, by its name."""
        tool = await self._children.agent(name, self._prompty)
        if tool.spec.name in self._made:
            raise BadPrompty(
                f"the agent '{name}' and another tool are both named '{tool.spec.name}'", path=self._prompty.path
            )
        self._made.add(tool.spec.name)
        return tool

    def _handler(self, name: str) -> Handler | None:
        found = self._lent.get(name)
        return get_tool(name) if found is None else found

    def _by_handler(self, declared: Declared, handler: Handler) -> Tool:
        values = {**_own_values(handler, self._inputs), **bound_values(declared, self._inputs)}
        if isinstance(declared, FunctionTool):
            tool = handler_tool(declared.name, handler, [one.name for one in declared.parameters], declared.bindings)
            return DeclaredTool(_laid_over(spec_of(declared), tool.spec), declared, tool, values)
        tool = handler_tool(declared.name, handler, (), declared.bindings)
        own = tool.spec
        spec = msgspec.structs.replace(
            own,
            name=declared.name,
            description=declared.description or own.description,
            bound=tuple({**dict.fromkeys(own.bound), **declared.bindings}),
            declared=declared.kind,
        )
        return BoundTool(tool, values, spec)

    def _bound(self, tool: Tool, declared: Declared) -> Tool:
        values = bound_values(declared, self._inputs)
        return BoundTool(tool, values) if values else tool

    async def _server_tools(self, declared: McpTool) -> list[Tool]:
        from ronda.prompty.mcp import tools_of_server  # only for who has such a tool

        made = await tools_of_server(declared, self._lent.mcp, self._taken - {declared.name})
        self._taken |= {tool.spec.name for tool in made}
        return [self._bound(tool, declared) for tool in made]

    async def _operations(self, declared: OpenApiTool) -> list[Tool]:
        check_extra("web", f"the tool '{declared.name}' of kind 'openapi'")
        from ronda.prompty.openapi import operations_of  # with aiohttp behind it: only for who has such a tool

        made: list[Tool] = []
        for operation in await operations_of(declared, self._prompty, self._taken - {declared.name}):
            name = operation.spec.name
            self._taken.add(name)
            handler = self._handler(name)
            if handler is not None:
                tool = handler_tool(name, handler, (), declared.bindings)
                spec = msgspec.structs.replace(operation.spec, approval=tool.spec.approval)
                made.append(BoundTool(tool, bound_values(declared, self._inputs), spec))
            else:
                made.append(self._bound(operation, declared))
        return made


def _without_bound(tool: Tool, names: set[str]) -> Tool:
    bound = tuple([name for name in tool.spec.bound if name not in names])
    return BoundTool(tool, {}, msgspec.structs.replace(tool.spec, bound=bound))


def _own_values(handler: Handler, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """What a tool made with `@tool(bindings=…)` asks for itself, beside what the file binds."""
    if not isinstance(handler, Function):
        return {}
    return {name: inputs[source] for name, source in handler.bindings.items() if source in inputs}


def _laid_over(spec: ToolSpec, handler: ToolSpec) -> ToolSpec:
    """What the file says of a tool, and what only its handler can: how it is to be run."""
    return msgspec.structs.replace(
        spec,
        description=spec.description or handler.description,
        repeatable=handler.repeatable,
        exclusive=handler.exclusive,
        timeout=handler.timeout if handler.timeout is not None else spec.timeout,
        bound=tuple({**dict.fromkeys(handler.bound), **dict.fromkeys(spec.bound)}),
        approval=handler.approval,
    )


def _spec(declared: Declared, handler: KindHandler | None = None) -> ToolSpec:
    if isinstance(declared, FunctionTool):
        return spec_of(declared, timeout=DEFAULT_TIMEOUT)
    declared_schema = getattr(handler, "parameters", None)
    if declared_schema is None and isinstance(declared, CustomTool):
        declared_schema = declared.options.get("parameters")
    schema = without_bound(declared_schema, declared.bindings) if isinstance(declared_schema, Mapping) else None
    return ToolSpec(
        name=declared.name,
        description=declared.description,
        parameters=ANY_OBJECT if schema is None else Raw(msgspec.json.encode(schema)),
        timeout=DEFAULT_TIMEOUT,
        bound=tuple(declared.bindings),
        declared=declared.kind,
        no_arguments_needed=schema is None or not schema.get("required"),
    )
