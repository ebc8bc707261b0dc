"""The Responses API as its server, the way out: events → SSE bytes, WebSocket messages, or one JSON body.

All are folds of the same events by the same class, so what a stream shows adds up to what the plain answer says. A turn comes
to items: what the model thought, what it said, the calls it makes of the caller's tools. Thoughts go out as a summary, which
is the one form that OpenAI's clients and Open Responses both know. Tools that run here are no items: clients would try to run
them again; their progress is told by events of our own.

A caller's calls are streamed as they arrive while nothing can take them back (`core.live`), else they go out at the end. An
answer that must be JSON is held until it has been checked.

Ids and times come from the log: a stream written again from it is the same, byte for byte.
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
    TextDelta,
    ToolFinished,
    ToolStarted,
    Warned,
)
from ronda.core.live import LiveCalls, Piece
from ronda.core.parts import NULL, AssistantTurn, Reasoning, Refusal, Text, ToolCall
from ronda.core.run import Run
from ronda.wire.endings import extensions, has_answer, has_calls
from ronda.wire.failures import BROKE_DOWN
from ronda.wire.json import encode
from ronda.wire.openai_responses.items_out import Call, Frames, ItemCall, Message, Thoughts
from ronda.wire.openai_responses.logprobs import read_logprobs
from ronda.wire.openai_responses.resource import Kept, Resource, event_of_end
from ronda.wire.openai_responses.sealed import Sealer
from ronda.wire.openai_responses.tools import split_name
from ronda.wire.own_tools import OwnTools

SDK_LANGUAGE: Final = b"x-stainless-lang"  # the header in which OpenAI's own SDKs say what they are written in
PROGRESS: Final = b"agentic_tool_call_progress"
_TRUE: Final = Raw(b"true")
_IGNORED: Final = b"keepalive"  # the type that npm's accumulator passes over, whatever else the event has


def progress_type(sdk_language: str | None) -> bytes:
    """What events about tools that run here are typed as, for a client whose official SDK is of this language.

    The accumulator of npm's `responses.stream()` throws at a type it does not know. The event's name stays the same.
    """
    return _IGNORED if sdk_language == "js" else PROGRESS


class _Round:
    """What of the turn under way was shown already, in characters."""

    __slots__ = ("refused", "said", "thought")

    def __init__(self) -> None:
        self.said = self.thought = self.refused = 0


class ResponseAnswer:
    """The answer to one request. `feed` gives the bytes of a stream, `body` the plain answer.

    `after`: events up to that number were seen already, and are not written again. `sse`: as server-sent events; else one
    line per event. `sealer`: for callers who keep their conversation themselves and want the model's own JSON of it.
    `progress_type`: the `type` of events about tools that run here.
    """

    def __init__(
        self,
        runs: Sequence[Run],
        *,
        sealer: Sealer | None = None,
        sse: bool = True,
        after: int | None = None,
        obfuscated: bool | None = None,
        progress_type: bytes = PROGRESS,
    ) -> None:
        [run] = runs
        kept = Kept.of(run.start)
        self._run = run
        self._progress_type = progress_type
        self._kept = kept
        self._sealer = sealer if kept.sealed else None
        self._resource = Resource(run, kept)
        self._frames = Frames(
            sse, -1 if after is None else after, kept.obfuscated if obfuscated is None else obfuscated
        )
        self._hex = run.id.removeprefix("run_")
        self._live = LiveCalls(run.plan)
        self._held = run.plan.holds_text
        self._begun = False
        # Where probabilities were asked for, text waits for those that come behind it: they go out in one piece.
        self._has_logprobs = run.plan.options.extra.get("logprobs") == _TRUE
        self._waiting = ""
        self._index = 0  # of the next item
        self._done: list[tuple[int, bytes]] = []  # items, and which they are of the output
        self._message: Message | None = None
        self._thoughts: Thoughts | None = None
        self._calls: dict[int, Call | ItemCall] = {}  # of the turn under way, by their place in it
        self._shown = _Round()
        self._tools = OwnTools()
        self._warnings: list[str] = list(kept.warnings)
        self._end: RunFinished | None = None

    # ---- for the door ------------------------------------------------------------------------------------------------

    def feed(self, sibling: int, batch: Sequence[Event]) -> bytes:
        """Bytes for one batch of events; one ASGI message per upstream read."""
        frames = self._frames
        frames.writing = True
        if not self._begun:
            self._begun = True
            under_way = self._resource.under_way()
            frames.put(b"response.created", b'"response":%b' % under_way)
            frames.put(b"response.in_progress", b'"response":%b' % under_way)
        for event in batch:
            self._take(event)
        return frames.taken()

    def broke_down(self, sibling: int) -> bytes:
        return self.feed(0, [BROKE_DOWN]) if self._end is None else b""

    def fold(self, sibling: int, batch: Sequence[Event]) -> None:
        """Take events for the plain answer, which has no use for previews."""
        for event in batch:
            self._take(event)

    def body(self) -> bytes:
        """Asked for while the run is under way, it has what is finished of it."""
        return self._resource.at_the_end(self._end, b",".join(self.items), self._extensions())

    @property
    def items(self) -> list[bytes]:
        """The output so far, as JSON, in the order in which it was announced."""
        return [item for _, item in sorted(self._done)]

    # ---- events ------------------------------------------------------------------------------------------------------

    def _take(self, event: Event) -> None:
        if type(event) is TextDelta:  # first, since it is nearly all there is
            if not self._has_logprobs:
                if event.text:
                    self._say(event.text)
                return
            waiting, self._waiting = self._waiting, event.text
            if waiting:
                self._say(waiting)
            return
        if self._waiting:
            waiting, self._waiting = self._waiting, ""
            if type(event) is LogprobsDelta:
                self._say(waiting, read_logprobs(event.logprobs))
                return
            self._has_logprobs = False  # asked for, but not to be had
            self._say(waiting)
        match event:
            case ReasoningDelta(text=text):
                if text:
                    self._think(text)
            case CallDelta():
                for piece in self._live.add(event):
                    self._grow(piece)
            case RefusalDelta(text=text):
                if text:
                    self._refuse(text)
            case LogprobsDelta(logprobs=logprobs):
                if self._message is not None:  # else they are of no text: of a call's tokens
                    self._say("", read_logprobs(logprobs))
            case ModelStarted(round=round):
                self._tools.round = round
                self._live = LiveCalls(self._run.plan, event)
            case ModelRetried():
                self._live = self._live.anew()
            case ModelFinished():
                self._finish_turn(event)
            case ModelInterrupted(turn=turn):
                self._show_rest(turn)
                self._break_off()
            case ToolStarted(call_id=id):
                if self._frames.writing:
                    self._tell(self._tools.progress(id))
            case ToolFinished(result=result):
                self._tools.record(result)
                if self._frames.writing:
                    self._tell(self._tools.progress(result.call_id, result))
            case Warned(message=message):
                self._warnings.append(message)
            case RunFinished():
                self._finish(event)
            case _:
                pass

    # Each of these closes what was open of another kind: items follow one another, as clients expect.

    def _say(self, text: str, logprobs: Sequence[bytes] = ()) -> None:
        if self._held:
            return
        self._shown.said += len(text)
        message = self._message
        (message if message is not None else self._open_message()).text(text, logprobs)

    def _refuse(self, text: str) -> None:
        self._shown.refused += len(text)
        self._open_message().refusal(text)

    def _think(self, text: str) -> None:
        self._shown.thought += len(text)
        self._close_message(b"completed", "commentary")
        if self._thoughts is None:
            self._thoughts = Thoughts(self._frames, self._id("rs"), self._next())
        self._thoughts.add(text)

    def _tell(self, progress: dict[str, Any]) -> None:
        self._frames.put(self._progress_type, encode(progress)[1:-1], PROGRESS)

    def _open_message(self) -> Message:
        if self._message is None:
            self._close_thoughts()
            self._message = Message(self._frames, self._id("msg"), self._next())
        return self._message

    def _grow(self, piece: Piece) -> None:
        if piece.is_first:
            self._calls[piece.place] = self._announce(piece.id, piece.name, piece.arguments)
        else:
            self._calls[piece.place].add(piece.arguments)

    def _announce(self, id: str, name: str, arguments: str) -> Call | ItemCall:
        self._close_thoughts()
        self._close_message(b"completed", "commentary")
        if name in self._kept.waiting:
            waiting = ItemCall(self._frames, self._id("call"), self._next(), id, name)
            waiting.add(arguments)
            return waiting
        is_custom = name in self._kept.customs
        said = split_name(name, self._kept.namespaces)
        call = Call(self._frames, self._id("ctc" if is_custom else "fc"), self._next(), id, *said, is_custom)
        if arguments:
            call.add(arguments)
        return call

    def _finish_turn(self, event: ModelFinished) -> None:
        turn = event.turn
        calls = turn.calls
        self._tools.asked(calls)
        self._show_rest(turn)
        if event.logprobs != NULL and self._message is not None:
            self._message.logprobs_if_none(read_logprobs(event.logprobs))
        is_whole = turn.stop in ("stop", "tool_calls")
        self._close(b"completed" if is_whole or calls else b"incomplete", "commentary" if calls else "final_answer")
        for piece in self._live.rest(turn):
            self._grow(piece)
        places = self._live.places
        for call in calls:
            if call.id in places:
                self._close_call(self._calls[places[call.id]], call, b"completed" if is_whole else b"incomplete")
        self._seal(turn)
        self._begin_turn()

    def _show_rest(self, turn: AssistantTurn) -> None:
        """What no preview has shown, in the order of the turn: an upstream may answer whole, and then it goes out whole."""
        shown = self._shown
        for part in turn.parts:
            match part:
                case Reasoning(text=text):
                    if rest := _unseen(text, shown.thought):
                        self._think(rest)
                    shown.thought = max(0, shown.thought - len(text))
                case Text(text=text) if not self._held:
                    if rest := _unseen(text, shown.said):
                        self._say(rest)
                    shown.said = max(0, shown.said - len(text))
                case Refusal(text=text):
                    if rest := _unseen(text, shown.refused):
                        self._refuse(rest)
                    shown.refused = max(0, shown.refused - len(text))
                case _:
                    pass

    def _close_call(self, handed: Call | ItemCall, call: ToolCall, status: bytes) -> None:
        """A call of the caller's, whole."""
        item = handed.close(status, call.arguments, split_name(call.name, self._kept.namespaces)[1])
        self._done.append((handed.index, item))

    def _seal(self, turn: AssistantTurn) -> None:
        """The model's own JSON of a turn of which the caller sees everything, for it to bring back."""
        tools = self._run.tools
        if self._sealer is None or turn.native is None or self._held:
            return
        if all(call.name in tools and tools[call.name].kind == "caller" for call in turn.calls):
            thoughts = Thoughts(self._frames, self._id("rs"), self._next())
            self._done.append((thoughts.index, thoughts.close(b"completed", self._sealer.seal(turn))))

    def _finish(self, event: RunFinished) -> None:
        self._end = event
        self._break_off()
        if event.answer is not None:
            self._say_whole(event.answer, "final_answer")
        elif self._held and has_answer(event) and (text := self._answer):
            is_cut = event.reason in ("length", "content_filter")
            self._say_whole(text, "final_answer", b"incomplete" if is_cut else b"completed")
        if has_calls(event) and not self._run.plan.announces_calls:
            for call in self._run.open_calls:
                handed = self._announce(call.id, call.name, call.arguments)
                self._close_call(handed, call, b"completed" if event.reason == "tool_calls" else b"incomplete")
        if self._frames.writing:
            self._frames.end(event_of_end(event), b'"response":%b' % self.body())

    @property
    def _answer(self) -> str:
        return next((turn.text for turn in reversed(self._run.turns) if type(turn) is AssistantTurn), "")

    def _say_whole(self, text: str, phase: str, status: bytes = b"completed") -> None:
        """Text that no model turn has shown: the loop's own words, or an answer that was held until it was checked."""
        message = self._open_message()
        message.text(text, ())
        self._close_message(status, phase)

    # ---- items -------------------------------------------------------------------------------------------------------

    def _id(self, kind: str) -> bytes:
        return f"{kind}_{self._hex}_{self._index}".encode()

    def _next(self) -> int:
        self._index += 1
        return self._index - 1

    def _close(self, status: bytes, phase: str | None = None) -> None:
        self._close_thoughts(status if self._message is None else b"completed")
        self._close_message(status, phase)

    def _close_thoughts(self, status: bytes = b"completed") -> None:
        if self._thoughts is not None:
            self._done.append((self._thoughts.index, self._thoughts.close(status)))
            self._thoughts = None

    def _close_message(self, status: bytes, phase: str | None = None) -> None:
        if self._message is not None:
            self._done.append((self._message.index, self._message.close(status, phase)))
            self._message = None

    def _break_off(self) -> None:
        """Close what is open. A call that is not whole is an item of the stream, but never one of the response."""
        self._close(b"incomplete")
        for call in self._calls.values():
            call.close(b"incomplete")
        self._begin_turn()

    def _begin_turn(self) -> None:
        self._calls = {}
        self._shown = _Round()

    def _extensions(self) -> dict[str, Any]:
        return extensions(self._run.start.session, (self._end,), self._warnings, self._tools.records)


def _unseen(text: str, seen: int) -> str:
    return text[seen:] if seen < len(text) else ""
