"""A stand-in for the Messages API that refuses what the real one refuses: a body → the reasons, none if it is accepted.

The rules are those of `field-notes.md` §3.3 and §3.6 and of the API's own error messages. Where documentation and recordings
part (a conversation that begins with the assistant, one id in two messages), recordings are right. No code of Ronda is used.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

from tests.conformance.recordings import Json

ID = re.compile(r"[a-zA-Z0-9_-]+")
NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
IMAGES = ("image/jpeg", "image/png", "image/gif", "image/webp")
SPOKEN = {"text", "tool_use", "thinking", "redacted_thinking", "server_tool_use", "web_search_tool_result"}
HEARD = {"text", "image", "document", "tool_result"}

NEW = "2026-10-21"
BUDGET_ONLY = ("claude-3", "claude-sonnet-4-5", "claude-haiku-4-5")  # of the models the tests name
SYSTEM_ANYWHERE = ("claude-opus-4-8", "claude-opus-5-5", "claude-fable-5")
PREFILL = BUDGET_ONLY


def refusals(body: bytes, version: str = NEW) -> list[str]:
    try:
        said = json.loads(body)
    except ValueError as error:
        return [f"not JSON: {error}"]
    return [*_top(said, version), *_messages(said, version), *_order(said), *_thinking(said)]


def _top(said: Json, version: str) -> Iterator[str]:
    if not isinstance(said.get("max_tokens"), int):
        yield "max_tokens: Field required"
    for name in ("temperature", "top_p", "top_k"):
        if version == NEW and name in said:
            yield f"{name}: Extra inputs are not permitted"
    for name in ("seed", "betas", "user", "metadata.x", "max_completion_tokens", "response_format"):
        if name in said:
            yield f"{name}: Extra inputs are not permitted"
    system = said.get("system", "x")
    for block in system if isinstance(system, list) else [{"type": "text", "text": system}]:
        if not block["text"].strip():
            yield "system: text content blocks must contain non-whitespace text"
    names = [tool["name"] for tool in said.get("tools", [])]
    if len(set(names)) < len(names):
        yield "tools: Tool names must be unique"
    for tool in said.get("tools", []):
        if not NAME.fullmatch(tool["name"]):
            yield f"tools.name: String should match pattern: {tool['name']!r}"
        if tool["input_schema"].get("type") != "object" or tool["input_schema"].keys() & {"oneOf", "allOf", "anyOf"}:
            yield "tools.input_schema: does not support oneOf, allOf, or anyOf at the top level"
    choice = said.get("tool_choice")
    if choice is not None:
        if not names:
            yield "tool_choice may only be specified while providing tools"
        if choice["type"] == "tool" and choice["name"] not in names:
            yield f"Tool {choice['name']!r} not found in provided tools"


def _messages(said: Json, version: str) -> Iterator[str]:
    if not said["messages"]:
        yield "messages: at least one message is required"
    for at, message in enumerate(said["messages"]):
        where = f"messages.{at}"
        content = message["content"]
        if not content:
            yield f"{where}: all messages must have non-empty content"
        for block in content:
            if message["role"] == "system":
                if block["type"] != "text" or not block["text"].strip():
                    yield f"{where}: a system message holds text"
            elif block["type"] not in (SPOKEN if message["role"] == "assistant" else HEARD):
                yield f"{where}: {block['type']} cannot stand in a message of the {message['role']}"
            else:
                yield from _block(block, f"{where} ({message['role']})", version)


def _block(block: Json, where: str, version: str) -> Iterator[str]:
    match block["type"]:
        case "text":
            if not block["text"] or ("user" in where and not block["text"].strip()):
                yield f"{where}: text content blocks must be non-empty"
            if version == NEW and "user" in where and block.get("citations"):
                yield f"{where}: citations"
        case "image" | "document":
            source = block["source"]
            if source["type"] == "base64" and source["media_type"] not in (*IMAGES, "application/pdf"):
                yield f"{where}: media_type {source['media_type']}"
            if source["type"] == "url" and not source["url"].startswith(("http://", "https://")):
                yield f"{where}: Only HTTP and HTTPS URLs are supported"
        case "thinking":
            if not block.get("signature"):
                yield f"{where}: thinking.signature: Field required"
        case "tool_use":
            if not ID.fullmatch(block["id"]):
                yield f"{where}: tool_use.id: String should match pattern '^[a-zA-Z0-9_-]+$': {block['id']!r}"
            if not NAME.fullmatch(block["name"]):
                yield f"{where}: tool_use.name: String should match pattern: {block['name']!r}"
            if not isinstance(block["input"], dict):
                yield f"{where}: tool_use.input: Input should be a valid dictionary"
        case "tool_result":
            content = block.get("content", "")
            if content == []:
                yield f"{where}: tool_result: content cannot be an empty list"
            if block.get("is_error") and not content:
                yield f"{where}: tool_result: content cannot be empty if `is_error` is true"
            if isinstance(content, list):
                if block.get("is_error") and any(one["type"] != "text" for one in content):
                    yield f"{where}: tool_result: all content must be type `text` if `is_error` is true"
                for one in content:
                    yield from _block(one, f"{where}.tool_result (user)", version)


def _order(said: Json) -> Iterator[str]:
    messages, waiting = said["messages"], list[str]()
    before = ""
    for at, message in enumerate(messages):
        role, content = message["role"], message["content"]
        if role == before:
            yield f"messages.{at}: roles must alternate"
        if role == "system" and (before != "user" or not said["model"].startswith(SYSTEM_ANYWHERE)):
            yield f"messages.{at}: role 'system' is not supported here"
        if role == "user" and before == "system":
            yield f"messages.{at}: a system message must be last, or followed by an assistant message"
        results = [block["tool_use_id"] for block in content if block["type"] == "tool_result"]
        first = [block["tool_use_id"] for block in content[: len(waiting)] if block["type"] == "tool_result"]
        if role != "system":
            if sorted(first) != sorted(waiting) or len(results) != len(first):
                yield f"messages.{at}: Did not find {len(waiting)} `tool_result` block(s) at the beginning of this message"
            waiting = [block["id"] for block in content if block["type"] == "tool_use"]
            if len(set(waiting)) < len(waiting):
                yield f"messages.{at}: `tool_use` ids must be unique"
            if waiting and content[-1]["type"] != "tool_use":
                yield f"messages.{at}: content after the last tool_use"
        before = role
    if waiting:
        yield "`tool_use` ids were found without `tool_result` blocks"
    uses = any(block["type"] in ("tool_use", "tool_result") for message in messages for block in message["content"])
    if uses and not said.get("tools"):
        yield "Requests which include `tool_use` or `tool_result` blocks must define tools"
    if before == "assistant":
        if not said["model"].startswith(PREFILL):
            yield "This model does not support assistant message prefill"
        last = messages[-1]["content"][-1]
        if last["type"] == "text" and last["text"] != last["text"].rstrip():
            yield "final assistant content cannot end with trailing whitespace"


def _thinking(said: Json) -> Iterator[str]:
    thinking = said.get("thinking") or {"type": "disabled"}
    is_budget = said["model"].startswith(BUDGET_ONLY)
    if thinking["type"] == "adaptive" and is_budget:
        yield "adaptive thinking is not supported on this model"
    if thinking["type"] != "enabled":
        return
    if not is_budget:
        yield '"thinking.type.enabled" is not supported for this model'
    if not 1024 <= thinking["budget_tokens"] < said["max_tokens"]:
        yield "thinking.budget_tokens: at least 1024, and less than max_tokens"
    if (said.get("tool_choice") or {}).get("type") in ("any", "tool"):
        yield "Thinking may not be enabled when tool_choice forces tool use."
    messages = said["messages"]
    if messages[-1]["role"] == "assistant":
        yield "prefill and thinking"
        return
    at = len(messages) - 1
    while at > 0 and messages[at]["content"][0]["type"] == "tool_result":
        at -= 2  # back to the first call of this loop
    first = messages[at + 1 : at + 2]
    if first and first[0]["content"][0]["type"] not in ("thinking", "redacted_thinking"):
        yield "Expected `thinking` or `redacted_thinking` at the start of the tool loop"
