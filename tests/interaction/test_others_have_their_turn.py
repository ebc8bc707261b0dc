"""One run with thousands of calls, or with huge results, leaves the event loop to others in between."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from tests.interaction.doors import Door

from ronda import tool
from ronda.core.events import ToolFinished
from ronda.drive.driver import AT_ONCE
from ronda.files.file_store import FileLimits
from ronda.providers.script import Call
from ronda.server.answering.sinks import KEEP_ALIVE
from ronda.testing import ScriptedModel, calls, says

MANY = 2_000
LONG = 4_000_000


class Others:
    """How often another task's turn has come."""

    def __init__(self) -> None:
        self.turns = 0

    @asynccontextmanager
    async def counted(self) -> AsyncIterator[None]:
        async def count() -> None:
            while True:
                self.turns += 1
                await asyncio.sleep(0)

        task = asyncio.create_task(count())
        try:
            yield
        finally:
            task.cancel()


@tool
async def look(number: int) -> str:
    """Look."""
    return f"seen {number}"


def many() -> ScriptedModel:
    return ScriptedModel(calls(*[Call("look", {"number": at}) for at in range(MANY)]), says("Done."))


async def test_thousands_of_calls_begin_in_many_turns_of_the_loop(door: Door) -> None:
    others = Others()
    turns: list[int] = []

    @tool(name="look")
    async def look(number: int) -> str:
        """Look."""
        turns.append(others.turns)
        return f"seen {number}"

    async with door.serving(many(), look) as served, others.counted():
        said = await served.ask(stream=False)

    assert (said.content, len(turns)) == ("Done.", MANY)
    assert len(set(turns)) >= MANY // AT_ONCE


async def test_a_stream_of_thousands_of_calls_is_never_silent(door: Door) -> None:
    """What it is told in parts of which some say nothing."""
    async with door.serving(many(), look) as served:
        answer = await served.post({"messages": [{"role": "user", "content": "go"}], "stream": True})

    assert KEEP_ALIVE not in answer.body
    assert answer.said.content == "Done."


@pytest.mark.parametrize("sign", ["x", "é", "\udc80"])
async def test_a_huge_result_is_kept_in_many_turns_of_the_loop(door: Door, sign: str) -> None:
    others = Others()
    before: list[int] = []

    @tool
    async def tell() -> str:
        """Tell."""
        before.append(others.turns)
        return sign * LONG

    async with door.serving(ScriptedModel(calls("tell"), says("Done.")), tell) as served, others.counted():
        said = await served.ask(stream=False)
        turns = others.turns - before[0]
        [events] = await served.events

    [finished] = [event for event in events if isinstance(event, ToolFinished)]
    assert (said.content, finished.result.whole != "", len(finished.result.content) < LONG // 10) == (
        "Done.",
        True,
        True,
    )
    assert turns >= LONG // (128 * 1024)


async def test_a_huge_result_that_cannot_be_kept_is_shown_in_part(door: Door) -> None:
    @tool
    async def tell() -> str:
        """Tell."""
        return "x" * LONG

    model = ScriptedModel(calls("tell"), says("Done."))
    async with door.serving(model, tell) as served:
        limits = FileLimits(size=1_000)
        served.server.files.limits = limits
        said = await served.ask(stream=False)

    assert said.content == "Done."
    read = str(model.heard[-1][-1])
    assert ("could not be kept" in read, len(read) < 200_000) == (True, True)
