"""Bodies that are forms with files in them, read as they come in: fields are kept, a file's bytes go to their taker."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Final, TypeAlias

from ronda.errors import BadRequest, TooLarge
from ronda.server.http.incoming import Incoming, WrongType
from ronda.wire.codec.multipart import FormEvent, FormReader, PartBegan, PartData, PartEnded, boundary_of

_LONGEST_FIELD: Final = 64 * 1024
_BEGINNING: Final = 1024  # bytes by which a form is known whose type says something else

# Takes the bytes of a file, piece by piece.
Take: TypeAlias = Callable[[bytes], Awaitable[None]]


async def read_parts(
    incoming: Incoming, limit: int, begin: Callable[[str, str, str], Awaitable[Take]]
) -> dict[str, str]:
    """The form's fields. `begin` is called for each file: the field it is in, its name and its type.

    Of a field that is there twice, the last counts.
    """
    fields: dict[str, str] = {}
    field, pieces, size = "", list[bytes](), 0
    take: Take | None = None
    async for event in _events(incoming, limit):
        match event:
            case PartBegan(name, filename, content_type):
                field, pieces, size = name, [], 0
                take = None if filename is None else await begin(name, filename, content_type)
            case PartData(data) if take is not None:
                await take(data)
            case PartData(data):
                pieces.append(data)
                size += len(data)
                if size > _LONGEST_FIELD:
                    raise TooLarge(
                        f"the form's field '{field[:100]}' has more than {_LONGEST_FIELD} bytes", param=field
                    )
            case PartEnded():
                if take is None:
                    fields[field] = b"".join(pieces).decode("utf-8", "replace")
    return fields


async def _events(incoming: Incoming, limit: int) -> AsyncIterator[FormEvent]:
    length = incoming.headers.get(b"content-length", b"")
    if length.isdigit() and int(length) > limit:
        raise TooLarge(f"the body has {int(length)} bytes; this server takes {limit}")
    reader: FormReader | None = None
    beginning, size = b"", 0
    async for piece in incoming.pieces():
        size += len(piece)
        if size > limit:
            raise TooLarge(f"the body has more than the {limit} bytes this server takes")
        if reader is None:
            beginning += piece
            reader = _reader(incoming, beginning)
            if reader is None:
                continue
            piece = beginning
        for event in reader.feed(piece):
            yield event
    if reader is None:
        raise not_a_form(incoming)
    reader.finish()


def _reader(incoming: Incoming, beginning: bytes) -> FormReader | None:
    """None while too little is there to tell."""
    boundary = boundary_of(incoming.header(b"content-type") or "", beginning)
    if boundary is None and len(beginning) >= _BEGINNING:
        raise not_a_form(incoming)
    return None if boundary is None else FormReader(boundary)


def not_a_form(incoming: Incoming) -> BadRequest:
    content_type = incoming.header(b"content-type") or "nothing"
    return WrongType(f"the body must be sent as multipart/form-data, not as {content_type[:100]}")
