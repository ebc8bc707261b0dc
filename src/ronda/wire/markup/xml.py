"""A call as Qwen3-Coder writes it → its name, and its arguments as JSON while they arrive.

    <function=name>
    <parameter=key>
    value
    </parameter>
    </function>

A value is written without quotes or escapes, so that only the tool's schema can tell a text from a number. Where the schema
says text, it is passed on as it grows; anything else is read as JSON when it ended, and as text if it is none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final, TypeAlias

import msgspec

from ronda.core.plan import ToolSpec
from ronda.wire.markup.calls import BLANKS, MAX_NAME, JsonCalls, State
from ronda.wire.markup.literals import escape_piece, overlap, word
from ronda.wire.markup.output import Out

FUNCTION: Final = "<function="
END_FUNCTION: Final = "</function>"
PARAMETER: Final = "<parameter="
END_PARAMETER: Final = "</parameter>"

_Step: TypeAlias = Callable[[str, int, Out], int]
Types: TypeAlias = dict[tuple[str, str], frozenset[str]]  # (tool, parameter) → the JSON types its schema allows

_TEXT: Final = frozenset({"string"})
_NAMES: Final = {str: "string", bool: "boolean", int: "integer", float: "number", type(None): "null"}


def types_of(tools: Iterable[ToolSpec]) -> Types:
    """What the tools' schemas say about the types of their parameters; nothing where they say it in a roundabout way."""
    found: Types = {}
    for tool in tools:
        schema = msgspec.json.decode(tool.parameters)
        properties = schema.get("properties") if isinstance(schema, dict) else None
        if isinstance(properties, dict):
            found.update({(tool.name, key): _types(value) for key, value in properties.items()})
    return found


def _types(schema: Any) -> frozenset[str]:
    if not isinstance(schema, dict):
        return frozenset()
    if isinstance(schema.get("type"), str):
        return frozenset({schema["type"]})
    if isinstance(schema.get("type"), list):
        return frozenset(str(name) for name in schema["type"])
    values = schema["enum"] if isinstance(schema.get("enum"), list) else [schema["const"]] if "const" in schema else []
    if values:
        return frozenset(_NAMES.get(type(value), "object") for value in values)
    options = schema.get("anyOf", schema.get("oneOf"))
    if isinstance(options, list) and options:
        each = [_types(option) for option in options]
        return frozenset().union(*each) if all(each) else frozenset()
    return frozenset()


class XmlCalls:
    def __init__(self, tool_names: frozenset[str], types: Types) -> None:
        self.state: State = "undecided"
        self.begun = False
        self.broken = False
        self._tool_names = tool_names
        self._types = types
        self._json: JsonCalls | None = None  # for a model that was shown one form and writes the other
        self._step: _Step = self._before
        self._name = self._key = ""
        self._first = True  # no parameter yet
        self._value: list[str] = []
        self._streams = False  # the value is text, and passed on as it grows

    def read(self, text: str, at: int, out: Out) -> int:
        while at < len(text) and self.state in ("undecided", "call"):
            if self._json is not None:
                at = self._json.read(text, at, out)
                self.state, self.broken = self._json.state, self._json.broken
                break
            before, step = at, self._step
            if self._step in (self._before, self._inside, self._between) and (blanks := BLANKS.match(text, at)):
                at = blanks.end()
            else:
                self.begun = True
                at = self._step(text, at, out)
            if at == before and step == self._step and self._json is None:
                break
        return at

    def end(self, out: Out) -> None:
        if self._json is not None:
            self._json.end(out)

    # ---- steps ----------------------------------------------------------------------------------------------------------

    def _before(self, text: str, at: int, out: Out) -> int:
        if text[at] == "{" and self.state == "undecided":
            self._json = JsonCalls(self._tool_names)
            return at
        if text.startswith(FUNCTION, at):
            self._step = self._function
            return at + len(FUNCTION)
        return at if FUNCTION.startswith(text[at:]) else self._fail(at)

    def _function(self, text: str, at: int, out: Out) -> int:
        end, name = self._tag(text, at)
        if name is not None and self.state != "prose":
            self._name = name
            self._first = True
            self.state = "call"
            out.open(name)
            out.arguments("{")
            self._step = self._inside
        return end

    def _inside(self, text: str, at: int, out: Out) -> int:
        if text.startswith(PARAMETER, at):
            self._step = self._parameter
            return at + len(PARAMETER)
        if text.startswith(END_FUNCTION, at):
            out.arguments("}")
            out.close()
            self._name = ""
            self._step = self._between
            return at + len(END_FUNCTION)
        rest = text[at:]
        return at if PARAMETER.startswith(rest) or END_FUNCTION.startswith(rest) else self._fail(at)

    def _parameter(self, text: str, at: int, out: Out) -> int:
        end, key = self._tag(text, at)
        if key is not None:
            self._key = key
            self._streams = self._types.get((self._name, key)) == _TEXT
            out.arguments(("" if self._first else ", ") + f'"{escape_piece(key)}": ' + ('"' if self._streams else ""))
            self._first = False
            self._step = self._newline
        return end

    def _newline(self, text: str, at: int, out: Out) -> int:
        self._step = self._content
        return at + (text[at] == "\n")

    def _content(self, text: str, at: int, out: Out) -> int:
        end = text.find(END_PARAMETER, at)
        if end < 0:
            tail = overlap(text, ("\n" + END_PARAMETER, END_PARAMETER), at)
            self._put(text[at : len(text) - tail], out)
            return len(text) - tail
        self._put(text[at:end].removesuffix("\n"), out)
        if self._streams:
            out.arguments('"')
        else:
            out.arguments(self._typed("".join(self._value)))
        self._value = []
        self._step = self._inside
        return end + len(END_PARAMETER)

    def _between(self, text: str, at: int, out: Out) -> int:
        if text.startswith(FUNCTION, at):
            self._step = self._before
        elif not FUNCTION.startswith(text[at:]):
            self.state = "done"
        return at

    # ---- what they have in common ---------------------------------------------------------------------------------------

    def _tag(self, text: str, at: int) -> tuple[int, str | None]:
        """What stands before the next `>`, if that is there already."""
        end = text.find(">", at)
        if end < 0 or end - at > MAX_NAME:
            return (at, None) if len(text) - at <= MAX_NAME else (self._fail(at), None)
        name = text[at:end].strip().strip("\"'")
        return (end + 1, name) if name and "\n" not in name else (self._fail(at), None)

    def _put(self, piece: str, out: Out) -> None:
        if self._streams:
            out.arguments(escape_piece(piece))
        elif piece:
            self._value.append(piece)

    def _typed(self, text: str) -> str:
        types = self._types.get((self._name, self._key), frozenset())
        stripped = text.strip()
        try:
            value = msgspec.json.decode(stripped)
        except (ValueError, RecursionError):
            constant = word(stripped)
            return constant if constant in ("true", "false", "null") else f'"{escape_piece(text)}"'
        kind = "array" if type(value) is list else _NAMES.get(type(value), "object")
        if "string" in types and kind not in types and not (kind == "integer" and "number" in types):
            return f'"{escape_piece(text)}"'
        return stripped

    def _fail(self, at: int) -> int:
        self.broken = self._name != ""
        self.state = "prose" if self.state == "undecided" else "done"
        return at
