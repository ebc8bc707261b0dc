"""What a run tells its one reader, as it happens: for the library, where no other reader can follow it later.

    append, show ──► Channel ──► ChannelReader.pull
                        └── False while the reader is far behind: the model's server is then not read

What was read is not kept, so a run of any length takes no more memory than its reader is behind.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial

from ronda.core.events import PREVIEWS, Event, Preview
from ronda.host.log import ROOM_BYTES, OnNews, ring, size_of


class Channel:
    """The end that the run has."""

    __slots__ = ("_bytes", "_call", "_events", "_has_reader", "_is_over", "_room")

    def __init__(self, events: list[Event]) -> None:
        self._events = events  # that were not read
        self._bytes = 0  # of the previews among them
        self._has_reader = True
        self._is_over = False
        self._call: OnNews | None = None
        self._room: asyncio.Future[None] | None = None

    def show(self, batch: Sequence[Preview]) -> bool:
        """Take the run's next previews. False if the reader is far behind."""
        if not self._has_reader:
            return True
        self._events += batch
        self._bytes += size_of(batch)
        self._tell()
        return self._bytes < ROOM_BYTES

    def append(self, batch: Sequence[Event], size: int | None = None) -> bool:
        """Take the run's next facts, or its previews. Facts are never held back."""
        if type(batch[0]) in PREVIEWS:
            return self.show(batch)  # type: ignore[arg-type]  # all of them are
        if self._has_reader:
            self._events += batch
            self._tell()
        return True

    def close(self, *, is_broken: bool = False) -> None:
        """Nothing more will come."""
        self._is_over = True
        self._tell()
        self._make_room()

    async def room(self) -> None:
        """Until the reader has caught up, or is gone."""
        while self._bytes >= ROOM_BYTES and not self._is_over:
            self._room = asyncio.get_running_loop().create_future()
            try:
                await self._room
            finally:
                self._room = None

    def _tell(self) -> None:
        if (call := self._call) is not None:
            self._call = None
            call()

    def _make_room(self) -> None:
        if self._room is not None:
            ring(self._room)


class ChannelReader:
    """The other end."""

    __slots__ = ("_channel",)

    def __init__(self, channel: Channel) -> None:
        self._channel = channel

    @property
    def is_over(self) -> bool:
        """Everything was pulled, and nothing more will come."""
        return self._channel._is_over and not self._channel._events

    def pull(self) -> list[Event]:
        """All there is; empty if there is nothing yet."""
        channel = self._channel
        events = channel._events
        if events:
            channel._events, channel._bytes = [], 0
            if channel._room is not None:
                channel._make_room()
        return events

    async def wait(self) -> None:
        """Until there is more, or nothing will come any more. To be called when `pull` gave nothing."""
        if not self._channel._is_over:
            waiter = asyncio.get_running_loop().create_future()
            self._channel._call = partial(ring, waiter)
            await waiter

    def close(self) -> None:
        channel = self._channel
        channel._has_reader, channel._call = False, None
        channel._events, channel._bytes = [], 0
        channel._make_room()
