"""Chat Completions as its server, the way out: events → SSE bytes, or one JSON body.

Both are folds of the same events by the same class, so what a stream shows adds up to what the plain answer says. Text of
several rounds is one text, with an empty line between them. What is shown when is decided in `wire.shared.showing`.

Ids and times come from RunStarted: a stream written again from the log is the same, byte for byte.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, ClassVar, Final, Self, assert_never

from msgspec.structs import replace

from ronda.core.events import (
    Event,
    LogprobsDelta,
    NativeDelta,
    ReasoningDelta,
    RefusalDelta,
    RunStarted,
    TextDelta,
    ToolProgressed,
)
from ronda.core.live_calls import Piece
from ronda.core.parts import NO_USAGE, AssistantTurn, ToolCall, Turn, Usage
from ronda.core.run import Run
from ronda.wire.codec.json import encode, in_one_line
from ronda.wire.openai_chat.choice import Choice
from ronda.wire.shared import updates
from ronda.wire.shared.approvals import EVENT, REQUIRES_ACTION
from ronda.wire.shared.call_ids import are_ours
from ronda.wire.shared.custom_tools import input_of
from ronda.wire.shared.door_request import AnswerOptions
from ronda.wire.shared.endings import extensions, finish_reason, interruption
from ronda.wire.shared.failures import Failure, error_in_stream
from ronda.wire.shared.preview import ArgumentPatches
from ronda.wire.shared.showing import Showing
from ronda.wire.upstream.logprobs import join_logprobs
from ronda.wire.web.citations import Citation, url_citation

_NOTHING: Final[dict[str, Any]] = {}
# A delta that adds nothing. Programs add `delta.content` to a text without looking: it must be one.
_NO_TEXT: Final = b'{"content":""}'
_MORE_TEXT: Final = b'data: {%b,"choices":[{"index":%d,"delta":{"content":'
_AFTER_TEXT: Final = b'},"logprobs":null,"finish_reason":null}]}\n\n'
_OF_TOOLS: Final = frozenset({"id", "type", "function"})
DONE = b"data: [DONE]\n\n"

_OPENAIS: Final = re.compile(r"OpenAI/(Python|JS) (\d{1,4})\.(\d{1,4})\.")
_READS_NAMES: Final = {"Python": (1, 98), "JS": (5, 12)}


def write_error(
    message: str, kind: str, param: str | None = None, code: str | None = None, details: object = None
) -> bytes:
    """`details`: what programs may want to know of it besides the code."""
    error = {"message": message, "type": kind, "param": param, "code": code}
    return encode({"error": error if details is None else {**error, "details": details}})


class ChatOptions(AnswerOptions, frozen=True, kw_only=True, omit_defaults=True):
    """For Mistral's own clients a stream has each of the caller's calls in one piece, and text is never null."""

    key: ClassVar[str] = "chat"

    include_usage: bool = False
    whole_calls: bool = False  # a stream has each call in one piece
    for_mistral: bool = False
    as_function_call: bool = False  # in the form that was used before there were tools, which has room for one call
    customs: tuple[str, ...] = ()  # tools whose calls are text
    names_events: bool = True  # what is no chunk comes as an event with a name

    def for_client(self, user_agent: str) -> Self:
        if not user_agent:
            return self
        if _is_mistrals(user_agent):
            return self.of_mistral()
        return replace(self, names_events=False) if _misreads_names(user_agent) else self

    def of_mistral(self) -> Self:
        return replace(self, whole_calls=True, for_mistral=True)


class ChatAnswer:
    """The answer to one request: one choice per run. `feed` gives the bytes of a stream, `body` the plain answer."""

    __slots__ = ("_choices", "_errors", "_going_on", "_head", "_open", "_options", "_showings", "_start")

    def __init__(self, runs: Sequence[Run]) -> None:
        self._start: RunStarted = runs[0].start
        self._options = ChatOptions.of(self._start)
        # Some of Mistral's clients make nine letters and digits of any id that is not: then its call is not found again.
        prefix = "" if self._options.for_mistral else "call_"
        whole_calls = self._options.whole_calls
        self._choices: list[Choice] = []
        self._showings: list[Showing] = []  # one of each choice
        for index, run in enumerate(runs):
            showing = Showing(run, choice=index, whole_calls=whole_calls, id_prefix=prefix)
            self._choices.append(Choice(index, run, showing))
            self._showings.append(showing)
        self._open = len(runs)
        self._errors: list[dict[str, str | None]] = []  # why choices failed
        self._head = b""  # of every chunk; written with the first
        self._going_on: list[bytes] = []  # of each choice: how a chunk begins that has more of its text

    def _id(self) -> str:
        return "chatcmpl-" + self._start.run.removeprefix("run_")

    # ---- stream ------------------------------------------------------------------------------------------------------

    def feed(self, index: int, batch: Sequence[Event | Failure]) -> bytes:
        """Bytes for one batch of events of one run; one ASGI message per upstream read."""
        choice = self._choices[index]
        if not self._head:
            self._head = (
                b'"id":%b,"object":"chat.completion.chunk","created":%d,"model":%b,"system_fingerprint":"ronda"'
                % (
                    encode(self._id()),
                    int(self._start.at),
                    encode(self._options.model),
                )
            )
            self._going_on = [_MORE_TEXT % (self._head, place) for place in range(len(self._choices))]
        showing, more = choice.showing, self._going_on[index]
        out: list[bytes] = []
        texts: list[str] = []  # of the text that is going on, and nearly all there is
        goes_on = choice.goes_on
        for event in batch:
            if type(event) is TextDelta:
                if not event.text:
                    continue
                if goes_on:
                    texts.append(event.text)
                elif not showing.holds_text:
                    showing.text += len(event.text)
                    out.append(self._content(choice, b"content", choice.text.add(event.text, choice.round)))
                    goes_on = choice.goes_on = True
                continue
            if texts:
                out.append(_more_text(choice, texts, more))
                texts = []
            if (update := showing.take(event)) is not None:
                self._write(choice, update, out)
                goes_on = choice.goes_on
        if texts:
            out.append(_more_text(choice, texts, more))
        return out[0] if len(out) == 1 else b"".join(out)

    def _write(self, choice: Choice, update: updates.Update, out: list[bytes]) -> None:
        match update:  # what every answer has comes first
            case updates.TurnBegan(broken=broken):
                if broken is not None:
                    mark = b"," + encode(interruption(broken))[1:-1]
                    out.append(self._chunk(choice.index, _NO_TEXT, more=mark))
                choice.begin_round()
            case updates.TurnClosed(denied=denied):
                self._close_turn(choice, update, out)
                for ended in denied:
                    self._write(choice, updates.ToolBegan(ended.call, ended.at), out)
                    self._write(choice, ended, out)
            case updates.Ended():
                self._end(choice, update, out)
            case ReasoningDelta(text=text):
                out.append(self._content(choice, b"reasoning_content", choice.reasoning.add(text, choice.round)))
            case updates.CallsGrew(pieces=pieces, previews=previews):
                out += [self._piece(choice, piece) for piece in pieces]
                out += [self._preview(choice, patches) for patches in previews]
            case updates.ToolBegan(call=call, was_asked=was_asked):
                if not was_asked:
                    out.append(self._progress(choice, choice.showing.tools.progress(call.id)))
            case updates.QuestionAsked(call=call, approval=approval, is_news=is_news):
                if is_news:
                    out.append(self._progress(choice, choice.showing.tools.progress(call.id)))
                out.append(self._named(choice, EVENT, approval.event))
            case updates.QuestionClosed(ended=ended, rewritten=rewritten):
                for one in ended if rewritten is None else (rewritten,):
                    self._write(choice, one, out)
            case updates.ToolEnded(call=call, result=result, files=files):
                out += [self._file(choice, file) for file in files]
                out.append(self._progress(choice, choice.showing.tools.progress(call.id, result)))
            case updates.Paused():
                self._close(choice, "stop", out)
            case TextDelta(text=text):
                out.append(self._content(choice, b"content", choice.text.add(text, choice.round)))
            case RefusalDelta(text=text):
                out.append(self._content(choice, b"refusal", choice.refusal.add(text, choice.round)))
            case LogprobsDelta(logprobs=logprobs):
                choice.logprobs.append(logprobs)
                out.append(self._chunk(choice.index, _NO_TEXT, logprobs=in_one_line(bytes(logprobs))))
            case updates.TurnBroke(unseen=unseen):
                for delta in unseen:
                    self._write(choice, delta, out)
            case NativeDelta() | ToolProgressed() | updates.Withdrawn():
                pass
            case _:
                assert_never(update)

    def _close_turn(self, choice: Choice, closed: updates.TurnClosed, out: list[bytes]) -> None:
        for piece in closed.unseen:
            self._write(choice, piece, out)
        if not closed.turn.calls:
            return
        out += [self._preview(choice, patches) for patches in closed.previews]
        extras = _extras(closed.turn)
        if self._options.whole_calls:
            out += [self._piece(choice, call, extras) for call in closed.pieces]
            return
        out += [self._piece(choice, call) for call in closed.pieces]
        if extras:
            for call_id, place in choice.showing.places.items():
                if call_id in extras:
                    out.append(self._call_chunk(choice, {"index": place, **extras[call_id]}))

    def _content(self, choice: Choice, key: bytes, text: str) -> bytes:
        role = b"" if choice.has_begun else b'"role":"assistant",'
        choice.has_begun = True
        return self._chunk(choice.index, b'{%b"%b":%b}' % (role, key, encode(text)))

    def _chunk(
        self, index: int, delta: bytes, finish: bytes = b"null", logprobs: bytes = b"null", more: bytes = b""
    ) -> bytes:
        return (
            b'data: {%b,"choices":[{"index":%d,"delta":%b,"logprobs":%b,"finish_reason":%b}]%b}\n\n'
            % (self._head, index, delta, logprobs, finish, more)
        )  # fmt: skip

    def _piece(self, choice: Choice, piece: Piece, extras: Mapping[str, Mapping[str, Any]] = _NOTHING) -> bytes:
        if not piece.is_first:
            return self._call_chunk(choice, {"index": piece.place, "function": {"arguments": piece.arguments}})
        call = self._call(choice, piece.id, piece.name, piece.arguments)
        return self._call_chunk(choice, {"index": piece.place, **call, **extras.get(piece.id, _NOTHING)})

    def _call_chunk(self, choice: Choice, call: dict[str, Any]) -> bytes:
        delta: dict[str, Any] = {"tool_calls": [call]}
        if self._options.as_function_call:
            if call.pop("index") > 0:
                return b""
            delta = _function_call(call, with_id=are_ours(choice.run.start))
        if not choice.has_begun:
            choice.has_begun = True
            delta = {"role": "assistant", "content": None, **delta}
        return self._chunk(choice.index, encode(delta))

    def _progress(self, choice: Choice, fields: dict[str, Any]) -> bytes:
        return self._named(choice, "agentic_tool_call_progress", fields)

    def _preview(self, choice: Choice, patches: ArgumentPatches) -> bytes:
        return self._named(choice, "agentic_tool_call_preview", choice.showing.tools.preview(patches))

    def _named(self, choice: Choice, kind: str, fields: dict[str, Any]) -> bytes:
        event = {"type": kind, **fields, "choices": _nothing_said(choice)}
        return self._event(kind) + b"data: {%b,%b\n\n" % (self._head, encode(event)[1:])

    def _file(self, choice: Choice, file: dict[str, Any]) -> bytes:
        """It has an id of its own, so it is no chunk of this answer."""
        event = {"type": "file_produced", **file, "choices": _nothing_said(choice)}
        return self._event("file_produced") + b"data: %b\n\n" % encode(event)

    def _event(self, name: str) -> bytes:
        return b"event: %b\n" % name.encode() if self._options.names_events else b""

    def _end(self, choice: Choice, ended: updates.Ended, out: list[bytes]) -> None:
        out += [self._file(choice, file) for file in ended.files]
        if ended.text:
            choice.begin_round()
            out.append(self._content(choice, b"content", choice.text.add(ended.text, choice.round)))
        if ended.late:
            extras = _extras(choice.run.turns[-1])
            for index, call in enumerate(ended.late):
                out.append(self._piece(choice, Piece(index, call.id, call.name, call.arguments, True), extras))
        if citations := choice.citations():
            out.append(self._chunk(choice.index, encode({"content": "", "annotations": _annotations(citations)})))
        self._close(choice, self._reason(choice), out, ended.failure)

    def _close(self, choice: Choice, reason: str, out: list[bytes], failure: Failure | None = None) -> None:
        """The last chunk of a choice; with the last of them what there is to say of all."""
        self._open -= 1
        if failure is not None:
            self._errors.append(error_in_stream(failure))
        words: dict[str, Any] = {}
        if self._open == 0:
            if not self._options.include_usage:
                words["usage"] = write_usage(self.usage())
            words |= self._extensions(with_records=False)
        more = b"," + encode(words)[1:-1] if words else b""
        delta = _NO_TEXT if choice.has_begun else b'{"role":"assistant","content":""}'
        # Of calls and refusals the content is null, and stays so when it is added up.
        if self._calls_of(choice) or choice.refusal.round == choice.round:
            delta = b"{}"
        out.append(self._chunk(choice.index, delta, encode(reason), more=more))
        if self._open == 0:
            if self._options.include_usage:
                out.append(b'data: {%b,"choices":[],"usage":%b}\n\n' % (self._head, encode(write_usage(self.usage()))))
            out += [self._error(error) for error in self._errors]
            out.append(DONE)

    def _error(self, error: dict[str, str | None]) -> bytes:
        """No chunk: several clients pass over `error` in one that has choices. The official SDKs raise it, and read no more."""
        return b"data: %b\n\n" % encode(
            {"object": "error", **error, "error": error} if self._options.for_mistral else {"error": error}
        )

    # ---- plain -------------------------------------------------------------------------------------------------------

    def fold(self, index: int, batch: Sequence[Event]) -> None:
        """Take events for the plain answer."""
        self._choices[index].fold(batch)

    def skip(self, index: int, facts: Sequence[Event]) -> None:
        """These were told in an answer before: this one goes on from there."""
        self._choices[index].showing.skip(facts)

    def body(self) -> bytes:
        answer = self.frame()
        for choice in self._choices:
            answer["choices"].append(self._message(choice))
        answer["usage"] = write_usage(self.usage())
        answer |= self._extensions(with_records=True)
        return encode(answer)

    def frame(self) -> dict[str, Any]:
        """The object without an answer in it."""
        return {
            "id": self._id(),
            "object": "chat.completion",
            "created": int(self._start.at),
            "model": self._options.model,
            "system_fingerprint": "ronda",
            "choices": [],
            "usage": None,
        }

    def _message(self, choice: Choice) -> dict[str, Any]:
        text, reasoning, refusal = choice.text.all(), choice.reasoning.all(), choice.refusal.all()
        calls = self._calls_of(choice)
        message: dict[str, Any] = {
            "role": "assistant",
            "content": text or (None if (calls or refusal) and not self._options.for_mistral else ""),
        }
        message["refusal"] = refusal or None
        if citations := choice.citations():
            message["annotations"] = _annotations(citations)
        if reasoning:
            message["reasoning_content"] = reasoning
        if calls:
            extras = _extras(choice.run.turns[-1])
            shown = [
                {
                    **self._call(choice, call.id, call.name, call.arguments),
                    **extras.get(call.id, _NOTHING),
                }
                for call in calls
            ]
            message |= (
                _function_call(shown[0], with_id=are_ours(choice.run.start))
                if self._options.as_function_call
                else {"tool_calls": shown}
            )
        logprobs = join_logprobs(choice.logprobs)
        return {
            "index": choice.index,
            "message": message,
            "logprobs": logprobs,
            "finish_reason": "stop" if choice.showing.approvals() else self._reason(choice),
        }

    # ---- both --------------------------------------------------------------------------------------------------------

    def _call(self, choice: Choice, call_id: str, name: str, arguments: str) -> dict[str, Any]:
        shown_id = choice.showing.shown_id(call_id)
        if name in self._options.customs:
            return {"id": shown_id, "type": "custom", "custom": {"name": name, "input": input_of(arguments)}}
        return {"id": shown_id, "type": "function", "function": {"name": name, "arguments": arguments}}

    def _calls_of(self, choice: Choice) -> Sequence[ToolCall]:
        """Those that are the caller's to run: none, while calls next to them wait for a person."""
        return choice.run.open_calls if choice.run.ended is not None else ()

    def _reason(self, choice: Choice) -> str:
        reason = finish_reason(choice.run.ended)
        return "function_call" if reason == "tool_calls" and self._options.as_function_call else reason

    def usage(self) -> Usage:
        used = NO_USAGE
        for choice in self._choices:
            used += choice.run.usage - choice.showing.used_before
        return used

    def _extensions(self, *, with_records: bool) -> dict[str, Any]:
        more = extensions(self._start.session, self._showings, self._options.warnings, with_records=with_records)
        return {"status": REQUIRES_ACTION, **more} if "approvals" in more else more


def _more_text(choice: Choice, texts: list[str], begin: bytes) -> bytes:
    """A chunk for each of these."""
    choice.showing.text += sum(map(len, texts))
    choice.text.pieces += texts
    return b"%b%b%b" % (begin, (_AFTER_TEXT + begin).join(map(encode, texts)), _AFTER_TEXT)


def _is_mistrals(user_agent: str) -> bool:
    """Mistral's clients come to this address too. A call is whole in each chunk of theirs, by their types or their code, and
    an answer that is nothing but calls has an empty text. Those that do not say who they are are known by Mistral's words in
    their requests, or not at all (docs/compatibility.md)."""
    return "mistral-client-" in user_agent or "ai-sdk/mistral" in user_agent


@lru_cache(16)
def _misreads_names(user_agent: str) -> bool:
    """The official SDKs handed an event with a name out inside another object until these versions: it had no choices then."""
    named = _OPENAIS.search(user_agent)
    return named is not None and (int(named[2]), int(named[3])) < _READS_NAMES[named[1]]


def _nothing_said(choice: Choice) -> list[dict[str, Any]]:
    """The official SDK hands a named event out as a chunk, and naive code reads chunk.choices[0]."""
    return [{"index": choice.index, "delta": {"content": ""}, "finish_reason": None}]


def _function_call(call: dict[str, Any], *, with_id: bool) -> dict[str, Any]:
    """A call, or a piece of one, in the deprecated form. That has no id; by one of ours its run is found again."""
    rest = {name: value for name, value in call.items() if name not in _OF_TOOLS}
    if with_id and "id" in call:
        rest["id"] = call["id"]
    return {"function_call": {**call.get("function", _NOTHING), **rest}}


def _annotations(citations: Sequence[Citation]) -> list[dict[str, Any]]:
    return [{"type": "url_citation", "url_citation": url_citation(citation)} for citation in citations]


def _extras(turn: Turn) -> Mapping[str, Mapping[str, Any]]:
    """What a client must send back with a call for the model to go on: Gemini's thought signatures. By the call's id."""
    if type(turn) is not AssistantTurn or turn.native is None:
        return _NOTHING
    from ronda.wire.gemini.signatures import for_chat

    return {call_id: {"extra_content": extra} for call_id, extra in for_chat(turn).items()}


def write_usage(usage: Usage) -> dict[str, Any]:
    """What runs used, as Chat Completions says it."""
    fields: dict[str, Any] = {
        "prompt_tokens": usage.input,
        "completion_tokens": usage.output,
        "total_tokens": usage.input + usage.output,
        "prompt_tokens_details": {"cached_tokens": usage.cached},
        "completion_tokens_details": {"reasoning_tokens": usage.reasoning},
    }
    if usage.cost is not None:  # OpenRouter's name for it
        fields["cost"] = usage.cost
    prompt, completion = usage.prompt_seconds, usage.completion_seconds
    if prompt or completion:  # an engine of ours, which knows
        fields |= {
            "avg_tok_per_sec": _rate(usage.total, prompt + completion),
            "avg_prompt_tok_per_sec": _rate(usage.input, prompt),
            "avg_compl_tok_per_sec": _rate(usage.output, completion),
            "total_time_sec": round(prompt + completion, 3),
            "total_prompt_time_sec": round(prompt, 3),
            "total_completion_time_sec": round(completion, 3),
        }
    return fields


def _rate(tokens: int, seconds: float) -> float:
    return round(tokens / seconds, 2) if seconds else 0.0
