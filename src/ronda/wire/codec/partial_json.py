"""Text of one JSON document, in pieces, becomes patches: what each piece added to the value known so far.

Meant for tool-call arguments while the model still writes them. Every character is read once (of an escape cut in two,
at most five are read again), so the cost is that of the text, however it is cut; and what has been shown after some
text does not depend on how that text was cut.

Shown is only what can no longer change: a key when it has ended, a number when something follows it, an escape when it
is whole. A string only grows. (Except that a key written twice starts over: the later one wins, as in `json.loads`.)

Not known here: what the value should look like, and what a tool call is. Nothing is repaired either: broken JSON is an
`error`, and the value stays as far as it got.
"""

import re
from collections.abc import Callable
from typing import Any, Final, Literal, TypeAlias

from msgspec import Struct

Json: TypeAlias = dict[str, "Json"] | list["Json"] | str | int | float | bool | None
Path: TypeAlias = tuple[str | int, ...]


class Patch(Struct, frozen=True, gc=False):
    """One change: "set" puts `value` at `path`, "append" adds the text `value` to the string there.

    Containers and strings are set empty and filled by the patches that follow.
    """

    op: Literal["set", "append"]
    path: Path
    value: Any  # Json, but msgspec cannot decode a type that contains itself


# What may come next, in the words of the error message.
_VALUE: Final = "a value"
_ITEM: Final = "a value or ']'"
_MORE_ITEMS: Final = "',' or ']'"
_KEY: Final = "a key in quotes"
_FIRST_KEY: Final = "a key in quotes or '}'"
_COLON: Final = "':'"
_MORE_KEYS: Final = "',' or '}'"
_NOTHING: Final = "nothing after the document"

_BLANKS: Final = re.compile(r"[ \t\n\r]+")
_ORDINARY: Final = re.compile(r'[^"\\\x00-\x1f]+')
_ESCAPE: Final = re.compile(r'\\(?:(["\\/bfnrt])|u([0-9a-fA-F]{4}))')
_HALF_ESCAPE: Final = re.compile(r"\\(?:u[0-9a-fA-F]{0,3})?\Z")
_NUMERIC: Final = re.compile(r"[-+.0-9eE]+")
_NUMBER: Final = re.compile(r"-?(?:0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?")
_SURROGATE: Final = re.compile("[\ud800-\udfff]")

_ESCAPED: Final = {'"': '"', "\\": "\\", "/": "/", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
_WORDS: Final = {"t": "true", "f": "false", "n": "null"}
_MEANING: Final = {"true": True, "false": False, "null": None}

_Step: TypeAlias = Callable[["PartialJson", str, int, list[Patch]], int]


class PartialJson:
    """One document. `complete` once it ended; `error` says where and why it is not JSON, and then nothing more is read.

    Lone surrogates become U+FFFD, so that everything shown can be written as UTF-8.
    """

    def __init__(self, depth: int = 512) -> None:
        self.complete = False
        self.error: str | None = None
        self._depth = depth
        self._root: Json = None
        # The open containers, and for each of them the key or index being read. Any, because no type says that a dict
        # here goes with a str there and a list with an int.
        self._stack: list[Any] = []
        self._path: list[Any] = []
        self._step: _Step = PartialJson._between
        self._expect = _VALUE
        self._seen = 0  # characters before the current piece
        self._half_escape = ""  # half an escape, put before the next piece
        # Of the string, key, number or literal being read:
        self._text: list[str] = []  # joined at its end: a str in a container cannot grow in place
        self._high = ""  # half a surrogate pair
        self._word = ""  # which literal it must become
        self._open: Path | None = None  # where the string is; None if it is anything else

    @property
    def value(self) -> Json:
        """The value so far; None before it began, as for null.

        It is the value itself, not a copy: do not change it, and expect it to grow with the next piece. Asking costs
        nothing, except that a string still open is joined if it grew since the last time. To follow a very long string
        use the patches, which carry only what is new.
        """
        if self._open is not None:
            self._join()
        return self._root

    def feed(self, piece: str) -> list[Patch]:
        """Read on. What is wrong with the text is told in `error`, not raised."""
        out: list[Patch] = []
        if self.error is not None:
            return out
        if self._half_escape:
            piece = self._half_escape + piece
            self._half_escape = ""
        at, end = 0, len(piece)
        while at < end and self.error is None:
            at = self._step(self, piece, at, out)
        self._seen += end - len(self._half_escape)
        return out

    def close(self) -> list[Patch]:
        """There is no more text. Only this ends a number that is the whole document."""
        out: list[Patch] = []
        if self.error is None and self._step is PartialJson._in_number:
            self._end_number(0, out)
        if self.error is None and not self.complete:
            self._fail(len(self._half_escape), "the text ends before the document does")
        return out

    # Steps. Each reads on from `piece[at]` and returns how far it came.

    def _between(self, piece: str, at: int, out: list[Patch]) -> int:
        if blanks := _BLANKS.match(piece, at):
            at = blanks.end()
            if at == len(piece):
                return at
        found, expect = piece[at], self._expect
        if found == '"' and expect in (_KEY, _FIRST_KEY):
            self._step = PartialJson._in_string
        elif found == ":" and expect == _COLON:
            self._expect = _VALUE
        elif found == "," and expect == _MORE_KEYS:
            self._expect = _KEY
        elif found == "," and expect == _MORE_ITEMS:
            self._path[-1] += 1
            self._expect = _VALUE
        elif (found == "}" and expect in (_MORE_KEYS, _FIRST_KEY)) or (found == "]" and expect in (_MORE_ITEMS, _ITEM)):
            self._stack.pop()
            self._path.pop()
            self._end_value()
        elif expect in (_VALUE, _ITEM):
            return self._begin_value(found, at, out)
        else:
            self._fail(at, f"expected {expect}, found {found!r}")
        return at + 1

    def _begin_value(self, found: str, at: int, out: list[Patch]) -> int:
        if found == '"':
            self._set("", out)
            self._open = tuple(self._path)
            self._step = PartialJson._in_string
            return at + 1
        if found in "{[":
            if len(self._stack) == self._depth:
                self._fail(at, f"more than {self._depth} levels deep")
            elif found == "{":
                self._enter({}, "", _FIRST_KEY, out)
            else:
                self._enter([], 0, _ITEM, out)
            return at + 1
        # The first character of a number or literal is read again by the step that reads the others.
        if found in "-0123456789":
            self._step = PartialJson._in_number
        elif found in _WORDS:
            self._word = _WORDS[found]
            self._step = PartialJson._in_word
        else:
            self._fail(at, f"expected {self._expect}, found {found!r}")
        return at

    def _in_string(self, piece: str, at: int, out: list[Patch]) -> int:
        end = len(piece)
        text = [self._high]
        while at < end:
            if ordinary := _ORDINARY.match(piece, at):
                text.append(ordinary.group())
                at = ordinary.end()
            elif piece[at] == '"':
                self._grow(text, out, ended=True)
                self._end_string()
                return at + 1
            elif escape := _ESCAPE.match(piece, at):
                text.append(_ESCAPED[escape[1]] if escape[1] else chr(int(escape[2], 16)))
                at = escape.end()
            elif _HALF_ESCAPE.match(piece, at):
                self._half_escape = piece[at:]
                break
            else:
                self._grow(text, out)
                self._fail(at, "broken escape" if piece[at] == "\\" else f"{piece[at]!r} must be escaped in a string")
                return at
        self._grow(text, out)
        return end

    def _in_number(self, piece: str, at: int, out: list[Patch]) -> int:
        if numeric := _NUMERIC.match(piece, at):
            self._text.append(numeric.group())
            at = numeric.end()
        if at < len(piece):
            self._end_number(at, out)
        return at

    def _in_word(self, piece: str, at: int, out: list[Patch]) -> int:
        done = len(self._text)
        if piece[at] != self._word[done]:
            self._fail(at, f"expected {self._word[done:]!r}, found {piece[at]!r}")
        elif done + 1 < len(self._word):
            self._text.append(piece[at])
        else:
            self._text.clear()
            self._set(_MEANING[self._word], out)
            self._end_value()
        return at + 1

    # What the steps have in common.

    def _set(self, value: Json, out: list[Patch]) -> None:
        out.append(Patch("set", tuple(self._path), value))
        self._put(value)

    def _put(self, value: Json) -> None:
        if not self._stack:
            self._root = value
            return
        top, where = self._stack[-1], self._path[-1]
        if where == len(top) and type(top) is list:
            top.append(value)
        else:
            top[where] = value

    def _enter(self, container: dict[str, Json] | list[Json], where: str | int, expect: str, out: list[Patch]) -> None:
        # The patch has an empty container of its own: the one in the tree goes on to be filled.
        out.append(Patch("set", tuple(self._path), container.copy()))
        self._put(container)
        self._stack.append(container)
        self._path.append(where)
        self._expect = expect

    def _grow(self, text: list[str], out: list[Patch], ended: bool = False) -> None:
        new = "".join(text)
        self._high = ""
        if not new.isascii() and _SURROGATE.search(new):
            if not ended and "\ud800" <= new[-1] <= "\udbff":
                self._high = new[-1]
                new = new[:-1]
            # As UTF-16 a pair is a pair again, however it was written, and half of one is an error to replace.
            new = new.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
        if new:
            self._text.append(new)
            if self._open is not None:
                out.append(Patch("append", self._open, new))

    def _join(self) -> str:
        text = "".join(self._text)
        self._text = [text]
        if self._open is not None:
            self._put(text)
        return text

    def _end_string(self) -> None:
        text = self._join()
        self._text.clear()
        if self._open is not None:
            self._open = None
            self._end_value()
        else:
            self._path[-1] = text
            self._step = PartialJson._between
            self._expect = _COLON

    def _end_number(self, at: int, out: list[Patch]) -> None:
        text = "".join(self._text)
        self._text.clear()
        number = _NUMBER.fullmatch(text)
        if number is None:
            self._fail(at - len(text), f"{_short(text)} is not a number")
            return
        try:
            value = float(text) if number[1] or number[2] else int(text)
        except ValueError:  # Python refuses integers of thousands of digits, which take quadratic time
            self._fail(at - len(text), f"{_short(text)} has too many digits")
            return
        self._set(value, out)
        self._end_value()

    def _end_value(self) -> None:
        self._step = PartialJson._between
        if not self._stack:
            self.complete = True
            self._expect = _NOTHING
        else:
            self._expect = _MORE_ITEMS if type(self._stack[-1]) is list else _MORE_KEYS

    def _fail(self, at: int, reason: str) -> None:
        self.error = f"character {self._seen + at}: {reason}"


def pointer(path: Path) -> str:
    """The path as a JSON pointer (RFC 6901): `("a/b", 0)` is `/a~1b/0`."""
    return "".join(["/" + str(key).replace("~", "~0").replace("/", "~1") for key in path])


def read_pointer(text: str) -> Path:
    """A JSON pointer as a path. Which of its keys are indexes only the value tells, so all of them are texts."""
    if text and not text.startswith("/"):
        raise ValueError(f"{text!r} is no JSON pointer; one begins with '/'")
    return tuple([key.replace("~1", "/").replace("~0", "~") for key in text.split("/")[1:]])


def _short(text: str) -> str:
    return text if len(text) <= 20 else text[:20] + "…"
