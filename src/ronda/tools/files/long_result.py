"""A result that is too long for a model: it is shown the beginning and the end, and reads the rest from a file of its session."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Final
from weakref import WeakKeyDictionary

from msgspec.structs import replace

from ronda.core.files import FileSource, StoredFile
from ronda.core.plan import ToolSpec
from ronda.drive import Tool, ToolContext, ToolOutput
from ronda.drive.offload import aside
from ronda.drive.tools import as_text
from ronda.errors import RondaError
from ronda.files.file_store import MADE, FileFacts, FileStore
from ronda.files.local_files import folder_files, temporary_files
from ronda.sandbox.names import clean_name
from ronda.tools.files.reading import MAX_SLICE, READ, ReadFileTool
from ronda.tools.files.session_files import KnownFile, SessionFiles

if TYPE_CHECKING:
    from ronda.journal import Journal
    from ronda.tools.files.documents import ExtractedText

_PIECE: Final = 128 * 1024  # characters that are encoded in one go
_LONGEST_LEFT: Final = 1 << 20  # characters that a model is shown although there was no room to keep them
_WAY_OUT: Final = "; results are not kept for ever, so call the tool again if you need this one"


class LongResultFiles:
    """Keeps them in a store; `reader` reads nothing else. So it needs no label of its own: whatever it reads, the run has been
    marked by the tool whose result it is."""

    def __init__(self, store: FileStore, limit: int | None = None, redact: Callable[[str], str] | None = None) -> None:
        """`limit` are the characters that a model is shown of a result, and may read of it in one call. `redact`: what becomes of
        a result before it is kept."""
        self._store = store
        self._redact = redact
        # A Runner's requests may each have a loop of their own.
        self._rooms: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Semaphore] = WeakKeyDictionary()
        slice_size = MAX_SLICE if limit is None else min(limit, MAX_SLICE)
        self.reader: Tool = ReadFileTool(_MadeFiles(store), _no_document, ("files",), slice_size, _WAY_OUT)

    async def shorten(self, output: ToolOutput, limit: int, spec: ToolSpec, context: ToolContext) -> ToolOutput:
        text = output.content if self._redact is None else await aside(self._redact, output.content)
        facts = FileFacts(
            clean_name(f"{spec.name}-{context.call_id}.txt"),
            "tool_result",
            source=FileSource(spec.name, context.round),
            session=_session(context),
        )
        half = limit // 2
        first, last = as_text(text[:half]), as_text(text[-half:])
        left_out = f"\n… {len(text) - 2 * half} of {len(text)} characters are left out here. "
        try:
            stored = await self._keep(context.owner, text, facts)
        except RondaError:  # there is no room for it: better too long than lost, but for what no model could read
            if len(text) <= _LONGEST_LEFT:
                return output
            return replace(output, content=f"{first}{left_out}They could not be kept. …\n{last}")
        where = (
            f"All of them are the file {stored.id}: {READ} reads from `start` to `end`, such as {half} to "
            f"{min(half + limit, len(text) - half)}. …\n"
        )
        return replace(output, content=first + left_out + where + last, whole=stored.id)

    async def _keep(self, owner: str, text: str, facts: FileFacts) -> StoredFile:
        """Piece by piece, and one text after the other: 200 MB take seconds to encode, and as much memory again."""
        room = self._rooms.setdefault(asyncio.get_running_loop(), asyncio.Semaphore(1))
        async with room, self._store.receive(owner) as upload:
            for index in range(0, len(text), _PIECE):
                await upload.write(text[index : index + _PIECE].encode("utf-8", "replace"))
                await asyncio.sleep(0)
            return await upload.finish(facts)


def _session(context: ToolContext) -> str:
    """A run of the library's may be in none: then its results are its own."""
    return context.session or context.run


class _MadeFiles(SessionFiles):
    async def all(self, context: ToolContext) -> list[KnownFile]:
        in_session = replace(context, session=_session(context))
        return [file for file in await super().all(in_session) if file.purpose in MADE]


async def _no_document(context: ToolContext, file: KnownFile) -> ExtractedText | None:
    return None


# ---- where a run of the library's keeps them -----------------------------------------------------------------------------


def open_long_results(
    place: str | os.PathLike[str] | FileStore | None, journal: Journal | None, limit: int | None
) -> LongResultFiles:
    """Where a program's run keeps them. `limit` are the characters that the model is shown of a result.

        result_files=FOLDER              in this folder, laid out as a server's data folder: one may be shared
        journal=SqliteJournal(path)      in the folder path-files: any process that resumes the run reads them there. The
                                         journal of a server has the server's own files next to it
        neither                          in a temporary folder of this process, which goes with it

    Not in the journal itself: its events are read whole to resume a run, and a result that no call reads on in would be read
    each time. Not in a folder of the run's: the next run that is given its messages as `history` may want to read on.
    """
    if isinstance(place, FileStore):
        return LongResultFiles(place, limit)
    folder = _folder_for(journal) if place is None and journal is not None else place
    return LongResultFiles(temporary_files() if folder is None else folder_files(folder), limit)


def _folder_for(journal: Journal) -> str | None:
    from ronda.journal.sqlite import SqliteJournal
    from ronda.store.sqlite import MEMORY

    if not isinstance(journal, SqliteJournal) or journal.path == MEMORY:
        return None
    folder, name = os.path.split(journal.path)
    is_servers = name == "journal.db" and os.path.exists(os.path.join(folder, "catalog.db"))
    return folder if is_servers else f"{journal.path}-files"
