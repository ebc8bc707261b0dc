"""A whole answer → parts, usage, why it stopped, and the content to send back.

`Usage.input` counts every token that went in: Anthropic counts what it read from a cache, and what it wrote to one, apart.
`Usage.cached` is what was read.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec import Raw, Struct

from ronda.core.events import ModelFinished
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
from ronda.errors import UpstreamBroken
from ronda.wire.anthropic import API
from ronda.wire.anthropic.errors import envelope_error
from ronda.wire.anthropic.names import NO_NAMES, Names
from ronda.wire.codec.json import UNREADABLE, encode
from ronda.wire.codec.lenient import decoder
from ronda.wire.codec.surrogates import mend_surrogates
from ronda.wire.upstream.errors import is_error
from ronda.wire.upstream.stop_reasons import stop_with

if TYPE_CHECKING:
    from ronda.schema.lower import LoweredSchema


class UsageSaid(Struct, frozen=True, gc=False):
    input_tokens: int | None = None
    output_tokens: int | None = None
    cache_creation_input_tokens: int | None = None
    cache_read_input_tokens: int | None = None
    output_tokens_details: _OutputDetails | None = None

    def then(self, later: UsageSaid) -> UsageSaid:
        """Counts in a stream are cumulative: what is said later holds, what is not said again stays."""
        return UsageSaid(
            *[
                old if new is None else new
                for old, new in zip(msgspec.structs.astuple(self), msgspec.structs.astuple(later), strict=True)
            ]
        )

    def counted(self) -> Usage:
        cached = self.cache_read_input_tokens or 0
        details = self.output_tokens_details
        return Usage(
            (self.input_tokens or 0) + (self.cache_creation_input_tokens or 0) + cached,
            self.output_tokens or 0,
            cached,
            (details.thinking_tokens or 0) if details is not None else 0,
            cache_written=self.cache_creation_input_tokens or 0,
        )


class _OutputDetails(Struct, frozen=True, gc=False):
    thinking_tokens: int | None = None


class StopDetails(Struct, frozen=True, gc=False):
    explanation: str | None = None


class Container(Struct, frozen=True, gc=False):
    id: str | None = None


class _Message(Struct, frozen=True, gc=False):
    type: str | None = None
    content: Raw = NULL
    stop_reason: str | None = None
    stop_sequence: str | None = None
    stop_details: StopDetails | None = None
    usage: UsageSaid | None = None
    container: Container | None = None
    error: Raw = NULL


_decode_message = decoder(_Message)
_decode_blocks = msgspec.json.Decoder(list[dict[str, Raw]]).decode
_decode_text = msgspec.json.Decoder(str | None).decode

# Blocks our own writer says in the same way, if they have no other members.
_TEXT: Final = frozenset({"type", "text"})
CALL: Final = frozenset({"type", "id", "name", "input"})

_STOPS: Final[dict[str, Stop]] = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "tool_use": "tool_calls",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "pause_turn": "length",  # paused once too often: what is here is not all
    "refusal": "content_filter",
}


class Block(Struct):
    """One block by its members. `arguments` is what the model wrote, where the members cannot hold it."""

    members: dict[str, Raw]
    arguments: str | None = None

    def text(self, name: str) -> str:
        return _decode_text(self.members[name]) or "" if name in self.members else ""

    @property
    def kind(self) -> str:
        if not (kind := self.text("type")):  # no client could read it, nor would the API take it back
            raise UpstreamBroken("a block of the model's answer has no type", retryable=True)
        return kind


class Answer(Struct, frozen=True):
    """`content` is what goes back to go on from here; a `paused` answer must be gone on from at once."""

    finished: ModelFinished
    content: Raw
    paused: bool = False
    container: str | None = None


def read_plain(body: bytes, names: Names = NO_NAMES) -> ModelFinished:
    """A whole answer."""
    return read_answer(body, names).finished


def read_answer(body: bytes, names: Names = NO_NAMES) -> Answer:
    try:
        message = _decode_message(mend_surrogates(body))
        if is_error(message.error):
            raise envelope_error(bytes(message.error))
        if message.content == NULL:
            raise UpstreamBroken("the model's answer has no content", retryable=True)
        blocks = [Block(members) for members in _decode_blocks(message.content)]
        explanation = message.stop_details.explanation if message.stop_details is not None else None
        usage = message.usage.counted() if message.usage is not None else NO_USAGE
        container = message.container.id if message.container is not None else None
        sequence = message.stop_sequence
        return finish(blocks, message.stop_reason, explanation, usage, container, names, message.content, sequence)
    except UNREADABLE as error:
        raise UpstreamBroken(f"the model's answer is not a message: {error}", retryable=True) from error


def finish(
    blocks: Sequence[Block],
    stop_reason: str | None,
    explanation: str | None,
    usage: Usage,
    container: str | None,
    names: Names,
    raw: Raw = NULL,
    stop_sequence: str | None = None,
) -> Answer:
    """`raw` is the content as it came, where it came whole."""
    parts: list[AssistantPart] = []
    back: list[dict[str, Raw]] = []
    as_written = True  # our writer would say the same
    for block in blocks:
        kind = block.kind
        if kind == "text":
            text = block.text("text")
            after_call = bool(parts) and type(parts[-1]) is ToolCall
            as_written = as_written and not after_call and block.members.keys() <= _TEXT and bool(text.strip())
            if not text:
                continue  # "text content blocks must be non-empty", also those the API itself wrote
            parts.append(Text(text))
        elif kind == "tool_use":
            call, is_plain = _call(block, names)
            parts.append(call)
            as_written = as_written and is_plain
        elif kind == "thinking":
            as_written = False
            if thought := block.text("thinking"):
                parts.append(Reasoning(thought))
            if not block.text("signature"):
                continue  # cut off before it was signed: refused if it came back
        else:
            as_written = False
        back.append(block.members)
    stop = stop_with(_STOPS.get(stop_reason or "end_turn", "stop"), parts)
    if stop == "content_filter" and explanation:
        parts.append(Refusal(explanation))
        as_written = False
    # A Raw is a view that would keep the whole response body alive, hence the copy.
    content = raw.copy() if raw != NULL and len(back) == len(blocks) else Raw(encode(back))
    needs_container = container is not None and stop == "tool_calls"
    if needs_container:
        native = Native(API, Raw(encode({"content": content, "container": container})))
    else:
        native = Native(API, content)
    turn = AssistantTurn(tuple(parts), stop, None if as_written and not needs_container else native, stop_sequence)
    return Answer(ModelFinished(turn, usage), content, stop_reason == "pause_turn", container)


def _call(block: Block, names: Names) -> tuple[ToolCall, bool]:
    wire = block.text("name")
    arguments = block.arguments
    if arguments is None:
        arguments = bytes(block.members.get("input", b"{}")).decode()
    restored = names.restore(wire, arguments)
    is_plain = block.arguments is None and restored == arguments and block.members.keys() <= CALL
    if bytes(block.members.get("input", b""))[:1] != b"{":
        is_plain = False
    return ToolCall(block.text("id"), names.tool(wire), restored), is_plain


def under_own_names(finished: ModelFinished, form: LoweredSchema | None) -> ModelFinished:
    """An answer in a form whose properties had to be called something else, as the caller asked for it."""
    turn = finished.turn
    if form is None or not form.names or turn.calls or not turn.text:
        return finished
    try:
        decoded = form.restore(msgspec.json.decode(turn.text, type=dict[str, Any]))
    except UNREADABLE:
        return finished  # cut off: what is wrong with it is found where answers are checked
    parts = [part for part in turn.parts if type(part) is not Text]
    native = turn.native or Native(API, Raw(encode([{"type": "text", "text": turn.text}])))
    restored = AssistantTurn((*parts, Text(encode(decoded).decode())), turn.stop, native)
    return msgspec.structs.replace(finished, turn=restored)


def join_answers(answers: Sequence[Answer]) -> ModelFinished:
    """The pieces of a turn that paused, as the one turn it is."""
    if len(answers) == 1:
        return answers[0].finished
    parts = tuple([part for answer in answers for part in answer.finished.turn.parts])
    usage = NO_USAGE
    for answer in answers:
        usage = usage + answer.finished.usage
    last = answers[-1]
    content = Raw(encode([raw for answer in answers for raw in msgspec.json.decode(answer.content, type=list[Raw])]))
    if last.container is not None and last.finished.turn.stop == "tool_calls":
        content = Raw(encode({"content": content, "container": last.container}))
    end = last.finished.turn
    return ModelFinished(AssistantTurn(parts, end.stop, Native(API, content), end.stop_sequence), usage)
