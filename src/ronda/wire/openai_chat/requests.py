"""Turns → request bytes. `Body` keeps what it has written, so that a round does not cost more because the talk is longer."""

from __future__ import annotations

from operator import is_
from typing import Any, TypeGuard

from msgspec import Raw

from ronda.core.parts import (
    NULL,
    AssistantTurn,
    Audio,
    File,
    Image,
    Native,
    SystemTurn,
    Text,
    ToolCall,
    ToolResult,
    ToolTurn,
    Turn,
    UserTurn,
    Video,
)
from ronda.core.plan import Options, ResponseFormat, ToolChoice, ToolSpec
from ronda.core.request import ModelRequest
from ronda.wire.json import encode
from ronda.wire.openai_chat import API


class Body:
    """The request of the next round is the last one plus the new turns. A cache: dropping it changes nothing.

    Messages come first in the JSON, so that what varies between rounds (tool_choice) can be written behind them.
    """

    __slots__ = ("_buffer", "_tail", "_tail_of", "_written")

    def __init__(self) -> None:
        self._buffer = bytearray(b'{"messages":[')
        self._written: list[Turn] = []
        self._tail = b""
        self._tail_of: tuple[object, ...] = ()

    def write(self, model: str, request: ModelRequest) -> bytes:
        turns = request.turns
        written = self._written
        buffer = self._buffer
        # Every turn is looked at, not the last alone: a history may be shortened in its middle.
        if len(written) > len(turns) or not all(map(is_, written, turns)):
            buffer = self._buffer = bytearray(b'{"messages":[')
            written = self._written = []
        for turn in turns[len(written) :]:
            said = write_turn(turn)
            if said:
                if buffer[-1] != _OPEN:
                    buffer += b","
                buffer += said
            written.append(turn)
        tail_of = (model, request.tools, request.choice, request.options, request.stream)
        if not self._tail_of or any(a is not b for a, b in zip(tail_of, self._tail_of, strict=True)):
            self._tail = write_tail(model, request.tools, request.choice, request.options, request.stream)
            self._tail_of = tail_of
        # Appended and taken off again: one copy of the conversation per round, not two.
        size = len(buffer)
        buffer += self._tail
        body = bytes(buffer)
        del buffer[size:]
        return body


_OPEN = ord("[")


def write_request(model: str, request: ModelRequest) -> bytes:
    """The body of a request; what an earlier round of the same run wrote is not written again."""
    body = request.scratch.get(API)
    if body is None:
        body = request.scratch[API] = Body()
    return body.write(model, request)


def write_tail(model: str, tools: tuple[ToolSpec, ...], choice: ToolChoice, options: Options, stream: bool) -> bytes:
    rest: dict[str, Any] = {"model": model}
    if tools:
        rest["tools"] = [write_tool(tool) for tool in tools]
        if choice.mode != "auto" or choice.names:
            rest["tool_choice"] = write_choice(choice)
        if options.parallel_tool_calls is not None:
            rest["parallel_tool_calls"] = options.parallel_tool_calls
    if stream:
        rest["stream"] = True
        rest["stream_options"] = {"include_usage": True}
    if options.max_tokens is not None and "max_completion_tokens" not in options.extra:
        rest["max_tokens"] = options.max_tokens
    if options.temperature is not None:
        rest["temperature"] = options.temperature
    if options.top_p is not None:
        rest["top_p"] = options.top_p
    if options.stop:
        rest["stop"] = options.stop
    if options.seed is not None:
        rest["seed"] = options.seed
    if options.reasoning_effort is not None:
        rest["reasoning_effort"] = options.reasoning_effort
    if options.response_format is not None:
        rest["response_format"] = _write_format(options.response_format)
    rest.update(options.extra)
    return b"]," + encode(rest)[1:]


def write_tool(tool: ToolSpec) -> Raw | dict[str, Any]:
    if tool.native != NULL:
        return tool.native
    function: dict[str, Any] = {"name": tool.name}
    if tool.description:
        function["description"] = tool.description
    function["parameters"] = tool.parameters
    if tool.strict and tool.kind in ("builtin", "function", "mcp"):
        from ronda.schema.lower import lowered
        from ronda.schema.lower_rules import OPENAI

        # A schema that does not qualify would fail the whole request; it is sent as it is, and checked by the loop.
        taken = lowered(bytes(tool.parameters), OPENAI)
        if taken.strict:
            function["parameters"] = taken.schema
            function["strict"] = True
    elif tool.strict is not None:
        function["strict"] = tool.strict  # the caller's own word, which its upstream may judge
    return {"type": "function", "function": function}


def write_choice(choice: ToolChoice) -> str | dict[str, Any]:
    if choice.named:
        return {"type": "function", "function": {"name": choice.names[0]}}
    if choice.names:
        tools = [{"type": "function", "function": {"name": name}} for name in choice.names]
        return {"type": "allowed_tools", "allowed_tools": {"mode": choice.mode, "tools": tools}}
    return choice.mode


def _write_format(format: ResponseFormat) -> dict[str, Any]:
    if format.type == "json_object":
        return {"type": "json_object"}
    schema: dict[str, Any] = {"name": format.name}
    if format.description is not None:
        schema["description"] = format.description
    if format.schema != NULL:
        schema["schema"] = format.schema
    if format.strict is not None:
        schema["strict"] = format.strict
    return {"type": "json_schema", "json_schema": schema}


def write_turn(turn: Turn) -> bytes:
    """One turn as messages, joined by commas. Empty where there is nothing to say, as in an interrupted turn."""
    match turn:
        case ToolTurn(results=results):
            said = [write_result(result) for result in results]
            if attached := [item for result in results if not _is_ours(result.native) for item in result.attachments]:
                # A tool message holds text alone in this dialect; what else a tool returned follows as the user's.
                said.append(
                    encode({"role": "user", "content": [_TOOL_ATTACHMENTS, *[_part(item) for item in attached]]})
                )
            return b",".join(said)
        case AssistantTurn():
            if _is_ours(turn.native):
                return bytes(turn.native.payload)
            message: dict[str, Any] = {"role": "assistant", "content": turn.text or None}
            if refusal := turn.refusal:
                message["refusal"] = refusal
            if calls := turn.calls:
                message["tool_calls"] = [write_call(call) for call in calls]
            elif message["content"] is None and not refusal:
                return b""
            return encode(message)
        case UserTurn():
            if _is_ours(turn.native):
                return bytes(turn.native.payload)
            content = turn.parts[0].text if len(turn.parts) == 1 and type(turn.parts[0]) is Text else None
            message = {"role": "user", "content": content if content is not None else [_part(p) for p in turn.parts]}
            if turn.name is not None:
                message["name"] = turn.name
            return encode(message)
        case SystemTurn():
            if _is_ours(turn.native):
                return bytes(turn.native.payload)
            return encode({"role": turn.role, "content": turn.text})


def _is_ours(native: Native | None) -> TypeGuard[Native]:
    return native is not None and native.api == API


def write_call(call: ToolCall) -> dict[str, Any]:
    return {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}


def write_result(result: ToolResult) -> bytes:
    if _is_ours(result.native):
        return bytes(result.native.payload)
    return encode({"role": "tool", "tool_call_id": result.call_id, "content": result.content})


_TOOL_ATTACHMENTS = {"type": "text", "text": "Attached by the tools above:"}


def _part(part: Text | Image | Audio | Video | File) -> dict[str, Any]:
    match part:
        case Text(text=text):
            return {"type": "text", "text": text}
        case Image(url=url, detail=detail):
            image = {"url": url} if detail is None else {"url": url, "detail": detail}
            return {"type": "image_url", "image_url": image}
        case Audio(data=data, format=format):
            return {"type": "input_audio", "input_audio": {"data": data, "format": format}}
        case Video(url=url):
            return {"type": "video_url", "video_url": {"url": url}}
        case File(data=data, name=name, id=id):
            file = {"file_data": data, "filename": name, "file_id": id}
            return {"type": "file", "file": {key: value for key, value in file.items() if value is not None}}
