"""Answers of generateContent, whole or streamed → previews and one finished turn.

Both are read by one fold: a whole answer is a stream of one chunk. The parts are kept as they came, for the model to get
back; only texts that bear nothing but themselves are joined, so no signature moves. It knows nothing of sockets.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec
from msgspec import Raw, Struct

from ronda.core.events import CallDelta, LogprobsDelta, ModelFinished, Preview, ReasoningDelta, TextDelta
from ronda.core.parts import (
    NO_USAGE,
    NULL,
    AssistantTurn,
    Native,
    Reasoning,
    Stop,
    Text,
    ToolCall,
    Usage,
)
from ronda.errors import UpstreamBroken, UpstreamError
from ronda.wire.codec.json import UNREADABLE, decode_or, decode_text, encode
from ronda.wire.codec.surrogates import mend_surrogates
from ronda.wire.gemini import native_api
from ronda.wire.gemini.calls import CallPiece, GrowingCall
from ronda.wire.gemini.contents import made_up_id
from ronda.wire.gemini.errors import envelope_error
from ronda.wire.gemini.frames import Frames
from ronda.wire.gemini.tools import Tools
from ronda.wire.upstream.logprobs import join_logprobs
from ronda.wire.upstream.stop_reasons import stop_with
from ronda.wire.upstream.stream import ChoicesStream, cut_short

# Gemini's `logprobsResult` → token probabilities in the form of Chat Completions, which the loop carries.


class _Token(Struct, frozen=True, rename="camel"):
    token: str = ""
    log_probability: float = 0.0


class _Candidates(Struct, frozen=True):
    candidates: list[_Token] = []


class _Result(Struct, frozen=True, rename="camel"):
    chosen_candidates: list[_Token] = []
    top_candidates: list[_Candidates] = []


def chat_logprobs(raw: Raw) -> Raw:
    result = decode_or(_Result(), _Result, raw)  # not worth an answer
    tops = [step.candidates for step in result.top_candidates]
    content = [
        {**_token(token), "top_logprobs": [_token(one) for one in (tops[n] if n < len(tops) else ())]}
        for n, token in enumerate(result.chosen_candidates)
    ]
    return Raw(encode({"content": content})) if content else NULL


def _token(token: _Token) -> dict[str, Any]:
    return {"token": token.token, "logprob": token.log_probability, "bytes": list(token.token.encode())}


class _Usage(Struct, frozen=True, gc=False, rename="camel"):
    prompt_token_count: int | None = None
    candidates_token_count: int | None = None
    thoughts_token_count: int | None = None
    cached_content_token_count: int | None = None
    tool_use_prompt_token_count: int | None = None


class _Content(Struct, frozen=True, gc=False):
    parts: list[dict[str, Raw]] | None = None


class _Candidate(Struct, frozen=True, gc=False, rename="camel"):
    content: _Content | None = None
    finish_reason: str | int | None = None
    finish_message: str | None = None
    index: int | None = None
    logprobs_result: Raw = NULL


class _Feedback(Struct, frozen=True, gc=False, rename="camel"):
    block_reason: str | int | None = None


class _Chunk(Struct, frozen=True, gc=False, rename="camel"):
    candidates: list[_Candidate] | None = None
    usage_metadata: _Usage | None = None
    prompt_feedback: _Feedback | None = None
    error: Raw = NULL


_decode_chunk = msgspec.json.Decoder(_Chunk).decode
_decode_plain = msgspec.json.Decoder(_Chunk | list[_Chunk]).decode
_decode_call = msgspec.json.Decoder(CallPiece).decode

_FILTERED: Final = "content_filter"
_STOPS: Final[dict[str | int, Stop]] = {
    "STOP": "stop",
    1: "stop",  # some clients of Vertex see the numbers; those above 5 are not the same on both APIs
    "MAX_TOKENS": "length",
    2: "length",
    "SAFETY": _FILTERED,
    3: _FILTERED,
    "RECITATION": _FILTERED,
    4: _FILTERED,
    "LANGUAGE": _FILTERED,
    "BLOCKLIST": _FILTERED,
    "PROHIBITED_CONTENT": _FILTERED,
    "SPII": _FILTERED,
    "MODEL_ARMOR": _FILTERED,
    "IMAGE_SAFETY": _FILTERED,
    "IMAGE_PROHIBITED_CONTENT": _FILTERED,
    "IMAGE_RECITATION": _FILTERED,
}
# A call that cannot be read, whatever was said before it: to take that for the answer would end the run early.
_MALFORMED: Final = frozenset({"MALFORMED_FUNCTION_CALL", "MALFORMED_RESPONSE"})
# The model went wrong, and if it said nothing there is nothing to use: another try may go better.
_BROKEN: Final = frozenset({"UNEXPECTED_TOOL_CALL", "TOO_MANY_TOOL_CALLS", "OTHER", 5, "NO_IMAGE"})


class Naming(Struct, frozen=True):
    """Whose answer it is: which model's JSON, whose tools, and what calls without an id are to be called."""

    model: str = ""
    tools: Tools = Tools(())
    run: str = ""
    round: int = 0


NO_NAMING: Final = Naming()


def read_plain(body: bytes, naming: Naming = NO_NAMING) -> ModelFinished:
    """A whole answer; or all of a stream that came as one JSON array."""
    return read_candidates(body, naming, 1)[0]


def read_candidates(body: bytes, naming: Naming, n: int) -> list[ModelFinished]:
    """As many candidates as there are, up to `n`; the usage, which is of all of them, is on the first."""
    try:
        content = _decode_plain(mend_surrogates(body))
    except UNREADABLE as error:
        raise UpstreamBroken(f"the model's answer is not one of generateContent: {error}", retryable=True) from error
    folds = [_Fold(naming, number) for number in range(n)]
    for chunk in [content] if isinstance(content, _Chunk) else content:
        for fold in folds:
            fold.add(chunk, [])
    return _finish_all(folds, whole=isinstance(content, _Chunk))


def _finish_all(folds: list[_Fold], whole: bool = False) -> list[ModelFinished]:
    first = folds[0].finish(whole)
    others = [fold.finish(whole) for fold in folds[1:] if fold.seen]
    return [first, *[msgspec.structs.replace(one, usage=NO_USAGE) for one in others]]


class Reader(ChoicesStream):
    """A stream of one or more candidates."""

    __slots__ = ("_folds",)

    def __init__(self, naming: Naming = NO_NAMING, choices: int = 1) -> None:
        super().__init__(choices, Frames())
        self._folds = [_Fold(naming, number) for number in range(choices)]

    def _read_into(self, out: list[Preview], frames: list[bytes]) -> None:
        for frame in frames:
            if not frame or frame == b"[DONE]":  # some proxies think it belongs to every stream
                continue
            chunk = _decode_chunk(self._halves.mend(frame))
            for fold, shown in zip(self._folds, (out, *self._aside), strict=True):
                fold.add(chunk, shown)

    def finish_all(self) -> list[ModelFinished]:
        self._must_be_sound()
        return _finish_all(self._folds)


class _Run:
    """A text, or a thought, in pieces."""

    __slots__ = ("pieces", "thought")

    def __init__(self, thought: bool) -> None:
        self.thought = thought
        self.pieces: list[str] = []

    def whole(self) -> Text | Reasoning:
        text = "".join(self.pieces)
        return Reasoning(text) if self.thought else Text(text)


class _Fold:
    """The chunks of one answer; `number` is which of several candidates it is."""

    def __init__(self, naming: Naming, number: int = 0) -> None:
        self._naming = naming
        self._number = number
        self._parts: list[ToolCall | _Run | GrowingCall] = []
        self._run = _Run(thought=False)  # the one that grows
        # The parts as they came; a list is a text and nothing else.
        self._wire_parts: list[bytes | list[str] | GrowingCall] = []
        self._growing: GrowingCall | None = None  # a call that is not all here
        self._text: list[str] | None = None  # the one that grows
        self._calls = 0
        self._usage: _Usage | None = None
        self._finish: str | int | None = None
        self._message: str | None = None
        self._blocked = False
        self.seen = False
        self._logprobs: list[Raw] = []

    def add(self, chunk: _Chunk, out: list[Preview]) -> None:
        if chunk.error != NULL:
            raise envelope_error(bytes(chunk.error))
        if chunk.usage_metadata is not None and chunk.usage_metadata.prompt_token_count is not None:
            self._usage = chunk.usage_metadata
        if chunk.prompt_feedback is not None and chunk.prompt_feedback.block_reason:
            self._blocked = True
        for candidate in chunk.candidates or ():
            if (candidate.index or 0) != self._number:
                continue
            self.seen = True
            if candidate.content is not None:
                for part in candidate.content.parts or ():
                    try:
                        self._add_part(part, out)
                    except UNREADABLE as error:
                        raise UpstreamBroken(f"a part cannot be read: {error}", retryable=True) from error
            if candidate.logprobs_result != NULL and (logprobs := chat_logprobs(candidate.logprobs_result)) != NULL:
                self._logprobs.append(logprobs)
                out.append(LogprobsDelta(logprobs))
            self._finish = candidate.finish_reason or self._finish
            if self._growing is not None and _STOPS.get(self._finish or "") == "stop":
                self._end_call(self._growing, out)
            self._message = candidate.finish_message or self._message

    def _add_part(self, part: dict[str, Raw], out: list[Preview]) -> None:
        if (value := part.get("text")) is not None:
            text = decode_text(value)
            thought = len(part) > 1 and bytes(part.get("thought", NULL)) == b"true"
            if text:
                self._grow(text, thought)
                out.append(ReasoningDelta(text) if thought else TextDelta(text))
            if len(part) == 1:
                if text:  # an empty one that bears no signature says nothing, and Vertex refuses it
                    self._keep_text(text)
                return
        elif (value := part.get("functionCall")) is not None:
            asked = _decode_call(value)
            if self._growing is not None or asked.partial_args or asked.will_continue:
                self._grow_call(asked, part, out)
                return
            if asked.is_empty:  # the end of a call that has ended already
                return
            call = self._call(asked)
            out.append(CallDelta(self._calls, call.id, call.name, call.arguments))
            self._calls += 1
            self._parts.append(call)
        self._wire_parts.append(msgspec.json.format(encode(part), indent=-1))
        self._text = None

    def _call(self, piece: CallPiece) -> ToolCall:
        arguments = bytes(piece.args) if piece.args != NULL else None
        return ToolCall(self._call_id(piece), *self._naming.tools.read_call(piece.name or "", arguments))

    def _call_id(self, piece: CallPiece) -> str:
        naming = self._naming
        number = f"{self._number}_" if self._number else ""
        return piece.id or made_up_id(naming.run, naming.round, f"{number}{self._calls}")

    def _grow_call(self, call_piece: CallPiece, part: dict[str, Raw], out: list[Preview]) -> None:
        """The beginning of a call, more of it, or its end: a piece that does not say that more will follow."""
        call = self._growing
        if call is not None and not call.goes_on_with(call_piece):
            self._end_call(call, out)
            self._add_part(part, out)
            return
        if call is None:
            call = self._growing = GrowingCall(call_piece, self._calls, self._call_id(call_piece), self._naming.tools)
            self._calls += 1
            self._parts.append(call)
            self._wire_parts.append(call)
            self._text = None
            out.append(CallDelta(call.index, call.id, call.name, ""))
        call.members |= {name: value.copy() for name, value in part.items() if name != "functionCall"}
        more = "" if call_piece.args == NULL or call.arguments.has_begun else call.arguments.begin_with(call_piece.args)
        more += "".join([call.arguments.add(piece) for piece in call_piece.partial_args or ()])
        if more:
            out.append(CallDelta(call.index, call.id, call.name, more))
        if not call_piece.will_continue:
            self._end_call(call, out)

    def _end_call(self, call: GrowingCall, out: list[Preview]) -> None:
        rest = call.arguments.close()
        call.cut = False
        self._growing = None
        out.append(CallDelta(call.index, call.id, call.name, rest))

    def _grow(self, text: str, thought: bool) -> None:
        run = self._run
        if run.thought is not thought or not self._parts or self._parts[-1] is not run:
            run = self._run = _Run(thought)
            self._parts.append(run)
        run.pieces.append(text)

    def _keep_text(self, text: str) -> None:
        if self._text is None:
            self._text = []
            self._wire_parts.append(self._text)
        self._text.append(text)

    def finish(self, whole: bool = False) -> ModelFinished:
        usage = _read_usage(self._usage)
        if self._blocked and not self.seen:
            return ModelFinished(AssistantTurn((), _FILTERED), usage)
        if not self.seen and whole:
            raise UpstreamBroken("the model's answer has no candidates", retryable=True)
        if self._finish is None and not whole:
            raise cut_short()
        parts = tuple([self._whole(part) for part in self._parts])
        turn = AssistantTurn(parts, stop_with(self._stop(), parts), self._native())
        return ModelFinished(turn, usage, join_logprobs(self._logprobs))

    def _whole(self, part: ToolCall | _Run | GrowingCall) -> ToolCall | Text | Reasoning:
        if isinstance(part, GrowingCall):
            return part.whole(self._naming.tools)
        return part.whole() if isinstance(part, _Run) else part

    def _stop(self) -> Stop:
        finish = self._finish or "STOP"
        if finish == "MISSING_THOUGHT_SIGNATURE":
            raise UpstreamError(f"the model's server refused the history: {self._message or finish}", status=400)
        if finish in _MALFORMED or (finish in _BROKEN and not self._parts):
            raise UpstreamBroken(
                f"the model stopped with {finish}: {self._message or 'no reason given'}", retryable=True
            )
        # A call of an undeclared function (UNEXPECTED_TOOL_CALL) is there anyway: the loop tells the model so.
        return _STOPS.get(finish, "stop")

    def _native(self) -> Native | None:
        if not self._wire_parts or (len(self._wire_parts) == 1 and isinstance(self._wire_parts[0], list)):
            return None  # one text: our writer says it the same way
        if self._growing is not None:
            return None  # a call that was cut off: its arguments are no object, which is what Gemini must be sent
        parts = [
            encode({"text": "".join(part)})
            if isinstance(part, list)
            else part
            if isinstance(part, bytes)
            else part.part()
            for part in self._wire_parts
        ]
        return Native(native_api(self._naming.model), Raw(b"[%b]" % b",".join(parts)))


def _read_usage(usage: _Usage | None) -> Usage:
    """Thoughts are output, what Google's own tools read is input: together they are its totalTokenCount."""
    if usage is None:
        return NO_USAGE
    thoughts = usage.thoughts_token_count or 0
    return Usage(
        (usage.prompt_token_count or 0) + (usage.tool_use_prompt_token_count or 0),
        (usage.candidates_token_count or 0) + thoughts,
        usage.cached_content_token_count or 0,
        thoughts,
    )
