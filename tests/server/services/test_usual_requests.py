"""Requests that ask for nothing but an answer all get the same, whatever was asked for between them."""

from __future__ import annotations

from typing import Any

from tests.interaction.doors import Door

from ronda import tool
from ronda.testing import ScriptedModel, says


@tool
def weather(city: str) -> str:
    """Tell the weather of a city."""
    return f"sun in {city}"


OWN: dict[str, Any] = {"type": "function", "function": {"name": "own", "parameters": {"type": "object"}}}


async def test_what_one_request_asks_for_is_for_it_alone(door: Door, stream: bool) -> None:
    model = ScriptedModel(*[says("hi") for _ in range(6)])
    async with door.serving(model, weather) as served:
        await served.ask(stream=stream)
        await served.ask(stream=stream, temperature=0.5, tools=[OWN])
        await served.ask(stream=stream)
        await served.ask(stream=stream, max_tool_rounds=0)
        await served.ask(stream=not stream)
        await served.ask(stream=stream)
    ours = ["weather"]
    assert [[spec.name for spec in request.tools] for request in model.requests] == [
        ours, ["weather", "own"], ours, [], ours, ours
    ]  # fmt: skip
    assert [request.options.temperature for request in model.requests] == [None, 0.5, None, None, None, None]
    assert [request.stream for request in model.requests] == [stream, stream, stream, stream, not stream, stream]
