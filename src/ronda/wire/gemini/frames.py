"""Bytes of a streamed answer → JSON objects: server-sent events, or one JSON array that grows (without `alt=sse`).

Which of the two it is, the first byte says. Reads may be cut anywhere; an object comes out with the read that ends it.
"""

from __future__ import annotations

import re
from typing import Final

from ronda.errors import UpstreamBroken
from ronda.wire.codec.sse import SseReader

LIMIT: Final = 64 * 1024 * 1024  # one object, as in `SseReader`

_STRUCTURE: Final = re.compile(rb'["{}]')
_IN_STRING: Final = re.compile(rb'["\\]')


class Frames:
    __slots__ = ("_array", "_sse", "_start")

    def __init__(self) -> None:
        self._start = b""  # white space, until it is known what follows
        self._sse: SseReader | None = None
        self._array: _ArrayReader | None = None

    def feed_data(self, data: bytes) -> list[bytes]:
        if self._sse is not None:
            return self._sse.feed_data(data)
        if self._array is None:
            self._start += data
            first = self._start.lstrip()[:1]
            if not first:
                return []
            data, self._start = self._start, b""
            if first not in (b"[", b"{"):
                self._sse = SseReader()
                return self._sse.feed_data(data)
            self._array = _ArrayReader()
        return self._array.feed(data)

    def close_data(self) -> list[bytes]:
        """The stream is over: a last event may lack its blank line."""
        return self._sse.close_data() if self._sse is not None else []


class _ArrayReader:
    """The objects of a JSON array. Only strings and braces matter; whatever stands between objects is skipped."""

    __slots__ = ("_depth", "_escaped", "_in_string", "_rest")

    def __init__(self) -> None:
        self._rest = bytearray()  # the object not yet ended
        self._depth = 0
        self._in_string = False
        self._escaped = False

    def feed(self, data: bytes) -> list[bytes]:
        found: list[bytes] = []
        start = at = 0
        if self._escaped and data:
            self._escaped = False
            at = 1
        while mark := (_IN_STRING if self._in_string else _STRUCTURE).search(data, at):
            at = mark.end()
            match mark[0]:
                case b'"':
                    self._in_string = not self._in_string
                case b"\\":
                    at += 1
                    self._escaped = at > len(data)
                case b"{":
                    if not self._depth:
                        start = at - 1
                    self._depth += 1
                case _:
                    self._depth -= 1
                    if not self._depth:
                        found.append(bytes(self._rest) + data[start:at])
                        self._rest.clear()
                    self._depth = max(0, self._depth)  # a brace too many is reported by the JSON reader
        if self._depth:
            self._rest += data[start:]
            if len(self._rest) > LIMIT:
                raise UpstreamBroken(f"one piece of the model's stream is larger than {LIMIT} bytes")
        return found
