"""Files that a request brings, by id, inline or by address, before its run begins → what the model is sent, or told about.

A file goes to the model as it is where the model's API takes such files. Any other is listed: a system message at the top of the
conversation says what there is and shows the beginning of each text; tools read the rest, and code finds the files in its folder.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from ronda.core.parts import File, Image, Turn, UserPart, UserTurn
from ronda.drive import Capabilities
from ronda.errors import BadRequest, NotFound, TooLarge
from ronda.files.file_store import FileStore
from ronda.sandbox.names import clean_names
from ronda.server.services.file_addresses import named_files, with_files
from ronda.tools.files.documents import Documents, ExtractedText, is_document
from ronda.tools.files.reading import READ
from ronda.tools.files.session_files import as_data_url, content_id, decode, media_type
from ronda.wire.shared.file_kinds import OCTETS, Utf8Check, format_of, mime_type_of
from ronda.wire.upstream.input_files import is_listed

if TYPE_CHECKING:
    from ronda.core.files import StoredFile
    from ronda.server.config import ServerConfig

PREVIEW_CHARS: Final = 4096
PREVIEWS_CHARS: Final = 32_768  # of all files together
_LONGEST_INLINE: Final = 64 * 1024 * 1024
_LONGEST_SENT: Final = 32 * 1024 * 1024  # of a file that goes to the model as it is: services take no more
_IMAGES: Final = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
# As this server names files: no other service has such ids.
_OUR_ID: Final = re.compile(r"file-[0-9a-f]{32}|file_[0-9a-f]{12}_r\d+_\d+")


class InputFiles:
    """The files of one owner's request, for a model that can do so much. `runs_code`: code is to find them, too."""

    def __init__(
        self, store: FileStore, documents: Documents, owner: str, able: Capabilities, *, runs_code: bool
    ) -> None:
        self._store = store
        self._documents = documents
        self._owner = owner
        self._able = able
        self._runs_code = runs_code

    async def settle(self, config: ServerConfig, turns: tuple[Turn, ...]) -> tuple[Turn, ...]:
        """The turns with what the model is sent in the place of each file. Raises BadRequest."""
        if (self._runs_code or not self._able.takes_addresses) and (named := named_files(turns)):
            turns = await with_files(config, turns, named)
        return tuple([await self._settled(turn) if type(turn) is UserTurn else turn for turn in turns])

    async def _settled(self, turn: UserTurn) -> UserTurn:
        parts: list[UserPart] = []
        for part in turn.parts:
            parts += await self._parts(part) if type(part) is File and not is_listed(part) else (part,)
        # A turn that says something else than before cannot be sent in the words in which it came.
        return turn if tuple(parts) == turn.parts else replace(turn, parts=tuple(parts), native=None)

    async def _parts(self, file: File) -> tuple[UserPart, ...]:
        if file.data is not None:
            return (await self._inline(file),)
        stored = await self.find(file.id or "")
        if stored is None:
            return (file,)
        if stored.size <= _LONGEST_SENT and (stored.mime_type in _IMAGES or self._able.takes_file(stored.mime_type)):
            data = as_data_url(await self._store.read(stored), stored.mime_type)
            if stored.mime_type not in _IMAGES:
                return (File(data, file.name or stored.name),)
            return (Image(data), await self.list_file(stored)) if self._runs_code else (Image(data),)
        return (await self.list_file(stored),)

    async def find(self, file_id: str) -> StoredFile | None:
        """None for one that may be of the model's own service."""
        try:
            return await self._store.find(self._owner, file_id)
        except NotFound:
            if self._able.keeps_files and not _OUR_ID.fullmatch(file_id):
                return None
            raise BadRequest(
                f"Input file `{file_id[:200]}` was not found.", param="file_id", code="file_not_found"
            ) from None

    async def list_file(self, stored: StoredFile) -> File:
        file = File(None, stored.name, stored.id, stored.size, stored.format)
        if is_document(stored.format):
            read = partial(self._store.read, stored)
            return _with_text(file, await self._documents.extract(stored.hash, stored.format, stored.size, read))
        if not stored.is_text:
            return file
        return replace(file, preview=_beginning(await self._store.read(stored, most=PREVIEW_CHARS * 4 + 4)))

    async def _inline(self, file: File) -> File:
        data = file.data or ""
        if data.startswith(("http://", "https://")):
            return file  # the model's service fetches it
        name = file.name or "input_file"
        kind = media_type(data) or mime_type_of(format_of(name))
        if kind.startswith("image/") or self._able.takes_file(kind):
            return file
        if len(data) > _LONGEST_INLINE * 4 // 3 + 100:
            raise TooLarge(
                f"the file '{name[:100]}' has more than the {_LONGEST_INLINE} bytes that may come inline; upload it"
            )
        content = await asyncio.to_thread(decode, data)
        listed = await asyncio.to_thread(_listed_inline, data, content, name, kind)
        listed = replace(listed, marks=file.marks)
        if not is_document(listed.format):
            return listed

        async def read() -> bytes:
            return content

        return _with_text(listed, await self._documents.extract(listed.id or "", listed.format, len(content), read))


def _with_text(file: File, found: ExtractedText) -> File:
    return replace(file, preview=found.text[:PREVIEW_CHARS], problem=found.problem)


def _listed_inline(data: str, content: bytes, name: str, kind: str) -> File:
    check = Utf8Check()
    check.feed(content, final=True)
    text = _beginning(content[: PREVIEW_CHARS * 4 + 4]) if check.is_text else ""
    url = data if data.startswith("data:") else as_data_url(content, kind)
    return File(url, name, content_id(content), len(content), format_of(name), text)


def _beginning(data: bytes) -> str:
    return data.decode("utf-8", "ignore")[:PREVIEW_CHARS]


def mount_names(files: Sequence[str]) -> list[str]:
    """Under what names files stand in a workspace, for each of these. The same for every caller."""
    return clean_names(["skills", *files])[1:]


def describe_files(files: Sequence[File], *, runs_code: bool, may_read: bool) -> str:
    """What a model is told about the files that came along."""
    names = [file.name or "input_file" for file in files]
    lines = ["The user has attached files."]
    if runs_code:
        lines.append("In the working directory of Python and shell they are:")
        lines += [f"- {name} -> ./{place}" for name, place in zip(names, mount_names(names), strict=True)]
    if may_read:
        lines.append(f"Their ids are for the tool {READ}, which reads their text; they are not names of files.")
    left = PREVIEWS_CHARS
    for file, name in zip(files, names, strict=True):
        if not is_listed(file):
            continue
        kind = media_type(file.data or "") or mime_type_of(file.format)
        lines += ["", f"File: {name}", f"id: {file.id}", f"type: {kind or OCTETS}, {file.size} bytes"]
        shown = file.preview[:left]
        left -= len(shown)
        if shown:
            lines += ["Text:", "<<<", shown, ">>>"]
        if file.problem:
            lines.append(f"({file.problem})")
        elif shown and is_document(file.format) and len(file.preview) < PREVIEW_CHARS:
            lines.append(f"(That is the text of the {file.format} file.)")
        elif file.preview and len(shown.encode()) < (file.size or 0):
            on = f" Read on with {READ} from start={len(shown)}." if may_read else ""
            lines.append(f"(Only the first {len(shown)} characters are shown.{on})")
        elif not file.preview and file.size:
            lines.append("(This file is not plain text.)")
    return "\n".join(lines)
