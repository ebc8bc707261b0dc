"""A conversation's answer, the way out: events → named SSE events, or one JSON body; and the entries of a run's log.

An entry's id is made of the run, the round and what it is, so the ids a stream shows are those that the history has later.
In a stream the deltas of an entry have its `output_index`; there is no `[DONE]`. A caller's call is streamed as it arrives;
among the entries it stands behind what our tools did beside it, since clients look for it in the last one. An agent that
hands over ends its run: the answer goes on with the next one's.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from ronda.core.events import (
    CallDelta,
    Event,
    ModelFinished,
    ModelInterrupted,
    ModelRetried,
    ModelStarted,
    ReasoningDelta,
    RefusalDelta,
    RunFinished,
    TextDelta,
    ToolFinished,
    ToolStarted,
    Warned,
)
from ronda.core.live import LiveCalls, Piece
from ronda.core.output import final_text
from ronda.core.parts import NO_USAGE, AssistantTurn, Reasoning, Text, ToolCall, ToolResult, Usage
from ronda.core.run import Run
from ronda.wire.asked import AnswerOptions
from ronda.wire.endings import extensions, has_answer, has_calls
from ronda.wire.failures import BROKE_DOWN, Failure, failure_at
from ronda.wire.json import encode
from ronda.wire.mistral.agents import when
from ronda.wire.mistral.chunks import thinking, write_content
from ronda.wire.mistral.handoffs import Handoff, calls_for_caller, goes_on, handoff_of, ways_of
from ronda.wire.mistral.saying import Saying
from ronda.wire.mistral.written import write_usage

_decode_text = msgspec.json.Decoder(str).decode


class ConversationAnswer:
    """The answer of one run, and of those that others handed over to. `feed` gives the bytes of a stream, `body` the plain
    answer; `outputs` are its entries."""

    def __init__(self, runs: Sequence[Run]) -> None:
        [run] = runs
        self._id = _decode_text(run.start.about["conversation"])
        self._indices: dict[str, int] = {}  # of the entries that a stream has shown
        self._begun = False
        self._used: Usage = NO_USAGE  # by the runs before
        self._warnings = list(AnswerOptions.of(run.start).warnings)
        self.outputs: list[dict[str, Any]] = []
        self._follow(run)

    def go_on(self, sibling: int, run: Run) -> None:
        """The run handed over, and this one goes on."""
        self._used = self._used + self._run.usage
        self._warnings += [warning for warning in AnswerOptions.of(run.start).warnings if warning not in self._warnings]
        self._follow(run)

    def _follow(self, run: Run) -> None:
        about = run.start.about
        self._run = run
        self._key = run.id.removeprefix("run_")
        self._whose: dict[str, Any] = {
            name: _decode_text(about[name]) for name in ("model", "agent_id") if name in about
        }
        last = run.start.turns[-1] if run.start.turns else None
        self._saying = Saying(last.text if "prefix" in about and isinstance(last, AssistantTurn) else "")
        ways = ways_of(run)
        self._ways = ways.to.keys() if ways is not None else frozenset[str]()
        self._live = LiveCalls(run.plan, without=self._ways)
        self._held = run.plan.holds_text
        self._round = 0
        self._at = run.start.at
        self._calls: dict[str, tuple[int, ToolCall]] = {}  # of this round, with their places
        self._part = (False, -1)  # what kind of content is being shown, and its index
        self._head = b""

    # ---- stream ------------------------------------------------------------------------------------------------------

    def feed(self, sibling: int, batch: Sequence[Event]) -> bytes:
        out: list[bytes] = []
        if not self._begun:
            self._begun = True
            at = when(self._run.start.at)
            out.append(_event("conversation.response.started", conversation_id=self._id, created_at=at))
        for event in batch:
            self._write(event, out)
        return b"".join(out)

    def _write(self, event: Event, out: list[bytes]) -> None:
        match event:
            case TextDelta():
                if not self._held:
                    self._show(False, self._saying.text(event.text), out)
            case ReasoningDelta():
                self._show(True, self._saying.thought(event.text), out)
            case RefusalDelta():
                if not self._held:
                    self._show(False, self._saying.refusal(event.text), out)
            case CallDelta():
                out += [self._call_delta(piece) for piece in self._live.add(event)]
            case ModelFinished(turn=turn):
                self._show(True, self._saying.rest_of_thought(turn.reasoning), out)
                if not self._held:
                    self._show(False, self._saying.rest_of_text(turn.text), out)
                    self._show(False, self._saying.rest_of_refusal(turn.refusal), out)
                    self._show(False, self._saying.end(), out)
                out += [self._call_delta(piece) for piece in self._live.rest(turn)]
                self._take(event)
            case ToolStarted():
                self._take(event)
                entry = self.outputs[-1]
                shown = {name: entry[name] for name in ("id", "name", "arguments", "created_at")}
                out.append(self._entry_event("tool.execution.started", **shown, **self._whose))
            case ToolFinished(result=result):
                self._take(event)
                entry = self._execution(result)
                shown = {"id": entry["id"], "name": entry["name"], "info": entry["info"]}
                out.append(self._entry_event("tool.execution.done", **shown, created_at=entry["completed_at"]))
            case RunFinished():
                self._end(event, out)
            case _:
                self._take(event)

    def _show(self, thought: bool, text: str, out: list[bytes]) -> None:
        if not text:
            return
        kind, index = self._part
        if index < 0 or kind != thought:
            self._part = (thought, index + 1)
            whole = self._entry_event(
                "message.output.delta",
                id=self._message_id,
                content_index=self._part[1],
                role="assistant",
                created_at=when(self._at),
                **self._whose,
            )
            self._head = whole.removesuffix(b"}\n\n")  # the same for every piece of this content
        out.append(b'%b,"content":%b}\n\n' % (self._head, encode(thinking(text) if thought else text)))

    def _call_delta(self, piece: Piece) -> bytes:
        return self._entry_event(
            "function.call.delta",
            id=f"fc_{self._key}_{self._round}_{piece.place}",
            name=piece.name,
            tool_call_id=piece.id,
            arguments=piece.arguments,
            created_at=when(self._at),
            **self._whose,
        )

    def _entry_event(self, kind: str, **data: Any) -> bytes:
        index = self._indices.setdefault(data["id"], len(self._indices))
        return _event(kind, output_index=index, **data)

    def _end(self, event: RunFinished, out: list[bytes]) -> None:
        before = len(self.outputs)
        self._show(False, self._last_text(event), out)
        self._take(event)
        for entry in self.outputs[before:] if not self._run.plan.announces_calls else ():
            if entry["type"] == "function.call":
                shown = {name: entry[name] for name in ("id", "name", "tool_call_id", "arguments", "created_at")}
                out.append(self._entry_event("function.call.delta", **shown, **self._whose))
        at = when(event.at)
        if (handoff := handoff_of(self._run)) is not None:
            self._show_handoff(handoff, at, out)
        if goes_on(self._run):
            return
        if (failure := failure_at(event, self._run.failure)) is not None:
            out.append(_error(failure, created_at=at))
        else:
            out.append(_event("conversation.response.done", usage=self._usage(), created_at=at, **self._more(event)))

    def _show_handoff(self, handoff: Handoff, at: str, out: list[bytes]) -> None:
        entry = self.outputs[-1]
        id, was, next = entry["id"], handoff.previous, handoff.next
        out.append(
            self._entry_event(
                "agent.handoff.started",
                id=id,
                previous_agent_id=was.id,
                previous_agent_name=was.name,
                created_at=entry["created_at"],
            )
        )
        out.append(
            self._entry_event(
                "agent.handoff.done", id=id, next_agent_id=next.id, next_agent_name=next.name, created_at=at
            )
        )

    def broke_down(self, sibling: int) -> bytes:
        failure = failure_at(BROKE_DOWN, None)
        assert failure is not None
        return _error(failure)

    # ---- plain -------------------------------------------------------------------------------------------------------

    def fold(self, sibling: int, batch: Sequence[Event]) -> None:
        for event in batch:
            match event:
                case ModelFinished(turn=turn):
                    self._saying.rest_of_thought(turn.reasoning)
                    if not self._held:
                        self._saying.rest_of_text(turn.text)
                        self._saying.rest_of_refusal(turn.refusal)
                        self._saying.end()
                case RunFinished():
                    self._last_text(event)
            self._take(event)

    def body(self) -> bytes:
        end = self._run.ended
        assert end is not None
        answer = {
            "object": "conversation.response",
            "conversation_id": self._id,
            "outputs": self.outputs,
            "usage": self._usage(),
        }
        return encode(answer | self._more(end))

    # ---- both: entries -----------------------------------------------------------------------------------------------

    @property
    def _message_id(self) -> str:
        return f"msg_{self._key}_{self._round}"

    def _take(self, event: Event) -> None:
        match event:
            case ModelStarted(round=round, at=at):
                self._round, self._at = round, at
                self._begin_message()
                self._live = LiveCalls(self._run.plan, event, self._ways)
            case ModelRetried():
                self._live = self._live.anew()
            case ModelInterrupted(turn=turn, at=at):
                self._saying.rest_of_thought(turn.reasoning)  # a log without previews has it here
                if not self._held:
                    self._saying.rest_of_text(turn.text)
                self._close_message(at)
            case ModelFinished(turn=turn, at=at):
                if not self._held or turn.calls:
                    self._close_message(at)
                calls = [call for call in turn.calls if call.name not in self._ways]
                self._calls = {call.id: (place, call) for place, call in enumerate(calls)}
            case ToolStarted(call_id=id, at=at):
                place, call = self._calls[id]
                self._add(
                    "tool.execution",
                    f"tool_{self._key}_{self._round}_{place}",
                    at,
                    None,
                    name=call.name,
                    arguments=call.arguments,
                )
            case ToolFinished(result=result, at=at):
                entry = self._execution(result)
                entry["completed_at"] = when(at)
                entry["info"] = {"result": result.content, **({"failed": True} if result.failed else {})}
            case Warned(message=message):
                self._warnings.append(message)
            case RunFinished(at=at):
                self._close_message(at)
                if has_calls(event):  # behind what our tools did: it is the caller's turn
                    theirs = calls_for_caller(self._run)
                    self.outputs += [self._function_call(call, place, at) for place, call in enumerate(theirs)]
                if (handoff := handoff_of(self._run)) is not None:
                    self.outputs.append(self._handoff(handoff, at))
            case _:
                pass

    def _last_text(self, event: RunFinished) -> str:
        """Text that no model turn has shown: the loop's own words, or an answer that was held until it was checked."""
        saying = self._saying
        if event.answer:
            if saying.parts or self._calls:
                self._close_message(event.at)
                self._round += 1  # a message of its own
                self._begin_message()
            return saying.text(event.answer) + saying.end()
        if self._held and has_answer(event):
            return saying.text(final_text(self._run)) + saying.end()
        return saying.end()

    def _begin_message(self) -> None:
        self._saying.begin_round()
        self._calls = {}
        self._part = (False, -1)

    def _close_message(self, at: float) -> None:
        parts = [Reasoning(said) if thought else Text(said) for thought, said in self._saying.parts]
        if parts:
            self._add("message.output", self._message_id, self._at, at, role="assistant", content=write_content(parts))
            self._saying.begin_round()

    def _function_call(self, call: ToolCall, place: int, at: float) -> dict[str, Any]:
        return {
            "object": "entry",
            "type": "function.call",
            "id": f"fc_{self._key}_{self._round}_{place}",
            "created_at": when(self._at),
            "completed_at": when(at),
            "tool_call_id": call.id,
            "name": call.name,
            "arguments": call.arguments,
            **self._whose,
        }

    def _handoff(self, handoff: Handoff, at: float) -> dict[str, Any]:
        return {
            "object": "entry",
            "type": "agent.handoff",
            "id": f"handoff_{self._key}",
            "created_at": when(self._at),
            "completed_at": when(at),
            "previous_agent_id": handoff.previous.id,
            "previous_agent_name": handoff.previous.name,
            "next_agent_id": handoff.next.id,
            "next_agent_name": handoff.next.name,
        }

    def _add(self, kind: str, id: str, created: float, completed: float | None, **said: Any) -> None:
        self.outputs.append(
            {
                "object": "entry",
                "type": kind,
                "id": id,
                "created_at": when(created),
                "completed_at": None if completed is None else when(completed),
                **said,
                **self._whose,
            }
        )

    def _execution(self, result: ToolResult) -> dict[str, Any]:
        id = f"tool_{self._key}_{self._round}_{self._calls[result.call_id][0]}"
        return next(entry for entry in reversed(self.outputs) if entry["id"] == id)

    def _usage(self) -> dict[str, Any]:
        usage = write_usage(self._used + self._run.usage)
        counts: dict[str, int] = {}
        for entry in self.outputs:
            if entry["type"] == "tool.execution":
                counts[entry["name"]] = counts.get(entry["name"], 0) + 1
        return {**usage, "connectors": counts} if counts else usage

    def _more(self, end: RunFinished) -> dict[str, Any]:
        return extensions(None, (end,), self._warnings)  # a conversation is its own session


def _error(failure: Failure, **more: str) -> bytes:
    """The event's own `code` is a status; the type and the code that a plain answer would say stand beside it."""
    said = {"type": failure.type, "code": failure.code}
    return _event("conversation.response.error", message=failure.message, code=failure.status, error=said, **more)


def _event(kind: str, **data: Any) -> bytes:
    return b"event: %b\ndata: %b\n\n" % (kind.encode(), encode({"type": kind, **data}))


def input_entries(run: Run) -> list[dict[str, Any]]:
    """What the request of a run added to its conversation."""
    sent: list[dict[str, Any]] = msgspec.json.decode(run.start.about["inputs"])
    at = when(run.start.at)
    key = run.id.removeprefix("run_")
    return [
        {"object": "entry", **entry, "id": f"in_{key}_{n}", "created_at": at, "completed_at": at}
        for n, entry in enumerate(sent)
    ]


def entries_of(run: Run, events: Sequence[Event]) -> list[dict[str, Any]]:
    """All that a run added to its conversation, from its log."""
    answer = ConversationAnswer([run])
    answer.fold(0, events[1:])
    return [*input_entries(run), *answer.outputs]
