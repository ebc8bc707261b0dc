"""`mistralrs_read_file` and `mistralrs_list_files`: a part of a file's text by characters, and what files there are."""

from __future__ import annotations

import codecs
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, Final

import msgspec
from msgspec import Raw

from ronda.core.plan import ToolSpec
from ronda.core.taint import PRIVATE
from ronda.drive import MOST_SHOWN, ToolContext, ToolOutput
from ronda.errors import RondaError
from ronda.tools.files.documents import Extracted
from ronda.tools.files.session_files import KnownFile, SessionFiles
from ronda.wire.file_kinds import Utf8Check

READ: Final = "mistralrs_read_file"
LIST: Final = "mistralrs_list_files"
MAX_SLICE: Final = MOST_SHOWN  # characters of one call

# The text of a document; None of a file that is none.
ExtractText = Callable[[ToolContext, KnownFile], Awaitable[Extracted | None]]

_READ_PARAMETERS: Final = {
    "type": "object",
    "properties": {
        "file_id": {"type": "string", "description": "The id of the file."},
        "start": {"type": "integer", "minimum": 0, "description": "The first character to read; 0 is the beginning."},
        "end": {"type": "integer", "minimum": 0, "description": "Where to stop; without it, at the end of the file."},
    },
    "required": ["file_id"],
    "additionalProperties": False,
}
_NO_PARAMETERS: Final = {"type": "object", "properties": {}, "additionalProperties": False}


class ReadFileTool:
    def __init__(self, files: SessionFiles, extract: ExtractText, labels: tuple[str, ...] = ("files", PRIVATE)) -> None:
        self._files = files
        self._extract = extract
        self.spec = ToolSpec(
            READ,
            f"Read text of a file by its id: the characters from `start` to `end`, at most {MAX_SLICE} at a time.",
            Raw(msgspec.json.encode(_READ_PARAMETERS)),
            strict=True,
            repeatable=True,
            labels=labels,
        )

    async def run(self, arguments: dict[str, Any], context: ToolContext) -> ToolOutput:
        id = str(arguments["file_id"])
        start, end = int(arguments.get("start") or 0), arguments.get("end")
        file = await self._files.find(context, id)
        if file is None:
            return _failed(f"there is no file with the id '{id[:200]}' in this session", file_id=id)
        try:
            return await self._read(file, start, None if end is None else int(end), context)
        except RondaError as error:
            return _failed(str(error), file_id=id, name=file.name)

    async def _read(self, file: KnownFile, start: int, end: int | None, context: ToolContext) -> ToolOutput:
        extracted = await self._extract(context, file)
        if extracted is not None and not extracted.problem:
            stop = start + MAX_SLICE if end is None else min(end, start + MAX_SLICE)
            found: tuple[str, int] | None = (extracted.text[start:stop], len(extracted.text))
        else:
            found = await _slice(self._files.pieces(file), start, end)
        if found is None:
            why = extracted.problem if extracted is not None else f"it is no text ({file.mime_type})"
            return _failed(why, file_id=file.id, name=file.name, format=file.format, bytes=file.size)
        text, total = found
        result = {
            "file_id": file.id,
            "name": file.name,
            "format": file.format,
            "start": min(start, total),
            "end": min(start, total) + len(text),
            "total_chars": total,
            "max_slice_chars": MAX_SLICE,
            "text": text,
        }
        return ToolOutput(msgspec.json.encode(result).decode())


async def _slice(pieces: AsyncIterator[bytes], start: int, end: int | None) -> tuple[str, int] | None:
    """The characters from `start` to `end`, and how many there are: in little memory. None of what is no text."""
    stop = start + MAX_SLICE if end is None else min(end, start + MAX_SLICE)
    check, decoder = Utf8Check(), codecs.getincrementaldecoder("utf-8")("replace")
    total, found = 0, list[str]()
    async for piece in pieces:
        check.feed(piece)
        if not check.is_text:
            return None
        text = decoder.decode(piece)
        if total < stop and total + len(text) > start:
            found.append(text[max(0, start - total) : max(0, stop - total)])
        total += len(text)
    return ("".join(found), total) if check.finish() else None


class ListFilesTool:
    def __init__(self, files: SessionFiles) -> None:
        self._files = files
        self.spec = ToolSpec(
            LIST,
            "List the files of this session: those that the user attached, and those that tools made.",
            Raw(msgspec.json.encode(_NO_PARAMETERS)),
            strict=True,
            repeatable=True,
            labels=("files", PRIVATE),
            no_arguments_needed=True,
        )

    async def run(self, arguments: dict[str, Any], context: ToolContext) -> ToolOutput:
        files = [_entry(file) for file in await self._files.all(context)]
        return ToolOutput(msgspec.json.encode({"files": files}).decode())


def _entry(file: KnownFile) -> dict[str, Any]:
    return {
        "id": file.id,
        "name": file.name,
        "format": file.format,
        "bytes": file.size,
        "purpose": file.purpose,
        "source": file.source.tool,
        "round": file.source.round,
        "turn": file.source.turn,
    }


def _failed(error: str, **about: Any) -> ToolOutput:
    return ToolOutput(msgspec.json.encode({**about, "error": error}).decode(), failed=True)
