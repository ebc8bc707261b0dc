"""One question, asked at every door without a client library: what was said, which calls went out and in which pieces."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.interaction.doors import Json, Served, soon


@dataclass
class Heard:
    """What one request got, in words that are the same for all doors."""

    status: int = 200
    text: str = ""
    reasoning: str = ""
    calls: list[tuple[str, Any]] = field(default_factory=list)  # names, and arguments as they went out
    pieces: list[str] = field(default_factory=list)  # of arguments, in a stream
    end: str | None = None  # stop, length, tool_calls, error
    error: str = ""
    warnings: list[str] = field(default_factory=list)
    events: list[tuple[str, Json]] = field(default_factory=list)


NAMES = ("chat", "responses", "messages", "completions", "conversations")
PATHS = {
    "chat": "chat/completions",
    "responses": "responses",
    "messages": "messages",
    "completions": "agents/completions",
    "conversations": "conversations",
}
_CHOICES: Mapping[str, Mapping[str, Any]] = {
    "responses": {"required": "required", "none": "none", "auto": "auto"},
    "messages": {"required": {"type": "any"}, "none": {"type": "none"}, "auto": {"type": "auto"}},
}


def tool_of(name: str, strict: bool | None = None, **parameters: str) -> Json:
    schema = {
        "type": "object",
        "properties": {key: {"type": kind} for key, kind in parameters.items()},
        "required": list(parameters),
        "additionalProperties": False,
    }
    return {"name": name, "parameters": schema, **({} if strict is None else {"strict": strict})}


def body_for(door: str, stream: bool, tools: Sequence[Json] = (), choice: Any = None, **more: Any) -> Json:
    messages = [{"role": "user", "content": "go"}]
    body: Json = {"stream": stream, **more}
    match door:
        case "chat":
            body |= {"model": "default", "messages": messages}
        case "responses":
            body |= {"model": "default", "input": "go"}
        case "messages":
            body |= {"model": "default", "max_tokens": 99, "messages": messages}
        case "completions":
            body |= {"agent_id": "default", "messages": messages}
        case "conversations":
            body |= {"model": "default", "inputs": "go"}
    if tools:
        body["tools"] = [_declared(door, tool) for tool in tools]
    if choice is not None:
        said = _CHOICES[door][choice] if isinstance(choice, str) and door in _CHOICES else choice
        if door == "conversations":
            body["completion_args"] = {"tool_choice": said}
        else:
            body["tool_choice"] = said
    return body


def _declared(door: str, tool: Json) -> Json:
    match door:
        case "responses":
            return {"type": "function", **tool}
        case "messages":
            return {"input_schema": tool["parameters"], **{k: v for k, v in tool.items() if k != "parameters"}}
        case _:
            return {"type": "function", "function": tool}


async def ask(served: Served, door: str, stream: bool, tools: Sequence[Json] = (), **more: Any) -> Heard:
    body = json.dumps(body_for(door, stream, tools, **more)).encode()
    headers = {"content-type": "application/json", "anthropic-version": "2023-06-01"}
    async with soon(), served.http.post(f"{served.url}/{PATHS[door]}", data=body, headers=headers) as answer:
        data = await answer.read()
        is_stream = answer.headers["content-type"].startswith("text/event-stream")
        status = answer.status
    return read_stream(door, data) if is_stream else read_plain(door, data, status)


def read_plain(door: str, data: bytes, status: int = 200) -> Heard:
    heard = Heard(status)
    plain: Json = json.loads(data)
    if status != 200:
        heard.end, heard.error = "error", json.dumps(plain)
    else:
        _PLAIN[door](plain, heard)
    return heard


def read_stream(door: str, data: bytes) -> Heard:
    heard = Heard()
    for block in data.decode().split("\n\n"):
        fields = dict(line.split(": ", 1) for line in block.split("\n") if line and not line.startswith(":"))
        if fields and fields["data"] != "[DONE]":
            heard.events.append((fields.get("event", ""), json.loads(fields["data"])))
    _STREAM[door](heard)
    return heard


# ---- chat, and Mistral's completions -----------------------------------------------------------------------------------


def _plain_chat(answer: Json, heard: Heard) -> None:
    choice = answer["choices"][0]
    message = choice["message"]
    heard.text, heard.reasoning = _content(message.get("content")), message.get("reasoning_content") or ""
    heard.calls = [
        (call["function"]["name"], call["function"]["arguments"]) for call in message.get("tool_calls") or ()
    ]
    heard.end = choice["finish_reason"]
    heard.warnings = answer.get("warnings", [])


def _content(content: Any) -> str:
    if isinstance(content, list):
        return "".join([part.get("text", "") for part in content if part["type"] == "text"])
    return content or ""


def _stream_chat(heard: Heard) -> None:
    calls: dict[int, list[str]] = {}
    for _, chunk in heard.events:
        heard.warnings = chunk.get("warnings", heard.warnings)
        if "error" in chunk:
            heard.end, heard.error = "error", chunk["error"]["message"]
        for choice in chunk.get("choices", ()):
            delta = choice["delta"]
            heard.text += _content(delta.get("content"))
            heard.reasoning += delta.get("reasoning_content") or ""
            for piece in delta.get("tool_calls") or ():
                call = calls.setdefault(piece["index"], ["", ""])
                function = piece.get("function", {})
                call[0] += function.get("name") or ""
                call[1] += function.get("arguments") or ""
                heard.pieces.append(function.get("arguments") or "")
            heard.end = choice["finish_reason"] or heard.end
    heard.calls = [(call[0], call[1]) for _, call in sorted(calls.items())]


# ---- responses ---------------------------------------------------------------------------------------------------------


def _plain_responses(answer: Json, heard: Heard) -> None:
    for item in answer["output"]:
        if item["type"] == "message":
            heard.text += "".join([part.get("text", "") for part in item["content"]])
        elif item["type"] == "function_call":
            heard.calls.append((item["name"], item["arguments"]))
        elif item["type"] == "reasoning":
            heard.reasoning += "".join([part["text"] for part in item["summary"]])
    heard.warnings = answer.get("warnings", [])
    match answer["status"]:
        case "completed":
            heard.end = "tool_calls" if heard.calls else "stop"
        case "incomplete":
            heard.end = "length"
        case _:
            heard.end, heard.error = "error", answer["error"]["message"]


def _stream_responses(heard: Heard) -> None:
    text = ""
    for kind, event in heard.events:
        if kind == "response.output_text.delta":
            text += event["delta"]
        elif kind == "response.function_call_arguments.delta":
            heard.pieces.append(event["delta"])
    _plain_responses(heard.events[-1][1]["response"], heard)
    heard.text = text


# ---- messages ----------------------------------------------------------------------------------------------------------

_STOPS = {"end_turn": "stop", "tool_use": "tool_calls", "max_tokens": "length"}


def _plain_messages(answer: Json, heard: Heard) -> None:
    for block in answer["content"]:
        if block["type"] == "text":
            heard.text += block["text"]
        elif block["type"] == "thinking":
            heard.reasoning += block["thinking"]
        elif block["type"] == "tool_use":
            heard.calls.append((block["name"], json.dumps(block["input"])))
    heard.end = _STOPS.get(answer["stop_reason"], answer["stop_reason"])
    heard.warnings = answer.get("warnings", [])


def _stream_messages(heard: Heard) -> None:
    calls: dict[int, list[str]] = {}
    for kind, event in heard.events:
        match kind:
            case "content_block_start" if event["content_block"]["type"] == "tool_use":
                calls[event["index"]] = [event["content_block"]["name"], ""]
            case "content_block_delta":
                delta = event["delta"]
                heard.text += delta.get("text", "")
                heard.reasoning += delta.get("thinking", "")
                if "partial_json" in delta and event["index"] in calls:
                    calls[event["index"]][1] += delta["partial_json"]
                    heard.pieces.append(delta["partial_json"])
            case "message_delta":
                heard.end = _STOPS.get(event["delta"]["stop_reason"], event["delta"]["stop_reason"])
                heard.warnings = event.get("warnings", [])
            case "error":
                heard.end, heard.error = "error", event["error"]["message"]
            case _:
                pass
    heard.calls = [(call[0], call[1]) for _, call in sorted(calls.items())]


# ---- conversations -----------------------------------------------------------------------------------------------------


def _plain_conversations(answer: Json, heard: Heard) -> None:
    for entry in answer["outputs"]:
        if entry["type"] == "message.output":
            heard.text += _content(entry["content"])
        elif entry["type"] == "function.call":
            heard.calls.append((entry["name"], entry["arguments"]))
    heard.end = "tool_calls" if heard.calls else "stop"
    heard.warnings = answer.get("warnings", [])


def _stream_conversations(heard: Heard) -> None:
    calls: dict[str, list[str]] = {}
    for kind, event in heard.events:
        match kind:
            case "message.output.delta" if isinstance(event["content"], str):
                heard.text += event["content"]
            case "function.call.delta":
                call = calls.setdefault(event["id"], [event["name"], ""])
                call[1] += event["arguments"]
                heard.pieces.append(event["arguments"])
            case "conversation.response.done":
                heard.end = "tool_calls" if calls else "stop"
                heard.warnings = event.get("warnings", [])
            case "conversation.response.error":
                heard.end, heard.error = "error", event["message"]
            case _:
                pass
    heard.calls = [(call[0], call[1]) for call in calls.values()]


_PLAIN = {
    "chat": _plain_chat,
    "responses": _plain_responses,
    "messages": _plain_messages,
    "completions": _plain_chat,
    "conversations": _plain_conversations,
}
_STREAM = {
    "chat": _stream_chat,
    "responses": _stream_responses,
    "messages": _stream_messages,
    "completions": _stream_chat,
    "conversations": _stream_conversations,
}
