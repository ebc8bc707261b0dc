"""A tool that a file declares → what the model is told about it.

Bound parameters are not part of it: they are filled in from the inputs when the tool runs. A strict tool is declared with
every parameter required and the optional ones nullable, since that is the only form in which providers hold a model to a
schema; `without_nulls` takes out again what a model then wrote for want of a value.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import msgspec
from msgspec import Raw
from msgspec.structs import replace

from ronda.core.plan import ToolKind, ToolSpec
from ronda.prompty.model import FunctionTool
from ronda.prompty.parameters import parameters_of, without_bound

_encode = msgspec.json.Encoder().encode


def spec_of(tool: FunctionTool, kind: ToolKind = "function", timeout: float | None = None) -> ToolSpec:
    schema = parameters_of(tool.parameters, strict=tool.strict is True, without=tool.bindings)
    needed = [one for one in tool.parameters if one.required and one.name not in tool.bindings]
    return ToolSpec(
        name=tool.name,
        description=tool.description,
        parameters=Raw(_encode(schema)),
        strict=True if tool.strict else None,
        kind=kind,
        timeout=timeout,
        bound=tuple(tool.bindings),
        no_arguments_needed=not needed,
    )


def without_nulls(tool: FunctionTool, arguments: dict[str, Any]) -> dict[str, Any]:
    """Arguments as the file declares them: a null that only the strict form allows says that there is no value."""
    if not tool.strict:
        return arguments
    absent = {
        one.name
        for one in tool.parameters
        if not one.required and not one.nullable and arguments.get(one.name, one) is None
    }
    return {name: value for name, value in arguments.items() if name not in absent}


def without_bound_parameters(spec: ToolSpec, bound: Collection[str]) -> ToolSpec:
    """Of a tool that is described elsewhere: the parameters that are bound are not shown to the model."""
    if not bound:
        return spec
    schema = without_bound(msgspec.json.decode(spec.parameters), bound)
    return replace(
        spec, parameters=Raw(_encode(schema)), bound=tuple(bound), no_arguments_needed=not schema.get("required")
    )
