"""A name and its arguments as JSON → the call, as it arrives.

`name[ARGS]{…}` from Mistral, `functions.name:0<|tool_call_argument_begin|>{…}` from Kimi, `name<｜tool▁sep｜>{…}` from DeepSeek.
An engine that hides special tokens leaves `name{…}`. Where there is no name, it may be a JSON list of calls, as Mistral wrote up
to 2024.
"""

from __future__ import annotations

import re
from typing import Final

from ronda.local.markup.calls import BLANKS, MAX_NAME, JsonCalls, Span, State
from ronda.local.markup.output import Out
from ronda.local.markup.wrapper import Named

_NAME: Final = re.compile(r"[^\s\[{<>`]+")
_CALL_ID: Final = re.compile(r"\[CALL_ID\][^\[{]*(?=[\[{])")
_HALF_CALL_ID: Final = re.compile(r"\[(?:C(?:A(?:L(?:L(?:_(?:I(?:D(?:\][^\[{]{0,64})?)?)?)?)?)?)?)?\Z")
_NUMBER: Final = re.compile(r":\d+\Z")


class NamedCall:
    def __init__(self, notation: Named, tool_names: frozenset[str]) -> None:
        self.state: State = "undecided"
        self.begun = False
        self.broken = False
        self._notation = notation
        self._tool_names = tool_names
        self._json: JsonCalls | None = None
        self._name: list[str] = []
        self._is_named = False  # the name ended: nothing more belongs to it
        self._is_kind = False  # what was read so far may have been the kind of the call
        self._span: Span | None = None

    def read(self, text: str, at: int, out: Out) -> int:
        while at < len(text) and self.state in ("undecided", "call"):
            if self._json is not None:
                at = self._json.read(text, at, out)
                self.state, self.broken = self._json.state, self._json.broken
                break
            if self._span is not None:
                at = self._arguments(self._span, text, at, out)
            elif blanks := BLANKS.match(text, at):
                self._is_named = bool(self._name)
                at = blanks.end()
            else:
                self.begun = True
                before, at = at, self._header(text, at, out)
                if at == before and self.state == "undecided" and self._json is None:
                    break
        return at

    def end(self, out: Out) -> None:
        if self._json is not None:
            self._json.end(out)

    def _header(self, text: str, at: int, out: Out) -> int:
        if text[at] in "[{" and not self._name:
            self._json = JsonCalls(self._tool_names)
            return at
        if text[at] == "{":
            out.open(self._whole_name())
            self.state = "call"
            self._span = Span()
            return at
        rest = text[at:]
        if any(len(mark) > len(rest) and mark.startswith(rest) for mark in self._notation.marks):
            return at
        if mark := next((mark for mark in self._notation.marks if text.startswith(mark, at)), None):
            self._is_named = True
            self._is_kind = self._is_kind or mark in self._notation.kinds
            return at + len(mark)
        if call_id := _CALL_ID.match(text, at):
            self._is_named = True
            return call_id.end()
        return at if _HALF_CALL_ID.match(text, at) else self._more_name(text, at)

    def _more_name(self, text: str, at: int) -> int:
        name = _NAME.match(text, at)
        if self._is_kind and name is not None:
            self._name, self._is_kind, self._is_named = [], False, False
        if name is None or self._is_named or len(name[0]) + sum(map(len, self._name)) > MAX_NAME:
            return self._stop(at)
        self._name.append(name[0])
        return name.end()

    def _whole_name(self) -> str:
        name = "".join(self._name)
        return _NUMBER.sub("", name).removeprefix("functions.") if self._notation.numbered else name

    def _arguments(self, span: Span, text: str, at: int, out: Out) -> int:
        end = span.read(text, at)
        out.arguments(text[at:end])
        if span.complete:
            out.close()
            self.state = "done"
        return end

    def _stop(self, at: int) -> int:
        self.state = "prose" if self.state == "undecided" else "done"
        return at
