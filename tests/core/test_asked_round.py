"""A model call that is worded again from the journal is the one that the driver made."""

from __future__ import annotations

from typing import Any

import pytest

from ronda import Agent, tool
from ronda.agent.invoke import run_agent_async
from ronda.core.asked_round import requests_of
from ronda.core.events import ModelFinished
from ronda.core.request import ModelRequest
from ronda.drive import Show
from ronda.journal.memory import MemoryJournal
from ronda.testing import ScriptedModel, calls, says


class Recording(ScriptedModel):
    """Keeps each request as it was when it came."""

    def __init__(self, *script: Any) -> None:
        super().__init__(*script)
        self.worded: list[ModelRequest] = []

    async def call(self, request: ModelRequest, show: Show) -> ModelFinished:
        self.worded.append(
            ModelRequest(
                list(request.turns), request.tools, request.choice, request.options, request.stream, request.run,
                request.round, 1, {}, request.max_bytes,
            )
        )  # fmt: skip
        return await super().call(request, show)


@tool
def look(city: str) -> str:
    """Look outside."""
    return f"sunny in {city} " + "and warm " * 40


@pytest.mark.parametrize(
    "options",
    [{}, {"max_iterations": 1, "on_limit": "answer"}, {"context_budget": 500}],
    ids=["usual", "a limit", "a budget"],
)
async def test_requests_from_the_journal_are_those_that_the_driver_made(options: dict[str, Any]) -> None:
    model = Recording(calls("look", city="Rome"), calls("look", city="Oslo"), says("Both are sunny."), says("Sunny."))
    journal = MemoryJournal()
    agent = Agent(model, tools=[look], instructions="Be brief.", tool_choice="required")
    result = await run_agent_async(agent, "How is it?", journal=journal, **options)
    events = await journal.read(result.run_id)

    found = requests_of(events, range(10))
    assert [found[number] for number in sorted(found)] == model.worded
    assert len(model.worded) > 1
