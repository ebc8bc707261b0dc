"""Chat Completions as its client, the way back: answer bytes → previews and one finished turn.

Pure: no socket, no clock. `Reader` reads a stream one socket read at a time, `read_plain` a whole answer; both end in the same
parts. It knows the dialect and its many speakers' habits, not who is at the other end. What is sent is in `client_request`.
"""

from __future__ import annotations

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
    Text,
    ToolCall,
    Usage,
)
from ronda.wire.codec.json import encode
from ronda.wire.codec.lenient import read_leniently
from ronda.wire.openai_chat.calls import LONG_ID, CallAssembler, CallPiece
from ronda.wire.openai_chat.client_plain import (
    NO_NAMING,
    Delta,
    Groq,
    Naming,
    Piece,
    UsageSaid,
    content_parts,
    stop_of,
    usage_of,
)
from ronda.wire.openai_chat.client_plain import read_choices as read_choices
from ronda.wire.openai_chat.client_plain import read_message as read_message
from ronda.wire.openai_chat.client_plain import read_plain as read_plain
from ronda.wire.openai_chat.client_text import decode_text
from ronda.wire.upstream.errors import bare_error, envelope_error, is_error
from ronda.wire.upstream.logprobs import join_logprobs
from ronda.wire.upstream.stream import ChoicesStream, cut_short

_MISSES: Final = 8  # chunks that were taken for nothing but text and were not, after which none is


class _ChunkChoice(Struct, frozen=True, gc=False):
    delta: Delta | None = None
    message: Raw = NULL
    finish_reason: str | None = None
    index: int | None = 0
    logprobs: Raw = NULL


class _Chunk(Struct, frozen=True, gc=False):
    choices: list[_ChunkChoice] | None = None
    usage: UsageSaid | None = None
    x_groq: Groq | None = None
    error: Raw = NULL


_decode_chunk = msgspec.json.Decoder(_Chunk).decode


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
        "texts",
        "thought",
        "thought_as",
    )

    def __init__(self, naming: Naming, number: int) -> None:
        self.naming = naming
        self.number = number
        self.more: dict[str, Raw] = {}  # what else the upstream says of the message, and wants back
        self.texts: list[str] = []
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
            # A whole message in one frame, from servers that only seem to stream. Others repeat all of it at the end.
            if choice.message == NULL or self.texts or self.thought or self.refused or self.calls:
                return
            delta = read_message(choice.message)
        if content := delta.content:
            if isinstance(content, str):
                self.texts.append(content)
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
        # What is not there is this very NULL; a server may also write that it is not there.
        if delta.extra_content is not NULL and delta.extra_content != NULL:
            self.more["extra_content"] = delta.extra_content.copy()
        if delta.thought_signature is not NULL and delta.thought_signature != NULL:
            self.more["thought_signature"] = delta.thought_signature.copy()
        if choice.logprobs is not NULL and choice.logprobs != NULL:
            self.logprobs.append(choice.logprobs.copy())
            out.append(LogprobsDelta(self.logprobs[-1]))

    @property
    def is_empty(self) -> bool:
        return self.finish_reason is None and not (self.texts or self.thought or self.refused or self.calls)

    def _add_calls(self, pieces: list[CallPiece], out: list[Preview]) -> None:
        if self.calls is None:
            self.calls = CallAssembler()
        names = self.naming.names
        for piece in pieces:
            if (shown := self.calls.add(piece)) is not None:
                if names and shown.name in names:
                    shown = CallDelta(shown.index, shown.id, names[shown.name], shown.arguments)
                out.append(shown)

    def _add_list(self, content: list[Piece], out: list[Preview]) -> None:
        for part in content_parts(content):
            if type(part) is Text:
                self.texts.append(part.text)
                out.append(TextDelta(part.text))
            elif type(part) is Reasoning:
                self.thought.append(part.text)
                self.thought_as = "content"  # Mistral, which refuses a message with any name for it besides content
                out.append(ReasoningDelta(part.text))

    def finish(self, usage: Usage) -> ModelFinished:
        parts: list[AssistantPart] = []
        if self.thought:
            parts.append(Reasoning("".join(self.thought)))
        if self.texts:
            parts.append(Text("".join(self.texts)))
        if self.refused:
            parts.append(Refusal("".join(self.refused)))
        if self.calls is not None:
            parts += self.naming.own(self.calls.calls(), self.number)
        turn = AssistantTurn(tuple(parts), stop_of(self.finish_reason, parts))
        if native := self._native(turn):
            turn = AssistantTurn(turn.parts, turn.stop, Native(self.naming.api, native))
        return ModelFinished(turn, usage, join_logprobs(self.logprobs))

    def _native(self, turn: AssistantTurn) -> Raw | None:
        """The message as a plain answer would have held it, where parts could not say all of it again."""
        records = self.calls.named if self.calls is not None else []
        is_plain = not any(record.extra != NULL or len(record.id) > LONG_ID for record in records)
        if is_plain and not self.thought and not self.details and not self.more:
            return None
        message: dict[str, Any] = {"role": "assistant", "content": turn.text or None}
        if self.thought and self.thought_as == "content":
            thinking = [{"type": "text", "text": turn.reasoning}]
            texts = [{"type": "text", "text": turn.text}] if self.texts else []
            message["content"] = [{"type": "thinking", "thinking": thinking}, *texts]
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
    fields = {"id": call.id, "type": "function", "function": {"name": name, "arguments": call.arguments}}
    return fields if extra == NULL else {**fields, "extra_content": extra}


class Reader(ChoicesStream):
    """A stream of one or more choices."""

    __slots__ = ("_choices", "_done", "_is_text", "_misses", "_usage")

    def __init__(self, choices: int = 1, naming: Naming = NO_NAMING) -> None:
        super().__init__(choices)
        self._is_text = True  # so that the next chunk, too, will be nothing but text
        self._misses = 0
        self._choices = [_ChoiceReader(naming, number) for number in range(choices)]
        self._usage: UsageSaid | None = None
        self._done = False

    def _read_into(self, out: list[Preview], frames: list[bytes]) -> None:
        first = self._choices[0]
        for frame in frames:
            if frame == b"[DONE]" or not frame:
                self._done = self._done or bool(frame)
                continue
            if self._is_text:
                try:
                    [choice] = decode_text(frame).choices
                except msgspec.DecodeError:
                    self._is_text = False
                    self._misses += 1
                else:
                    if text := choice.delta.content:
                        first.texts.append(text)
                        out.append(TextDelta(text))
                    if choice.finish_reason:
                        first.finish_reason = choice.finish_reason
                    continue
            self._read_chunk(frame, out)

    def _read_chunk(self, frame: bytes, out: list[Preview]) -> None:
        """Any chunk: of any choice, with anything in it."""
        frame = self._halves.mend(frame)
        try:
            chunk = _decode_chunk(frame)
        except msgspec.DecodeError as error:
            if frame.strip() == b"[DONE]":
                self._done = True
                return
            chunk = read_leniently(frame, _Chunk, error)
        if chunk.usage is not None:
            self._usage = chunk.usage
        elif chunk.x_groq is not None and chunk.x_groq.usage is not None:
            self._usage = chunk.x_groq.usage
        if chunk.error is not NULL and is_error(chunk.error):
            raise envelope_error(bytes(chunk.error))
        if chunk.choices:
            for choice in chunk.choices:
                index = choice.index or 0
                if index == 0:
                    self._choices[0].add(choice, out)
                    self._is_text = self._misses < _MISSES and bool(out) and type(out[-1]) is TextDelta
                elif 0 < index < len(self._choices):
                    self._choices[index].add(choice, self._aside[index - 1])
        elif chunk.choices is None and (failure := bare_error(frame)) is not None:
            raise failure

    def finish_all(self) -> list[ModelFinished]:
        self._must_be_sound()
        usage = usage_of(self._usage)
        finished = []
        for index, choice in enumerate(self._choices):
            if index and choice.is_empty:
                break  # the upstream does not know `n`
            if choice.finish_reason is None and not self._done:
                raise cut_short()
            finished.append(choice.finish(usage))
            usage = NO_USAGE
        return finished
