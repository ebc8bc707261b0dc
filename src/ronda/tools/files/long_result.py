"""A result that is too long for a model: it is shown the beginning and the end, and reads the rest from a file of its session."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final
from weakref import WeakKeyDictionary

from msgspec.structs import replace

from ronda.core.files import FileSource, StoredFile
from ronda.core.plan import ToolSpec
from ronda.drive import Tool, ToolContext, ToolOutput
from ronda.drive.tools import as_text
from ronda.errors import RondaError
from ronda.files.file_store import MADE, FileFacts, FileStore
from ronda.sandbox.names import clean_name
from ronda.tools.files.reading import MAX_SLICE, READ, ReadFileTool
from ronda.tools.files.session_files import KnownFile, SessionFiles

if TYPE_CHECKING:
    from ronda.tools.files.documents import ExtractedText

_PIECE: Final = 128 * 1024  # characters that are encoded in one go
_LONGEST_LEFT: Final = 1 << 20  # characters that a model is shown although there was no room to keep them
_WAY_OUT: Final = "; results are not kept for ever, so call the tool again if you need this one"


class LongResultFiles:
    """Keeps them in a store; `reader` reads nothing else. So it needs no label of its own: whatever it reads, the run has been
    marked by the tool whose result it is."""

    def __init__(self, store: FileStore, most: int | None = None) -> None:
        """`most` are the characters that a model is shown of a result, and may read of it in one call."""
        self._store = store
        # A Runner's requests may each have a loop of their own.
        self._rooms: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Semaphore] = WeakKeyDictionary()
        slice = MAX_SLICE if most is None else min(most, MAX_SLICE)
        self.reader: Tool = ReadFileTool(_MadeFiles(store), _no_document, ("files",), slice, _WAY_OUT)

    async def shorten(self, output: ToolOutput, most: int, spec: ToolSpec, context: ToolContext) -> ToolOutput:
        text = output.content
        facts = FileFacts(
            clean_name(f"{spec.name}-{context.call_id}.txt"),
            "tool_result",
            source=FileSource(spec.name, context.round),
            session=_session(context),
        )
        half = most // 2
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
            f"{min(half + most, len(text) - half)}. …\n"
        )
        return replace(output, content=first + left_out + where + last, whole=stored.id)

    async def _keep(self, owner: str, text: str, facts: FileFacts) -> StoredFile:
        """Piece by piece, and one text after the other: 200 MB take seconds to encode, and as much memory again."""
        room = self._rooms.setdefault(asyncio.get_running_loop(), asyncio.Semaphore(1))
        async with room, self._store.receive(owner) as upload:
            for at in range(0, len(text), _PIECE):
                await upload.write(text[at : at + _PIECE].encode("utf-8", "replace"))
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
