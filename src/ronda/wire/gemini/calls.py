"""A function call of the model's, whole or a piece of it, and a call that grows by such pieces."""

from __future__ import annotations

from msgspec import Raw, Struct

from ronda.core.parts import NULL, ToolCall
from ronda.wire.codec.json import encode
from ronda.wire.gemini.partial_args import Arguments
from ronda.wire.gemini.tools import Tools


class CallPiece(Struct, frozen=True, gc=False, rename="camel"):
    name: str | None = None
    args: Raw = NULL
    id: str | None = None
    partial_args: list[dict[str, Raw]] | None = None
    will_continue: bool | None = None

    @property
    def is_empty(self) -> bool:
        return not (self.name or self.id) and self.args == NULL


class GrowingCall:
    """A call whose arguments come in pieces. `members` are those of its part, a signature among them."""

    __slots__ = ("arguments", "cut", "id", "index", "members", "name", "native_id", "wire_name")

    def __init__(self, piece: CallPiece, index: int, call_id: str, tools: Tools) -> None:
        self.index = index
        self.id = call_id
        self.native_id = piece.id
        self.wire_name = piece.name or ""
        self.name = tools.read_call(self.wire_name, None)[0]
        self.members: dict[str, Raw] = {}
        self.arguments = Arguments()
        self.cut = True  # until all of them are here

    def goes_on_with(self, piece: CallPiece) -> bool:
        return piece.name in (None, "", self.wire_name) and piece.id in (None, "", self.native_id)

    def whole(self, tools: Tools) -> ToolCall:
        text = self.arguments.text
        return ToolCall(self.id, self.name, text if self.cut else tools.read_call(self.wire_name, text.encode())[1])

    def part(self) -> bytes:
        """As it would have come in one piece."""
        call: dict[str, object] = {"name": self.wire_name, "args": Raw(self.arguments.text.encode())}
        if self.native_id:
            call["id"] = self.native_id
        return encode({"functionCall": call, **self.members})
