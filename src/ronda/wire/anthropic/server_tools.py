"""Calls of tools that ran here, as the blocks that Anthropic's clients know them by: a use, and its result behind it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from ronda.core.parts import ToolCall, ToolResult
from ronda.core.plan import ToolSpec
from ronda.wire.anthropic.content import Part
from ronda.wire.json import encode, read_object, to_raws

_NAMES: Final = {"code_execution": "code_execution", "shell": "bash_code_execution"}
CODE_TOOLS: Final = frozenset(_NAMES)  # types of tools


def code_use(tool_type: str, call: ToolCall, id: str) -> Part | None:
    """None where the API has no block for such a call."""
    name = _NAMES.get(tool_type)
    arguments = read_object(call.arguments)
    if name == "code_execution" and isinstance(code := arguments.get("code"), str):
        input = {"code": code}
    elif name == "bash_code_execution" and isinstance(commands := arguments.get("commands"), list):
        input = {"command": "\n".join(map(str, commands))}
    else:
        return None
    members = {"type": "server_tool_use", "id": id, "name": name, "input": input}
    return Part("other", encode(input).decode(), members=to_raws(members))


def tool_search_use(call: ToolCall, id: str) -> Part:
    """A search for tools: by words, whichever of the two the request has asked for."""
    input = read_object(call.arguments)
    members = {"type": "server_tool_use", "id": id, "name": "tool_search_tool_bm25", "input": input}
    return Part("other", encode(input).decode(), members=to_raws(members))


def tool_search_result(id: str, result: ToolResult, found: Sequence[ToolSpec]) -> Part:
    content: dict[str, Any] = {
        "type": "tool_search_tool_search_result",
        "tool_references": [{"type": "tool_reference", "tool_name": spec.name} for spec in found],
    }
    if result.failed:
        content = {"type": "tool_search_tool_result_error", "error_code": "unavailable", "error_message": None}
    return Part("other", members=to_raws({"type": "tool_search_tool_result", "tool_use_id": id, "content": content}))


def code_result(
    tool_type: str, id: str, result: ToolResult, details: Mapping[str, Any], files: Sequence[Mapping[str, Any]]
) -> Part:
    name = _NAMES[tool_type]
    members = {"type": f"{name}_tool_result", "tool_use_id": id, "content": _content(name, result, details, files)}
    return Part("other", members=to_raws(members))


def _content(
    name: str, result: ToolResult, details: Mapping[str, Any], files: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    if not details:  # it was not run
        return {"type": f"{name}_tool_result_error", "error_code": "unavailable"}
    if details.get("status") == "timeout" or details.get("timed_out"):
        return {"type": f"{name}_tool_result_error", "error_code": "execution_time_exceeded"}
    stderr = "".join([str(details[part]) for part in ("stderr", "exception") if details.get(part)])
    code = details.get("exit_code")
    return {
        "type": f"{name}_result",
        "stdout": details.get("stdout") or "",
        "stderr": stderr,
        "return_code": code if isinstance(code, int) else int(result.failed),
        "content": [{"type": f"{name}_output", "file_id": file["id"]} for file in files if file.get("id")],
    }
