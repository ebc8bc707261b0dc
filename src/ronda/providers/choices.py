"""Several choices: asked for in one upstream call, and those that it did not give in a call for each, side by side."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Protocol, Self

from msgspec import Raw
from msgspec.structs import replace

from ronda.core.events import ModelFinished
from ronda.core.request import ModelRequest
from ronda.drive import Show
from ronda.providers.http.endpoint import Answer, ManyReader
from ronda.wire.upstream.errors import error_of
from ronda.wire.upstream.stream import is_event_stream

Call = Callable[[ModelRequest, Show], Awaitable[ModelFinished]]


class ChoicesReader(ManyReader, Protocol):
    def whole(self, body: bytes) -> Self:
        """A stream that came in one piece."""

    def finish_all(self) -> list[ModelFinished]: ...


def asking_with(request: ModelRequest, name: str, value: Raw) -> ModelRequest:
    """The request with one more member of the upstream's own, such as `n`. What was written of it before holds no more."""
    extra = {**request.options.extra, name: value}
    return replace(request, options=replace(request.options, extra=extra), scratch={})


async def read_answer(
    answer: Answer,
    request: ModelRequest,
    shows: list[Show],
    reader: ChoicesReader,
    read_plain: Callable[[bytes], list[ModelFinished]],
) -> list[ModelFinished]:
    """The choices of an answer, streamed or not: some servers ignore `stream`, others send a stream in one piece."""
    if answer.status != 200:
        raise error_of(await answer.read(), answer.status, answer.retry_after)
    if request.stream and answer.is_stream:
        await answer.stream_many_into(reader, shows, request.room)
        return reader.finish_all()
    whole = await answer.read()
    return reader.whole(whole).finish_all() if is_event_stream(whole) else read_plain(whole)


async def with_missing(
    finished: list[ModelFinished], call: Call, request: ModelRequest, shows: list[Show]
) -> list[ModelFinished]:
    """As many choices as there are `shows`: those that are there, and the rest by `call`. Some servers ignore `n`."""
    missing = shows[len(finished) :]
    others = [call(replace(request, scratch={}), show) for show in missing]
    return [*finished[: len(shows)], *await asyncio.gather(*others)]
