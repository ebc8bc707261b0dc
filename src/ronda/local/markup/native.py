"""A call in Gemma's words or in Python → its name, and its arguments as JSON while they arrive."""

from __future__ import annotations

from ronda.local.markup.calls import BLANKS, MAX_NAME, JsonCalls, State
from ronda.local.markup.literals import LiteralNotation, Literals
from ronda.local.markup.output import Out

_IN_NAME = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-/:")


class NativeCalls:
    """`call:name{…}` for Gemma and FunctionGemma; `[name(…), name(…)]` for LFM2; one `name(…)` where Llama writes Python.

    A `bare` one has no marker before it, and must name a tool.
    """

    def __init__(self, notation: LiteralNotation, tool_names: frozenset[str], *, bare: bool = False) -> None:
        self.state: State = "undecided"
        self.begun = False
        self.broken = False
        self._notation = notation
        self._is_gemma = notation != "python"
        self._listed = False
        self._name: list[str] = []
        self._literals: Literals | None = None
        self._json: JsonCalls | None = None  # LFM2 can be told to write its calls as JSON
        self._tool_names = tool_names
        self._bare = bare

    def read(self, text: str, at: int, out: Out) -> int:
        while at < len(text) and self.state in ("undecided", "call"):
            if self._json is not None:
                return self._read_json(text, at, out)
            before = at
            if self._literals is not None:
                at = self._read_literals(self._literals, text, at, out)
            elif not self._name and (blanks := BLANKS.match(text, at)):
                at = blanks.end()
            else:
                self.begun = True
                at = self._read_name(text, at, out)
            if at == before:
                break
        return at

    def end(self, out: Out) -> None:
        if self._json is not None:
            self._json.end(out)

    def _read_json(self, text: str, at: int, out: Out) -> int:
        assert self._json is not None
        at = self._json.read(text, at, out)
        self.state, self.broken = self._json.state, self._json.broken
        return at

    def _read_literals(self, literals: Literals, text: str, at: int, out: Out) -> int:
        at = literals.read(text, at)
        out.arguments(literals.take())
        if literals.complete:
            out.close()
            self._literals = None
            if not self._listed:
                self.state = "done"
        elif literals.broken:
            self.broken = True
            self.state = "done"
        return at

    def _read_name(self, text: str, at: int, out: Out) -> int:
        char = text[at]
        if char in _IN_NAME:
            self._name.append(char)
            return at + 1 if len(self._name) <= MAX_NAME else self._stop(at)
        if char == ("{" if self._is_gemma else "("):
            return self._open(at, out)
        if self._name or self._is_gemma:
            return self._stop(at)
        if char == "{":
            self._json = JsonCalls(self._tool_names, bare=self._bare)
            if self._listed:
                self._json.read("[", 0, out)
        elif char == "[" and not self._listed:
            self._listed = True
            return at + 1
        elif char == "," and self._listed:
            return at + 1
        elif char == "]" and self.state == "call":
            self.state = "done"
            return at + 1
        else:
            return self._stop(at)
        return self._read_json(text, at, out)

    def _open(self, at: int, out: Out) -> int:
        name = "".join(self._name)
        name = name.removeprefix("call:") if self._is_gemma else name.removesuffix(".call")
        if not name or (self._bare and self.state == "undecided" and name not in self._tool_names):
            return self._stop(at)
        self._name = []
        out.open(name)
        self.state = "call"
        self._literals = Literals(self._notation)
        return at + 1

    def _stop(self, at: int) -> int:
        self.state = "prose" if self.state == "undecided" else "done"
        return at
