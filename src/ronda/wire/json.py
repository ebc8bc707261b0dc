"""JSON as all wires read and write it."""

from __future__ import annotations

import codecs

import msgspec
from msgspec import Raw

encode = msgspec.json.Encoder().encode

# What decoding raises on bytes from outside: not JSON or not of this shape, not UTF-8, nested beyond all reason.
UNREADABLE = (msgspec.DecodeError, UnicodeError, RecursionError)


_PIECE = 1024 * 1024  # bytes: 1 ms to look at


def check_utf8(json: bytes) -> None:
    """Raises UnicodeDecodeError. Piece by piece: nothing else runs while one is looked at."""
    if json.isascii():
        return
    decode = codecs.getincrementaldecoder("utf-8")().decode
    for at in range(0, len(json), _PIECE):
        try:
            decode(json[at : at + _PIECE], at + _PIECE >= len(json))
        except UnicodeDecodeError as error:
            error.start, error.end = error.start + at, error.end + at
            raise


def in_one_line(json: bytes) -> bytes:
    """JSON that somebody else wrote, fit to stand in an event's data. A string has its line breaks escaped; the rest are
    only there to look at."""
    return json.replace(b"\n", b" ").replace(b"\r", b" ") if b"\n" in json or b"\r" in json else json


def text_of(arguments: str | dict[str, Raw] | None) -> str:
    """A call's arguments as JSON text, whatever form its speaker chose."""
    if arguments is None:
        return ""
    if type(arguments) is str:
        return arguments
    return encode(arguments).decode()
