"""Arguments in a model's own notation → the same as JSON text, while they arrive.

Gemma writes `{key:<|"|>text<|"|>,n:[1,2]}`: bare keys, and quotes that are tokens, so that nothing in a text needs escaping.
FunctionGemma's are `<escape>`.
LFM2 writes Python: `key="text", n=[1, 2], flag=True`. Its template escapes nothing either, so a quote ends a string only
where something that may follow a value follows it.

Strings are passed on as they grow. Anything else is passed on when it ended.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final, Literal, TypeAlias

import msgspec

from ronda.local.markup.calls import BLANKS, MAX_NAME

LiteralNotation: TypeAlias = Literal["gemma", "function_gemma", "python"]
QUOTES: Final = {"gemma": '<|"|>', "function_gemma": "<escape>"}  # tokens
_MAX_DEPTH: Final = 64

_NUMBER: Final = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?")
_WORDS: Final = {"True": "true", "False": "false", "None": "null", "nil": "null"}
_ESCAPE: Final = re.compile(r"\\(?:u[0-9a-fA-F]{4}|x[0-9a-fA-F]{2}|U[0-9a-fA-F]{8}|[^uxU])", re.DOTALL)
_HALF_ESCAPE: Final = re.compile(r"\\(?:u[0-9a-fA-F]{0,3}|x[0-9a-fA-F]?|U[0-9a-fA-F]{0,7})?\Z")
_SAME: Final = frozenset('nrtbf"\\')  # escapes that JSON writes as Python does
_OTHER: Final = {"'": "'", "a": "\a", "v": "\v", "0": "\0", "\n": ""}

_Step: TypeAlias = Callable[[str, int], int]


def escape_piece(text: str) -> str:
    """A piece of a JSON string, without the quotes around it."""
    try:
        return msgspec.json.encode(text)[1:-1].decode()
    except UnicodeError:  # a lone surrogate
        return msgspec.json.encode(text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace"))[
            1:-1
        ].decode()


def word(text: str) -> str:
    """A bare word as JSON: a number, a constant, or else a string that lacks its quotes."""
    text = text.strip()
    if text in _WORDS:
        return _WORDS[text]
    if text in ("true", "false", "null") or _NUMBER.fullmatch(text):
        return text
    try:
        number = float(text.replace("_", ""))
        return repr(int(number) if number.is_integer() and "." not in text else number)
    except (ValueError, OverflowError):
        return f'"{escape_piece(text)}"'


def python_value(text: str) -> str | None:
    """A list or an object as Python writes it, as JSON; None if it is none."""
    if text[:1] not in ("[", "{", "("):
        return None
    literals = Literals("python")
    if literals.read(f"v={text})", 0) != len(text) + 3 or not literals.complete:
        return None
    return literals.take()[len('{"v": ') : -1]


class Literals:
    """One list of `key:value` or `key=value`, from after its opening bracket to the closing one."""

    def __init__(self, notation: LiteralNotation) -> None:
        self.complete = False
        self.broken = False
        self._json: list[str] = ["{"]  # written since it was last taken
        self._token_quote = QUOTES.get(notation, "")  # else quotes are those of Python
        # What closes each open bracket. Parentheses are the outermost, with keys in them, or a tuple: ") " for that one.
        self._closers = ["}" if self._token_quote else ")"]
        self._fresh = [True]  # whether nothing was written into it yet
        self._step: _Step = self._key
        self._word: list[str] = []  # the key, the bare word, or the quote and blanks that may end a string
        self._quote = ""  # what ends the string being read
        self._in_key = False

    def take(self) -> str:
        written = "".join(self._json)
        self._json = []
        return written

    def read(self, text: str, at: int) -> int:
        """Read on; returns how far. Stops after the closing bracket, where it makes no sense, and where more is needed."""
        while at < len(text) and not (self.complete or self.broken):
            if self._step in (self._key, self._colon, self._value, self._after) and (blanks := BLANKS.match(text, at)):
                at = blanks.end()
                continue
            before, step = at, self._step
            at = self._step(text, at)
            if at == before and step == self._step:
                break
        return at

    # ---- steps ----------------------------------------------------------------------------------------------------------

    def _key(self, text: str, at: int) -> int:
        char = text[at]
        if char == ",":
            return at + 1
        if char == self._closers[-1]:
            return self._end(at + 1)
        self._in_key = True
        self._step = self._bare_key
        return self._begin_string(text, at)

    def _bare_key(self, text: str, at: int) -> int:
        end = "=" if self._closers[-1] == ")" else ":"
        while at < len(text) and text[at] not in "=:,(){}[]":
            self._word.append(text[at])
            at += 1
        if len(self._word) > MAX_NAME:
            return self._fail(at)
        if at == len(text):
            return at
        name = "".join(self._word).strip()
        self._word = []
        if text[at] != end or not name:
            return self._fail(at)
        self._write_key(f'"{escape_piece(name)}')
        self._json.append('"')
        self._step = self._colon
        return at

    def _colon(self, text: str, at: int) -> int:
        if text[at] != ("=" if self._closers[-1] == ")" else ":"):
            return self._fail(at)
        self._json.append(": ")
        self._in_key = False
        self._step = self._value
        return at + 1

    def _value(self, text: str, at: int) -> int:
        char = text[at]
        if char == self._closers[-1][0] and self._is_array:
            return self._end(at + 1)
        if char in ",:=)]}":
            return self._fail(at)
        if char in "{[(":
            if len(self._closers) == _MAX_DEPTH:
                return self._fail(at)
            self._separate()
            self._json.append("{" if char == "{" else "[")
            self._closers.append({"{": "}", "[": "]", "(": ") "}[char])
            self._fresh.append(True)
            self._step = self._key if char == "{" else self._value
            return at + 1
        self._step = self._bare
        return self._begin_string(text, at)

    def _bare(self, text: str, at: int) -> int:
        while at < len(text) and text[at] not in ",)]}":
            self._word.append(text[at])
            at += 1
        if at < len(text):
            self._separate()
            self._json.append(word("".join(self._word)))
            self._word = []
            self._step = self._after
        return at

    def _after(self, text: str, at: int) -> int:
        if text[at] == self._closers[-1][0]:
            return self._end(at + 1)
        if text[at] != ",":
            return self._fail(at)
        self._step = self._value if self._is_array else self._key
        return at + 1

    # ---- strings --------------------------------------------------------------------------------------------------------

    def _begin_string(self, text: str, at: int) -> int:
        """A string if one begins here; else the step that was chosen for a bare word."""
        if quote := self._token_quote:
            if text.startswith(quote, at):
                self._quote = quote
            elif quote.startswith(text[at:]):
                self._step = self._key if self._in_key else self._value  # not enough to tell
                return at
            else:
                return at
        elif text[at] in "'\"":
            self._quote = text[at]
        else:
            return at
        if self._in_key:
            self._write_key('"')
        else:
            self._separate()
            self._json.append('"')
        self._step = self._raw if self._token_quote else self._escaped
        return at + len(self._quote)

    def _raw(self, text: str, at: int) -> int:
        end = text.find(self._quote, at)
        if end >= 0:
            self._json.append(escape_piece(text[at:end]))
            return self._end_string(end + len(self._quote))
        tail = overlap(text, (self._quote,), at)
        self._json.append(escape_piece(text[at : len(text) - tail]))
        return len(text) - tail

    def _escaped(self, text: str, at: int) -> int:
        end = at
        while end < len(text) and text[end] not in ("\\", self._quote):
            end += 1
        self._json.append(escape_piece(text[at:end]))
        if end == len(text):
            return end
        if text[end] == self._quote:
            self._word = [self._quote]
            self._step = self._may_end
            return end + 1
        if escape := _ESCAPE.match(text, end):
            self._json.append(_unescape(escape[0]))
            return escape.end()
        if _HALF_ESCAPE.match(text, end):
            return end
        self._json.append("\\\\")  # no escape after all
        return end + 1

    def _may_end(self, text: str, at: int) -> int:
        """After a quote: the string ended if what follows may follow a value, and had the quote in it if not."""
        if blanks := BLANKS.match(text, at):
            self._word.append(blanks[0])
            at = blanks.end()
        if at == len(text):
            return at
        seen = "".join(self._word)
        self._word = []
        if text[at] in (",", ":", *(closer[0] for closer in self._closers[-1:])):
            return self._end_string(at)
        self._json.append(escape_piece(seen))
        self._step = self._escaped
        return at

    def _end_string(self, at: int) -> int:
        self._json.append('"')
        self._step = self._colon if self._in_key else self._after
        return at

    # ---- what they have in common ---------------------------------------------------------------------------------------

    @property
    def _is_array(self) -> bool:
        return self._closers[-1] in ("]", ") ")

    def _separate(self) -> None:
        """Between the items of an array; a key does it for the values of an object."""
        if self._is_array:
            if not self._fresh[-1]:
                self._json.append(", ")
            self._fresh[-1] = False

    def _write_key(self, key: str) -> None:
        self._json.append(key if self._fresh[-1] else f", {key}")
        self._fresh[-1] = False

    def _end(self, at: int) -> int:
        self._json.append("]" if self._is_array else "}")
        self._closers.pop()
        self._fresh.pop()
        self._step = self._after
        self.complete = not self._closers
        return at

    def _fail(self, at: int) -> int:
        self.broken = True
        return at


def overlap(text: str, markers: tuple[str, ...], start: int = 0) -> int:
    """How much of the end of `text` may be the beginning of a marker."""
    longest = max(map(len, markers), default=1) - 1
    for size in range(min(longest, len(text) - start), 0, -1):
        tail = text[len(text) - size :]
        if any(marker.startswith(tail) for marker in markers):
            return size
    return 0


def _unescape(escape: str) -> str:
    kind = escape[1]
    if kind in _SAME or kind == "u":
        return escape
    if kind in "xU":
        return escape_piece(chr(min(int("0x" + escape[2:], 0), 0x10FFFF)))
    return escape_piece(_OTHER.get(kind, escape))
