"""One upstream call for several choices: the prompt is paid for once.

`n` choices are n runs side by side. Where no tool of ours is in play each of them makes exactly one model call, and an
upstream that knows `n` can answer all in one: the first run to ask makes the call for all, the others wait for
their share of it. No run knows of this; each sees an ordinary provider.
"""

from __future__ import annotations

import asyncio

from msgspec import structs

from ronda.core.events import ModelFinished, Preview
from ronda.core.request import ModelRequest, Wait
from ronda.drive import Capabilities, Show
from ronda.drive.provider import CallMany


class SharedCall:
    def __init__(self, call_many: CallMany, able: Capabilities, n: int) -> None:
        """`able`: what the provider says of itself, whose `call_many` it is."""
        self._call_many = call_many
        self.capabilities = structs.replace(able, call_many=None)
        self._shows: dict[int, Show] = {}
        self._rooms: dict[int, Wait | None] = {}
        self._n = n
        self._call: asyncio.Task[list[ModelFinished]] | None = None
        self._waiting: set[int] = set()

    def choices(self) -> list[_Share]:
        return [_Share(self, index) for index in range(self._n)]

    async def call(self, index: int, request: ModelRequest, show: Show) -> ModelFinished:
        self._shows[index], self._rooms[index] = show, request.room
        if self._call is None or (self._call.done() and _has_failed(self._call)):  # a retry: again for all runs
            self._call = asyncio.create_task(self._ask(request))
        self._waiting.add(index)
        try:
            finished = await asyncio.shield(self._call)
            return finished[index]
        except asyncio.CancelledError:
            if self._waiting == {index}:  # the last one who wanted it
                self._call.cancel()
                await asyncio.wait([self._call])
            raise
        finally:
            self._waiting.discard(index)

    async def _ask(self, request: ModelRequest) -> list[ModelFinished]:
        shows = [self._shower(index) for index in range(self._n)]
        return await self._call_many(structs.replace(request, room=self._room), shows)

    def _shower(self, index: int) -> Show:
        def show(batch: list[Preview]) -> bool | None:
            return self._shows[index](batch) if index in self._waiting else None

        return show

    async def _room(self) -> None:
        """A reader that is far behind in one choice holds all of them back: it is one answer."""
        for index in sorted(self._waiting):
            if (room := self._rooms[index]) is not None:
                await room()


def _has_failed(call: asyncio.Task[list[ModelFinished]]) -> bool:
    return call.cancelled() or call.exception() is not None


class _Share:
    """One choice's view of the call."""

    def __init__(self, fan: SharedCall, index: int) -> None:
        self._fan = fan
        self._index = index
        self.capabilities = fan.capabilities

    async def call(self, request: ModelRequest, show: Show) -> ModelFinished:
        return await self._fan.call(self._index, request, show)
