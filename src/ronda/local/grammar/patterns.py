"""A regular expression → how long its shortest and its longest match are, and whether they are plain ASCII.

Enough to say in advance how many tokens a string will take. Reads the dialect of JSON Schema (ECMA-262) as far as a linear
engine can match it: look-around, back references and word boundaries cannot be enforced while decoding, and are said to be so.
What is not understood is an error, never a guess.
"""

from __future__ import annotations

import functools
import re
from typing import Final

from msgspec import Struct

from ronda.local.grammar.shapes import String
from ronda.schema.validate import Validator

MAX_DEPTH: Final = 50  # of groups in groups


class Pattern(Struct, frozen=True):
    least: int  # characters of the shortest match
    most: int | None  # of the longest one; None: no limit
    plain: bool  # made of printable ASCII only, without quotes and backslashes: one byte a character, in JSON too
    whole: str | None  # the same for an engine that knows no anchors and matches whole strings; None if it needs them


class Unreadable(ValueError):
    """Not an expression that can be enforced."""


@functools.lru_cache(maxsize=1024)
def analyse(pattern: str) -> Pattern:
    return _Parser(pattern).whole()


class _Node(Struct):
    least: int
    most: int | None
    plain: bool


_EMPTY: Final = _Node(0, 0, plain=True)
_ANYTHING: Final = _Node(0, None, plain=False)
_ANY_CHARACTER: Final = _Node(1, 1, plain=False)
_PLAIN_CHARACTER: Final = _Node(1, 1, plain=True)
_PLAIN: Final = frozenset(chr(code) for code in range(0x20, 0x7F)) - {'"', "\\"}
_CONTROLS: Final = {"n": "\n", "r": "\r", "t": "\t", "f": "\f", "v": "\v", "0": "\0"}
_QUANTIFIER: Final = re.compile(r"(?:[*+?]|\{(\d{1,5})(?:(,)(\d{0,5}))?\})\??")
_HEX: Final = re.compile(r"u\{([0-9a-fA-F]{1,6})\}|u([0-9a-fA-F]{4})|x([0-9a-fA-F]{2})")
_GROUP: Final = re.compile(r"\?(?::|P?<[A-Za-z_]\w*>)")


class _Parser:
    def __init__(self, pattern: str) -> None:
        self._text = pattern
        self._at = 0
        self._inner_anchors = False
        self._depth = 0

    def whole(self) -> Pattern:
        """The pattern as a search: what is not anchored may have anything around it."""
        text = self._text
        starts = text.startswith("^")
        ends = text.endswith("$") and not _ends_in_escape(text)
        body = text[starts : len(text) - ends]
        if (starts or ends) and _has_bare_alternative(body):
            # `^a|b$` anchors each half on one side only: anything around either of them is allowed for, to be sure.
            starts = ends = False
            body = text
        self._text = body
        node = self._alternatives()
        if self._at < len(body):
            raise Unreadable(f"unbalanced {body[self._at]!r}")
        if self._inner_anchors:
            if starts and ends:
                raise Unreadable("an anchor in the middle")
            starts = ends = False
        whole = f"(?:{body})"
        if not starts:
            node, whole = _concat(_ANYTHING, node), f"(?s:.*){whole}"
        if not ends:
            node, whole = _concat(node, _ANYTHING), f"{whole}(?s:.*)"
        return Pattern(node.least, node.most, node.plain, None if self._inner_anchors else whole)

    def _alternatives(self) -> _Node:
        node = self._sequence()
        while self._peek() == "|":
            self._at += 1
            node = _either(node, self._sequence())
        return node

    def _sequence(self) -> _Node:
        node = _EMPTY
        while (char := self._peek()) and char not in "|)":
            node = _concat(node, self._quantified())
        return node

    def _quantified(self) -> _Node:
        node = self._atom()
        while found := _QUANTIFIER.match(self._text, self._at):
            self._at = found.end()
            if found[1] is not None:
                least = int(found[1])
                most = least if not found[2] else int(found[3]) if found[3] else None
            else:
                least, most = {"*": (0, None), "+": (1, None), "?": (0, 1)}[found[0][0]]
            node = _repeat(node, least, most)
        return node

    def _atom(self) -> _Node:
        char = self._text[self._at]
        self._at += 1
        if char == "(":
            return self._group()
        if char == "[":
            return self._class()
        if char == "\\":
            return self._escape()
        if char in "^$":
            self._inner_anchors = True
            return _EMPTY
        if char == ".":
            return _ANY_CHARACTER
        if char in "*+?":
            raise Unreadable(f"nothing to repeat before {char!r}")
        return _character(char)

    def _group(self) -> _Node:
        if self._peek() == "?":
            opening = _GROUP.match(self._text, self._at)
            if opening is None:
                raise Unreadable("look-around")
            self._at = opening.end()
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise Unreadable(f"more than {MAX_DEPTH} groups in each other")
        node = self._alternatives()
        if self._peek() != ")":
            raise Unreadable("an unclosed group")
        self._depth -= 1
        self._at += 1
        return node

    def _escape(self) -> _Node:
        char = self._peek()
        if not char:
            raise Unreadable("a backslash at the end")
        if char in "bBkG" or char in "123456789":
            raise Unreadable("a word boundary" if char in "bB" else "a back reference")
        if char in "pP":
            raise Unreadable("a class of Unicode characters")
        if code := _HEX.match(self._text, self._at):
            self._at = code.end()
            return _character(chr(int("0x" + (code[1] or code[2] or code[3]), 0)))
        self._at += 1
        if char in "dw":
            return _PLAIN_CHARACTER
        if char in "sDWS":
            return _ANY_CHARACTER
        return _character(_CONTROLS.get(char, char))

    def _class(self) -> _Node:
        negated = self._peek() == "^"
        self._at += negated
        plain, first = not negated, True
        while first or self._peek() != "]":
            first = False
            if not self._peek():
                raise Unreadable("an unclosed class")
            low, high = self._member()
            plain = plain and low in _PLAIN and high in _PLAIN and not low <= '"' <= high and not low <= "\\" <= high
        self._at += 1
        return _PLAIN_CHARACTER if plain else _ANY_CHARACTER

    def _member(self) -> tuple[str, str]:
        low, is_set = self._one()
        if self._peek() == "-" and self._text[self._at + 1 : self._at + 2] not in ("]", "") and not is_set:
            self._at += 1
            high, _ = self._one()
            return low, high
        return ("a", "z") if low == "\\d" else ("\0", "\uffff") if low == "\\s" else (low, low)

    def _one(self) -> tuple[str, bool]:
        """A character of a class, or a set of them: `\\d` for one that is plain, `\\s` for one that is not."""
        char = self._text[self._at]
        self._at += 1
        if char != "\\":
            return char, False
        char = self._peek()
        if code := _HEX.match(self._text, self._at):
            self._at = code.end()
            return chr(int("0x" + (code[1] or code[2] or code[3]), 0)), False
        if char in "pP":
            raise Unreadable("a class of Unicode characters")
        self._at += 1
        if char in "dw":
            return "\\d", True
        if char in "sDWS":
            return "\\s", True
        return ("\b" if char == "b" else _CONTROLS.get(char, char)), False

    def _peek(self) -> str:
        return self._text[self._at : self._at + 1]


def _ends_in_escape(text: str) -> bool:
    return (len(text) - 1 - len(text[:-1].rstrip("\\"))) % 2 == 1


def _has_bare_alternative(text: str) -> bool:
    """Whether a `|` stands outside all groups and classes."""
    depth, at, in_class = 0, 0, False
    while at < len(text):
        char = text[at]
        if char == "\\":
            at += 1
        elif in_class:
            in_class = char != "]"
        elif char == "[":
            in_class = True
        elif char in "()":
            depth += 1 if char == "(" else -1
        elif char == "|" and not depth:
            return True
        at += 1
    return False


def _character(char: str) -> _Node:
    return _PLAIN_CHARACTER if char in _PLAIN else _ANY_CHARACTER


def _either(one: _Node, other: _Node) -> _Node:
    most = None if one.most is None or other.most is None else max(one.most, other.most)
    return _Node(min(one.least, other.least), most, one.plain and other.plain)


def _concat(one: _Node, other: _Node) -> _Node:
    most = None if one.most is None or other.most is None else one.most + other.most
    return _Node(one.least + other.least, most, one.plain and other.plain)


def _repeat(node: _Node, least: int, most: int | None) -> _Node:
    longest = 0 if node.most == 0 or most == 0 else None if most is None or node.most is None else node.most * most
    return _Node(node.least * least, longest, node.plain or most == 0)


# ---- of strings -------------------------------------------------------------------------------------------------------


def search(pattern: str, text: str) -> bool:
    """Whether a pattern of JSON Schema finds something in a text: by the validator's engine, which takes linear time."""
    return not _validator(pattern).problems(text)


@functools.lru_cache(maxsize=64)
def _validator(pattern: str) -> Validator:
    return Validator({"pattern": pattern})


def shortest(shape: String) -> int:
    """Characters in which there is a text. Which lengths a pattern has between is not known: some more may be needed."""
    sizes = [shape.least]
    for found in map(analyse, shape.patterns):
        size = found.least if shape.least <= found.least else shape.least + max(1, found.least)
        limits = [size, *[limit for limit in (shape.most, found.most) if limit is not None]]
        sizes.append(max(found.least, min(limits)))
    return max(sizes)


def byte_size(shape: String) -> int:
    """The most bytes a character takes, as JSON: \\u0001 is the longest way to write one."""
    return 1 if any(analyse(pattern).plain for pattern in shape.patterns) else 6


def longest(shape: String) -> int | None:
    """The bytes of the longest text there may be; None if there is no limit."""
    limits = [shape.most, *[analyse(pattern).most for pattern in shape.patterns]]
    sizes = [limit for limit in limits if limit is not None]
    return min(sizes) * byte_size(shape) if sizes else None
