"""A server in a thread of its own, for clients that wait: its model always has an answer."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tests.interaction.doors import open_door

from ronda.core.events import ModelFinished
from ronda.core.parts import AssistantTurn, Text, Usage
from ronda.core.request import ModelRequest
from ronda.drive import Show

WAIT = 60.0  # seconds: only a hang reaches it


class Answering:
    """Says the same to everyone."""

    async def call(self, request: ModelRequest, show: Show) -> ModelFinished:
        return ModelFinished(AssistantTurn((Text("Hello."),)), Usage(input=3, output=1))


@contextmanager
def served_in_thread(**settings: Any) -> Iterator[str]:
    """Its address, without `/v1`."""
    started = threading.Event()
    found: dict[str, Any] = {}

    async def serve() -> None:
        found["stop"] = stop = asyncio.Event()
        found["loop"] = asyncio.get_running_loop()
        async with open_door() as door, door.serving(Answering(), **settings):
            found["url"] = door.url.removesuffix("/v1")
            started.set()
            await stop.wait()

    thread = threading.Thread(target=asyncio.run, args=(serve(),), daemon=True)
    thread.start()
    assert started.wait(WAIT)
    try:
        yield found["url"]
    finally:
        found["loop"].call_soon_threadsafe(found["stop"].set)
        thread.join(WAIT)
        assert not thread.is_alive()
