"""Every recorded Messages request, made of turns and written by our client's writer: the same request in meaning.

Ronda reads no such requests yet, so the turns are made here: of parts where a block says nothing that a part cannot hold, of
the recorded content itself where it does. They are written for the version of the API they were recorded with.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from msgspec import Raw
from tests.conformance import anthropic_meaning as meaning
from tests.conformance import anthropic_naive as naive
from tests.conformance.recordings import Exchange, Json
from tests.conformance.report import PartResult, Tally, absent, same

from ronda.core.parts import (
    AssistantPart,
    AssistantTurn,
    File,
    Image,
    Native,
    SystemTurn,
    Text,
    ToolCall,
    ToolResult,
    ToolTurn,
    Turn,
    UserPart,
    UserTurn,
)
from ronda.core.plan import AUTO, NONE, Options, ResponseFormat, ToolChoice, ToolSpec
from ronda.core.request import ModelRequest
from ronda.wire.anthropic import API, OLD_VERSION
from ronda.wire.anthropic.client_request import write_request
from ronda.wire.upstream.native import callers

OPTIONS = {
    "model",
    "messages",
    "system",
    "tools",
    "tool_choice",
    "stream",
    "max_tokens",
    "temperature",
    "top_p",
    "stop_sequences",
}


def run(data: Path) -> PartResult:
    exchanges = naive.exchanges(data)
    if not exchanges:
        return absent("a recorded request for a message")
    tally = Tally()
    for exchange in exchanges:

        def survives(exchange: Exchange = exchange) -> None:
            recorded = exchange.request
            written = json.loads(write_request(recorded["model"], read(recorded), OLD_VERSION))
            same(meaning.messages(written["messages"]), meaning.messages(recorded["messages"]), "messages")
            ours, theirs = meaning.request(written), meaning.request(recorded)
            for name in sorted(ours.keys() | theirs.keys()):
                same(ours.get(name), theirs.get(name), name)

        tally.check("made of turns and written", exchange.id, survives)
    return tally.result()


# ---- requests → turns -------------------------------------------------------------------------------------------------


def read(said: Json) -> ModelRequest:
    tools = tuple(_tool(one) for one in said.get("tools") or [])
    options = Options(
        max_tokens=said.get("max_tokens"),
        temperature=said.get("temperature"),
        top_p=said.get("top_p"),
        stop=tuple(said.get("stop_sequences") or ()),
        parallel_tool_calls=False if (said.get("tool_choice") or {}).get("disable_parallel_tool_use") else None,
        response_format=_format(said),
        extra={
            name: _raw(value) for name, value in said.items() if name not in OPTIONS and not _is_format(name, value)
        },
    )
    turns = [*_system(said.get("system")), *read_messages(said["messages"])]
    return ModelRequest(turns, tools, _choice(said), options, bool(said.get("stream")), "run", 0, 1, scratch={})


def read_messages(messages: list[Json]) -> list[Turn]:
    turns: list[Turn] = []
    for message in _joined(messages):
        content = message["content"]
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        match message["role"]:
            case "system":
                turns += _system(content)
            case "assistant":
                turns.append(_assistant(blocks, content))
            case _:
                results = [block for block in blocks if block["type"] == "tool_result"]
                others = [block for block in blocks if block["type"] != "tool_result"]
                assert blocks == results + others, "a recorded result behind other content"
                if results:
                    turns.append(ToolTurn(tuple(_result(block) for block in results)))
                if others:
                    turns.append(_user(others))
    return turns


def _joined(messages: list[Json]) -> list[Json]:
    """Two messages of the assistant's in a row that make calls are one turn to the API, answered as one."""
    found: list[Json] = []
    for message in messages:
        before = found[-1] if found else {"role": ""}
        if message["role"] == before["role"] == "assistant" and _has_calls(before) and _has_calls(message):
            found[-1] = {**before, "content": before["content"] + message["content"]}
        else:
            found.append(message)
    return found


def _has_calls(message: Json) -> bool:
    content = message["content"]
    return isinstance(content, list) and any(block["type"] == "tool_use" for block in content)


def _raw(value: Any) -> Raw:
    return Raw(json.dumps(value, ensure_ascii=False).encode())


def _native(value: Any) -> Native:
    return Native(callers(API), _raw(value))


def _system(said: Json) -> list[Turn]:
    if not said:
        return []
    blocks = [{"type": "text", "text": said}] if isinstance(said, str) else said
    if all(block.keys() == {"type", "text"} for block in blocks):
        return [SystemTurn(block["text"]) for block in blocks]
    return [SystemTurn("".join(block.get("text", "") for block in blocks), native=_native(said))]


def _user(blocks: list[Json]) -> Turn:
    parts = [_part(block) for block in blocks]
    if None in parts:
        return UserTurn(
            tuple(Text(block["text"]) for block in blocks if block["type"] == "text"), native=_native(blocks)
        )
    return UserTurn(tuple(part for part in parts if part is not None))


def _part(block: Json) -> UserPart | None:
    kind, members = block["type"], block.keys() - {"type"}
    if kind == "text" and members == {"text"}:
        return Text(block["text"])
    source = block.get("source") or {}
    if kind == "image" and members == {"source"}:
        if source["type"] == "base64":
            return Image(f"data:{source['media_type']};base64,{source['data']}")
        if source["type"] == "url":
            return Image(source["url"])
    if kind == "document" and members == {"source"} and source["type"] == "base64":
        return File(f"data:{source['media_type']};base64,{source['data']}")
    return None


def _assistant(blocks: list[Json], content: Json) -> AssistantTurn:
    parts: list[AssistantPart] = []
    plain = True
    for block in blocks:
        if block["type"] == "text":
            plain = plain and block.keys() == {"type", "text"} and bool(block["text"].strip())
            parts.append(Text(block["text"]))
        elif block["type"] == "tool_use":
            plain = plain and block.keys() == {"type", "id", "name", "input"}
            parts.append(ToolCall(block["id"], block["name"], json.dumps(block["input"])))
        else:
            plain = False
    stop = "tool_calls" if any(type(part) is ToolCall for part in parts) else "stop"
    return AssistantTurn(tuple(parts), stop, None if plain else _native(content))  # type: ignore[arg-type]  # one of two


def _result(block: Json) -> ToolResult:
    call_id, failed, content = block["tool_use_id"], bool(block.get("is_error")), block.get("content", "")
    known = block.keys() <= {"type", "tool_use_id", "is_error", "content"}
    if known and isinstance(content, str):
        return ToolResult(call_id, content, failed)
    parts = [Text(content)] if isinstance(content, str) else [_part(one) for one in content]
    texts = [part.text for part in parts if isinstance(part, Text)]
    attachments = tuple(part for part in parts if isinstance(part, (Image, File)))
    words_first = [type(part) for part in parts[: len(texts)]] == [Text] * len(texts)
    if known and words_first and len(texts) < 2 and len(texts) + len(attachments) == len(parts):
        return ToolResult(call_id, "".join(texts), failed, attachments)
    return ToolResult(call_id, "".join(texts), failed, attachments, native=_native(block))


def _tool(said: Json) -> ToolSpec:
    known = said.keys() <= {"type", "name", "description", "input_schema", "strict"}
    if known and "input_schema" in said:
        schema = _raw(said["input_schema"])
        return ToolSpec(said["name"], said.get("description") or "", schema, said.get("strict"))
    return ToolSpec(said["name"], kind="caller", native=_raw(said))


def _choice(said: Json) -> ToolChoice:
    choice = said.get("tool_choice") or {"type": "auto"}
    match choice["type"]:
        case "any":
            return ToolChoice("required")
        case "tool":
            return ToolChoice("required", (choice["name"],), named=True)
        case "none":
            return NONE
    return AUTO


def _is_format(name: str, value: Json) -> bool:
    return name == "output_config" and value.keys() == {"format"}


def _format(said: Json) -> ResponseFormat | None:
    config = said.get("output_config") or {}
    if not _is_format("output_config", config):
        return None
    return ResponseFormat("json_schema", schema=_raw(config["format"]["schema"]))
