"""A call in tags → its name, and its arguments as JSON while they arrive.

    <function=name>                             <tool_call>name
    <parameter=key>                             <arg_key>key</arg_key>
    value                                       <arg_value>value</arg_value>
    </parameter>                                </tool_call>
    </function>

A value is written without quotes or escapes, so that only the tool's schema can tell a text from a number, or an attribute of
its tag (`string="true"`). Where it is text, it is passed on as it grows; anything else is read as JSON when it ended, or as
Python writes it, and as text if it is neither.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any, Final, TypeAlias

import msgspec

from ronda.core.plan import ToolSpec
from ronda.local.markup.calls import BLANKS, MAX_NAME, JsonCalls, State
from ronda.local.markup.literals import escape_piece, overlap, python_value, word
from ronda.local.markup.output import Out
from ronda.local.markup.wrapper import Tags

_Step: TypeAlias = Callable[[str, int, Out], int]
Types: TypeAlias = dict[tuple[str, str], frozenset[str]]  # (tool, parameter) → the JSON types its schema allows

_TEXT: Final = frozenset({"string"})
_NAMES: Final = {str: "string", bool: "boolean", int: "integer", float: "number", type(None): "null"}
_CDATA: Final = ("<![CDATA[", "]]>")
_NAME: Final = re.compile(r"[\w.\-/:]+")  # one that has no tag around it
_ATTRIBUTE: Final = re.compile(r"""\bname\s*=\s*(?:"([^"]*)"|'([^']*)'|([^\s"'>]+))""")
_FIRST_ATTRIBUTE: Final = re.compile(r"""\w+\s*=\s*(?:"([^"]*)"|'([^']*)')""")
_BEFORE_ATTRIBUTES: Final = re.compile(r"""["']?([^\s"'=]+)["']?\s+\w+\s*=\s*["']""")
# What a tag says of the type of its value: `string="true"` from DeepSeek, `type="string"` from Kimi K3.
_IS_TEXT: Final = re.compile(
    r"""\b(?:string\s*=\s*["']?(true|false)|type\s*=\s*["']?(string|number|integer|boolean|null|object|array)\b)"""
)


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


class TagCalls:
    """`begun`: what opened the wrapper was the beginning of the call's own tag."""

    def __init__(self, tags: Tags, tool_names: frozenset[str], types: Types, *, begun: bool = False) -> None:
        self.state: State = "undecided"
        self.begun = begun
        self.broken = False
        self._tags = tags
        self._tool_names = tool_names
        self._types = types
        self._has_no_wrapper = begun  # so that it may be text that speaks of such a tag
        self._json: JsonCalls | None = None  # for a model that was shown one form and writes the other
        self._step: _Step = self._function if begun else self._before if tags.call else self._bare_name
        # A value whose end was forgotten ends where the next begins, or the call.
        self._usual_ends = (tags.end_argument, f"\n{tags.argument}", f"\n{tags.end_call}")
        self._ends: tuple[str, ...] = self._usual_ends  # of the value that is being read
        self._trims_end = tags.trims
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
            if self._step in self._between_tags and (blanks := BLANKS.match(text, at)):
                at = blanks.end()
            else:
                self.begun = True
                at = self._step(text, at, out)
            if at == before and step == self._step and self._json is None:
                break
        return at

    @property
    def _between_tags(self) -> tuple[_Step, ...]:
        return (self._before, self._confirm, self._inside, self._value_tag, self._between)

    def end(self, out: Out) -> None:
        if self._json is not None:
            self._json.end(out)

    # ---- steps: the name ------------------------------------------------------------------------------------------------

    def _before(self, text: str, at: int, out: Out) -> int:
        if text[at] in "{[" and self.state == "undecided":
            self._json = JsonCalls(self._tool_names)
            return at
        if text.startswith(self._tags.call, at):
            self._step = self._function
            return at + len(self._tags.call)
        return at if self._tags.call.startswith(text[at:]) else self._fail(at)

    def _function(self, text: str, at: int, out: Out) -> int:
        end, tag = self._tag(text, at, ">")
        if tag is not None and self.state != "prose":
            self._name = _name_in(tag)
            if self.state == "undecided" and self._has_no_wrapper:
                self._step = self._confirm
            else:
                self._open(self._name, out)
        return end

    def _bare_name(self, text: str, at: int, out: Out) -> int:
        """The name follows the opener: all of it must have come, and something that may follow a name."""
        if (blanks := BLANKS.match(text, at)) and not self._name:
            return blanks.end()
        if text[at] in "{[" and not self._name:
            self._json = JsonCalls(self._tool_names)
            return at
        name = _NAME.match(text, at)
        self._name += name[0] if name is not None else ""
        if not self._name or len(self._name) > MAX_NAME:
            self._name = ""
            return self._fail(at)
        if name is None:
            self._step = self._confirm
            return at
        return name.end()

    def _confirm(self, text: str, at: int, out: Out) -> int:
        tags = self._tags
        follow = tuple(filter(None, (tags.argument, tags.end_call, tags.separator)))
        if text.startswith(follow, at):
            self._open(self._name, out)
            return at
        if any(tag.startswith(text[at:]) for tag in follow):
            return at
        self._name = ""
        return self._fail(at)

    def _open(self, name: str, out: Out) -> None:
        self._name = name
        self._first = True
        self.state = "call"
        out.open(name)
        out.arguments("{")
        self._step = self._inside

    # ---- steps: arguments -----------------------------------------------------------------------------------------------

    def _inside(self, text: str, at: int, out: Out) -> int:
        tags = self._tags
        if text.startswith(tags.argument, at):
            self._step = self._parameter
            return at + len(tags.argument)
        if text.startswith(tags.end_call, at):
            out.arguments("}")
            out.close()
            self._name = ""
            self._step = self._between
            if not tags.call:
                self.state = "done"
            return at + len(tags.end_call)
        if tags.separator and text.startswith(tags.separator, at):
            return at + len(tags.separator)
        rest = text[at:]
        if any(tag.startswith(rest) for tag in (tags.argument, tags.end_call, tags.separator) if tag):
            return at
        return self._fail(at)

    def _parameter(self, text: str, at: int, out: Out) -> int:
        end, tag = self._tag(text, at, self._tags.end_key)
        if tag is not None:
            self._key = tag if self._tags.value else _name_in(tag)
            text_mark = _IS_TEXT.search(tag) if not self._tags.value else None
            is_text = self._types.get((self._name, self._key)) == _TEXT
            self._streams = is_text if text_mark is None else text_mark[1] == "true" or text_mark[2] == "string"
            out.arguments(("" if self._first else ", ") + f'"{escape_piece(self._key)}": ')
            out.arguments('"' if self._streams else "")
            self._first = False
            self._step = self._value_tag if self._tags.value else self._newline
        return end

    def _value_tag(self, text: str, at: int, out: Out) -> int:
        if text.startswith(self._tags.value, at):
            self._step = self._newline
            return at + len(self._tags.value)
        return at if self._tags.value.startswith(text[at:]) else self._fail(at)

    def _newline(self, text: str, at: int, out: Out) -> int:
        tags = self._tags
        opening, closing = _CDATA
        if tags.cdata and not text.startswith(opening, at) and opening.startswith(text[at:]):
            return at
        self._step = self._content
        if tags.cdata and text.startswith(opening, at):
            self._ends, self._trims_end = (closing + tags.end_argument,), False
            return at + len(opening)
        has_newline = text[at] == "\n"
        self._ends, self._trims_end = self._usual_ends, tags.trims and (has_newline or not tags.pairs)
        return at + (tags.trims and has_newline)

    def _content(self, text: str, at: int, out: Out) -> int:
        found = min(((place, end) for end in self._ends if (place := text.find(end, at)) >= 0), default=None)
        newline = "\n" if self._trims_end else ""
        if found is None:
            tail = overlap(text, (newline + self._tags.end_argument, *self._ends), at)
            self._put(text[at : len(text) - tail], out)
            return len(text) - tail
        place, end = found
        value = text[at:place]
        self._put(value.removesuffix(newline), out)
        if self._streams:
            out.arguments('"')
        else:
            out.arguments(self._typed("".join(self._value)))
        self._value = []
        self._step = self._inside
        return place + len(end) if end.endswith(self._tags.end_argument) else place

    def _between(self, text: str, at: int, out: Out) -> int:
        if text.startswith(self._tags.call, at):
            self._step = self._before
        elif not self._tags.call.startswith(text[at:]):
            self.state = "done"
        return at

    # ---- what they have in common ---------------------------------------------------------------------------------------

    def _tag(self, text: str, at: int, closing: str) -> tuple[int, str | None]:
        """What stands before the end of a tag, if that is there already."""
        end = text.find(closing, at)
        if end < 0 or end - at > MAX_NAME:
            return (at, None) if len(text) - at <= MAX_NAME + len(closing) else (self._fail(at), None)
        tag = text[at:end]
        return (end + len(closing), tag.strip()) if tag.strip() and "\n" not in tag else (self._fail(at), None)

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
            if constant in ("true", "false", "null"):
                return constant
            return (python_value(stripped) if types != _TEXT else None) or f'"{escape_piece(text)}"'
        kind = "array" if type(value) is list else _NAMES.get(type(value), "object")
        if "string" in types and kind not in types and not (kind == "integer" and "number" in types):
            return f'"{escape_piece(text)}"'
        return stripped

    def _fail(self, at: int) -> int:
        self.broken = self._name != ""
        self.state = "prose" if self.state == "undecided" else "done"
        return at


def _name_in(tag: str) -> str:
    """The name a tag says: in an attribute, in the first if none is called so, or as what stands before attributes."""
    if found := _ATTRIBUTE.search(tag):
        return found[1] or found[2] or found[3] or ""
    if found := _FIRST_ATTRIBUTE.match(tag):
        return found[1] or found[2] or ""
    if found := _BEFORE_ATTRIBUTES.match(tag):
        return found[1]
    return tag.strip("\"'= ")
