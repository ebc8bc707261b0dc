"""Chat Completions as its server, the way out: events → SSE bytes, or one JSON body.

Both are folds of the same events by the same class, so what a stream shows adds up to what the plain answer says. Text of
several rounds is one text, with an empty line between them. A caller's tool calls are streamed as they arrive while nothing
can take them back (the ordinary client-side flow); where the server runs tools too, they go out when the turn is settled.

Ids and times come from RunStarted: a stream written again from the log is the same, byte for byte.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import Raw

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
    Warned,
)
from ronda.core.output import final_text
from ronda.core.parts import NULL, AssistantTurn, ToolCall, Turn, Usage
from ronda.core.run import Run
from ronda.wire.json import in_one_line
from ronda.wire.openai_chat.client import join_logprobs
from ronda.wire.own_tools import OwnTools

encode = msgspec.json.Encoder().encode
_PARAGRAPH = "\n\n"
DONE = b"data: [DONE]\n\n"


def write_error(message: str, kind: str, param: str | None = None, code: str | None = None) -> bytes:
    return encode({"error": {"message": message, "type": kind, "param": param, "code": code}})


class _Stretch:
    """Text that comes in rounds, each cut into pieces: what was said in all, and what of this round was shown."""

    __slots__ = ("_pieces", "_said_before", "shown")

    def __init__(self) -> None:
        self._pieces: list[str] = []
        self._said_before = False
        self.shown = 0  # characters of this round

    def begin_round(self) -> None:
        self._said_before = self._said_before or self.shown > 0
        self.shown = 0

    def add(self, text: str) -> str:
        """Take a piece; what of it is to be shown, paragraph break included."""
        if not text:
            return ""
        if self.shown == 0 and self._said_before:
            self.shown = len(text)
            text = _PARAGRAPH + text
        else:
            self.shown += len(text)
        self._pieces.append(text)
        return text

    def rest(self, whole: str) -> str:
        """What of this round's whole text was not shown yet: everything, when nobody sent previews."""
        return self.add(whole[self.shown :]) if len(whole) > self.shown else ""

    @property
    def all(self) -> str:
        return "".join(self._pieces)


class _Choice:
    """One run, seen as one choice: the fold of its events."""

    __slots__ = ("_handed", "held", "index", "live_calls", "logprobs", "refused", "run", "said", "text_started", "thought",
                 "tools", "warnings")  # fmt: skip

    def __init__(self, index: int, run: Run) -> None:
        self.index = index
        self.run = run
        self.tools = OwnTools(index)
        self.said = _Stretch()
        self.thought = _Stretch()
        self.refused = _Stretch()
        self.logprobs: list[Raw] = []
        self.warnings: list[str] = []
        self.text_started = False
        self.live_calls = not run.runs_tools and run.plan.choice.mode != "none"
        self.held = run.plan.holds_text  # shown when the run is over, and only the answer
        self._handed: dict[int, _Handed] = {}

    def begin_round(self, round: int) -> None:
        self.tools.round = round
        self._handed = {}
        self.said.begin_round()
        self.thought.begin_round()
        self.refused.begin_round()

    def hand(self, index: int) -> _Handed:
        if index not in self._handed:
            self._handed[index] = _Handed()
        return self._handed[index]

    def is_taken(self, id: str) -> bool:
        return any(handed.id == id for handed in self._handed.values())

    @property
    def finish_reason(self) -> str:
        end = self.run.ended
        reason = end.reason if end is not None else "failed"
        return {"limit": "stop", "failed": "error", "cancelled": "error"}.get(reason, reason)


class _Handed:
    """How much of a caller's call has been streamed."""

    __slots__ = ("arguments", "id", "name", "waiting")

    def __init__(self) -> None:
        self.id = ""
        self.name = ""
        self.arguments = 0
        self.waiting: list[str] = []


def _said_usage(usage: Usage) -> dict[str, Any]:
    said = {
        "prompt_tokens": usage.input,
        "completion_tokens": usage.output,
        "total_tokens": usage.total,
        "prompt_tokens_details": {"cached_tokens": usage.cached},
        "completion_tokens_details": {"reasoning_tokens": usage.reasoning},
    }
    prompt, completion = usage.prompt_seconds, usage.completion_seconds
    if prompt or completion:  # an engine of ours, which knows
        said |= {
            "avg_tok_per_sec": _rate(usage.total, prompt + completion),
            "avg_prompt_tok_per_sec": _rate(usage.input, prompt),
            "avg_compl_tok_per_sec": _rate(usage.output, completion),
            "total_time_sec": round(prompt + completion, 3),
            "total_prompt_time_sec": round(prompt, 3),
            "total_completion_time_sec": round(completion, 3),
        }
    return said


def _rate(tokens: int, seconds: float) -> float:
    return round(tokens / seconds, 2) if seconds else 0.0


class ChatAnswer:
    """The answer to one request: one choice per run. `feed` gives the bytes of a stream, `body` the plain answer."""

    __slots__ = ("_choices", "_head", "_include_usage", "_model", "_open", "_start", "_warnings")

    def __init__(
        self, runs: Sequence[Run], model: str, *, include_usage: bool = False, warnings: Sequence[str] = ()
    ) -> None:
        start = runs[0].start
        self._start: RunStarted = start
        self._model = model
        self._include_usage = include_usage
        self._warnings = list(warnings)
        self._choices = [_Choice(index, run) for index, run in enumerate(runs)]
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
                    encode(self._model),
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

    def _write(self, choice: _Choice, event: Event, out: list[bytes]) -> None:
        match event:
            case ReasoningDelta() if event.text:
                out.append(self._content(choice, b"reasoning_content", choice.thought.add(event.text)))
            case CallDelta():
                if choice.live_calls:
                    out.extend(self._live_call(choice, event))
            case RefusalDelta() if event.text:
                out.append(self._content(choice, b"refusal", choice.refused.add(event.text)))
            case LogprobsDelta():
                choice.logprobs.append(event.logprobs)
                out.append(self._chunk(choice.index, b"{}", logprobs=in_one_line(bytes(event.logprobs))))
            case ModelFinished():
                self._write_rest(choice, event, out)
            case ToolStarted():
                out.append(self._progress(choice, choice.tools.progress(event.call_id)))
            case ToolFinished():
                choice.tools.record(event.result)
                out.append(self._progress(choice, choice.tools.progress(event.result.call_id, event.result)))
            case RunFinished():
                out.append(self._end(choice, event))
            case _:
                _fold(choice, event)

    def _write_rest(self, choice: _Choice, event: ModelFinished, out: list[bytes]) -> None:
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
            out.append(self._chunk(choice.index, b"{}", logprobs=in_one_line(bytes(event.logprobs))))
        calls = turn.calls
        choice.tools.asked(calls)
        if choice.live_calls:
            for index, call in enumerate(calls):
                out.extend(self._rest_of_call(choice, index, call))
            for index, extra in _extras(turn, calls).items():
                out.append(self._call_chunk(choice, {"index": index, "extra_content": extra}))

    def _content(self, choice: _Choice, key: bytes, text: str) -> bytes:
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

    # A call is announced once its id and name are known, and no other call of the turn has that id; its arguments follow as
    # they come. What could not be announced by the end of the turn goes out then, with the id it was given.

    def _live_call(self, choice: _Choice, delta: CallDelta) -> list[bytes]:
        handed = choice.hand(delta.index)
        if not handed.id:
            handed.waiting.append(delta.arguments)
            if not delta.id or not delta.name or choice.is_taken(delta.id):
                return []
            handed.id, handed.name = delta.id, delta.name
            arguments = "".join(handed.waiting)
            handed.arguments = len(arguments)
            return [self._announce(choice, delta.index, delta.id, delta.name, arguments)]
        function: dict[str, str] = {}
        if delta.name != handed.name and delta.name.startswith(handed.name):
            function["name"] = delta.name[len(handed.name) :]
            handed.name = delta.name
        if delta.arguments:
            function["arguments"] = delta.arguments
            handed.arguments += len(delta.arguments)
        return [self._call_chunk(choice, {"index": delta.index, "function": function})] if function else []

    def _rest_of_call(self, choice: _Choice, index: int, call: ToolCall) -> list[bytes]:
        handed = choice.hand(index)
        written = call.as_written
        if not handed.id:
            handed.id = call.id
            return [self._announce(choice, index, call.id, call.name, written)]
        if len(written) > handed.arguments:
            piece = {"index": index, "function": {"arguments": written[handed.arguments :]}}
            return [self._call_chunk(choice, piece)]
        return []

    def _announce(self, choice: _Choice, index: int, id: str, name: str, arguments: str) -> bytes:
        function = {"name": name, "arguments": arguments}
        return self._call_chunk(choice, {"index": index, "id": id, "type": "function", "function": function})

    def _call_chunk(self, choice: _Choice, call: dict[str, Any]) -> bytes:
        delta: dict[str, Any] = {"tool_calls": [call]}
        if not choice.text_started:
            choice.text_started = True
            delta = {"role": "assistant", "content": None, **delta}
        return self._chunk(choice.index, encode(delta))

    def _progress(self, choice: _Choice, said: dict[str, Any]) -> bytes:
        event = {
            "type": "agentic_tool_call_progress",
            **said,
            # The official SDK hands a named event out as a chunk, and naive code reads chunk.choices[0].
            "choices": [{"index": choice.index, "delta": {}, "finish_reason": None}],
        }
        return b"event: agentic_tool_call_progress\ndata: {%b,%b\n\n" % (self._head, encode(event)[1:])

    def _end(self, choice: _Choice, event: RunFinished) -> bytes:
        out: list[bytes] = []
        if (answer := self._answer_at_the_end(choice, event)) is not None:
            out.append(self._content(choice, b"content", answer))
        if event.reason == "tool_calls" and not choice.live_calls:
            for index, call in enumerate(choice.run.open_calls):
                out.append(self._announce(choice, index, call.id, call.name, call.as_written))
        self._open -= 1
        more = self._last_words(choice) if self._open == 0 else {}
        if event.reason in ("failed", "cancelled"):
            more = {"error": self._error(event), **more}
        more_bytes = b"," + encode(more)[1:-1] if more else b""
        delta = b"{}" if choice.text_started else b'{"role":"assistant","content":""}'
        out.append(self._chunk(choice.index, delta, encode(choice.finish_reason), more=more_bytes))
        if self._open == 0:
            if self._include_usage:
                out.append(b'data: {%b,"choices":[],"usage":%b}\n\n' % (self._head, encode(_said_usage(self.usage))))
            out.append(DONE)
        return b"".join(out)

    def broke_down(self, index: int) -> bytes:
        """Something of ours broke before the run could end: the stream ends properly all the same."""
        return self._end(
            self._choices[index], RunFinished("failed", message="the run broke down; the server's log says why")
        )

    @staticmethod
    def _answer_at_the_end(choice: _Choice, event: RunFinished) -> str | None:
        """Text that no model turn has shown: the loop's own words, or an answer that was held until it was checked."""
        answer = event.answer
        if answer is None and choice.held and event.reason in ("stop", "length", "content_filter", "limit"):
            answer = final_text(choice.run)
        if not answer:
            return None
        choice.said.begin_round()
        return choice.said.add(answer)

    @staticmethod
    def _error(event: RunFinished) -> dict[str, Any]:
        message = event.message or f"the run ended: {event.reason}"
        return {"message": message, "type": "server_error", "param": None, "code": event.reason}

    def _last_words(self, choice: _Choice) -> dict[str, Any]:
        words: dict[str, Any] = {} if self._include_usage else {"usage": _said_usage(self.usage)}
        return words | self._extensions(with_records=False)

    # ---- plain -------------------------------------------------------------------------------------------------------

    def fold(self, index: int, batch: Sequence[Event]) -> None:
        """Take events for the plain answer, which has no use for previews."""
        choice = self._choices[index]
        for event in batch:
            match event:
                case ModelFinished(turn=turn):
                    choice.thought.rest(turn.reasoning)
                    if not choice.held:
                        choice.said.rest(turn.text)
                    choice.refused.rest(turn.refusal)
                    choice.tools.asked(turn.calls)
                    if event.logprobs != NULL:
                        choice.logprobs.append(event.logprobs)
                case ToolFinished():
                    choice.tools.record(event.result)
                case RunFinished():
                    self._answer_at_the_end(choice, event)
                case _:
                    _fold(choice, event)

    def body(self) -> bytes:
        answer: dict[str, Any] = {
            "id": self._id,
            "object": "chat.completion",
            "created": int(self._start.at),
            "model": self._model,
            "system_fingerprint": "ronda",
            "choices": [self._message(choice) for choice in self._choices],
            "usage": _said_usage(self.usage),
        }
        return encode(answer | self._extensions(with_records=True))

    def _message(self, choice: _Choice) -> dict[str, Any]:
        text, thought, refusal = choice.said.all, choice.thought.all, choice.refused.all
        calls = choice.run.open_calls
        message: dict[str, Any] = {"role": "assistant", "content": text or (None if calls or refusal else "")}
        message["refusal"] = refusal or None
        if thought:
            message["reasoning_content"] = thought
        if calls:
            said: list[dict[str, Any]] = [
                {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.as_written}}
                for call in calls
            ]
            for index, extra in _extras(choice.run.turns[-1], calls).items():
                said[index]["extra_content"] = extra
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
        """What a loop adds to the dialect."""
        more: dict[str, Any] = {}
        if self._start.session:
            more["session_id"] = self._start.session
        if with_records and (records := [record for choice in self._choices for record in choice.tools.records]):
            more["agentic_tool_calls"] = records
        limits = [choice.run.ended.limit for choice in self._choices if choice.run.ended is not None]
        if reached := [limit for limit in limits if limit is not None]:
            more["limit"] = reached[0]
        if warnings := [*self._warnings, *[said for choice in self._choices for said in choice.warnings]]:
            more["warnings"] = warnings
        return more


def _extras(turn: Turn, calls: Sequence[ToolCall]) -> dict[int, dict[str, Any]]:
    """What a client must send back with a call for the model to go on: Gemini's thought signatures. By the call's place."""
    if type(turn) is not AssistantTurn or turn.native is None:
        return {}
    from ronda.wire.gemini.signatures import for_chat

    extras = for_chat(turn)
    return {index: extras[call.id] for index, call in enumerate(calls) if call.id in extras}


def _fold(choice: _Choice, event: Event) -> None:
    match event:
        case ModelStarted(round=round):
            choice.begin_round(round)
        case Warned(message=message):
            choice.warnings.append(message)
        case _:
            pass
