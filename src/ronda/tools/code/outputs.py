"""Files that a call made or changed in its workspace: those it named first, then what is new, each read back safely."""

from __future__ import annotations

import asyncio
import base64
import secrets
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct

from ronda.core.files import PREVIEW_BYTES, TEXT_FORMATS, FileSource, StoredFile, preview
from ronda.core.parts import File
from ronda.drive import ToolContext
from ronda.drive.tools import as_text
from ronda.errors import BadRequest
from ronda.files.file_store import FileFacts, FileStore
from ronda.files.kinds import format_of, mime_type_of
from ronda.sandbox.workspace import FoundFile, list_files, read_output

MOST_FILES = 64
MAX_FILE = 256 * 1024 * 1024  # of one that is kept
MAX_INLINE = 8 * 1024 * 1024  # of all that travel with the result; the others are fetched by their ids
_SKIPPED = {"skills", "__pycache__", "node_modules", "target", "tmp", "temp", "cache", "venv", "env"}
_SKIPPED_ENDS = tuple(f".{end}" for end in ("pyc", "pyo", "o", "so", "dylib", "dll", "rlib", "rmeta", "d", "class"))


class Made(Struct, frozen=True):
    """What there is to hand on, what of it is kept, and what could not be: names with the reason."""

    files: tuple[File, ...] = ()
    stored: tuple[StoredFile, ...] = ()
    problems: tuple[tuple[str, str], ...] = ()

    def section(self) -> str:
        """What the model reads of it, after the result."""
        stored = {file.id: file for file in self.stored}
        lines = [f"- {file.name}" + (_tell(stored[file.id]) if file.id in stored else "") for file in self.files]
        lines += [f"- {name}: {problem}" for name, problem in self.problems]
        return "\nFiles:\n" + "\n".join(lines) if lines else ""


def _tell(file: StoredFile) -> str:
    kind = "text" if file.is_text else "binary"
    return f" ({file.format or 'no format'}, {kind}, {file.size} bytes, id {file.id})"


def snapshot(workspace: str | Path) -> dict[str, FoundFile]:
    return {file.name: file for file in list_files(workspace, skip=_is_skipped)}


def _is_skipped(part: str) -> bool:
    return part.startswith(".") or part in _SKIPPED or part.endswith(_SKIPPED_ENDS)


def output_names(arguments: dict[str, Any]) -> list[str]:
    """The `outputs` of a call: texts, or objects with a `name`."""
    given = arguments.get("outputs") or []
    return [str(entry.get("name", "")) if isinstance(entry, dict) else str(entry) for entry in given]


class Collector:
    """Reads back what one call made. With a store, files are kept there, for their session."""

    def __init__(self, workspace: str | Path, tool: str, context: ToolContext, store: FileStore | None) -> None:
        self._workspace = workspace
        self._tool = tool
        self._context = context
        self._store = store
        self._inline = 0  # bytes of those that travel with the result

    async def collect(self, before: dict[str, FoundFile], named: Sequence[str]) -> Made:
        """One file after another: no more than one of them is in memory, but for those that travel with the result."""
        after = await asyncio.to_thread(snapshot, self._workspace)
        changed = [name for name, file in after.items() if before.get(name) != file]
        files, stored, problems = list[File](), list[StoredFile](), list[tuple[str, str]]()
        most = MAX_FILE if self._store is not None else MAX_INLINE
        for name in list(dict.fromkeys([*named, *changed]))[:MOST_FILES]:
            try:
                data = await asyncio.to_thread(read_output, self._workspace, name, most)
                name = as_text(name)  # code may call a file anything, text or not
                kept = await self._keep(name, data, len(stored))
            except BadRequest as error:
                problems.append((as_text(name), as_text(str(error))))
                continue
            if kept is not None:
                stored.append(kept)
            files.append(self._file(name, data, kept))
        return Made(tuple(files), tuple(stored), tuple(problems))

    async def _keep(self, name: str, data: bytes, index: int) -> StoredFile | None:
        if self._store is None:
            return None
        context = self._context
        facts = FileFacts(
            name,
            "agent_output",
            source=FileSource(self._tool, context.round),
            session=context.session,
            id=f"file_{secrets.token_hex(6)}_r{context.round}_{index}",
        )
        return await self._store.add(context.owner, data, facts)

    def _file(self, name: str, data: bytes, kept: StoredFile | None) -> File:
        format = format_of(name)
        shown = preview(data, PREVIEW_BYTES) if format in TEXT_FORMATS else ""
        return File(self._inlined(name, data), name, None if kept is None else kept.id, len(data), format, shown)

    def _inlined(self, name: str, data: bytes) -> str | None:
        if self._inline + len(data) > MAX_INLINE:
            return None
        self._inline += len(data)
        return f"data:{mime_type_of(format_of(name))};base64,{base64.b64encode(data).decode()}"
