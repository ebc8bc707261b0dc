"""A message's content as it grows: text, thoughts, calls and blocks of other kinds → the events of a stream, and the blocks.

The blocks of the plain answer are those of the stream, so what a stream shows adds up to what the plain answer says. A block
is closed when the next begins; only a call whose arguments are not whole stays open, for upstreams that write several at once.

An upstream of this dialect says things that have no preview of ours. They come as `NativeDelta`s: a thought's signature, a
citation, a text block behind another, a call's further members, and whole blocks of other kinds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, Literal

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import replace

from ronda.core.arguments import recover
from ronda.core.live_calls import Piece
from ronda.core.parts import NULL, AssistantTurn, Reasoning, Text, ToolCall
from ronda.wire.anthropic.search_blocks import citations_of
from ronda.wire.anthropic.turns import INVALID_JSON, is_ours, object_of, own_message
from ronda.wire.codec.json import UNREADABLE, decode_members, decode_text, encode, in_one_line, to_raws
from ronda.wire.web.citations import CitedText, Source, cited_stretches

Kind = Literal["text", "thinking", "tool_use", "other"]

_START: Final = b'event: content_block_start\ndata: {"type":"content_block_start","index":%d,"content_block":%b}\n\n'
_STOP: Final = b'event: content_block_stop\ndata: {"type":"content_block_stop","index":%d}\n\n'
_DELTA: Final = (
    b'event: content_block_delta\ndata: {"type":"content_block_delta","index":%d,"delta":{"type":"%b:%b}}\n\n'
)
# A delta's type, and the member that holds what it adds.
_GROWS: Final[dict[Kind, bytes]] = {
    "text": b'text_delta","text"',
    "thinking": b'thinking_delta","thinking"',
    "tool_use": b'input_json_delta","partial_json"',
}
_EMPTY: Final[dict[Kind, bytes]] = {
    "text": b'{"type":"text","text":""}',
    "thinking": b'{"type":"thinking","thinking":"","signature":""}',
}

_decode_blocks = msgspec.json.Decoder(list[dict[str, Raw]]).decode


class Part(Struct, frozen=True):
    """A block of a finished turn. `text` is what grows in it: words, a thought, arguments."""

    kind: Kind
    text: str = ""
    signature: str = ""
    citations: tuple[Raw, ...] = ()
    id: str = ""
    name: str = ""
    # Of a call that has more of them, or of a block of another kind: the text is its input then.
    members: dict[str, Raw] = {}


def parts_of(turn: AssistantTurn) -> list[Part]:
    """The blocks of a turn: as the API said them where it was the API, else ours."""
    if is_ours(turn.native):
        try:
            blocks = _decode_blocks(own_message(turn.native).content)
        except UNREADABLE:  # an upstream's JSON that is no content: what was read of it stands in the parts
            return _own_parts(turn)
        calls = {call.id: call for call in turn.calls}
        return [part for members in blocks if (part := _native_part(members, calls)) is not None]
    return _own_parts(turn)


def _own_parts(turn: AssistantTurn) -> list[Part]:
    parts: list[Part] = []
    for part in turn.parts:
        if type(part) is Text:
            parts.append(Part("text", part.text))
        elif type(part) is Reasoning:
            parts.append(Part("thinking", part.text))
        elif type(part) is ToolCall:
            parts.append(call_part(part))
    return parts


def call_part(call: ToolCall, members: dict[str, Raw] | None = None) -> Part:
    return Part("tool_use", call.arguments, id=call.id, name=call.name, members=members or {})


def use_part(use_id: str, name: str, arguments: Any, kind: str = "server_tool_use", **more: str) -> Part:
    """A call of a tool that runs here."""
    members = {"type": kind, "id": use_id, "name": name, **more, "input": arguments}
    return Part("other", encode(arguments).decode(), members=to_raws(members))


def result_part(kind: str, use_id: str, content: Any, **more: bool) -> Part:
    return Part("other", members=to_raws({"type": kind, "tool_use_id": use_id, **more, "content": content}))


def _native_part(members: dict[str, Raw], calls: dict[str, ToolCall]) -> Part | None:
    match _text_member(members, "type"):
        case "text":
            cited = members.get("citations", NULL)
            citations = msgspec.json.decode(cited, type=list[Raw] | None) or []
            return Part("text", _text_member(members, "text"), citations=tuple(citations))
        case "thinking":
            return Part("thinking", _text_member(members, "thinking"), _text_member(members, "signature"))
        case "tool_use":
            call = calls.get(_text_member(members, "id"))
            return call_part(call, members) if call is not None else None
        case _:
            return Part("other", members=members)


def cited_parts(parts: Sequence[Part], sources: Sequence[Source]) -> list[Part]:
    """Text is several parts where it cites, each with the citations that it ends with."""
    found: list[Part] = []
    for part in parts:
        if part.kind == "text" and not part.citations:
            found += [
                Part("text", stretch.text, citations=citations_of(stretch))
                for stretch in cited_stretches(part.text, sources)
            ]
        else:
            found.append(part)
    return found


def _text_member(members: dict[str, Raw], name: str) -> str:
    raw = members.get(name, NULL)
    return "" if raw == NULL else decode_text(raw)


class PartialBlock:
    """A block as far as it was shown."""

    __slots__ = ("_grows", "_shown_id", "citations", "id", "index", "kind", "members", "name", "pieces", "signature")

    def __init__(self, index: int, part: Part, shown_id: str) -> None:
        """`shown_id` is what the caller calls it."""
        self.index = index
        self.kind = part.kind
        self.id = part.id
        self._shown_id = shown_id
        self.name = part.name
        self.members = part.members
        self._grows = part.kind == "other" and bool(part.text)
        self.signature = ""
        self.citations: list[Raw] = []
        self.pieces: list[str] = []

    @property
    def text(self) -> str:
        return "".join(self.pieces)

    @property
    def is_whole(self) -> bool:
        return self.kind != "tool_use" or object_of(self.text) is not None

    @property
    def start(self) -> bytes:
        if self.kind == "tool_use":
            return in_one_line(encode({**self._call, "input": {}}))
        if self.kind != "other":
            return _EMPTY[self.kind]
        return in_one_line(encode({**self.members, "input": {}} if self._grows else self.members))

    @property
    def _call(self) -> dict[str, Any]:
        return {**self.members, "type": "tool_use", "id": self._shown_id, "name": self.name}

    @property
    def json(self) -> dict[str, Any]:
        match self.kind:
            case "text":
                fields = {"type": "text", "text": self.text}
                return {**fields, "citations": self.citations} if self.citations else fields
            case "thinking":
                return {"type": "thinking", "thinking": self.text, "signature": self.signature}
            case "tool_use":
                return {**self._call, "input": input_of(self.text)}
            case "other":
                return self.members

    def begins(self, part: Part) -> bool:
        """What was shown is how this part begins."""
        if self.kind == "other" or part.kind == "other":
            return self.kind == part.kind and self.members == part.members
        return self.kind == part.kind and self.id == part.id and part.text.startswith(self.text)


def input_of(arguments: str) -> Raw | dict[str, str]:
    """A call's input is an object here, whatever the model wrote."""
    if not arguments.strip():
        return {}
    if (found := object_of(arguments)) is not None:
        return found
    recovered = recover(arguments)
    return Raw(recovered.text.encode()) if recovered is not None else {INVALID_JSON: arguments}


class Content:
    """`out` takes the bytes of a stream. `shown_id`: the model's id of a call → what the caller calls it."""

    __slots__ = ("_announced", "_calls", "_last", "_open", "_shown_id", "_since", "blocks", "out")

    def __init__(self, shown_id: Callable[[str], str]) -> None:
        self._shown_id = shown_id
        self.blocks: list[PartialBlock] = []
        self.out: list[bytes] = []
        self._last: PartialBlock | None = None  # the block that grows
        self._open: list[PartialBlock] = []
        self._since = 0  # the first block of this turn
        self._calls: dict[int, PartialBlock] = {}  # those that are being shown, by their places
        self._announced: dict[str, dict[str, Raw]] = {}  # members of calls, by their id

    def begin_turn(self) -> None:
        self.close()
        self._since = len(self.blocks)
        self._calls, self._announced = {}, {}

    # ---- previews ----------------------------------------------------------------------------------------------------

    def grow(self, kind: Kind, text: str) -> None:
        """More text, or more of a thought."""
        block = self._last
        if block is None or block.kind != kind:
            block = self._begin(Part(kind))
        self._add(block, text)

    def call(self, piece: Piece) -> None:
        """More of a call. Arguments that are no object wait until they are whole, and can be made one; so do the calls behind."""
        if piece.is_first:
            is_next = all(index in self._calls for index in range(piece.place))
            if not is_next or not piece.arguments.lstrip().startswith("{"):
                return
            members = self._announced.get(piece.id, {})
            self._calls[piece.place] = self._begin(Part("tool_use", id=piece.id, name=piece.name, members=members))
        if (block := self._calls.get(piece.place)) is not None:
            self._add(block, piece.arguments)

    def native(self, payload: Raw, *, with_text: bool) -> None:
        """`with_text` is False where text is held back."""
        members = decode_members(payload)
        kind = _text_member(members, "type")
        last = self._last
        match kind:
            case "thinking":
                block = last if last is not None and last.kind == "thinking" else self._begin(Part("thinking"))
                self._sign(block, _text_member(members, "signature"))
                self.close()
            case "text":
                if last is not None and last.kind == "text":
                    self.close()
            case "citations_delta":
                if with_text:
                    self._cite(last if last is not None and last.kind == "text" else self._begin(Part("text")), members)
            case "tool_use":
                self._announced[_text_member(members, "id")] = members
            case _:
                self._begin(Part("other", members=members))

    # ---- whole -------------------------------------------------------------------------------------------------------

    def show(self, parts: Sequence[Part]) -> None:
        """What of a finished turn no preview has shown: all of it, if there were no previews."""
        shown = self.blocks[self._since :]
        if len(shown) > len(parts) or not all(block.begins(part) for block, part in zip(shown, parts, strict=False)):
            self._show_rests(shown, parts)
        else:
            for block, part in zip(shown, parts, strict=False):
                self._complete(block, part)
            for part in parts[len(shown) :]:
                self.add(part)
        self.close()

    def _show_rests(self, shown: Sequence[PartialBlock], parts: Sequence[Part]) -> None:
        """The upstream's previews came in other pieces than its turn: what counts is that nothing is lost or said twice."""
        for kind in ("thinking", "text"):
            text = "".join([block.text for block in shown if block.kind == kind])
            whole = "".join([part.text for part in parts if part.kind == kind])
            if len(whole) > len(text):
                self.add(Part(kind, whole[len(text) :]))
        calls = {block.id: block for block in shown if block.kind == "tool_use"}
        others = [block.members for block in shown if block.kind == "other"]
        for part in parts:
            if part.kind == "tool_use" and part.id in calls:
                self._complete(calls[part.id], part)
            elif part.kind == "tool_use" or (part.kind == "other" and part.members not in others):
                self.add(part)

    def add(self, part: Part) -> None:
        """A whole block."""
        if part.kind == "tool_use" and part.text.strip() and object_of(part.text) is None:
            part = replace(part, text=encode(input_of(part.text)).decode())
        self._complete(self._begin(part), part)

    def put(self, part: Part) -> None:
        """A whole block, with nothing behind it."""
        self.add(part)
        self.close()

    def say(self, piece: CitedText) -> None:
        """More text. If it cites sources, a stretch of it ends here, and what follows is another block."""
        if piece.text:
            self.grow("text", piece.text)
        if piece.sources and self._last is not None:
            for citation in citations_of(piece):
                self._cite(self._last, {"citation": citation})
            self.close()

    def close(self) -> None:
        """Nothing grows any more."""
        self.out += [_STOP % block.index for block in self._open]
        self._open = []
        self._last = None

    # ---- inside ------------------------------------------------------------------------------------------------------

    def _begin(self, part: Part) -> PartialBlock:
        still_open = []
        for block in self._open:
            if block.is_whole:
                self.out.append(_STOP % block.index)
            else:
                still_open.append(block)
        block = PartialBlock(len(self.blocks), part, self._shown_id(part.id))
        self.blocks.append(block)
        self._open = [*still_open, block]
        self._last = block
        self.out.append(_START % (block.index, block.start))
        return block

    def _add(self, block: PartialBlock, text: str) -> None:
        block.pieces.append(text)
        self.out.append(_DELTA % (block.index, _GROWS[block.kind], encode(text)))

    def _complete(self, block: PartialBlock, part: Part) -> None:
        if part.kind == "other":
            if part.text:
                self.out.append(_DELTA % (block.index, _GROWS["tool_use"], encode(part.text)))
        elif rest := part.text[len(block.text) :]:
            self._add(block, rest)
        if part.signature and not block.signature:
            self._sign(block, part.signature)
        for citation in part.citations[len(block.citations) :]:
            self._cite(block, {"citation": citation})

    def _sign(self, block: PartialBlock, signature: str) -> None:
        block.signature = signature
        self.out.append(_DELTA % (block.index, b'signature_delta","signature"', encode(signature)))

    def _cite(self, block: PartialBlock, members: dict[str, Raw]) -> None:
        citation = members.get("citation", NULL)
        block.citations.append(citation)
        self.out.append(_DELTA % (block.index, b'citations_delta","citation"', in_one_line(bytes(citation))))
