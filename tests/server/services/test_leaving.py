"""Clients that leave in the middle, and a server that is to end: nothing goes on, and nothing is kept of it."""

from __future__ import annotations

import asyncio
import gc

import pytest
from tests.interaction.doors import TIMEOUT, Door, soon, user

from ronda import tool
from ronda.host.run import LiveRun
from ronda.testing import ScriptedModel, calls, says

GO = {"messages": [user("go")], "stream": True}


class Gate:
    """A tool that waits, and whether it cares when it is cancelled."""

    def __init__(self, *, cares: bool) -> None:
        self.begun = asyncio.Event()
        self.go_on = asyncio.Event()

        @tool
        async def wait() -> str:
            """Wait until it is let go."""
            self.begun.set()
            while not self.go_on.is_set():
                try:
                    await self.go_on.wait()
                except asyncio.CancelledError:
                    if cares:
                        raise
            return "waited"

        self.tool = wait


async def test_nothing_is_kept_of_a_stream_whose_client_left(door: Door) -> None:
    gate = Gate(cares=True)
    async with soon(), door.serving(ScriptedModel(calls("wait"), says("over")), gate.tool) as served:
        client = asyncio.create_task(served.post(GO))
        await gate.begun.wait()
        (run_id,) = served.server.runs.live
        client.cancel()
        await served.all_over()
        (end,) = await served.ends
        await asyncio.wait([client])
        kept = [one for one in gc.get_objects() if type(one) is LiveRun and one.run.id == run_id]

    assert end.reason == "cancelled"
    assert kept == []


async def test_a_server_that_ends_does_not_wait_for_a_tool_that_does_not_care(
    door: Door, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = Gate(cares=False)
    async with soon(), door.serving(ScriptedModel(calls("wait"), says("over")), gate.tool) as served:
        client = asyncio.create_task(served.post(GO))
        await gate.begun.wait()
        await served.server.runs.stop()
        monkeypatch.setattr("ronda.host.host.LAST_SECONDS", 2 * TIMEOUT)
        await served.server.runs.stop()  # it has had its time
        left = len(served.server.runs.live)
        gate.go_on.set()
        answer = await client

    assert left == 1
    assert answer.frames[-1] == "[DONE]"


async def test_a_run_that_begins_while_the_server_ends_is_interrupted_like_the_others(door: Door, stream: bool) -> None:
    gate = Gate(cares=True)
    async with soon(), door.serving(ScriptedModel(calls("wait"), says("over")), gate.tool) as served:
        await served.server.runs.stop()
        answer = await served.post({**GO, "stream": stream})
        (end,) = await served.ends

    assert answer.status == (200 if stream else 503)
    assert b"the run was interrupted" in answer.body
    assert end.reason == "interrupted"
