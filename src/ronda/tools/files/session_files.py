"""The files that one run may read: those that its request brought along, and those of its session, whatever the id."""

from __future__ import annotations

import asyncio
import base64
import binascii
from collections.abc import AsyncIterator, Sequence
from hashlib import blake2b
from urllib.parse import unquote_to_bytes

from msgspec import Struct

from ronda.core.files import FileSource, StoredFile
from ronda.core.parts import File
from ronda.drive import ToolContext
from ronda.errors import BadRequest, NotFound
from ronda.files.file_store import INPUT, USER_UPLOAD, FileStore
from ronda.wire.shared.file_kinds import OCTETS, format_of, mime_type_of

_PIECE = 256 * 1024


class KnownFile(Struct, frozen=True):
    """A file of a run's. Its bytes are in the store, or came with the request, as a data: URL."""

    id: str
    name: str
    format: str
    mime_type: str
    size: int
    purpose: str = "user_data"
    source: FileSource = INPUT
    stored: StoredFile | None = None
    data: str | None = None


class SessionFiles:
    def __init__(self, store: FileStore, request_files: Sequence[File] = ()) -> None:
        """`given` are files of the request besides those that its messages show."""
        self.store = store
        self._request_files = request_files

    async def brought(self, context: ToolContext) -> list[KnownFile]:
        """Those that requests brought along, in the order they came."""
        found: dict[str, KnownFile] = {}
        for file in (*context.files, *self._request_files):
            known = await self._known(context.owner, file)
            if known is not None:
                found.setdefault(known.id, known)
        if not context.session.endswith(context.run.removeprefix("run_")):  # which began with this run, and has none
            for stored in await self.store.of(context.owner, context.session):
                if stored.source == USER_UPLOAD:  # into the session, as a container
                    found.setdefault(stored.id, _of(stored))
        return list(found.values())

    async def _known(self, owner: str, file: File) -> KnownFile | None:
        """None for one that only the model's service knows, or that is gone by now."""
        if file.data is None:
            try:
                return _of(await self.store.find(owner, file.id or ""))
            except NotFound:
                return None
        if not file.data.startswith("data:"):
            return None
        name = file.name or "input_file"
        file_format = file.format or format_of(name)
        size, file_id = file.size, file.id
        if size is None or file_id is None:
            content = await asyncio.to_thread(decode, file.data)
            size, file_id = len(content), content_id(content)
        return KnownFile(
            file_id, name, file_format, media_type(file.data) or mime_type_of(file_format), size, data=file.data
        )

    async def all(self, context: ToolContext) -> list[KnownFile]:
        made = [_of(file) for file in await self.store.of(context.owner, context.session)]
        brought = await self.brought(context)
        return list({file.id: file for file in [*brought, *made]}.values())

    async def find(self, context: ToolContext, file_id: str) -> KnownFile | None:
        known = next((file for file in await self.all(context) if file.id == file_id), None)
        if known is None and file_id in context.whole_results:  # of a session that this conversation was in before
            return await self._known(context.owner, File(id=file_id))
        return known

    async def read(self, file: KnownFile) -> bytes:
        if file.stored is not None:
            return await self.store.read(file.stored)
        return await asyncio.to_thread(decode, file.data or "")

    async def pieces(self, file: KnownFile) -> AsyncIterator[bytes]:
        if file.stored is not None:
            async for piece in self.store.pieces(file.stored):
                yield piece
            return
        data = await self.read(file)
        for index in range(0, len(data), _PIECE):
            yield data[index : index + _PIECE]


def _of(file: StoredFile) -> KnownFile:
    return KnownFile(file.id, file.name, file.format, file.mime_type, file.size, file.purpose, file.source, file)


def content_id(content: bytes) -> str:
    """The id of a file that is kept nowhere but in its conversation: the same wherever the same bytes are."""
    return f"file-{blake2b(content, digest_size=16).hexdigest()}"


def media_type(data_url: str) -> str:
    head = data_url.partition(",")[0]
    return head.removeprefix("data:").partition(";")[0].strip().lower() if head.startswith("data:") else ""


def decode(data_url: str) -> bytes:
    """The content of a data: URL, or of base64 only, as some clients send it."""
    head, comma, body = data_url.partition(",")
    if head.startswith("data:") and comma and ";base64" not in head.lower():
        return unquote_to_bytes(body)
    try:
        return base64.b64decode("".join((body if comma else data_url).split()), validate=True)
    except (binascii.Error, ValueError) as error:
        raise BadRequest(f"the file is no base64: {error}", param="file_data") from error


def as_data_url(content: bytes, mime_type: str) -> str:
    return f"data:{mime_type or OCTETS};base64,{base64.b64encode(content).decode()}"
