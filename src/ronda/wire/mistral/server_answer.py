"""/v1/agents/completions as its server, the way out: events → data-only SSE, or one JSON body.

Both are folds of the same events by the same class. `message` is the final message of the assistant; `messages` is added
where the loop ran tools: every message of the turn, results included. In a stream a `role` begins the next message, behind a
paragraph break for clients that only join texts. Where an agent hands over, the next one's run continues in the same choice; the
call that did it is one of those the loop answered. What the loop does (progress, warnings, limits) rides as extra members of
ordinary chunks: a named event makes Mistral's own SDK raise.

Ids and times come from RunStarted: a stream written again from the log is the same, byte for byte.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from operator import add
from typing import Any, Final, assert_never

from msgspec import Raw

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
from ronda.core.parts import NO_USAGE, AssistantTurn, ToolResult, ToolTurn, Turn, Usage
from ronda.core.run import Run, rebuild
from ronda.wire.codec.json import encode, in_one_line
from ronda.wire.mistral.answer_parts import BREAK, MessageText, write_call, write_turns, write_usage
from ronda.wire.mistral.chunks import thinking, write_content
from ronda.wire.mistral.handoffs import answers_of, answers_to_handoffs, calls_for_caller, hands_over, ways_out
from ronda.wire.shared import updates
from ronda.wire.shared.approvals import EVENT, REQUIRES_ACTION, write_approval
from ronda.wire.shared.door_request import AnswerOptions
from ronda.wire.shared.endings import extensions, finish_reason, interruption
from ronda.wire.shared.failures import Failure, error_in_stream
from ronda.wire.shared.preview import ArgumentPatches
from ronda.wire.shared.showing import Showing
from ronda.wire.upstream.logprobs import join_logprobs

DONE: Final = b"data: [DONE]\n\n"
_NO_TEXT: Final = b'{"content":""}'  # a delta that adds nothing


class _Choice:
    """One run, and those it handed over to, seen as one choice: the fold of their events."""

    __slots__ = ("before", "has_begun", "has_text", "index", "logprobs", "run", "saying", "showing", "skipped", "used")

    def __init__(self, index: int, run: Run) -> None:
        self.index = index
        self.run = run
        self.before: list[Turn] = []  # what runs that handed over have added, and what they used
        self.skipped = 0  # turns that the run had added before this answer
        self.used: Usage = NO_USAGE
        self.logprobs: list[Raw] = []
        self.has_begun = False  # something of this round's message was shown …
        self.has_text = False  # … and of the last one that was, text
        self.saying = MessageText(run.start)
        self.showing = Showing(run, choice=index, without=ways_out(run), refusal_is_text=True, id_prefix="")

    def hand_over(self, run: Run) -> None:
        self.before += [*self.run.generated, ToolTurn(answers_of(self.run))]
        self.used = self.usage
        self.run = run
        self.has_begun = False
        self.saying = MessageText(run.start)
        self.showing.follow(run, ways_out(run))

    def begin_message(self) -> None:
        self.saying.begin_round()
        self.has_begun = False

    def last_text(self, ended: updates.Ended) -> str:
        """The loop's own words are a message of their own."""
        if ended.end.answer and (self.saying.parts or self.showing.tools.calls):
            self.begin_message()
        return self.saying.text(ended.text) + self.saying.end()

    def fold(self, batch: Sequence[Event]) -> None:
        """For the plain answer, which is made of whole turns and needs no bytes of them."""
        for update in self.showing.fold(batch):
            if type(update) is updates.TurnBegan:
                self.begin_message()
            elif type(update) is updates.TurnClosed:
                for delta in update.unseen:
                    self._add(delta)
                if not self.showing.holds_text:
                    self.saying.end()
            elif type(update) is updates.Ended:
                self.last_text(update)
                if hands_over(self.run):
                    for result in answers_to_handoffs(self.run).values():
                        self.showing.tools.record(result)

    def _add(self, delta: updates.Delta) -> None:
        match delta:
            case TextDelta(text=text) | RefusalDelta(text=text):
                self.saying.text(text)
            case ReasoningDelta(text=text):
                self.saying.thought(text)
            case LogprobsDelta(logprobs=logprobs):
                self.logprobs.append(logprobs)
            case _:
                assert_never(delta)

    @property
    def usage(self) -> Usage:
        return self.used + (self.run.usage - self.showing.used_before)

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

    def hand_over(self, index: int, run: Run) -> None:
        """The run of this choice handed over, and this one goes on."""
        self._warnings += [warning for warning in AnswerOptions.of(run.start).warnings if warning not in self._warnings]
        self._choices[index].hand_over(run)

    # ---- stream ------------------------------------------------------------------------------------------------------

    def feed(self, index: int, batch: Sequence[Event | Failure]) -> bytes:
        choice = self._choices[index]
        if not self._head:
            self._head = b'"id":%b,"object":"chat.completion.chunk","created":%d,"model":%b' % (
                encode(self._id),
                int(self._start.at),
                encode(self._model),
            )
        showing = choice.showing
        out: list[bytes] = []
        for event in batch:
            if type(event) is TextDelta:
                if event.text and not showing.holds_text:
                    showing.text += len(event.text)
                    out.append(self._text(choice, choice.saying.text(event.text)))
            elif (update := showing.take(event)) is not None:
                self._write(choice, update, out)
        return b"".join(out)

    def _write(self, choice: _Choice, update: updates.Update, out: list[bytes]) -> None:
        showing = choice.showing
        match update:
            case TextDelta(text=text) | RefusalDelta(text=text):
                out.append(self._text(choice, choice.saying.text(text)))
            case ReasoningDelta(text=text):
                thought = encode(thinking(choice.saying.thought(text)))
                out.append(self._delta(choice, b'"content":[%b]' % thought))
            case updates.CallsGrew(pieces=pieces, previews=previews):
                out += [self._piece(choice, piece) for piece in pieces]
                out += [self._preview(choice, patches) for patches in previews]
            case LogprobsDelta(logprobs=logprobs):
                choice.logprobs.append(logprobs)
                more = b',"logprobs":%b' % in_one_line(bytes(logprobs))
                out.append(self._chunk(choice.index, _NO_TEXT, more=more))
            case updates.TurnBegan(broken=broken):
                if broken is not None:
                    mark = b"," + encode(interruption(broken))[1:-1]
                    out.append(self._chunk(choice.index, _NO_TEXT, top=mark))
                choice.begin_message()
            case updates.TurnClosed(unseen=unseen, pieces=pieces, previews=previews, denied=denied):
                for piece in unseen:
                    self._write(choice, piece, out)
                if not showing.holds_text:
                    out.append(self._text(choice, choice.saying.end()))
                self._write(choice, updates.CallsGrew(pieces, previews), out)
                for ended in denied:
                    self._write(choice, updates.ToolBegan(ended.call, ended.at), out)
                    self._write(choice, ended, out)
            case updates.ToolBegan(call=call, was_asked=was_asked):
                if not was_asked:
                    out.append(self._progress(choice, call.id))
            case updates.QuestionAsked(call=call, approval=approval, is_news=is_news):
                if is_news:
                    out.append(self._progress(choice, call.id))
                top = b',"%b":%b' % (EVENT.encode(), encode(write_approval(approval)))
                out.append(self._chunk(choice.index, _NO_TEXT, top=top))
            case updates.QuestionClosed(ended=ended, rewritten=rewritten):
                for one in ended if rewritten is None else (rewritten,):
                    self._write(choice, one, out)
            case updates.ToolEnded(call=call, result=result, files=files):
                out += [self._file(choice, file) for file in files]
                out.append(self._progress(choice, call.id, result))
            case updates.Ended():
                self._end(choice, update, out)
            case updates.Paused():
                self._close(choice, "stop", out)
            case updates.TurnBroke(unseen=unseen):
                for piece in unseen:
                    self._write(choice, piece, out)
            case NativeDelta() | ToolProgressed() | updates.Withdrawn():
                pass
            case _:
                assert_never(update)

    def _text(self, choice: _Choice, text: str) -> bytes:
        if not text:
            return b""
        chunk = self._delta(choice, b'"content":%b' % encode(text))
        choice.has_text = True
        return chunk

    def _piece(self, choice: _Choice, piece: Piece) -> bytes:
        # The SDK fills in what is missing: an id becomes "null", and a name must be there. Empty, it adds nothing.
        function = {"name": piece.name if piece.is_first else "", "arguments": piece.arguments}
        call_id = choice.showing.shown_id(piece.id)
        call = {"id": call_id, "type": "function", "function": function, "index": piece.place}
        return self._delta(choice, b'"tool_calls":[%b]' % encode(call))

    def _delta(self, choice: _Choice, text: bytes) -> bytes:
        if choice.has_begun:
            return self._chunk(choice.index, b"{%b}" % text)
        end = self._chunk(choice.index, b'{"content":%b}' % encode(BREAK)) if choice.has_text else b""
        choice.has_begun, choice.has_text = True, False
        return end + self._chunk(choice.index, b'{"role":"assistant",%b}' % text)

    def _chunk(self, index: int, delta: bytes, finish: bytes = b"null", more: bytes = b"", top: bytes = b"") -> bytes:
        return b'data: {%b,"choices":[{"index":%d,"delta":%b,"finish_reason":%b%b}]%b}\n\n' % (
            self._head,
            index,
            delta,
            finish,
            more,
            top,
        )

    def _progress(self, choice: _Choice, call_id: str, result: ToolResult | None = None) -> bytes:
        return self._own_event(choice, b"agentic_tool_call_progress", choice.showing.tools.progress(call_id, result))

    def _preview(self, choice: _Choice, patches: ArgumentPatches) -> bytes:
        return self._own_event(choice, b"agentic_tool_call_preview", choice.showing.tools.preview(patches))

    def _own_event(self, choice: _Choice, name: bytes, event: dict[str, Any]) -> bytes:
        """An event of ours. Both generations of the SDK hand it out as a chunk, and programs read choices[0] of each."""
        if choice.index:
            event["choice"] = choice.index
        return self._chunk(choice.index, _NO_TEXT, top=b',"%b":%b' % (name, encode(event)))

    def _file(self, choice: _Choice, file: dict[str, Any]) -> bytes:
        return self._chunk(choice.index, _NO_TEXT, top=b',"file_produced":%b' % encode(file))

    def _end(self, choice: _Choice, ended: updates.Ended, out: list[bytes]) -> None:
        out += [self._file(choice, file) for file in ended.files]
        out.append(self._text(choice, choice.last_text(ended)))
        if ended.end.reason == "tool_calls" and hands_over(choice.run):
            for call_id, result in answers_to_handoffs(choice.run).items():
                choice.showing.tools.record(result)
                out += [self._progress(choice, call_id), self._progress(choice, call_id, result)]
            if not choice.showing.is_continued:  # else the next agent is not driven
                return
        for index, call in enumerate(ended.late):
            out.append(self._piece(choice, Piece(index, call.id, call.name, call.arguments, True)))
        self._close(choice, finish_reason(choice.run.ended), out, ended.failure)

    def _close(self, choice: _Choice, reason: str, out: list[bytes], failure: Failure | None = None) -> None:
        """The last chunk of a choice; with the last of them what there is to say of all."""
        self._open -= 1
        more: dict[str, Any] = {}
        if failure is not None:
            more["error"] = error_in_stream(failure)
        if self._open == 0:
            more |= {"usage": write_usage(self.usage)} | self._extensions(with_records=False)
        if not choice.has_begun:
            out.append(self._delta(choice, b'"content":""'))
        top = b"," + encode(more)[1:-1] if more else b""
        out.append(self._chunk(choice.index, _NO_TEXT, encode(reason), top=top))
        if "error" in more:
            # The SDKs pass over `error` in a chunk, and show what came so far as the answer; what is no chunk they raise.
            out.append(b"data: %b\n\n" % encode({"object": "error", **more["error"]}))
        if self._open == 0:
            out.append(DONE)

    # ---- plain -------------------------------------------------------------------------------------------------------

    def fold(self, index: int, batch: Sequence[Event]) -> None:
        self._choices[index].fold(batch)

    def skip(self, index: int, facts: Sequence[Event]) -> None:
        """These were told in an answer before: this one goes on from there."""
        choice = self._choices[index]
        choice.showing.skip(facts)
        turns = rebuild([choice.run.start, *facts]).generated
        choice.skipped = len(turns) - (bool(turns) and type(turns[-1]) is AssistantTurn)  # with the calls that go on

    def body(self) -> bytes:
        choices = [self._message(choice) for choice in self._choices]
        answer = {**self.frame(), "choices": choices, "usage": write_usage(self.usage)}
        return encode(answer | self._extensions(with_records=True))

    def frame(self) -> dict[str, Any]:
        """The object without an answer in it."""
        return {
            "id": self._id,
            "object": "chat.completion",
            "created": int(self._start.at),
            "model": self._model,
            "choices": [],
            "usage": write_usage(self.usage),
        }

    def _message(self, choice: _Choice) -> dict[str, Any]:
        shown_id = choice.showing.shown_id
        message: dict[str, Any] = {"role": "assistant", "content": write_content(choice.saying.parts)}
        if choice.run.ended is not None and (calls := calls_for_caller(choice.run)):
            message["tool_calls"] = [write_call(call, index, shown_id) for index, call in enumerate(calls)]
        fields: dict[str, Any] = {"index": choice.index, "message": message}
        if choice.ran_tools:
            added = [*choice.before, *choice.run.generated[choice.skipped :]]
            fields["messages"] = write_turns(added, choice.run.results, shown_id, holds_text=choice.showing.holds_text)
        fields["finish_reason"] = "stop" if choice.showing.approvals() else finish_reason(choice.run.ended)
        if choice.logprobs:
            fields["logprobs"] = join_logprobs(choice.logprobs)
        return fields

    # ---- both --------------------------------------------------------------------------------------------------------

    @property
    def usage(self) -> Usage:
        return reduce(add, [choice.usage for choice in self._choices])

    def _extensions(self, *, with_records: bool) -> dict[str, Any]:
        choices = [choice.showing for choice in self._choices]
        more = extensions(self._start.session, choices, self._warnings, with_records=with_records)
        return {"status": REQUIRES_ACTION, **more} if "approvals" in more else more
