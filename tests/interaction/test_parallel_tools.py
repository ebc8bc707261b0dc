"""Calls of one turn run side by side, or one after the other on request; results go back in the model's order."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from tests.interaction.doors import Door, Said, soon
from tests.timeouts import TIMEOUT

from ronda import Agent, invoke_agent, invoke_agent_async, stream_agent, tool
from ronda.core.events import ToolFinished, ToolStarted
from ronda.core.parts import ToolResult, ToolTurn
from ronda.drive import Tool
from ronda.providers.script import Call, ScriptedModel, calls, says
from ronda.store.sqlite_catalog import SqliteCatalog

AB = calls(Call("left", {}, "l"), Call("right", {}, "r"))


def at_a_barrier() -> list[Tool]:
    """Two tools that wait for each other."""
    there = {"left": asyncio.Event(), "right": asyncio.Event()}

    @tool
    async def left() -> str:
        """Wait for the right one."""
        there["left"].set()
        await there["right"].wait()
        return "L"

    @tool
    async def right() -> str:
        """Wait for the left one."""
        there["right"].set()
        await there["left"].wait()
        return "R"

    return [left, right]


def one_after_the_other(key: str | None = None) -> tuple[list[str], Tool]:
    """A tool that notes when it begins and ends, and lets the others have a go in between."""
    log: list[str] = []

    @tool(exclusive=key)
    async def step(n: int) -> str:
        """Make a step."""
        log.append(f"begin {n}")
        for _ in range(5):
            await asyncio.sleep(0)  # hands the loop to the other tasks that are ready
        log.append(f"end {n}")
        return str(n)

    return log, step


STEPS = calls(*[Call("step", {"n": n}, f"s{n}") for n in range(3)])
IN_SEQUENCE = ["begin 0", "end 0", "begin 1", "end 1", "begin 2", "end 2"]
SIDE_BY_SIDE = ["begin 0", "begin 1", "begin 2", "end 0", "end 1", "end 2"]
HEARD = ToolTurn((ToolResult("s0", "0"), ToolResult("s1", "1"), ToolResult("s2", "2")))


async def test_two_tools_wait_for_each_other_in_process() -> None:
    model = ScriptedModel(AB, says("met"))

    async with soon():
        assert await invoke_agent_async(Agent(model=model, tools=at_a_barrier()), "go") == "met"

    assert model.heard[1][-1] == ToolTurn((ToolResult("l", "L"), ToolResult("r", "R")))


async def test_two_tools_wait_for_each_other_over_http(door: Door, stream: bool) -> None:
    async with door.serving(ScriptedModel(AB, says("met")), *at_a_barrier()) as served:
        said = await served.ask(stream=stream)

    said.records.sort(key=lambda record: str(record["tool_call_id"]))
    assert said == Said(
        "met",
        finish_reason="stop",
        usage=(20, 10),
        records=[
            {"round": 0, "tool_call_id": "l", "name": "left", "arguments": "{}", "result_content": "L"},
            {"round": 0, "tool_call_id": "r", "name": "right", "arguments": "{}", "result_content": "R"},
        ],
    )


def test_two_plain_functions_wait_for_each_other_in_threads() -> None:
    import threading

    barrier = threading.Barrier(2, timeout=TIMEOUT)

    @tool
    def left() -> str:
        """Wait."""
        barrier.wait()
        return "L"

    @tool
    def right() -> str:
        """Wait."""
        barrier.wait()
        return "R"

    assert invoke_agent(Agent(model=ScriptedModel(AB, says("met")), tools=[left, right]), "go") == "met"


async def test_results_go_back_in_the_order_the_model_asked() -> None:
    first_may_end = asyncio.Event()

    @tool
    async def slow() -> str:
        """End last."""
        await first_may_end.wait()
        return "slow"

    @tool
    async def fast() -> str:
        """End first."""
        return "fast"

    model = ScriptedModel(calls(Call("slow", {}, "s"), Call("fast", {}, "f")), says("done"))
    ended: list[str] = []

    async with soon(), stream_agent(Agent(model=model, tools=[slow, fast]), "go") as events:
        async for event in events:
            if isinstance(event, ToolFinished):
                ended.append(event.result.call_id)
                first_may_end.set()

    assert ended == ["f", "s"]  # they overlapped …
    assert model.heard[1][-1] == ToolTurn((ToolResult("s", "slow"), ToolResult("f", "fast")))  # … unseen by the model


async def test_a_tool_that_fails_leaves_the_others_alone() -> None:
    @tool
    async def bad() -> str:
        """Fail."""
        raise RuntimeError("no luck")

    @tool
    async def good() -> str:
        """Work."""
        return "fine"

    model = ScriptedModel(calls(Call("bad", {}, "b"), Call("good", {}, "g")), says("done"))

    assert await invoke_agent_async(Agent(model=model, tools=[bad, good]), "go") == "done"
    assert model.heard[1][-1] == ToolTurn(
        (ToolResult("b", "Error: Tool 'bad' failed: RuntimeError: no luck", failed=True), ToolResult("g", "fine"))
    )


async def test_calls_run_side_by_side_unless_told_otherwise() -> None:
    log, step = one_after_the_other()

    await invoke_agent_async(Agent(model=ScriptedModel(STEPS, says("done")), tools=[step]), "go")

    assert log == SIDE_BY_SIDE


async def test_the_library_runs_one_after_the_other_on_request() -> None:
    log, step = one_after_the_other()
    model = ScriptedModel(STEPS, says("done"))

    await invoke_agent_async(Agent(model=model, tools=[step]), "go", parallel_tool_calls=False)

    assert log == IN_SEQUENCE
    assert model.heard[1][-1] == HEARD


@pytest.mark.parametrize(("said", "log_of"), [(False, IN_SEQUENCE), (True, SIDE_BY_SIDE)])
async def test_the_server_runs_one_after_the_other_on_request(
    door: Door, stream: bool, said: bool, log_of: list[str]
) -> None:
    log, step = one_after_the_other()
    model = ScriptedModel(STEPS, says("done"))

    async with door.serving(model, step) as served:
        await served.ask(stream=stream, parallel_tool_calls=said)

    assert log == log_of
    assert model.heard[1][-1] == HEARD


async def test_in_a_sequence_a_call_starts_when_the_one_before_has_ended() -> None:
    _, step = one_after_the_other()
    order: list[Any] = []

    def on_event(event: Any) -> None:
        if isinstance(event, ToolStarted):
            order.append(("started", event.call_id))
        elif isinstance(event, ToolFinished):
            order.append(("finished", event.result.call_id))

    agent = Agent(model=ScriptedModel(STEPS, says("done")), tools=[step])
    await invoke_agent_async(agent, "go", parallel_tool_calls=False, on_event=on_event)

    assert order == [(what, f"s{n}") for n in range(3) for what in ("started", "finished")]


async def test_tools_with_one_exclusive_key_never_overlap_and_keep_the_models_order() -> None:
    log, step = one_after_the_other("the door")
    model = ScriptedModel(STEPS, says("done"))

    await invoke_agent_async(Agent(model=model, tools=[step]), "go")

    assert log == IN_SEQUENCE
    assert model.heard[1][-1] == HEARD


async def test_an_exclusive_key_holds_nobody_else_up() -> None:
    there = asyncio.Event()

    @tool(exclusive="k")
    async def holder() -> str:
        """Hold the key until the other one has run."""
        await there.wait()
        return "held"

    @tool
    async def free() -> str:
        """Need no key."""
        there.set()
        return "free"

    model = ScriptedModel(
        calls(Call("holder", {}, "h1"), Call("holder", {}, "h2"), Call("free", {}, "f")), says("done")
    )

    async with soon():
        assert await invoke_agent_async(Agent(model=model, tools=[holder, free]), "go") == "done"


async def test_different_tools_share_an_exclusive_key() -> None:
    log: list[str] = []

    def step(name: str) -> Tool:
        @tool(name=name, exclusive="k")
        async def work() -> str:
            """Work."""
            log.append(f"begin {name}")
            await asyncio.sleep(0)
            log.append(f"end {name}")
            return name

        return work

    model = ScriptedModel(calls("a", "b"), says("done"))
    await invoke_agent_async(Agent(model=model, tools=[step("a"), step("b")]), "go")

    assert log == ["begin a", "end a", "begin b", "end b"]


async def test_an_exclusive_key_holds_between_two_choices_of_one_request(door: Door, stream: bool) -> None:
    inside = 0
    most = 0
    both = asyncio.Barrier(2)

    @tool
    async def meet() -> str:
        """Both runs are under way."""
        await both.wait()
        return "met"

    @tool(exclusive="k")
    async def alone() -> str:
        """Be alone."""
        nonlocal inside, most
        inside += 1
        most = max(most, inside)
        for _ in range(5):
            await asyncio.sleep(0)
        inside -= 1
        return "ok"

    lines = [calls("meet"), calls("meet"), calls("alone"), calls("alone"), says("done"), says("done")]
    async with door.serving(ScriptedModel(*lines), meet, alone) as served, soon():
        said = await served.ask(stream=stream, session_id="one", n=2)

    assert said.content == "done"
    assert most == 1


async def test_sequence_and_exclusive_agree_over_http(door: Door, stream: bool) -> None:
    log, step = one_after_the_other("k")

    async with door.serving(ScriptedModel(STEPS, says("done")), step) as served:
        said = await served.ask(stream=stream)

    assert log == IN_SEQUENCE
    assert [record["tool_call_id"] for record in said.records] == ["s0", "s1", "s2"]


async def test_the_events_of_a_tool_carry_its_name() -> None:
    model = ScriptedModel(AB, calls(Call("nobody", {}, "n")), says("done"))

    async with stream_agent(Agent(model, tools=at_a_barrier()), "go", on_unknown_tool="tell") as events:
        told = [event async for event in events if isinstance(event, ToolStarted | ToolFinished)]

    assert [(type(event).__name__, event.name) for event in told] == [
        ("ToolStarted", "left"),
        ("ToolStarted", "right"),
        ("ToolFinished", "left"),
        ("ToolFinished", "right"),
    ]


async def test_two_servers_that_share_their_data_run_one_request_of_a_session_at_a_time(
    door: Door, tmp_path: Path
) -> None:
    """Each has a catalog of its own on the same file, as two processes have. With its session its exclusive keys are held."""
    path = str(tmp_path / "catalog.db")
    entered, leave = asyncio.Event(), asyncio.Event()
    log: list[str] = []

    @tool(exclusive="k")
    async def first() -> str:
        """Stay."""
        log.append("first begins")
        entered.set()
        await leave.wait()
        log.append("first ends")
        return "ok"

    @tool
    async def look() -> str:
        """Another tool of the turn, which waits for its session, too."""
        log.append("second looks")
        return "ok"

    @tool(exclusive="k")
    async def second() -> str:
        """Come after it."""
        log.append("second begins")
        return "ok"

    async with (
        soon(),
        door.serving(ScriptedModel(calls("first"), says("one")), first, catalog=SqliteCatalog(path)) as one,
    ):
        asked = asyncio.create_task(one.ask(stream=False, session_id="s"))
        await entered.wait()
        model = ScriptedModel(calls("second", "look"), says("two"))
        async with door.serving(model, second, look, catalog=SqliteCatalog(path)) as other:
            waiting = asyncio.create_task(other.ask(stream=False, session_id="s"))
            for _ in range(50):  # more turns of the loop than it would take to get there
                await asyncio.sleep(0)
            leave.set()
            answers = [await asked, await waiting]

    assert [said.content for said in answers] == ["one", "two"]
    assert log[:2] == ["first begins", "first ends"]
    assert sorted(log[2:]) == ["second begins", "second looks"]


async def test_an_exclusive_key_of_one_owner_holds_no_other_up(door: Door) -> None:
    """Though both call their session the same."""
    both = asyncio.Barrier(2)

    @tool(exclusive="k")
    async def meet() -> str:
        """Both are inside at once."""
        await both.wait()
        return "met"

    lines = [calls("meet"), calls("meet"), says("done"), says("done")]
    async with door.serving(ScriptedModel(*lines), meet) as served, soon():
        asked = [served.ask(stream=False, session_id="s", key=key) for key in ("ann", "bob")]
        answers = await asyncio.gather(*asked)

    assert [said.content for said in answers] == ["done", "done"]
