"""Tools and `tool_choice` of a request, in all the forms that clients use."""

from __future__ import annotations

from msgspec import Raw, Struct

from ronda.core.parts import NULL
from ronda.core.plan import ToolChoice, ToolSpec
from ronda.errors import BadRequest
from ronda.wire.openai_chat import API
from ronda.wire.shared.capabilities import HOSTED, Need
from ronda.wire.shared.custom_tools import Format, custom_spec
from ronda.wire.shared.fields import MAX_TOOLS, check_count, decode_field
from ronda.wire.shared.functions import FunctionTool, NamedTool, allowed_tools, decode_choice, is_known, spec_of
from ronda.wire.shared.supplies import ANY_CONTAINER, ContainerWish, read_place

_HOSTED = {
    "web_search": 'tools[].type="web_search" is only supported by the Responses API; '
    "use web_search_options with Chat Completions",
    "web_search_preview": 'tools[].type="web_search_preview" is only supported by the Responses API; '
    "use web_search_options with Chat Completions",
    "shell": 'tools[].type="shell" is only supported by the Responses API.',
    "namespace": 'tools[].type="namespace" is only supported by the Responses API.',
}
_PYTHON = "code_interpreter"  # the one tool of the service's that is declared here


class _Custom(Struct, frozen=True):
    name: str | None = None
    description: str | None = None
    format: Format | None = None


class _CustomTool(_Custom, frozen=True):
    custom: _Custom | None = None


class DeclaredTools(Struct, frozen=True):
    """The caller's tools, which of them are custom ones, and what the server must have."""

    specs: tuple[ToolSpec, ...] = ()
    needs: tuple[Need, ...] = ()
    container: ContainerWish = ANY_CONTAINER
    customs: tuple[str, ...] = ()


NO_TOOLS = DeclaredTools()


def read_tools(raws: list[Raw]) -> DeclaredTools:
    needs: list[Need] = []
    container = ANY_CONTAINER
    tools: list[ToolSpec] = []
    customs: list[str] = []
    seen: set[str] = set()
    check_count(raws, MAX_TOOLS, "tools")
    for index, raw in enumerate(raws):
        path = f"tools[{index}]"
        declared: FunctionTool = decode_field(raw, FunctionTool, path)
        if declared.type == _PYTHON:
            needs.append(Need(_PYTHON, f"{path}.type", HOSTED[_PYTHON], called=_PYTHON))
            container |= read_place(raw, path)
            continue
        if declared.type == "custom":
            tool = _custom_spec(raw, path)
            customs.append(tool.name)
        elif declared.type == "function":
            tool = spec_of(declared, path, NULL if is_known(raw) else raw.copy(), API)
        else:
            known = _HOSTED.get(
                declared.type, f'\'{path}.type\' is {declared.type!r}; it can be "function" or "custom"'
            )
            raise BadRequest(known, param=f"{path}.type")
        if tool.name in seen:
            raise BadRequest(f"'{path}': a tool named '{tool.name}' is declared twice", param=path)
        seen.add(tool.name)
        tools.append(tool)
    return DeclaredTools(tuple(tools), tuple(needs), container, tuple(customs))


def _custom_spec(raw: Raw, path: str) -> ToolSpec:
    declared: _CustomTool = decode_field(raw, _CustomTool, path)
    custom, inner = (declared, path) if declared.custom is None else (declared.custom, f"{path}.custom")
    return custom_spec(custom.name, custom.description, custom.format, inner)


def read_choice(raw: Raw) -> ToolChoice:
    """All forms in use: a word, a named tool nested or flat, and `allowed_tools` nested or flat."""
    if bytes(raw) == b'"any"':  # Mistral's word, whose clients come to this address too
        return ToolChoice("required")
    choice = decode_choice(raw)
    if isinstance(choice, ToolChoice):
        return choice
    if choice.type in ("function", "custom"):
        name = (choice.function or choice.custom or choice).name
        if not name:
            raise BadRequest(f"'tool_choice' names no {choice.type}", param=f"tool_choice.{choice.type}.name")
        return ToolChoice("required", (name,), named=True)
    if choice.type == "allowed_tools":
        return allowed_tools(choice, _allowed_name)
    if choice.type == _PYTHON:
        return ToolChoice("required", (_PYTHON,), named=True)
    if choice.type in _HOSTED:
        raise BadRequest(f"tool_choice forcing hosted tool `{choice.type}` is not supported.", param="tool_choice")
    raise BadRequest(
        f'\'tool_choice.type\' is {choice.type!r}; it can be "function", "custom" or "allowed_tools"',
        param="tool_choice",
    )


def _allowed_name(tool: NamedTool) -> str:
    name = (tool.function or tool.custom or tool).name
    if not name:
        kind = tool.type or "?"
        raise BadRequest(
            f"tool_choice.allowed_tools contains hosted tool `{kind}`; hosted tool forcing/filtering is not supported.",
            param="tool_choice",
        )
    return name
