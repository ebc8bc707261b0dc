"""Hooks of a program, before and after each model call and each tool call of a run."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import Raw
from msgspec.structs import replace

from ronda import Agent, Hooks, ModelFinished, ToolContext, ToolFailed, ToolOutput, resume_agent_async, run_agent_async
from ronda import tool as make_tool
from ronda.core.parts import AssistantTurn, Native, Text, ToolTurn, user
from ronda.core.request import ModelRequest
from ronda.journal.memory import MemoryJournal
from ronda.testing import ScriptedModel, calls, says


@make_tool
def double(n: int) -> int:
    """Double a number."""
    return 2 * n


@make_tool(approval="ask")
def erase(n: int) -> str:
    """Erase something."""
    return f"erased {n}"


class Notes(Hooks):
    """Notes what it is asked, in order."""

    def __init__(self) -> None:
        self.seen: list[str] = []

    async def before_model(self, request: ModelRequest) -> None:
        self.seen.append("before model")

    async def after_model(self, request: ModelRequest, answer: ModelFinished) -> None:
        self.seen.append("after model")

    async def before_tool(self, name: str, arguments: dict[str, Any], context: ToolContext) -> None:
        self.seen.append(f"before {name} {arguments}")

    async def after_tool(self, name: str, arguments: dict[str, Any], output: ToolOutput, context: ToolContext) -> None:
        self.seen.append(f"after {name}: {output.content}")


async def test_hooks_are_asked_around_each_call() -> None:
    notes = Notes()
    agent = Agent(ScriptedModel(calls("double", n=2), says("4")), tools=[double])
    result = await run_agent_async(agent, "go", extensions=[notes])
    assert result.output == "4"
    assert notes.seen == [
        "before model", "after model", "before double {'n': 2}", "after double: 4", "before model", "after model",
    ]  # fmt: skip


async def test_a_run_without_hooks_of_its_own_has_none() -> None:
    notes = Notes()
    model = ScriptedModel(says("one"), says("two"))
    await run_agent_async(Agent(model), "go", extensions=[notes])
    await run_agent_async(Agent(model), "go")
    assert notes.seen == ["before model", "after model"]


async def test_what_hooks_return_is_used() -> None:
    class Changes(Hooks):
        async def before_model(self, request: ModelRequest) -> ModelRequest:
            return replace(request, turns=(*request.turns, user("Be brief.")))

        async def after_model(self, request: ModelRequest, answer: ModelFinished) -> ModelFinished | None:
            if answer.turn.calls:
                return None
            return replace(answer, turn=AssistantTurn((Text("changed"),), native=Native("other", Raw(b"{}"))))

        async def before_tool(self, name: str, arguments: dict[str, Any], context: ToolContext) -> dict[str, Any]:
            return {"n": arguments["n"] + 1}

        async def after_tool(
            self, name: str, arguments: dict[str, Any], output: ToolOutput, context: ToolContext
        ) -> ToolOutput:
            return ToolOutput(f"{arguments['n']} doubled is {output.content}")

    model = ScriptedModel(calls("double", n=2), says("4"))
    result = await run_agent_async(Agent(model, tools=[double]), "go", extensions=[Changes()])
    assert [turns[-1] for turns in model.heard] == [user("Be brief.")] * 2
    assert result.tool_calls[0].content == "3 doubled is 6"
    assert result.output == "changed"
    assert user("Be brief.") not in result.messages
    assert isinstance(last := result.messages[-1], AssistantTurn)
    assert last.native is None  # else the upstream would be sent back its own words instead


async def test_a_hook_may_refuse_a_call() -> None:
    class Refuses(Hooks):
        async def before_tool(self, name: str, arguments: dict[str, Any], context: ToolContext) -> None:
            raise ToolFailed("not today")

    agent = Agent(ScriptedModel(calls("double", n=2), says("well")), tools=[double])
    result = await run_agent_async(agent, "go", extensions=[Refuses()])
    assert result.tool_calls[0].failed
    assert "not today" in (result.tool_calls[0].content or "")
    assert result.output == "well"


async def test_agents_that_are_tools_have_the_hooks_of_their_caller() -> None:
    notes = Notes()
    child = Agent(ScriptedModel(calls("double", n=3), says("6")), tools=[double], name="child", description="Doubles.")
    agent = Agent(ScriptedModel(calls("child", input="3"), says("six")), tools=[child])
    await run_agent_async(agent, "go", extensions=[notes])
    assert "before double {'n': 3}" in notes.seen
    assert "after child: 6" in notes.seen
    assert notes.seen.count("before model") == 4


async def test_a_run_that_is_resumed_has_the_hooks_that_are_given_then() -> None:
    notes, journal = Notes(), MemoryJournal()
    agent = Agent(ScriptedModel(calls("erase", n=1), says("done")), tools=[erase])
    first = await run_agent_async(agent, "go", journal=journal, extensions=[notes])
    assert notes.seen == ["before model", "after model"]  # the call waits: it was not begun
    answers = {first.questions[0].id: True}
    await resume_agent_async(first.run_id, answers, journal=journal, agent=agent, extensions=[notes])
    assert notes.seen[2:] == ["before erase {'n': 1}", "after erase: erased 1", "before model", "after model"]


class Plain(Hooks):
    """Without `async`, as people write it first."""

    def __init__(self) -> None:
        self.seen: list[str] = []

    def before_model(self, request: ModelRequest) -> None:
        self.seen.append("before model")

    def before_tool(self, name: str, arguments: dict[str, Any], context: ToolContext) -> dict[str, Any]:
        self.seen.append(name)
        return {"n": 4}


async def test_a_hook_may_be_a_plain_function() -> None:
    hooks, model = Plain(), ScriptedModel(calls("double", n=1), says("8"))

    result = await run_agent_async(Agent(model, tools=[double]), "go", extensions=[hooks])

    assert (result.tool_calls[0].content, result.tool_calls[0].failed) == ("8", False)
    assert hooks.seen == ["before model", "double", "before model"]


class Asks(Hooks):
    """Asks what it overrides, in methods of one kind."""

    async def before_model(self, request: ModelRequest) -> ModelRequest | None:
        return await super().before_model(request)

    async def after_model(self, request: ModelRequest, answer: ModelFinished) -> ModelFinished | None:
        return await super().after_model(request, answer)

    async def before_tool(self, name: str, arguments: dict[str, Any], context: ToolContext) -> dict[str, Any] | None:
        return await super().before_tool(name, arguments, context) or {"n": arguments["n"] + 1}

    async def after_tool(
        self, name: str, arguments: dict[str, Any], output: ToolOutput, context: ToolContext
    ) -> ToolOutput | None:
        return await super().after_tool(name, arguments, output, context)


class AsksPlainly(Hooks):
    def before_model(self, request: ModelRequest) -> ModelRequest | None:
        super().before_model(request)
        return None

    def before_tool(self, name: str, arguments: dict[str, Any], context: ToolContext) -> dict[str, Any] | None:
        super().before_tool(name, arguments, context)
        return {"n": arguments["n"] + 1}

    def after_tool(self, name: str, arguments: dict[str, Any], output: ToolOutput, context: ToolContext) -> Any:
        return super().after_tool(name, arguments, output, context)


@pytest.mark.parametrize("hooks", [Asks(), AsksPlainly()], ids=["async", "plain"])
async def test_a_hook_may_call_the_method_that_it_overrides(hooks: Hooks) -> None:
    agent = Agent(ScriptedModel(calls("double", n=2), says("done")), tools=[double])
    result = await run_agent_async(agent, "go", extensions=[hooks])
    assert [one.content for turn in result.messages if isinstance(turn, ToolTurn) for one in turn.results] == ["6"]
