"""Answers of Mistral's completions, whole or streamed → previews and one finished turn.

Both are read by one fold: a whole message is a delta that says everything. `content` may be a text or a list of chunks; a
list with more in it than text is kept, joined but in its order, for the model to get back. Where Mistral's own tools ran
there are several `messages` in place of one: their calls are answered already, and are not run here.
"""

from __future__ import annotations

import itertools
from typing import Any, Final

import msgspec
from msgspec import Raw, Struct

from ronda.core.events import ModelFinished, Preview, ReasoningDelta, TextDelta
from ronda.core.parts import (
    NO_USAGE,
    NULL,
    AssistantPart,
    AssistantTurn,
    Native,
    Reasoning,
    Text,
    ToolCall,
)
from ronda.errors import UpstreamBroken
from ronda.wire.codec.json import UNREADABLE, decode_text, encode
from ronda.wire.codec.surrogates import mend_surrogates
from ronda.wire.mistral import native_api
from ronda.wire.mistral.call_ids import made_up_id
from ronda.wire.mistral.tools import Tools
from ronda.wire.openai_chat.calls import CallAssembler, CallPiece
from ronda.wire.openai_chat.client_plain import UsageSaid, stop_of, usage_of
from ronda.wire.upstream.errors import envelope_error
from ronda.wire.upstream.stream import ChoicesStream, cut_short


class _Delta(Struct, frozen=True, gc=False):
    """A message, or a piece of one."""

    role: str | None = None
    content: str | list[dict[str, Raw]] | None = None
    tool_calls: list[CallPiece] | None = None
    tool_call_id: str | None = None


class _Choice(Struct, frozen=True, gc=False):
    message: _Delta | None = None
    messages: list[_Delta] | None = None
    delta: _Delta | None = None
    finish_reason: str | None = None
    index: int = 0


class _Answer(Struct, frozen=True, gc=False):
    choices: list[_Choice] | None = None
    usage: UsageSaid | None = None
    error: Raw = NULL
    object: str | None = None


_decode_answer = msgspec.json.Decoder(_Answer).decode
_decode_thinking = msgspec.json.Decoder(str | list[dict[str, Raw]]).decode

_NO_ID: Final = ("", "null")  # the SDKs' word for none is the string


class Naming(Struct, frozen=True):
    """Whose answer it is: which model's JSON, whose tools, and what calls without an id are to be called."""

    model: str = ""
    tools: Tools = Tools(())
    run: str = ""
    round: int = 0


NO_NAMING: Final = Naming()


def read_plain(body: bytes, naming: Naming = NO_NAMING) -> ModelFinished:
    """A whole answer."""
    return read_choices(body, naming, 1)[0]


def read_choices(body: bytes, naming: Naming, n: int) -> list[ModelFinished]:
    """As many choices as there are, up to `n`; the usage, which is of all of them, is on the first."""
    try:
        answer = _decode_answer(mend_surrogates(body))
    except UNREADABLE as error:
        raise UpstreamBroken(f"the model's answer is not a completion of Mistral's: {error}", retryable=True) from error
    if answer.error != NULL or answer.object == "error":
        raise envelope_error(bytes(answer.error) if answer.error != NULL else body)
    folds = [_Fold(naming, number) for number in range(n)]
    for fold in folds:
        fold.add(answer, [])
    if not folds[0].seen:
        raise UpstreamBroken("the model's answer has no choices", retryable=True)
    return _finish_all(folds)


def _finish_all(folds: list[_Fold]) -> list[ModelFinished]:
    first, *others = [fold.finish() for fold in folds if fold.seen or fold is folds[0]]
    return [first, *[msgspec.structs.replace(one, usage=NO_USAGE) for one in others]]


class Reader(ChoicesStream):
    """A stream of one or more choices."""

    __slots__ = ("_done", "_folds")

    def __init__(self, naming: Naming = NO_NAMING, choices: int = 1) -> None:
        super().__init__(choices)
        self._folds = [_Fold(naming, number) for number in range(choices)]
        self._done = False

    def _read_into(self, out: list[Preview], frames: list[bytes]) -> None:
        for frame in frames:
            if frame == b"[DONE]" or not frame:
                self._done = self._done or bool(frame)
                continue
            chunk = _decode_answer(self._halves.mend(frame))
            if chunk.error != NULL or chunk.object == "error":
                raise envelope_error(bytes(chunk.error) if chunk.error != NULL else frame)
            for fold, shown in zip(self._folds, (out, *self._aside), strict=True):
                fold.add(chunk, shown)

    def finish_all(self) -> list[ModelFinished]:
        self._must_be_sound()
        if not self._done and any(fold.finish_reason is None for fold in self._folds if fold.seen or not fold.number):
            raise cut_short()
        return _finish_all(self._folds)


class _Chunk:
    """One chunk of the content, its texts in pieces: a text has one, a thought has several and what else is among them."""

    __slots__ = ("is_closed", "kind", "members", "texts", "was_open")

    def __init__(self, members: dict[str, Any], kind: str, texts: list[Any]) -> None:
        self.members = members  # besides its text; all of them where we do not know the kind
        self.kind = kind
        self.texts = texts
        self.was_open = self.is_closed = False  # of a thought

    @property
    def text(self) -> str:
        return "".join(["".join(text) for text in self.texts if isinstance(text, list)])

    def whole(self) -> dict[str, Any]:
        if self.kind == "text":
            return {"type": "text", "text": self.text}
        if self.kind == "thinking":
            inner = [{"type": "text", "text": "".join(t)} if isinstance(t, list) else t for t in self.texts]
            return {"type": "thinking", "thinking": inner, **self.members}
        return self.members


class _Fold:
    """What one choice says, piece by piece."""

    __slots__ = ("_answered", "_calls", "_chunks", "_naming", "_of_a_tool", "_usage", "finish_reason", "number", "seen")

    def __init__(self, naming: Naming, number: int = 0) -> None:
        self._naming = naming
        self.number = number
        self._chunks: list[_Chunk] = []  # the content as a list
        self._calls = CallAssembler()
        self._answered: set[str] = set()  # by tools of Mistral's own
        self._of_a_tool = False  # what is said now is a result of such a tool
        self._usage: UsageSaid | None = None
        self.finish_reason: str | None = None
        self.seen = False

    def add(self, answer: _Answer, out: list[Preview]) -> None:
        self._usage = answer.usage or self._usage
        for choice in answer.choices or ():
            if choice.index != self.number:
                continue
            self.finish_reason = choice.finish_reason or self.finish_reason
            one = choice.message or choice.delta
            for message in choice.messages or ([one] if one is not None else ()):
                self.seen = True
                try:
                    self._add_message(message, message is choice.delta, out)
                except UNREADABLE as error:
                    raise UpstreamBroken(f"the model's message cannot be read: {error}", retryable=True) from error
            self.seen = self.seen or choice.finish_reason is not None

    def _add_message(self, message: _Delta, is_piece: bool, out: list[Preview]) -> None:
        if message.role or message.tool_call_id:
            self._of_a_tool = message.role == "tool" or bool(message.tool_call_id)
        if self._of_a_tool:
            self._answered.add(message.tool_call_id or "")
            return
        if isinstance(message.content, str):
            if message.content:
                self._add_text(message.content, True, out)
        elif message.content:
            for index, chunk in enumerate(message.content):
                self._add_chunk(chunk, is_piece and index == 0, out)
        if message.tool_calls:
            for piece in message.tool_calls:
                self._add_call(piece, out)

    def _add_call(self, piece: CallPiece, out: list[Preview]) -> None:
        if piece.id in _NO_ID:
            piece = msgspec.structs.replace(piece, id=None)
        shown = self._calls.add(piece)
        if shown is None:
            return
        call_id = shown.id or self._made_up(shown.index)
        out.append(msgspec.structs.replace(shown, id=call_id, name=self._naming.tools.own_name(shown.name)))

    def _add_chunk(self, chunk: dict[str, Raw], joins: bool, out: list[Preview]) -> None:
        """`joins`: it may go on from where the last delta stopped."""
        kind = bytes(chunk.get("type", NULL))
        if kind == b'"thinking"':
            self._add_thinking(chunk, joins, out)
            return
        found = chunk.get("text", NULL) if kind == b'"text"' else NULL
        text = decode_text(found) if found != NULL else ""
        if kind == b'"text"' and chunk.keys() <= {"type", "text"}:
            if text:
                self._add_text(text, joins, out)
            return
        self._chunks.append(_Chunk({name: value.copy() for name, value in chunk.items()}, "", [[text]]))
        if text:
            out.append(TextDelta(text))

    def _add_text(self, text: str, joins: bool, out: list[Preview]) -> None:
        last = self._chunks[-1] if self._chunks else None
        if joins and last is not None and last.kind == "text":
            last.texts[0].append(text)
        else:
            self._chunks.append(_Chunk({}, "text", [[text]]))
        out.append(TextDelta(text))

    def _add_thinking(self, chunk: dict[str, Raw], joins: bool, out: list[Preview]) -> None:
        content = _decode_thinking(chunk.get("thinking", Raw(b"[]")))
        last = self._chunks[-1] if self._chunks else None
        is_closed = bytes(chunk.get("closed", NULL)) == b"true"
        # Some streams say `closed` of every piece of a thought: only one that was open before ends with it.
        if not joins or last is None or last.kind != "thinking" or last.is_closed:
            last = _Chunk({}, "thinking", [])
            self._chunks.append(last)
            last.was_open = not is_closed
        last.is_closed = is_closed and last.was_open
        for piece in [{"text": Raw(encode(content))}] if isinstance(content, str) else content:
            if "text" not in piece:  # a reference, which we have no equivalent of
                last.texts.append({name: value.copy() for name, value in piece.items()})
            elif text := decode_text(piece["text"]):
                out.append(ReasoningDelta(text))
                if joins and last.texts and isinstance(last.texts[-1], list):
                    last.texts[-1].append(text)
                else:
                    last.texts.append([text])
            joins = False
        last.members |= {name: value.copy() for name, value in chunk.items() if name not in ("type", "thinking")}

    def finish(self) -> ModelFinished:
        parts: list[AssistantPart] = []
        for thought, chunks in itertools.groupby(self._chunks, lambda chunk: chunk.kind == "thinking"):
            if text := "".join([chunk.text for chunk in chunks]):
                parts.append(Reasoning(text) if thought else Text(text))
        parts += self._named()
        turn = AssistantTurn(tuple(parts), stop_of(self.finish_reason, parts), self._native())
        return ModelFinished(turn, usage_of(self._usage))

    def _named(self) -> list[ToolCall]:
        calls = []
        for record in self._calls.named:
            if record.id and record.id in self._answered:
                continue
            call_id = record.id or self._made_up(record.number)
            calls.append(ToolCall(call_id, self._naming.tools.own_name(record.name), "".join(record.arguments)))
        return calls

    def _made_up(self, index: int) -> str:
        return made_up_id(self._naming.run, self._naming.round, 1000 * self.number + index)

    def _native(self) -> Native | None:
        """The content, where a text would not say all of it."""
        if all(chunk.kind == "text" for chunk in self._chunks):
            return None
        return Native(native_api(self._naming.model), Raw(encode([chunk.whole() for chunk in self._chunks])))
