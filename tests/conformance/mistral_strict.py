"""What Mistral would refuse of a request: the strict end of the wire, for tests.

Written from the SDK's types, from mistral-common's validator and from messages in issue trackers (field-notes 3.5), apart
from the code that writes requests, so that the two do not share a mistake.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from tests.conformance.recordings import Json

_ID = re.compile(r"[a-zA-Z0-9]{9}")
_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_BOTH = {
    "messages",
    "stream",
    "max_tokens",
    "stop",
    "random_seed",
    "metadata",
    "response_format",
    "tools",
    "tool_choice",
}
_BOTH |= {"presence_penalty", "frequency_penalty", "n", "prediction", "parallel_tool_calls", "prompt_mode"}
_BOTH |= {"reasoning_effort", "guardrails", "prompt_cache_key"}
_CHAT = _BOTH | {"model", "temperature", "top_p", "safe_prompt"}
_AGENT = _BOTH | {"agent_id"}
_MEMBERS = {
    "system": {"role", "content"},
    "user": {"role", "content"},
    "assistant": {"role", "content", "tool_calls", "prefix"},
    "tool": {"role", "content", "tool_call_id", "name"},
}
_CHUNKS = {
    "text": {"text"},
    "image_url": {"image_url"},
    "document_url": {"document_url", "document_name"},
    "file": {"file_id"},
    "input_audio": {"input_audio"},
    "thinking": {"thinking", "closed", "signature"},
    "reference": {"reference_ids"},
}
_AFTER = {
    "": {"system", "user"},
    "system": {"system", "user", "assistant"},
    "user": {"user", "assistant"},
    "assistant": {"user", "assistant", "tool"},
    "tool": {"user", "assistant", "tool"},
}


def refusals(request: Json, *, agent: bool = False, reasons: bool = True) -> list[str]:
    """All that is wrong; `reasons` is whether the model takes thoughts in its history."""
    return [*_fields(request, _AGENT if agent else _CHAT, agent), *_messages(request.get("messages") or [], reasons)]


def _fields(request: Json, known: set[str], agent: bool) -> Iterator[str]:
    yield from [f"422 {name}: Extra inputs are not permitted" for name in request.keys() - known]
    if not request.get("agent_id" if agent else "model"):
        yield "422 Field required"
    names = []
    for tool in request.get("tools") or []:
        function = tool["function"]
        names.append(function["name"])
        if tool.keys() != {"type", "function"} or function.keys() - {"name", "description", "parameters", "strict"}:
            yield "422 tools: Extra inputs are not permitted"
        if not _NAME.fullmatch(function["name"]) or not isinstance(function.get("parameters"), dict):
            yield f"Function name was {function['name']}, or its parameters are no schema"
    if len(set(names)) < len(names):
        yield "Duplicate tools"
    choice = request.get("tool_choice", "auto")
    if isinstance(choice, dict):
        if choice["function"]["name"] not in names:
            yield "tool_choice names no tool"
    elif choice not in ("auto", "none", "any", "required"):
        yield "422 tool_choice"


def _messages(messages: list[Json], reasons: bool) -> Iterator[str]:
    if not messages:
        yield "Conversation must have at least one message"
        return
    role, asked = "", list[str]()
    for at, message in enumerate(messages):
        where, last = f"messages[{at}]", role
        role = message["role"]
        if role not in _AFTER[last]:
            yield f"3230 {where}: Unexpected role '{role}' after role '{last}'"
        if message.keys() - _MEMBERS.get(role, set()):
            yield f"422 {where}: Extra inputs are not permitted: {message.keys()}"
        if role == "tool":
            yield from _result(where, message, asked)
        elif asked:
            yield f"{where}: Not the same number of function calls and responses"
            asked = []
        if role == "assistant":
            asked = [call["id"] for call in message.get("tool_calls") or []]
            yield from _assistant(where, message, at == len(messages) - 1)
        yield from _content(where, role, message.get("content"), reasons)
    if asked:
        yield "Not the same number of function calls and responses"
    if role not in ("user", "tool") and not messages[-1].get("prefix"):
        yield f"Expected last role User or Tool (or Assistant with prefix True) for serving but got {role}"


def _result(where: str, message: Json, asked: list[str]) -> Iterator[str]:
    if message["tool_call_id"] in asked:
        asked.remove(message["tool_call_id"])
    else:
        yield f"{where}: Unexpected tool call id {message['tool_call_id']}"
    if "name" in message and not _NAME.fullmatch(message["name"]):
        yield f"{where}: Function name was {message['name']}"


def _assistant(where: str, message: Json, is_last: bool) -> Iterator[str]:
    calls = message.get("tool_calls") or []
    if not message.get("content") and not calls:
        yield f"{where}: Assistant message must have either content or tool_calls"
    if message.get("prefix") and not is_last:
        yield f"{where}: Assistant message with prefix True must be last message"
    ids = [call["id"] for call in calls]
    if len(set(ids)) < len(ids):
        yield f"{where}: Duplicate tool call id in assistant message"
    for call in calls:
        if not _ID.fullmatch(call["id"]):
            yield f"3280 {where}: Tool call id was {call['id']} but must be a-z, A-Z, 0-9, with a length of 9."
        if call.keys() - {"id", "type", "function", "index"} or call["function"].keys() != {"name", "arguments"}:
            yield f"422 {where}.tool_calls: Extra inputs are not permitted"
        if not _NAME.fullmatch(call["function"]["name"]) or not isinstance(call["function"]["arguments"], str):
            yield f"{where}: Function name was {call['function']['name']}"


def _content(where: str, role: str, content: Json, reasons: bool) -> Iterator[str]:
    if role != "assistant" and content is None:
        yield f"422 {where}.content: Field required"
    for chunk in content if isinstance(content, list) else ():
        members = _CHUNKS.get(chunk.get("type"))
        if members is None or chunk.keys() - members - {"type"}:
            yield f"422 {where}.content: {chunk.get('type')}: {chunk.keys()}"
        if chunk.get("type") == "thinking" and (role != "assistant" or not reasons):
            yield f"{where}: Reasoning input is not enabled for this model"


# ---- Mistral's own validator -------------------------------------------------------------------------------------------

_COMMON = {"model", "messages", "tools", "tool_choice", "temperature", "top_p", "max_tokens", "random_seed"}


def common_refusals(request: Json) -> list[str]:
    """What `mistral-common` refuses, for each of its tokenizers that takes words and calls in one message."""
    from mistral_common.exceptions import MistralCommonException
    from mistral_common.protocol.instruct.request import ChatCompletionRequest
    from mistral_common.protocol.instruct.validator import ValidationMode, get_validator
    from mistral_common.tokens.tokenizers.base import TokenizerVersion
    from pydantic import ValidationError

    known = {name: value for name, value in request.items() if name in _COMMON}
    known["messages"] = [_common_message(message) for message in request["messages"]]
    known.setdefault("model", "agent")
    if isinstance(known.get("tool_choice"), dict):
        known["tool_choice"] = "any"
    try:
        read: ChatCompletionRequest[Any] = ChatCompletionRequest.model_validate(known)
    except ValidationError as error:
        return [f"422 {error}"]
    found = []
    thought = any(chunk["type"] == "thinking" for message in known["messages"] for chunk in _chunks(message))
    versions = [TokenizerVersion.v11, TokenizerVersion.v13, TokenizerVersion.v15]
    for version in versions if thought else [TokenizerVersion.v7, *versions]:
        try:
            get_validator(version, ValidationMode.serving).validate_request(read)
        except MistralCommonException as error:
            found.append(f"{version.value}: {error}")
    return found


def _chunks(message: Json) -> list[Json]:
    content = message.get("content")
    return content if isinstance(content, list) else []


def _common_message(message: Json) -> Json:
    """Documents and sounds are taken by the API before the tokenizer sees anything: here they are words."""
    content = message.get("content")
    return {**message, "content": [_common_chunk(chunk) for chunk in content]} if isinstance(content, list) else message


def _common_chunk(chunk: Json) -> Json:
    if chunk["type"] == "thinking":
        said = chunk["thinking"]
        inner = said if isinstance(said, str) else "".join(one.get("text", "") for one in said)
        return {"type": "thinking", "thinking": inner, "closed": chunk.get("closed", True)}
    return chunk if chunk["type"] in ("text", "image_url") else {"type": "text", "text": "…"}
