"""Files that a call made or changed in its workspace: those it named first, then what is new, each read back safely."""

from __future__ import annotations

import asyncio
import base64
import os
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
from ronda.sandbox.workspace import FoundFile, list_files, open_output, output_pieces
from ronda.wire.shared.file_kinds import format_of, mime_type_of

MOST_FILES = 64
MAX_FILE = 256 * 1024 * 1024  # of one that is kept
MAX_TOTAL = (
    1024 * 1024 * 1024
)  # of all that one call hands over: a file of nothing but holes takes no room until it is kept
MAX_INLINE = 8 * 1024 * 1024  # of all that travel with the result; the others are fetched by their ids
_SKIPPED = {"skills", "__pycache__", "node_modules", "target", "tmp", "temp", "cache", "venv", "env"}
_SKIPPED_ENDS = tuple(f".{end}" for end in ("pyc", "pyo", "o", "so", "dylib", "dll", "rlib", "rmeta", "d", "class"))


class MadeFiles(Struct, frozen=True):
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
    entries = arguments.get("outputs") or []
    return [str(entry.get("name", "")) if isinstance(entry, dict) else str(entry) for entry in entries]


class Collector:
    """Reads back what one call made. With a store, files are kept there, for their session."""

    def __init__(
        self,
        workspace: str | Path,
        tool: str,
        context: ToolContext,
        store: FileStore | None,
        total: int = MAX_TOTAL,
    ) -> None:
        self._workspace = workspace
        self._tool = tool
        self._context = context
        self._store = store
        self._left = total  # bytes that may still be kept
        self._room = MAX_INLINE  # bytes that may still travel with the result

    async def collect(self, before: dict[str, FoundFile], named: Sequence[str]) -> MadeFiles:
        """One file after another, a megabyte at a time: of all that there is only what travels with the result is in memory."""
        after = await asyncio.to_thread(snapshot, self._workspace)
        changed = [name for name, file in after.items() if before.get(name) != file]
        files, stored, problems = list[File](), list[StoredFile](), list[tuple[str, str]]()
        for name in list(dict.fromkeys([*named, *changed]))[:MOST_FILES]:
            try:
                file, stored_file = await self._take(name, len(stored))
            except BadRequest as error:
                problems.append((as_text(name), as_text(str(error))))
                continue
            files.append(file)
            if stored_file is not None:
                stored.append(stored_file)
        return MadeFiles(tuple(files), tuple(stored), tuple(problems))

    async def _take(self, name: str, index: int) -> tuple[File, StoredFile | None]:
        limit = min(MAX_FILE, self._left) if self._store is not None else MAX_INLINE
        opened = await asyncio.to_thread(open_output, self._workspace, name, limit)
        pieces = output_pieces(opened, name, limit)
        label = as_text(name)  # code may call a file anything, text or not
        try:
            if self._store is None:
                data = await asyncio.to_thread(b"".join, pieces)
                return self._file(label, data, len(data), None), None
            facts = self._facts(label, index)
            head = bytearray()
            async with self._store.receive(self._context.owner) as upload:
                while piece := await asyncio.to_thread(next, pieces, b""):
                    if len(head) <= self._room:
                        head += piece
                    await upload.write(piece)
                stored_file = await upload.finish(facts)
                self._left -= stored_file.size
        finally:
            os.close(opened)
        return self._file(label, bytes(head), stored_file.size, stored_file.id), stored_file

    def _facts(self, name: str, index: int) -> FileFacts:
        context = self._context
        return FileFacts(
            name,
            "agent_output",
            source=FileSource(self._tool, context.round),
            session=context.session,
            id=f"file_{secrets.token_hex(6)}_r{context.round}_{index}",
        )

    def _file(self, name: str, head: bytes, size: int, file_id: str | None) -> File:
        """`head` is all of it, if there is room for that in the result."""
        file_format = format_of(name)
        shown = preview(head, PREVIEW_BYTES) if file_format in TEXT_FORMATS else ""
        return File(self._inlined(file_format, head, size), name, file_id, size, file_format, shown)

    def _inlined(self, file_format: str, head: bytes, size: int) -> str | None:
        if size > self._room:
            return None
        self._room -= size
        return f"data:{mime_type_of(file_format)};base64,{base64.b64encode(head).decode()}"
