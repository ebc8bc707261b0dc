"""Tools of an MCP server in a run: what the model reads, what those who watch see, and what people are asked."""

from __future__ import annotations

from typing import Any

import pytest
from tests.timeouts import soon
from tests.tools.mcp.serving import opened, program

from ronda import Agent, Asked, run_agent_async, stream_agent
from ronda.core.events import Event, ToolFinished, ToolProgressed
from ronda.core.parts import ToolTurn
from ronda.providers.script import Call
from ronda.testing import ScriptedModel, calls, says
from ronda.tools.mcp.config import Approvals


async def test_a_model_calls_two_tools_of_a_server() -> None:
    async with soon(), opened(program()) as servers:
        model = ScriptedModel(
            calls(Call("every_add", {"a": 1, "b": 2}), "every_fail", Call("every_add", {"a": "x", "b": 2})),
            says("done"),
        )
        result = await run_agent_async(Agent(model, tools=servers.tools()), "go")
        assert result.output == "done"
        turn = model.heard[1][-1]
        assert isinstance(turn, ToolTurn)
        assert [one.failed for one in turn.results] == [False, True, True]
        assert turn.results[0].content == "3"
        assert "the arguments do not fit" in turn.results[2].content


async def test_progress_is_a_preview_of_the_run() -> None:
    events: list[Event] = []
    async with soon(), opened(program()) as servers:
        model = ScriptedModel(calls("every_steps", count=2), says("done"))
        async with stream_agent(Agent(model, tools=servers.tools()), "go") as stream:
            async for event in stream:
                events.append(event)  # noqa: PERF401  # the iterator is asynchronous
    assert [event.text for event in events if isinstance(event, ToolProgressed)] == ["step 1\n", "step 2\n"]
    [finished] = [event for event in events if isinstance(event, ToolFinished)]
    assert bytes(finished.details).startswith(b'{"mcp":{"server":"every","tool":"steps"')


@pytest.mark.parametrize("era", ["legacy", "modern"])
async def test_what_a_server_asks_and_what_needs_approval_reach_the_same_person(era: str) -> None:
    asked: list[Asked] = []

    def approve(question: Asked) -> Any:
        asked.append(question)
        return {"color": "red"} if question.kind == "input" else True

    async with soon(), opened(program(era=era, approvals=Approvals("ask"))) as servers:
        model = ScriptedModel(calls("every_ask"), says("done"))
        result = await run_agent_async(Agent(model, tools=servers.tools()), "go", approve=approve)
    assert result.tool_calls[0].content == "red"
    assert [(question.kind, question.tool) for question in asked] == [("approval", "every_ask"), ("input", "every_ask")]
    assert asked[1].message == "every: Which color?"
