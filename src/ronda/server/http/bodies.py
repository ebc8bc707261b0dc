"""How much a request's body may hold, and where it is read: no body keeps the event loop from its other clients.

Decoding is done in C and lets nothing else run meanwhile. So what it costs is bounded before it begins, by looking at the
body piece by piece; large bodies are looked at and read by a thread (`drive.aside`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NoReturn, TypeVar

from ronda.drive.offload import aside
from ronda.errors import TooLarge

T = TypeVar("T")

# Read at once: a body of up to this size, but one of more than so many objects. Checking a schema takes 17 µs for each
# of its objects; in what is smaller than `TINY` there is no room for many.
SMALL: Final = 256 * 1024
SMALL_OBJECTS: Final = 1_000
TINY: Final = 32 * 1024

# Each of these takes about 35 ms to decode, measured with msgspec 0.21 on a machine of 2025.
MAX_VALUES: Final = 100_000  # keys and list elements
MAX_TEXT: Final = (
    16 * 1024 * 1024
)  # bytes of text with escapes or beyond ASCII; base64 has neither, and is ten times as fast
MAX_BETWEEN: Final = 8 * 1024 * 1024  # bytes outside of strings: white space, numbers

_PIECE: Final = 64 * 1024
_LISTS: Final = (b"messages", b"input", b"inputs", b"tools")


async def read_body(body: bytes, read: Callable[[bytes], T]) -> T:
    """What `read` makes of the body. It must not touch anything that the loop's thread changes meanwhile."""
    return read(body) if is_small(body) else await aside(_read, body, read)


def is_small(body: bytes) -> bool:
    return len(body) <= TINY or (len(body) <= SMALL and body.count(b"{") <= SMALL_OBJECTS)


def _read(body: bytes, read: Callable[[bytes], T]) -> T:
    check_bounds(body)
    return read(body)


def check_bounds(body: bytes) -> None:
    """Raises TooLarge for a body that would take too long to decode. It need not be JSON."""
    if len(body) <= MAX_BETWEEN and sum([body.count(sign) for sign in (b",", b"[", b"{")]) <= MAX_VALUES:
        return  # even if all of that stood outside of strings
    values = text = between = 0
    inside = False  # a string goes on into this piece …
    is_slow = False  # … which has an escape, or something beyond ASCII …
    before = 0  # … or has not had one so far, in so many bytes
    escape = b""  # a backslash that ended the piece before
    for index in range(0, len(body), _PIECE):
        piece = escape + body[index : index + _PIECE]
        plain = piece.isascii() and b"\\" not in piece
        escape = b""
        if not plain:
            piece = piece.replace(rb"\\", b"").replace(rb"\"", b"")  # the quotes that are left begin and end strings
            if piece.endswith(b"\\"):
                piece, escape = piece[:-1], b"\\"
        runs = piece.split(b'"')
        if not plain or (inside and is_slow):
            text += before + _PIECE
            is_slow, before = True, 0
        else:
            is_slow, before = False, before + _PIECE if inside and len(runs) == 1 else _PIECE
        outside = b"".join(runs[inside::2])
        inside ^= len(runs) % 2 == 0
        between += len(outside)
        values += sum([outside.count(sign) for sign in (b",", b"[", b"{")])
        if values > MAX_VALUES:
            _refuse(body, index, f"more than {MAX_VALUES} keys and list elements")
        if text > MAX_TEXT:
            _refuse(body, index, f"more than {MAX_TEXT} bytes of text that has escapes or is not ASCII, as base64 is")
        if between > MAX_BETWEEN:
            _refuse(body, index, f"more than {MAX_BETWEEN} bytes of white space and numbers")


def _refuse(body: bytes, at: int, what: str) -> NoReturn:
    """Names the field that it is in, as far as can be told without reading it all: the last list that began before."""
    began = {body.rfind(b'"%b"%b' % (name, sign), 0, at + _PIECE): name for name in _LISTS for sign in (b":[", b": [")}
    last = max(began)
    name = None if last < 0 else began[last].decode()
    where = "the body" if name is None else f"'{name}'"
    raise TooLarge(f"{where} has {what}; that is more than this server takes", param=name)
