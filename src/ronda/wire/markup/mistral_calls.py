"""A call as Mistral writes it → its name, and its arguments as they arrive.

`[TOOL_CALLS]` is followed by `name[ARGS]{…}`, by `name[CALL_ID]…[ARGS]{…}`, or, up to 2024, by a JSON list of calls.
An engine that hides special tokens leaves `name{…}`.
"""

from __future__ import annotations

import re
from typing import Final

from ronda.wire.markup.calls import BLANKS, MAX_NAME, JsonCalls, Span, State
from ronda.wire.markup.output import Out

ARGS: Final = "[ARGS]"
_NAME: Final = re.compile(r"[^\s\[{]+")
_CALL_ID: Final = re.compile(r"\[CALL_ID\][^\[{]*(?=[\[{])")
_HALF: Final = re.compile(r"\[(?:[A-Z_]{0,7}|CALL_ID\][^\[{]{0,64})\Z")


class NamedCall:
    def __init__(self, tool_names: frozenset[str]) -> None:
        self.state: State = "undecided"
        self.begun = False
        self.broken = False
        self._tool_names = tool_names
        self._json: JsonCalls | None = None
        self._name: list[str] = []
        self._is_named = False  # the name ended: nothing more belongs to it
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
            out.open("".join(self._name))
            self.state = "call"
            self._span = Span()
            return at
        if text[at] == "[":
            self._is_named = True
            if text.startswith(ARGS, at):
                return at + len(ARGS)
            if call_id := _CALL_ID.match(text, at):
                return call_id.end()
            return at if _HALF.match(text, at) else self._stop(at)
        name = _NAME.match(text, at)
        if name is None or self._is_named or len(name[0]) + sum(map(len, self._name)) > MAX_NAME:
            return self._stop(at)
        self._name.append(name[0])
        return name.end()

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
