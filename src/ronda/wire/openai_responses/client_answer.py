"""Output items → the parts of a turn, its usage, and why it stopped.

A message's texts and refusals, a reasoning item's thoughts, and calls that the caller must answer (functions, and the items of
`waiting`) are parts. Everything
else an upstream did by itself (searches, code, its own MCP calls) is no part of the conversation for other upstreams, and is
kept for the upstream only: the turn's own JSON is the whole list of items, byte for byte.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

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
from ronda.wire.codec.json import UNREADABLE, encode, text_of
from ronda.wire.codec.lenient import decoder
from ronda.wire.codec.surrogates import mend_surrogates
from ronda.wire.openai_chat.names import NO_NAMES
from ronda.wire.openai_responses import API
from ronda.wire.openai_responses.client_calls import WAITING, Place, arguments_of, waits
from ronda.wire.openai_responses.failures import Failure, upstream_error
from ronda.wire.upstream.errors import envelope_error, is_error
from ronda.wire.upstream.stop_reasons import stop_with

BREAK = "\n\n"  # between two thoughts, which are paragraphs with a heading each


class Content(Struct, frozen=True, gc=False):
    type: str = ""
    text: str | None = None
    refusal: str | None = None
    logprobs: list[Raw] | None = None
    annotations: list[Raw] | None = None


class Item(Struct, frozen=True, gc=False):
    """An output item that is a part of the conversation, as far as it is read."""

    type: str
    id: str | None = None
    role: str | None = None
    content: list[Content] | None = None
    summary: list[Content] | None = None
    call_id: str | None = None
    name: str | None = None
    arguments: str | dict[str, Raw] | None = None
    input: str | None = None

    @property
    def is_call(self) -> bool:
        return self.type in CALLS or self.type in WAITING

    @property
    def arguments_text(self) -> str:
        return (self.input or "") if self.type == "custom_tool_call" else text_of(self.arguments)

    def texts(self) -> list[str]:
        return [one.text for one in self.content or () if one.type != "refusal" and one.text]

    def refusals(self) -> list[str]:
        return [one.refusal for one in self.content or () if one.type == "refusal" and one.refusal]

    @property
    def is_annotated(self) -> bool:
        return any(one.annotations for one in self.content or ())

    def thoughts(self) -> list[str]:
        """The thoughts themselves where the upstream shows them, else its summary of them."""
        return self.texts() or [one.text for one in self.summary or () if one.text]


class Kind(Struct, frozen=True, gc=False):
    """What an item is; any item has this much."""

    type: str = ""
    id: str | None = None
    call_id: str | None = None
    encrypted_content: str | None = None  # of reasoning


# What the caller answers → in what it answers.
CALLS = {"function_call": "function_call_output", "custom_tool_call": "custom_tool_call_output"}
_READ = frozenset({"message", "reasoning", *CALLS})


class _InputDetails(Struct, frozen=True, gc=False):
    cached_tokens: int | None = None


class _OutputDetails(Struct, frozen=True, gc=False):
    reasoning_tokens: int | None = None


class _Usage(Struct, frozen=True, gc=False):
    input_tokens: int | None = None
    output_tokens: int | None = None
    input_tokens_details: _InputDetails | None = None
    output_tokens_details: _OutputDetails | None = None


class _Incomplete(Struct, frozen=True, gc=False):
    reason: str | None = None


class Response(Struct, frozen=True, gc=False):
    status: str | None = None
    output: Raw = NULL
    usage: _Usage | None = None
    error: Raw = NULL
    incomplete_details: _Incomplete | None = None


decode_kind = decoder(Kind)
decode_raws = msgspec.json.Decoder(list[Raw]).decode
_decode_item = decoder(Item)
decode_place = msgspec.json.Decoder(Place).decode
_decode_response = decoder(Response)
_decode_failure = msgspec.json.Decoder(Failure).decode


def read_plain(body: bytes, names: Mapping[str, str] = NO_NAMES) -> ModelFinished:
    """A whole answer. `names`: what a tool is called there → its own name, where they differ."""
    response = read_response(mend_surrogates(body))
    if is_error(response.error) and response.status is None:
        raise envelope_error(bytes(response.error))  # no response at all, but an envelope with an error
    if response.output == NULL and response.error == NULL:
        raise UpstreamBroken("the model's answer has no output", retryable=True)
    return finish(response, response.output, names)


def read_response(body: bytes | Raw) -> Response:
    try:
        return _decode_response(body)
    except UNREADABLE as error:
        raise UpstreamBroken(f"the model's answer is not a response: {error}", retryable=True) from error


def finish(response: Response, output: Raw, names: Mapping[str, str]) -> ModelFinished:
    """A response that has come to an end, with what is to be kept as its output; an error if it ended badly."""
    stop = _stop(response)
    # A Raw is a view that would keep the whole response body alive, hence the copy.
    native = Native(API, output.copy())
    raws = split(native.payload)
    parts, logprobs = read_items(raws, names)
    turn = AssistantTurn(tuple(parts), stop_with(stop, parts), native if raws else None)
    return ModelFinished(turn, _usage(response.usage), logprobs_json(logprobs) if logprobs else NULL)


def split(output: Raw) -> list[Raw]:
    try:
        return decode_raws(output)
    except UNREADABLE as error:
        raise UpstreamBroken(f"the model's output cannot be read: {error}", retryable=True) from error


def read_items(raws: Sequence[Raw], names: Mapping[str, str]) -> tuple[list[AssistantPart], list[Raw]]:
    """The parts that items come to, and the token probabilities of their texts."""
    parts: list[AssistantPart] = []
    logprobs: list[Raw] = []
    thought = False
    for raw in raws:
        item = read_item(raw)
        if item is None:
            continue
        if item.type == "reasoning":
            if text := BREAK.join(item.thoughts()):
                parts.append(Reasoning(BREAK + text if thought else text))
                thought = True
        elif item.is_call:
            name = item.name or ""
            parts.append(ToolCall(item.call_id or "", names.get(name, name), item.arguments_text))
        else:
            for one in item.content or ():
                if one.type == "refusal":
                    if one.refusal:
                        parts.append(Refusal(one.refusal))
                elif one.text:
                    parts.append(Text(one.text))
                logprobs += one.logprobs or ()
    return parts, logprobs


def read_item(raw: Raw) -> Item | None:
    """None for what the model did not say, in whatever shape: new kinds of items come every month."""
    try:
        kind = decode_kind(raw)
        if kind.type in WAITING:
            return _waiting(kind, raw) if waits(decode_place(raw)) else None
        item = _decode_item(raw) if kind.type in _READ else None
    except UNREADABLE as error:
        raise UpstreamBroken(f"an item of the model's answer cannot be read: {error}", retryable=True) from error
    # A compacted conversation comes with the user's messages in it.
    return item if item is None or item.role in ("assistant", None) else None


def is_service_item(kind: Kind) -> bool:
    """What the service did by itself, where `read_item` finds nothing that the model said."""
    return bool(kind.type) and kind.type not in _READ


def _waiting(kind: Kind, raw: Raw) -> Item:
    call_id = kind.call_id or kind.id  # an approval is known by its item's id
    return Item(kind.type, kind.id, call_id=call_id, name=WAITING[kind.type].tool, arguments=arguments_of(raw))


def _stop(response: Response) -> Stop:
    match response.status:
        case "completed" | None if not is_error(response.error):
            return "stop"
        case "incomplete":
            reason = response.incomplete_details.reason if response.incomplete_details is not None else None
            return "content_filter" if reason == "content_filter" else "length"
        case "queued" | "in_progress":
            raise UpstreamBroken(
                f"the model's answer is not finished but {response.status}: background responses are not waited for"
            )
        case "cancelled" if response.error == NULL:
            raise UpstreamBroken("the model's answer was cancelled", retryable=True)
    raise upstream_error(read_failure(response.error))


def read_failure(raw: Raw) -> Failure:
    try:
        return _decode_failure(raw) if raw != NULL else Failure()
    except UNREADABLE:
        return Failure(bytes(raw)[:500].decode("utf-8", "replace"))


def _usage(usage: _Usage | None) -> Usage:
    if usage is None:
        return NO_USAGE
    into, out = usage.input_tokens_details, usage.output_tokens_details
    return Usage(
        usage.input_tokens or 0,
        usage.output_tokens or 0,
        (into.cached_tokens if into is not None else None) or 0,
        (out.reasoning_tokens if out is not None else None) or 0,
    )


def logprobs_json(logprobs: list[Raw]) -> Raw:
    """Token probabilities in the one shape the loop knows, which is that of Chat Completions."""
    return Raw(encode({"content": logprobs}))
