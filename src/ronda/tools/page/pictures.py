"""Bytes that claim to be a picture → what they are: kind, width and height, read from the first of them; or nothing.

By hand, for these few facts are needed where no imaging library is installed. Nothing is decoded: a picture of a few kilobytes
can unpack to gigabytes, so its size is known before it is unpacked.
"""

from __future__ import annotations

import base64
import binascii
import struct
from typing import Final

from msgspec import Struct

from ronda.core.parts import Image

MAX_BYTES: Final = 20 * 1024 * 1024
MAX_PIXELS: Final = 50_000_000  # a camera's; 200 MB when it is decoded
MAX_SIDE: Final = 30_000
# Bytes of one that a model is shown: providers take 5 MB in base64, and refuse the whole request else.
MAX_SHOWN: Final = 3_500_000

ENDINGS: Final = {"image/png": "png", "image/jpeg": "jpg", "image/gif": "gif", "image/webp": "webp"}
CONTENT_TYPES: Final = {ending: kind for kind, ending in ENDINGS.items()}


class Picture(Struct, frozen=True):
    """A picture as it came. `content_type` is what its bytes say, whatever was claimed."""

    data: bytes
    content_type: str
    width: int
    height: int

    @property
    def ending(self) -> str:
        return ENDINGS[self.content_type]

    @property
    def url(self) -> str:
        return f"data:{self.content_type};base64,{base64.b64encode(self.data).decode()}"

    @property
    def attachment(self) -> Image | None:
        """As a model is shown it; None if it is too large for that."""
        return Image(self.url) if len(self.data) <= MAX_SHOWN else None


def read_picture(data: bytes) -> Picture | None:
    """None for what is no GIF, JPEG, PNG or WebP, or is too large to unpack."""
    if len(data) > MAX_BYTES:
        return None
    try:
        found = _png(data) or _gif(data) or _webp(data) or _jpeg(data)
    except (struct.error, IndexError):
        return None
    if found is None:
        return None
    kind, width, height = found
    if not (0 < width <= MAX_SIDE and 0 < height <= MAX_SIDE and width * height <= MAX_PIXELS):
        return None
    return Picture(data, kind, width, height)


def read_data_url(url: str) -> Picture | None:
    """A picture inside a data: URL."""
    head, comma, body = url.partition(",")
    if not comma or not head.lower().startswith("data:") or not head.lower().endswith(";base64"):
        return None
    if len(body) > MAX_BYTES * 4 // 3 + 4:
        return None
    try:
        return read_picture(base64.b64decode(body, validate=True))
    except (binascii.Error, ValueError):
        return None


_Found = tuple[str, int, int] | None


def _png(data: bytes) -> _Found:
    if not data.startswith(b"\x89PNG\r\n\x1a\n") or data[12:16] != b"IHDR":
        return None
    return ("image/png", *struct.unpack(">II", data[16:24]))


def _gif(data: bytes) -> _Found:
    if not data.startswith((b"GIF87a", b"GIF89a")):
        return None
    return ("image/gif", *struct.unpack("<HH", data[6:10]))


def _webp(data: bytes) -> _Found:
    if data[:4] != b"RIFF" or data[8:12] != b"WEBP":
        return None
    match data[12:16]:
        case b"VP8X":
            sides = (int.from_bytes(data[at : at + 3], "little") + 1 for at in (24, 27))
        case b"VP8L":
            bits = int.from_bytes(data[21:25], "little")
            sides = ((bits >> shift & 0x3FFF) + 1 for shift in (0, 14))
        case b"VP8 ":
            sides = (side & 0x3FFF for side in struct.unpack("<HH", data[26:30]))
        case _:
            return None
    width, height = sides
    return "image/webp", width, height


# Markers of the frames that say how large the picture is; C4, C8 and CC among them are something else.
_FRAMES: Final = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}


def _jpeg(data: bytes) -> _Found:
    if not data.startswith(b"\xff\xd8\xff"):
        return None
    at = 2
    while at < len(data):
        if data[at] != 0xFF:
            return None
        marker = data[at + 1]
        if marker == 0xFF:  # filling
            at += 1
            continue
        if marker in _FRAMES:
            height, width = struct.unpack(">HH", data[at + 5 : at + 9])
            return "image/jpeg", width, height
        at += 2 + struct.unpack(">H", data[at + 2 : at + 4])[0]
    return None
