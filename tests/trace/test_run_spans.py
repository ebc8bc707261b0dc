"""A run's spans are read off its events: one `execute` per model call, one `execute_tool` per tool call, inside each other."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from tests.trace.spying import Spy

from ronda import Agent, Cancel, Retry, invoke_agent, invoke_agent_async, stream_agent, tool
from ronda.core.events import ModelFinished, ModelStarted
from ronda.core.request import ModelRequest
from ronda.core.run import Run
from ronda.drive import Show
from ronda.errors import ExecuteError, RunCancelled
from ronda.providers.script import Call, ScriptedModel, calls, fails, says
from ronda.trace import Span, Tracer, current_span, run_spans, span, trace


@tool
async def look_up(q: str) -> str:
    """Look something up."""
    with span("searching"):
        await asyncio.sleep(0)
    return f"<{q}>"


async def test_a_run_is_a_span_of_the_door_s_name_around_model_calls_and_tool_calls(spy: Spy) -> None:
    model = ScriptedModel(calls("look_up", q="a"), says("done"))

    await invoke_agent_async(Agent(model, tools=[look_up]), "go")

    assert spy.tree() == [("invoke_agent", ["execute", ("execute_tool", ["searching"]), "execute"])]
    assert spy.open == 0
    [first, last] = spy.told("execute")
    assert first["inputs"] == {
        "model": "ScriptedModel",
        "round": 0,
        "messages": [{"type": "user", "parts": [{"type": "text", "text": "go"}]}],
    }
    assert first["result"] == {
        "content": "",
        "finish_reason": "tool_calls",
        "tool_calls": [{"id": "call_0_0", "name": "look_up", "arguments": {"q": "a"}}],
        "usage": {"input_tokens": 10, "output_tokens": 5, "total_tokens": 15},
    }
    assert [message["type"] for message in last["inputs"]["messages"]] == ["user", "assistant", "tool"]
    assert last["result"]["content"] == "done"
    [called] = spy.told("execute_tool")
    assert called == {
        "signature": "ronda.drive.Tool.run",
        "inputs": {"name": "look_up", "arguments": {"q": "a"}, "id": "call_0_0"},
        "result": "<a>",
    }
    [whole] = spy.told("invoke_agent")
    assert (whole["inputs"], whole["result"]) == ("go", "done")


async def test_the_door_s_span_lasts_from_the_first_model_call_to_the_result(spy: Spy) -> None:
    await invoke_agent_async(Agent(ScriptedModel(calls("look_up", q="a"), says("done")), tools=[look_up]), "go")

    [whole] = spy.named("invoke_agent")
    times = [(one.began, one.ended or 0.0) for one, _ in spy.spans]
    assert whole.began == min(began for began, _ in times)
    assert whole.ended == max(ended for _, ended in times)


async def test_tools_that_run_side_by_side_are_spans_side_by_side(spy: Spy) -> None:
    met = asyncio.Barrier(2)

    @tool
    async def meet(name: str) -> str:
        with span(f"in {name}"):
            await met.wait()
        return name

    model = ScriptedModel(calls(Call("meet", {"name": "a"}), Call("meet", {"name": "b"})), says("done"))
    await invoke_agent_async(Agent(model, tools=[meet]), "go")

    assert spy.tree() == [
        ("invoke_agent", ["execute", ("execute_tool", ["in a"]), ("execute_tool", ["in b"]), "execute"])
    ]


def test_an_agent_that_a_plain_function_starts_is_inside_its_call(spy: Spy) -> None:
    inner = Agent(ScriptedModel(says("inner")))

    @tool
    def ask(q: str) -> str:
        """Ask another agent."""
        return str(invoke_agent(inner, q))

    invoke_agent(Agent(ScriptedModel(calls("ask", q="x"), says("done")), tools=[ask]), "go")

    assert spy.tree() == [("invoke_agent", ["execute", ("execute_tool", [("invoke_agent", ["execute"])]), "execute"])]


async def test_what_a_model_traces_itself_is_inside_its_call(spy: Spy) -> None:
    class Traced(ScriptedModel):
        @trace(ignore=["request", "show"])
        async def call(self, request: ModelRequest, show: Show) -> ModelFinished:
            assert spy.named("execute")[-1].ended is None  # told about before it is made
            return await super().call(request, show)

    await invoke_agent_async(Agent(Traced(says("done"))), "go")

    assert spy.tree() == [("invoke_agent", [("execute", ["call"])])]


async def test_a_stream_has_the_same_spans(spy: Spy) -> None:
    agent = Agent(ScriptedModel(calls("look_up", q="a"), says("many words in the end")), tools=[look_up])

    with span("mine"):
        async with stream_agent(agent, "go") as events:
            async for _ in events:
                pass

    assert spy.tree() == [("mine", ["execute", ("execute_tool", ["searching"]), "execute"])]
    assert spy.open == 0


async def test_a_call_that_is_tried_again_is_one_span_that_says_so(spy: Spy) -> None:
    model = ScriptedModel(fails("busy", 503), says("done"))

    await invoke_agent_async(Agent(model, retry=Retry(initial_interval=0)), "go")

    assert spy.tree() == [("invoke_agent", ["execute"])]
    assert spy.told("execute")[0]["retry"] == {"attempt": 2, "reason": "busy", "wait": 0.0}


async def test_a_model_call_that_fails_says_so_in_its_span_and_the_run_s(spy: Spy) -> None:
    with pytest.raises(ExecuteError):
        await invoke_agent_async(Agent(ScriptedModel(fails("no such model", 404))), "go")

    assert spy.told("execute")[0]["result"] == {
        "exception": "ExecuteError",
        "message": "no such model",
        "status": 404,
    }
    assert spy.told("invoke_agent")[0]["result"]["exception"] == "ExecuteError"
    assert spy.open == 0


async def test_a_tool_that_fails_says_so_in_its_span(spy: Spy) -> None:
    @tool
    async def fail() -> str:
        raise ValueError("no good")

    await invoke_agent_async(Agent(ScriptedModel(calls("fail"), says("done")), tools=[fail]), "go")

    [called] = spy.told("execute_tool")
    assert (called["failed"], called["result"]) == (True, "Error: Tool 'fail' failed: ValueError: no good")


async def test_a_cancelled_run_leaves_no_span_open(spy: Spy) -> None:
    cancel = Cancel()

    @tool
    async def wait() -> str:
        cancel.cancel()
        await asyncio.Event().wait()
        return "never"

    with pytest.raises(RunCancelled):
        await invoke_agent_async(Agent(ScriptedModel(calls("wait")), tools=[wait]), "go", cancel=cancel)

    assert spy.tree() == [("invoke_agent", ["execute", "execute_tool"])]
    assert spy.told("execute_tool")[0]["result"] == {"exception": "RunEnded", "message": "the run was cancelled"}
    assert spy.open == 0
    assert current_span() is None


async def test_arguments_and_results_are_told_without_secrets(spy: Spy) -> None:
    @tool
    async def log_in(user: str, password: str) -> dict[str, Any]:
        return {"user": user, "token": "hunter2", "total_tokens": 3}

    model = ScriptedModel(calls("log_in", user="ada", password="hunter2"), says("done"))
    await invoke_agent_async(Agent(model, tools=[log_in]), "go")

    assert "hunter2" not in repr(spy.spans)
    assert spy.told("execute_tool")[0]["result"] == '{"user":"ada","token":"[REDACTED]","total_tokens":3}'


async def test_a_backend_that_fails_in_every_way_does_not_disturb_a_run(caplog: pytest.LogCaptureFixture) -> None:
    def broken(span: Span) -> Any:
        raise RuntimeError("broken")

    Tracer.add("broken", broken)
    try:
        agent = Agent(ScriptedModel(calls("look_up", q="a"), says("done")), tools=[look_up])
        assert await invoke_agent_async(agent, "go") == "done"
    finally:
        Tracer.clear()


async def test_without_a_backend_a_run_has_no_spans_at_all() -> None:
    seen: list[Run] = []

    @tool
    async def peek() -> str:
        assert current_span() is None
        return "nothing"

    async with stream_agent(Agent(ScriptedModel(calls("peek"), says("done")), tools=[peek]), "go") as events:
        seen.append(events.run)
        async for event in events:
            assert not isinstance(event, ModelStarted) or current_span() is None
    assert run_spans(seen[0]) is None


def test_a_trace_file_shows_a_run_with_its_usage(tmp_path: Path) -> None:
    import json

    from ronda.trace import Tracy

    Tracer.add("tracy", Tracy(tmp_path))
    try:
        invoke_agent(Agent(ScriptedModel(calls("look_up", q="a"), says("done")), tools=[look_up]), "go")
    finally:
        Tracer.clear()

    [path] = tmp_path.iterdir()
    written = json.loads(path.read_text())["trace"]
    assert [frame["name"] for frame in written["__frames"]] == ["execute", "execute_tool", "execute"]
    assert written["__usage"] == {"input_tokens": 20, "output_tokens": 10, "total_tokens": 30}
