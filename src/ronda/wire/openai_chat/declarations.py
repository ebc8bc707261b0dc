"""Tools and `tool_choice` of a request, in all the forms that clients use."""

from __future__ import annotations

from msgspec import Raw, Struct

from ronda.core.parts import NULL
from ronda.core.plan import ToolChoice, ToolSpec
from ronda.errors import BadRequest
from ronda.wire.capabilities import HOSTED, Need
from ronda.wire.fields import MAX_TOOLS, check_count, decode_field
from ronda.wire.functions import FunctionTool, NamedTool, allowed_tools, decode_choice, is_known, spec_of
from ronda.wire.openai_chat import API
from ronda.wire.supplies import ANY_CONTAINER, ContainerWish, read_place

_HOSTED = {
    "web_search": 'tools[].type="web_search" is only supported by the Responses API; '
    "use web_search_options with Chat Completions",
    "web_search_preview": 'tools[].type="web_search_preview" is only supported by the Responses API; '
    "use web_search_options with Chat Completions",
    "shell": 'tools[].type="shell" is only supported by the Responses API.',
    "namespace": 'tools[].type="namespace" is only supported by the Responses API.',
    "custom": 'tools[].type="custom" is only supported by the Responses API; declare it as a function',
}
_PYTHON = "code_interpreter"  # the one tool of the service's that is declared here


class DeclaredTools(Struct, frozen=True):
    """The caller's tools, and what the server must have."""

    specs: tuple[ToolSpec, ...] = ()
    needs: tuple[Need, ...] = ()
    container: ContainerWish = ANY_CONTAINER


_NOTHING = DeclaredTools()


def read_tools(raws: list[Raw]) -> DeclaredTools:
    if not raws:
        return _NOTHING
    needs: list[Need] = []
    container = ANY_CONTAINER
    tools: list[ToolSpec] = []
    seen: set[str] = set()
    check_count(raws, MAX_TOOLS, "tools")
    for at, raw in enumerate(raws):
        path = f"tools[{at}]"
        declared: FunctionTool = decode_field(raw, FunctionTool, path)
        if declared.type == _PYTHON:
            needs.append(Need(_PYTHON, f"{path}.type", HOSTED[_PYTHON], called=_PYTHON))
            container |= read_place(raw, path)
            continue
        if declared.type != "function":
            known = _HOSTED.get(
                declared.type, f"'{path}.type' is {declared.type!r}; only \"function\" is supported here"
            )
            raise BadRequest(known, param=f"{path}.type")
        tool = spec_of(declared, path, NULL if is_known(raw) else raw.copy(), API)
        if tool.name in seen:
            raise BadRequest(f"'{path}': a tool named '{tool.name}' is declared twice", param=path)
        seen.add(tool.name)
        tools.append(tool)
    return DeclaredTools(tuple(tools), tuple(needs), container)


def read_choice(raw: Raw) -> ToolChoice:
    """All forms in use: a word, a named function nested or flat, and `allowed_tools` nested or flat."""
    if bytes(raw) == b'"any"':  # Mistral's word, whose clients come to this address too
        return ToolChoice("required")
    choice = decode_choice(raw)
    if isinstance(choice, ToolChoice):
        return choice
    if choice.type == "function":
        name = (choice.function or choice).name
        if not name:
            raise BadRequest("'tool_choice' names no function", param="tool_choice.function.name")
        return ToolChoice("required", (name,), named=True)
    if choice.type == "allowed_tools":
        return allowed_tools(choice, _allowed_name)
    if choice.type == _PYTHON:
        return ToolChoice("required", (_PYTHON,), named=True)
    if choice.type in _HOSTED:
        raise BadRequest(f"tool_choice forcing hosted tool `{choice.type}` is not supported.", param="tool_choice")
    raise BadRequest(
        f'\'tool_choice.type\' is {choice.type!r}; it can be "function" or "allowed_tools"', param="tool_choice"
    )


def _allowed_name(tool: NamedTool) -> str:
    name = (tool.function or tool).name
    if not name:
        kind = tool.type or "?"
        raise BadRequest(
            f"tool_choice.allowed_tools contains hosted tool `{kind}`; hosted tool forcing/filtering is not supported.",
            param="tool_choice",
        )
    return name
