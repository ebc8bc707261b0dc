"""Links to files that need no key: Mistral's clients ask for one, for so many hours, and hand it on.

A link says whose file it is and until when, under a signature with a secret of the store: nothing is kept for it, and any process
that shares the store takes it.
"""

from __future__ import annotations

import base64
import binascii
import hmac
import time
from typing import Final

import msgspec
from msgspec import Struct
from starlette.types import ASGIApp

from ronda.errors import BadRequest, NotFound
from ronda.files.file_store import FileStore
from ronda.server.doors.own.files import send_file
from ronda.server.http.auth import Caller, Unauthorized
from ronda.server.http.incoming import Incoming, Json
from ronda.server.services.callers import Callers
from ronda.store.catalog import Catalog
from ronda.wire.codec.json import encode

_SECRET: Final = "file links"
_MOST_HOURS: Final = 24 * 7


class _Link(Struct, frozen=True, array_like=True):
    owner: str
    id: str
    until: int
    key: str = ""  # the id of the API key that it was made with: it ends with the key


class FileLinks:
    def __init__(self, files: FileStore, catalog: Catalog, callers: Callers) -> None:
        self._files = files
        self._catalog = catalog
        self._callers = callers

    async def create(self, incoming: Incoming) -> ASGIApp:
        hours = incoming.query.get("expiry", ["24"])[-1]
        if not (hours.isascii() and hours.isdigit() and len(hours) < 6 and 1 <= int(hours) <= _MOST_HOURS):
            raise BadRequest(f"'expiry' must be a number of hours from 1 to {_MOST_HOURS}", param="expiry")
        file = await self._files.find(incoming.owner, incoming.places["id"])
        caller = await self._callers.caller_of(incoming)
        until = int(time.time()) + int(hours) * 3600
        link = msgspec.msgpack.encode(_Link(caller.owner, file.id, until, caller.key))
        signature = hmac.digest(await self._catalog.secret(_SECRET), link, "sha256")
        token = base64.urlsafe_b64encode(signature + link).decode().rstrip("=")
        return Json(encode({"url": f"{incoming.base}/v1/file-links/{token}"}))

    async def content(self, incoming: Incoming) -> ASGIApp:
        """For every client that has the link."""
        text = incoming.places["token"]
        try:
            data = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
        except (binascii.Error, ValueError):
            raise _no_link() from None
        signature, written = data[:32], data[32:]
        if not hmac.compare_digest(signature, hmac.digest(await self._catalog.secret(_SECRET), written, "sha256")):
            raise _no_link()
        link = msgspec.msgpack.decode(written, type=_Link)
        if link.until <= time.time():
            raise _no_link()
        try:
            await self._callers.check_caller(Caller(link.owner, link.key))
        except Unauthorized:
            raise _no_link() from None
        return send_file(self._files, incoming, await self._files.find(link.owner, link.id))


def _no_link() -> NotFound:
    return NotFound("this link leads to no file, or is over", code="file_not_found")
