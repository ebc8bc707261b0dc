"""A tool's arguments in a model's own notation → the rules of a grammar.

JSON inside a call is llguidance's own business (`%json`). Here is what it does not know: Gemma's bare keys and quotes that are
tokens, LFM2's keyword arguments, Qwen3-Coder's tags around texts without quotes. Numbers, and in the last two everything that
is not a text by itself, are JSON there too.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final

from ronda.schema.grammar import schema_of
from ronda.schema.grammar.patterns import analyse
from ronda.schema.grammar.shapes import (
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
)
from ronda.wire.markup.lark import Lark, alternatives, literal
from ronda.wire.markup.literals import GEMMA_QUOTE
from ronda.wire.markup.xml import END_PARAMETER, PARAMETER

_KEY: Final = r"/[A-Za-z_][A-Za-z0-9_]{0,30}/"
_MANY: Final = 1000
_SLASH: Final = re.compile(r"(?<!\\)/")
_ESCAPED: Final = r"\\/"


def keywords(lark: Lark, shape: Shape) -> str:
    """`a="x", n=1`: the arguments of a call in Python."""

    def write(one: Object) -> str:
        members = [(f"{literal(f'{name}=')} {_json(lark, value)}", need) for name, value, need in _properties(one)]
        if members or not one.patterns:
            return lark.members(members, ", ")
        pair = lark.rule(f'{lark.terminal(_KEY)} "=" {_json(lark, one.patterns[0][1])}')
        return lark.items([], pair, 0, _limit(one.most), ", ")

    return _each_object(shape, write)


def tags(lark: Lark, shape: Shape) -> str:
    """`<parameter=a>\\nx\\n</parameter>\\n`: one after the other."""

    def write(one: Object) -> str:
        members = [
            (f"{literal(f'{PARAMETER}{name}>')} {_tag_value(lark, value)}", need)
            for name, value, need in _properties(one)
        ]
        if members or not one.patterns:
            return lark.members(members, "")
        tag = lark.rule(f'{literal(PARAMETER)} {lark.terminal(_KEY)} ">" {_tag_value(lark, one.patterns[0][1])}')
        return f"{tag}{{0,{_limit(one.most)}}}"

    return _each_object(shape, write)


def _tag_value(lark: Lark, value: Shape) -> str:
    end = f"\n{END_PARAMETER}\n"
    if isinstance(value, Values) and all(isinstance(decode(text), str) for text in value.texts):
        return alternatives(literal(f"\n{decode(text)}{end}") for text in value.texts)
    if isinstance(value, String):
        # The text ends where its tag does, and not before: a regular expression that stops as soon as it can.
        return lark.rule(lark.terminal(f'"\\n" {_content(lark, value)} {literal(end)}'), "lazy")
    return f'"\\n" {_json(lark, value)} {literal(end)}'


def _json(lark: Lark, value: Shape) -> str:
    return lark.json(schema_of(value))


def _limit(most: int | None) -> int:
    return most if most is not None else _MANY


def gemma(lark: Lark, shape: Shape) -> str:
    """`{a:<|"|>x<|"|>,n:1}`"""
    return _Gemma(lark).value(shape)


class _Gemma:
    def __init__(self, lark: Lark) -> None:
        self._lark = lark

    def value(self, shape: Shape) -> str:
        match shape:
            case Values(texts):
                return alternatives(self._lark.text(_literal(decode(text))) for text in texts)
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
        quote = self._lark.text(GEMMA_QUOTE)
        content = _content(self._lark, shape)
        if self._lark.is_token(GEMMA_QUOTE):
            return f"{quote} {self._lark.rule(content)} {quote}"
        return f"{quote} {self._lark.rule(self._lark.terminal(f'{content} {quote}'), 'lazy')}"

    def _array(self, shape: Array) -> str:
        first = [self._lark.rule(self.value(one)) for one in shape.first]
        rest = "" if isinstance(shape.rest, Never) else self._lark.rule(self.value(shape.rest))
        inner = self._lark.items(first, rest, shape.least, _limit(shape.most), ",")
        return f'"[" {inner} "]"' if inner else '"[]"'

    def _object(self, shape: Object) -> str:
        members = [(f"{literal(f'{name}:')} {self.value(value)}", need) for name, value, need in _properties(shape)]
        if members or not shape.patterns:
            inner = self._lark.members(members, ",")
            return f'"{{" {inner} "}}"' if inner else '"{}"'
        pair = self._lark.rule(f'{self._lark.terminal(_KEY)} ":" {self.value(shape.patterns[0][1])}')
        inner = self._lark.items([], pair, 0, _limit(shape.most), ",")
        return f'"{{" {inner} "}}"'


def _literal(value: Any) -> str:
    match value:
        case str():
            return f"{GEMMA_QUOTE}{value}{GEMMA_QUOTE}"
        case dict():
            return "{" + ",".join(f"{key}:{_literal(one)}" for key, one in value.items()) + "}"
        case list():
            return "[" + ",".join(map(_literal, value)) + "]"
        case bool():
            return "true" if value else "false"
        case None:
            return "null"
        case _:
            return str(value)


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
