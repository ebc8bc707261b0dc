"""Packed bytes become plain ones as they come: for servers and proxies that compress without being asked.

What is packed in a way that needs another library is refused: we say `identity`, so it is the server's fault.
"""

from __future__ import annotations

import zlib

_UNREADABLE = frozenset([b"br", b"zstd", b"compress", b"x-compress", b"dcb", b"dcz"])
_GZIP = 0x1F  # the first byte of each file in it


class TooLarge(Exception):
    """There is more in it than the limit allows."""


class Unreadable(Exception):
    """Packed in a way we cannot read."""


class Inflater:
    """`feed` while something comes, then `finish`."""

    __slots__ = ("_began", "_deflate", "_most", "_unpack")

    def __init__(self, deflate: bool, limit: int) -> None:
        self._deflate = deflate
        self._most = limit  # bytes that one `feed` may give
        self._began = False
        self._unpack: zlib._Decompress | None = None

    def feed(self, data: bytes) -> bytes:
        plain: list[bytes] = []
        room = self._most
        while data:
            if self._unpack is None:
                if self._began and data[0] != _GZIP:  # what is behind the end and no further file, is nothing
                    break
                self._unpack = zlib.decompressobj(self._window(data[0]))
                self._began = True
            piece = self._unpack.decompress(data, room + 1)
            room -= len(piece)
            if room < 0 or self._unpack.unconsumed_tail:
                raise TooLarge
            plain.append(piece)
            data = self._unpack.unused_data
            if self._unpack.eof:
                self._unpack = None
        return plain[0] if len(plain) == 1 else b"".join(plain)

    def finish(self) -> None:
        if self._unpack is not None:
            raise zlib.error("its compressed end is missing")

    def _window(self, first: int) -> int:
        """`deflate` means zlib's head before it, and to some servers none; gzip's is seen for what it is."""
        bare = self._deflate and first != _GZIP and first & 0x0F != 8
        return -zlib.MAX_WBITS if bare else zlib.MAX_WBITS | 32


def inflater(coding: bytes, limit: int) -> Inflater | None:
    """None where there is nothing to unpack: a word that names no compression (`utf-8`) is a mistake that does no harm."""
    names = [name for name in coding.lower().replace(b" ", b"").split(b",") if name not in (b"", b"identity")]
    packed = [name for name in names if name in (b"gzip", b"x-gzip", b"deflate")]
    if len(packed) > 1 or not _UNREADABLE.isdisjoint(names):
        raise Unreadable(f"is compressed as {coding.decode('latin-1')!r}, which was not asked for")
    return Inflater(packed[0] == b"deflate", limit) if packed else None
