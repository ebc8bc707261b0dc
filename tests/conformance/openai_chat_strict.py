"""What OpenAI would refuse of a Chat Completions request, by its error messages: the strict end of the wire, for tests.

Written from the SDK's types and from messages in issue trackers (field-notes 3.1), apart from the code that writes requests,
so that the two do not share a mistake.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from tests.conformance.recordings import Json

_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_SPOKEN_NAME = re.compile(r"[^\s<|\\/>]{1,64}")
_TOP = {
    "messages", "model", "audio", "frequency_penalty", "function_call", "functions", "logit_bias", "logprobs",
    "max_completion_tokens", "max_tokens", "metadata", "modalities", "moderation", "n", "parallel_tool_calls",
    "prediction", "presence_penalty", "prompt_cache_key", "prompt_cache_options", "prompt_cache_retention",
    "reasoning_effort", "response_format", "safety_identifier", "seed", "service_tier", "stop", "store", "stream",
    "stream_options", "temperature", "tool_choice", "tools", "top_logprobs", "top_p", "user", "verbosity",
    "web_search_options",
}  # fmt: skip
_MEMBERS = {
    "system": {"role", "content", "name"},
    "developer": {"role", "content", "name"},
    "user": {"role", "content", "name"},
    "assistant": {"role", "content", "name", "refusal", "tool_calls", "audio", "function_call", "annotations"},
    "tool": {"role", "content", "tool_call_id"},
}
_IMAGE = re.compile(r"https?://.+|data:image/(png|jpe?g|gif|webp);base64,.+", re.DOTALL)


def refusals(request: Json) -> list[str]:
    """All that is wrong."""
    return [*_top(request), *_tools(request), *_messages(request.get("messages") or [])]


def _top(request: Json) -> Iterator[str]:
    yield from [f"Unrecognized request argument supplied: {name}" for name in sorted(request.keys() - _TOP)]
    if not request.get("model"):
        yield "you must provide a model parameter"
    if "stream_options" in request and not request.get("stream"):
        yield "The 'stream_options' parameter is only allowed when 'stream' is enabled."
    answer_format = request.get("response_format") or {}
    if answer_format.get("type") == "json_schema" and not _NAME.fullmatch(
        answer_format["json_schema"].get("name") or ""
    ):
        yield "Invalid 'response_format.json_schema.name'"


def _tools(request: Json) -> Iterator[str]:
    tools = request.get("tools")
    if tools is None:
        for name in request.keys() & {"tool_choice", "parallel_tool_calls"}:
            yield f"'{name}' is only allowed when 'tools' are specified."
        return
    if not 0 < len(tools) <= 128:
        yield "Invalid 'tools': array too short or too long"
    names = [tool["function"]["name"] for tool in tools]
    if len(set(names)) < len(names):
        yield "Function names must be unique"
    for tool in tools:
        function = tool["function"]
        if not _NAME.fullmatch(function["name"]):
            yield f"Invalid 'tools[0].function.name': string does not match pattern: {function['name']!r}"
        if function.get("strict"):
            yield from _strict(function["parameters"], function["name"])
        if function.get("parameters", {}).get("type", "object") != "object":
            yield "schema must be a JSON Schema of 'type: \"object\"'"
    choice = request.get("tool_choice", "auto")
    if isinstance(choice, dict):
        chosen = [choice] if choice["type"] == "function" else choice["allowed_tools"]["tools"]
        yield from [f"tool_choice names no tool: {one}" for one in chosen if one["function"]["name"] not in names]
    elif choice not in ("auto", "none", "required"):
        yield f"Invalid value: {choice!r}"


def _strict(schema: Json, where: str) -> Iterator[str]:
    """`additionalProperties: false` and every property required, all the way down."""
    if not isinstance(schema, dict):
        return
    if "properties" in schema or schema.get("type") == "object":
        if schema.get("additionalProperties") is not False:
            yield f"{where}: 'additionalProperties' is required to be supplied and to be false."
        if set(schema.get("required") or ()) != set(schema.get("properties") or ()):
            yield f"{where}: 'required' is required to be supplied and to be an array including every key in properties."
    inner = [*(schema.get("properties") or {}).values(), *(schema.get("$defs") or {}).values()]
    for one in [*inner, *(schema.get("anyOf") or []), schema.get("items")]:
        yield from _strict(one, where)


def _messages(messages: list[Json]) -> Iterator[str]:
    if not messages:
        yield "[] is too short - 'messages'"
    asked: list[str] = []
    for at, message in enumerate(messages):
        where, role = f"messages[{at}]", message["role"]
        if role not in _MEMBERS:
            yield f"{where}: Invalid value: {role!r}"
            continue
        unknown = {name for name in message.keys() - _MEMBERS[role] if message[name] is not None}
        yield from [f"Unknown parameter: '{where}.{name}'" for name in sorted(unknown)]
        if role == "tool":
            if message["tool_call_id"] not in asked:
                yield f"{where}: messages with role 'tool' must be a response to a preceding message with 'tool_calls'"
            else:
                asked.remove(message["tool_call_id"])
        elif asked:
            yield f"{where}: An assistant message with 'tool_calls' must be followed by tool messages: {asked}"
            asked = []
        if role == "assistant":
            asked = [call["id"] for call in message.get("tool_calls") or []]
            yield from _assistant(where, message)
        else:
            yield from _content(where, role, message.get("content"))
        if message.get("name") is not None and not _SPOKEN_NAME.fullmatch(message["name"]):
            yield f"Invalid '{where}.name': string does not match pattern"
    if asked:
        yield f"An assistant message with 'tool_calls' must be followed by tool messages responding to: {asked}"


def _assistant(where: str, message: Json) -> Iterator[str]:
    calls = message.get("tool_calls")
    if calls == []:
        yield f"Invalid '{where}.tool_calls': empty array"
    if message.get("content") is None and not calls and not message.get("refusal"):
        yield f"Invalid value for '{where}.content': expected a string, got null."
    ids = [call["id"] for call in calls or []]
    if len(set(ids)) < len(ids):
        yield f"Duplicate value for 'tool_call_id' in {where}"
    for call in calls or []:
        yield from [
            f"Unknown parameter: '{where}.tool_calls.{name}'" for name in call.keys() - {"id", "type", "function"}
        ]
        if not 0 < len(call["id"]) <= 40:
            yield f"Invalid '{where}.tool_calls[].id': string too long. Expected maximum length 40: {call['id']!r}"
        if call.get("type") != "function" or call["function"].keys() != {"name", "arguments"}:
            yield f"Invalid '{where}.tool_calls[]'"
        if not _NAME.fullmatch(call["function"]["name"]):
            yield f"Invalid '{where}.tool_calls[].function.name': string does not match pattern"
        if not isinstance(call["function"]["arguments"], str):
            yield f"Invalid type for '{where}.tool_calls[].function.arguments': expected a string"
    content = message.get("content")
    for part in content if isinstance(content, list) else []:
        if part["type"] not in ("text", "refusal"):
            yield f"{where}: Invalid content type for an assistant: {part['type']}"


def _content(where: str, role: str, content: Json) -> Iterator[str]:
    if content is None or content == []:
        yield f"Invalid value for '{where}.content': expected a string or an array that is not empty"
    for part in content if isinstance(content, list) else []:
        kind = part["type"]
        if role != "user" and kind != "text":
            yield f"{where}: Invalid content type. image_url is only supported by certain roles: {role}, {kind}"
        match kind:
            case "text":
                if not isinstance(part["text"], str):
                    yield f"{where}: text"
            case "image_url":
                if not _IMAGE.fullmatch(part["image_url"]["url"]):
                    yield f"{where}: You uploaded an unsupported image: {part['image_url']['url'][:40]}"
                if part["image_url"].get("detail", "auto") not in ("auto", "low", "high"):
                    yield f"{where}: Invalid value for detail"
            case "input_audio":
                if part["input_audio"]["format"] not in ("wav", "mp3"):
                    yield f"{where}: Supported values are: 'wav' and 'mp3'."
            case "file":
                file = part["file"]
                if "file_id" not in file and not ("filename" in file and file.get("file_data", "").startswith("data:")):
                    yield f"{where}: Missing required parameter of a file: {file.keys()}"
            case _:
                yield f"{where}: Invalid value: {kind!r}"
