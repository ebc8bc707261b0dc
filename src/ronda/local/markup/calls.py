"""A call written as JSON → its name, and its arguments as they arrive.

`{"name": …, "arguments": {…}}`, alone or in a list, keys in any order. The arguments are passed on as the model wrote them:
whether they are sound is for the loop to find out, so nothing inside them is judged, only where they end.

A `CallReader` is given what follows a marker. It may find that this was no call after all (`prose`); until it knows, it puts
nothing out, so that the holder of the text can still show it as text.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final, Literal, Protocol, TypeAlias

import msgspec

from ronda.local.markup.output import Out

State: TypeAlias = Literal[
    "undecided",  # may still be prose: nothing was put out
    "call",  # a call is open
    "done",  # all calls of this marker were read, and what follows is not part of them
    "prose",  # not a call
]

MAX_NAME: Final = 256
NAMES: Final = ("name", "tool_name")
ARGUMENTS: Final = ("arguments", "parameters")

BLANKS: Final = re.compile(r"[ \t\r\n]+")
_INSIDE: Final = re.compile(r'[^"\\]+')  # a string
_OUTSIDE: Final = re.compile(r'[^"{}\[\]]+')
_WORD: Final = re.compile(r"[^,}\]\s]+")

_Step: TypeAlias = Callable[[str, int, "Out"], int]


class CallReader(Protocol):
    state: State
    begun: bool  # something was read besides blanks
    broken: bool  # the call that is open makes no sense from here on

    def read(self, text: str, at: int, out: Out) -> int:
        """Read on from `text[at]`; returns how far. All of it, unless the state became `done` or `prose`."""

    def end(self, out: Out) -> None:
        """There is no more text: an open call that lacks nothing but its wrapper's end is complete."""


class Span:
    """Finds the end of one JSON value, by its brackets and quotes only."""

    __slots__ = ("_depth", "_escaped", "_quoted", "_scalar", "complete")

    def __init__(self) -> None:
        self.complete = False
        self._depth = 0
        self._quoted = self._escaped = self._scalar = False

    def read(self, text: str, at: int) -> int:
        """How far the value goes; sets `complete` at its end, which for a bare word is only known after it."""
        while at < len(text) and not self.complete:
            if self._escaped:
                self._escaped = False
                at += 1
            elif self._quoted:
                at = self._in_string(text, at)
            elif self._scalar:
                word = _WORD.match(text, at)
                at = word.end() if word else at
                self.complete = at < len(text)
            else:
                at = self._in_container(text, at)
        return at

    def _in_string(self, text: str, at: int) -> int:
        if run := _INSIDE.match(text, at):
            return run.end()
        if text[at] == "\\":
            self._escaped = True
        else:
            self._quoted = False
            self.complete = not self._depth
        return at + 1

    def _in_container(self, text: str, at: int) -> int:
        char = text[at]
        if char == '"':
            self._quoted = True
        elif char in "{[":
            self._depth += 1
        elif char in "}]":
            self._depth -= 1
            self.complete = self._depth <= 0
        elif not self._depth:
            self._scalar = not char.isspace()
            return at + (not self._scalar)
        elif run := _OUTSIDE.match(text, at):
            return run.end()
        return at + 1


class JsonCalls:
    """One call or a list of them. A `bare` one has no marker before it, and must look the part."""

    def __init__(self, tool_names: frozenset[str], *, bare: bool = False) -> None:
        self.state: State = "undecided"
        self.begun = False
        self.broken = False
        self._tool_names = tool_names
        self._bare = bare
        self._listed = False
        self._step: _Step = self._before
        self._reset()

    def _reset(self) -> None:
        """Ready for the next call of a list."""
        self._key = ""
        self._name = ""
        self._open = False
        self._nested = 0  # inside {"function": {…}}
        self._early: list[str] = []  # arguments that came before the name
        self._arguments: Literal["none", "some", "all"] = "none"
        self._span = Span()
        self._quoted: list[str] = []  # a key or name being read, with its quotes

    def read(self, text: str, at: int, out: Out) -> int:
        while at < len(text) and self.state in ("undecided", "call"):
            if not self._quoted and self._step != self._value and (blanks := BLANKS.match(text, at)):
                at = blanks.end()
            else:
                self.begun = True
                at = self._step(text, at, out)
        return at

    def end(self, out: Out) -> None:
        if self._open and self._arguments == "all":
            out.close()

    # ---- steps: each reads from text[at], which is not blank, and returns how far it came -------------------------------

    def _before(self, text: str, at: int, out: Out) -> int:
        if text[at] == "{":
            self._step = self._next_key
        elif text[at] == "[" and not self._listed:
            self._listed = True
        else:
            return self._fail(at)
        return at + 1

    def _next_key(self, text: str, at: int, out: Out) -> int:
        if self._quoted or text[at] == '"':
            at, key = self._string(text, at)
            if key is not None:
                self._key = key
                self._step = self._colon
                if self._bare and not self._fits(key):
                    return self._fail(at)
            return at
        if text[at] == "}":
            return self._end_object(at + 1, out)
        return at + 1 if text[at] == "," else self._fail(at)

    def _fits(self, key: str) -> bool:
        """Whether an object without a marker may still be a call when this is its next key."""
        return key in ("type", "id") or key in (ARGUMENTS if self._name else (*NAMES, "function"))

    def _colon(self, text: str, at: int, out: Out) -> int:
        if text[at] != ":":
            return self._fail(at)
        self._step = self._choose
        return at + 1

    def _choose(self, text: str, at: int, out: Out) -> int:
        char = text[at]
        if self._key in NAMES or (self._key == "function" and char == '"'):
            self._step = self._read_name
            return at if char == '"' else self._fail(at)
        if self._key in ("function", "tool_call") and char == "{":
            self._nested += 1
            self._step = self._next_key
            return at + 1
        if self._key in ARGUMENTS:
            if self._bare and char != "{":
                return self._fail(at)
            if self._arguments != "none" or char == "n":
                self._key = ""  # said twice: the first counts; or null, which is nothing
            else:
                self._arguments = "some"
                self._commit(out)
        self._span = Span()
        self._step = self._value
        return at

    def _read_name(self, text: str, at: int, out: Out) -> int:
        at, name = self._string(text, at)
        if name is None:
            return at
        if not name:
            return self._fail(at)
        self._name = self._name or name
        self._step = self._after
        if not self._bare:
            self._commit(out)
        return at

    def _value(self, text: str, at: int, out: Out) -> int:
        end = self._span.read(text, at)
        if self._key in ARGUMENTS:
            if self._open:
                out.arguments(text[at:end])
            else:
                self._early.append(text[at:end])
        if self._span.complete:
            self._step = self._after
            if self._key in ARGUMENTS:
                self._arguments = "all"
        return end

    def _after(self, text: str, at: int, out: Out) -> int:
        if text[at] == "}":
            return self._end_object(at + 1, out)
        if text[at] not in ',"':
            return self._fail(at)
        self._step = self._next_key
        return at + (text[at] == ",")

    def _between(self, text: str, at: int, out: Out) -> int:
        if text[at] == ",":
            self._step = self._before
            return at + 1
        self.state = "done"
        return at + (text[at] == "]")

    # ---- what they have in common ---------------------------------------------------------------------------------------

    def _string(self, text: str, at: int) -> tuple[int, str | None]:
        """A key or a name: how far it goes, and what it says once it ended."""
        if not self._quoted:
            self._span = Span()
        room = MAX_NAME - sum(map(len, self._quoted))
        end = self._span.read(text[: at + room], at)
        self._quoted.append(text[at:end])
        if not self._span.complete:
            return (end if end < at + room else self._fail(end)), None
        try:
            name = msgspec.json.decode("".join(self._quoted), type=str)
        except ValueError:
            name = ""
        self._quoted = []
        return end, name

    def _commit(self, out: Out) -> None:
        if self._name and not self._open:
            self._open = True
            self.state = "call"
            out.open(self._name)
            out.arguments("".join(self._early))

    def _end_object(self, at: int, out: Out) -> int:
        if self._nested:
            self._nested -= 1
            self._step = self._after
            return at
        if self._bare and self._name in self._tool_names:
            self._commit(out)
        if not self._open:
            return self._fail(at)
        out.close()
        self._reset()
        self._step = self._between
        if not self._listed:
            self.state = "done"
        return at

    def _fail(self, at: int) -> int:
        """No call, or no longer one: what to do with the rest is known to the reader around us."""
        self.broken = self._open
        self.state = "prose" if self.state == "undecided" else "done"
        return at
