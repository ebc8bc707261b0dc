"""`mistralrs_read_file` and `mistralrs_list_files`: a part of a file's text by characters, and what files there are."""

from __future__ import annotations

import codecs
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import msgspec

from ronda.core.limits import RESULT_CHARS
from ronda.core.plan import ToolSpec
from ronda.core.taint import PRIVATE
from ronda.drive import ToolContext, ToolOutput
from ronda.errors import RondaError
from ronda.tools.files.session_files import KnownFile, SessionFiles
from ronda.tools.parameters import parameters
from ronda.wire.shared.code_tools import LIST_FILES, READ_FILE
from ronda.wire.shared.file_kinds import Utf8Check

if TYPE_CHECKING:
    from ronda.tools.files.documents import ExtractedText  # with a sandbox behind it

READ: Final = READ_FILE
LIST: Final = LIST_FILES
MAX_SLICE: Final = RESULT_CHARS  # characters of one call

# The text of a document; None of a file that is none.
ExtractText: TypeAlias = "Callable[[ToolContext, KnownFile], Awaitable[ExtractedText | None]]"

_READ_PARAMETERS: Final = parameters(
    {
        "file_id": {"type": "string", "description": "The id of the file."},
        "start": {"type": "integer", "minimum": 0, "description": "The first character to read; 0 is the beginning."},
        "end": {"type": "integer", "minimum": 0, "description": "Where to stop; without it, at the end of the file."},
    },
    "file_id",
)


class ReadFileTool:
    """`most` are the characters of one call; `way_out` is what the model may do about a file that is not there."""

    def __init__(
        self,
        files: SessionFiles,
        extract: ExtractText,
        labels: tuple[str, ...] = ("files", PRIVATE),
        limit: int = MAX_SLICE,
        way_out: str = "",
    ) -> None:
        self._files = files
        self._extract = extract
        self._most = limit
        self._way_out = way_out
        self.spec = ToolSpec(
            READ,
            f"Read text of a file by its id: the characters from `start` to `end`, at most {limit} at a time.",
            _READ_PARAMETERS,
            strict=True,
            repeatable=True,
            labels=labels,
        )

    async def run(self, arguments: dict[str, Any], context: ToolContext) -> ToolOutput:
        file_id = str(arguments["file_id"])
        start, end = int(arguments.get("start") or 0), arguments.get("end")
        file = await self._files.find(context, file_id)
        if file is None:
            return _failure(
                f"there is no file with the id '{file_id[:200]}' in this session{self._way_out}", file_id=file_id
            )
        try:
            return await self._read(file, start, None if end is None else int(end), context)
        except RondaError as error:
            return _failure(str(error), file_id=file_id, name=file.name)

    async def _read(self, file: KnownFile, start: int, end: int | None, context: ToolContext) -> ToolOutput:
        extracted = await self._extract(context, file)
        stop = start + self._most if end is None else min(end, start + self._most)
        if extracted is not None and not extracted.problem:
            found: tuple[str, int] | None = (extracted.text[start:stop], len(extracted.text))
        else:
            found = await _slice(self._files.pieces(file), start, stop)
        if found is None:
            why = extracted.problem if extracted is not None else f"it is no text ({file.mime_type})"
            return _failure(why, file_id=file.id, name=file.name, format=file.format, bytes=file.size)
        text, total = found
        result = {
            "file_id": file.id,
            "name": file.name,
            "format": file.format,
            "start": min(start, total),
            "end": min(start, total) + len(text),
            "total_chars": total,
            "max_slice_chars": self._most,
            "text": text,
        }
        return ToolOutput(msgspec.json.encode(result).decode())


async def _slice(pieces: AsyncIterator[bytes], start: int, stop: int) -> tuple[str, int] | None:
    """The characters from `start` to `stop`, and how many there are: in little memory. None of what is no text."""
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
            parameters({}),
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


def _failure(error: str, **about: Any) -> ToolOutput:
    return ToolOutput(msgspec.json.encode({**about, "error": error}).decode(), failed=True)
