"""A server that runs code sets usual requests up once, as one that does not."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.interaction.doors import Door
from tests.server.coding import root as root
from tests.server.coding import serving

from ronda import tool
from ronda.testing import ScriptedModel, says


@tool
def lookup(q: str) -> str:
    """Look something up."""
    return q


@pytest.mark.parametrize("stream", [False, True])
async def test_usual_requests_are_set_up_once(door: Door, root: Path, stream: bool) -> None:
    async with serving(door, ScriptedModel(says("one"), says("two")), root, tools=[lookup]) as server:
        for _ in range(2):
            body = {"model": "default", "messages": [{"role": "user", "content": "go"}], "stream": stream}
            async with door.http.post(f"{door.url}/chat/completions", json=body) as answer:
                await answer.read()
        setups = dict(server.opening.setups.usual)

    assert list(setups) == [(stream, None)]
    assert [spec.name for spec in setups[stream, None].plan.tools] == ["lookup"]
