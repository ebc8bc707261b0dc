"""/v1/agents/completions as its server, the way out: events → data-only SSE, or one JSON body.

Both are folds of the same events by the same class. `message` is the final message of the assistant; `messages` is added
where the loop ran tools: every message of the turn, results included. In a stream a `role` begins the next message, behind a
paragraph break for those who only join texts. Where an agent hands over, the next one's run goes on with the same choice; the
call that did it is one of those the loop answered. What the loop does (progress, warnings, limits) rides as extra members of
ordinary chunks: a named event makes Mistral's own SDK raise.

Ids and times come from RunStarted: a stream written again from the log is the same, byte for byte.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from msgspec import Raw

from ronda.core.events import (
    CallDelta,
    Event,
    LogprobsDelta,
    ModelFinished,
    ModelInterrupted,
    ModelRetried,
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
from ronda.core.live import LiveCalls, Piece
from ronda.core.output import final_text
from ronda.core.parts import (
    NO_USAGE,
    NULL,
    AssistantTurn,
    Reasoning,
    Text,
    ToolTurn,
    Turn,
    Usage,
)
from ronda.core.run import Run
from ronda.wire.asked import AnswerOptions
from ronda.wire.endings import extensions, finish_reason, has_answer, has_calls, interruption
from ronda.wire.failures import BROKE_DOWN, error_in_stream, failure_at
from ronda.wire.json import encode, in_one_line
from ronda.wire.logprobs import join_logprobs
from ronda.wire.mistral.chunks import thinking, write_content
from ronda.wire.mistral.handoffs import answers_of, answers_to_handoffs, calls_for_caller, goes_on, ways_of
from ronda.wire.mistral.saying import Saying
from ronda.wire.mistral.written import BREAK, write_call, write_turns, write_usage
from ronda.wire.own_tools import OwnTools

DONE: Final = b"data: [DONE]\n\n"
_NO_TEXT: Final = b'{"content":""}'  # a delta that adds nothing


class _Choice:
    """One run, and those it handed over to, seen as one choice: the fold of their events."""

    __slots__ = (
        "before",
        "broken",
        "calls",
        "first_round",
        "held",
        "index",
        "logprobs",
        "run",
        "said_text",
        "saying",
        "started",
        "tools",
        "used",
        "warnings",
        "ways",
    )

    def __init__(self, index: int, run: Run) -> None:
        self.index = index
        self.tools = OwnTools(index)
        self.before: list[Turn] = []  # what runs that handed over have added, and what they used
        self.used: Usage = NO_USAGE
        self.first_round = 0  # of this run, among the rounds of all of them
        self.warnings: list[str] = []
        self.logprobs: list[Raw] = []
        self.broken: ModelInterrupted | None = None  # the attempt before this one
        self.started = False  # something of this round's message was shown …
        self.said_text = False  # … and of the last one that was, text
        self.follow(run)

    def go_on(self, run: Run) -> None:
        self.before += [*self.run.generated, ToolTurn(answers_of(self.run))]
        self.used = self.usage
        self.first_round = self.tools.round + 1
        self.started = False
        self.follow(run)

    def follow(self, run: Run) -> None:
        self.run = run
        self.tools.asked(())
        about = run.start.about
        last = run.start.turns[-1] if run.start.turns else None
        self.saying = Saying(last.text if "prefix" in about and isinstance(last, AssistantTurn) else "")
        ways = ways_of(run)
        self.ways = ways.to.keys() if ways is not None else frozenset[str]()
        self.calls = LiveCalls(run.plan, without=self.ways)
        self.held = run.plan.holds_text  # shown when the run is over, and only the answer

    def begin_round(self, start: ModelStarted) -> None:
        self.broken = None
        self.tools.round = self.first_round + start.round
        self.begin_message()
        self.calls = LiveCalls(self.run.plan, start, self.ways)

    def begin_message(self) -> None:
        self.saying.begin_round()
        self.started = False

    @property
    def usage(self) -> Usage:
        return self.used + self.run.usage

    @property
    def finish_reason(self) -> str:
        return finish_reason(self.run.ended)

    @property
    def ran_tools(self) -> bool:
        """The loop answered calls itself: the conversation has more messages than the last one."""
        return bool(self.run.results or self.before) or any(isinstance(turn, ToolTurn) for turn in self.run.generated)


class CompletionAnswer:
    """The answer to one request: one choice per run. `feed` gives the bytes of a stream, `body` the plain answer."""

    __slots__ = ("_choices", "_head", "_model", "_open", "_start", "_warnings")

    def __init__(self, runs: Sequence[Run]) -> None:
        self._start: RunStarted = runs[0].start
        options = AnswerOptions.of(self._start)
        self._model = options.model
        self._warnings = list(options.warnings)
        self._choices = [_Choice(index, run) for index, run in enumerate(runs)]
        self._open = len(runs)
        self._head = b""  # of every chunk; written with the first

    @property
    def _id(self) -> str:
        return self._start.run.removeprefix("run_")

    def go_on(self, index: int, run: Run) -> None:
        """The run of this choice handed over, and this one goes on."""
        self._warnings += [warning for warning in AnswerOptions.of(run.start).warnings if warning not in self._warnings]
        self._choices[index].go_on(run)

    # ---- stream ------------------------------------------------------------------------------------------------------

    def feed(self, index: int, batch: Sequence[Event]) -> bytes:
        choice = self._choices[index]
        if not self._head:
            self._head = b'"id":%b,"object":"chat.completion.chunk","created":%d,"model":%b' % (
                encode(self._id),
                int(self._start.at),
                encode(self._model),
            )
        out: list[bytes] = []
        for event in batch:
            if type(event) is TextDelta:
                if not choice.held and (said := choice.saying.text(event.text)):
                    out.append(self._text(choice, said))
            else:
                self._write(choice, event, out)
        return b"".join(out)

    def _write(self, choice: _Choice, event: Event, out: list[bytes]) -> None:
        match event:
            case ReasoningDelta():
                if said := choice.saying.thought(event.text):
                    out.append(self._thought(choice, said))
            case RefusalDelta():
                if not choice.held and (said := choice.saying.refusal(event.text)):
                    out.append(self._text(choice, said))
            case CallDelta():
                out += [self._piece(choice, piece) for piece in choice.calls.add(event)]
            case LogprobsDelta():
                if not choice.held:
                    more = b',"logprobs":%b' % in_one_line(bytes(event.logprobs))
                    choice.logprobs.append(event.logprobs)
                    out.append(self._chunk(choice.index, _NO_TEXT, more=more))
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
                    out.append(self._chunk(choice.index, _NO_TEXT, top=mark))
                choice.begin_round(event)
            case _:
                _fold(choice, event)

    def _write_rest(self, choice: _Choice, event: ModelFinished, out: list[bytes]) -> None:
        """What no preview has shown: an upstream may answer whole, and then it goes out whole."""
        turn = event.turn
        if rest := choice.saying.rest_of_thought(turn.reasoning):
            out.append(self._thought(choice, rest))
        if not choice.held:
            if rest := choice.saying.rest_of_text(turn.text):
                out.append(self._text(choice, rest))
            if rest := choice.saying.rest_of_refusal(turn.refusal) + choice.saying.end():
                out.append(self._text(choice, rest))
        if event.logprobs != NULL and not choice.logprobs:
            choice.logprobs.append(event.logprobs)
            out.append(self._chunk(choice.index, _NO_TEXT, more=b',"logprobs":%b' % in_one_line(bytes(event.logprobs))))
        choice.tools.asked(turn.calls)
        out += [self._piece(choice, piece) for piece in choice.calls.rest(turn)]

    def _text(self, choice: _Choice, said: str) -> bytes:
        chunk = self._delta(choice, b'"content":%b' % encode(said))
        choice.said_text = True
        return chunk

    def _thought(self, choice: _Choice, said: str) -> bytes:
        return self._delta(choice, b'"content":[%b]' % encode(thinking(said)))

    def _piece(self, choice: _Choice, piece: Piece) -> bytes:
        # The SDK fills in what is missing: an id becomes "null", and a name must be there. Empty, it adds nothing.
        function = {"name": piece.name if piece.is_first else "", "arguments": piece.arguments}
        call = {"id": piece.id, "type": "function", "function": function, "index": piece.place}
        return self._delta(choice, b'"tool_calls":[%b]' % encode(call))

    def _delta(self, choice: _Choice, said: bytes) -> bytes:
        if choice.started:
            return self._chunk(choice.index, b"{%b}" % said)
        end = self._chunk(choice.index, b'{"content":%b}' % encode(BREAK)) if choice.said_text else b""
        choice.started, choice.said_text = True, False
        return end + self._chunk(choice.index, b'{"role":"assistant",%b}' % said)

    def _chunk(self, index: int, delta: bytes, finish: bytes = b"null", more: bytes = b"", top: bytes = b"") -> bytes:
        return b'data: {%b,"choices":[{"index":%d,"delta":%b,"finish_reason":%b%b}]%b}\n\n' % (
            self._head,
            index,
            delta,
            finish,
            more,
            top,
        )

    def _progress(self, choice: _Choice, said: dict[str, Any]) -> bytes:
        if choice.index:
            said["choice"] = choice.index
        # Both generations of the SDK hand it out as a chunk, and programs read choices[0] of each.
        return self._chunk(choice.index, _NO_TEXT, top=b',"agentic_tool_call_progress":%b' % encode(said))

    def _end(self, choice: _Choice, event: RunFinished) -> bytes:
        out: list[bytes] = []
        if said := _answer_at_the_end(choice, event):
            out.append(self._text(choice, said))
        if event.reason == "tool_calls" and goes_on(choice.run):
            for id, result in answers_to_handoffs(choice.run).items():
                choice.tools.record(result)
                out.append(self._progress(choice, choice.tools.progress(id)))
                out.append(self._progress(choice, choice.tools.progress(id, result)))
            return b"".join(out)
        if has_calls(event) and not choice.run.plan.announces_calls:
            for place, call in enumerate(calls_for_caller(choice.run)):
                out.append(self._piece(choice, Piece(place, call.id, call.name, call.arguments, True)))
        self._open -= 1
        more: dict[str, Any] = {}
        if (failure := failure_at(event, choice.run.failure)) is not None:
            more["error"] = error_in_stream(failure)
        if self._open == 0:
            more |= {"usage": write_usage(self.usage)} | self._extensions(with_records=False)
        if not choice.started:
            out.append(self._text(choice, ""))
        top = b"," + encode(more)[1:-1] if more else b""
        out.append(self._chunk(choice.index, _NO_TEXT, encode(choice.finish_reason), top=top))
        if "error" in more:
            # The SDKs pass over `error` in a chunk, and show what came so far as the answer; what is no chunk they raise.
            out.append(b"data: %b\n\n" % encode({"object": "error", **more["error"]}))
        if self._open == 0:
            out.append(DONE)
        return b"".join(out)

    def broke_down(self, index: int) -> bytes:
        """Something of ours broke before the run could end: the stream ends properly all the same."""
        return self._end(self._choices[index], BROKE_DOWN)

    # ---- plain -------------------------------------------------------------------------------------------------------

    def fold(self, index: int, batch: Sequence[Event]) -> None:
        choice = self._choices[index]
        for event in batch:
            match event:
                case ModelFinished(turn=turn):
                    choice.saying.rest_of_thought(turn.reasoning)
                    if not choice.held:
                        choice.saying.rest_of_text(turn.text)
                        choice.saying.rest_of_refusal(turn.refusal)
                        choice.saying.end()
                    if event.logprobs != NULL:
                        choice.logprobs.append(event.logprobs)
                    choice.tools.asked(turn.calls)
                case ToolFinished():
                    choice.tools.record(event.result)
                case RunFinished():
                    _answer_at_the_end(choice, event)
                    if goes_on(choice.run):
                        for result in answers_to_handoffs(choice.run).values():
                            choice.tools.record(result)
                case _:
                    _fold(choice, event)

    def body(self) -> bytes:
        answer: dict[str, Any] = {
            "id": self._id,
            "object": "chat.completion",
            "created": int(self._start.at),
            "model": self._model,
            "choices": [self._message(choice) for choice in self._choices],
            "usage": write_usage(self.usage),
        }
        return encode(answer | self._extensions(with_records=True))

    def _message(self, choice: _Choice) -> dict[str, Any]:
        parts = [Reasoning(said) if thought else Text(said) for thought, said in choice.saying.parts]
        message: dict[str, Any] = {"role": "assistant", "content": write_content(parts)}
        if calls := calls_for_caller(choice.run):
            message["tool_calls"] = [write_call(call, at) for at, call in enumerate(calls)]
        said: dict[str, Any] = {"index": choice.index, "message": message}
        if choice.ran_tools:
            added = [*choice.before, *choice.run.generated]
            said["messages"] = write_turns(added, choice.run.results, held=choice.held)
        said["finish_reason"] = choice.finish_reason
        if choice.logprobs:
            said["logprobs"] = join_logprobs(choice.logprobs)
        return said

    # ---- both --------------------------------------------------------------------------------------------------------

    @property
    def usage(self) -> Usage:
        usage = self._choices[0].usage
        for choice in self._choices[1:]:
            usage = usage + choice.usage
        return usage

    def _extensions(self, *, with_records: bool) -> dict[str, Any]:
        choices = self._choices
        records = [record for choice in choices for record in choice.tools.records] if with_records else ()
        warnings = [*self._warnings, *[said for choice in choices for said in choice.warnings]]
        return extensions(self._start.session, [choice.run.ended for choice in choices], warnings, records)


def _answer_at_the_end(choice: _Choice, event: RunFinished) -> str:
    """Text that no model turn has shown: the loop's own words, or an answer that was held until it was checked."""
    saying = choice.saying
    if event.answer:
        if saying.parts or choice.tools.were_asked:
            choice.begin_message()
        return saying.text(event.answer) + saying.end()
    if choice.held and has_answer(event):
        return saying.text(final_text(choice.run)) + saying.end()
    return saying.end()


def _fold(choice: _Choice, event: Event) -> None:
    match event:
        case ModelStarted():
            choice.begin_round(event)
        case ModelInterrupted():
            choice.broken = event
        case ModelRetried():
            choice.calls = choice.calls.anew()
        case Warned(message=message):
            choice.warnings.append(message)
        case _:
            pass
