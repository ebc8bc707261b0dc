"""A variant's events → what the page is told: JSON texts, in the order that the front end relies on.

    variantCount · status × n · variantModels        before anything happens
    thinking, assistant                              pieces, one id per round and kind
    toolStart → setCode, chunk … → toolResult        the page grows while the model writes it
    setCode → variantComplete, or variantError       once, and nothing after it

A writer is a function of the log: what it must know of the request is in `AppOptions`, what tools made of the page in what they
say of themselves (`details`).

`setCode` is the whole page, so sending it for every piece would cost the square of its length. It goes out when the page has
grown by a sixteenth; what comes between goes out as `chunk`, which the front end appends. Both together are linear.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Final, assert_never

import msgspec
from msgspec import Raw

from ronda.core.events import (
    Event,
    LogprobsDelta,
    ModelFinished,
    ModelRetried,
    NativeDelta,
    ReasoningDelta,
    RefusalDelta,
    TextDelta,
    ToolProgressed,
    Warned,
)
from ronda.core.parts import AssistantTurn, Image, ToolCall, ToolResult, Usage
from ronda.core.run import Run
from ronda.wire.app_stream.html import page_in
from ronda.wire.app_stream.parameters import MAIN
from ronda.wire.app_stream.summaries import file_input, input_of
from ronda.wire.codec.json import decode_or, encode, present, read_object
from ronda.wire.codec.partial_json import Patch
from ronda.wire.shared import updates
from ronda.wire.shared.door_request import AnswerOptions
from ronda.wire.shared.failures import Failure
from ronda.wire.shared.preview import ArgumentPatches
from ronda.wire.shared.showing import Showing

_LEAST_GROWTH: Final = 40  # characters, as the reference has it
_GROWTH: Final = 16  # a page that has grown by this part of itself is sent whole

NO_PAGE: Final = "The model answered in words and wrote no page."
NOTHING: Final = "The model answered with nothing."


class AppOptions(AnswerOptions, frozen=True, kw_only=True, omit_defaults=True):
    """What a variant's writer must know."""

    key: ClassVar[str] = "app"

    variant: int = 0
    path: str = MAIN
    code: str = ""  # of the page before the run


# ---- messages of the socket itself -----------------------------------------------------------------------------------


def write_opening(count: int) -> list[str]:
    status = [_text("status", index, value="Generating code...") for index in range(count)]
    return [_text("variantCount", 0, value=str(count)), *status]


def write_models(names: Sequence[str], runs: Sequence[str]) -> str:
    """`runs` are ours: under which each variant is found at /v1/runs."""
    return _text("variantModels", 0, data={"models": names, "runs": runs})


def write_error(message: str) -> str:
    return encode({"type": "error", "value": message}).decode()


def _text(kind: str, index: int, *, value: str | None = None, data: Any = None, message_id: str | None = None) -> str:
    """What is absent is left out."""
    message = {"type": kind, "variantIndex": index, **present(value=value, data=data, eventId=message_id)}
    return encode(message).decode()


# ---- a variant -------------------------------------------------------------------------------------------------------


class _Details(msgspec.Struct):
    """What a tool of the page says of a call."""

    output: Raw
    ok: bool
    code: str | None = None
    path: str | None = None


class _Draft:
    """A file that is being written: `content` in pieces, and how much of it the page was told."""

    __slots__ = ("content", "length", "path", "shown_length", "whole")

    def __init__(self) -> None:
        self.path: list[str] = []
        self.content: list[str] | None = None  # until it has begun
        self.length = 0
        self.whole = 0  # characters in the last setCode
        self.shown_length = 0  # … and the chunks since

    def add(self, patch: Patch) -> None:
        if patch.path == ("path",) and isinstance(patch.value, str):
            if patch.op == "set":
                self.path = []
            self.path.append(patch.value)
        elif patch.path == ("content",) and isinstance(patch.value, str):
            if patch.op == "set" or self.content is None:
                self.content, self.length, self.whole, self.shown_length = [], 0, 0, 0
            self.content.append(patch.value)
            self.length += len(patch.value)

    @property
    def text(self) -> str:
        """Joined once for all that asks until it grows again."""
        joined = "".join(self.content or ())
        self.content = [joined]
        return joined

    def since(self, length: int) -> str:
        """What came behind so many characters: nearly always the last pieces."""
        pieces: list[str] = []
        left = self.length - length
        for piece in reversed(self.content or ()):
            if left <= 0:
                break
            pieces.append(piece[-left:] if left < len(piece) else piece)
            left -= len(piece)
        return "".join(reversed(pieces))


class VariantMessages:
    """Events of one variant in, texts out. When it is over, `code` is the page, and `failure` says why there is none."""

    def __init__(self, run: Run) -> None:
        options = AppOptions.of(run.start)
        self._run = run
        self._index = options.variant
        self._showing = Showing(run)
        self._path = options.path
        self.code = options.code
        self.failure: str | None = None
        self.is_over = False
        self._on_page: str | None = ""  # what the front end shows; None where that is a text and chunks behind it
        self._round = 0
        self._turn = 0  # attempts count, too
        self._drafts: dict[int, _Draft] = {}  # of this round, by the place of the call
        self._started: dict[int, str] = {}  # calls of this round that the page was told about, and their tools
        self._done: set[int] = set()  # those of them that have a result
        self._calls: Sequence[ToolCall] = ()  # of this round, when its turn is whole
        self._out: list[str] = []

    def feed(self, batch: Sequence[Event | Failure]) -> list[str]:
        for event in batch:
            if not self.is_over and (type(event) is Warned or type(event) is ModelRetried):
                self._say("status", value=_status(event))
            if not self.is_over and (update := self._showing.take(event)) is not None:
                self._write(update)
                if type(event) is ModelFinished:
                    self._say("usage", data={"round": self._round, **_usage(event.usage)})
        out, self._out = self._out, []
        return out

    def _write(self, update: updates.Update) -> None:
        match update:
            case TextDelta(text=text) | RefusalDelta(text=text):
                self._say("assistant", value=text, message_id=f"assistant-{self._index}-{self._round}")
            case ReasoningDelta(text=text):
                self._say("thinking", value=text, message_id=f"thinking-{self._index}-{self._round}")
            case updates.CallsGrew(previews=previews):
                self._preview(previews)
            case updates.TurnBegan(start=start):
                self._take_back()
                self._round = start.round
            case updates.TurnClosed(turn=turn, unseen=unseen, previews=previews):
                for piece in unseen:
                    self._write(piece)
                self._preview(previews)
                self._calls = turn.calls
                self._finish_drafts()
                self._refuse_calls()
            case updates.TurnBroke(unseen=unseen):
                for piece in unseen:
                    self._write(piece)
            case updates.ToolBegan(call=call):
                self._start(self._place(call), call)
            case updates.ToolEnded(call=call, result=result):
                self._end_tool(call, result)
            case updates.Ended():
                self._end(update)
            case updates.QuestionClosed(ended=ended, rewritten=rewritten):
                for one in ended if rewritten is None else (rewritten,):
                    self._write(one)
            case updates.Paused(failure=failure):  # the front end has nothing to ask people with
                self._end(updates.ended_by(failure))
            case updates.Withdrawn():
                self._take_back()
            case updates.QuestionAsked() | LogprobsDelta() | NativeDelta() | ToolProgressed():
                pass
            case _:
                assert_never(update)

    def _say(self, kind: str, *, value: str | None = None, data: Any = None, message_id: str | None = None) -> None:
        self._out.append(_text(kind, self._index, value=value, data=data, message_id=message_id))

    # ---- the page while it grows -------------------------------------------------------------------------------------

    def _preview(self, previews: Sequence[ArgumentPatches]) -> None:
        for patches in previews:
            if patches.name == "create_file":
                draft = self._drafts.setdefault(patches.place, _Draft())
                for patch in patches.patches:
                    draft.add(patch)
                if draft.content is not None:
                    self._grow(patches.place, draft)

    def _grow(self, place: int, draft: _Draft) -> None:
        path = _kept_path(draft) or self._path
        if place not in self._started:
            beginning = draft.text
            self._tool_start(place, "create_file", file_input(path, beginning))
        if not self._is_page(path):
            return
        growth = draft.length - draft.whole
        if (draft.whole == 0 and draft.text.strip()) or (
            draft.whole and growth >= max(_LEAST_GROWTH, draft.length // _GROWTH)
        ):
            self._set_code(draft.text)
            draft.whole = draft.shown_length = draft.length
        elif draft.whole and draft.length - draft.shown_length >= _LEAST_GROWTH:
            self._say("chunk", value=draft.since(draft.shown_length))
            self._on_page = None
            draft.shown_length = draft.length

    def _is_page(self, path: str) -> bool:
        """Whether a file is the page itself, as far as can be told before it is written."""
        return path == self._path or (not self.code and path.endswith((".html", ".htm")))

    def _finish_drafts(self) -> None:
        """The turn is whole: so are the files in it, and it is known which of them is the page."""
        page, was_shown = self.code, False
        for draft in self._drafts.values():
            if draft.content is None:
                continue
            if self._is_page(_kept_path(draft) or self._path) and draft.text.strip():
                page, was_shown = draft.text, True
            elif draft.whole:  # its path came last
                was_shown = True
        if was_shown:
            self._set_code(page)

    def _set_code(self, code: str) -> None:
        if code != self._on_page:
            self._on_page = code
            self._say("setCode", value=code)

    # ---- tools -------------------------------------------------------------------------------------------------------

    def _place(self, call: ToolCall) -> int:
        return next((index for index, one in enumerate(self._calls) if one.id == call.id), len(self._calls))

    def _event_id(self, place: int) -> str:
        """Of our own: a model may give two calls of a run the same id, and give it late."""
        return f"tool-{self._index}-{self._turn}-{place}"

    def _tool_start(self, place: int, name: str, arguments: dict[str, Any]) -> None:
        if place not in self._started:
            self._started[place] = name
            self._say("toolStart", data={"name": name, "input": arguments}, message_id=self._event_id(place))

    def _tool_result(self, place: int, output: Any, *, ok: bool) -> None:
        self._done.add(place)
        data = {"name": self._started[place], "output": output, "ok": ok}
        self._say("toolResult", data=data, message_id=self._event_id(place))

    def _start(self, place: int, call: ToolCall) -> None:
        self._tool_start(place, call.name, input_of(call.name, _members(call), self._path))

    def _end_tool(self, call: ToolCall, result: ToolResult) -> None:
        place = self._place(call)
        self._start(place, call)  # one that was answered without being run
        details = _read_details(self._showing.tools.details(call.id))
        if details is None:  # a tool of another kind, or one that broke down
            self._tool_result(
                place, {"error": result.content} if result.failed else result.content, ok=not result.failed
            )
            return
        self._path = details.path or self._path
        if details.code is not None:
            self.code = details.code
        if details.code is not None or (not details.ok and call.name == "create_file"):
            self._set_code(self.code)  # also where what was shown early has come to nothing
        output = _with_pictures(details.output, result) if call.name == "screenshot_preview" else details.output
        self._tool_result(place, output, ok=details.ok)

    def _refuse_calls(self) -> None:
        """Calls that cannot be run at all are reported in their place among the others."""
        for index, call in enumerate(self._calls):
            if call.problem is not None:
                error = "Invalid JSON tool arguments"
            elif call.name in self._run.tools:
                continue
            else:
                error = "Image generation disabled" if call.name == "generate_images" else f"Unknown tool: {call.name}"
            self._start(index, call)
            self._tool_result(index, {"error": error}, ok=False)

    def _take_back(self) -> None:
        """What comes next is another turn, or another attempt: files that were being written have come to nothing."""
        is_half = bool(self._drafts) and not self._calls
        self._close_round("The model's answer broke off")
        self._turn += 1
        if is_half:
            self._set_code(self.code)

    def _close_round(self, why: str) -> None:
        """Every call that the page was told about has a result, and so has every call that the model was answered without it."""
        for place, call in enumerate(self._calls):
            if place not in self._done:
                self._start(place, call)
        for place in self._started.keys() - self._done:
            self._tool_result(place, {"error": "Not run" if self._calls else why}, ok=False)
        self._drafts, self._started, self._done, self._calls = {}, {}, set(), ()

    # ---- the end -----------------------------------------------------------------------------------------------------

    def _end(self, ended: updates.Ended) -> None:
        self._close_round("The run ended first")
        self.is_over = True
        if ended.failure is not None:
            self._fail(_why(ended.failure))
            return
        if ended.text:
            self._say("assistant", value=ended.text, message_id=f"assistant-{self._index}-{self._round}")
        if not self.code:
            self.code = self._page_in_text() or ""
        self._say("usage", data=_usage(self._run.usage))
        if self.code:
            self._say("setCode", value=self.code)
            self._say("variantComplete", value="Variant generation complete")
            return
        has_text = any(turn.text.strip() for turn in self._run.generated if isinstance(turn, AssistantTurn))
        self._fail(NO_PAGE if has_text else NOTHING)

    def _fail(self, why: str) -> None:
        """Half a page that will never be whole is taken off the page: what is left is the last that was."""
        if self._on_page != self.code:
            self._say("setCode", value=self.code)
        self.failure = why
        self._say("variantError", value=why)

    def _page_in_text(self) -> str | None:
        for turn in reversed(self._run.generated):
            if isinstance(turn, AssistantTurn) and (page := page_in(turn.text)) is not None:
                return page
        return None


class AppAnswer:
    """The variants of one socket, side by side: a line for each message."""

    def __init__(self, runs: Sequence[Run]) -> None:
        self._variants = [VariantMessages(run) for run in runs]

    def feed(self, sibling: int, batch: Sequence[Event | Failure]) -> bytes:
        return "".join([f"{text}\n" for text in self._variants[sibling].feed(batch)]).encode()

    def close(self, why: Failure) -> list[str]:
        """What is still to be said when nothing more comes of any run: every variant ends."""
        return [text for variant in self._variants if not variant.is_over for text in variant.feed([why])]

    @property
    def failure(self) -> str | None:
        """Why none of the variants has a page; None if one has."""
        failures = [variant.failure for variant in self._variants]
        return failures[0] if all(failures) else None


def _kept_path(draft: _Draft) -> str:
    """As the project keeps it: `./index.html` is index.html."""
    parts = "".join(draft.path).strip().replace("\\", "/").split("/")
    return "/".join([part for part in parts if part not in ("", ".")])


def _status(event: Warned | ModelRetried) -> str:
    """What goes to the page's console while the variant goes on."""
    if isinstance(event, Warned):
        return f"Note: {event.message}"
    return f"The model did not answer ({event.reason}); try {event.attempt} of {event.tries}"


def _why(failure: Failure) -> str:
    return "This variant was cancelled." if failure.code == "cancelled" else failure.message


def _usage(usage: Usage) -> dict[str, int]:
    """`input` is without what came from a cache or went into one."""
    return {
        "input": max(0, usage.input - usage.cached - usage.cache_written),
        "output": usage.output,
        "cache_read": usage.cached,
        "cache_write": usage.cache_written,
        "total": usage.total,
    }


def _members(call: ToolCall) -> dict[str, Any]:
    return {} if call.problem is not None else read_object(call.arguments)


def _with_pictures(output: Raw, result: ToolResult) -> Any:
    """Screenshots as the page shows them. They are kept once, as what the model was shown: the output names their places."""
    read = msgspec.json.decode(output)
    for shot in read.get("screenshots", ()):
        picture = result.attachments[shot["image_part_index"]]
        if isinstance(picture, Image):
            shot["image_url"] = picture.url
    return read


def _read_details(raw: Raw | None) -> _Details | None:
    return None if raw is None else decode_or(None, _Details, raw)
