"""Bound parameters come from the inputs: hidden from the model, out of its reach, and named when they are missing."""

from __future__ import annotations

import json

import pytest

from ronda import Agent, invoke_agent, tool
from ronda.core.parts import ToolResult, ToolTurn
from ronda.errors import BadConfig, BadRequest
from ronda.providers.script import Call, ScriptedModel, calls, says

seen: list[tuple[str, str]] = []


@pytest.fixture(autouse=True)
def nothing_seen_yet() -> None:
    seen.clear()


@tool(bindings={"user_id": "user"})
async def orders(user_id: str, state: str = "open") -> str:
    """List orders.

    Args:
        user_id: Whose.
        state: Which.
    """
    seen.append((user_id, state))
    return f"{state} orders of {user_id}"


def script(**arguments: object) -> ScriptedModel:
    return ScriptedModel(calls(Call("orders", arguments, "c1")), says("done"))


def test_a_bound_parameter_is_not_shown_to_the_model() -> None:
    model = script(state="closed")

    invoke_agent(Agent(model=model, tools=[orders]), {"input": "go", "user": "ann"})

    [spec] = model.requests[0].tools
    schema = json.loads(bytes(spec.parameters))
    assert list(schema["properties"]) == ["state"]
    assert "user_id" not in schema.get("required", [])
    assert "user_id" not in json.dumps(schema) + spec.description


def test_a_bound_parameter_is_filled_from_the_inputs() -> None:
    assert invoke_agent(Agent(model=script(state="closed"), tools=[orders]), {"input": "go", "user": "ann"}) == "done"
    assert seen == [("ann", "closed")]


def test_what_the_model_wrote_for_a_bound_parameter_is_dropped() -> None:
    model = script(user_id="bob", state="closed")

    invoke_agent(Agent(model=model, tools=[orders]), {"input": "go", "user": "ann"})

    assert seen == [("ann", "closed")]
    assert model.heard[1][-1] == ToolTurn((ToolResult("c1", "closed orders of ann"),))


def test_what_the_model_wrote_for_a_bound_parameter_need_not_even_fit() -> None:
    invoke_agent(Agent(model=script(user_id=["x"]), tools=[orders]), {"input": "go", "user": "ann"})

    assert seen == [("ann", "open")]


@pytest.mark.parametrize("inputs", ["go", {"input": "go"}, {"input": "go", "users": "ann"}])
def test_a_missing_input_is_a_clear_error_before_the_model_is_called(inputs: object) -> None:
    model = script()

    with pytest.raises(BadRequest, match=r"'orders'.*'user_id'.*'user'"):
        invoke_agent(Agent(model=model, tools=[orders]), inputs)  # type: ignore[arg-type]  # what a user may get wrong

    assert model.heard == []


def test_binding_a_parameter_that_does_not_exist_is_a_clear_error() -> None:
    with pytest.raises(BadConfig, match=r"'nothing'.*'whose'|'whose'"):

        @tool(bindings={"whose": "user"})
        async def nothing() -> str:
            """Nothing."""
            return ""


def test_two_runs_of_one_agent_do_not_see_each_others_inputs() -> None:
    agent = Agent(model=ScriptedModel(calls("orders"), says("a"), calls("orders"), says("b")), tools=[orders])

    invoke_agent(agent, {"input": "go", "user": "ann"})
    invoke_agent(agent, {"input": "go", "user": "bob"})

    assert seen == [("ann", "open"), ("bob", "open")]


def test_a_bound_value_may_be_anything() -> None:
    kept: list[object] = []

    @tool(bindings={"database": "db"})
    async def query(sql: str, database: object) -> str:
        """Ask the database."""
        kept.append(database)
        return sql

    connection = object()
    model = ScriptedModel(calls(Call("query", {"sql": "select 1"}, "c1")), says("done"))

    assert invoke_agent(Agent(model=model, tools=[query]), {"input": "go", "db": connection}) == "done"
    assert kept == [connection]
