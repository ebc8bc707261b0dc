"""Agents that hand over to each other, in answers that outlive their requests: found again, and followed as one."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from tests.interaction.doors import Door
from tests.interaction.every_door import read_stream
from tests.interaction.test_streams_resumed import KEY, follow, frames_of, id_of
from tests.server.doors.test_mistral_handoffs_completions import TO_B, two_agents
from tests.server.mistral_doors import serving

from ronda.testing import ScriptedModel, calls, says

HI = [{"role": "user", "content": "hi"}]


@pytest.mark.parametrize("name", ["completions", "conversations"])
async def test_a_stream_over_a_handoff_is_picked_up_behind_every_frame(door: Door, name: str) -> None:
    lines = (calls(TO_B, text="One moment."), says("You owe five."))
    async with serving(door, ScriptedModel(*lines)) as behind, behind.client() as client:
        desk, _ = await two_agents(client)
        path = "agents/completions" if name == "completions" else "conversations"
        asked: Any = {"messages": HI} if name == "completions" else {"inputs": "hi"}
        body = {"agent_id": desk, "stream": True, "on_disconnect": "detach", **asked}
        served: Any = SimpleNamespace(http=behind.http, url=f"{behind.url}/v1")
        async with served.http.post(f"{served.url}/{path}", json=body, headers=KEY) as answer:
            stream = await answer.read()
            run = answer.headers["x-ronda-run"].removeprefix("run_")
        whole = frames_of(stream)
        place = f"/{path}/{run}"
        if name == "conversations":
            (talk,) = await client.beta.conversations.list_async()
            place = f"/{path}/{talk.id}"
        again = await follow(served, place)
        rest = [await follow(served, place, id_of(frame)) for frame in whole[:-1]]

    assert "You owe five." in read_stream(name, stream).text
    assert frames_of(again) == whole
    for at, found in enumerate(rest):
        assert whole[: at + 1] + frames_of(found) == whole
