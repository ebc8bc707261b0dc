"""Agents that hand over to each other within one request of /v1/agents/completions, through Mistral's SDK."""

from __future__ import annotations

from typing import Any

import pytest
from tests.interaction.doors import Door, Json
from tests.server.mistral_doors import chunks, fold, function, serving, without_ids

from ronda import tool
from ronda.core.events import ModelFinished
from ronda.core.parts import AssistantTurn, SystemTurn, Text, ToolCall, ToolResult, ToolTurn, user
from ronda.core.request import ModelRequest
from ronda.drive import Show
from ronda.testing import Call, Line, ScriptedModel, calls, says

PATH = "/v1/agents/completions"
WEATHER = function("weather", city="string")
TO_B, TO_A = "handoff_to_Billing", "handoff_to_Desk"
HANDED = "The conversation was handed over to the agent 'Billing'."
HI = [{"role": "user", "content": "hi"}]


@tool
async def lookup(q: str) -> str:
    """Look something up."""
    return f"found {q}"


async def two_agents(client: Any, tools: list[Json] | None = None) -> tuple[str, str]:
    """A desk and billing, which hand over to each other."""
    agents = client.beta.agents
    more: Json = {"model": "default", "tools": tools or []}
    billing = await agents.create_async(name="Billing", instructions="You bill.", **more)
    desk = await agents.create_async(name="Desk", instructions="You greet.", handoffs=[billing.id], **more)
    await agents.update_async(agent_id=billing.id, handoffs=[desk.id])
    return desk.id, billing.id


@pytest.mark.parametrize("tools", [(), (lookup,)], ids=["no tools of ours", "a tool of ours"])
async def test_a_completion_is_the_last_agents_answer(door: Door, tools: Any) -> None:
    model = ScriptedModel(calls(TO_B, text="One moment."), says("You owe 5."))
    async with serving(door, model, *tools) as behind, behind.client() as client:
        desk, _ = await two_agents(client)
        messages = [{"role": "system", "content": "S"}, *HI]
        answer = await client.agents.complete_async(agent_id=desk, messages=messages)

    [choice] = answer.choices
    assert (choice.message.content, choice.finish_reason) == ("You owe 5.", "stop")
    assert not choice.message.tool_calls
    assert [(one.role, one.content) for one in choice.messages] == [
        ("assistant", "One moment.\n\n"),
        ("tool", HANDED),
        ("assistant", "You owe 5."),
    ]
    assert (answer.usage.prompt_tokens, answer.usage.completion_tokens, answer.usage.total_tokens) == (20, 10, 30)
    asked = AssistantTurn((Text("One moment."), ToolCall("call_0_0", TO_B, "{}")), "tool_calls")
    assert model.heard == [
        [SystemTurn("You greet."), SystemTurn("S"), user("hi")],
        [SystemTurn("You bill."), SystemTurn("S"), user("hi"), asked, ToolTurn((ToolResult("call_0_0", HANDED),))],
    ]


SCRIPTS: dict[str, list[Line]] = {
    "a handoff": [calls(TO_B, text="One moment."), says("You owe 5.")],
    "there and back": [calls(TO_B), calls(TO_A, text="Not mine."), Line(text="Hello again.", reasoning="hm")],
    "beside a tool of ours": [calls(Call("lookup", {"q": "x"}), Call(TO_B)), calls("lookup", q="y"), says("So.")],
    "twice in a turn": [calls(TO_B, TO_B), says("You owe 5.")],
    "beside a function": [calls(Call(TO_B), Call("weather", {"city": "Rome"}), text="Wait.")],
    "then functions": [calls(TO_B), calls(Call("weather", {"city": "Rome"}), Call("weather", {"city": "Oslo"}))],
}


@pytest.mark.parametrize("script", SCRIPTS.values(), ids=SCRIPTS.keys())
@pytest.mark.parametrize("tools", [(), (lookup,)], ids=["no tools of ours", "a tool of ours"])
async def test_a_stream_adds_up_to_the_plain_answer(door: Door, script: list[Line], tools: Any) -> None:
    declared = [WEATHER] if tools else [WEATHER, function("lookup", q="string")]
    model = ScriptedModel(*script)
    async with serving(door, model, *tools) as behind, behind.client() as client:
        desk, _ = await two_agents(client, declared)
        body = {"agent_id": desk, "messages": HI}
        said = fold(chunks(await behind.stream(PATH, {**body, "stream": True})))
        first = len(model.heard)
        # The same again, with the ids that the first answer had.
        model._lines[first:] = [
            Line(
                text=line.text,
                reasoning=line.reasoning,
                calls=tuple([Call(one.name, one.arguments, f"call_{at}_{n}") for n, one in enumerate(line.calls)]),
            )
            for at, line in enumerate(script[:first])
        ]
        _, plain = await behind.ask("POST", PATH, body)

    [choice] = plain["choices"]
    assert without_ids(said.messages[-1]) == without_ids(choice["message"])
    assert (said.finish_reason, said.usage) == (choice["finish_reason"], plain["usage"])
    complete = [one for one in said.progress if one["phase"] == "complete"]
    assert sorted([(one["round"], one["tool_call_id"], one["data"]["content"]) for one in complete]) == sorted(
        [(one["round"], one["tool_call_id"], one["result_content"]) for one in plain.get("agentic_tool_calls", [])]
    )
    assert not any(call["function"]["name"] in (TO_A, TO_B) for call in choice["message"].get("tool_calls", ()))


async def test_what_comes_of_the_next_agents_calls_goes_to_it(door: Door) -> None:
    """The caller goes on naming the agent that it asked first."""
    weather = Call("weather", {"city": "Rome"})
    model = ScriptedModel(calls(TO_B), calls(weather), calls(weather), says("Hot."))
    async with serving(door, model) as behind, behind.client() as client:
        desk, _ = await two_agents(client, [WEATHER])
        messages: list[Any] = [*HI]
        for _ in range(2):
            answer = await client.agents.complete_async(agent_id=desk, messages=messages)
            message = answer.choices[0].message
            [call] = message.tool_calls
            messages += [message, {"role": "tool", "tool_call_id": call.id, "content": "40"}]
        last = await client.agents.complete_async(agent_id=desk, messages=messages)
        more = [*messages, last.choices[0].message, {"role": "user", "content": "Thanks."}]
        model._lines.append(says("Bye."))
        await client.agents.complete_async(agent_id=desk, messages=more)

    assert last.choices[0].message.content == "Hot."
    assert [heard[0] for heard in model.heard] == [
        SystemTurn("You greet."), *[SystemTurn("You bill.")] * 3, SystemTurn("You greet."),
    ]  # fmt: skip
    assert [turn for turn in model.heard[3] if isinstance(turn, ToolTurn)] == [
        ToolTurn((ToolResult("call_1_0", "40"),)),
        ToolTurn((ToolResult("call_2_0", "40"),)),
    ]


@pytest.mark.parametrize("tools", [(), (lookup,)], ids=["no tools of ours", "a tool of ours"])
async def test_a_function_beside_a_handoff_goes_out_and_the_first_agent_hears_of_it(door: Door, tools: Any) -> None:
    model = ScriptedModel(calls(Call(TO_B), Call("weather", {"city": "Rome"})), calls(TO_B), says("You owe 5."))
    async with serving(door, model, *tools) as behind, behind.client() as client:
        desk, _ = await two_agents(client, [WEATHER])
        first = await client.agents.complete_async(agent_id=desk, messages=HI)
        message = first.choices[0].message
        [call] = message.tool_calls
        messages = [*HI, message, {"role": "tool", "tool_call_id": call.id, "content": "40"}]
        second = await client.agents.complete_async(agent_id=desk, messages=messages)

    assert (first.choices[0].finish_reason, call.function.name, call.index) == ("tool_calls", "weather", 0)
    assert second.choices[0].message.content == "You owe 5."
    assert model.heard[1][0] == SystemTurn("You greet.")
    [results] = [turn.results for turn in model.heard[1] if isinstance(turn, ToolTurn)]
    assert ToolResult("call_0_1", "40") in results


async def test_agents_that_hand_over_in_circles_are_stopped(door: Door) -> None:
    circle = [calls(TO_B if n % 2 == 0 else TO_A) for n in range(9)]
    async with serving(door, ScriptedModel(*circle, *circle)) as behind, behind.client() as client:
        desk, _ = await two_agents(client)
        status, said = await behind.ask("POST", PATH, {"agent_id": desk, "messages": HI})
        shown = fold(chunks(await behind.stream(PATH, {"agent_id": desk, "messages": HI, "stream": True})))

    assert status == 502
    assert "handed over 8 times in this request" in said["message"]
    assert (shown.finish_reason, shown.top["error"]["message"]) == ("error", said["message"])


class ByAgent:
    """The desk hands over every other time; billing bills."""

    def __init__(self) -> None:
        self._desk = ScriptedModel(*[calls(TO_B), says("Hello.")] * 2)
        self._billing = ScriptedModel(*[says("You owe 5.")] * 2)

    async def call(self, request: ModelRequest, show: Show) -> ModelFinished:
        at_the_desk = request.turns[0] == SystemTurn("You greet.")
        return await (self._desk if at_the_desk else self._billing).call(request, show)


async def test_each_choice_hands_over_for_itself(door: Door) -> None:
    async with serving(door, ByAgent()) as behind, behind.client() as client:
        desk, _ = await two_agents(client)
        answer = await client.agents.complete_async(agent_id=desk, messages=HI, n=2)
        body = {"agent_id": desk, "messages": HI, "n": 2, "stream": True}
        read = chunks(await behind.stream(PATH, body))

    assert [(one.index, one.message.content) for one in answer.choices] == [(0, "You owe 5."), (1, "Hello.")]
    assert answer.usage.total_tokens == 45
    assert [fold(read, choice).messages[-1]["content"] for choice in (0, 1)] == ["You owe 5.", "Hello."]
    assert fold(read).usage == {"prompt_tokens": 30, "completion_tokens": 15, "total_tokens": 45}


async def test_the_tools_of_a_request_are_every_agents_and_its_choice_the_firsts(door: Door) -> None:
    model = ScriptedModel(calls(TO_B), says("You owe 5."))
    async with serving(door, model) as behind, behind.client() as client:
        desk, _ = await two_agents(client)
        await client.agents.complete_async(
            agent_id=desk, messages=HI, tools=[WEATHER], tool_choice="any", max_tokens=9, prompt_mode="reasoning"
        )

    assert [[spec.name for spec in request.tools] for request in model.requests] == [
        [TO_B, "weather"],
        [TO_A, "weather"],
    ]
    assert [request.choice.mode for request in model.requests] == ["required", "auto"]
    assert [request.options.max_tokens for request in model.requests] == [9, 9]
    first, second = model.heard
    assert [first[1:], second[1 : len(first)]] == [first[1:], first[1:]]  # what was said before it was asked, once each
