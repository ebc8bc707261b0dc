"""Tools of an MCP server in a run: what the model reads, what clients that watch see, and what people are asked."""

from __future__ import annotations

import json
from typing import Any

import pytest
from msgspec import Raw
from msgspec.structs import replace
from tests.timeouts import soon
from tests.tools.mcp.serving import opened, program
from tests.wire.exchanges import request

from ronda import Agent, Asked, run_agent_async, stream_agent
from ronda.core.events import Event, ToolFinished, ToolProgressed
from ronda.core.parts import ToolTurn, user
from ronda.providers import Where, open_provider
from ronda.providers.script import Call
from ronda.testing import ScriptedModel, calls, says
from ronda.tools.mcp.config import Approvals


async def test_a_model_calls_two_tools_of_a_server() -> None:
    async with soon(), opened(program()) as servers:
        model = ScriptedModel(calls(Call("every_add", {"a": 1, "b": 2}), "every_fail"), says("done"))
        result = await run_agent_async(Agent(model, tools=servers.tools()), "go")
        assert result.output == "done"
        turn = model.heard[1][-1]
        assert isinstance(turn, ToolTurn)
        assert [one.failed for one in turn.results] == [False, True]
        assert turn.results[0].content == "3"


async def test_arguments_for_a_server_are_repaired_as_those_of_built_in_tools_are() -> None:
    async with soon(), opened(program()) as servers:
        model = ScriptedModel(
            calls("every_add", a="1", B=2),
            calls("every_add", a="x", b=2),
            says("done"),
        )
        await run_agent_async(Agent(model, tools=servers.tools()), "go")

    repaired, refused = [turn.results[0] for heard in model.heard[1:] if isinstance(turn := heard[-1], ToolTurn)]
    assert (repaired.failed, repaired.content) == (False, "3")
    assert refused.failed
    assert "do not fit its schema" in refused.content


CLOSED = {
    "type": "object",
    "properties": {"a": {"type": "integer"}},
    "required": ["a"],
    "additionalProperties": False,
}


@pytest.mark.parametrize(
    ("model", "is_strict"),
    [
        ("openai-chat:gpt-5", lambda tool: tool["function"]["strict"]),
        ("openai:gpt-5", lambda tool: tool["strict"]),
        ("anthropic:claude-sonnet-4-5", lambda tool: tool["strict"]),
    ],
)
async def test_a_model_that_decodes_under_schemas_is_told_those_of_a_server(model: str, is_strict: Any) -> None:
    async with soon(), opened(program()) as servers:
        [spec] = [tool.spec for tool in servers.tools() if tool.spec.name == "every_add"]
    provider: Any = open_provider(model, Where())
    closed = replace(spec, parameters=Raw(json.dumps(CLOSED).encode()))
    body = json.loads(provider.capabilities.project(request(user("go"), tools=(closed,))).body)

    assert is_strict(body["tools"][0]) is True


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
