"""A tool's arguments in a model's own notation → the rules of a grammar.

JSON inside a call is llguidance's own business (`%json`). Here is what it does not know: Gemma's bare keys and quotes that are
tokens, LFM2's keyword arguments, Qwen3-Coder's tags around texts without quotes. Numbers, and in the last two everything that
is not a text by itself, are JSON there too.
"""

from __future__ import annotations

from typing import Any, Final

from ronda.schema.grammar import schema_of
from ronda.schema.grammar_regex import analyse
from ronda.schema.grammar_shape import (
    Anything,
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
from ronda.wire.markup.lark import Lark, alternatives, in_regex, literal
from ronda.wire.markup.literals import GEMMA_QUOTE
from ronda.wire.markup.xml import END_PARAMETER, PARAMETER

_KEY: Final = r"/[A-Za-z_][A-Za-z0-9_]{0,30}/"
_MANY: Final = 100_000  # characters: no limit


def keywords(lark: Lark, shape: Shape) -> str:
    """`a="x", n=1`: the arguments of a call in Python."""
    return _each_object(shape, lambda one: lark.members([(_keyword(lark, name, value), need) for name, value, need in _properties(one)], ", "))


def _keyword(lark: Lark, name: str, value: Shape) -> str:
    return f"{literal(f'{name}=')} {lark.json(schema_of(value))}"


def tags(lark: Lark, shape: Shape) -> str:
    """`<parameter=a>\\nx\\n</parameter>\\n`: one after the other."""
    return _each_object(shape, lambda one: lark.members([(_tag(lark, name, value), need) for name, value, need in _properties(one)], ""))


def _tag(lark: Lark, name: str, value: Shape) -> str:
    end = f"\n{END_PARAMETER}\n"
    head = literal(f"{PARAMETER}{name}>\n")
    if isinstance(value, Values) and all(isinstance(decode(text), str) for text in value.texts):
        return f"{head} {alternatives(literal(decode(text) + end) for text in value.texts)}"
    if isinstance(value, String):
        # The text ends where its tag does, and not before: a regular expression that stops as soon as it can.
        body = lark.terminal(f"/{_characters(value)}{in_regex(end)}/")
        return f"{head} {lark.rule(body, 'lazy')}"
    return f"{head} {lark.json(schema_of(value))} {literal(end)}"


def gemma(lark: Lark, shape: Shape) -> str:
    """`{a:<|"|>x<|"|>,n:1}`"""
    return _Gemma(lark).value(shape)


class _Gemma:
    def __init__(self, lark: Lark) -> None:
        self._lark = lark

    def value(self, shape: Shape) -> str:
        match shape:
            case Values(texts):
                return alternatives(self._lark.text(_said(decode(text))) for text in texts)
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
        if self._lark.is_token(GEMMA_QUOTE):
            body = self._lark.rule(self._lark.terminal(f"/{_characters(shape)}/"))
            return f"{quote} {body} {quote}"
        end = in_regex(GEMMA_QUOTE)
        return f"{quote} {self._lark.rule(self._lark.terminal(f'/{_characters(shape)}{end}/'), 'lazy')}"

    def _array(self, shape: Array) -> str:
        first = [self._lark.rule(self.value(one)) for one in shape.first]
        rest = "" if isinstance(shape.rest, Never) else self._lark.rule(self.value(shape.rest))
        most = shape.most if shape.most is not None else _MANY
        inner = self._lark.items(first, rest, shape.least, most, ",")
        return f'"[" {inner} "]"' if inner else '"[]"'

    def _object(self, shape: Object) -> str:
        members = [(f"{literal(f'{name}:')} {self.value(value)}", need) for name, value, need in _properties(shape)]
        if members or not shape.patterns:
            inner = self._lark.members(members, ",")
            return f'"{{" {inner} "}}"' if inner else '"{}"'
        pair = self._lark.rule(f'{self._lark.terminal(_KEY)} ":" {self.value(shape.patterns[0][1])}')
        inner = self._lark.items([], pair, 0, shape.most if shape.most is not None else _MANY, ",")
        return f'"{{" {inner} "}}"'


def _said(value: Any) -> str:
    match value:
        case str():
            return f"{GEMMA_QUOTE}{value}{GEMMA_QUOTE}"
        case dict():
            return "{" + ",".join(f"{key}:{_said(one)}" for key, one in value.items()) + "}"
        case list():
            return "[" + ",".join(map(_said, value)) + "]"
        case bool():
            return "true" if value else "false"
        case None:
            return "null"
        case _:
            return str(value)


def _properties(shape: Object) -> list[tuple[str, Shape, bool]]:
    return [(one.name, one.shape, one.required) for one in shape.properties if not isinstance(one.shape, Never)]


def _each_object(shape: Shape, write: Any) -> str:
    """The arguments are an object, or one of several."""
    match shape:
        case Object():
            found: str = write(shape)
            return found
        case Union(options):
            inner = [_each_object(option, write) for option in options if isinstance(option, (Object, Union))]
            if inner:
                return alternatives(one or '""' for one in inner)
    raise Unsupported("/: arguments that are not an object")


def _characters(shape: String) -> str:
    """A text without quotes, as an expression that matches all of it."""
    if shape.patterns:
        regex = analyse(shape.patterns[0])
        if len(shape.patterns) > 1 or not regex.anchored or shape.least or shape.most is not None or shape.room is not None:
            raise Unsupported("pattern: it cannot be enforced in a text without quotes")
        return f"(?:{regex.body.replace('/', chr(92) + '/')})"
    most = shape.most if shape.most is not None else _MANY
    if shape.room is None:
        return f"(?s:.{{{shape.least},{min(most, _MANY)}}})"
    # A character takes up to four bytes.
    wide, narrow = min(most, shape.room // 4), min(most, shape.room)
    if wide < shape.least or wide == most:
        return f"[\\t\\n -~]{{{shape.least},{narrow}}}" if wide < shape.least else f"(?s:.{{{shape.least},{wide}}})"
    return f"(?:(?s:.{{{shape.least},{wide}}})|[\\t\\n -~]{{{shape.least},{narrow}}})"


def is_anything(shape: Shape) -> bool:
    return isinstance(shape, Anything)
