"""A run that reaches a limit ends well: one last answer with tools off, or an error that carries the conversation."""

from __future__ import annotations

import asyncio
from typing import Any

import openai
import pytest
from tests.interaction.doors import Door, Said, declared, soon

from ronda import Agent, invoke_agent, invoke_agent_async, tool
from ronda.core.parts import AssistantTurn, Text, ToolCall, ToolResult, ToolTurn, Usage
from ronda.core.parts import user as says_user
from ronda.core.plan import ToolChoice
from ronda.errors import BadRequest, LimitExceeded
from ronda.providers.script import Call, Line, ScriptedModel, calls, says

ran: list[int] = []


@pytest.fixture(autouse=True)
def nothing_ran_yet() -> None:
    ran.clear()


@tool
async def count(n: int) -> str:
    """Count."""
    ran.append(n)
    return f"counted {n}"


def counting(rounds: int, *then: Line) -> ScriptedModel:
    return ScriptedModel(*[calls(Call("count", {"n": n}, f"c{n}")) for n in range(rounds)], *then)


def round_of(n: int) -> list[Any]:
    return [
        AssistantTurn((ToolCall(f"c{n}", "count", f'{{"n":{n}}}'),), "tool_calls"),
        ToolTurn((ToolResult(f"c{n}", f"counted {n}"),)),
    ]


# ---- the library -----------------------------------------------------------------------------------------------------


def test_the_library_raises_after_the_nth_tool_round_without_asking_the_model_again() -> None:
    model = counting(9)

    with pytest.raises(RuntimeError) as raised:
        invoke_agent(Agent(model=model, tools=[count]), "go", max_iterations=2)

    assert str(raised.value) == "Agent loop exceeded 2 iterations"
    assert isinstance(raised.value, LimitExceeded)
    assert raised.value.messages == [says_user("go"), *round_of(0), *round_of(1)]
    assert len(model.heard) == 2
    assert ran == [0, 1]


def test_the_library_stops_after_ten_rounds_unless_told_otherwise() -> None:
    model = counting(20)

    with pytest.raises(RuntimeError, match=r"^Agent loop exceeded 10 iterations$"):
        invoke_agent(Agent(model=model, tools=[count]), "go")

    assert ran == list(range(10))


def test_an_answer_after_the_last_round_but_one_is_no_limit() -> None:
    assert invoke_agent(Agent(model=counting(2, says("two")), tools=[count]), "go", max_iterations=3) == "two"


def test_the_conversation_of_an_exceeded_limit_can_go_on() -> None:
    agent = Agent(model=counting(2, says("two")), tools=[count])

    with pytest.raises(LimitExceeded) as raised:
        invoke_agent(agent, "go", max_iterations=2)

    assert invoke_agent(agent, raised.value.messages) == "two"


@pytest.mark.parametrize("rounds", [0, -1])
def test_a_run_needs_at_least_one_iteration(rounds: int) -> None:
    with pytest.raises(BadRequest, match="max_iterations"):
        invoke_agent(Agent(model=counting(0)), "go", max_iterations=rounds)


def test_an_answer_instead_of_an_error_is_one_last_call_with_tools_off() -> None:
    model = counting(1, says("so far: one"))

    answer = invoke_agent(Agent(model=model, tools=[count]), "go", max_iterations=1, on_limit="answer")

    assert answer == "so far: one"
    assert [request.choice for request in model.requests] == [ToolChoice("auto"), ToolChoice("none")]
    assert [request.tools for request in model.requests] == [(count.spec,), (count.spec,)]


def test_tool_calls_limit_runs_as_many_as_fit() -> None:
    both = calls(Call("count", {"n": 1}, "a"), Call("count", {"n": 2}, "b"))
    model = ScriptedModel(both, says("only one"))

    answer = invoke_agent(Agent(model=model, tools=[count]), "go", max_tool_calls=1, on_limit="answer")

    assert answer == "only one"
    assert ran == [1]
    assert model.heard[1][-1] == ToolTurn(
        (
            ToolResult("a", "counted 1"),
            ToolResult("b", "Error: not run: the limit of 1 tool calls is reached.", failed=True),
        )
    )
    assert model.requests[1].choice == ToolChoice("none")


def test_tool_calls_limit_as_an_error_leaves_no_call_unanswered() -> None:
    both = calls(Call("count", {"n": 1}, "a"), Call("count", {"n": 2}, "b"))

    with pytest.raises(LimitExceeded, match="1 tool calls") as raised:
        invoke_agent(Agent(model=ScriptedModel(both), tools=[count]), "go", max_tool_calls=1)

    last = raised.value.messages[-1]
    assert isinstance(last, ToolTurn)
    assert [(result.call_id, result.failed) for result in last.results] == [("a", False), ("b", True)]


def test_tokens_that_are_used_up_end_the_run_before_its_tools() -> None:
    thirsty = Line(calls=(Call("count", {"n": 1}, "a"),), usage=Usage(90, 10))

    with pytest.raises(LimitExceeded, match="100 tokens") as raised:
        invoke_agent(Agent(model=ScriptedModel(thirsty), tools=[count]), "go", max_tokens=100)

    assert ran == []
    assert isinstance(raised.value.messages[-1], ToolTurn)


def test_tokens_that_are_used_up_end_the_run_without_another_call() -> None:
    thirsty = Line(calls=(Call("count", {"n": 1}, "a"),), usage=Usage(90, 10))
    model = ScriptedModel(thirsty)

    answer = invoke_agent(Agent(model=model, tools=[count]), "go", max_tokens=100, on_limit="answer")

    assert answer == "I reached the limit of this run before I had an answer."
    assert len(model.heard) == 1


def test_an_answer_that_uses_up_the_tokens_is_still_the_answer() -> None:
    assert invoke_agent(Agent(model=ScriptedModel(says("here", usage=Usage(90, 10)))), "go", max_tokens=100) == "here"


async def test_time_that_is_used_up_ends_the_run_and_its_tool() -> None:
    stopped = asyncio.Event()

    @tool
    async def wait() -> str:
        """Wait."""
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()
        return "never"

    model = ScriptedModel(calls(Call("wait", {}, "w")))

    async with soon():
        with pytest.raises(LimitExceeded, match=r"0\.5 seconds") as raised:
            await invoke_agent_async(Agent(model=model, tools=[wait]), "go", max_seconds=0.5)

    assert stopped.is_set()
    assert len(model.heard) == 1
    last = raised.value.messages[-1]
    assert isinstance(last, ToolTurn)
    assert [(result.call_id, result.failed) for result in last.results] == [("w", True)]


# ---- the last call ---------------------------------------------------------------------------------------------------


def test_calls_of_the_last_turn_are_dropped_and_its_text_is_the_answer() -> None:
    stubborn = Line("I would rather count.", calls=(Call("count", {"n": 9}, "c9"),))
    seen: list[Any] = []

    answer = invoke_agent(
        Agent(model=counting(1, stubborn), tools=[count]),
        "go",
        max_iterations=1,
        on_limit="answer",
        on_event=seen.append,
    )

    assert answer == "I would rather count."
    assert ran == [0]


def test_a_last_turn_that_has_nothing_but_calls_is_answered_with_a_fixed_sentence() -> None:
    model = counting(2)

    answer = invoke_agent(Agent(model=model, tools=[count]), "go", max_iterations=1, on_limit="answer")

    assert answer == "I reached the limit of this run before I had an answer."
    assert ran == [0]


# ---- over HTTP -------------------------------------------------------------------------------------------------------


def recorded(n: int) -> dict[str, Any]:
    arguments = f'{{"n":{n}}}'
    return {
        "round": n,
        "tool_call_id": f"c{n}",
        "name": "count",
        "arguments": arguments,
        "result_content": f"counted {n}",
    }


async def test_cap_one_runs_one_round_and_marks_the_last_answer(door: Door, stream: bool) -> None:
    model = counting(1, says("one"))

    async with door.serving(model, count) as served:
        said = await served.ask(stream=stream, max_tool_rounds=1)

    assert said == Said("one", finish_reason="stop", usage=(20, 10), limit="max_tool_rounds", records=[recorded(0)])
    assert [request.choice for request in model.requests] == [ToolChoice("auto"), ToolChoice("none")]
    assert [request.tools for request in model.requests] == [(count.spec,), (count.spec,)]


async def test_an_answer_within_the_cap_is_not_marked(door: Door, stream: bool) -> None:
    async with door.serving(counting(1, says("one")), count) as served:
        said = await served.ask(stream=stream, max_tool_rounds=2)

    assert said == Said("one", finish_reason="stop", usage=(20, 10), records=[recorded(0)])


async def test_calls_after_the_cap_are_dropped_and_the_text_is_the_answer(door: Door, stream: bool) -> None:
    stubborn = Line("I would rather count.", calls=(Call("count", {"n": 9}, "c9"),))

    async with door.serving(counting(1, stubborn), count) as served:
        said = await served.ask(stream=stream, max_tool_rounds=1)

    assert said == Said(
        "I would rather count.",
        finish_reason="stop",
        usage=(20, 10),
        limit="max_tool_rounds",
        warnings=["the model asked for tools after the last round; its calls were dropped"],
        records=[recorded(0)],
    )
    assert ran == [0]


async def test_a_silent_last_turn_is_answered_with_a_fixed_sentence(door: Door, stream: bool) -> None:
    async with door.serving(counting(2), count) as served:
        said = await served.ask(stream=stream, max_tool_rounds=1)

    assert (said.content, said.finish_reason, said.limit, said.calls) == (
        "I reached the limit of this run before I had an answer.",
        "stop",
        "max_tool_rounds",
        [],
    )


async def test_a_callers_call_after_the_cap_is_dropped_too(door: Door, stream: bool) -> None:
    stubborn = Line("Never mind.", calls=(Call("ask_user", {}, "u1"),))

    async with door.serving(counting(1, stubborn), count) as served:
        said = await served.ask(stream=stream, max_tool_rounds=1, tools=[declared("ask_user")])

    assert (said.content, said.calls, said.finish_reason, said.limit) == ("Never mind.", [], "stop", "max_tool_rounds")


async def test_cap_zero_offers_no_tool_of_the_server(door: Door, stream: bool) -> None:
    model = ScriptedModel(says("on my own"))

    async with door.serving(model, count) as served:
        said = await served.ask(stream=stream, max_tool_rounds=0)

    assert said == Said("on my own", finish_reason="stop", usage=(10, 5))
    assert model.requests[0].tools == ()


async def test_cap_zero_runs_no_tool_of_the_server(door: Door, stream: bool) -> None:
    async with door.serving(counting(1), count) as served:
        said = await served.ask(stream=stream, max_tool_rounds=0)

    assert ran == []
    assert (said.calls, said.finish_reason) == ([("c0", "count", '{"n":0}')], "tool_calls")


async def test_cap_zero_leaves_the_callers_tools_to_the_caller(door: Door, stream: bool) -> None:
    model = ScriptedModel(calls(Call("ask_user", {}, "u1")))

    async with door.serving(model, count) as served:
        said = await served.ask(stream=stream, max_tool_rounds=0, tools=[declared("ask_user")])

    assert [spec.name for spec in model.requests[0].tools] == ["ask_user"]
    assert said == Said(calls=[("u1", "ask_user", "{}")], finish_reason="tool_calls", usage=(10, 5))


async def test_a_wish_above_the_ceiling_is_cut_and_the_answer_says_so(door: Door, stream: bool) -> None:
    async with door.serving(counting(3, says("three")), count, max_tool_rounds_ceiling=2) as served:
        said = await served.ask(stream=stream, max_tool_rounds=3)

    assert ran == [0, 1]
    assert said.limit == "max_tool_rounds"
    assert said.warnings[0] == "max_tool_rounds was cut from 3 to 2, the most this server allows"


async def test_the_ceiling_is_256_unless_set(door: Door, stream: bool) -> None:
    async with door.serving(ScriptedModel(says("hi")), count) as served:
        said = await served.ask(stream=stream, max_tool_rounds=1000)

    assert said.warnings == ["max_tool_rounds was cut from 1000 to 256, the most this server allows"]


@pytest.mark.parametrize(("wish", "rounds"), [(None, 2), (1, 1), (3, 3)])
async def test_a_request_overrides_the_servers_rounds_both_ways(
    door: Door, stream: bool, wish: int | None, rounds: int
) -> None:
    asked: dict[str, Any] = {} if wish is None else {"max_tool_rounds": wish}

    async with door.serving(counting(5), count, max_tool_rounds=2) as served:
        said = await served.ask(stream=stream, **asked)

    assert ran == list(range(rounds))
    assert said.limit == "max_tool_rounds"


async def test_the_server_stops_after_256_rounds(door: Door, stream: bool) -> None:
    async with door.serving(counting(256, says("enough")), count) as served:
        said = await served.ask(stream=stream)

    assert len(ran) == 256
    assert (said.content, said.limit, said.usage) == ("enough", "max_tool_rounds", (2570, 1285))


@pytest.mark.parametrize("wish", [-1, 1.5, "three", True])
async def test_a_cap_that_is_no_cap_is_refused_by_name(door: Door, stream: bool, wish: object) -> None:
    async with door.serving(counting(1), count) as served:
        with pytest.raises(openai.BadRequestError, match="max_tool_rounds") as refused:
            await served.ask(stream=stream, max_tool_rounds=wish)

    assert refused.value.param == "max_tool_rounds"


async def test_a_run_of_the_server_ends_when_its_time_is_up(door: Door, stream: bool) -> None:
    stopped = asyncio.Event()

    @tool
    async def wait() -> str:
        """Wait."""
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()
        return "never"

    model = ScriptedModel(calls(Call("wait", {}, "w")))

    async with door.serving(model, wait, max_run_seconds=0.5) as served:
        said = await served.ask(stream=stream)
        [end] = await served.ends

    assert stopped.is_set()
    assert (said.content, said.finish_reason, said.limit) == (
        "I stopped: the run took longer than its 0.5 seconds.",
        "stop",
        "max_seconds",
    )
    assert (end.reason, end.limit) == ("limit", "max_seconds")


async def test_text_of_several_rounds_is_one_text_with_paragraphs(door: Door, stream: bool) -> None:
    talks = [Line(f"Round {n}.", calls=(Call("count", {"n": n}, f"c{n}"),)) for n in range(2)]

    async with door.serving(ScriptedModel(*talks, says("Done.")), count) as served:
        said = await served.ask(stream=stream)

    assert said.content == "Round 0.\n\nRound 1.\n\nDone."


def test_the_messages_of_a_limit_end_with_text_when_the_model_said_some() -> None:
    """No orphan calls: what was dropped is in no turn."""
    stubborn = Line("Text.", calls=(Call("count", {"n": 9}, "c9"),))
    model = counting(1, stubborn, says("on we go"))
    agent = Agent(model=model, tools=[count])
    seen: list[Any] = []

    invoke_agent(agent, "go", max_iterations=1, on_limit="answer", on_event=seen.append)
    finished = [event.turn for event in seen if hasattr(event, "turn")]

    assert finished[-1] == AssistantTurn((Text("Text."),))
