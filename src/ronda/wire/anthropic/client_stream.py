"""A stream of events, one socket read at a time → previews, and the message a plain answer would have been.

A block is put together from its start and its deltas in the order and with the members it began with, so that what goes
back is what the plain answer would have held. Nothing is trusted to come: a delta whose start was lost begins its block.
"""

from __future__ import annotations

from typing import Final

import msgspec
from msgspec import Raw, Struct

from ronda.core.events import CallDelta, ModelFinished, NativeDelta, Preview, ReasoningDelta, RefusalDelta, TextDelta
from ronda.core.parts import NULL
from ronda.errors import UpstreamBroken
from ronda.wire.anthropic import API
from ronda.wire.anthropic.client_answer import CALL, Answer, Block, Container, StopDetails, UsageSaid, finish
from ronda.wire.anthropic.errors import envelope_error
from ronda.wire.anthropic.names import NO_NAMES, Names
from ronda.wire.anthropic.turns import INVALID_JSON
from ronda.wire.codec.json import UNREADABLE, decode_members, encode
from ronda.wire.codec.lenient import read_leniently
from ronda.wire.upstream.stream import JsonStream, cut_short


class _Delta(Struct, frozen=True, gc=False):
    type: str | None = None
    text: str | None = None
    thinking: str | None = None
    signature: str | None = None
    partial_json: str | None = None
    citation: Raw = NULL
    content: Raw = NULL  # of a compaction, as are the next two
    encrypted_content: Raw = NULL
    tool_changes: Raw = NULL
    stop_reason: str | None = None
    stop_sequence: str | None = None
    stop_details: StopDetails | None = None
    container: Container | None = None


class _StartedMessage(Struct, frozen=True, gc=False):
    id: str | None = None
    usage: UsageSaid | None = None


class _Event(Struct, frozen=True, gc=False):
    type: str | None = None
    index: int = 0
    delta: _Delta | None = None
    content_block: Raw = NULL
    message: _StartedMessage | None = None
    usage: UsageSaid | None = None
    error: Raw = NULL


_decode = msgspec.json.Decoder(_Event).decode

# A delta whose block was never started begins one of this kind.
_KINDS: Final = {"text_delta": "text", "thinking_delta": "thinking", "signature_delta": "thinking"}


class _Growing:
    """A block as far as it has come."""

    __slots__ = ("block", "call", "citations", "id", "input", "kind", "name", "signature", "texts", "thought")

    def __init__(self, members: dict[str, Raw]) -> None:
        self.block = Block(members)
        self.kind = self.block.kind
        self.call: int | None = None  # which of the turn's calls this is
        self.id = self.name = ""
        self.texts: list[str] = []
        self.thought: list[str] = []
        self.signature = ""
        self.input: list[str] = []
        self.citations: list[Raw] = []

    @property
    def arguments(self) -> str:
        """What the model wrote; where it wrote nothing, what the block began with."""
        written = "".join(self.input)
        return written or bytes(self.block.members.get("input", b"{}")).decode()

    def compact(self, delta: _Delta) -> None:
        """Members of a summary of earlier turns: they are sent back to the API as they are."""
        for name in ("content", "encrypted_content", "tool_changes"):
            if (value := getattr(delta, name)) != NULL:
                self.block.members[name] = value.copy()
        self.signature = delta.signature or self.signature

    def whole(self) -> Block:
        members = self.block.members
        if self.texts:
            members["text"] = Raw(encode("".join(self.texts)))
        if self.thought:
            members["thinking"] = Raw(encode("".join(self.thought)))
        if self.signature:
            members["signature"] = Raw(encode(self.signature))
        if self.citations:
            members["citations"] = Raw(encode(self.citations))
        if self.input and self.kind != "text":
            arguments = self.arguments
            try:
                decode_members(arguments)
                members["input"] = Raw(arguments.encode())
            except UNREADABLE:  # cut by length, or written unchecked
                members["input"] = Raw(encode({INVALID_JSON: arguments}))
                self.block.arguments = arguments
        return self.block


class Reader(JsonStream):
    """Previews out of `feed`, the whole turn out of `finish`.

    `first_call` is the number of calls a turn that paused has made already.
    """

    __slots__ = (
        "_blocks", "_calls", "_container", "_done", "_explanation", "_id", "_names", "_started", "_stop_reason",
        "_stop_sequence", "_told_twice", "_usage",
    )  # fmt: skip

    def __init__(self, names: Names = NO_NAMES, first_call: int = 0) -> None:
        super().__init__()
        self._names = names
        self._blocks: dict[int, _Growing] = {}
        self._calls = first_call
        self._usage = UsageSaid()
        self._stop_reason: str | None = None
        self._stop_sequence: str | None = None
        self._explanation: str | None = None
        self._container: str | None = None
        self._started = self._done = False
        self._id: str | None = None
        self._told_twice: set[int] = set()  # blocks that were here when the start of the message came once more

    def finish(self) -> ModelFinished:
        return self.answer().finished

    def answer(self) -> Answer:
        self._must_be_sound()
        if self._stop_reason is None and not self._done:
            raise cut_short()
        blocks = [self._blocks[index].whole() for index in sorted(self._blocks)]
        usage = self._usage.counted()
        reason, sequence = self._stop_reason, self._stop_sequence
        return finish(blocks, reason, self._explanation, usage, self._container, self._names, NULL, sequence)

    def _read_into(self, out: list[Preview], frames: list[bytes]) -> None:
        for frame in frames:
            if frame and frame != b"[DONE]":
                frame = self._halves.mend(frame)
                try:
                    event = _decode(frame)
                except msgspec.DecodeError as error:
                    event = read_leniently(frame, _Event, error)
                self._read_event(event, out)

    def _read_event(self, event: _Event, out: list[Preview]) -> None:
        match event.type:
            case "content_block_delta" if event.delta is not None:
                self._grow(event.index, event.delta, out)
            case "content_block_start":
                if event.index in self._told_twice:  # a proxy has begun again: this would be laid over what is here
                    raise _second_message()
                self._begin(event.index, decode_members(event.content_block), out)
            case "content_block_stop":
                self._end(event.index, out)
            case "message_start":
                self._start(event.message)
            case "message_delta":
                self._end_message(event, out)
            case "message_stop":
                self._done = True
            case "error":
                raise envelope_error(bytes(event.error))
            case _:  # ping, and whatever comes to mind next: "new event types may be added"
                if event.error != NULL:
                    raise envelope_error(bytes(event.error))

    def _start(self, message: _StartedMessage | None) -> None:
        message_id = message.id if message is not None else None
        if self._started:
            if message_id is None or message_id != self._id:  # a proxy has mixed two answers
                raise _second_message()
            self._told_twice = set(self._blocks)
        self._started, self._id = True, message_id
        if message is not None and message.usage is not None:
            self._usage = self._usage.then(message.usage)

    def _begin(self, index: int, members: dict[str, Raw], out: list[Preview]) -> _Growing:
        # A Raw is a view that would keep the whole read alive, hence the copies.
        growing = self._blocks[index] = _Growing({name: value.copy() for name, value in members.items()})
        if growing.kind == "tool_use":
            growing.call, self._calls = self._calls, self._calls + 1
            growing.id, growing.name = growing.block.text("id"), self._names.tool(growing.block.text("name"))
            if not members.keys() <= CALL:
                out.append(_native(growing.block.members))
            out.append(CallDelta(growing.call, growing.id, growing.name, ""))
        elif growing.kind == "text":
            if (before := self._blocks.get(index - 1)) is not None and before.kind == "text":
                out.append(_native({"type": Raw(b'"text"')}))  # another one, not more of the same
            if text := growing.block.text("text"):
                growing.texts.append(text)
                out.append(TextDelta(text))
        elif growing.kind == "thinking" and (thought := growing.block.text("thinking")):
            growing.thought.append(thought)
            out.append(ReasoningDelta(thought))
        return growing

    def _grow(self, index: int, delta: _Delta, out: list[Preview]) -> None:
        growing = self._blocks.get(index)
        if growing is None:
            kind = _KINDS.get(delta.type or "")
            if kind is None:
                return
            growing = self._begin(index, {"type": Raw(encode(kind))}, out)
        if delta.text:
            growing.texts.append(delta.text)
            out.append(TextDelta(delta.text))
        elif delta.partial_json:
            growing.input.append(delta.partial_json)
            if growing.call is not None and not self._is_renamed(growing):
                out.append(CallDelta(growing.call, growing.id, growing.name, delta.partial_json))
        elif delta.thinking:
            growing.thought.append(delta.thinking)
            out.append(ReasoningDelta(delta.thinking))
        elif delta.type == "compaction_delta":
            growing.compact(delta)
        elif delta.signature:
            growing.signature += delta.signature
        elif delta.citation != NULL:
            growing.citations.append(delta.citation.copy())
            out.append(_native({"type": Raw(b'"citations_delta"'), "citation": growing.citations[-1]}))

    def _end(self, index: int, out: list[Preview]) -> None:
        """Arguments that were not shown yet: none were written, or they must be read whole to be understood."""
        growing = self._blocks.get(index)
        if growing is not None and growing.kind not in ("text", "tool_use"):
            if growing.kind != "thinking":  # of no kind that has previews of its own: shown when it is whole
                out.append(_native(growing.whole().members))
            elif signature := growing.signature or growing.block.text("signature"):
                out.append(_native({"type": Raw(b'"thinking"'), "signature": Raw(encode(signature))}))
        if growing is None or growing.call is None:
            return
        renamed = self._is_renamed(growing)
        if renamed or not growing.input:
            arguments = self._names.restore(growing.block.text("name"), growing.arguments)
            out.append(CallDelta(growing.call, growing.id, growing.name, arguments))

    def _is_renamed(self, growing: _Growing) -> bool:
        return bool(self._names.changed) and growing.block.text("name") in self._names.changed

    def _end_message(self, event: _Event, out: list[Preview]) -> None:
        if event.usage is not None:
            self._usage = self._usage.then(event.usage)
        delta = event.delta
        if delta is None:
            return
        if delta.stop_reason is not None:
            self._stop_reason, self._stop_sequence = delta.stop_reason, delta.stop_sequence
        if delta.container is not None:
            self._container = delta.container.id
        if delta.stop_details is not None and delta.stop_details.explanation and self._stop_reason == "refusal":
            self._explanation = delta.stop_details.explanation
            out.append(RefusalDelta(self._explanation))


def _second_message() -> UpstreamBroken:
    return UpstreamBroken("the model's stream began a second message inside the first", retryable=True)


def _native(members: dict[str, Raw]) -> NativeDelta:
    """What a block holds beyond text, thoughts and calls. See `server_answer`, which shows it to clients of this dialect."""
    return NativeDelta(API, Raw(encode(members)))
