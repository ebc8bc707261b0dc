"""An agent as a tool of another one: a run of its own, within what its caller has left, and in its caller's journal."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

from ronda import Agent, Cancel, invoke_agent, invoke_agent_async, run_agent, run_agent_async, tool
from ronda.core.events import Event, RunFinished, RunStarted
from ronda.core.parts import SystemTurn, ToolResult, ToolTurn, Usage, user
from ronda.errors import BadConfig, RunCancelled
from ronda.journal.memory import MemoryJournal
from ronda.testing import Call, ScriptedModel, calls, fails, says

ASK = calls(Call("poet", {"input": "On rain."}, "p"))


@tool
def count(text: str) -> int:
    """Count the words."""
    return len(text.split())


def poet(*lines: object) -> Agent:
    model = ScriptedModel(*(lines or (calls("count", text="drip drop"), says("Drip, drop."))))  # type: ignore[arg-type]
    return Agent(model, name="poet", instructions="Write a poem.\nBe brief.", tools=[count])


def test_an_agent_among_the_tools_runs_its_own_loop() -> None:
    child, model = poet(), ScriptedModel(ASK, says("Here it is."))

    result = run_agent(Agent(model, tools=[child]), "A poem on rain!")

    assert result.output == "Here it is."
    assert model.heard[1][-1] == ToolTurn((ToolResult("p", "Drip, drop."),))
    assert child.provider.heard[0] == [SystemTurn("Write a poem.\nBe brief."), user("On rain.")]  # type: ignore[attr-defined]
    assert result.usage == Usage(40, 20)  # two calls of each


def test_its_name_and_description_are_what_the_model_sees() -> None:
    described = Agent(ScriptedModel(), name="poet", description="Writes poems.")
    made: list[Any] = [
        poet(),
        described.as_tool(name="rhymer"),
        described.as_tool(name="bard", description="Sings."),
        Agent(ScriptedModel(), name="Grüße & Co. "),
    ]
    model = ScriptedModel(says("hi"))

    invoke_agent(Agent(model, tools=made), "go", {"other": described})

    assert [(spec.name, spec.description) for spec in model.requests[0].tools] == [
        ("poet", "Write a poem."),
        ("rhymer", "Writes poems."),
        ("bard", "Sings."),
        ("Gr_e_Co_", "Ask the agent 'Grüße & Co. '."),
        ("other", "Writes poems."),
    ]
    assert msgspec.json.decode(model.requests[0].tools[0].parameters)["required"] == ["input"]


def test_two_agents_of_one_name_are_refused() -> None:
    with pytest.raises(BadConfig, match="two tools are named 'agent'; give one of them another name"):
        Agent(ScriptedModel(), tools=[Agent(ScriptedModel()), Agent(ScriptedModel())])


async def test_it_is_a_child_in_its_callers_journal() -> None:
    journal = MemoryJournal()
    seen: list[Event] = []

    result = await run_agent_async(
        Agent(ScriptedModel(ASK, says("done")), tools=[poet()]), "go", journal=journal, on_event=seen.append
    )

    [child] = [run for run in journal._runs if run != result.run_id]
    events = await journal.read(child)
    assert isinstance(events[0], RunStarted)
    assert events[0].parent is not None
    assert events[0].parent[0] == result.run_id
    assert isinstance(events[-1], RunFinished)


def test_it_has_what_its_caller_has_left() -> None:
    model = ScriptedModel(ASK, says("done"))
    child = poet(calls("count", text="a"), calls("count", text="b"), calls("count", text="c"))

    run_agent(Agent(model, tools=[child]), "go", max_tool_calls=2)

    [result] = model.heard[1][-1].results  # type: ignore[union-attr]
    assert result.failed
    assert result.content.startswith("Error: the agent 'poet' has no answer: ")


def test_what_fails_in_it_is_news_for_its_caller() -> None:
    model = ScriptedModel(ASK, says("It failed."))
    assert invoke_agent(Agent(model, tools=[poet(fails("no such model", 404))]), "go") == "It failed."
    [result] = model.heard[1][-1].results  # type: ignore[union-attr]
    assert result == ToolResult("p", "Error: the agent 'poet' has no answer: no such model", failed=True)


async def test_cancelling_its_caller_ends_it() -> None:
    cancel, ended = Cancel(), []

    @tool
    async def wait() -> str:
        """Wait."""
        try:
            cancel.cancel()
            await asyncio.Event().wait()
        finally:
            ended.append("wait")
        return "never"

    child = Agent(ScriptedModel(calls("wait")), name="poet", tools=[wait])
    with pytest.raises(RunCancelled):
        await invoke_agent_async(Agent(ScriptedModel(ASK), tools=[child]), "go", cancel=cancel)
    assert ended == ["wait"]


def test_a_file_can_be_given_an_agent_for_a_run() -> None:
    from tests.pipeline.files import scripted

    model = ScriptedModel(ASK, says("Here it is."))
    prompty = scripted(model, "user:\nA poem!", tools=[{"name": "poet", "kind": "function", "description": "Write."}])

    assert invoke_agent(prompty, {}, {"poet": poet()}) == "Here it is."
    assert model.heard[1][-1] == ToolTurn((ToolResult("p", "Drip, drop."),))
