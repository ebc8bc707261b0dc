"""Calls of tools that ran here, as the blocks that Anthropic's clients know them by: a use, and its result behind it.

Code, commands, searches for tools and of the web, pages that were read; and the tools of MCP servers that the request named.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from ronda.core.found_tools import found_in, searches_tools
from ronda.core.parts import ToolCall, ToolResult
from ronda.core.plan import Origin, ToolSpec
from ronda.wire.anthropic.content import Part, input_of, result_part, use_part
from ronda.wire.codec.json import read_object
from ronda.wire.shared.tool_records import ToolRecords
from ronda.wire.web.calls import (
    FoundPage,
    WebCall,
    found_pages,
    page_text,
    read_call,
    read_outcome,
    ronda_id,
    seal,
)
from ronda.wire.web.citations import Source

_NAMES: Final = {"code_execution": "code_execution", "shell": "bash_code_execution"}
CODE_TOOLS: Final = frozenset(_NAMES)  # types of tools


def block_id(run: str, place: int, *, is_mcp: bool) -> str:
    return ronda_id("mcptoolu" if is_mcp else "srvtoolu", f"{run.removeprefix('run_')}_{place}")


def write_use(
    use_id: str, call: ToolCall, origin: Origin | None, tool_type: str, tools: Mapping[str, ToolSpec]
) -> Part | None:
    """None where the API has no block for such a call."""
    if origin is not None:
        return use_part(use_id, origin.tool, input_of(call.arguments), "mcp_tool_use", server_name=origin.server)
    if (web := read_call(call)) is not None:
        return use_part(use_id, _web_tool(web), web.arguments)
    arguments = read_object(call.arguments)
    if searches_tools(call, tools):  # by words, whichever of the two the request has asked for
        return use_part(use_id, "tool_search_tool_bm25", arguments)
    if tool_type == "code_execution" and isinstance(code := arguments.get("code"), str):
        return use_part(use_id, _NAMES[tool_type], {"code": code})
    if tool_type == "shell" and isinstance(commands := arguments.get("commands"), list):
        return use_part(use_id, _NAMES[tool_type], {"command": "\n".join(map(str, commands))})
    return None


def write_result(
    use_id: str,
    call: ToolCall,
    result: ToolResult,
    origin: Origin | None,
    records: ToolRecords,
    tools: Mapping[str, ToolSpec],
    files: Sequence[Mapping[str, Any]],
) -> Part | None:
    if origin is not None:
        return result_part(
            "mcp_tool_result", use_id, [{"type": "text", "text": result.content}], is_error=result.failed
        )
    if (web := read_outcome(call, result, records.details(call.id))) is not None:
        return result_part(f"{_web_tool(web)}_tool_result", use_id, _web_content(web, result))
    if searches_tools(call, tools):
        found = found_in(records.members(call.id), tools)
        return result_part("tool_search_tool_result", use_id, _found_tools(result, found))
    if (name := _NAMES.get(records.tool_type(call))) is not None:
        return result_part(f"{name}_tool_result", use_id, _code_content(name, result, records.members(call.id), files))
    return None


def _found_tools(result: ToolResult, found: Sequence[ToolSpec]) -> dict[str, Any]:
    if result.failed:
        return {"type": "tool_search_tool_result_error", "error_code": "unavailable", "error_message": None}
    references = [{"type": "tool_reference", "tool_name": spec.name} for spec in found]
    return {"type": "tool_search_tool_search_result", "tool_references": references}


def _code_content(
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
        # The block has no member of its own for the value of the last line.
        "stdout": "".join([str(details[part]) for part in ("stdout", "result") if details.get(part)]),
        "stderr": stderr,
        "return_code": code if isinstance(code, int) else int(result.failed),
        "content": [{"type": f"{name}_output", "file_id": file["id"]} for file in files if file.get("id")],
    }


def _web_tool(call: WebCall) -> str:
    return "web_fetch" if call.query is None else "web_search"


def _web_content(call: WebCall, result: ToolResult) -> list[dict[str, Any]] | dict[str, Any]:
    if call.error_code:
        return {"type": f"{_web_tool(call)}_tool_result_error", "error_code": call.error_code}
    if call.query is None:
        return _page(call, page_text(result))
    return [_search_result(source, page) for source, page in zip(call.results, found_pages(result), strict=False)]


def _search_result(source: Source, page: FoundPage) -> dict[str, Any]:
    return {
        "type": "web_search_result",
        "url": source.url,
        "title": source.title,
        "encrypted_content": seal(page),
        "page_age": None,
    }


def _page(call: WebCall, text: str) -> dict[str, Any]:
    url, title = (call.results[0].url, call.results[0].title) if call.results else (call.url or "", "")
    source = {"type": "text", "media_type": "text/plain", "data": text}
    citations = {"enabled": True} if call.results and call.results[0].document is not None else None
    document = {"type": "document", "source": source, "title": title or None, "citations": citations}
    return {"type": "web_fetch_result", "url": url, "retrieved_at": None, "content": document}
