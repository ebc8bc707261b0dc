"""A declared tool and its handler → a tool of one run: what the model wrote, and what the inputs say, go to the handler.

Bindings are filled in here, last: the model neither sees a bound parameter nor can it say anything about it. An input that
is not there fills in nothing, and leaves what the model wrote (§9.5).
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Mapping
from typing import Any

import msgspec
from msgspec import Raw
from msgspec.structs import replace

from ronda.core.plan import ToolSpec
from ronda.drive import Tool, ToolContext, ToolOutput
from ronda.errors import BadConfig
from ronda.prompty.model import FunctionTool as Declared
from ronda.prompty.model import Prompty
from ronda.prompty.model import Tool as AnyDeclared
from ronda.prompty.registry import Handler, KindHandler
from ronda.prompty.tool_specs import without_nulls
from ronda.tools.callback import CallbackTool
from ronda.tools.function import FunctionTool, around, call_either
from ronda.tools.output import output_of
from ronda.wire.openai_chat import API as CHAT
from ronda.wire.openai_responses import API as RESPONSES


def bound_values(declared: AnyDeclared, inputs: Mapping[str, Any]) -> dict[str, Any]:
    return {name: inputs[one.input] for name, one in declared.bindings.items() if one.input in inputs}


class DeclaredTool:
    """A handler under the declaration of a file: the model sees what the file says."""

    def __init__(self, spec: ToolSpec, declared: Declared, handler: Tool, values: Mapping[str, Any]) -> None:
        self.spec = spec
        self._declared = declared
        self._handler = handler
        self._values = dict(values)

    async def run(self, arguments: dict[str, Any], context: ToolContext) -> ToolOutput:
        return await self._handler.run({**without_nulls(self._declared, arguments), **self._values}, context)


class KindTool:
    """A tool that the handler of its kind runs."""

    def __init__(
        self,
        spec: ToolSpec,
        declared: AnyDeclared,
        handler: KindHandler,
        agent: Prompty,
        inputs: Mapping[str, Any],
    ) -> None:
        self.spec = spec
        self._declared = declared
        self._handler = handler
        self._agent = agent
        self._inputs = inputs
        self._values = bound_values(declared, inputs)

    async def run(self, arguments: dict[str, Any], context: ToolContext) -> ToolOutput:
        declared = self._declared
        if isinstance(declared, Declared):
            arguments = without_nulls(declared, arguments)
        values = {**arguments, **self._values}
        return await output_of(await call_either(self._handler, declared, values, self._agent, dict(self._inputs)))


class MissingTool:
    """Declared, and without a handler: the loop ends a run whose model asks for it, before this is called."""

    def __init__(self, spec: ToolSpec) -> None:
        self.spec = replace(spec, kind="caller")

    async def run(self, arguments: dict[str, Any], context: ToolContext) -> ToolOutput:
        raise BadConfig(f"No handler registered for tool: {self.spec.name} (kind: {self.spec.declared})")


class CallerTool:
    """A tool that the model may ask for and that the caller runs. What it was promised of its form is said, not enforced:
    one model call is one model call."""

    def __init__(self, spec: ToolSpec, kind: str) -> None:
        function = {"name": spec.name, "description": spec.description, "parameters": spec.parameters, "strict": True}
        native, api = Raw(b"null"), ""
        if spec.strict and kind == "openai-chat":
            native, api = Raw(msgspec.json.encode({"type": "function", "function": function})), CHAT
        elif spec.strict and kind == "openai":
            native, api = Raw(msgspec.json.encode({"type": "function", **function})), RESPONSES
        self.spec = replace(spec, kind="caller", strict=None, native=native, native_api=api)

    async def run(self, arguments: dict[str, Any], context: ToolContext) -> ToolOutput:
        raise NotImplementedError("calls of this tool go to the caller")


def handler_tool(name: str, handler: Handler, parameters: Collection[str], bound: Collection[str]) -> Tool:
    """What a user gave for a tool as something that runs its calls.

    A function gets the arguments by their names, as the types it asks for; bound values as they are. One that has a single
    parameter for all of them, as the specification writes handlers, gets them together.
    """
    if isinstance(handler, FunctionTool):
        return _around(handler, bound)
    if hasattr(handler, "spec") and hasattr(handler, "run"):
        return handler
    if not callable(handler):
        raise BadConfig(f"the handler of tool '{name}' cannot be called: {handler!r}")
    if _takes_all(handler, {*parameters, *bound}):
        return CallbackTool(ToolSpec(name), _with_all(handler))
    try:
        return FunctionTool(handler, name=name, bindings=_identity(handler, bound))
    except (TypeError, BadConfig):  # annotations that no model could fill: the arguments go in as they are
        return CallbackTool(ToolSpec(name), handler)


def _around(tool: FunctionTool, bound: Collection[str]) -> FunctionTool:
    more = _identity(tool.function, [one for one in bound if one not in tool.bindings])
    return around(tool, tool.function, {**tool.bindings, **more}) if more else tool


def _identity(function: Callable[..., Any], bound: Collection[str]) -> dict[str, str]:
    """The bound parameters that a function has by name: those are the host's, and are not converted."""
    known = inspect.signature(function).parameters
    return {name: name for name in bound if name in known}


_BY_POSITION = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


def _takes_all(handler: Callable[..., Any], names: Collection[str]) -> bool:
    try:
        signature = inspect.signature(handler)
    except ValueError:  # of some built-in functions Python does not know it
        return False
    parameters = list(signature.parameters.values())
    if any(one.kind is inspect.Parameter.VAR_KEYWORD or one.name in names for one in parameters):
        return False
    needed = [one for one in parameters if one.default is inspect.Parameter.empty and one.kind in _BY_POSITION]
    # A tool context is asked for by its type; a single name of any other type is meant for the arguments.
    return len(needed) == 1 and len(parameters) == 1 and "ToolContext" not in str(needed[0].annotation)


def _with_all(handler: Callable[..., Any]) -> Callable[..., Any]:
    async def call(name: str, arguments: dict[str, Any]) -> Any:
        return await call_either(handler, arguments)

    return call
