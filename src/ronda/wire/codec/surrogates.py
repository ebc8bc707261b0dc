r"""JSON with half characters in it → JSON that can be read.

Some servers cut their text between the two halves of an emoji and write each as an escape of its own: `"Hi \ud83d"`, then
`"\ude00 there"`. Neither is a character. A half at the end of a string waits for the next piece, and goes where a string
begins with the other half; any other half becomes the replacement character.
"""

from __future__ import annotations

import re
from typing import Final

_ESCAPES: Final = re.compile(rb'\\(?:u([0-9a-fA-F]{4})|.)|"', re.DOTALL)
_REPLACEMENT: Final = b"\\ufffd"


class SurrogateMender:
    """The pieces of one stream, in their order. Nearly all of them are given back as they are."""

    __slots__ = ("_waiting",)

    def __init__(self) -> None:
        self._waiting = b""

    def mend(self, piece: bytes) -> bytes:
        # Not `in`, which asks first whether what it looks for is a number: that takes longer than to look.
        if piece.find(b"\\ud") < 0 and piece.find(b"\\uD") < 0:
            return piece
        return self._mend(piece)

    def _mend(self, piece: bytes) -> bytes:
        out: list[bytes] = []
        done = 0  # of `piece`, copied or replaced
        opened = -1  # where the string begins that is being read
        first: re.Match[bytes] | None = None  # a half that may have its other half right behind it
        for mark in _ESCAPES.finditer(piece):
            kind = _half(mark)
            if first is not None and not (kind == "second" and first.end() == mark.start()):
                ends = mark[0] == b'"' and first.end() == mark.start()
                if ends:
                    self._waiting = first[0]
                out += [piece[done : first.start()], b"" if ends else _REPLACEMENT]
                done = first.end()
            elif first is None and kind == "second":
                begins = opened == mark.start()
                out += [
                    piece[done : mark.start()],
                    self._waiting + mark[0] if begins and self._waiting else _REPLACEMENT,
                ]
                done = mark.end()
                if begins:
                    self._waiting = b""
            first = mark if kind == "first" else None
            if mark[0] == b'"':
                opened = mark.end()
        return b"".join([*out, piece[done:]])


def _half(mark: re.Match[bytes]) -> str:
    if mark[1] is None:
        return ""
    number = int(mark[1], 16)
    return "first" if 0xD800 <= number < 0xDC00 else "second" if 0xDC00 <= number < 0xE000 else ""


def mend_surrogates(body: bytes) -> bytes:
    """A whole answer."""
    return SurrogateMender().mend(body)
