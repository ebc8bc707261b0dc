"""JSON as all wires read and write it."""

from __future__ import annotations

import msgspec

encode = msgspec.json.Encoder().encode

# What decoding raises on bytes from outside: not JSON or not of this shape, not UTF-8, nested beyond all reason.
UNREADABLE = (msgspec.DecodeError, UnicodeError, RecursionError)


def in_one_line(json: bytes) -> bytes:
    """JSON that somebody else wrote, fit to stand in an event's data. A string has its line breaks escaped; the rest are
    only there to look at."""
    return json.replace(b"\n", b" ").replace(b"\r", b" ") if b"\n" in json or b"\r" in json else json
