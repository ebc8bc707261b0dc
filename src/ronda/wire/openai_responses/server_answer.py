"""The Responses API as its server, the way out: events → SSE bytes, WebSocket messages, or one JSON body.

All are folds of the same events by the same class, so what a stream shows adds up to what the plain answer says. A turn comes
to items: what the model thought, what it said, the calls it makes of the caller's tools. Thoughts go out as a summary, which
is the one form that OpenAI's clients and Open Responses both know. Of tools that run here, those that the API has itself (code,
commands, searches) are its items; others are none: clients would try to run them again. The progress of all of them is told by
events of our own.

What is shown when is decided in `wire.shared.showing`.

Ids and times come from the log: a stream written again from it is the same, byte for byte.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, assert_never

from msgspec import Raw

from ronda.core.events import (
    Event,
    LogprobsDelta,
    NativeDelta,
    ReasoningDelta,
    RefusalDelta,
    RunFinished,
    RunStarted,
    TextDelta,
    ToolProgressed,
)
from ronda.core.found_tools import FIND_TOOLS, searches_tools
from ronda.core.live_calls import Piece
from ronda.core.parts import AssistantTurn, ToolCall, ToolResult
from ronda.core.plan import Origin
from ronda.core.run import Run
from ronda.wire.codec.json import encode
from ronda.wire.openai_responses import API
from ronda.wire.openai_responses.client_answer import BREAK, Item, read_item
from ronda.wire.openai_responses.client_calls import APPROVAL
from ronda.wire.openai_responses.encrypted_content import Sealer
from ronda.wire.openai_responses.hosted_items import (
    HOSTED_TYPES,
    RunningCall,
    SearchItem,
    ToolSearchOutput,
    begin_hosted,
)
from ronda.wire.openai_responses.logprobs import read_logprobs
from ronda.wire.openai_responses.mcp_items import McpCall, ServerListing, errors_of, labels, write_request
from ronda.wire.openai_responses.output_items import (
    ApprovalCall,
    Call,
    FileCitation,
    Frames,
    ItemCall,
    Message,
    Output,
    Thoughts,
)
from ronda.wire.openai_responses.resource import Resource, StoredOptions, event_of_end, response_id
from ronda.wire.openai_responses.service_items import ServiceItem, annotate, native_items
from ronda.wire.openai_responses.tools import split_name
from ronda.wire.shared import updates
from ronda.wire.shared.approvals import EVENT
from ronda.wire.shared.containers import container_id
from ronda.wire.shared.endings import extensions
from ronda.wire.shared.failures import RUN_GOES_ON, Failure
from ronda.wire.shared.preview import ArgumentPatches
from ronda.wire.shared.showing import Showing
from ronda.wire.shared.told_calls import OWN_LABEL, ToldCall
from ronda.wire.web.calls import read_call
from ronda.wire.web.search import WEB_TOOLS

SDK_LANGUAGE: Final = b"x-stainless-lang"  # the header in which OpenAI's own SDKs say what they are written in
PROGRESS: Final = b"agentic_tool_call_progress"
PREVIEW: Final = b"agentic_tool_call_preview"
_TRUE: Final = Raw(b"true")
_IGNORED: Final = b"keepalive"  # the type that npm's accumulator passes over, whatever else the event has


def progress_type(sdk_language: str | None) -> bytes:
    """What events about tools that run here are typed as, for a client whose official SDK is of this language.

    The accumulator of npm's `responses.stream()` throws at a type it does not know. The event's name stays the same.
    """
    return _IGNORED if sdk_language == "js" else PROGRESS


class ResponseAnswer:
    """The answer to one request. `feed` gives the bytes of a stream, `body` the plain answer.

    `after`: events up to that number were seen already, and are not written again. `sse`: as server-sent events; else one
    line per event. `sealer`: for callers who keep their conversation themselves and want the model's own JSON of it.
    `progress_type`: the `type` of events about tools that run here. `is_whole`: the log has all that was shown piece by piece.
    `since`: how many facts of the run belong to the response before, which waited for people; this one goes on from it.
    """

    numbers_frames = True

    def __init__(
        self,
        runs: Sequence[Run],
        *,
        sealer: Sealer | None = None,
        sse: bool = True,
        after: int | None = None,
        obfuscated: bool | None = None,
        progress_type: bytes = PROGRESS,
        is_whole: bool = True,
        since: int = 0,
    ) -> None:
        [run] = runs
        options = StoredOptions.of(run.start)
        self._run = run
        self._progress_type = progress_type
        self._is_whole = is_whole
        self._options = options
        self._sealer = sealer if options.sealed else None
        self._resource = Resource(run, options, since)
        self.frames = Frames(
            sse,
            -1 if after is None else after,
            options.obfuscated if obfuscated is None else obfuscated,
            with_ids=run.start.outlives,
        )
        self._output = Output(self.frames, response_id(run.id, since).removeprefix("resp_"))
        self._showing = Showing(run, id_prefix="call_")
        self._begun = False
        # Where probabilities were asked for, text waits for those that come behind it: they go out in one piece.
        self._has_logprobs = run.plan.options.extra.get("logprobs") == _TRUE
        self._waiting = ""
        self._message: Message | None = None
        self._thoughts: Thoughts | None = None
        self._calls: dict[int, Call | ItemCall] = {}  # of the turn under way, by their place in it
        self._running: dict[str, RunningCall] = {}  # of tools that run here, by their ids
        self.told: dict[str, ToldCall] = {}  # calls that have ended, by the ids of their items
        self._service_items = 0  # of the turn under way that were shown as they came
        self._end: RunFinished | None = None
        # The tools of MCP servers that the request named.
        self._origins = {spec.name: spec.origin for spec in run.plan.tools if spec.origin} if options.servers else {}
        self._is_listed = not options.servers or since > 0  # the response before has it

    # ---- for the door ------------------------------------------------------------------------------------------------

    def feed(self, sibling: int, batch: Sequence[Event | Failure]) -> bytes:
        """Bytes for one batch of events; one ASGI message per upstream read."""
        frames = self.frames
        frames.writing = True
        if not self._begun:
            self._begin(batch)
        if not self._is_listed and batch:
            self._list_servers()
        for event in batch:
            self._take(event)
        return frames.take_bytes()

    def _begin(self, batch: Sequence[Event | Failure]) -> None:
        """What is said before anything happens. A response that was queued is under way with the first thing that does."""
        put, is_queued = self.frames.put, self._options.background
        response = b'"response":%b' % self._resource.under_way(b"queued" if is_queued else b"in_progress")
        if self.frames.count == 0:
            put(b"response.created", response)
            if is_queued:
                put(b"response.queued", response)
        if not is_queued or any(type(event) is not RunStarted for event in batch):
            self._begun = True
            put(b"response.in_progress", b'"response":%b' % self._resource.under_way())

    def fold(self, sibling: int, batch: Sequence[Event]) -> None:
        """Take events for the plain answer, which has no use for previews."""
        if not self._is_listed and batch:
            self._list_servers()
        for event in batch:
            self._take(event)

    def body(self, progress: dict[str, Any] | None = None) -> bytes:
        """Asked for while the run is under way, it has what is finished of it."""
        more = extensions(self._run.start.session, [self._showing], self._options.warnings, with_records=True)
        if progress is not None:
            more["progress"] = progress
        items, used = self._output.items(), self._run.usage - self._showing.used_before
        if self._end is None and (waiting := self._showing.approvals()):
            items += [write_request(approval) for approval in waiting.values()]
            return self._resource.paused(b",".join(items), used, more)
        return self._resource.at_the_end(self._end, b",".join(items), used, more)

    def skip(self, sibling: int, facts: Sequence[Event]) -> None:
        """These were told in a response before: this one goes on from there."""
        self._showing.skip(facts)

    @property
    def items(self) -> list[bytes]:
        """The output so far, as JSON, in the order in which it was announced."""
        return self._output.items()

    # ---- events ------------------------------------------------------------------------------------------------------

    def _take(self, event: Event | Failure) -> None:
        showing = self._showing
        if type(event) is TextDelta:  # first, since it is nearly all there is
            if event.text and not showing.holds_text:
                showing.text += len(event.text)
                if self._has_logprobs:
                    self._say_waiting()
                    self._waiting = event.text
                else:
                    self._say(event.text)
            return
        if self._waiting:
            if type(event) is LogprobsDelta:
                showing.take(event)
                self._say_waiting(read_logprobs(event.logprobs))
                return
            self._has_logprobs = False  # asked for, but not to be had
            self._say_waiting()
        if (update := showing.take(event)) is not None:
            self._write(update)

    def _say_waiting(self, logprobs: Sequence[bytes] = ()) -> None:
        waiting, self._waiting = self._waiting, ""
        if waiting:
            self._say(waiting, logprobs)

    def _write(self, update: updates.Update) -> None:
        match update:
            case TextDelta(text=text):
                self._say(text)
            case ReasoningDelta(text=text):
                self._think(text)
            case updates.CallsGrew(pieces=pieces, previews=previews):
                for piece in pieces:
                    self._grow(piece)
                self._preview(previews)
            case RefusalDelta(text=text):
                self._open_message().refusal(text)
            case LogprobsDelta(logprobs=logprobs):
                if self._message is not None:  # else they are of no text: of a call's tokens
                    self._say("", read_logprobs(logprobs))
            case updates.TurnClosed(denied=denied):
                self._close_turn(update)
                for refused in denied:
                    self._write(updates.ToolBegan(refused.call, refused.at))
                    self._write(refused)
            case updates.TurnBroke(unseen=unseen):
                self._show(unseen)
                self._break_off()
            case updates.ToolBegan(call=call, was_asked=was_asked):
                self._begin_call(call)
                if self.frames.writing and not was_asked and call.name not in self._origins:
                    self._tell(PROGRESS, self._showing.tools.progress(call.id))
            case updates.QuestionAsked(call=call, approval=approval, is_news=is_news):
                if self.frames.writing:
                    if is_news and call.name not in self._origins:
                        self._tell(PROGRESS, self._showing.tools.progress(call.id))
                    self._tell(EVENT.encode(), approval.event)
            case updates.QuestionClosed(ended=calls, rewritten=rewritten):
                for one in calls if rewritten is None else (rewritten,):
                    self._write(one)
            case updates.Paused():
                self._pause()
            case updates.ToolEnded(call=call, result=result, files=files):
                if self.frames.writing:
                    for file in files:
                        self._tell(b"file_produced", file)
                self._end_call(call, result)
            case updates.Ended():
                self._finish(update)
            case ToolProgressed(call_id=call_id):
                if self.frames.writing and (running := self._running.get(call_id)) is not None:
                    running.progress(update)
            case NativeDelta(api=api, payload=payload):
                if api == API:
                    self._show_native(payload, read_item(payload))
            case updates.TurnBegan():
                self._service_items = 0
            case updates.Withdrawn():
                pass
            case _:
                assert_never(update)

    def _show(self, unseen: Sequence[updates.Delta]) -> None:
        for piece in unseen:
            if type(piece) is not LogprobsDelta:
                self._write(piece)
            elif self._message is not None:  # in no event of their own, since the text they are of is out
                self._message.logprobs_if_none(read_logprobs(piece.logprobs))

    def _show_native(self, raw: Raw, item: Item | None) -> None:
        """What an upstream of this API did by itself, or what the text cites that was just shown."""
        self._service_items += 1
        if item is None:
            self._close(b"completed", "commentary")
            ServiceItem(self._output, raw)
        elif self._message is not None:
            annotate(self._message, item)

    def _show_turn(self, closed: updates.TurnClosed) -> None:
        """What no preview has shown of a turn. Nothing has, of one that came whole; then it is shown item by item, so that
        each stands where the upstream had it."""
        items = native_items(closed.turn) if closed.turn.native is not None else ()
        if not items or self._service_items:
            self._show(closed.unseen)
            return
        is_whole = self._message is None and self._thoughts is None
        if not is_whole:
            self._show(closed.unseen)
        thought = False
        for raw, item in items:
            if is_whole and item is not None and not self._showing.holds_text:
                if item.type == "reasoning" and (thoughts := BREAK.join(item.thoughts())):
                    self._think(BREAK + thoughts if thought else thoughts)
                    thought = True
                elif item.type == "message":
                    self._say_item(item)
            if item is None or item.is_annotated:
                self._show_native(raw, item)

    def _say_item(self, item: Item) -> None:
        for part in item.content or ():
            if part.type == "refusal":
                self._open_message().refusal(part.refusal or "")
            elif part.text:
                self._say(part.text)

    # Each of these closes what was open of another kind: items follow one another, as clients expect.

    def _say(self, text: str, logprobs: Sequence[bytes] = ()) -> None:
        message = self._message
        (message if message is not None else self._open_message()).text(text, logprobs)

    def _think(self, text: str) -> None:
        self._close_message(b"completed", "commentary")
        if self._thoughts is None:
            self._thoughts = Thoughts(self._output)
        self._thoughts.add(text)

    def _preview(self, previews: Sequence[ArgumentPatches]) -> None:
        if self.frames.writing:
            for patches in previews:
                self._tell(PREVIEW, self._showing.tools.preview(patches))

    def _tell(self, name: bytes, fields: dict[str, Any]) -> None:
        """An event of our own."""
        kind = name if self._progress_type == PROGRESS else self._progress_type
        self.frames.put(kind, encode(fields)[1:-1], name)

    def _list_servers(self) -> None:
        self._is_listed = True
        errors = errors_of(self._run.start)
        for label in labels(self._options.servers):
            ServerListing(self._output, label, self._run.plan.tools, errors.get(label))

    def _is_mcp(self, call: ToolCall) -> bool:
        """Whether a call is an item as those of MCP servers are. One that people were asked about is, as its question was,
        unless the API has an item for its tool."""
        if call.name in self._origins:
            return True
        if call.id not in self._showing.approval_ids:
            return False
        is_known = self._showing.tools.tool_type(call) in HOSTED_TYPES or call.name in WEB_TOOLS
        return not is_known and not searches_tools(call, self._run.tools)

    def _begin_call(self, call: ToolCall) -> RunningCall | None:
        """A call of a tool that runs here, as an item where there is one for it."""
        tools = self._showing.tools
        running: RunningCall | None = None
        if self._is_mcp(call):
            origin = self._origins.get(call.name) or Origin(OWN_LABEL, call.name)
            running = McpCall(self._output, call, origin, self._showing.approval_ids.get(call.id))
        elif call.name in WEB_TOOLS and (begun := read_call(call)) is not None:
            running = SearchItem(self._output, call, begun, shows_sources=self._options.shows_sources)
        elif call.name == FIND_TOOLS and searches_tools(call, self._run.tools):
            running = ToolSearchOutput(self._output, call, self._run.tools)
        elif tool_type := tools.tool_type(call):
            container = container_id(self._run.start.session)
            running = begin_hosted(self._output, tool_type, call, container, with_outputs=self._options.code_outputs)
        if running is not None:
            self._running[call.id] = running
        return running

    def _end_call(self, call: ToolCall, result: ToolResult) -> None:
        """One that was answered without being run, as a call that people deny, has an item only if it is one of MCP servers'."""
        tools = self._showing.tools
        if self._is_mcp(call):
            running = self._running.get(call.id) or self._begin_call(call)
            assert running is not None
            running.end(result, tools)
            self.told[running.id] = ToldCall(call, result)
            del self._running[call.id]
        if call.name not in self._origins and self.frames.writing:
            self._tell(PROGRESS, tools.progress(call.id, result))
        if (other := self._running.pop(call.id, None)) is not None:
            other.end(result, tools)
            self.told[other.id] = ToldCall(call, result)

    def _open_message(self) -> Message:
        if self._message is None:
            self._close_thoughts()
            self._message = Message(self._output, self._showing.sources)
        return self._message

    def _grow(self, piece: Piece) -> None:
        if piece.is_first:
            self._calls[piece.place] = self._announce(piece.id, piece.name, piece.arguments)
        else:
            self._calls[piece.place].add(piece.arguments)

    def _announce(self, call_id: str, name: str, arguments: str) -> Call | ItemCall:
        call_id = self._showing.shown_id(call_id)
        self._close_thoughts()
        self._close_message(b"completed", "commentary")
        spec = self._run.tools.get(name)
        if name in self._options.waiting or (spec is not None and spec.is_hosted):
            waiting = (ApprovalCall if name == APPROVAL else ItemCall)(self._output, call_id, name)
            waiting.add(arguments)
            return waiting
        is_custom = name in self._options.customs
        split = split_name(name, self._options.namespaces)
        call = Call(self._output, call_id, *split, is_custom)
        if arguments:
            call.add(arguments)
        return call

    def _close_turn(self, closed: updates.TurnClosed) -> None:
        turn = closed.turn
        calls = turn.calls
        self._show_turn(closed)
        is_whole = turn.stop in ("stop", "tool_calls")
        self._close(b"completed" if is_whole or calls else b"incomplete", "commentary" if calls else "final_answer")
        for piece in closed.pieces:
            self._grow(piece)
        self._preview(closed.previews)
        places = self._showing.places
        for call in calls:
            if call.id in places:
                self._close_call(self._calls[places[call.id]], call, b"completed" if is_whole else b"incomplete")
        self._calls = {}
        self._seal(turn)

    def _close_call(self, handed: Call | ItemCall, call: ToolCall, status: bytes) -> None:
        """A call of the caller's, whole."""
        handed.close(status, call.arguments, split_name(call.name, self._options.namespaces)[1])

    def _seal(self, turn: AssistantTurn) -> None:
        """The model's own JSON of a turn of which the caller sees everything, for it to bring back."""
        tools = self._run.tools
        if self._sealer is None or turn.native is None or self._showing.holds_text:
            return
        if all(call.name in tools and tools[call.name].kind == "caller" for call in turn.calls):
            ids = [self._showing.shown_id(call.id) for call in turn.calls]
            Thoughts(self._output).close(b"completed", self._sealer.seal(turn, ids))

    def _finish(self, ended: updates.Ended) -> None:
        if self._end is not None:  # it broke down behind its end
            return
        if ended.failure is not None and ended.failure.code in RUN_GOES_ON:
            self.frames.fail(ended.failure)
            return
        end = self._end = ended.end
        self._break_off()
        if self.frames.writing:
            for file in ended.files:
                self._tell(b"file_produced", file)
        if ended.text:
            is_cut = end.answer is None and end.reason in ("length", "content_filter")
            self._say(ended.text)
            self._close_message(b"incomplete" if is_cut else b"completed", "final_answer")
        for call in ended.late:
            handed = self._announce(call.id, call.name, call.arguments)
            self._close_call(handed, call, b"completed" if end.reason == "tool_calls" else b"incomplete")
        if self.frames.writing:
            self.frames.end(event_of_end(end), b'"response":%b' % self.body(), is_whole=self._is_whole)

    def _pause(self) -> None:
        """What waits for a person are the last items; the response itself is complete."""
        self._break_off()
        put = self.frames.put
        for index, approval in enumerate(self._showing.approvals().values(), self._output.count):
            item = b'"output_index":%d,"item":%b' % (index, write_request(approval))
            put(b"response.output_item.added", item)
            put(b"response.output_item.done", item)
        if self.frames.writing:
            self.frames.end(b"response.completed", b'"response":%b' % self.body(), is_whole=self._is_whole)

    # ---- items -------------------------------------------------------------------------------------------------------

    def _close(self, status: bytes, phase: str | None = None) -> None:
        self._close_thoughts(status if self._message is None else b"completed")
        self._close_message(status, phase)

    def _close_thoughts(self, status: bytes = b"completed") -> None:
        if self._thoughts is not None:
            self._thoughts.close(status)
            self._thoughts = None

    def _close_message(self, status: bytes, phase: str | None = None) -> None:
        if self._message is not None:
            cited = self._citations() if phase == "final_answer" else ()
            self._message.close(status, phase, cited)
            self._message = None

    def _citations(self) -> list[FileCitation]:
        """The files that the answer is about: those that were made for it."""
        container = container_id(self._run.start.session)
        files = self._showing.tools.cited_files()
        return [FileCitation(container, file["id"], file["name"]) for file in files if "code" not in file]

    def _break_off(self) -> None:
        """Close what is open."""
        self._close(b"incomplete")
        for call in (*self._calls.values(), *self._running.values()):
            call.cut()
        self._calls, self._running = {}, {}
