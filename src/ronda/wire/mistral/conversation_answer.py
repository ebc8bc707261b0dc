"""A conversation's answer, the way out: events → named SSE events, or one JSON body; and the entries of a run's log.

An entry's id is made of the run, the round and what it is, so the ids a stream shows are those that the history has later.
In a stream the deltas of an entry have its `output_index`; there is no `[DONE]`. A caller's call is streamed as it arrives;
among the entries it stands behind what our tools did next to it, since clients look for it in the last one. An agent that
hands over ends its run: the answer continues with the next one's.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, assert_never

import msgspec

from ronda.core.events import (
    Event,
    LogprobsDelta,
    ModelFinished,
    ModelStarted,
    NativeDelta,
    ReasoningDelta,
    RefusalDelta,
    TextDelta,
    ToolProgressed,
)
from ronda.core.live_calls import Piece
from ronda.core.parts import NO_USAGE, AssistantTurn, ToolCall, ToolResult, Usage
from ronda.core.run import Run
from ronda.wire.codec.json import decode_text, encode
from ronda.wire.mistral.agents import when
from ronda.wire.mistral.answer_parts import MessageText, write_usage
from ronda.wire.mistral.chunks import reference, thinking, tool_file, write_cited
from ronda.wire.mistral.handoffs import Handoff, handoff_of, hands_over, ways_out
from ronda.wire.shared import updates
from ronda.wire.shared.approvals import EVENT, Approval, write_approval
from ronda.wire.shared.door_request import AnswerOptions
from ronda.wire.shared.endings import extensions
from ronda.wire.shared.failures import Failure
from ronda.wire.shared.preview import ArgumentPatches
from ronda.wire.shared.showing import Showing
from ronda.wire.web.citations import CitedPieces, CitedText
from ronda.wire.web.search import WEB_TOOLS

PREVIEW: Final = "agentic_tool_call_preview"
_BUILT_IN: Final = {"code_execution": "code_interpreter"}  # tools that Mistral has itself, by the type of ours


class ConversationAnswer:
    """The answer of one run, and of those that others handed over to. `feed` gives the bytes of a stream, `body` the plain
    answer; `outputs` are its entries."""

    def __init__(self, runs: Sequence[Run]) -> None:
        [run] = runs
        self._id = decode_text(run.start.about["conversation"])
        self._indices: dict[str, int] = {}  # of the entries that a stream has shown
        self._is_watched = False
        self._out: list[bytes] = []
        self._used: Usage = NO_USAGE  # by the runs before
        self._warnings = list(AnswerOptions.of(run.start).warnings)
        self.outputs: list[dict[str, Any]] = []
        self._showing = Showing(run, without=ways_out(run), refusal_is_text=True)
        self._begin(run)

    def hand_over(self, sibling: int, run: Run) -> None:
        """The run handed over, and this one goes on."""
        self._used = self._used + self._run.usage
        self._warnings += [warning for warning in AnswerOptions.of(run.start).warnings if warning not in self._warnings]
        self._showing.follow(run, ways_out(run))
        self._begin(run)

    def _begin(self, run: Run) -> None:
        about = run.start.about
        self._run = run
        self._key = run.id.removeprefix("run_")
        self._whose: dict[str, Any] = {
            name: decode_text(about[name]) for name in ("model", "agent_id") if name in about
        }
        self._saying = MessageText(run.start)
        self._round = 0
        self._at = run.start.at
        self._places: dict[str, int] = {}  # of this round's calls, by their ids
        # Tools that a stream has announced and that have not ended, by their entries' ids.
        self._started: dict[str, str] = {}
        self._part = (False, -1)  # what kind of content is being shown, and its index
        self._cited: CitedPieces | None = None  # the text, where there are sources that it may cite
        self._head = b""

    # ---- both ways ---------------------------------------------------------------------------------------------------

    def feed(self, sibling: int, batch: Sequence[Event | Failure]) -> bytes:
        if not self._is_watched:
            self._is_watched = True
            at = when(self._run.start.at)
            self._out.append(_event("conversation.response.started", conversation_id=self._id, created_at=at))
        self.fold(sibling, batch)
        out, self._out = self._out, []
        return b"".join(out)

    def fold(self, sibling: int, batch: Sequence[Event | Failure]) -> None:
        showing = self._showing
        for event in batch:
            if type(event) is TextDelta:
                if event.text and not showing.holds_text:
                    showing.text += len(event.text)
                    self._say(event.text)
            elif (update := showing.take(event)) is not None:
                self._write(update)

    def _write(self, update: updates.Update) -> None:
        match update:
            case TextDelta(text=text) | RefusalDelta(text=text):
                self._say(text)
            case ReasoningDelta(text=text):
                self._show(True, self._saying.thought(text))
            case updates.CallsGrew(pieces=pieces, previews=previews):
                if pieces or previews:
                    self._end_text()
                self._grow(pieces)
                self._preview(previews)
            case updates.TurnBegan(start=start):
                self._drop_unrun(start.at)
                self._round, self._at = start.round, start.at
                self._begin_message()
            case updates.TurnClosed(denied=denied):
                self._close_turn(update)
                for one in denied:
                    self._begin_tool(one.call, one.at, is_told=False)
                    self._write(one)
            case updates.TurnBroke(unseen=unseen, at=at):
                for piece in unseen:
                    self._write(piece)
                self._close_message(at)
                self._drop_unrun(at)
            case updates.ToolBegan(call=call, at=at, was_asked=was_asked):
                self._begin_tool(call, at, is_told=was_asked)
            case updates.QuestionAsked(call=call, approval=approval, at=at, is_news=is_news):
                self._ask(call, approval, at, is_news=is_news)
            case updates.QuestionClosed(ended=ended, rewritten=rewritten):
                if rewritten is not None:
                    self._write(rewritten)
                for one in ended:
                    self._begin_tool(one.call, one.at, is_told=True)
                    self._write(one)
            case updates.Paused():
                self._pause()
            case updates.ToolEnded(call=call, result=result, at=at):
                tool_id = self._tool_id(call)
                entry = next((entry for entry in reversed(self.outputs) if entry["id"] == tool_id), None)
                if entry is None:  # it began in an answer before
                    entry = self._begin_tool(call, at, is_told=True)
                self._started.pop(tool_id, None)
                entry["completed_at"] = when(at)
                entry["info"] = self._info(call, result)
                self._put(
                    "tool.execution.done", id=tool_id, name=entry["name"], info=entry["info"], created_at=when(at)
                )
            case updates.Ended():
                self._end(update)
            case LogprobsDelta() | NativeDelta() | ToolProgressed() | updates.Withdrawn():
                pass
            case _:
                assert_never(update)

    def _begin_tool(self, call: ToolCall, at: float, *, is_told: bool) -> dict[str, Any]:
        tool_id, name = self._tool_id(call), self._name(call)
        self._add("tool.execution", tool_id, at, None, name=name, arguments=call.arguments)
        if not is_told:
            self._put_call(tool_id, name, call.arguments, at)
        return self.outputs[-1]

    def _put_call(self, tool_id: str, name: str, arguments: str, at: float, **more: Any) -> None:
        """A piece of a call's arguments. The first says that the call has begun."""
        kind = "delta" if tool_id in self._started else "started"
        self._started[tool_id] = name
        fields = {"id": tool_id, "name": name, "arguments": arguments, "created_at": when(at)}
        self._put(f"tool.execution.{kind}", **fields, **self._whose, **more)

    def _preview(self, previews: Sequence[ArgumentPatches]) -> None:
        """What is being written, apart from the arguments, which come in one piece when the call runs: it may run with others."""
        for patches in previews:
            tool_id, name = self._place_id(patches.place), self._name(ToolCall(patches.id, patches.name, ""))
            event = {PREVIEW: self._showing.tools.preview(patches)}
            if tool_id not in self._started:
                self._put_call(tool_id, name, "", self._at)
            self._put_call(tool_id, name, "", self._at, **event)

    def _drop_unrun(self, at: float) -> None:
        """Calls that were watched and come to nothing: the turn broke off, or was cut."""
        for tool_id, name in self._started.items():
            self._put("tool.execution.done", id=tool_id, name=name, info={"failed": True}, created_at=when(at))
        self._started = {}

    def _ask(self, call: ToolCall, approval: Approval, at: float, *, is_news: bool) -> None:
        """Mistral's own clients raise at events that they do not know: what is asked stands in one that they do."""
        tool_id, event = self._tool_id(call), {EVENT: write_approval(approval)}
        if not is_news:
            self._started.setdefault(tool_id, self._name(call))
        self._put_call(tool_id, self._name(call), call.arguments if is_news else "", at, **event)

    def _waiting(self) -> list[dict[str, Any]]:
        """Calls that wait for a person: they stand at the end of an answer that waits for them, and of no other, since clients
        would run what is there."""
        entries: list[dict[str, Any]] = []
        for approval in self._showing.approvals().values():
            question = approval.question
            call = self._showing.tools.calls[question.call_id]
            shown_call = ToolCall(call.id, question.tool, question.arguments) if question.child else call
            fields = {"tool_call_id": call.id, "name": self._name(shown_call), "arguments": shown_call.arguments}
            call_id = f"fc_{self._key}_{self._round}_{question.id}"
            entry = _entry(
                "function.call", call_id, question.at, None, **fields, confirmation_status="pending", **self._whose
            )
            entries.append({**entry, "approval_id": question.id})
        return entries

    def _pause(self) -> None:
        self._end_text()
        for entry in self._waiting():
            fields = {name: value for name, value in entry.items() if name not in ("object", "type", "completed_at")}
            self._put("function.call.delta", **fields)
        if self._is_watched:
            at = max([one.question.at for one in self._showing.approvals().values()], default=self._at)
            self._out.append(self._done(at))

    def skip(self, sibling: int, facts: Sequence[Event]) -> None:
        """These were told in an answer before: this one goes on from there."""
        self._showing.skip(facts)
        for event in facts:
            if type(event) is ModelStarted:
                self._round, self._at = event.round, event.at
            elif type(event) is ModelFinished:
                self._place(event.turn)

    def _place(self, turn: AssistantTurn) -> None:
        ways = ways_out(self._run)
        self._places = {call.id: index for index, call in enumerate(turn.calls) if call.name not in ways}

    def _close_turn(self, closed: updates.TurnClosed) -> None:
        for piece in closed.unseen:
            self._write(piece)
        is_held = self._showing.holds_text
        if not is_held:
            self._show(False, self._saying.end())
        self._end_text()
        self._grow(closed.pieces)
        self._preview(closed.previews)
        if not is_held or closed.turn.calls:
            self._close_message(closed.at, is_answer=not closed.turn.calls)
        self._place(closed.turn)

    def _end(self, ended: updates.Ended) -> None:
        end = ended.end
        self._drop_unrun(end.at)
        if end.answer and (self._saying.parts or self._places):
            self._close_message(end.at)
            self._round += 1  # the loop's own words are a message of their own
            self._begin_message()
        self._show(False, self._saying.text(ended.text) + self._saying.end())
        self._end_text()
        self._close_message(end.at, is_answer=True)
        for index, call in enumerate(ended.calls):  # behind what our tools did: it is the caller's turn
            fields = {"tool_call_id": call.id, "name": call.name, "arguments": call.arguments}
            self._add("function.call", self._call_id(index), self._at, end.at, **fields)
        self._grow([Piece(index, call.id, call.name, call.arguments, True) for index, call in enumerate(ended.late)])
        if (handoff := handoff_of(self._run)) is not None:
            self._hand_over(handoff, end.at)
        if (hands_over(self._run) and not self._showing.is_continued) or not self._is_watched:
            return  # the next agent of a continued answer is not driven: the next append starts it
        if ended.failure is not None:
            self._out.append(_error(ended.failure, **({"created_at": when(end.at)} if end.at else {})))
        else:
            self._out.append(self._done(end.at))

    def _done(self, at: float) -> bytes:
        return _event("conversation.response.done", usage=self._usage(), created_at=when(at), **self._more)

    # ---- a stream ----------------------------------------------------------------------------------------------------

    def _say(self, text: str) -> None:
        self._show(False, self._saying.text(text))

    def _show(self, thought: bool, text: str) -> None:
        if not text or not self._is_watched:
            return
        if self._cited is None:
            self._put_content(thought, text)
        elif thought:
            self._end_text()
            self._put_content(True, text)
        else:
            self._put_cited(self._cited.add(text))

    def _end_text(self) -> None:
        """Something else comes: what was held back of the text is text."""
        if self._cited is not None and self._is_watched:
            self._put_cited(self._cited.end())
            self._cited = CitedPieces(self._showing.sources)

    def _put_cited(self, pieces: Sequence[CitedText]) -> None:
        for piece in pieces:
            if piece.text:
                self._put_content(False, piece.text)
            for source in piece.sources:
                self._put_chunk(reference(source))
            if piece.sources:
                self._part = (True, self._part[1])  # the text behind is another chunk

    def _put_chunk(self, chunk: dict[str, Any]) -> None:
        self._begin_content(False)
        self._out.append(b'%b,"content":%b}\n\n' % (self._head, encode(chunk)))

    def _put_content(self, thought: bool, text: str) -> None:
        kind, index = self._part
        if index < 0 or kind != thought:
            self._begin_content(thought)
        self._out.append(b'%b,"content":%b}\n\n' % (self._head, encode(thinking(text) if thought else text)))

    def _begin_content(self, thought: bool) -> None:
        index = self._part[1] + 1
        self._part = (thought, index)
        fields = {"id": self._message_id, "content_index": index, "role": "assistant", "created_at": when(self._at)}
        whole = self._entry_event("message.output.delta", **fields, **self._whose)
        self._head = whole.removesuffix(b"}\n\n")  # the same for every piece of this content

    def _grow(self, pieces: Sequence[Piece]) -> None:
        for piece in pieces:
            self._put(
                "function.call.delta",
                id=self._call_id(piece.place),
                name=piece.name,
                tool_call_id=piece.id,
                arguments=piece.arguments,
                created_at=when(self._at),
                **self._whose,
            )

    def _put(self, kind: str, **data: Any) -> None:
        if self._is_watched:
            self._out.append(self._entry_event(kind, **data))

    def _entry_event(self, kind: str, **data: Any) -> bytes:
        index = self._indices.setdefault(data["id"], len(self._indices))
        return _event(kind, output_index=index, **data)

    # ---- plain -------------------------------------------------------------------------------------------------------

    def body(self) -> bytes:
        return encode(self.frame() | self._more)

    def frame(self) -> dict[str, Any]:
        """The object with the answer as far as it has come."""
        return {
            "object": "conversation.response",
            "conversation_id": self._id,
            "outputs": [*self.outputs, *self._waiting()],
            "usage": self._usage(),
        }

    # ---- entries -----------------------------------------------------------------------------------------------------

    @property
    def _message_id(self) -> str:
        return f"msg_{self._key}_{self._round}"

    def _call_id(self, place: int) -> str:
        return f"fc_{self._key}_{self._round}_{place}"

    def _tool_id(self, call: ToolCall) -> str:
        return self._place_id(self._places[call.id])

    def _place_id(self, place: int) -> str:
        return f"tool_{self._key}_{self._round}_{place}"

    def _begin_message(self) -> None:
        self._saying.begin_round()
        self._places = {}
        self._part = (False, -1)
        sources = self._showing.sources
        self._cited = CitedPieces(sources) if sources else None

    def _close_message(self, at: float, *, is_answer: bool = False) -> None:
        """An answer names the files that were made for it, behind its text."""
        if parts := self._saying.parts:
            content = write_cited(parts, self._showing.sources)
            files = [tool_file(file) for file in self._showing.tools.cited_files()] if is_answer else []
            if files:
                content = (
                    [{"type": "text", "text": content}, *files] if isinstance(content, str) else [*content, *files]
                )
            for chunk in files if self._is_watched else ():
                self._put_chunk(chunk)
            self._add("message.output", self._message_id, self._at, at, role="assistant", content=content)
            self._saying.begin_round()

    def _name(self, call: ToolCall) -> str:
        """As Mistral calls it, where it has such a tool itself."""
        return _BUILT_IN.get(self._showing.tools.tool_type(call)) or _shown_name(call)

    def _info(self, call: ToolCall, result: ToolResult) -> dict[str, Any]:
        info: dict[str, Any] = {"result": result.content}
        details = self._showing.tools.members(call.id)
        if self._name(call) == "code_interpreter" and details:
            output = "".join([str(details[name]) for name in ("stdout", "stderr", "exception") if details.get(name)])
            info |= {"code": details.get("code", ""), "code_output": output}
        return info | ({"failed": True} if result.failed else {})

    def _hand_over(self, handoff: Handoff, at: float) -> None:
        entry_id, was, taker = f"handoff_{self._key}", handoff.previous, handoff.next
        before = {"previous_agent_id": was.id, "previous_agent_name": was.name}
        after = {"next_agent_id": taker.id, "next_agent_name": taker.name}
        self.outputs.append(_entry("agent.handoff", entry_id, self._at, at, **before, **after))
        self._put("agent.handoff.started", id=entry_id, **before, created_at=when(self._at))
        self._put("agent.handoff.done", id=entry_id, **after, created_at=when(at))

    def _add(self, kind: str, entry_id: str, created: float, completed: float | None, **members: Any) -> None:
        self.outputs.append(_entry(kind, entry_id, created, completed, **members, **self._whose))

    def _usage(self) -> dict[str, Any]:
        usage = write_usage(self._used + (self._run.usage - self._showing.used_before))
        counts: dict[str, int] = {}
        for entry in self.outputs:
            if entry["type"] == "tool.execution":
                counts[entry["name"]] = counts.get(entry["name"], 0) + 1
        return {**usage, "connectors": counts} if counts else usage

    @property
    def _more(self) -> dict[str, Any]:
        return extensions(None, [self._showing], self._warnings)  # a conversation is its own session


def _entry(kind: str, entry_id: str, created: float, completed: float | None, **members: Any) -> dict[str, Any]:
    ended = None if completed is None else when(completed)
    return {
        "object": "entry",
        "type": kind,
        "id": entry_id,
        "created_at": when(created),
        "completed_at": ended,
        **members,
    }


def _shown_name(call: ToolCall) -> str:
    """Mistral has one name for all that its service does on the web."""
    return "web_search" if call.name in WEB_TOOLS else call.name


def _error(failure: Failure, **more: str) -> bytes:
    """The event's own `code` is a status; the type and the code that a plain answer would say stand next to it."""
    fields = {"type": failure.type, "code": failure.code}
    return _event("conversation.response.error", message=failure.message, code=failure.status, error=fields, **more)


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
