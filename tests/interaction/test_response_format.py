"""What the answer must look like: it binds the answer, not what is said between tools, and is checked before it counts."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from tests.interaction.doors import Door, Said, declared
from tests.interaction.upstreams import Upstream, completes

from ronda import Agent, invoke_agent, tool
from ronda.errors import RunEnded
from ronda.providers.script import Call, Line, ScriptedModel, calls, says


@tool
async def lookup(q: str) -> str:
    """Look something up."""
    return f"found {q}"


SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
BY_SCHEMA = {"type": "json_schema", "json_schema": {"name": "count", "schema": SCHEMA}}
FORMATS: list[dict[str, Any]] = [{"type": "json_object"}, BY_SCHEMA]


@pytest.mark.parametrize("format", FORMATS, ids=["json_object", "json_schema"])
async def test_an_answer_that_fits_is_the_answer(door: Door, stream: bool, format: dict[str, Any]) -> None:
    async with door.serving(ScriptedModel(says('{"n": 1}'))) as served:
        said = await served.ask(stream=stream, response_format=format)

    assert said == Said('{"n": 1}', finish_reason="stop", usage=(10, 5))


@pytest.mark.parametrize("format", FORMATS, ids=["json_object", "json_schema"])
async def test_what_is_said_between_tools_is_no_part_of_it(door: Door, stream: bool, format: dict[str, Any]) -> None:
    asks = Line("Let me see.", calls=(Call("lookup", {"q": "x"}, "c1"),))

    async with door.serving(ScriptedModel(asks, says('{"n": 1}')), lookup) as served:
        said = await served.ask(stream=stream, response_format=format)

    assert msgspec.json.decode(said.content) == {"n": 1}
    assert [record["tool_call_id"] for record in said.records] == ["c1"]


@pytest.mark.parametrize("bad", ["no", "[1]", '{"n": "one"}', "{}", '{"n": 1'])
async def test_an_answer_that_does_not_fit_is_never_an_answer(door: Door, stream: bool, bad: str) -> None:
    async with door.serving(ScriptedModel(*[says(bad)] * 9), lookup) as served:
        answer = await served.post({"messages": "go", "stream": stream, "response_format": BY_SCHEMA})
        [end] = await served.ends

    assert "response_format" in answer.error["message"]
    assert end.reason == "failed"


async def test_a_model_that_can_do_better_is_asked_again(door: Door, stream: bool) -> None:
    async with door.serving(ScriptedModel(says("no"), says('{"n": 1}')), lookup) as served:
        said = await served.ask(stream=stream, response_format=BY_SCHEMA)

    assert (said.content, said.usage) == ('{"n": 1}', (20, 10))


async def test_a_refusal_is_an_answer_all_the_same(door: Door, stream: bool) -> None:
    async with Upstream(completes(None, refusal="I will not.")) as upstream, door.serving(upstream.url) as served:
        said = await served.ask(stream=stream, response_format=BY_SCHEMA)

    assert (said.refusal, said.finish_reason) == ("I will not.", "stop")


async def test_a_callers_call_is_no_answer_yet(door: Door, stream: bool) -> None:
    async with door.serving(ScriptedModel(calls(Call("ask", {}, "c1"))), lookup) as served:
        said = await served.ask(stream=stream, response_format=BY_SCHEMA, tools=[declared("ask")])

    assert ([call[1:] for call in said.calls], said.finish_reason) == ([("ask", "{}")], "tool_calls")


class Count(msgspec.Struct):
    n: int


def test_the_library_gives_the_structured_value() -> None:
    assert invoke_agent(Agent(model=ScriptedModel(says('{"n": 1}')), output=Count), "go") == Count(1)
    assert invoke_agent(Agent(model=ScriptedModel(says('{"n": 1}')), output=SCHEMA), "go") == {"n": 1}


def test_the_library_raises_with_the_conversation_when_there_is_no_such_value() -> None:
    with pytest.raises(RunEnded) as raised:
        invoke_agent(Agent(model=ScriptedModel(*[says("no")] * 9), output=Count), "go")

    assert raised.value.messages


# ---- a strict tool of the caller's -----------------------------------------------------------------------------------


@pytest.mark.parametrize("with_ours", [True, False], ids=["with our tools", "without"])
async def test_a_strict_call_is_checked_before_it_is_handed_over(door: Door, stream: bool, with_ours: bool) -> None:
    strict = {"type": "function", "function": {"name": "ask", "strict": True, "parameters": SCHEMA}}
    model = ScriptedModel(calls(Call("ask", {"n": "one"}, "c1")), calls(Call("ask", {"n": 1}, "c2")))

    async with door.serving(model, *([lookup] if with_ours else [])) as served:
        said = await served.ask(stream=stream, tools=[strict])

    assert ([call[1:] for call in said.calls], said.finish_reason) == ([("ask", '{"n":1}')], "tool_calls")
