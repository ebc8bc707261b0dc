"""What a program gives to the tools of a run, typed, and unseen by the model."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Protocol, TypedDict, assert_type

import pytest

import ronda
from ronda import Agent, BadConfig, BadRequest, ToolContext, resume_agent_async, run_agent_async, tool
from ronda.journal.memory import MemoryJournal
from ronda.server.services.toolbox import Toolbox
from ronda.testing import ScriptedModel, calls, says


@dataclass
class Shop:
    prices: dict[str, float]


class Priced(Protocol):
    prices: dict[str, float]


class Rates(TypedDict):
    euro: float


SHOP = Shop({"tea": 3.5})


@tool
def price(item: str, context: ToolContext[Shop]) -> float:
    """The price of an item."""
    assert_type(context.deps, Shop)
    return context.deps.prices[item]


@tool(approval="ask")
async def raise_price(item: str, by: float, context: ronda.ToolContext[Shop]) -> float:
    """Raise a price."""
    return context.deps.prices[item] + by


@tool(bindings={"item": "item"})
def bound_price(item: str, context: ToolContext[Shop]) -> float:
    """The price of the item."""
    return context.deps.prices[item]


@tool
def by_protocol(item: str, context: ToolContext[Priced]) -> float:
    """The price of an item."""
    return context.deps.prices[item]


@tool
def by_rates(context: ToolContext[Rates]) -> float:
    """The rate of the euro."""
    return context.deps["euro"]


@tool
def alone(context: ToolContext) -> str:
    """Where it runs."""
    return f"{context.deps}"


async def asked(one: Any, **options: Any) -> str | None:
    agent = Agent(ScriptedModel(calls(one.spec.name, **options.pop("arguments", {})), says("so")), tools=[one])
    result = await run_agent_async(agent, options.pop("inputs", "go"), **options)
    return result.tool_calls[0].content


async def test_a_tool_finds_what_the_program_gave() -> None:
    assert await asked(price, arguments={"item": "tea"}, deps=SHOP) == "3.5"


def test_the_model_does_not_see_it() -> None:
    schema = json.loads(bytes(price.spec.parameters))
    assert list(schema["properties"]) == ["item"]


async def test_bound_parameters_stand_beside_it() -> None:
    assert await asked(bound_price, inputs={"input": "go", "item": "tea"}, deps=SHOP) == "3.5"


async def test_types_that_no_value_can_be_compared_with_are_taken_as_they_are() -> None:
    assert await asked(by_protocol, arguments={"item": "tea"}, deps=SHOP) == "3.5"
    assert await asked(by_rates, deps={"euro": 1.1}) == "1.1"


async def test_annotations_may_be_types_as_well_as_texts() -> None:
    def found(context: Any) -> float:
        return float(context.deps.prices["tea"])

    found.__annotations__["context"] = ToolContext[Shop]
    assert await asked(tool(found), deps=SHOP) == "3.5"
    with pytest.raises(BadRequest, match=r"takes a ToolContext\[Shop\]"):
        await asked(tool(found))


async def test_a_tool_that_names_no_type_gets_nothing() -> None:
    assert await asked(alone, deps=SHOP) == "None"
    assert await asked(alone) == "None"


async def test_a_run_without_it_is_refused_before_a_model_is_called() -> None:
    model = ScriptedModel(says("never"))
    with pytest.raises(BadRequest) as refused:
        await run_agent_async(Agent(model, tools=[price]), "go")
    assert "the tool 'price' takes a ToolContext[Shop]; give the run its deps: run_agent(…, deps=Shop(…))" in str(
        refused.value
    )
    assert refused.value.param == "deps"
    assert model.heard == []


async def test_one_of_another_class_is_refused() -> None:
    with pytest.raises(BadRequest, match=r"deps is 5; the tool 'price' takes a ToolContext\[Shop\]"):
        await run_agent_async(Agent(ScriptedModel(says("never")), tools=[price]), "go", deps=5)


async def test_agents_that_are_tools_have_it() -> None:
    child = Agent(
        ScriptedModel(calls("price", item="tea"), says("3.50")), tools=[price], name="clerk", description="Asks."
    )
    model = ScriptedModel(calls("clerk", input="tea?"), says("so"))
    result = await run_agent_async(Agent(model, tools=[child]), "go", deps=SHOP)
    assert result.tool_calls[0].content == "3.50"
    assert not result.tool_calls[0].failed


async def test_a_run_that_is_resumed_is_given_it_again() -> None:
    journal = MemoryJournal()
    agent = Agent(ScriptedModel(calls("raise_price", item="tea", by=1), says("so")), tools=[raise_price])
    first = await run_agent_async(agent, "go", journal=journal, deps=SHOP)
    answers = {first.questions[0].id: True}
    with pytest.raises(BadRequest, match="give the run its deps"):
        await resume_agent_async(first.run_id, answers, journal=journal, agent=agent)
    result = await resume_agent_async(first.run_id, answers, journal=journal, agent=agent, deps=SHOP)
    assert result.tool_calls[0].content == "4.5"


def test_a_server_refuses_such_a_tool() -> None:
    with pytest.raises(BadConfig, match=r"'price' takes a ToolContext\[Shop\], which only run_agent"):
        Toolbox([price])
