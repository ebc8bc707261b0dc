"""Mistral's code interpreter through the official client: conversations and agents, plain and streamed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from mistralai.client import Mistral
from tests.interaction.doors import Door
from tests.server.coding import root as root
from tests.server.coding import serving

from ronda.testing import ScriptedModel, calls, says

CODE = "print(6 * 7)"
TOOL: Any = {"type": "code_interpreter"}


def client(door: Door) -> Any:
    """Its declarations are plain dicts here."""
    return Mistral(api_key="test", server_url=door.url.removesuffix("/v1"))


def script() -> ScriptedModel:
    return ScriptedModel(calls("mistralrs_execute_python", code=CODE), says("It is 42."))


async def test_code_is_an_entry_of_a_conversation(door: Door, root: Path) -> None:
    async with serving(door, script(), root), client(door) as mistral:
        answer = await mistral.beta.conversations.start_async(model="default", inputs="go", tools=[TOOL])
    execution, message = answer.outputs
    assert (execution.type, execution.name) == ("tool.execution", "code_interpreter")
    assert execution.info["code"] == CODE
    assert execution.info["code_output"] == "42\n"
    assert message.content == "It is 42."


async def test_a_stream_tells_of_code_while_it_runs(door: Door, root: Path) -> None:
    async with serving(door, script(), root), client(door) as mistral:
        stream = await mistral.beta.conversations.start_stream_async(model="default", inputs="go", tools=[TOOL])
        events = [event.data async for event in stream]
    told = [event for event in events if event.type.startswith("tool.execution")]
    assert (told[0].type, told[-1].type) == ("tool.execution.started", "tool.execution.done")
    assert {event.name for event in told} == {"code_interpreter"}
    assert told[-1].info["code_output"] == "42\n"


async def test_an_agent_that_has_it_runs_code_in_each_conversation(door: Door, root: Path) -> None:
    async with serving(door, script(), root), client(door) as mistral:
        agent = await mistral.beta.agents.create_async(model="default", name="coder", tools=[TOOL])
        answer = await mistral.beta.conversations.start_async(agent_id=agent.id, inputs="go")
    assert [entry.type for entry in answer.outputs] == ["tool.execution", "message.output"]
