"""A regular expression → how long its matches are, and what they are made of.

Enough to say in advance how many tokens a string will take at most, and whether any string fits at all. Reads the dialect of
JSON Schema (ECMA-262) as far as a linear engine can match it: look-around, back references and word boundaries cannot be
enforced while decoding, and are said to be so. What is not understood is an error, never a guess.
"""

from __future__ import annotations

import functools
import re
from typing import Final

from msgspec import Struct

MAX_LENGTH: Final = 4096  # lengths beyond this are not told apart


class Regex(Struct, frozen=True):
    """`lengths` has bit n set when a match of n characters exists; those up to MAX_LENGTH are known."""

    lengths: int
    longest: int | None  # None: no limit
    plain: bool  # made of printable ASCII alone, without quotes and backslashes: one byte a character, in JSON too
    wide: bool  # even the shortest match may need characters of several bytes
    whole: str | None  # the same for an engine that knows no anchors and matches whole strings; None if it needs them

    def shortest(self, least: int, most: int | None) -> int | None:
        """The length of the shortest match that is no shorter than `least` and no longer than `most`."""
        rest = self.lengths >> least
        if not rest:
            return None
        found = least + (rest & -rest).bit_length() - 1
        return found if most is None or found <= most else None


class Unreadable(ValueError):
    """Not an expression that can be enforced."""


@functools.lru_cache(maxsize=1024)
def analyse(pattern: str) -> Regex:
    return _Parser(pattern).whole()


class _Node(Struct):
    lengths: int  # bit n: there is a match of n characters
    longest: int | None
    plain: bool
    wide: bool


_ALL: Final = (1 << (MAX_LENGTH + 1)) - 1
_EMPTY: Final = _Node(1, 0, plain=True, wide=False)
_ANYTHING: Final = _Node(_ALL, None, plain=False, wide=False)
_PLAIN: Final = frozenset(chr(code) for code in range(0x20, 0x7F)) - {'"', "\\"}
_WORD: Final = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_")
_CONTROLS: Final = {"n": "\n", "r": "\r", "t": "\t", "f": "\f", "v": "\v", "0": "\0"}
_QUANTIFIER: Final = re.compile(r"(?:[*+?]|\{(\d{1,5})(?:(,)(\d{0,5}))?\})\??")
_HEX: Final = re.compile(r"u\{([0-9a-fA-F]{1,6})\}|u([0-9a-fA-F]{4})|x([0-9a-fA-F]{2})")
_GROUP: Final = re.compile(r"\?(?::|P?<[A-Za-z_]\w*>)")


class _Parser:
    def __init__(self, pattern: str) -> None:
        self._text = pattern
        self._at = 0
        self._inner_anchors = False

    def whole(self) -> Regex:
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
        return Regex(node.lengths, node.longest, node.plain, node.wide, None if self._inner_anchors else whole)

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
            return _Node(2, 1, plain=False, wide=False)
        if char in "*+?":
            raise Unreadable(f"nothing to repeat before {char!r}")
        return _character(char)

    def _group(self) -> _Node:
        if self._peek() == "?":
            opening = _GROUP.match(self._text, self._at)
            if opening is None:
                raise Unreadable("look-around")
            self._at = opening.end()
        node = self._alternatives()
        if self._peek() != ")":
            raise Unreadable("an unclosed group")
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
            return _Node(2, 1, plain=True, wide=False)
        if char in "sDWS":
            return _Node(2, 1, plain=False, wide=False)
        return _character(_CONTROLS.get(char, char))

    def _class(self) -> _Node:
        negated = self._peek() == "^"
        self._at += negated
        plain, narrow, first = True, False, True
        while first or self._peek() != "]":
            first = False
            if not self._peek():
                raise Unreadable("an unclosed class")
            low, high = self._member()
            plain = plain and low in _PLAIN and high in _PLAIN and not low <= '"' <= high and not low <= "\\" <= high
            narrow = narrow or low < "\x7f"
        self._at += 1
        if negated:
            return _Node(2, 1, plain=False, wide=False)
        return _Node(2, 1, plain, wide=not narrow)

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
    return _Node(2, 1, char in _PLAIN, wide=char >= "\x7f")


def _either(one: _Node, other: _Node) -> _Node:
    longest = None if one.longest is None or other.longest is None else max(one.longest, other.longest)
    return _Node(one.lengths | other.lengths, longest, one.plain and other.plain, one.wide and other.wide)


def _concat(one: _Node, other: _Node) -> _Node:
    longest = None if one.longest is None or other.longest is None else one.longest + other.longest
    return _Node(_sums(one.lengths, other.lengths), longest, one.plain and other.plain, one.wide or other.wide)


def _repeat(node: _Node, least: int, most: int | None) -> _Node:
    lengths = _power(node.lengths, least)
    if most is None:
        lengths = _sums(lengths, _closure(node.lengths))
    elif most > least:
        lengths = _sums(lengths, _power(node.lengths | 1, most - least))
    longest: int | None = None
    if node.longest == 0 or most == 0:
        longest = 0
    elif most is not None and node.longest is not None:
        longest = node.longest * most
    return _Node(lengths, longest, node.plain or most == 0, wide=node.wide and least > 0)


# ---- sets of lengths, as bits -----------------------------------------------------------------------------------------


def _sums(one: int, other: int) -> int:
    """All sums of a length of one and a length of the other."""
    if one.bit_count() > other.bit_count():
        one, other = other, one
    if one == _ALL or other == _ALL:
        low = ((one & -one).bit_length() - 1) + ((other & -other).bit_length() - 1) if one and other else 0
        return (_ALL << low) & _ALL if one and other else 0
    found = 0
    while one:
        bit = one & -one
        found |= other << (bit.bit_length() - 1)
        one ^= bit
    return found & _ALL


def _power(lengths: int, times: int) -> int:
    found = 1
    while times:
        if times & 1:
            found = _sums(found, lengths)
        lengths = _sums(lengths, lengths)
        times >>= 1
    return found


def _closure(lengths: int) -> int:
    found = 1 | lengths
    while (more := _sums(found, found)) != found:
        found = more
    return found
