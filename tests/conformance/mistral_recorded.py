"""Recorded traffic of Mistral's: where it is, what messages mean, and a recorded request as our turns, tools and options.

Meaning leaves out how a client spells things: a text as a list of one chunk, `prefix: false`, `index`, empty lists.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

from msgspec import Raw
from tests.conformance.recordings import Exchange, Json, read_files

from ronda.core.parts import (
    AssistantPart,
    AssistantTurn,
    File,
    Image,
    Native,
    Reasoning,
    SystemTurn,
    Text,
    ToolCall,
    ToolResult,
    ToolTurn,
    Turn,
    UserPart,
    UserTurn,
)
from ronda.core.plan import AUTO, Options, ResponseFormat, ToolChoice, ToolSpec
from ronda.core.request import ModelRequest
from ronda.wire.mistral import native_api

_KNOWN = {
    "messages",
    "model",
    "agent_id",
    "stream",
    "tools",
    "tool_choice",
    "temperature",
    "top_p",
    "max_tokens",
    "stop",
}
_KNOWN |= {"random_seed", "reasoning_effort", "parallel_tool_calls", "n", "response_format"}


@cache
def exchanges(data: Path) -> list[Exchange]:
    return [one for one in read_files(data / "traffic", ("mistral.jsonl",)) if "/completions" in one.url]


def messages(said: Json) -> list[Json]:
    return [message(one) for one in said]


def message(said: Json) -> Json:
    found = {"role": said["role"], "content": _content(said.get("content"))}
    if calls := said.get("tool_calls"):
        found["tool_calls"] = [
            [call["id"], call["function"]["name"], _arguments(call["function"]["arguments"])] for call in calls
        ]
    if "tool_call_id" in said:
        found["tool_call_id"] = said["tool_call_id"]
    if said.get("prefix"):
        found["prefix"] = True
    return found


def _content(content: Json) -> Json:
    if not isinstance(content, list):
        return content or ""
    if all(chunk.get("type") == "text" for chunk in content) and len(content) < 2:
        return "".join(chunk["text"] for chunk in content)
    return content


def _arguments(arguments: Json) -> Json:
    return json.loads(arguments) if isinstance(arguments, str) else arguments


def request(said: Json) -> Json:
    """All but the messages. What is the same unasked is left out."""
    unasked = {"n": 1, "stream": False, "tool_choice": "auto", "stop": [], "safe_prompt": None, "top_p": None}
    found = {name: value for name, value in said.items() if name != "messages" and value is not None}
    found = {name: value for name, value in found.items() if name not in unasked or value != unasked[name]}
    if isinstance(found.get("stop"), str):
        found["stop"] = [found["stop"]]
    if tools := found.get("tools"):
        found["tools"] = [_tool(tool) for tool in tools]
    return found


def _tool(tool: Json) -> Json:
    function = {name: value for name, value in tool["function"].items() if value not in (None, "", False)}
    return {"type": "function", "function": function}


# ---- as ours ------------------------------------------------------------------------------------------------------------


def read_request(said: Json) -> ModelRequest:
    turns = read_messages(said["messages"], said["model"])
    tools = tuple([_spec(tool["function"]) for tool in said.get("tools") or []])
    stop = said.get("stop") or ()
    options = Options(
        max_tokens=said.get("max_tokens"),
        temperature=said.get("temperature"),
        top_p=said.get("top_p"),
        stop=(stop,) if isinstance(stop, str) else tuple(stop),
        seed=said.get("random_seed"),
        reasoning_effort=said.get("reasoning_effort"),
        parallel_tool_calls=said.get("parallel_tool_calls"),
        response_format=_format(said.get("response_format") or {"type": "text"}),
        extra={name: Raw(json.dumps(value).encode()) for name, value in said.items() if name not in _KNOWN},
    )
    choice = _choice(said.get("tool_choice") or "auto")
    return ModelRequest(turns, tools, choice, options, bool(said.get("stream")), "run", 0, 1, scratch={})


def _choice(said: Json) -> ToolChoice:
    match said:
        case {"function": {"name": name}}:
            return ToolChoice("required", (name,), named=True)
        case "any" | "required":
            return ToolChoice("required")
        case "none":
            return ToolChoice("none")
    return AUTO


def _format(said: Json) -> ResponseFormat | None:
    match said:
        case {"type": "json_schema", "json_schema": {"name": name, "schema": schema} as rest}:
            raw = Raw(json.dumps(schema).encode())
            return ResponseFormat("json_schema", name, raw, rest.get("strict"), rest.get("description"))
        case {"type": "json_object"}:
            return ResponseFormat("json_object")
    return None


def _spec(function: Json) -> ToolSpec:
    raw = Raw(json.dumps(function["parameters"]).encode())
    return ToolSpec(function["name"], function.get("description") or "", raw, strict=function.get("strict") or None)


def read_messages(said: list[Json], model: str) -> list[Turn]:
    turns: list[Turn] = []
    for at, one in enumerate(said):
        content = one.get("content")
        if one["role"] == "system":
            turns.append(SystemTurn(content))
        elif one["role"] == "user":
            parts = [Text(content)] if isinstance(content, str) else [_part(chunk) for chunk in content]
            turns.append(UserTurn(tuple(parts)))
        elif one["role"] == "tool":
            result = ToolResult(one["tool_call_id"], content)
            last = turns[-1]
            turns[-1:] = [ToolTurn((*last.results, result))] if type(last) is ToolTurn else [last, ToolTurn((result,))]
        elif not is_bridge(said, at):
            turns.append(_assistant(one, model))
    return turns


def is_bridge(said: list[Json], at: int) -> bool:
    """What clients put between a result and what the user says, for servers that want something there."""
    message = said[at]
    is_behind_result = at > 0 and said[at - 1]["role"] == "tool" and message["role"] == "assistant"
    return is_behind_result and not message.get("tool_calls") and _content(message["content"]) == "OK"


def _assistant(said: Json, model: str) -> AssistantTurn:
    parts: list[AssistantPart] = []
    native = None
    content = said.get("content")
    if isinstance(content, list) and any(chunk["type"] != "text" for chunk in content):
        native = Native(native_api(model), Raw(json.dumps(content).encode()))
        for chunk in content:
            if chunk["type"] == "thinking":
                parts.append(Reasoning("".join(inner["text"] for inner in chunk["thinking"])))
            else:
                parts.append(Text(chunk["text"]))
    elif text := "".join(chunk["text"] for chunk in content) if isinstance(content, list) else content:
        parts.append(Text(text))
    calls = [(call["id"], call["function"]) for call in said.get("tool_calls") or []]
    parts += [ToolCall(call_id, function["name"], function["arguments"]) for call_id, function in calls]
    return AssistantTurn(tuple(parts), "stop", native)


def _part(chunk: Json) -> UserPart:
    if chunk["type"] == "text":
        return Text(chunk["text"])
    if chunk["type"] == "image_url":
        image = chunk["image_url"]
        return Image(image if isinstance(image, str) else image["url"])
    return File(data=chunk["document_url"], name=chunk.get("document_name"))
