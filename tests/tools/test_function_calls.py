"""A function as a tool, called: on which thread it runs, and what the model reads when it goes wrong."""

from __future__ import annotations

import asyncio
import contextvars
import json
import threading
from typing import Any

import pytest
from tests.timeouts import TIMEOUT
from tests.tools.function_results import result_of

from ronda import Agent, ToolContext, invoke_agent, invoke_agent_async, tool
from ronda.core.parts import ToolResult, ToolTurn
from ronda.errors import ToolFailed
from ronda.providers.script import Call, ScriptedModel, calls, says

# ---- where it runs -------------------------------------------------------------------------------------------------


def test_a_plain_function_runs_in_a_thread_of_its_own() -> None:
    ran_in: list[threading.Thread] = []

    @tool
    def work() -> str:
        """Work."""
        ran_in.append(threading.current_thread())
        return "ok"

    assert result_of(work) == ToolResult("c1", "ok")
    assert ran_in[0] is not threading.main_thread()


async def test_an_async_function_runs_on_the_runs_loop() -> None:
    loops: list[Any] = []

    @tool
    async def work() -> str:
        """Work."""
        loops.append(asyncio.get_running_loop())
        return "ok"

    await invoke_agent_async(Agent(model=ScriptedModel(calls("work"), says("done")), tools=[work]), "go")

    assert loops == [asyncio.get_running_loop()]


def test_a_plain_function_may_return_something_to_wait_for() -> None:
    async def later() -> str:
        return "later"

    @tool
    def work() -> Any:
        """Work."""
        return later()

    assert result_of(work) == ToolResult("c1", "later")


async def test_a_thread_sees_the_callers_context() -> None:
    who = contextvars.ContextVar("who", default="nobody")

    @tool
    def work() -> str:
        """Work."""
        return who.get()

    who.set("ann")
    model = ScriptedModel(calls(Call("work", {}, "c1")), says("done"))
    await invoke_agent_async(Agent(model=model, tools=[work]), "go")

    assert model.heard[1][-1] == ToolTurn((ToolResult("c1", "ann"),))


@pytest.mark.parametrize("kind", ["async", "plain"])
def test_a_context_says_where_the_call_runs_and_is_not_shown(kind: str) -> None:
    contexts: list[ToolContext] = []

    if kind == "async":

        @tool
        async def work(q: str, context: ToolContext) -> str:
            """Work."""
            contexts.append(context)
            return q
    else:

        @tool
        def work(q: str, context: ToolContext) -> str:
            """Work."""
            contexts.append(context)
            return q

    model = ScriptedModel(calls(Call("work", {"q": "x"}, "c7")), says("done"))
    invoke_agent(Agent(model=model, tools=[work]), "go", session="s1")

    [context] = contexts
    assert (context.session, context.round, context.call_id) == ("s1", 0, "c7")
    assert context.run == model.requests[0].run
    assert list(json.loads(bytes(work.spec.parameters))["properties"]) == ["q"]


def test_a_method_is_a_tool_of_its_instance() -> None:
    class Shop:
        def __init__(self, name: str) -> None:
            self.name = name

        @tool
        def stock(self, item: str) -> str:
            """Count."""
            return f"{self.name} has {item}"

        @tool
        async def price(self, item: str) -> str:
            """Ask."""
            return f"{item} at {self.name}"

    shop = Shop("corner")

    assert result_of(shop.stock, item="milk") == ToolResult("c1", "corner has milk")
    assert result_of(shop.price, item="milk") == ToolResult("c1", "milk at corner")
    assert shop.stock("tea") == "corner has tea"


def test_an_undecorated_method_is_a_tool_too() -> None:
    class Shop:
        def stock(self, item: str) -> str:
            """Count."""
            return f"some {item}"

    assert result_of(Shop().stock, item="milk") == ToolResult("c1", "some milk")


# ---- when it goes wrong --------------------------------------------------------------------------------------------


class Silent(Exception):
    pass


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (ValueError("no luck"), "ValueError: no luck"),
        (KeyError("no"), "KeyError: 'no'"),
        (Silent(), "Silent"),
        (StopIteration("over"), "over"),
        (TimeoutError("theirs"), "TimeoutError: theirs"),
        (asyncio.CancelledError(), "it was cancelled"),
        (ToolFailed("the shop is closed"), "the shop is closed"),
    ],
)
@pytest.mark.parametrize("kind", ["async", "plain"])
def test_whatever_it_raises_is_read_by_the_model(error: BaseException, text: str, kind: str) -> None:
    if kind == "async":
        if isinstance(error, StopIteration):
            return  # Python itself makes a RuntimeError of it

        @tool
        async def work() -> str:
            """Work."""
            raise error
    else:

        @tool
        def work() -> str:
            """Work."""
            raise error

    result = result_of(work)

    assert result.failed
    if isinstance(error, StopIteration):  # cannot travel through a future
        assert result.content.endswith(f"the function raised StopIteration: {text}")
    else:
        assert result.content == f"Error: Tool 'work' failed: {text}"


def test_the_log_has_the_traceback_of_what_a_tool_raised(caplog: pytest.LogCaptureFixture) -> None:
    @tool
    def work() -> str:
        """Work."""
        return {"yes": "it does"}["no"]

    result_of(work)

    [record] = caplog.records
    assert (record.name, record.levelname, record.getMessage()) == ("ronda.tools", "WARNING", "the tool 'work' raised")
    assert 'return {"yes": "it does"}["no"]' in caplog.text


def test_what_a_tool_says_on_purpose_is_no_news_for_the_log(caplog: pytest.LogCaptureFixture) -> None:
    @tool
    def work(n: int) -> str:
        """Work."""
        raise ToolFailed("the shop is closed")

    result_of(work, n=1)
    result_of(work, n="one")

    assert caplog.records == []


def test_a_tool_that_takes_too_long_is_stopped_and_the_model_reads_so() -> None:
    stopped: list[str] = []

    @tool(timeout=0.02)
    async def wait() -> str:
        """Wait."""
        try:
            await asyncio.Event().wait()
        finally:
            stopped.append("wait")
        return "never"

    assert result_of(wait) == ToolResult("c1", "Error: Tool 'wait' failed: timed out after 0.02 seconds", failed=True)
    assert stopped == ["wait"]


def test_a_plain_function_that_takes_too_long_does_not_hold_up_the_run() -> None:
    go_on = threading.Event()

    @tool(timeout=0.02)
    def wait() -> str:
        """Wait."""
        go_on.wait(TIMEOUT)
        return "late"

    try:
        result = result_of(wait)
    finally:
        go_on.set()

    assert result == ToolResult("c1", "Error: Tool 'wait' failed: timed out after 0.02 seconds", failed=True)


def test_a_tool_that_waits_may_have_clocks_and_tasks_of_its_own() -> None:
    @tool(timeout=TIMEOUT)
    async def work() -> str:
        """Work."""
        told: list[str] = []
        try:
            async with asyncio.timeout(0):  # it began before the clock of the call, which begins with the first wait
                await asyncio.Event().wait()
        except TimeoutError:
            told.append("late")

        async def fail() -> None:
            await asyncio.sleep(0)
            raise KeyError("no")

        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(fail())
                await asyncio.Event().wait()
        except* KeyError:
            told.append("failed")
        return " ".join(told)

    assert result_of(work) == ToolResult("c1", "late failed")


@pytest.mark.parametrize("waits", [0, 1, 3])
def test_a_tool_may_raise_before_and_after_it_waits(waits: int) -> None:
    @tool(timeout=TIMEOUT)
    async def work() -> str:
        """Work."""
        for _ in range(waits):
            await asyncio.sleep(0)
        raise ValueError(f"after {waits}")

    result = result_of(work)

    assert result == ToolResult("c1", f"Error: Tool 'work' failed: ValueError: after {waits}", failed=True)


def test_a_tool_whose_own_clock_is_running_is_stopped_by_the_calls() -> None:
    @tool(timeout=0.02)
    async def wait() -> str:
        """Wait."""
        async with asyncio.timeout(TIMEOUT):
            await asyncio.Event().wait()
        return "never"

    assert result_of(wait) == ToolResult("c1", "Error: Tool 'wait' failed: timed out after 0.02 seconds", failed=True)


def test_every_call_has_a_timeout_of_its_own() -> None:
    @tool(timeout=0.02)
    async def wait() -> str:
        """Wait."""
        await asyncio.Event().wait()
        return "never"

    @tool
    async def quick() -> str:
        """Be quick."""
        return "quick"

    model = ScriptedModel(calls(Call("wait", {}, "w"), Call("quick", {}, "q")), says("done"))
    invoke_agent(Agent(model=model, tools=[wait, quick]), "go")

    turn = model.heard[1][-1]
    assert isinstance(turn, ToolTurn)
    assert [(result.call_id, result.failed) for result in turn.results] == [("w", True), ("q", False)]
