"""Request bodies, within bounds."""

from __future__ import annotations

from starlette.requests import Request

from ronda.errors import BadRequest, TooLarge


class WrongType(BadRequest):
    status_hint = 415


async def read_body(request: Request, limit: int) -> bytes:
    # A page of another origin can post text/plain without being asked for permission, JSON it cannot.
    kind = request.headers.get("content-type", "application/json")
    if "json" not in kind:
        raise WrongType(f"the body must be sent as application/json, not {kind[:100]}")
    length = request.headers.get("content-length", "")
    if length.isdigit() and int(length) > limit:
        raise TooLarge(f"the body has {length} bytes; this server takes {limit}")
    if length.isdigit():
        return await request.body()
    pieces: list[bytes] = []
    size = 0
    async for piece in request.stream():
        size += len(piece)
        if size > limit:
            raise TooLarge(f"the body has more than the {limit} bytes this server takes")
        pieces.append(piece)
    return b"".join(pieces)
