"""What a conversation is made of: turns, and the parts inside them.

Pure values: frozen, equal when their content is equal, JSON both ways through their tags. Nothing here knows a vendor; a
provider's own JSON of a turn rides next to the neutral parts as `Native`, to be sent back to the same wire untouched.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Literal, TypeAlias

from msgspec import Raw, Struct

# JSON that is not there. A field of raw JSON has this for its default: msgspec knows no union of Raw and None.
NULL = Raw(b"null")


class Native(Struct, frozen=True, gc=False):
    """The JSON in which a wire said this, kept only where that wire's writer would not say it the same way."""

    api: str
    payload: Raw


class Text(Struct, frozen=True, gc=False, tag="text"):
    text: str


class Reasoning(Struct, frozen=True, gc=False, tag="reasoning"):
    """What the model thought aloud. Never sent to another vendor, never part of an answer."""

    text: str


class Refusal(Struct, frozen=True, gc=False, tag="refusal"):
    text: str


class Image(Struct, frozen=True, gc=False, tag="image", omit_defaults=True):
    """`url` is http(s) or a data: URL."""

    url: str
    detail: str | None = None


class Audio(Struct, frozen=True, gc=False, tag="audio"):
    """`data` is base64, `format` the file format: wav, mp3, …"""

    data: str
    format: str


class Video(Struct, frozen=True, gc=False, tag="video"):
    url: str


class File(Struct, frozen=True, gc=False, tag="file", omit_defaults=True):
    """Content as a data: URL, or a provider's id of a file it already has.

    Of one that a tool made, also what is known of it where its content does not travel along; `problem` says why there is none.
    """

    data: str | None = None
    name: str | None = None
    id: str | None = None
    size: int | None = None
    format: str = ""
    preview: str = ""
    problem: str = ""
    marks: tuple[str, ...] = ()  # where it is known whose words it has: "untrusted" if it was fetched (`core.taint`)


class ToolCall(Struct, frozen=True, gc=False, tag="tool_call", omit_defaults=True):
    """What the model asks for. `arguments` is JSON text.

    When the model wrote something else, `repairs` names what was done to read it and `written` keeps its own words; when
    nothing could be read, `problem` says why, and the call is never run.
    """

    id: str
    name: str
    arguments: str
    repairs: tuple[str, ...] = ()
    written: str | None = None
    problem: str | None = None

    @property
    def as_written(self) -> str:
        return self.arguments if self.written is None else self.written


class ToolResult(Struct, frozen=True, gc=False, tag="tool_result", omit_defaults=True):
    """The result of a call. The model reads it whether it failed or not."""

    call_id: str
    content: str
    failed: bool = False
    attachments: tuple[Attachment, ...] = ()
    native: Native | None = None
    whole: str = ""  # the id of the file that has all of it, where `content` leaves something out
    marks: tuple[str, ...] = ()  # what the model has read by it: "private", "untrusted" (`core.taint`)


Attachment: TypeAlias = Image | Audio | Video | File
UserPart: TypeAlias = Text | Image | Audio | Video | File
AssistantPart: TypeAlias = Text | Reasoning | Refusal | ToolCall

# Why a model stopped. Only "tool_calls" runs tools: a turn cut by length never does.
Stop: TypeAlias = Literal["stop", "tool_calls", "length", "content_filter", "interrupted"]


class SystemTurn(Struct, frozen=True, gc=False, tag="system", omit_defaults=True):
    text: str
    role: Literal["system", "developer"] = "system"
    native: Native | None = None


class UserTurn(Struct, frozen=True, gc=False, tag="user", omit_defaults=True):
    parts: tuple[UserPart, ...]
    name: str | None = None
    native: Native | None = None


class AssistantTurn(Struct, frozen=True, gc=False, tag="assistant", omit_defaults=True):
    parts: tuple[AssistantPart, ...]
    stop: Stop = "stop"
    native: Native | None = None
    stop_sequence: str | None = None  # which of the caller's made it stop, where the provider says

    @property
    def text(self) -> str:
        return "".join([part.text for part in self.parts if type(part) is Text])

    @property
    def reasoning(self) -> str:
        return "".join([part.text for part in self.parts if type(part) is Reasoning])

    @property
    def refusal(self) -> str:
        return "".join([part.text for part in self.parts if type(part) is Refusal])

    @property
    def calls(self) -> tuple[ToolCall, ...]:
        parts = self.parts
        if len(parts) == 1:  # nearly always: a text, or a call
            return (only,) if type(only := parts[0]) is ToolCall else ()
        return tuple([part for part in parts if type(part) is ToolCall])


class ToolTurn(Struct, frozen=True, gc=False, tag="tool"):
    """The results of one assistant turn, in the order the model asked."""

    results: tuple[ToolResult, ...]


Turn: TypeAlias = SystemTurn | UserTurn | AssistantTurn | ToolTurn


class Usage(Struct, frozen=True, gc=False, omit_defaults=True):
    """Tokens, as the provider counted them."""

    input: int = 0
    output: int = 0
    cached: int = 0
    reasoning: int = 0
    prompt_seconds: float = 0.0  # where the engine says how long it took
    completion_seconds: float = 0.0
    cache_written: int = 0  # of the input: what the provider put into its cache, where that is counted apart
    cost: float | None = None  # in US dollars; None: not known. 0.0: it is known to be free

    def __add__(self, other: Usage) -> Usage:
        if self is NO_USAGE:  # nearly always, since most runs are one model call
            return other
        return Usage(
            self.input + other.input,
            self.output + other.output,
            self.cached + other.cached,
            self.reasoning + other.reasoning,
            self.prompt_seconds + other.prompt_seconds,
            self.completion_seconds + other.completion_seconds,
            self.cache_written + other.cache_written,
            None if self.cost is None and other.cost is None else self._cost_with(other),
        )

    def __sub__(self, other: Usage) -> Usage:
        if other is NO_USAGE:
            return self
        return Usage(
            self.input - other.input,
            self.output - other.output,
            self.cached - other.cached,
            self.reasoning - other.reasoning,
            self.prompt_seconds - other.prompt_seconds,
            self.completion_seconds - other.completion_seconds,
            self.cache_written - other.cache_written,
            self._cost_without(other),
        )

    def _cost_with(self, other: Usage) -> float | None:
        """A sum is known where each of its parts is. What used no tokens costs nothing."""
        if self.cost is None:
            return None if self.total else other.cost
        if other.cost is None:
            return None if other.total else self.cost
        return self.cost + other.cost

    def _cost_without(self, other: Usage) -> float | None:
        if self.cost is None or (other.cost is None and other.total):
            return None
        return self.cost - (other.cost or 0.0)

    @property
    def total(self) -> int:
        return self.input + self.output


NO_USAGE = Usage()


def user(text: str) -> UserTurn:
    """What a person said."""
    return UserTurn((Text(text),))


# Turns of which the beginning was looked at before: in a session it is the same objects, request after request.
#
# Looking again would cost each request as much as all those before it. It is a tuple like any other to code that does not ask.


class KnownTurns(tuple[Turn, ...]):
    """Of the first `known` turns every call is answered, they are as large as `size` says, `whole` are the files that
    have all of results of which they have a part, and `marks` are those of a reader of them."""

    known: int
    size: int
    whole: frozenset[str]
    marks: frozenset[str]

    @classmethod
    def of(
        cls,
        turns: Iterable[Turn],
        known: int,
        size: int,
        whole: frozenset[str] = frozenset(),
        marks: frozenset[str] = frozenset(),
    ) -> KnownTurns:
        made = cls(turns)
        made.known, made.size, made.whole, made.marks = known, size, whole, marks
        return made


def known_of(turns: Any) -> int:
    return turns.known if type(turns) is KnownTurns else 0


def files_in(turns: Iterable[Turn]) -> list[File]:
    return [part for turn in turns if type(turn) is UserTurn for part in turn.parts if type(part) is File]


def has_files(turns: Iterable[Turn]) -> bool:
    for turn in turns:
        if type(turn) is UserTurn:
            for part in turn.parts:
                if type(part) is File:
                    return True
    return False


def are_words(turns: Sequence[Turn]) -> bool:
    """Whether nothing but text was said: no pictures or files, no calls and no results. False where only some were looked at."""
    if type(turns) is KnownTurns:
        return False
    for turn in turns:
        if type(turn) is UserTurn:
            for part in turn.parts:
                if type(part) is not Text:
                    return False
        elif type(turn) is AssistantTurn:
            for said in turn.parts:
                if type(said) is ToolCall:
                    return False
        elif type(turn) is ToolTurn:
            return False
    return True
