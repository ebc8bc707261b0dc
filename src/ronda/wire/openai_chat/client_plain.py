"""A whole answer of Chat Completions → one finished turn, or as many as there are choices.

What its stream has in common with it is here too: the members of a message, why it stopped, and what it cost.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

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
from ronda.wire.codec.json import UNREADABLE, decode_members, encode, text_of
from ronda.wire.codec.lenient import decoder, read_leniently
from ronda.wire.codec.surrogates import mend_surrogates
from ronda.wire.openai_chat import API
from ronda.wire.openai_chat.calls import LONG_ID, CallPiece, FunctionPiece, clean_name
from ronda.wire.openai_chat.names import NO_NAMES
from ronda.wire.upstream.errors import bare_error, envelope_error, is_error
from ronda.wire.upstream.stop_reasons import stop_with


class _Details(Struct, frozen=True, gc=False):
    cached_tokens: float | None = None
    reasoning_tokens: float | None = None


class UsageSaid(Struct, frozen=True, gc=False):
    """Counts, which some servers write with a decimal point."""

    prompt_tokens: float | None = None
    completion_tokens: float | None = None
    prompt_tokens_details: _Details | None = None
    completion_tokens_details: _Details | None = None
    prompt_cache_hit_tokens: float | None = None  # DeepSeek's name for cached tokens
    num_cached_tokens: float | None = None  # Mistral's
    cost: Any = None  # OpenRouter's, in US dollars; others have an object of that name


class Groq(Struct, frozen=True, gc=False):
    usage: UsageSaid | None = None


class Piece(Struct, frozen=True, gc=False):
    """One part of a content list. Mistral sends lists, with `thinking` parts that hold text parts themselves."""

    type: str = "text"
    text: str | None = None
    thinking: list[Piece] | str | None = None


class Delta(Struct, frozen=True, gc=False):
    content: str | list[Piece] | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None
    refusal: str | None = None
    tool_calls: list[CallPiece] | None = None
    function_call: FunctionPiece | None = None
    reasoning_details: list[Raw] | None = None  # OpenRouter: must come back as it was
    extra_content: Raw = NULL  # Gemini's compatible endpoint: a signature that belongs to the message
    thought_signature: Raw = NULL


class _PlainChoice(Struct, frozen=True, gc=False):
    message: Raw = NULL
    finish_reason: str | None = None
    index: int | None = 0
    logprobs: Raw = NULL


class _Plain(Struct, frozen=True, gc=False):
    choices: list[_PlainChoice] | None = None
    usage: UsageSaid | None = None
    x_groq: Groq | None = None
    error: Raw = NULL


_decode_plain = decoder(_Plain)
_decode_message = msgspec.json.Decoder(Delta).decode
read_message = decoder(Delta)

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
        for index, call in enumerate(calls):
            call_id = call.id
            if self.run and (not call_id or call_id in seen):
                call_id = f"call_{self.run[-12:]}_{self.round}_{index}" + (f"_{choice}" if choice else "")
            seen.add(call_id)
            name = self.names.get(call.name, call.name)
            found.append(call if call_id is call.id and name is call.name else ToolCall(call_id, name, call.arguments))
        return found


NO_NAMING: Final = Naming()


def read_plain(body: bytes, naming: Naming = NO_NAMING) -> ModelFinished:
    """A whole answer. One choice was asked for: where there are more, they are one message in pieces (GitHub Copilot's)."""
    choices = read_choices(body, naming)
    if len(choices) == 1:
        return choices[0]
    first, *others = choices
    calls = [call for other in others for call in other.turn.calls]
    if not calls or first.turn.calls:
        return first
    return msgspec.structs.replace(first, turn=AssistantTurn((*first.turn.parts, *calls), "tool_calls"))


def read_choices(body: bytes, naming: Naming = NO_NAMING) -> list[ModelFinished]:
    """All choices of a whole answer; the usage, which is of all of them, is on the first."""
    try:
        answer = _decode_plain(mend_surrogates(body))
    except UNREADABLE as error:
        raise UpstreamBroken(f"the model's answer is not a chat completion: {error}", retryable=True) from error
    if answer.error is not NULL and is_error(answer.error):
        raise envelope_error(bytes(answer.error))
    if not answer.choices:
        raise bare_error(body) or UpstreamBroken("the model's answer has no choices", retryable=True)
    usage = usage_of(answer.usage or (answer.x_groq.usage if answer.x_groq is not None else None))
    finished: list[ModelFinished] = []
    choices = answer.choices
    if len(choices) > 1:
        choices.sort(key=lambda choice: choice.index or 0)
    for choice in choices:
        turn = _read_message(choice.message, choice.finish_reason, naming, len(finished))
        is_null = choice.logprobs is NULL or choice.logprobs == NULL
        logprobs = NULL if is_null else choice.logprobs.copy()
        finished.append(ModelFinished(turn, usage, logprobs))
        usage = NO_USAGE
    return finished


def _read_message(raw: Raw, finish_reason: str | None, naming: Naming, choice: int) -> AssistantTurn:
    if raw == NULL:
        if finish_reason == "content_filter":  # Azure leaves the message out
            return AssistantTurn((), "content_filter")
        raise UpstreamBroken("the model's answer has no message", retryable=True)
    try:
        members = decode_members(raw)
        try:
            message = _decode_message(raw)
        except msgspec.DecodeError as error:
            # Its own words are in no shape to be sent back: it goes back as it was understood.
            message, members = read_leniently(raw, Delta, error), {}
    except UNREADABLE as error:
        raise UpstreamBroken(f"the model's message cannot be read: {error}", retryable=True) from error
    parts: list[AssistantPart] = []
    if thought := message.reasoning_content or message.reasoning:
        parts.append(Reasoning(thought))
    is_list = type(message.content) is list
    parts += content_parts(message.content)
    if message.refusal:
        parts.append(Refusal(message.refusal))
    odd = is_list
    read_calls: list[ToolCall] = []
    for piece in message.tool_calls or ():
        function = piece.function or FunctionPiece()
        odd = odd or piece.extra_content != NULL or piece.custom != NULL
        read_calls.append(ToolCall(piece.id or "", clean_name(function.name or ""), text_of(function.arguments)))
    calls = naming.own(read_calls, choice)
    parts += calls
    if message.function_call is not None and message.function_call.name:
        parts.append(ToolCall("", message.function_call.name, text_of(message.function_call.arguments)))
    for call in calls:
        odd = odd or len(call.id) > LONG_ID
    if not odd and not members.keys() <= _REPRODUCED:
        odd = any(name not in _REPRODUCED and bytes(value) not in _NOTHING for name, value in members.items())
    native = None
    if not members:
        pass
    elif odd and all(call.id == one.id for call, one in zip(calls, read_calls, strict=True)):
        # A Raw is a view that would keep the whole response body alive, hence the copy.
        native = Native(naming.api, raw.copy())
    elif odd:
        native = Native(naming.api, Raw(encode({**members, "tool_calls": _with_ids(members["tool_calls"], calls)})))
    return AssistantTurn(tuple(parts), stop_of(finish_reason, parts), native)


def _with_ids(raw: Raw, calls: Sequence[ToolCall]) -> list[dict[str, Any]]:
    """An upstream's own calls, those without an id under the one their results will come back with."""
    decoded = msgspec.json.decode(raw, type=list[dict[str, Raw]])
    return [{**one, "id": call.id} for one, call in zip(decoded, calls, strict=True)]


def content_parts(content: str | list[Piece] | None) -> list[AssistantPart]:
    if not content:
        return []
    if type(content) is str:
        return [Text(content)]
    parts: list[AssistantPart] = []
    for piece in content:
        if type(piece) is not Piece:
            continue
        if piece.type == "thinking" and (thought := _thought_text(piece)):
            parts.append(Reasoning(thought))
        elif piece.text:
            parts.append(Text(piece.text))
    return parts


def _thought_text(piece: Piece) -> str:
    if type(piece.thinking) is list:
        return "".join([inner.text or "" for inner in piece.thinking])
    return piece.thinking if type(piece.thinking) is str else ""


def stop_of(finish_reason: str | None, parts: Sequence[AssistantPart]) -> Stop:
    if finish_reason == "error":
        raise UpstreamBroken("the model stopped with an error", retryable=True)
    return stop_with(_STOPS.get(finish_reason or "stop", "stop"), parts)


_BEYOND_ALL: Final = 1e15


def usage_of(usage: UsageSaid | None) -> Usage:
    if usage is None:
        return NO_USAGE
    prompt, completion = usage.prompt_tokens_details, usage.completion_tokens_details
    return Usage(
        _count(usage.prompt_tokens),
        _count(usage.completion_tokens),
        _count(prompt.cached_tokens if prompt else usage.prompt_cache_hit_tokens or usage.num_cached_tokens),
        _count(completion.reasoning_tokens if completion is not None else None),
        cost=None if usage.cost is None else _said_cost(usage.cost),
    )


def _said_cost(cost: Any) -> float | None:
    """OpenRouter says 0 where a model is free, and where the customer pays another with a key of theirs: that is no word."""
    return float(cost) if type(cost) in (int, float) and 0 < cost < _BEYOND_ALL else None


def _count(count: float | None) -> int:
    return int(count) if count and 0 < count < _BEYOND_ALL else 0
