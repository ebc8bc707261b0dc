"""The pieces of one completion → previews as they come, and the turn, whichever code takes the answer apart."""

from __future__ import annotations

from typing import Protocol

import msgspec
from msgspec import Raw, structs

from ronda.core.events import CallDelta, LogprobsDelta, ModelFinished, Preview, ReasoningDelta, TextDelta
from ronda.core.parts import NULL, AssistantTurn, Stop, ToolCall, Usage
from ronda.core.request import ModelRequest
from ronda.drive import Show
from ronda.errors import UpstreamBroken
from ronda.local.calls import CallPiece, Completion, Enough, Piece, TokenLogprob
from ronda.local.markup import MarkupReader
from ronda.local.markup.output import Out
from ronda.local.settings import Settings


class AnswerParts(Protocol):
    def read(self, piece: Piece) -> list[Preview]: ...

    def end(self) -> list[Preview]: ...

    def finish(self, stop: Stop) -> AssistantTurn: ...


class WrittenParts(MarkupReader):
    """Of text in a family's own markup."""

    def read(self, piece: Piece) -> list[Preview]:
        return self.feed(piece.text) if piece.text else []


class ToldParts:
    """Of an answer that the engine took apart itself. Call ids are left blank, as in all local turns."""

    def __init__(self) -> None:
        self.only_calls = False  # one call, which goes on from an answer whose text was read before
        self._out = Out()
        self._index = -1  # the engine's number of the call that grows
        self._seen = -1

    @property
    def calls(self) -> int:
        return self._out.calls

    @property
    def text(self) -> str:
        return self._out.turn("stop").text

    def read(self, piece: Piece) -> list[Preview]:
        if piece.delta is None:
            return []
        if not self.only_calls and (piece.delta.reasoning_content or piece.delta.content):
            self._close()
            self._out.reasoning(piece.delta.reasoning_content or "")
            self._out.text(piece.delta.content or "")
        for call in piece.delta.tool_calls:
            self._grow(call)
        return self._out.take()

    def _grow(self, call: CallPiece) -> None:
        if call.index != self._index:
            if call.index <= self._seen or not call.function.name:
                raise UpstreamBroken(
                    "the local engine reported a call that it had finished before, or that has no name"
                )
            self._close()
            if self.only_calls and self._out.calls:
                raise Enough
            self._out.open(call.function.name)
            self._index = self._seen = call.index
        self._out.arguments(call.function.arguments or "")

    def _close(self) -> None:
        if self._index >= 0:
            self._out.close()
            self._index = -1

    def end(self) -> list[Preview]:
        return self._out.take()

    def finish(self, stop: Stop) -> AssistantTurn:
        """Its grammar lets no call end before it is whole; what the budget cut says so."""
        self._close()
        return self._out.turn(stop)


class Reading:
    """The pieces of one completion → previews as they come, and the turn."""

    def __init__(self, reader: AnswerParts, request: ModelRequest, settings: Settings, show: Show) -> None:
        self._reader = reader
        self._show = show if request.stream else None
        self._calls = (
            0 if request.choice.mode == "none" else 1 if request.options.parallel_tool_calls is False else None
        )
        self._top = settings.logprobs
        self._logprobs: list[TokenLogprob] = []
        self._thought = 0
        self._raw: list[str] = []

    @property
    def raw(self) -> str:
        """All that was written, markup included."""
        return "".join(self._raw)

    def take(self, pieces: list[Piece]) -> bool | None:
        shown: list[Preview] = []
        for piece in pieces:
            self._raw.append(piece.text)
            if found := self._reader.read(piece):
                self._thought += any(type(preview) is ReasoningDelta for preview in found)
                for preview in found:
                    _join(shown, preview)
        if self._top is not None and (probable := self._probable(pieces)):
            self._logprobs += probable
            shown.append(LogprobsDelta(write_logprobs(probable)))
        return self._put(shown)

    def _put(self, shown: list[Preview]) -> bool | None:
        if self._calls is not None:
            shown = [preview for preview in shown if type(preview) is not CallDelta or preview.index < self._calls]
        return self._show(shown) if shown and self._show is not None else None

    def _probable(self, pieces: list[Piece]) -> list[TokenLogprob]:
        """A token without text ended the answer: it is no part of it."""
        found = [token for piece in pieces for token in piece.logprobs if token.bytes]
        return [structs.replace(token, top_logprobs=token.top_logprobs[: self._top]) for token in found]

    def finish(self, done: Completion) -> ModelFinished:
        self._put(self._reader.end())
        turn = self._reader.finish(done.stop)
        if self._calls is not None and len(turn.calls) > self._calls:
            turn = with_calls(turn, self._calls)
        usage = Usage(
            done.prompt, done.completion, done.cached, self._thought, done.prompt_seconds, done.completion_seconds
        )
        return ModelFinished(turn, usage, NULL if self._top is None else write_logprobs(self._logprobs))


def _join(shown: list[Preview], preview: Preview) -> None:
    """Several tokens that came at once are one preview."""
    last = shown[-1] if shown else None
    match preview, last:
        case TextDelta(text=text), TextDelta(text=before):
            shown[-1] = TextDelta(before + text)
        case ReasoningDelta(text=text), ReasoningDelta(text=before):
            shown[-1] = ReasoningDelta(before + text)
        case CallDelta(), CallDelta() if preview.index == last.index:
            shown[-1] = CallDelta(last.index, last.id, preview.name, last.arguments + preview.arguments)
        case _:
            shown.append(preview)


def with_calls(turn: AssistantTurn, limit: int) -> AssistantTurn:
    """The turn with its first so many calls: the caller wanted one at a time, or none."""
    calls = turn.calls[:limit]
    parts = [part for part in turn.parts if type(part) is not ToolCall or any(part is call for call in calls)]
    return AssistantTurn(tuple(parts), "stop" if turn.stop == "tool_calls" and not calls else turn.stop)


def write_logprobs(tokens: list[TokenLogprob]) -> Raw:
    """In the words of OpenAI's dialect."""
    return Raw(msgspec.json.encode({"content": tokens, "refusal": None}))
