"""Chat Completions as its client: turns → request bytes, answer bytes → previews and one finished turn.

Pure: no socket, no clock. `Body` keeps the bytes of a conversation it has already written, so the cost of a round does not
grow with the conversation; `Reader` reads a stream one socket read at a time, `read_plain` a whole answer. Both end in the
same parts. It knows the dialect and its many speakers' habits, not who is at the other end.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import is_
from typing import Any, TypeGuard

import msgspec
from msgspec import Raw, Struct

from ronda.core.events import (
    LogprobsDelta,
    ModelFinished,
    Preview,
    ReasoningDelta,
    RefusalDelta,
    TextDelta,
)
from ronda.core.parts import (
    NO_USAGE,
    NULL,
    AssistantPart,
    AssistantTurn,
    Audio,
    File,
    Image,
    Native,
    Reasoning,
    Refusal,
    Stop,
    SystemTurn,
    Text,
    ToolCall,
    ToolResult,
    ToolTurn,
    Turn,
    Usage,
    UserTurn,
    Video,
)
from ronda.core.plan import Options, ResponseFormat, ToolChoice, ToolSpec
from ronda.core.request import ModelRequest
from ronda.errors import UpstreamBroken, UpstreamError
from ronda.wire.openai_chat import API
from ronda.wire.openai_chat.calls import CallAssembler, CallPiece, FunctionPiece, text_of
from ronda.wire.sse import SseReader

encode = msgspec.json.Encoder().encode

# What decoding raises on bytes from outside: not JSON or not of this shape, not UTF-8, nested beyond all reason.
UNREADABLE = (msgspec.DecodeError, UnicodeError, RecursionError)

# ---- answers ----------------------------------------------------------------------------------------------------------


class _Details(Struct, frozen=True, gc=False):
    cached_tokens: int | None = None
    reasoning_tokens: int | None = None


class _Usage(Struct, frozen=True, gc=False):
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    prompt_tokens_details: _Details | None = None
    completion_tokens_details: _Details | None = None
    prompt_cache_hit_tokens: int | None = None  # DeepSeek's name for cached tokens


class _Groq(Struct, frozen=True, gc=False):
    usage: _Usage | None = None


class _Piece(Struct, frozen=True, gc=False):
    """One part of a content list. Mistral sends lists, with `thinking` parts that hold text parts themselves."""

    type: str = "text"
    text: str | None = None
    thinking: list[_Piece] | str | None = None


class _Delta(Struct, frozen=True, gc=False):
    content: str | list[_Piece] | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None
    refusal: str | None = None
    tool_calls: list[CallPiece] | None = None
    function_call: FunctionPiece | None = None
    reasoning_details: list[Raw] | None = None  # OpenRouter: must come back as it was


class _ChunkChoice(Struct, frozen=True, gc=False):
    delta: _Delta | None = None
    finish_reason: str | None = None
    index: int = 0
    logprobs: Raw = NULL


class _Chunk(Struct, frozen=True, gc=False):
    choices: list[_ChunkChoice] | None = None
    usage: _Usage | None = None
    x_groq: _Groq | None = None
    error: Raw = NULL


class _PlainChoice(Struct, frozen=True, gc=False):
    message: Raw = NULL
    finish_reason: str | None = None
    index: int = 0
    logprobs: Raw = NULL


class _Plain(Struct, frozen=True, gc=False):
    choices: list[_PlainChoice] | None = None
    usage: _Usage | None = None
    x_groq: _Groq | None = None
    error: Raw = NULL


_decode_chunk = msgspec.json.Decoder(_Chunk).decode
_decode_plain = msgspec.json.Decoder(_Plain).decode
_decode_message = msgspec.json.Decoder(_Delta).decode
_decode_members = msgspec.json.Decoder(dict[str, Raw]).decode

# Members our own writer says in the same way. Anything else that means something is kept as the upstream said it.
_REPRODUCED = frozenset(
    {"role", "content", "tool_calls", "refusal", "annotations", "audio", "function_call", "tool_call_id"}
)
_NOTHING = frozenset({b"null", b"[]", b'""', b"{}"})

_STOPS: dict[str, Stop] = {
    "stop": "stop",
    "tool_calls": "tool_calls",
    "function_call": "tool_calls",
    "length": "length",
    "max_tokens": "length",
    "model_length": "length",  # Mistral
    "content_filter": "content_filter",
}


def read_plain(body: bytes) -> ModelFinished:
    """A whole answer."""
    return read_choices(body)[0]


def read_choices(body: bytes) -> list[ModelFinished]:
    """All choices of a whole answer; the usage, which is of all of them, is on the first."""
    try:
        answer = _decode_plain(body)
    except UNREADABLE as error:
        raise UpstreamBroken(f"the model's answer is not a chat completion: {error}", retryable=True) from error
    if answer.error != NULL:
        raise said_error(bytes(answer.error))
    if not answer.choices:
        raise UpstreamBroken("the model's answer has no choices", retryable=True)
    usage = _usage(answer.usage or (answer.x_groq.usage if answer.x_groq is not None else None))
    finished = []
    for choice in sorted(answer.choices, key=lambda choice: choice.index):
        turn = _read_message(choice.message, choice.finish_reason)
        logprobs = choice.logprobs.copy() if choice.logprobs != NULL else NULL
        finished.append(ModelFinished(turn, usage, logprobs))
        usage = NO_USAGE
    return finished


def _read_message(raw: Raw, finish_reason: str | None) -> AssistantTurn:
    if raw == NULL:
        if finish_reason == "content_filter":  # Azure leaves the message out
            return AssistantTurn((), "content_filter")
        raise UpstreamBroken("the model's answer has no message", retryable=True)
    try:
        message = _decode_message(raw)
        members = _decode_members(raw)
    except UNREADABLE as error:
        raise UpstreamBroken(f"the model's message cannot be read: {error}", retryable=True) from error
    parts: list[AssistantPart] = []
    if thought := message.reasoning_content or message.reasoning:
        parts.append(Reasoning(thought))
    is_list = type(message.content) is list
    parts += _content(message.content)
    if message.refusal:
        parts.append(Refusal(message.refusal))
    calls = message.tool_calls or ()
    odd = is_list
    for call in calls:
        function = call.function or FunctionPiece()
        odd = odd or call.extra_content != NULL or call.custom != NULL
        parts.append(ToolCall(call.id or "", function.name or "", text_of(function.arguments)))
    if message.function_call is not None and message.function_call.name:
        parts.append(ToolCall("", message.function_call.name, text_of(message.function_call.arguments)))
    odd = odd or any(name not in _REPRODUCED and bytes(value) not in _NOTHING for name, value in members.items())
    # A Raw is a view that would keep the whole response body alive, hence the copy.
    native = Native(API, raw.copy()) if odd else None
    return AssistantTurn(tuple(parts), _stop(finish_reason, parts), native)


def _content(content: str | list[_Piece] | None) -> list[AssistantPart]:
    if not content:
        return []
    if type(content) is str:
        return [Text(content)]
    parts: list[AssistantPart] = []
    for piece in content:
        if type(piece) is not _Piece:
            continue
        if piece.type == "thinking" and (thought := _thought(piece)):
            parts.append(Reasoning(thought))
        elif piece.text:
            parts.append(Text(piece.text))
    return parts


def _thought(piece: _Piece) -> str:
    if type(piece.thinking) is list:
        return "".join([inner.text or "" for inner in piece.thinking])
    return piece.thinking if type(piece.thinking) is str else ""


def _stop(finish_reason: str | None, parts: Sequence[AssistantPart]) -> Stop:
    if finish_reason == "error":
        raise UpstreamBroken("the model stopped with an error", retryable=True)
    stop = _STOPS.get(finish_reason or "stop", "stop")
    has_calls = any(type(part) is ToolCall for part in parts)
    if stop == "stop" and has_calls:
        return "tool_calls"  # many servers say "stop" all the same
    return "stop" if stop == "tool_calls" and not has_calls else stop


def _usage(usage: _Usage | None) -> Usage:
    if usage is None:
        return NO_USAGE
    prompt, completion = usage.prompt_tokens_details, usage.completion_tokens_details
    return Usage(
        usage.prompt_tokens or 0,
        usage.completion_tokens or 0,
        (prompt.cached_tokens if prompt is not None else usage.prompt_cache_hit_tokens) or 0,
        (completion.reasoning_tokens if completion is not None else None) or 0,
    )


class _SaidError(Struct, frozen=True):
    """Inside an answer that began with 200, the true status has three names: Azure's, Groq's, OpenRouter's."""

    message: str | None = None
    type: str | None = None
    status: str | int | None = None
    status_code: str | int | None = None
    code: str | int | None = None

    @property
    def http_status(self) -> int | None:
        for number in (self.status, self.status_code, self.code):
            if type(number) is int and 400 <= number < 600:
                return number
        return None


def said_error(raw: bytes, status: int | None = None, retry_after: float | None = None) -> UpstreamError:
    """An error as an upstream words it: an object, a string, or something else altogether."""
    try:
        said = msgspec.json.decode(raw, type=_SaidError | str | None)
        message = said if type(said) is str else said.message if said is not None else None
        if status is None and type(said) is _SaidError:
            status = said.http_status
            if status is None and said.type == "invalid_request_error":
                status = 400
    except UNREADABLE:
        message = None
    text = message or raw[:500].decode("utf-8", "replace") or "no reason given"
    where = f"the model's server answered {status}: " if status is not None else "the model's server reported: "
    retryable = status is None or status in RETRYABLE
    return UpstreamError(where + text, status=status, retryable=retryable, retry_after=retry_after)


class _ErrorBody(Struct, frozen=True):
    error: Raw = NULL
    message: str | None = None  # some servers leave out the envelope
    detail: Raw = NULL


def error_of(body: bytes, status: int, retry_after: float | None = None) -> UpstreamError:
    """An answer that is not 200, in whatever words its server has for it."""
    try:
        said = msgspec.json.decode(body, type=_ErrorBody)
    except UNREADABLE:
        return said_error(body, status, retry_after)
    if said.error != NULL:
        return said_error(bytes(said.error), status, retry_after)
    if said.message is not None:
        return said_error(encode(said.message), status, retry_after)
    return said_error(bytes(said.detail) if said.detail != NULL else body, status, retry_after)


RETRYABLE = frozenset({408, 409, 425, 429, *range(500, 600)})  # gateways have 5xx of their own


class _ChoiceReader:
    """The chunks of one choice."""

    __slots__ = ("calls", "details", "finish_reason", "logprobs", "refused", "said", "thought", "thought_as")

    def __init__(self) -> None:
        self.said: list[str] = []
        self.thought: list[str] = []
        self.thought_as = "reasoning_content"
        self.refused: list[str] = []
        self.calls: CallAssembler | None = None
        self.details: list[Raw] = []
        self.logprobs: list[Raw] = []
        self.finish_reason: str | None = None

    def add(self, choice: _ChunkChoice, out: list[Preview]) -> None:
        if choice.finish_reason:  # some servers have "" in every chunk but the last
            self.finish_reason = choice.finish_reason
        delta = choice.delta
        if delta is None:
            return
        if content := delta.content:
            if isinstance(content, str):
                self.said.append(content)
                out.append(TextDelta(content))
            else:
                self._add_list(content, out)
        if delta.reasoning_content:
            self.thought.append(delta.reasoning_content)
            out.append(ReasoningDelta(delta.reasoning_content))
        elif delta.reasoning:
            self.thought.append(delta.reasoning)
            self.thought_as = "reasoning"
            out.append(ReasoningDelta(delta.reasoning))
        if delta.tool_calls:
            add = self._assembler().add
            out += [add(piece) for piece in delta.tool_calls]
        if delta.refusal:
            self.refused.append(delta.refusal)
            out.append(RefusalDelta(delta.refusal))
        if delta.function_call is not None and (delta.function_call.name or delta.function_call.arguments):
            out.append(self._assembler().add(CallPiece(delta.function_call)))
        if delta.reasoning_details:
            self.details += [detail.copy() for detail in delta.reasoning_details]
        if choice.logprobs != NULL:
            self.logprobs.append(choice.logprobs.copy())
            out.append(LogprobsDelta(self.logprobs[-1]))

    @property
    def is_empty(self) -> bool:
        return self.finish_reason is None and not (self.said or self.thought or self.refused or self.calls)

    def _assembler(self) -> CallAssembler:
        if self.calls is None:
            self.calls = CallAssembler()
        return self.calls

    def _add_list(self, content: list[_Piece], out: list[Preview]) -> None:
        for part in _content(content):
            if type(part) is Text:
                self.said.append(part.text)
                out.append(TextDelta(part.text))
            elif type(part) is Reasoning:
                self.thought.append(part.text)
                self.thought_as = "content"  # Mistral, which refuses a message with any name for it beside content
                out.append(ReasoningDelta(part.text))

    def finish(self, usage: Usage) -> ModelFinished:
        parts: list[AssistantPart] = []
        if self.thought:
            parts.append(Reasoning("".join(self.thought)))
        if self.said:
            parts.append(Text("".join(self.said)))
        if self.refused:
            parts.append(Refusal("".join(self.refused)))
        if self.calls is not None:
            parts += self.calls.calls()
        turn = AssistantTurn(tuple(parts), _stop(self.finish_reason, parts))
        if native := self._native(turn):
            turn = AssistantTurn(turn.parts, turn.stop, Native(API, native))
        return ModelFinished(turn, usage, join_logprobs(self.logprobs))

    def _native(self, turn: AssistantTurn) -> Raw | None:
        """The message as a plain answer would have held it, where parts alone could not say it again."""
        records = self.calls.records if self.calls is not None else []
        if not self.thought and not self.details and not any(record.extra != NULL for record in records):
            return None
        message: dict[str, Any] = {"role": "assistant", "content": turn.text or None}
        if self.thought and self.thought_as == "content":
            thinking = [{"type": "text", "text": turn.reasoning}]
            said = [{"type": "text", "text": turn.text}] if self.said else []
            message["content"] = [{"type": "thinking", "thinking": thinking}, *said]
        elif self.thought:
            message[self.thought_as] = turn.reasoning
        if self.refused:
            message["refusal"] = turn.refusal
        if self.details:
            message["reasoning_details"] = self.details
        if calls := turn.calls:
            extras = [record.extra for record in records if record.name]
            message["tool_calls"] = [
                _call(call) if extra == NULL else {**_call(call), "extra_content": extra}
                for call, extra in zip(calls, extras, strict=True)
            ]
        return Raw(encode(message))


class Reader:
    """A stream, one socket read at a time: previews of choice 0 out of `feed`, the whole turn out of `finish`.

    With `choices` > 1 the previews of the others are taken with `take_aside` after every feed.
    """

    __slots__ = ("_aside", "_choices", "_done", "_failure", "_sse", "_usage")

    def __init__(self, choices: int = 1) -> None:
        self._sse = SseReader()
        self._choices = [_ChoiceReader() for _ in range(choices)]
        self._usage: _Usage | None = None
        self._done = False
        self._failure: UpstreamError | None = None
        self._aside: list[list[Preview]] = [[] for _ in range(choices - 1)]

    def feed(self, data: bytes) -> list[Preview]:
        return self._read(self._sse.feed_data(data))

    @property
    def broken(self) -> bool:
        """Something in the stream was an error: nothing after it counts, and `finish` raises it."""
        return self._failure is not None

    def _read(self, frames: list[bytes]) -> list[Preview]:
        # An error is not raised here: what came before it in the same read was said, however the bytes were cut.
        out: list[Preview] = []
        if self._failure is None:
            try:
                self._read_into(out, frames)
            except UpstreamError as error:
                self._failure = error
        return out

    def _read_into(self, out: list[Preview], frames: list[bytes]) -> None:
        for frame in frames:
            if frame == b"[DONE]" or not frame:
                self._done = self._done or bool(frame)
                continue
            try:
                chunk = _decode_chunk(frame)
            except UNREADABLE as error:
                raise UpstreamBroken(f"the model's stream cannot be read: {error}", retryable=True) from error
            if chunk.usage is not None:
                self._usage = chunk.usage
            elif chunk.x_groq is not None and chunk.x_groq.usage is not None:
                self._usage = chunk.x_groq.usage
            if chunk.error != NULL:
                raise said_error(bytes(chunk.error))
            if chunk.choices:
                for choice in chunk.choices:
                    if choice.index == 0:
                        self._choices[0].add(choice, out)
                    elif choice.index < len(self._choices):
                        self._choices[choice.index].add(choice, self._aside[choice.index - 1])

    def take_aside(self) -> list[list[Preview]]:
        taken, self._aside = self._aside, [[] for _ in self._aside]
        return taken

    def close(self) -> list[Preview]:
        """The stream is over: read a last frame that lacks its blank line."""
        return self._read([frame.data for frame in self._sse.close()])

    def finish(self) -> ModelFinished:
        return self.finish_all()[0]

    def finish_all(self) -> list[ModelFinished]:
        if self._failure is not None:
            raise self._failure
        usage = _usage(self._usage)
        finished = []
        for index, choice in enumerate(self._choices):
            if index and choice.is_empty:
                break  # the upstream does not know `n`
            if choice.finish_reason is None and not self._done:
                raise UpstreamBroken("the model's stream ended before it was complete", retryable=True, connection=True)
            finished.append(choice.finish(usage))
            usage = NO_USAGE
        return finished


def join_logprobs(pieces: Sequence[Raw]) -> Raw:
    """Token probabilities of a stream as a plain answer would have them."""
    if not pieces:
        return NULL
    joined: dict[str, list[Raw] | None] = {}
    for piece in pieces:
        try:
            lists = msgspec.json.decode(piece, type=dict[str, list[Raw] | None])
        except UNREADABLE:
            continue  # some server's own shape, which nobody knows how to join; not worth an answer
        for name, values in lists.items():
            if values is None:
                joined.setdefault(name, None)
            else:
                joined[name] = (joined.get(name) or []) + values
    return Raw(encode(joined)) if joined else NULL


# ---- requests ---------------------------------------------------------------------------------------------------------


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
                message["tool_calls"] = [_call(call) for call in calls]
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


def _call(call: ToolCall) -> dict[str, Any]:
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
