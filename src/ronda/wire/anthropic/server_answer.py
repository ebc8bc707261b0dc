"""Anthropic's Messages as its server, the way out: events → SSE bytes, or one JSON body.

Both are folds of the same events by the same class, so what a stream shows adds up to what the plain answer says. What the
model says in several rounds are several blocks of one message. What is shown when is decided in `wire.shared.showing`. What our
tools do is told by events of our own, between blocks; of those that the API has itself (code, commands) also by its own blocks.

Ids and times come from RunStarted: a stream written again from the log is the same, byte for byte.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, ClassVar, Final, assert_never

from ronda.core.events import (
    Event,
    LogprobsDelta,
    ModelFinished,
    NativeDelta,
    ReasoningDelta,
    RefusalDelta,
    TextDelta,
    ToolProgressed,
)
from ronda.core.parts import AssistantTurn, ToolCall, ToolResult, Usage
from ronda.core.run import Run
from ronda.wire.anthropic import API
from ronda.wire.anthropic.content import Content, Part, PartialBlock, call_part, cited_parts, parts_of
from ronda.wire.anthropic.counting import estimate
from ronda.wire.anthropic.pending_calls import approval_block_id, waiting_use
from ronda.wire.anthropic.server_error import write_error
from ronda.wire.anthropic.server_tools import CODE_TOOLS, block_id, write_result, write_use
from ronda.wire.anthropic.turns import is_ours, own_message
from ronda.wire.codec.json import encode
from ronda.wire.shared import updates
from ronda.wire.shared.approvals import EVENT
from ronda.wire.shared.containers import SESSION_SECONDS, container_id
from ronda.wire.shared.door_request import AnswerOptions
from ronda.wire.shared.endings import extensions
from ronda.wire.shared.failures import Failure
from ronda.wire.shared.preview import ArgumentPatches
from ronda.wire.shared.showing import Showing
from ronda.wire.shared.supplies import supplies_of, write_mounts
from ronda.wire.web.citations import CitedPieces
from ronda.wire.web.search import WEB_TOOLS

PING: Final = b'event: ping\ndata: {"type":"ping"}\n\n'
_PROGRESS: Final = b"agentic_tool_call_progress"
_PREVIEW: Final = b"agentic_tool_call_preview"
_APPROVAL: Final = EVENT.encode()
_STOP: Final = b'event: message_stop\ndata: {"type":"message_stop"}\n\n'


def usage_fields(usage: Usage, blocks: Sequence[PartialBlock]) -> dict[str, Any]:
    """What was read from a cache, or written to one, is counted apart here."""
    fields: dict[str, Any] = {
        "input_tokens": max(0, usage.input - usage.cached - usage.cache_written),
        "cache_creation_input_tokens": usage.cache_written,
        "cache_read_input_tokens": usage.cached,
        "output_tokens": usage.output,
    }
    if usage.reasoning:
        fields["output_tokens_details"] = {"thinking_tokens": usage.reasoning}
    if usage.cost is not None:
        fields["cost"] = usage.cost
    uses = [block.json.get("name") for block in blocks if block.kind == "other"]
    counts = {
        f"{name}_requests": sum(bytes(use or b"") == b'"%b"' % name.encode() for use in uses) for name in _COUNTED
    }
    if any(counts.values()):
        fields["server_tool_use"] = counts
    return fields


_COUNTED: Final = ("web_search", "web_fetch")  # tools of the upstream's that it counts


class MessageOptions(AnswerOptions, frozen=True, kw_only=True, omit_defaults=True):
    key: ClassVar[str] = "message"

    # A stream has events of our own around the tools that run here, which clients of this dialect pass over.
    shows_tools: bool = True


class MessageAnswer:
    """The answer to one request. `feed` gives the bytes of a stream, `body` the plain answer."""

    keep_alive = PING  # sent while there is nothing else to send

    def __init__(self, runs: Sequence[Run]) -> None:
        [run] = runs
        self._run = run
        self._options = MessageOptions.of(run.start)
        self._showing = Showing(run, id_prefix="toolu_")
        self._content = Content(self._showing.shown_id)
        self._started = False
        self._begun: dict[str, str] = {}  # calls under way → the ids of their blocks
        self._has_container = False
        self._turn = AssistantTurn(())  # the last
        self._cited: CitedPieces | None = None  # its text, where there are sources that it may cite
        self._origins = {tool.name: tool.origin for tool in run.plan.tools if tool.origin is not None}

    # ---- stream ------------------------------------------------------------------------------------------------------

    def feed(self, sibling: int, batch: Sequence[Event | Failure]) -> bytes:
        """Bytes for one batch of events; one ASGI message per upstream read."""
        content, showing = self._content, self._showing
        if not self._started:
            self._started = True
            content.out.append(self._start())
        for event in batch:
            if type(event) is TextDelta:
                if event.text and not showing.holds_text:
                    showing.text += len(event.text)
                    if self._cited is None:
                        content.grow("text", event.text)
                    else:
                        self._say(event.text)
            elif (update := showing.take(event)) is not None:
                self._write(update)
        out, content.out = content.out, []
        return b"".join(out)

    def _start(self) -> bytes:
        # What goes in is counted when it is through; message_delta says how much it was. Until then an estimate.
        start = self._run.start
        usage = {"input_tokens": estimate(start.turns, start.plan.tools), "output_tokens": 0}
        return b'event: message_start\ndata: {"type":"message_start","message":%b}\n\n' % encode(
            {**self._head, "content": [], "stop_reason": None, "stop_sequence": None, "usage": usage}
        )

    # ---- plain -------------------------------------------------------------------------------------------------------

    def fold(self, sibling: int, batch: Sequence[Event]) -> None:
        self._started = True
        self.feed(sibling, batch)

    def skip(self, sibling: int, facts: Sequence[Event]) -> None:
        """These were told in a message before: this one goes on from there, with the results of calls that stand in that one."""
        self._showing.skip(facts)
        self._turn = next((event.turn for event in reversed(facts) if type(event) is ModelFinished), self._turn)
        for call_id, approval in self._showing.approval_ids.items():
            is_mcp = self._showing.tools.calls[call_id].name in self._origins
            self._begun[call_id] = approval_block_id(approval, "mcptoolu" if is_mcp else "srvtoolu")

    def body(self) -> bytes:
        self._show_waiting()
        content = [block.json for block in self._content.blocks]
        message = {**self._head, "content": content, **self._delta, "usage": self._usage, **self._extensions}
        tools = self._showing.tools
        if records := tools.records:
            message["agentic_tool_calls"] = records
        if files := tools.files:
            message["files"] = files
        return encode(message)

    def frame(self) -> dict[str, Any]:
        """The object without an answer in it."""
        return {**self._head, "content": [], "stop_reason": None, "stop_sequence": None, "usage": self._usage}

    # ---- both --------------------------------------------------------------------------------------------------------

    @property
    def _head(self) -> dict[str, Any]:
        message_id = "msg_" + self._run.id.removeprefix("run_")
        return {"id": message_id, "type": "message", "role": "assistant", "model": self._options.model}

    def _write(self, update: updates.Update) -> None:
        content = self._content
        match update:
            case TextDelta(text=text):
                self._say(text)
            case ReasoningDelta(text=text):
                self._end_text()
                content.grow("thinking", text)
            case updates.CallsGrew(pieces=pieces, previews=previews):
                if pieces:
                    self._end_text()
                for piece in pieces:
                    content.call(piece)
                self._preview(previews)
            case NativeDelta(api=api, payload=payload):
                if api == API:
                    self._end_text()
                    content.native(payload, with_text=not self._showing.holds_text)
            case updates.TurnBegan(broken=broken):
                content.begin_turn()
                sources = self._showing.sources
                self._cited = CitedPieces(sources) if sources else None
                if broken is not None:
                    self._tell(b"model_interrupted", {"reason": broken.reason})
            case updates.TurnClosed(turn=turn):
                # It has blocks, and what they hold besides text is not in pieces: `Content` knows.
                self._turn = turn
                self._show_rest(turn)
                self._preview(update.previews)
                for ended in update.denied:
                    self._begin_call(ended.call)
                    self._write(ended)
            case updates.TurnBroke(turn=turn):
                self._show_rest(turn)
            case updates.ToolBegan(call=call, was_asked=was_asked):
                if not was_asked:
                    self._begin_call(call)
            case updates.QuestionAsked(call=call, approval=approval, is_news=is_news):
                if is_news:
                    self._begin_call(call)
                self._tell(_APPROVAL, approval.event)
            case updates.QuestionClosed(ended=ended, rewritten=rewritten):
                for one in ended if rewritten is None else (rewritten,):
                    self._write(one)
            case updates.ToolEnded(call=call, result=result, files=files):
                self._end_call(call, result, files)
            case updates.Ended():
                self._end(update)
            case updates.Paused():
                self._pause()
            case RefusalDelta() | LogprobsDelta() | ToolProgressed() | updates.Withdrawn():
                pass
            case _:
                assert_never(update)

    def _say(self, text: str) -> None:
        if self._cited is None:
            self._content.grow("text", text)
            return
        for piece in self._cited.add(text):
            self._content.say(piece)

    def _preview(self, previews: Sequence[ArgumentPatches]) -> None:
        for patches in previews:
            self._tell(_PREVIEW, self._showing.tools.preview(patches))

    def _end_text(self) -> None:
        """Something else comes: what was held back of the text is text."""
        if self._cited is not None:
            for piece in self._cited.end():
                self._content.say(piece)
            self._cited = CitedPieces(self._showing.sources)

    def _show_rest(self, turn: AssistantTurn) -> None:
        parts = [part for part in parts_of(turn) if self._is_shown(part)]
        self._content.show(parts if self._cited is None else cited_parts(parts, self._showing.sources))

    def _begin_call(self, call: ToolCall) -> None:
        """A call of a tool that the API has itself, or of an MCP server, is a block of the message."""
        origin, tools = self._origins.get(call.name), self._showing.tools
        use_id, tool_type = self._use_id(call), tools.tool_type(call)
        part = write_use(use_id, call, origin, tool_type, self._run.tools)
        if part is not None:
            self._has_container = self._has_container or tool_type in CODE_TOOLS
            if call.id not in self._begun:
                self._begun[call.id] = use_id
                self._content.put(part)
        if origin is None:
            self._tell(_PROGRESS, tools.progress(call.id))

    def _use_id(self, call: ToolCall) -> str:
        """Of the block that a call is. That of one which people are asked about says so: it may come back alone."""
        is_mcp = call.name in self._origins
        if (approval := self._showing.approval_ids.get(call.id)) is not None:
            return approval_block_id(approval, "mcptoolu" if is_mcp else "srvtoolu")
        return block_id(self._run.id, len(self._content.blocks), is_mcp=is_mcp)

    def _end_call(self, call: ToolCall, result: ToolResult, files: Sequence[dict[str, Any]]) -> None:
        origin, tools = self._origins.get(call.name), self._showing.tools
        if origin is not None and call.id not in self._begun:
            self._begin_call(call)
        use_id = self._begun.pop(call.id, None)
        part = None if use_id is None else write_result(use_id, call, result, origin, tools, self._run.tools, files)
        is_last = origin is not None or call.name in WEB_TOOLS  # of these, the progress is told first
        if part is not None and not is_last:
            self._content.put(part)
        for file in files:
            self._tell(b"file_produced", file)
        if origin is None:
            self._tell(_PROGRESS, tools.progress(call.id, result))
        if part is not None and is_last:
            self._content.put(part)

    def _is_shown(self, part: Part) -> bool:
        if part.kind == "tool_use":
            return part.id in self._showing.places
        return part.kind != "text" or not self._showing.holds_text

    def _tell(self, name: bytes, data: dict[str, Any]) -> None:
        """An event of our own. The official SDKs hand one that they do not know to readers of raw events, and their
        accumulators pass it over: it needs no other form here."""
        if self._options.shows_tools:
            self._content.out.append(b'event: %b\ndata: {"type":"%b",%b\n\n' % (name, name, encode(data)[1:]))

    def _end(self, ended: updates.Ended) -> None:
        content = self._content
        content.begin_turn()
        if (failure := ended.failure) is not None:
            error = write_error(failure.status, failure.message, failure.code, self._run.id)
            content.out.append(b"event: error\ndata: %b\n\n" % error)
            return
        if ended.text:
            for part in cited_parts([Part("text", ended.text)], self._showing.sources):
                content.add(part)
        for call in ended.late:
            content.add(call_part(call))
        content.close()
        for file in ended.files:
            self._tell(b"file_produced", file)
        self._stop()

    def _show_waiting(self) -> None:
        """Every call that waits for a person stands at the end as a use without a result, whatever tool it is of."""
        for approval in self._showing.approvals().values():
            call_id = approval.question.call_id
            if call_id not in self._begun:
                self._begun[call_id] = approval_block_id(approval.question.id)
                self._content.add(waiting_use(self._begun[call_id], approval.question))
        self._content.close()

    def _pause(self) -> None:
        self._end_text()
        self._content.begin_turn()
        self._show_waiting()
        self._stop()

    def _stop(self) -> None:
        end = {"type": "message_delta", "delta": self._delta, "usage": self._usage, **self._extensions}
        self._content.out += (b"event: message_delta\ndata: %b\n\n" % encode(end), _STOP)

    @property
    def _delta(self) -> dict[str, Any]:
        """How the message ended."""
        turn = self._turn
        reason, sequence = self._stop_reason, None
        if reason == "end_turn" and turn.stop_sequence is not None:
            reason, sequence = "stop_sequence", turn.stop_sequence
        delta: dict[str, Any] = {"stop_reason": reason, "stop_sequence": sequence}
        if reason == "refusal":
            delta["stop_details"] = {"type": "refusal", "category": None, "explanation": turn.refusal or None}
        if is_ours(turn.native) and (container := own_message(turn.native).container) is not None:
            delta["container"] = {"id": container}
        elif self._has_container or supplies_of(self._run.start).skills:
            start = self._run.start
            delta["container"] = {
                "id": container_id(start.session),
                "expires_at": _expiry(start.at),
                "skills": write_mounts(supplies_of(start).skills) or None,
            }
        return delta

    @property
    def _stop_reason(self) -> str:
        if self._showing.approvals():
            return "pause_turn"
        end = self._run.ended
        match end.reason if end is not None else "failed":
            case "tool_calls":
                return "tool_use"
            case "length":
                return "max_tokens"
            case "content_filter":
                return "refusal"
            case "stop" if self._turn.refusal:
                return "refusal"
            case _:  # a limit of ours too: `limit` names it
                return "end_turn"

    @property
    def _usage(self) -> dict[str, Any]:
        return usage_fields(self._run.usage - self._showing.used_before, self._content.blocks)

    @property
    def _extensions(self) -> dict[str, Any]:
        return extensions(self._run.start.session, [self._showing], self._options.warnings)


def _expiry(at: float) -> str:
    """Of a session's folder that is not used again."""
    return datetime.fromtimestamp(int(at) + SESSION_SECONDS, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def passes_over_events(user_agent: str) -> bool:
    """Whether a client takes no harm from events it does not know. Vercel's AI SDK reports each as an error of the stream."""
    return "ai-sdk/" not in user_agent
