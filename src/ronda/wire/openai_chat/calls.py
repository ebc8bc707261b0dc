"""Pieces of tool calls → whole tool calls, in a stream where no single key can be trusted.

Seen in the wild: `index` repeated for every call (Ollama), missing, or not starting at 0; `id` blank, late or repeated in
every piece; a name split over two pieces or repeated in each, or with a mark of the model's own format behind it; two
pieces with one index in one chunk. So a piece is matched by id first, then by index, then by position; a name that comes
again after complete arguments begins a new call.
"""

from __future__ import annotations

from typing import Final

import msgspec
from msgspec import Raw, Struct

from ronda.core.events import CallDelta
from ronda.core.parts import NULL, ToolCall
from ronda.wire.codec.json import UNREADABLE, text_of

# Proxies hide things in an id (litellm: a thought signature). OpenAI's own have at most 40 characters, and only those are
# sure to come back as they are without the message being kept.
LONG_ID: Final = 40


class FunctionPiece(Struct, frozen=True, gc=False):
    name: str | None = None
    arguments: str | dict[str, Raw] | None = None  # some servers send the object itself


class CallPiece(Struct, frozen=True, gc=False):
    function: FunctionPiece | None = None
    id: str | None = None
    index: int | None = None
    type: str | None = None
    extra_content: Raw = NULL  # Gemini's compatible endpoint: thought signatures
    custom: Raw = NULL


def clean_name(name: str) -> str:
    """Without what servers of gpt-oss leave behind it: `look_up<|channel|>commentary`."""
    return name.partition("<|")[0] or name if "<|" in name else name


class _Record:
    __slots__ = ("arguments", "extra", "id", "index", "name", "number")

    def __init__(self) -> None:
        self.id = ""
        self.index: int | None = None  # the one it began with
        self.name = ""
        self.arguments: list[str] = []
        self.extra: Raw = NULL
        self.number = -1  # which of the turn's calls it is, once it has a name

    @property
    def is_whole(self) -> bool:
        try:
            msgspec.json.decode("".join(self.arguments), type=dict)
        except UNREADABLE:
            return False
        return True


class CallAssembler:
    __slots__ = ("_by_id", "_by_index", "named", "records")

    def __init__(self) -> None:
        self.records: list[_Record] = []
        self.named: list[_Record] = []  # a record without a name is noise some servers send to end a list
        self._by_id: dict[str, int] = {}
        self._by_index: dict[int, int] = {}

    def add(self, piece: CallPiece) -> CallDelta | None:
        """What can be shown of it: nothing until the name of the tool is known."""
        function = piece.function or _NO_FUNCTION
        name = clean_name(function.name or "")
        at = self._find(piece, name)
        record = self.records[at]
        if piece.id and not record.id:
            record.id = piece.id
            self._by_id[piece.id] = at
        if piece.index is not None:
            self._by_index[piece.index] = at
            if record.index is None:
                record.index = piece.index
        if name and name != record.name:
            record.name += name
        if piece.extra_content is not NULL and piece.extra_content != NULL:
            record.extra = piece.extra_content.copy()
        arguments = text_of(function.arguments)
        if arguments:
            record.arguments.append(arguments)
        if not record.name:
            return None
        if record.number < 0:
            record.number = len(self.named)
            self.named.append(record)
            arguments = "".join(record.arguments)
        return CallDelta(record.number, record.id, record.name, arguments)

    def _find(self, piece: CallPiece, name: str) -> int:
        if piece.id and (known := self._by_id.get(piece.id)) is not None:
            return self._new() if self._id_is_used_again(piece, name, known) else known
        if piece.index is not None:
            candidate = self._by_index.get(piece.index)
        else:
            candidate = len(self.records) - 1 if self.records else None
        if candidate is None:
            return self._new()
        record = self.records[candidate]
        if piece.id and record.id:
            return self._new()  # another id under the same index: another call
        if name and record.name and record.arguments and (name != record.name or record.is_whole):
            return self._new()  # a name after arguments: the next call, under an index used again
        return candidate

    def _id_is_used_again(self, piece: CallPiece, name: str, known: int) -> bool:
        """One id for every call (Mistral's "null"): told by another index, and a name where one call is said already."""
        record = self.records[known]
        if not name or piece.index is None or record.index is None or piece.index == record.index:
            return False
        return name != record.name or record.is_whole

    def _new(self) -> int:
        self.records.append(_Record())
        return len(self.records) - 1

    def calls(self) -> list[ToolCall]:
        return [ToolCall(record.id, record.name, "".join(record.arguments)) for record in self.named]


_NO_FUNCTION = FunctionPiece()
