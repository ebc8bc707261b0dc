"""Tools and which of them may, must or must not be called."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, Final

from msgspec import Raw, Struct

from ronda.core.parts import NULL
from ronda.core.plan import Options, ToolChoice, ToolSpec
from ronda.schema.lower import ANTHROPIC, lower_json, strict_within
from ronda.wire.anthropic import API
from ronda.wire.anthropic.models import Model
from ronda.wire.anthropic.names import Names
from ronda.wire.codec.json import decode_or

# Before the name of an MCP server: what the loop calls a set of its tools.
TOOLSET: Final = "mcp_toolset."
_HOSTED: Final = re.compile(r"\w+_20\d{6}|mcp_toolset")  # web_search_20250305


class _DeclaredTool(Struct, frozen=True):
    type: str | None = None
    input_schema: Raw = NULL
    function: Raw = NULL
    parameters: Raw = NULL


def is_ours(tool: ToolSpec) -> bool:
    """A caller's own declaration. Where the request does not name its dialect, its members do."""
    if tool.native == NULL or tool.native_api not in ("", API):
        return False
    decoded: _DeclaredTool | None = decode_or(None, _DeclaredTool, tool.native)
    if decoded is None or decoded.function != NULL or decoded.parameters != NULL:
        return False
    return decoded.input_schema != NULL or bool(_HOSTED.fullmatch(decoded.type or ""))


def is_declared(tool: ToolSpec) -> bool:
    """What an MCP server of the request has is declared by no tool, where it is to be all of it."""
    return not tool.is_hosted or tool.native != NULL


def write_tools(
    tools: tuple[ToolSpec, ...], names: Names, model: Model, stream: bool, grammars: bool = True
) -> list[Raw | dict[str, Any]]:
    schemas = [lower_json(bytes(tool.parameters), ANTHROPIC) for tool in tools]
    # Asked for only where it qualifies: one schema that does not would fail the whole request. The loop checks anyway.
    wants_strict = [tool.strict is True and model.formats and grammars and not is_ours(tool) for tool in tools]
    fits = iter(
        strict_within([schema for schema, wants in zip(schemas, wants_strict, strict=True) if wants], ANTHROPIC)
    )
    written: list[Raw | dict[str, Any]] = []
    for tool, schema, wants in zip(tools, schemas, wants_strict, strict=True):
        is_strict = wants and next(fits)
        if tool.is_hosted and not is_declared(tool):
            continue
        if is_ours(tool):
            written.append(tool.native)
            continue
        fields: dict[str, Any] = {"name": names.wire(tool.name)}
        if tool.description:
            fields["description"] = tool.description
        fields["input_schema"] = schema.schema
        if is_strict:
            fields["strict"] = True
        elif stream and model.eager_input:
            fields["eager_input_streaming"] = True
        written.append(fields)
    return written


def stand_ins(names: Iterable[str]) -> list[Raw | dict[str, Any]]:
    """Tools of calls long made: "requests which include `tool_use` or `tool_result` blocks must define tools"."""
    return [
        {"name": name, "description": "Not available any more.", "input_schema": {"type": "object"}} for name in names
    ]


def is_forced(choice: ToolChoice, model: Model) -> bool:
    return choice.mode == "required" and model.forced_choice


def write_choice(choice: ToolChoice, options: Options, names: Names, model: Model) -> dict[str, Any] | None:
    """None where it goes without saying. Several allowed tools have no word here; the loop holds the model to them."""
    if choice.mode == "none":
        return {"type": "none"}
    fields: dict[str, Any] = {"type": "auto"}
    if is_forced(choice, model):
        fields = {"type": "tool", "name": names.wire(choice.names[0])} if len(choice.names) == 1 else {"type": "any"}
    if options.parallel_tool_calls is False:
        fields["disable_parallel_tool_use"] = True
    return None if fields == {"type": "auto"} else fields
