"""What OpenAI would refuse of a request to the Responses API: the strict end of the wire, for tests.

Written from the SDK's types and from messages in issue trackers (field-notes 3.2), apart from the code that writes requests,
so that the two do not share a mistake. It was told to keep nothing (`store: false`), so it knows no id of any item.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from tests.conformance.recordings import Json

_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_TOP = {
    "background", "context_management", "conversation", "image", "include", "input", "instructions", "max_output_tokens",
    "max_tool_calls", "metadata", "model", "moderation", "parallel_tool_calls", "previous_response_id", "prompt",
    "prompt_cache_key", "prompt_cache_options", "prompt_cache_retention", "reasoning", "safety_identifier", "service_tier",
    "store", "stream", "stream_options", "temperature", "text", "tool_choice", "tools", "top_logprobs", "top_p",
    "truncation", "user",
}  # fmt: skip
_THINKS_NOT = re.compile(r"gpt-(3|4)")
_IMAGE = re.compile(r"https?://.+|data:image/(png|jpe?g|gif|webp);base64,.+", re.DOTALL)
_OUTPUTS = {"function_call": "function_call_output", "custom_tool_call": "custom_tool_call_output"}


def refusals(request: Json) -> list[str]:
    """All that is wrong."""
    return [*_top(request), *_items(request.get("input"), not _THINKS_NOT.match(request.get("model") or ""))]


def _top(request: Json) -> Iterator[str]:
    yield from [f"Unknown parameter: '{name}'" for name in sorted(request.keys() - _TOP)]
    if request.get("store") is not False:
        yield "this stand-in keeps nothing"
    if "reasoning.encrypted_content" in request.get("include", []) and _THINKS_NOT.match(request["model"]):
        yield "Encrypted content is not supported with this model."
    names = []
    for tool in request.get("tools") or []:
        if tool["type"] != "function":
            continue
        names.append(tool["name"])
        if not _NAME.fullmatch(tool["name"]):
            yield f"Invalid 'tools[].name': string does not match pattern: {tool['name']!r}"
        if not isinstance(tool.get("parameters"), dict) or "strict" not in tool:
            yield "Missing required parameter of a tool"
    if len(set(names)) < len(names):
        yield "Tool names must be unique"
    choice = request.get("tool_choice", "auto")
    if isinstance(choice, dict):
        chosen = [choice] if choice["type"] == "function" else choice["tools"]
        yield from [f"Tool choice '{one['name']}' not found in 'tools'." for one in chosen if one["name"] not in names]
    elif choice not in ("auto", "none", "required"):
        yield f"Invalid value: {choice!r}"


def _items(items: Json, thinks: bool) -> Iterator[str]:
    if not items:
        yield "Missing required parameter: 'input'."
    if isinstance(items, str):
        return
    asked: dict[str, str] = {}  # a call's id → in what it is answered
    seen: set[str] = set()
    for at, item in enumerate(items or []):
        where = f"input[{at}]"
        kind = item.get("type", "message")
        if kind == "message":
            yield from _message(where, item)
        elif kind in _OUTPUTS:
            if not 0 < len(item["call_id"]) <= 64 or item["call_id"] in seen:
                yield f"Invalid '{where}.call_id': {item['call_id']!r}"
            if not _NAME.fullmatch(item["name"]):
                yield f"Invalid '{where}.name': {item['name']!r}"
            seen.add(item["call_id"])
            asked[item["call_id"]] = _OUTPUTS[kind]
        elif kind in _OUTPUTS.values():
            if asked.pop(item["call_id"], None) != kind:
                yield f"No tool call found for function call output with call_id {item['call_id']}."
            yield from _output(where, item["output"])
        elif kind == "reasoning":
            if not thinks:
                yield "Reasoning input items can only be provided to a reasoning or computer use model."
            if not item.get("encrypted_content"):
                yield f"Item with id '{item.get('id')}' not found. Items are not persisted when `store` is set to false."
            if at + 1 == len(items) or items[at + 1].get("role") in ("user", "system", "developer"):
                yield f"Item '{item.get('id')}' of type 'reasoning' was provided without its required following item."
        if kind in ("message", *_OUTPUTS) and _was_thought_of(item) and not _has_thought(items, at):
            yield f"Item '{item['id']}' of type '{kind}' was provided without its required 'reasoning' item."
    yield from [f"No tool output found for function call {call_id}." for call_id in asked]


def _was_thought_of(item: Json) -> bool:
    """Ids in these tests say it: an item that came behind a reasoning item bears that item's number."""
    return "_of_rs" in (item.get("id") or "")


def _has_thought(items: list[Json], at: int) -> bool:
    number = items[at]["id"].rpartition("_of_")[2]
    return any(one.get("type") == "reasoning" and one.get("id") == number for one in items[:at])


def _message(where: str, item: Json) -> Iterator[str]:
    role, content = item["role"], item["content"]
    if role not in ("user", "assistant", "system", "developer"):
        yield f"Invalid value: '{where}.role'"
    if content is None:
        yield f"Missing required parameter: '{where}.content'"
    allowed = ("output_text", "refusal") if role == "assistant" else ("input_text", "input_image", "input_file")
    for part in content if isinstance(content, list) else []:
        if part["type"] not in allowed:
            yield f"Invalid value: '{part['type']}' in {where}, which is the {role}'s"
        else:
            yield from _part(where, part)


def _output(where: str, output: Json) -> Iterator[str]:
    if not isinstance(output, (str, list)):
        yield f"Invalid type for '{where}.output'"
    for part in output if isinstance(output, list) else []:
        yield from _part(where, part)


def _part(where: str, part: Json) -> Iterator[str]:
    match part["type"]:
        case "input_image":
            if not _IMAGE.fullmatch(part.get("image_url") or ""):
                yield f"{where}: Invalid 'image_url': {part.get('image_url')!r:.60}"
            if part.get("detail", "auto") not in ("auto", "low", "high", "original"):
                yield f"{where}: Invalid value for detail"
        case "input_file":
            if "file_data" in part and "filename" not in part:
                yield f"{where}: Missing required parameter: 'filename'."
            if not part.keys() & {"file_data", "file_id", "file_url"}:
                yield f"{where}: one of file_id, file_url or file_data is needed"
        case "input_text" | "output_text" | "refusal":
            pass
        case kind:
            yield f"{where}: Invalid value: {kind!r}"
