"""A result that is too long for a model: it is shown the beginning and the end, and reads the rest from a file of its session."""

from __future__ import annotations

from typing import Any, Final

from msgspec.structs import replace

from ronda.core.files import FileSource
from ronda.drive import Tool, ToolContext, ToolOutput
from ronda.drive.tools import as_text
from ronda.errors import RondaError
from ronda.files.file_store import FileFacts, FileStore
from ronda.sandbox.workspace import clean_name
from ronda.tools.files.reading import READ

MOST_CHARACTERS: Final = 65_536  # that a model is shown of a result: as much as it may read of a file at a time


class LongResultTool:
    """A tool of a run whose model can read files."""

    def __init__(self, tool: Tool, store: FileStore) -> None:
        self.spec = tool.spec
        self._tool = tool
        self._store = store

    async def run(self, arguments: dict[str, Any], context: ToolContext) -> ToolOutput:
        output = await self._tool.run(arguments, context)
        if len(output.content) <= MOST_CHARACTERS or output.questions:
            return output
        text = as_text(output.content)
        facts = FileFacts(
            clean_name(f"{self.spec.name}-{context.call_id}.txt"),
            "tool_result",
            source=FileSource(self.spec.name, context.round),
            session=context.session,
        )
        try:
            stored = await self._store.add(context.owner, text.encode(), facts)
        except RondaError:  # there is no room for it: better too long than lost
            return output
        half = MOST_CHARACTERS // 2
        note = (
            f"\n… {len(text) - 2 * half} of {len(text)} characters are left out here. All of them are the file {stored.id}: "
            f"{READ} reads from `start` to `end`, such as {half} to {len(text) - half}. …\n"
        )
        return replace(output, content=text[:half] + note + text[-half:])
