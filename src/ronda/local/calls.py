"""One completion as the engine's process tells it, in server-sent events → pieces of text, and what they cost."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, TypeAlias

import msgspec
from msgspec import Struct

from ronda.errors import UpstreamBroken, UpstreamError
from ronda.wire.codec.sse import SseReader

# ---- what it says -----------------------------------------------------------------------------------------------------


class TopLogprob(Struct, frozen=True, gc=False):
    token: str
    logprob: float
    bytes: list[int] = []


class TokenLogprob(TopLogprob, frozen=True, gc=False):
    top_logprobs: list[TopLogprob] = []


class _Logprobs(Struct, frozen=True, gc=False):
    content: list[TokenLogprob] = []


class CalledFunction(Struct, frozen=True, gc=False):
    name: str | None = None
    arguments: str | None = None


class CallPiece(Struct, frozen=True, gc=False):
    index: int = 0
    function: CalledFunction = CalledFunction()


class Delta(Struct, frozen=True, gc=False):
    """What one token added to an answer that the engine took apart itself."""

    content: str | None = None
    reasoning_content: str | None = None
    tool_calls: list[CallPiece] = []


class _Choice(Struct, frozen=True, gc=False):
    text: str = ""
    finish_reason: str | None = None
    logprobs: _Logprobs | None = None
    delta: Delta | None = None


class _Timings(Struct, frozen=True, gc=False):
    cache_n: int = 0
    prompt_n: int = 0
    prompt_ms: float = 0.0
    predicted_n: int = 0
    predicted_ms: float = 0.0


class _Error(Struct, frozen=True, gc=False):
    message: str = ""
    code: int = 500


class _Chunk(Struct, frozen=True, gc=False):
    choices: list[_Choice] = []
    timings: _Timings | None = None
    error: _Error | None = None


_decode = msgspec.json.Decoder(_Chunk).decode


class Piece(Struct, frozen=True, gc=False):
    """What one token added: its text may be empty, while half a character or half a stop string is held back."""

    text: str
    logprobs: list[TokenLogprob] = []
    delta: Delta | None = None  # in place of the text, where the engine reads the answer


class Completion(Struct, frozen=True, gc=False):
    """How it ended, and what it cost. `cached` of the prompt's tokens were there already."""

    stop: Literal["stop", "length"]
    prompt: int
    cached: int
    completion: int
    prompt_seconds: float
    completion_seconds: float

    def then(self, more: Completion) -> Completion:
        """This one and another that went on from it: what that one read again was not asked for again."""
        return Completion(
            more.stop,
            self.prompt,
            self.cached,
            self.completion + more.completion,
            self.prompt_seconds + more.prompt_seconds,
            self.completion_seconds + more.completion_seconds,
        )


Take: TypeAlias = Callable[[list[Piece]], bool | None]  # False: the reader is far behind


class Enough(Exception):  # nothing is wrong
    """Raised by `take`: what came is all that is wanted. The body asked for timings with every token."""


class AnswerReader:
    """The bytes of one streamed completion → pieces; at its end, the Completion."""

    def __init__(self) -> None:
        self._frames = SseReader()
        self._refusal = bytearray()
        self._finish = ""
        self._timings: _Timings | None = None

    def feed(self, data: bytes, status: int) -> list[Piece]:
        if status != 200:
            self._refusal += data
            return []
        pieces: list[Piece] = []
        for raw in self._frames.feed_data(data):
            if raw != b"[DONE]":
                self._read(raw, pieces)
        return pieces

    def _read(self, raw: bytes, pieces: list[Piece]) -> None:
        try:
            chunk = _decode(raw)
        except (msgspec.DecodeError, UnicodeError) as error:
            raise UpstreamBroken(f"the local engine said something unreadable: {error}") from error
        if chunk.error is not None:
            raise _refused(chunk.error)
        if chunk.timings is not None:
            self._timings = chunk.timings
        for choice in chunk.choices:
            if choice.finish_reason is not None:
                self._finish = choice.finish_reason
            if choice.delta is not None:
                pieces.append(Piece("", delta=choice.delta))
            elif choice.text or choice.logprobs is not None:
                pieces.append(Piece(choice.text, choice.logprobs.content if choice.logprobs is not None else []))

    def stop(self) -> None:
        """It is decoded no further, and that is its end."""
        self._finish = "stop"

    def finish(self) -> Completion:
        if self._refusal:
            self._read(bytes(self._refusal), [])
        timings = self._timings
        if timings is None or not self._finish:
            raise UpstreamBroken("the local engine broke off without a reason")
        return Completion(
            stop="length" if self._finish == "length" else "stop",
            prompt=timings.cache_n + timings.prompt_n,
            cached=timings.cache_n,
            completion=timings.predicted_n,
            prompt_seconds=timings.prompt_ms / 1000,
            completion_seconds=timings.predicted_ms / 1000,
        )


def _refused(error: _Error) -> UpstreamError:
    return UpstreamError(f"the local engine refused: {error.message}", status=error.code)
