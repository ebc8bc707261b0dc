"""A stream of the Responses API, one socket read at a time: previews out of `feed`, the whole turn out of `finish`.

What is finished comes from what the upstream itself calls finished: the output of the last event, or, from servers that
leave it empty there, the items as they were done. Never from an item that was only added: its encrypted thoughts are not
whole yet. Deltas are previews and nothing else, unless an upstream sends only them; what it never sent as deltas is shown when
its item is done.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import Raw, Struct

from ronda.core.events import (
    CallDelta,
    LogprobsDelta,
    ModelFinished,
    NativeDelta,
    Preview,
    ReasoningDelta,
    RefusalDelta,
    TextDelta,
)
from ronda.core.parts import NULL
from ronda.errors import UpstreamBroken
from ronda.wire.codec.json import encode
from ronda.wire.codec.lenient import read_leniently
from ronda.wire.openai_chat.names import NO_NAMES
from ronda.wire.openai_responses import API
from ronda.wire.openai_responses.client_answer import (
    BREAK,
    Item,
    decode_kind,
    finish,
    is_service_item,
    logprobs_json,
    read_failure,
    read_item,
    read_response,
    split,
)
from ronda.wire.openai_responses.client_calls import WAITING
from ronda.wire.openai_responses.failures import Failure, upstream_error
from ronda.wire.upstream.errors import envelope_error, is_error
from ronda.wire.upstream.stream import JsonStream, cut_short


class _Event(Struct, frozen=True, gc=False):
    type: str = ""
    delta: Any = None  # text, in every event that is read
    output_index: int | None = None
    item_id: str | None = None
    content_index: int | None = None
    summary_index: int | None = None
    logprobs: list[Raw] | None = None
    item: Raw = NULL
    response: Raw = NULL
    # An `error` event says what is wrong in its own members, or in an envelope.
    error: Raw = NULL
    message: str | None = None
    code: str | int | None = None


_decode_event = msgspec.json.Decoder(_Event).decode

_ENDS = {"response.completed": "completed", "response.incomplete": "incomplete", "response.failed": "failed"}


class _ShownItem:
    """What was shown of an item so far."""

    __slots__ = ("arguments", "call", "id", "name", "part", "raw_thoughts", "refused", "texts", "thought")

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.refused: list[str] = []
        self.thought: list[str] = []
        self.part: tuple[str, int] | None = None  # which of its thoughts is being shown
        self.raw_thoughts = False  # they came themselves, so a summary of them is not shown as well
        self.call: int | None = None  # which of the turn's calls it is
        self.id = ""
        self.name = ""
        self.arguments: list[str] = []

    @property
    def items(self) -> list[dict[str, Any]]:
        """As the items that a server with nothing but deltas would have said."""
        found: list[dict[str, Any]] = []
        if self.call is not None and self.name:
            found.append(
                {"type": "function_call", "call_id": self.id, "name": self.name, "arguments": "".join(self.arguments)}
            )
        if self.texts or self.refused:
            texts = [{"type": "output_text", "text": "".join(self.texts), "annotations": []}] if self.texts else []
            refusals = [{"type": "refusal", "refusal": "".join(self.refused)}] if self.refused else []
            found.append({"type": "message", "role": "assistant", "content": [*texts, *refusals]})
        return found


class Reader(JsonStream):
    """`names`: what a tool is called there → its own name, where they differ."""

    __slots__ = ("_calls", "_done", "_finished", "_items", "_keys", "_names", "_thought")

    def __init__(self, names: Mapping[str, str] = NO_NAMES) -> None:
        super().__init__()
        self._names = names
        self._items: dict[int, _ShownItem] = {}
        self._keys: dict[str, int] = {}  # item id → where it is in the output
        self._done: dict[int, Raw] = {}
        self._calls = 0
        self._thought = False  # some thought of this turn was shown
        self._finished: ModelFinished | None = None

    def finish(self) -> ModelFinished:
        self._must_be_sound()
        if self._finished is None:
            raise cut_short()
        return self._finished

    def _read_into(self, out: list[Preview], frames: list[bytes]) -> None:
        for frame in frames:
            if self._finished is not None:
                break
            if frame and frame != b"[DONE]":  # this API has no such mark, some of its speakers do
                frame = self._halves.mend(frame)
                try:
                    event = _decode_event(frame)
                except msgspec.DecodeError as error:
                    event = read_leniently(frame, _Event, error)
                self._event(event, out)

    def _event(self, event: _Event, out: list[Preview]) -> None:
        match event.type:
            case "response.output_text.delta":
                if text := _text(event):
                    self._at(event).texts.append(text)
                    out.append(TextDelta(text))
                if event.logprobs:
                    out.append(LogprobsDelta(logprobs_json(event.logprobs)))
            case "response.function_call_arguments.delta" | "response.custom_tool_call_input.delta":
                out.append(self._grown(self._at(event), _text(event)))
            case "response.reasoning_summary_text.delta":
                shown = self._at(event)
                if not shown.raw_thoughts:
                    self._think(shown, ("summary", event.summary_index or 0), _text(event), out)
            case "response.reasoning_text.delta":
                shown = self._at(event)
                shown.raw_thoughts = True
                self._think(shown, ("content", event.content_index or 0), _text(event), out)
            case "response.refusal.delta":
                if text := _text(event):
                    self._at(event).refused.append(text)
                    out.append(RefusalDelta(text))
            case "response.output_item.added":
                shown = self._at(event, decode_kind(event.item).id)
                if (item := read_item(event.item)) is not None and item.is_call:
                    self._know(shown, item)
                    # What waits for the client has its members when it is done.
                    out.append(self._grown(shown, "" if item.type in WAITING else item.arguments_text))
            case "response.output_item.done":
                at = self._index(event, decode_kind(event.item).id)
                self._done[at] = event.item.copy()
                self._show_done(at, self._done[at], out)
            case "response.completed" | "response.incomplete" | "response.failed":
                self._end(event, out)
            case "error":
                raise upstream_error(_failure(event))
            case "" if is_error(event.error):  # an answer that says no, by the name of a stream
                raise envelope_error(bytes(event.error))
            case _:
                pass  # what these events say comes again with the item

    # ---- where an event belongs --------------------------------------------------------------------------------------

    def _index(self, event: _Event, item_id: str | None = None) -> int:
        """`id`, if the event is an item's own. Some servers leave the index out: then the id tells, else the order."""
        at = event.output_index
        known = item_id or event.item_id or ""
        if at is None:
            last = max(self._items, default=-1)
            at = self._keys.get(known, last + 1 if item_id else max(last, 0))
        if known:
            self._keys.setdefault(known, at)
        return at

    def _at(self, event: _Event, item_id: str | None = None) -> _ShownItem:
        shown = self._items.get(event.output_index) if event.output_index is not None else None
        return shown if shown is not None else self._shown(self._index(event, item_id))

    def _shown(self, at: int) -> _ShownItem:
        shown = self._items.get(at)
        if shown is None:
            shown = self._items[at] = _ShownItem()
        return shown

    # ---- showing -----------------------------------------------------------------------------------------------------

    def _know(self, shown: _ShownItem, item: Item) -> None:
        shown.id = item.call_id or shown.id
        shown.name = self._names.get(item.name or "", item.name or "") or shown.name

    def _grown(self, shown: _ShownItem, more: str) -> CallDelta:
        if shown.call is None:
            shown.call, self._calls = self._calls, self._calls + 1
        if more:
            shown.arguments.append(more)
        return CallDelta(shown.call, shown.id, shown.name, more)

    def _think(self, shown: _ShownItem, part: tuple[str, int], text: str, out: list[Preview]) -> None:
        if not text:
            return
        if shown.part != part and self._thought:
            text = BREAK + text
        shown.part = part
        self._thought = True
        shown.thought.append(text)
        out.append(ReasoningDelta(text))

    def _show_done(self, at: int, raw: Raw, out: list[Preview]) -> None:
        """A finished item. What the service did by itself, and what a text cites, is shown as it came."""
        if (item := read_item(raw)) is not None:
            self._show_rest(at, item, out)
            if item.is_annotated:
                out.append(NativeDelta(API, raw))
        elif is_service_item(decode_kind(raw)):
            out.append(NativeDelta(API, raw))

    def _show_rest(self, at: int, item: Item, out: list[Preview]) -> None:
        """What a finished item says and was not shown: all of it from servers that send no deltas, mostly nothing."""
        shown = self._shown(at)
        if item.is_call:
            known = (shown.call, shown.id, shown.name)
            self._know(shown, item)
            rest = _rest(item.arguments_text, shown.arguments)
            if rest or known != (shown.call, shown.id, shown.name) or shown.call is None:
                out.append(self._grown(shown, rest))
        elif item.type == "reasoning":
            if not shown.thought:
                for index, thought in enumerate(item.thoughts()):
                    self._think(shown, ("whole", index), thought, out)
        else:
            if rest := _rest("".join(item.texts()), shown.texts):
                shown.texts.append(rest)
                out.append(TextDelta(rest))
            if rest := _rest("".join(item.refusals()), shown.refused):
                shown.refused.append(rest)
                out.append(RefusalDelta(rest))

    # ---- the end -----------------------------------------------------------------------------------------------------

    def _end(self, event: _Event, out: list[Preview]) -> None:
        if event.response == NULL:
            raise UpstreamBroken("the model's stream ended without a response", retryable=True)
        response = read_response(event.response)
        if response.status is None or event.type == "response.failed":
            response = msgspec.structs.replace(response, status=_ENDS[event.type])
        raws = split(response.output) if response.output != NULL else []
        if raws:
            for at, raw in enumerate(raws):
                if at not in self._done:
                    self._show_done(at, raw.copy(), out)
            output = response.output
        else:
            items = [self._done[at] for at in sorted(self._done)]
            output = Raw(encode(items or [item for at in sorted(self._items) for item in self._items[at].items]))
        self._finished = finish(response, output, self._names)


def _text(event: _Event) -> str:
    return event.delta if type(event.delta) is str else ""


def _rest(whole: str, shown: list[str]) -> str:
    text = "".join(shown)
    return whole[len(text) :] if whole.startswith(text) else ""


def _failure(event: _Event) -> Failure:
    if event.error != NULL:
        return read_failure(event.error)
    return Failure(event.message, event.code)
