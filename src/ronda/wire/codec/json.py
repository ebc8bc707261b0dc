"""JSON as all wires read and write it."""

from __future__ import annotations

import codecs
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, Final, TypeVar

import msgspec
from msgspec import Raw

T = TypeVar("T")

encode = msgspec.json.Encoder().encode
decode_text = msgspec.json.Decoder(str).decode
decode_members = msgspec.json.Decoder(dict[str, Raw]).decode

# What decoding raises on bytes from outside: not JSON or not of this shape, not UTF-8, nested beyond all reason.
UNREADABLE = (msgspec.DecodeError, UnicodeError, RecursionError)


def as_json(text: str) -> Raw | str:
    """JSON as a value to be written; what is none, as the text that it is."""
    try:
        # Written at once, since what can just be read at this depth of the stack may not be written at another.
        return Raw(encode(msgspec.json.decode(text)))
    except UNREADABLE:
        return text


@lru_cache(maxsize=256)  # msgspec would look at the type anew each time, which costs more than the decoding
def decoder(kind: Any) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(kind)


def decode_or(default: T, kind: Any, data: bytes | str | Raw) -> T:
    """Foreign JSON, as `kind`; or what is to stand for it where it cannot be read so."""
    try:
        return decoder(kind).decode(data)  # type: ignore[no-any-return]  # `kind` says which type it is
    except UNREADABLE:
        return default


def read_object(text: str) -> dict[str, Any]:
    """A JSON object, as the arguments of a call are; empty where it is none."""
    return decode_or({}, dict[str, Any], text)


def to_raws(members: Mapping[str, Any]) -> dict[str, Raw]:
    """Members of an object, each as JSON."""
    return {name: Raw(encode(value)) for name, value in members.items()}


def present(**members: Any) -> dict[str, Any]:
    """Those that say something."""
    return {name: value for name, value in members.items() if value is not None}


_PIECE: Final = 1024 * 1024  # bytes: 1 ms to look at
_TEXT_PIECE: Final = 256 * 1024  # characters: 4 ms to encode where each must be escaped


def check_utf8(json: bytes) -> None:
    """Raises UnicodeDecodeError. Piece by piece: nothing else runs while one is looked at."""
    if json.isascii():
        return
    decode = codecs.getincrementaldecoder("utf-8")().decode
    for index in range(0, len(json), _PIECE):
        try:
            decode(json[index : index + _PIECE], index + _PIECE >= len(json))
        except UnicodeDecodeError as error:
            error.start, error.end = error.start + index, error.end + index
            raise


class _Texts:
    """The longest text that is encoded in one piece; None: any. Of all threads, since a look at it costs every turn: who
    writes next to huge texts looks for some, too, and gets the same bytes."""

    __slots__ = ("longest",)

    def __init__(self) -> None:
        self.longest: int | None = None


_texts = _Texts()


def in_pieces(write: Callable[[], T], longest: int = _TEXT_PIECE) -> T:
    """What `write` gives. Meanwhile `encode_message` encodes a text that is longer piece by piece: nothing else runs while
    one is encoded. To look for such texts takes time, so it is done only where there may be one."""
    _texts.longest = longest
    try:
        return write()
    finally:
        _texts.longest = None


def encode_message(message: Any) -> bytes:
    """As `encode`, for what a conversation is made of: dictionaries, lists and texts, which may be huge."""
    longest = _texts.longest
    return encode(message if longest is None else _with_pieces(message, longest))


def _with_pieces(value: Any, longest: int) -> Any:
    match value:
        case str() if len(value) > longest:
            written = bytearray(b'"')
            for index in range(0, len(value), longest):
                written += encode(value[index : index + longest])[1:-1]
            written += b'"'
            return Raw(written)
        case dict():
            return {key: _with_pieces(item, longest) for key, item in value.items()}
        case list():
            return [_with_pieces(item, longest) for item in value]
        case _:
            return value


def in_one_line(json: bytes) -> bytes:
    """Foreign JSON, fit to stand in an event's data. A string has its line breaks escaped; the rest are
    only there to look at."""
    return json.replace(b"\n", b" ").replace(b"\r", b" ") if b"\n" in json or b"\r" in json else json


def text_of(arguments: str | dict[str, Raw] | None) -> str:
    """A call's arguments as JSON text, whatever form its speaker chose."""
    if arguments is None:
        return ""
    if type(arguments) is str:
        return arguments
    return encode(arguments).decode()
