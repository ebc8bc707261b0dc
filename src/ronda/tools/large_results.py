"""What a tool returned, however large → JSON or base64, in pieces: while one is written in C, no other thread runs.

A million numbers or a text of 100 MB take some milliseconds at a time. What knows itself how it is written (a dataclass, a
pydantic model) is written in one piece: there is no looking into it.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable, Sequence
from itertools import islice
from typing import Any, Final

LIGHT_VALUES: Final = 5_000  # some 1 ms to encode
LIGHT_CHARS: Final = 256 * 1024  # some 4 ms, where each must be escaped
_AT_ONCE: Final = 1_000  # elements that are looked at together
_BASE64_PIECE: Final = 3 << 18  # bytes; three of them are four letters

Encode = Callable[[Any], bytes]


def is_light(value: Any) -> bool:
    """Whether it takes no time worth noting to write. Stops to count when it does."""
    values, chars = 0, 0
    stack = [value]
    while stack:
        one = stack.pop()
        values += 1
        if isinstance(one, (str, bytes, bytearray)):
            chars += len(one)
        elif isinstance(one, (list, tuple, set, frozenset)):
            if len(one) > LIGHT_VALUES:
                return False
            stack += one
        elif isinstance(one, dict):
            if len(one) > LIGHT_VALUES:
                return False
            stack += one
            stack += one.values()
        if values + len(stack) > LIGHT_VALUES or chars > LIGHT_CHARS:
            return False
    return True


def encode_in_pieces(value: Any, encode: Encode) -> bytes:
    """The very bytes that `encode` would give."""
    written = bytearray()
    _write(value, encode, written)
    return bytes(written)


def _write(value: Any, encode: Encode, written: bytearray) -> None:
    if is_light(value):
        written += encode(value)
    elif type(value) is str:
        written += b'"'
        for index in range(0, len(value), LIGHT_CHARS):
            written += encode(value[index : index + LIGHT_CHARS])[1:-1]
        written += b'"'
    elif type(value) in (list, tuple):
        written += b"["
        for index in range(0, len(value), _AT_ONCE):
            _write_elements(value[index : index + _AT_ONCE], encode, written)
        written[-1:] = b"]"
    elif type(value) is dict:
        written += b"{"
        items = iter(value.items())
        while some := dict(islice(items, _AT_ONCE)):
            _write_members(some, encode, written)
        written[-1:] = b"}"
    else:
        written += encode(value)


def _write_elements(elements: Sequence[Any], encode: Encode, written: bytearray) -> None:
    """Each with a comma behind it."""
    if is_light(elements):
        written += encode(elements)[1:-1] + b","
        return
    for element in elements:
        _write(element, encode, written)
        written += b","


def _write_members(members: dict[Any, Any], encode: Encode, written: bytearray) -> None:
    """Each with a comma behind it. A key that is no text is written as `encode` writes it in an object."""
    if is_light(members):
        written += encode(members)[1:-1] + b","
        return
    for key, member in members.items():
        written += encode({key: 0})[1:-2]
        _write(member, encode, written)
        written += b","


def base64_in_pieces(data: bytes | bytearray) -> str:
    return b"".join(
        [b64encode(data[index : index + _BASE64_PIECE]) for index in range(0, len(data), _BASE64_PIECE)]
    ).decode()
