"""JSON as all wires read and write it."""

from __future__ import annotations

import msgspec

encode = msgspec.json.Encoder().encode

# What decoding raises on bytes from outside: not JSON or not of this shape, not UTF-8, nested beyond all reason.
UNREADABLE = (msgspec.DecodeError, UnicodeError, RecursionError)
