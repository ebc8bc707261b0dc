"""Chat Completions as its server, the way out: events → SSE bytes, or one JSON body.

Both are folds of the same events by the same class, so what a stream shows adds up to what the plain answer says. Text of
several rounds is one text, with an empty line between them. A caller's tool calls are streamed as they arrive while nothing
can take them back (`core.live`), else they go out at the end.

Ids and times come from RunStarted: a stream written again from the log is the same, byte for byte.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Final, Self

from msgspec.structs import replace

from ronda.core.events import (
    CallDelta,
    Event,
    LogprobsDelta,
    ModelFinished,
    ModelStarted,
    ReasoningDelta,
    RefusalDelta,
    RunFinished,
    RunStarted,
    TextDelta,
    ToolFinished,
    ToolStarted,
)
from ronda.core.live import Piece
from ronda.core.parts import NULL, AssistantTurn, Turn, Usage
from ronda.core.run import Run
from ronda.wire.asked import AnswerOptions
from ronda.wire.endings import extensions, has_calls, interruption
from ronda.wire.failures import BROKE_DOWN, error_in_stream
from ronda.wire.json import encode, in_one_line
from ronda.wire.logprobs import join_logprobs
from ronda.wire.openai_chat.choice import Choice
from ronda.wire.openai_chat.usage import write_usage

_NOTHING: Final[dict[str, Any]] = {}
# A delta that adds nothing. Programs add `delta.content` to a text without looking: it must be one.
_NO_TEXT: Final = b'{"content":""}'
DONE = b"data: [DONE]\n\n"


def write_error(message: str, kind: str, param: str | None = None, code: str | None = None) -> bytes:
    return encode({"error": {"message": message, "type": kind, "param": param, "code": code}})


class ChatOptions(AnswerOptions, frozen=True, kw_only=True, omit_defaults=True):
    """For Mistral's own clients a stream has each of the caller's calls in one piece, and text is never null."""

    key: ClassVar[str] = "chat"

    include_usage: bool = False
    whole_calls: bool = False  # a stream has each call in one piece
    for_mistral: bool = False

    def for_client(self, user_agent: str) -> Self:
        return replace(self, whole_calls=True, for_mistral=True) if _is_mistrals(user_agent) else self


class ChatAnswer:
    """The answer to one request: one choice per run. `feed` gives the bytes of a stream, `body` the plain answer."""

    __slots__ = ("_choices", "_head", "_open", "_options", "_start")

    def __init__(self, runs: Sequence[Run]) -> None:
        self._start: RunStarted = runs[0].start
        self._options = ChatOptions.of(self._start)
        self._choices = [Choice(index, run) for index, run in enumerate(runs)]
        self._open = len(runs)
        self._head = b""  # of every chunk; written with the first

    @property
    def _id(self) -> str:
        return "chatcmpl-" + self._start.run.removeprefix("run_")

    # ---- stream ------------------------------------------------------------------------------------------------------

    def feed(self, index: int, batch: Sequence[Event]) -> bytes:
        """Bytes for one batch of events of one run; one ASGI message per upstream read."""
        choice = self._choices[index]
        if not self._head:
            self._head = (
                b'"id":%b,"object":"chat.completion.chunk","created":%d,"model":%b,"system_fingerprint":"ronda"'
                % (
                    encode(self._id),
                    int(self._start.at),
                    encode(self._options.model),
                )
            )
        out: list[bytes] = []
        for event in batch:
            if type(event) is TextDelta:
                if choice.held or not event.text:
                    continue
                out.append(self._content(choice, b"content", choice.said.add(event.text)))
            else:
                self._write(choice, event, out)
        return b"".join(out)

    def _write(self, choice: Choice, event: Event, out: list[bytes]) -> None:
        match event:
            case ReasoningDelta() if event.text:
                out.append(self._content(choice, b"reasoning_content", choice.thought.add(event.text)))
            case CallDelta():
                if not self._options.whole_calls:
                    out += [self._piece(choice, piece) for piece in choice.calls.add(event)]
            case RefusalDelta() if event.text:
                out.append(self._content(choice, b"refusal", choice.refused.add(event.text)))
            case LogprobsDelta():
                if not choice.held:
                    choice.logprobs.append(event.logprobs)
                    out.append(self._chunk(choice.index, _NO_TEXT, logprobs=in_one_line(bytes(event.logprobs))))
            case ModelFinished():
                self._write_rest(choice, event, out)
            case ToolStarted():
                out.append(self._progress(choice, choice.tools.progress(event.call_id)))
            case ToolFinished():
                choice.tools.record(event.result)
                out.append(self._progress(choice, choice.tools.progress(event.result.call_id, event.result)))
            case RunFinished():
                out.append(self._end(choice, event))
            case ModelStarted():
                if choice.broken is not None:
                    mark = b"," + encode(interruption(choice.broken))[1:-1]
                    out.append(self._chunk(choice.index, _NO_TEXT, more=mark))
                choice.begin_round(event)
            case _:
                choice.note(event)

    def _write_rest(self, choice: Choice, event: ModelFinished, out: list[bytes]) -> None:
        """What no preview has shown: an upstream may answer whole, and then it goes out whole."""
        turn = event.turn
        if rest := choice.thought.rest(turn.reasoning):
            out.append(self._content(choice, b"reasoning_content", rest))
        if not choice.held and (rest := choice.said.rest(turn.text)):
            out.append(self._content(choice, b"content", rest))
        if rest := choice.refused.rest(turn.refusal):
            out.append(self._content(choice, b"refusal", rest))
        if event.logprobs != NULL and not choice.logprobs:
            choice.logprobs.append(event.logprobs)
            out.append(self._chunk(choice.index, _NO_TEXT, logprobs=in_one_line(bytes(event.logprobs))))
        choice.tools.asked(turn.calls)
        if pieces := choice.calls.rest(turn):
            extras = _extras(turn) if self._options.whole_calls else {}
            for piece in pieces:
                more = {"extra_content": extras[piece.id]} if piece.id in extras else _NOTHING
                out.append(self._piece(choice, piece, more))
        if turn.calls and not self._options.whole_calls and (extras := _extras(turn)):
            for id, place in choice.calls.places.items():
                if id in extras:
                    out.append(self._call_chunk(choice, {"index": place, "extra_content": extras[id]}))

    def _content(self, choice: Choice, key: bytes, text: str) -> bytes:
        role = b"" if choice.text_started else b'"role":"assistant",'
        choice.text_started = True
        return self._chunk(choice.index, b'{%b"%b":%b}' % (role, key, encode(text)))

    def _chunk(
        self, index: int, delta: bytes, finish: bytes = b"null", logprobs: bytes = b"null", more: bytes = b""
    ) -> bytes:
        return (
            b'data: {%b,"choices":[{"index":%d,"delta":%b,"logprobs":%b,"finish_reason":%b}]%b}\n\n'
            % (self._head, index, delta, logprobs, finish, more)
        )  # fmt: skip

    def _piece(self, choice: Choice, piece: Piece, more: Mapping[str, Any] = _NOTHING) -> bytes:
        if piece.is_first:
            return self._announce(choice, piece.place, piece.id, piece.name, piece.arguments, more)
        return self._call_chunk(choice, {"index": piece.place, "function": {"arguments": piece.arguments}})

    def _announce(
        self, choice: Choice, index: int, id: str, name: str, arguments: str, more: Mapping[str, Any] = _NOTHING
    ) -> bytes:
        function = {"name": name, "arguments": arguments}
        return self._call_chunk(choice, {"index": index, "id": id, "type": "function", "function": function, **more})

    def _call_chunk(self, choice: Choice, call: dict[str, Any]) -> bytes:
        delta: dict[str, Any] = {"tool_calls": [call]}
        if not choice.text_started:
            choice.text_started = True
            delta = {"role": "assistant", "content": None, **delta}
        return self._chunk(choice.index, encode(delta))

    def _progress(self, choice: Choice, said: dict[str, Any]) -> bytes:
        event = {
            "type": "agentic_tool_call_progress",
            **said,
            # The official SDK hands a named event out as a chunk, and naive code reads chunk.choices[0].
            "choices": [{"index": choice.index, "delta": {"content": ""}, "finish_reason": None}],
        }
        return b"event: agentic_tool_call_progress\ndata: {%b,%b\n\n" % (self._head, encode(event)[1:])

    def _end(self, choice: Choice, event: RunFinished) -> bytes:
        out: list[bytes] = []
        if (answer := choice.last_answer(event)) is not None:
            out.append(self._content(choice, b"content", answer))
        if has_calls(event) and not choice.run.plan.announces_calls and (calls := choice.run.open_calls):
            extras = _extras(choice.run.turns[-1])
            for index, call in enumerate(calls):
                more = {"extra_content": extras[call.id]} if call.id in extras else _NOTHING
                out.append(self._announce(choice, index, call.id, call.name, call.arguments, more))
        self._open -= 1
        words = self._last_words() if self._open == 0 else {}
        error: dict[str, Any] | None = None
        if event.reason in ("failed", "cancelled"):
            error = error_in_stream(event, choice.run.failure)
            words = {"error": error, **words}
        more_bytes = b"," + encode(words)[1:-1] if words else b""
        delta = _NO_TEXT if choice.text_started else b'{"role":"assistant","content":""}'
        # Of calls and refusals the content is null, and stays so when it is added up.
        if choice.run.open_calls or choice.refused.shown:
            delta = b"{}"
        out.append(self._chunk(choice.index, delta, encode(choice.finish_reason), more=more_bytes))
        if error is not None and self._options.for_mistral:
            # Mistral's clients pass over `error` in a chunk; what is no chunk they raise.
            out.append(b"data: %b\n\n" % encode({"object": "error", **error}))
        if self._open == 0:
            if self._options.include_usage:
                out.append(b'data: {%b,"choices":[],"usage":%b}\n\n' % (self._head, encode(write_usage(self.usage))))
            out.append(DONE)
        return b"".join(out)

    def broke_down(self, index: int) -> bytes:
        """Something of ours broke before the run could end: the stream ends properly all the same."""
        return self._end(self._choices[index], BROKE_DOWN)

    def _last_words(self) -> dict[str, Any]:
        words: dict[str, Any] = {} if self._options.include_usage else {"usage": write_usage(self.usage)}
        return words | self._extensions(with_records=False)

    # ---- plain -------------------------------------------------------------------------------------------------------

    def fold(self, index: int, batch: Sequence[Event]) -> None:
        """Take events for the plain answer, which has no use for previews."""
        self._choices[index].fold(batch)

    def body(self) -> bytes:
        answer: dict[str, Any] = {
            "id": self._id,
            "object": "chat.completion",
            "created": int(self._start.at),
            "model": self._options.model,
            "system_fingerprint": "ronda",
            "choices": [self._message(choice) for choice in self._choices],
            "usage": write_usage(self.usage),
        }
        return encode(answer | self._extensions(with_records=True))

    def _message(self, choice: Choice) -> dict[str, Any]:
        text, thought, refusal = choice.said.all, choice.thought.all, choice.refused.all
        calls = choice.run.open_calls
        message: dict[str, Any] = {
            "role": "assistant",
            "content": text or (None if (calls or refusal) and not self._options.for_mistral else ""),
        }
        message["refusal"] = refusal or None
        if thought:
            message["reasoning_content"] = thought
        if calls:
            said: list[dict[str, Any]] = [
                {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
                for call in calls
            ]
            extras = _extras(choice.run.turns[-1])
            for written in said:
                if written["id"] in extras:
                    written["extra_content"] = extras[written["id"]]
            message["tool_calls"] = said
        logprobs = join_logprobs(choice.logprobs)
        return {"index": choice.index, "message": message, "logprobs": logprobs, "finish_reason": choice.finish_reason}

    # ---- both --------------------------------------------------------------------------------------------------------

    @property
    def usage(self) -> Usage:
        usage = self._choices[0].run.usage
        for choice in self._choices[1:]:
            usage = usage + choice.run.usage
        return usage

    def _extensions(self, *, with_records: bool) -> dict[str, Any]:
        choices = self._choices
        records = [record for choice in choices for record in choice.tools.records] if with_records else ()
        warnings = [*self._options.warnings, *[said for choice in choices for said in choice.warnings]]
        return extensions(self._start.session, [choice.run.ended for choice in choices], warnings, records)


def _is_mistrals(user_agent: str) -> bool:
    """Mistral's clients come to this address too. A call is whole in each chunk of theirs, by their types or their code, and
    an answer that is nothing but calls has an empty text. Not all of them say who they are."""
    return "mistral-client-" in user_agent or "ai-sdk/mistral" in user_agent


def _extras(turn: Turn) -> dict[str, dict[str, Any]]:
    """What a client must send back with a call for the model to go on: Gemini's thought signatures. By the call's id."""
    if type(turn) is not AssistantTurn or turn.native is None:
        return {}
    from ronda.wire.gemini.signatures import for_chat

    return for_chat(turn)
