"""Chat Completions as its client, the way back: answer bytes → previews and one finished turn.

Pure: no socket, no clock. `Reader` reads a stream one socket read at a time, `read_plain` a whole answer; both end in the same
parts. It knows the dialect and its many speakers' habits, not who is at the other end. What is sent is in `requests`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec
from msgspec import Raw, Struct

from ronda.core.events import (
    CallDelta,
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
    Native,
    Reasoning,
    Refusal,
    Stop,
    Text,
    ToolCall,
    Usage,
)
from ronda.errors import UpstreamBroken, UpstreamError
from ronda.wire.json import UNREADABLE, encode
from ronda.wire.openai_chat import API
from ronda.wire.openai_chat.calls import LONG_ID, CallAssembler, CallPiece, FunctionPiece, text_of
from ronda.wire.openai_chat.errors import said_error
from ronda.wire.openai_chat.names import NO_NAMES
from ronda.wire.sse import SseReader
from ronda.wire.surrogates import Halves, mended


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
    extra_content: Raw = NULL  # Gemini's compatible endpoint: a signature that belongs to the message
    thought_signature: Raw = NULL


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


class Naming(Struct, frozen=True):
    """Whose answer it is: which server's JSON, what its tools' names are at home, and what calls without an id are called."""

    api: str = API
    names: Mapping[str, str] = NO_NAMES
    run: str = ""
    round: int = 0

    def own(self, calls: Sequence[ToolCall], choice: int = 0) -> list[ToolCall]:
        """Every call under the tool's own name and with an id of its own. Derived, not drawn: a replay must agree."""
        seen: set[str] = set()
        found = []
        for at, call in enumerate(calls):
            id = call.id
            if self.run and (not id or id in seen):
                id = f"call_{self.run[-12:]}_{self.round}_{at}" + (f"_{choice}" if choice else "")
            seen.add(id)
            name = self.names.get(call.name, call.name)
            found.append(call if id is call.id and name is call.name else ToolCall(id, name, call.arguments))
        return found


NOBODY: Final = Naming()


def read_plain(body: bytes, naming: Naming = NOBODY) -> ModelFinished:
    """A whole answer."""
    return read_choices(body, naming)[0]


def read_choices(body: bytes, naming: Naming = NOBODY) -> list[ModelFinished]:
    """All choices of a whole answer; the usage, which is of all of them, is on the first."""
    try:
        answer = _decode_plain(mended(body))
    except UNREADABLE as error:
        raise UpstreamBroken(f"the model's answer is not a chat completion: {error}", retryable=True) from error
    if answer.error != NULL:
        raise said_error(bytes(answer.error))
    if not answer.choices:
        raise UpstreamBroken("the model's answer has no choices", retryable=True)
    usage = _usage(answer.usage or (answer.x_groq.usage if answer.x_groq is not None else None))
    finished = []
    for at, choice in enumerate(sorted(answer.choices, key=lambda choice: choice.index)):
        turn = _read_message(choice.message, choice.finish_reason, naming, at)
        logprobs = choice.logprobs.copy() if choice.logprobs != NULL else NULL
        finished.append(ModelFinished(turn, usage, logprobs))
        usage = NO_USAGE
    return finished


def _read_message(raw: Raw, finish_reason: str | None, naming: Naming, choice: int) -> AssistantTurn:
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
    odd = is_list
    said: list[ToolCall] = []
    for call in message.tool_calls or ():
        function = call.function or FunctionPiece()
        odd = odd or call.extra_content != NULL or call.custom != NULL
        said.append(ToolCall(call.id or "", function.name or "", text_of(function.arguments)))
    calls = naming.own(said, choice)
    parts += calls
    if message.function_call is not None and message.function_call.name:
        parts.append(ToolCall("", message.function_call.name, text_of(message.function_call.arguments)))
    odd = odd or any(name not in _REPRODUCED and bytes(value) not in _NOTHING for name, value in members.items())
    odd = odd or any(len(call.id) > LONG_ID for call in calls)
    native = None
    if odd and all(call.id == one.id for call, one in zip(calls, said, strict=True)):
        # A Raw is a view that would keep the whole response body alive, hence the copy.
        native = Native(naming.api, raw.copy())
    elif odd:
        native = Native(naming.api, Raw(encode({**members, "tool_calls": _with_ids(members["tool_calls"], calls)})))
    return AssistantTurn(tuple(parts), _stop(finish_reason, parts), native)


def _with_ids(raw: Raw, calls: Sequence[ToolCall]) -> list[dict[str, Any]]:
    """An upstream's own calls, those without an id under the one their results will come back with."""
    said = msgspec.json.decode(raw, type=list[dict[str, Raw]])
    return [{**one, "id": call.id} for one, call in zip(said, calls, strict=True)]


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


class _ChoiceReader:
    """The chunks of one choice."""

    __slots__ = (
        "calls",
        "details",
        "finish_reason",
        "logprobs",
        "more",
        "naming",
        "number",
        "refused",
        "said",
        "thought",
        "thought_as",
    )

    def __init__(self, naming: Naming, number: int) -> None:
        self.naming = naming
        self.number = number
        self.more: dict[str, Raw] = {}  # what else the upstream says of the message, and wants back
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
            self._add_calls(delta.tool_calls, out)
        if delta.refusal:
            self.refused.append(delta.refusal)
            out.append(RefusalDelta(delta.refusal))
        if delta.function_call is not None and (delta.function_call.name or delta.function_call.arguments):
            self._add_calls([CallPiece(delta.function_call)], out)
        if delta.reasoning_details:
            self.details += [detail.copy() for detail in delta.reasoning_details]
        if delta.extra_content != NULL:
            self.more["extra_content"] = delta.extra_content.copy()
        if delta.thought_signature != NULL:
            self.more["thought_signature"] = delta.thought_signature.copy()
        if choice.logprobs != NULL:
            self.logprobs.append(choice.logprobs.copy())
            out.append(LogprobsDelta(self.logprobs[-1]))

    @property
    def is_empty(self) -> bool:
        return self.finish_reason is None and not (self.said or self.thought or self.refused or self.calls)

    def _add_calls(self, pieces: list[CallPiece], out: list[Preview]) -> None:
        if self.calls is None:
            self.calls = CallAssembler()
        names = self.naming.names
        for piece in pieces:
            if (shown := self.calls.add(piece)) is not None:
                if names and shown.name in names:
                    shown = CallDelta(shown.index, shown.id, names[shown.name], shown.arguments)
                out.append(shown)

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
            parts += self.naming.own(self.calls.calls(), self.number)
        turn = AssistantTurn(tuple(parts), _stop(self.finish_reason, parts))
        if native := self._native(turn):
            turn = AssistantTurn(turn.parts, turn.stop, Native(self.naming.api, native))
        return ModelFinished(turn, usage, join_logprobs(self.logprobs))

    def _native(self, turn: AssistantTurn) -> Raw | None:
        """The message as a plain answer would have held it, where parts alone could not say it again."""
        records = self.calls.named if self.calls is not None else []
        is_plain = not any(record.extra != NULL or len(record.id) > LONG_ID for record in records)
        if is_plain and not self.thought and not self.details and not self.more:
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
            message["tool_calls"] = [
                _call_again(call, record.name, record.extra) for call, record in zip(calls, records, strict=True)
            ]
        return Raw(encode({**message, **self.more}))


def _call_again(call: ToolCall, name: str, extra: Raw) -> dict[str, Any]:
    said = {"id": call.id, "type": "function", "function": {"name": name, "arguments": call.arguments}}
    return said if extra == NULL else {**said, "extra_content": extra}


class Reader:
    """A stream, one socket read at a time: previews of choice 0 out of `feed`, the whole turn out of `finish`.

    With `choices` > 1 the previews of the others are taken with `take_aside` after every feed.
    """

    __slots__ = ("_aside", "_choices", "_done", "_failure", "_halves", "_sse", "_usage")

    def __init__(self, choices: int = 1, naming: Naming = NOBODY) -> None:
        self._sse = SseReader()
        self._halves = Halves()
        self._choices = [_ChoiceReader(naming, number) for number in range(choices)]
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
                chunk = _decode_chunk(self._halves.mend(frame))
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
