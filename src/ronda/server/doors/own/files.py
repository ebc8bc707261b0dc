"""/v1/files: files that clients keep here, in the shape of whichever API their library speaks."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Final

from starlette.types import ASGIApp, Receive, Scope, Send

from ronda.core.files import StoredFile
from ronda.errors import BadRequest, NotProduced
from ronda.files.file_store import FileFacts, FileStore
from ronda.server.doors.shapes import with_shape
from ronda.server.http.forms import Take, read_parts
from ronda.server.http.incoming import Header, Incoming, Json
from ronda.store import StoreError
from ronda.wire.resources.files import (
    FileShape,
    content_disposition,
    read_form,
    shape_of,
    write_deleted,
    write_file,
    write_page,
)
from ronda.wire.shared.file_kinds import OCTETS
from ronda.wire.shared.made_files import is_placeholder

log = logging.getLogger("ronda.server")

TIDY_SECONDS: Final = 3600.0
# What a browser says of a request whose answer it would show as a page, or in a frame of one.
_PAGES: Final = frozenset({"document", "iframe", "frame", "object", "embed"})
_AROUND: Final = 1024 * 1024  # bytes of a form besides its file

# What a model or a stranger wrote can do nothing in the server's name, wherever a browser has opened it.
_HARMLESS: Final[tuple[Header, ...]] = (
    (b"x-content-type-options", b"nosniff"),
    (b"content-security-policy", b"sandbox; default-src 'none'"),
)


class FilesDoor:
    def __init__(self, files: FileStore) -> None:
        self._files = files

    @with_shape(shape_of)
    async def upload(self, incoming: Incoming, shape: FileShape) -> ASGIApp:
        def describe(facts: FileFacts, fields: Mapping[str, str]) -> FileFacts:
            form = read_form(fields, shape)
            return FileFacts(facts.name, form.purpose, facts.mime_type, lifetime=form.lifetime)

        return Json(write_file(await receive_file(self._files, incoming, describe), shape))

    @with_shape(shape_of)
    async def list_files(self, incoming: Incoming, shape: FileShape) -> ASGIApp:
        return Json(write_page(await self._files.of(incoming.owner), incoming.query, shape))

    @with_shape(shape_of)
    async def get(self, incoming: Incoming, shape: FileShape) -> ASGIApp:
        return Json(write_file(await self._files.find(incoming.owner, incoming.places["id"]), shape))

    @with_shape(shape_of)
    async def delete(self, incoming: Incoming, shape: FileShape) -> ASGIApp:
        await self._files.delete(incoming.owner, incoming.places["id"])
        return Json(write_deleted(incoming.places["id"], shape))

    @with_shape(shape_of)
    async def content(self, incoming: Incoming, shape: FileShape) -> ASGIApp:
        file_id = incoming.places["id"]
        if is_placeholder(file_id):
            raise NotProduced(f"File '{file_id}' was not produced: there is no content", code="not_produced")
        return send_file(self._files, incoming, await self._files.find(incoming.owner, file_id))


async def receive_file(
    files: FileStore, incoming: Incoming, describe: Callable[[FileFacts, Mapping[str, str]], FileFacts]
) -> StoredFile:
    """The file of a form. `describe` says what it is to be kept as, by what is known of it and by the form's fields."""
    facts: FileFacts | None = None
    async with files.receive(incoming.owner) as coming:

        async def begin(field: str, name: str, content_type: str) -> Take:
            nonlocal facts
            if field != "file" or facts is not None:
                raise BadRequest(
                    f"the form must have one file, in its field `file`; `{field[:100]}` is another", param=field
                )
            facts = FileFacts(file_name(name), mime_type=content_type.partition(";")[0].strip().lower()[:200])
            return coming.write

        fields = await read_parts(incoming, files.limits.size + _AROUND, begin)
        if facts is None:
            raise BadRequest("Missing required multipart field `file`.", param="file")
        return await coming.finish(describe(facts, fields))


def file_name(name: str) -> str:
    """As the client calls it, without folders and what no name may hold; it is never the name of a file on this machine."""
    last = name.replace("\\", "/").rstrip("/").rpartition("/")[2]
    return "".join([sign for sign in last if sign.isprintable()])[:255] or "input_file"


def send_file(files: FileStore, incoming: Incoming, file: StoredFile) -> ASGIApp:
    # Mistral's client takes nothing else, and says so.
    wants_octets = (incoming.header(b"accept") or "").strip().lower() == OCTETS
    is_page = incoming.header(b"sec-fetch-dest") in _PAGES
    disposition = content_disposition(file.name, "attachment" if is_page else "inline")
    return FileContent(files, file, OCTETS if wants_octets else _content_type(file), disposition)


def _content_type(file: StoredFile) -> str:
    known = file.mime_type if file.mime_type.isascii() and file.mime_type.isprintable() else OCTETS
    return f"{known}; charset=utf-8" if file.is_text and known.startswith("text/") else known


async def tidy_files(sweep: Callable[[], Awaitable[None]]) -> None:
    """Removes what has expired, and what servers that were killed have left behind."""
    try:
        await sweep()
    except (StoreError, OSError) as error:
        log.warning("files that have expired cannot be removed: %s", error)


class FileContent:
    """A file's bytes, as fast as they are taken."""

    def __init__(self, store: FileStore, file: StoredFile, content_type: str, disposition: str) -> None:
        self._store = store
        self._file = file
        self._headers: list[Header] = [
            (b"content-type", content_type.encode("latin-1", "replace")),
            (b"content-length", b"%d" % file.size),
            (b"content-disposition", disposition.encode("latin-1", "replace")),
            *_HARMLESS,
        ]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": self._headers})
        if scope["method"] != "HEAD":
            async for piece in self._store.pieces(self._file):
                await send({"type": "http.response.body", "body": piece, "more_body": True})
        await send({"type": "http.response.body", "body": b""})
