"""A function as OpenAI's APIs declare it: nested as Chat Completions has it, or flat as Responses does. Both take both."""

from __future__ import annotations

import re
from typing import Final

from msgspec import Raw, Struct

from ronda.core.parts import NULL
from ronda.core.plan import ANY_OBJECT, ToolSpec
from ronda.wire.fields import bad, must_be_schema

_NAME: Final = re.compile(r"[A-Za-z0-9_.-]{1,64}")


class Function(Struct, frozen=True):
    name: str | None = None
    description: str | None = None
    parameters: Raw = NULL
    arguments: Raw = NULL  # another name some clients have for `parameters`
    strict: bool | None = None


class FunctionTool(Function, frozen=True):
    type: str = "function"
    function: Function | None = None


def spec_of(said: FunctionTool, path: str, native: Raw, api: str, namespace: str = "") -> ToolSpec:
    """The caller's tool. `native` is the declaration as it came, where it says more than we would write."""
    function: Function = said.function if said.function is not None else said
    inner = f"{path}.function" if said.function is not None else path
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
        native_api=api if native != NULL else "",
    )


def must_be_name(name: str | None, path: str) -> str:
    if name is None:
        raise bad(path, "is missing")
    if not _NAME.fullmatch(name):
        raise bad(path, f"is {name[:80]!r}; it must be 1 to 64 letters, digits, '_', '-' or '.'")
    return name
