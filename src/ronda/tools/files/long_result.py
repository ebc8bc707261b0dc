"""A result that is too long for a model: it is shown the beginning and the end, and reads the rest from a file of its session."""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from ronda.core.files import FileSource
from ronda.core.plan import ToolSpec
from ronda.drive import MOST_SHOWN, Tool, ToolContext, ToolOutput
from ronda.drive.tools import as_text
from ronda.errors import RondaError
from ronda.files.file_store import FileFacts, FileStore
from ronda.sandbox.workspace import clean_name
from ronda.tools.files.documents import Extracted
from ronda.tools.files.reading import READ, ReadFileTool
from ronda.tools.files.session_files import KnownFile, SessionFiles

_MADE: Final = ("tool_result", "agent_output")  # purposes of files that tools made


class LongResultFiles:
    """Keeps them in a store; `reader` reads nothing else. So it needs no label of its own: whatever it reads, the run has been
    marked by the tool whose result it is."""

    def __init__(self, store: FileStore) -> None:
        self._store = store
        self.reader: Tool = ReadFileTool(_MadeFiles(store), _no_document, labels=("files",))

    async def shorten(self, output: ToolOutput, spec: ToolSpec, context: ToolContext) -> ToolOutput:
        text = as_text(output.content)
        facts = FileFacts(
            clean_name(f"{spec.name}-{context.call_id}.txt"),
            "tool_result",
            source=FileSource(spec.name, context.round),
            session=context.session,
        )
        try:
            stored = await self._store.add(context.owner, text.encode(), facts)
        except RondaError:  # there is no room for it: better too long than lost
            return output
        half = MOST_SHOWN // 2
        note = (
            f"\n… {len(text) - 2 * half} of {len(text)} characters are left out here. All of them are the file {stored.id}: "
            f"{READ} reads from `start` to `end`, such as {half} to {len(text) - half}. …\n"
        )
        return replace(output, content=text[:half] + note + text[-half:], whole=stored.id)


class _MadeFiles(SessionFiles):
    async def all(self, context: ToolContext) -> list[KnownFile]:
        return [file for file in await super().all(context) if file.purpose in _MADE]


async def _no_document(context: ToolContext, file: KnownFile) -> Extracted | None:
    return None
