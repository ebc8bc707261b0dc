"""Output items as they grow: what is announced, what is added, what is done. And the frames in which a stream says so."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from msgspec import Struct

from ronda.wire.codec.json import encode
from ronda.wire.codec.partial_json import PartialJson
from ronda.wire.openai_responses.client_calls import item_of
from ronda.wire.shared.custom_tools import input_of
from ronda.wire.shared.failures import Failure
from ronda.wire.web.citations import Source, cite, url_citation

_PADDED = 16  # characters: with obfuscation, the length of a piece tells only how many of these it fills


_BARE_PIECE = b'{"type":"response.output_text.delta","sequence_number":%d,%b,"delta":%b,"logprobs":[]}\n'
_PIECE = b"event: response.output_text.delta\ndata: " + _BARE_PIECE + b"\n"


class Frames:
    """Numbered events → bytes. What is not written (a plain answer's, or what was seen before) is counted anyway."""

    __slots__ = ("_after", "_out", "_sse", "_with_ids", "count", "obfuscated", "writing")

    def __init__(self, sse: bool, after: int, obfuscated: bool, *, with_ids: bool = False) -> None:
        self._sse = sse
        self._with_ids = with_ids and sse
        self._after = after
        self.obfuscated = obfuscated
        self.count = 0
        self._out: list[bytes] = []
        self.writing = False

    def put(self, kind: bytes, rest: bytes, name: bytes = b"") -> None:
        """`name`: of the server-sent event, where it is not its type."""
        number = self.count
        self.count = number + 1
        if number <= self._after:
            return
        if self._with_ids:
            self._out.append(b"id: %d\n" % number)
        if self._sse:
            text = b'event: %b\ndata: {"type":"%b","sequence_number":%d,%b}\n\n'
            self._out.append(text % (name or kind, kind, number, rest))
        else:
            self._out.append(b'{"type":"%b","sequence_number":%d,%b}\n' % (kind, number, rest))

    def piece(self, place: bytes, text: str) -> None:
        """A piece of text: what is written more often than everything else together."""
        number = self.count
        self.count = number + 1
        if number > self._after:
            if self._with_ids:
                self._out.append(b"id: %d\n" % number)
            template = _PIECE if self._sse else _BARE_PIECE
            self._out.append(template % (number, place, encode(text)))

    def delta(self, kind: bytes, place: bytes, text: str, more: bytes = b"") -> None:
        """A piece of something. Padded with the same letter always: chance would make each writing another."""
        if self.obfuscated:
            more += b',"obfuscation":"%b"' % (b"x" * (-len(text) % _PADDED))
        self.put(kind, b'%b,"delta":%b%b' % (place, encode(text), more))

    def end(self, kind: bytes, rest: bytes, *, is_whole: bool) -> None:
        """The last event. Where the text is in larger pieces than those that were shown first, it is written even for a client
        who has seen more than there is."""
        if not is_whole:
            self.count = max(self.count, self._after + 1)
        self.put(kind, rest)
        if self._sse:  # Open Responses wants this line, OpenAI has none; clients of both read it
            self._out.append(b"data: [DONE]\n\n")

    def fail(self, failure: Failure) -> None:
        """The stream ends, and its response does not. It has the last event's number: who comes back goes on from there."""
        error = {"code": failure.code, "message": failure.message, "param": failure.param}
        if self._sse:
            self.count = max(self.count - 1, self._after)
            self._after = self.count - 1  # it is written whatever was seen
            self._with_ids = False
            self.put(b"error", encode(error)[1:-1])
        else:  # as all errors of a WebSocket are
            message = {"type": "error", "status": failure.status, "error": {"type": failure.type, **error}}
            self._out.append(encode(message) + b"\n")

    def take_bytes(self) -> bytes:
        out, self._out = self._out, []
        return out[0] if len(out) == 1 else b"".join(out)


class Output(Struct, eq=False):
    """The items of one response. Each has its id and its place from when it is announced; those that are done are kept."""

    frames: Frames
    hex: str
    count: int = 0  # of those that were announced
    done: list[tuple[int, bytes]] = []

    def items(self) -> list[bytes]:
        """In the order in which they were announced."""
        return [item for _, item in sorted(self.done)]


class OutputItem:
    __slots__ = ("_frames", "_id", "_index", "_output")

    def __init__(self, output: Output, kind: str) -> None:
        self._output = output
        self._frames = output.frames
        self._index = output.count
        self._id = f"{kind}_{output.hex}_{output.count}".encode()
        output.count += 1

    @property
    def _place(self) -> bytes:
        return b'"item_id":"%b","output_index":%d' % (self._id, self._index)

    def _announce(self, item: bytes) -> None:
        if self._frames.writing:
            self._frames.put(b"response.output_item.added", b'"output_index":%d,"item":%b' % (self._index, item))

    def _finish(self, item: bytes, *, is_kept: bool = True) -> None:
        if self._frames.writing:
            self._frames.put(b"response.output_item.done", b'"output_index":%d,"item":%b' % (self._index, item))
        if is_kept:
            self._output.done.append((self._index, item))

    def _tell(self, event: bytes, more: bytes = b"") -> None:
        """An event of the item's own kind."""
        if self._frames.writing:
            self._frames.put(b"response." + event, self._place + more)


_PLACES: Final = ("start_index", "end_index", "index")  # members of annotations that count characters


class FileCitation(Struct, frozen=True):
    container_id: str
    file_id: str
    filename: str

    def annotation(self, text: str) -> bytes:
        """Where the text names the file; at its beginning if it does not."""
        start = text.find(self.filename)
        start, end = (start, start + len(self.filename)) if start >= 0 else (0, 0)
        return encode(
            {
                "type": "container_file_citation",
                "container_id": self.container_id,
                "file_id": self.file_id,
                "filename": self.filename,
                "start_index": start,
                "end_index": end,
            }
        )


class Message(OutputItem):
    """Text and refusals, each stretch of them a content part."""

    __slots__ = ("_annotations", "_kind", "_logprobs", "_part_place", "_parts", "_pieces", "_sources")

    def __init__(self, output: Output, sources: Sequence[Source] = ()) -> None:
        super().__init__(output, "msg")
        self._sources = sources  # that the text may speak of
        self._annotations: list[bytes] = []  # an upstream's
        self._parts: list[bytes] = []
        self._kind = b""  # of the part that is open
        self._pieces: list[str] = []
        self._logprobs: list[bytes] = []
        self._part_place = b""
        if self._frames.writing:
            self._announce(self._item(b"in_progress", b""))

    def text(self, text: str, logprobs: Sequence[bytes]) -> None:
        if self._kind != b"output_text":
            self._open(b"output_text")
        self._pieces.append(text)
        if logprobs:
            self._logprobs += logprobs
        frames = self._frames
        if frames.writing:
            if logprobs or frames.obfuscated:
                line = b",".join(logprobs)
                frames.delta(b"response.output_text.delta", self._part_place, text, b',"logprobs":[%b]' % line)
            else:
                frames.piece(self._part_place, text)

    def refusal(self, text: str) -> None:
        if self._kind != b"refusal":
            self._open(b"refusal")
        self._pieces.append(text)
        if self._frames.writing:
            self._frames.delta(b"response.refusal.delta", self._part_place, text)

    def logprobs_if_none(self, logprobs: Sequence[bytes]) -> None:
        if not self._logprobs and self._kind == b"output_text":
            self._logprobs += logprobs

    def annotate(self, annotation: dict[str, Any], behind: int) -> None:
        """What an upstream's text cites: the last so many characters, in which it counts its places from 0."""
        first = sum(map(len, self._pieces)) - behind
        if self._kind == b"output_text" and first >= 0:
            places = {name: annotation[name] + first for name in _PLACES if type(annotation.get(name)) is int}
            self._annotations.append(encode({**annotation, **places}))

    def close(self, status: bytes, phase: str | None, files: Sequence[FileCitation] = ()) -> None:
        """`files` are cited by its last text."""
        self._end_part(files)
        self._finish(self._item(status, b',"phase":"%b"' % phase.encode() if phase is not None else b""))

    def _open(self, kind: bytes) -> None:
        self._end_part()
        self._kind = kind
        if self._frames.writing:
            self._part_place = b'%b,"content_index":%d' % (self._place, len(self._parts))
            self._frames.put(b"response.content_part.added", b'%b,"part":%b' % (self._part_place, self._part("", b"")))

    def _end_part(self, files: Sequence[FileCitation] = ()) -> None:
        if not self._kind:
            return
        text, logprobs = "".join(self._pieces), b",".join(self._logprobs)
        cited: list[bytes] = []
        if self._sources and self._kind == b"output_text":
            cited = [encode({"type": "url_citation", **url_citation(one)}) for one in cite(text, self._sources)]
        if self._kind == b"output_text":
            cited += self._annotations
            cited += [file.annotation(text) for file in files]
            self._annotations = []
        part = self._part(text, logprobs, b",".join(cited))
        if self._frames.writing:
            for index, annotation in enumerate(cited):
                line = b'%b,"annotation_index":%d,"annotation":%b' % (self._part_place, index, annotation)
                self._frames.put(b"response.output_text.annotation.added", line)
            if self._kind == b"refusal":
                self._frames.put(b"response.refusal.done", b'%b,"refusal":%b' % (self._part_place, encode(text)))
            else:
                line = b'%b,"text":%b,"logprobs":[%b]' % (self._part_place, encode(text), logprobs)
                self._frames.put(b"response.output_text.done", line)
            self._frames.put(b"response.content_part.done", b'%b,"part":%b' % (self._part_place, part))
        self._parts.append(part)
        self._kind, self._pieces, self._logprobs = b"", [], []

    def _part(self, text: str, logprobs: bytes, cited: bytes = b"") -> bytes:
        if self._kind == b"refusal":
            return b'{"type":"refusal","refusal":%b}' % encode(text)
        return b'{"type":"output_text","text":%b,"annotations":[%b],"logprobs":[%b]}' % (encode(text), cited, logprobs)

    def _item(self, status: bytes, phase: bytes) -> bytes:
        return b'{"type":"message","id":"%b","status":"%b","role":"assistant","content":[%b]%b}' % (
            self._id,
            status,
            b",".join(self._parts),
            phase,
        )


class Thoughts(OutputItem):
    """A reasoning item, with one summary; or with none, where it only carries what is sealed."""

    __slots__ = ("_pieces", "_summary_place")

    def __init__(self, output: Output) -> None:
        super().__init__(output, "rs")
        self._pieces: list[str] = []
        self._summary_place = self._place + b',"summary_index":0'
        if self._frames.writing:
            self._announce(self._item(b"in_progress", b"", b""))

    def add(self, text: str) -> None:
        frames = self._frames
        if not self._pieces and frames.writing:
            part = b'{"type":"summary_text","text":""}'
            frames.put(b"response.reasoning_summary_part.added", b'%b,"part":%b' % (self._summary_place, part))
        self._pieces.append(text)
        if frames.writing:
            frames.delta(b"response.reasoning_summary_text.delta", self._summary_place, text)

    def close(self, status: bytes, sealed: str = "") -> None:
        frames = self._frames
        part = b""
        if self._pieces:
            text = encode("".join(self._pieces))
            part = b'{"type":"summary_text","text":%b}' % text
            if frames.writing:
                frames.put(b"response.reasoning_summary_text.done", b'%b,"text":%b' % (self._summary_place, text))
                frames.put(b"response.reasoning_summary_part.done", b'%b,"part":%b' % (self._summary_place, part))
        self._finish(self._item(status, part, b',"encrypted_content":%b' % encode(sealed) if sealed else b""))

    def _item(self, status: bytes, part: bytes, sealed: bytes) -> bytes:
        text = b'{"type":"reasoning","id":"%b","status":"%b","summary":[%b]%b}'
        return text % (self._id, status, part, sealed)


class _Form(NamedTuple):
    """How a call is said: the item's type, where its content is, and the events that report it."""

    type: bytes
    member: bytes
    delta: bytes
    done: bytes


_FUNCTION = _Form(
    b"function_call",
    b"arguments",
    b"response.function_call_arguments.delta",
    b"function_call_arguments.done",
)
_CUSTOM = _Form(b"custom_tool_call", b"input", b"response.custom_tool_call_input.delta", b"custom_tool_call_input.done")


class ItemCall(OutputItem):
    """A call that its client knows by an item of its own. What is in it is shown when it is whole."""

    __slots__ = ("_call_id", "_pieces", "_tool")

    def __init__(self, output: Output, call_id: str, tool: str) -> None:
        super().__init__(output, "call")
        self._call_id = call_id
        self._tool = tool
        self._pieces: list[str] = []

    def add(self, arguments: str) -> None:
        self._pieces.append(arguments)

    def close(self, status: bytes, arguments: str, name: str) -> None:
        """`arguments` as they turned out to be; its name is its type."""
        self._end(status, arguments)

    def cut(self) -> None:
        self._end(b"incomplete", "".join(self._pieces), is_kept=False)

    def _end(self, status: bytes, arguments: str, *, is_kept: bool = True) -> None:
        content = {**item_of(self._tool, self._call_id, arguments), "id": self._id.decode()}
        if self._frames.writing:
            self._announce(encode({**content, "status": "in_progress"}))
        self._finish(encode({**content, "status": status.decode()}), is_kept=is_kept)


class ApprovalCall(ItemCall):
    """What an upstream's service asks about a call that it would make: it has the id that its answer names, and no status."""

    __slots__ = ()

    def __init__(self, output: Output, call_id: str, tool: str) -> None:
        super().__init__(output, call_id, tool)
        self._id = call_id.encode()

    def _end(self, status: bytes, arguments: str, *, is_kept: bool = True) -> None:
        item = encode(item_of(self._tool, self._call_id, arguments))
        self._announce(item)
        self._finish(item, is_kept=is_kept)


class Call(OutputItem):
    """A call of the caller's tool, from its announcement on."""

    __slots__ = ("_form", "_head", "_input", "_name", "_pieces")

    def __init__(self, output: Output, call_id: str, namespace: str | None, name: str, is_custom: bool = False) -> None:
        super().__init__(output, "ctc" if is_custom else "fc")
        self._pieces: list[str] = []
        self._form = _CUSTOM if is_custom else _FUNCTION
        self._input = PartialJson() if is_custom else None
        self._name = name
        self._head = b'"call_id":%b' % encode(call_id)
        if namespace is not None:
            self._head += b',"namespace":%b' % encode(namespace)
        if self._frames.writing:
            self._announce(self._item(b"in_progress", ""))

    def add(self, arguments: str) -> None:
        if self._input is not None:
            patches = self._input.feed(arguments)
            arguments = "".join([one.value for one in patches if one.op == "append" and one.path == ("input",)])
            if not arguments:
                return
        self._pieces.append(arguments)
        if self._frames.writing:
            self._frames.delta(self._form.delta, self._place, arguments)

    def close(self, status: bytes, arguments: str, name: str) -> None:
        """`arguments` and `name` as they turned out to be."""
        self._name = name or self._name
        self._end(status, arguments if self._input is None else input_of(arguments))

    def cut(self) -> None:
        """One that is not whole is an item of the stream, but never one of the response."""
        self._end(b"incomplete", "".join(self._pieces), is_kept=False)

    def _end(self, status: bytes, content: str, *, is_kept: bool = True) -> None:
        self._tell(self._form.done, b',"%b":%b' % (self._form.member, encode(content)))
        self._finish(self._item(status, content), is_kept=is_kept)

    def _item(self, status: bytes, arguments: str) -> bytes:
        return b'{"type":"%b","id":"%b",%b,"name":%b,"%b":%b,"status":"%b"}' % (
            self._form.type,
            self._id,
            self._head,
            encode(self._name),
            self._form.member,
            encode(arguments),
            status,
        )
