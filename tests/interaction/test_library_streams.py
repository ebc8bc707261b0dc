"""A caller that reads a run in this process holds its model back by not reading, and what was read is not kept."""

from __future__ import annotations

import asyncio
import gc
import threading
import tracemalloc
from collections.abc import AsyncIterator
from typing import Any

import pytest
from tests.interaction.doors import TIMEOUT, soon

from ronda import Agent, invoke_agent, invoke_agent_async, stream_agent, tool
from ronda.core.events import ModelFinished, TextDelta
from ronda.core.parts import AssistantTurn, Text, ToolCall
from ronda.core.request import ModelRequest
from ronda.drive import Show

PIECE = 4_000
PIECES = 2_500  # 10 MB of text
MOST = 3_000_000  # a megabyte behind the reader, and what is on its way to another thread


class Flood:
    """Writes as fast as it is read. `held` is set when it has to wait."""

    def __init__(self, rounds: int = 1) -> None:
        self.written = 0
        self.held = threading.Event()
        self.told: asyncio.Event | None = None
        self._rounds = rounds

    async def call(self, request: ModelRequest, show: Show) -> ModelFinished:
        for at in range(PIECES):
            self.written += PIECE
            if show([TextDelta(f"{at:{PIECE}}")]) is False and request.room is not None:
                self.held.set()
                if self.told is not None:
                    self.told.set()
                await request.room()
            await asyncio.sleep(0)
        self._rounds -= 1
        if self._rounds:
            return ModelFinished(AssistantTurn((ToolCall(f"c{self._rounds}", "look", "{}"),), "tool_calls"))
        return ModelFinished(AssistantTurn((Text("".join([f"{at:{PIECE}}" for at in range(PIECES)])),)))


@tool
def look() -> str:
    """Look."""
    return "seen"


async def texts(model: Flood, door: str) -> AsyncIterator[str]:
    if door == "stream_agent":
        async with stream_agent(Agent(model), "go") as events:
            async for event in events:
                if type(event) is TextDelta:
                    yield event.text
    else:
        async for piece in await invoke_agent_async(Agent(model), "go", stream=True):
            yield piece


@pytest.mark.parametrize("door", ["stream_agent", "PromptyStream"])
async def test_a_reader_that_stalls_holds_its_model_back(door: str) -> None:
    model = Flood()
    model.told = asyncio.Event()
    reading = texts(model, door)
    read = len(await anext(reading))

    async with soon():
        await model.told.wait()
    assert model.written < MOST

    async for text in reading:
        read += len(text)
    assert read == model.written == PIECE * PIECES


def test_a_reader_in_another_thread_that_stalls_holds_its_model_back() -> None:
    model = Flood()
    stream = invoke_agent(Agent(model), "go", stream=True)
    read = len(next(stream))

    assert model.held.wait(TIMEOUT)
    assert model.written < MOST

    assert read + sum([len(piece) for piece in stream]) == PIECE * PIECES
    assert stream.result == stream.text


async def test_what_was_read_is_not_kept() -> None:
    """Rounds of 10 MB each. That under way is kept, in case that it breaks off; nothing is of those before."""
    model = Flood(rounds=4)
    most = 0
    tracemalloc.start()
    try:
        async with stream_agent(Agent(model, tools=[look]), "go") as events:
            async for event in events:
                if type(event) is TextDelta and model._rounds > 1:
                    most = max(most, tracemalloc.get_traced_memory()[0])
    finally:
        tracemalloc.stop()

    assert 0 < most < PIECE * PIECES + MOST


class Endless:
    """Shows one piece and goes on for ever. `ended` is set when its call is cancelled."""

    def __init__(self) -> None:
        self.ended = threading.Event()
        self.told = asyncio.Event()

    async def call(self, request: ModelRequest, show: Show) -> Any:
        show([TextDelta("first")])
        try:
            await asyncio.Event().wait()
        finally:
            self.ended.set()
            self.told.set()


def test_a_stream_that_is_forgotten_ends_its_run() -> None:
    model = Endless()
    for piece in invoke_agent(Agent(model), "go", stream=True):
        assert piece == "first"
        break
    gc.collect()

    assert model.ended.wait(TIMEOUT)


async def test_a_stream_that_is_forgotten_ends_its_run_in_a_loop_too() -> None:
    model = Endless()
    async for piece in await invoke_agent_async(Agent(model), "go", stream=True):
        assert piece == "first"
        break
    gc.collect()

    async with soon():
        await model.told.wait()
