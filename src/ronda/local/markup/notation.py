"""A tool's arguments in a model's own notation → the rules of a grammar, spelled as the model's template spells them.

JSON inside a call is llguidance's own business (`%json`). Here is what it does not know: Gemma's bare keys, in their order, and
quotes that are tokens; keyword arguments in Python; tags around texts without quotes. Numbers are JSON everywhere, and objects
and lists inside a tag.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final, Literal

from msgspec import Struct

from ronda.local.grammar import schema_of
from ronda.local.grammar.patterns import analyse
from ronda.local.grammar.shapes import (
    Array,
    Never,
    Number,
    Object,
    Shape,
    String,
    Union,
    Unsupported,
    Values,
    decode,
    encode,
)
from ronda.local.markup.lark import Lark, alternatives, literal
from ronda.local.markup.literals import QUOTES

_KEY: Final = r"/[A-Za-z_][A-Za-z0-9_]{0,30}/"
_MANY: Final = 1000
_SLASH: Final = re.compile(r"(?<!\\)/")
_ESCAPED: Final = r"\\/"


def keywords(lark: Lark, shape: Shape) -> str:
    """`a="x", n=1, f=true`: the arguments of a call in Python, each written as JSON."""
    return _keywords(lark, shape, lambda value: _json(lark, value))


def literals(lark: Lark, shape: Shape) -> str:
    """`a='x', n=1, f=True`: all of it as Python writes it."""
    return _keywords(lark, shape, _Python(lark).argument)


def _keywords(lark: Lark, shape: Shape, of: Callable[[Shape], str]) -> str:
    def write(one: Object) -> str:
        members = [(f"{literal(f'{name}=')} {of(value)}", need) for name, value, need in _properties(one)]
        if members or not one.patterns:
            return lark.members(members, ", ")
        pair = lark.rule(f'{lark.terminal(_KEY)} "=" {of(one.patterns[0][1])}')
        return lark.items([], pair, 0, _limit(one.most), ", ")

    return _each_object(shape, write)


class TagForm(Struct, frozen=True):
    """How one argument is written: what is before its value, with {} for the key, and after it.

    {text} stands for whether the value is a text, {kind} for its type. `words` says how what is no text is written: as JSON, as
    JSON but for Python's True, False and None, or all of it as Python does.
    """

    before: str
    after: str
    words: Literal["json", "words", "python"]

    def write(self, lark: Lark, shape: Shape) -> str:
        return _each_object(shape, lambda one: self._write(lark, one))

    def _write(self, lark: Lark, one: Object) -> str:
        if one.patterns and not _properties(one):
            begin, _, end = self.before.partition("{}")
            tag = f"{literal(begin)} {lark.terminal(_KEY)} {self._value(lark, end, one.patterns[0][1])}"
            return f"{lark.rule(tag)}{{0,{_limit(one.most)}}}"
        members = [
            (self._value(lark, self.before.replace("{}", name), value), need) for name, value, need in _properties(one)
        ]
        return lark.members(members, "")

    def _value(self, lark: Lark, before: str, value: Shape) -> str:
        """The rest of the tag, the value and its end."""
        if isinstance(value, Union):
            return alternatives(lark.rule(self._value(lark, before, option)) for option in value.options)
        if isinstance(value, Values):
            each = [decode(text) for text in value.texts]
            return alternatives(literal(self._tag(before, _kind(one)) + self._word(one) + self.after) for one in each)
        kinds: dict[type[Any], str] = {String: "string", Object: "object", Array: "array"}
        tag = literal(self._tag(before, kinds.get(type(value), "number")))
        if isinstance(value, String):
            # The text ends where its tag does, and not before: a regular expression that stops as soon as it can.
            return f"{tag} {lark.rule(lark.terminal(f'{_content(lark, value)} {literal(self.after)}'), 'lazy')}"
        written = _Python(lark).value(value) if self.words == "python" else _json(lark, value)
        return f"{tag} {written} {literal(self.after)}"

    @staticmethod
    def _tag(before: str, kind: str) -> str:
        return before.replace("{text}", "true" if kind == "string" else "false").replace("{kind}", kind)

    def _word(self, value: Any) -> str:
        if isinstance(value, str):
            return value
        if self.words == "python" or (self.words == "words" and not isinstance(value, (dict, list))):
            return repr(value)
        return encode(value).decode()


def _kind(value: Any) -> str:
    match value:
        case str():
            return "string"
        case bool():
            return "boolean"
        case None:
            return "null"
        case dict():
            return "object"
        case list():
            return "array"
        case _:
            return "number"


# `<parameter=a>\nx\n</parameter>\n`, as Qwen3-Coder writes them.
tags: Final = TagForm("<parameter={}>\n", "\n</parameter>\n", "words").write


def _json(lark: Lark, value: Shape) -> str:
    return lark.json(schema_of(value))


def _limit(most: int | None) -> int:
    return most if most is not None else _MANY


def gemma(lark: Lark, shape: Shape) -> str:
    """`{a:<|"|>x<|"|>,n:1}`"""
    return _Gemma(lark, QUOTES["gemma"]).value(shape)


def function_gemma(lark: Lark, shape: Shape) -> str:
    """`{a:<escape>x<escape>,n:1}`"""
    return _Gemma(lark, QUOTES["function_gemma"]).value(shape)


class _Gemma:
    def __init__(self, lark: Lark, quote: str) -> None:
        self._lark = lark
        self._quote = quote

    def value(self, shape: Shape) -> str:
        match shape:
            case Values(texts):
                return alternatives(self._lark.text(self._literal(decode(text))) for text in texts)
            case String():
                return self._string(shape)
            case Array():
                return self._array(shape)
            case Object():
                return self._object(shape)
            case Union(options):
                return alternatives(self.value(option) for option in options)
            case Number():
                return self._lark.json(schema_of(shape))
            case _:
                raise Unsupported("a shape that was not fitted")

    def _string(self, shape: String) -> str:
        quote = self._lark.text(self._quote)
        content = _content(self._lark, shape)
        if self._lark.is_token(self._quote):
            return f"{quote} {self._lark.rule(content)} {quote}"
        return f"{quote} {self._lark.rule(self._lark.terminal(f'{content} {quote}'), 'lazy')}"

    def _array(self, shape: Array) -> str:
        first = [self._lark.rule(self.value(one)) for one in shape.first]
        rest = "" if isinstance(shape.rest, Never) else self._lark.rule(self.value(shape.rest))
        inner = self._lark.items(first, rest, shape.least, _limit(shape.most), ",")
        return f'"[" {inner} "]"' if inner else '"[]"'

    def _object(self, shape: Object) -> str:
        properties = sorted(_properties(shape), key=lambda one: one[0].lower())  # as the template's `dictsort` does
        members = [(f"{literal(f'{name}:')} {self.value(value)}", need) for name, value, need in properties]
        if members or not shape.patterns:
            inner = self._lark.members(members, ",")
            return f'"{{" {inner} "}}"' if inner else '"{}"'
        pair = self._lark.rule(f'{self._lark.terminal(_KEY)} ":" {self.value(shape.patterns[0][1])}')
        inner = self._lark.items([], pair, 0, _limit(shape.most), ",")
        return f'"{{" {inner} "}}"'

    def _literal(self, value: Any) -> str:
        match value:
            case str():
                return f"{self._quote}{value}{self._quote}"
            case dict():
                pairs = sorted(value.items(), key=lambda one: one[0].lower())
                return "{" + ",".join(f"{key}:{self._literal(one)}" for key, one in pairs) + "}"
            case list():
                return "[" + ",".join(map(self._literal, value)) + "]"
            case bool():
                return "true" if value else "false"
            case None:
                return "null"
            case _:
                return str(value)


class _Python:
    """`'x'`, `True`, `['a', 1]`, `{'b': None}`; an argument that is an object by itself is JSON, which is Python too."""

    def __init__(self, lark: Lark) -> None:
        self._lark = lark

    def argument(self, shape: Shape) -> str:
        match shape:
            case Object():
                return _json(self._lark, shape)
            case Union(options):
                return alternatives(self.argument(option) for option in options)
            case _:
                return self.value(shape)

    def value(self, shape: Shape) -> str:
        match shape:
            case Values(texts):
                return alternatives(literal(repr(decode(text))) for text in texts)
            case String():
                return self._lark.rule(self._lark.terminal(f'"\'" {self._text(shape)} "\'"'))
            case Array():
                first = [self._lark.rule(self.value(one)) for one in shape.first]
                rest = "" if isinstance(shape.rest, Never) else self._lark.rule(self.value(shape.rest))
                inner = self._lark.items(first, rest, shape.least, _limit(shape.most), ", ")
                return f'"[" {inner} "]"' if inner else '"[]"'
            case Union(options):
                return alternatives(self.value(option) for option in options)
            case Object():
                return self._object(shape)
            case Number():
                return _json(self._lark, shape)
            case _:
                raise Unsupported("a shape that was not fitted")

    def _object(self, shape: Object) -> str:
        properties = _properties(shape)
        members = [(f"{literal(f'{name!r}: ')} {self.value(value)}", need) for name, value, need in properties]
        inner = self._lark.members(members, ", ")
        if not members and shape.patterns:
            key = self._lark.terminal(f'"\'" {_KEY} "\'"')
            pair = self._lark.rule(f'{key} ": " {self.value(shape.patterns[0][1])}')
            inner = self._lark.items([], pair, 0, _limit(shape.most), ", ")
        return f'"{{" {inner} "}}"' if inner else '"{}"'

    def _text(self, shape: String) -> str:
        """Without the quote itself, and without what would escape it: templates escape nothing."""
        return self._lark.terminal(f"{_content(self._lark, shape)} & /[^'\\\\\\n]*/")


def _properties(shape: Object) -> list[tuple[str, Shape, bool]]:
    return [(one.name, one.shape, one.required) for one in shape.properties if not isinstance(one.shape, Never)]


def _each_object(shape: Shape, write: Callable[[Object], str]) -> str:
    """The arguments are an object, or one of several."""
    if isinstance(shape, Object):
        return write(shape)
    options = [one for one in shape.options if isinstance(one, (Object, Union))] if isinstance(shape, Union) else []
    if not options:
        raise Unsupported("arguments that are not an object", "")
    inner = [_each_object(option, write) for option in options]
    whole = alternatives(one for one in inner if one) if any(inner) else ""
    return f"({whole})?" if whole and not all(inner) else whole


def _content(lark: Lark, shape: String) -> str:
    """A text without quotes, as a terminal."""
    kinds = []
    for pattern in shape.patterns:
        whole = analyse(pattern).whole
        if whole is None:
            raise Unsupported("pattern: its anchors cannot be enforced in a text without quotes")
        kinds.append(f"/{_SLASH.sub(_ESCAPED, whole)}/")
    if shape.room is None:
        if shape.least or shape.most is not None or not kinds:
            kinds.append(f"/(?s:.{{{shape.least},{'' if shape.most is None else shape.most}}})/")
        return lark.terminal(" & ".join(kinds))
    # A character takes up to four bytes.
    wide, narrow = (min(room, _limit(shape.most)) for room in (shape.room // 4, shape.room))
    any_text, ascii_text = f"(?s:.{{{shape.least},{wide}}})", f"[\\t\\n -~]{{{shape.least},{narrow}}}"
    if wide < shape.least:
        any_text = ascii_text
    elif wide != shape.most:
        any_text = f"(?:{any_text}|{ascii_text})"
    return lark.terminal(" & ".join([*kinds, f"/{any_text}/"]))
