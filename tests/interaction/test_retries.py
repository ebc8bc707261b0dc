"""A model call that fails before anything was shown is tried again: how often, how long after, and what is left in the end."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from tests.driving import drive
from tests.interaction.doors import QUICK, Door
from tests.interaction.upstreams import Upstream, completes, refuses

from ronda import Agent, Retry, invoke_agent, invoke_agent_async, stream_agent, tool
from ronda.core.actions import CallModel, CallTool
from ronda.core.events import Event, ModelInterrupted, ModelRetried, ModelStarted, RunStarted, TextDelta
from ronda.core.parts import AssistantTurn, Text, ToolCall, ToolResult, ToolTurn
from ronda.core.parts import user as says_user
from ronda.core.plan import Options, Plan, ResponseFormat, ToolSpec
from ronda.core.run import Run, rebuild
from ronda.errors import ExecuteError
from ronda.providers.script import Call, Line, ScriptedModel, calls, fails, says


@tool
async def lookup(q: str) -> str:
    """Look something up."""
    return f"found {q}"


DEFAULT = Retry()


async def waits(*lines: Line, retry: Retry = DEFAULT, jitter: float = 0.0, **plan: Any) -> tuple[list[float], Run]:
    """How long a run waits between tries, on a clock of its own."""
    clock = 0.0
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        nonlocal clock
        slept.append(seconds)
        clock += seconds

    run = Run(RunStarted("run_1", Plan("test", retry=retry, **plan), (says_user("go"),)))
    await drive(
        run,
        provider=ScriptedModel(*lines),
        tools={},
        emit=lambda batch: None,
        sleep=sleep,
        now=lambda: clock,
        jitter=lambda: jitter,
    )
    return slept, run


BUSY = fails("busy", 503)
LIMITED = fails("slow down", 429)


@pytest.mark.parametrize("status", [None, 408, 429, 500, 502, 503, 529])
def test_a_failure_that_may_pass_is_tried_again(status: int | None) -> None:
    model = ScriptedModel(fails("not now", status), fails("not now", status), says("now"))

    assert invoke_agent(Agent(model=model, retry=QUICK), "go") == "now"
    assert len(model.heard) == 3


@pytest.mark.parametrize("status", [400, 401, 403, 404, 422])
def test_a_failure_that_will_not_pass_is_not(status: int) -> None:
    model = ScriptedModel(fails("never", status), says("now"))

    with pytest.raises(ExecuteError, match="never"):
        invoke_agent(Agent(model=model, retry=QUICK), "go")

    assert len(model.heard) == 1


async def test_every_try_is_an_event() -> None:
    seen: list[Event] = []
    model = ScriptedModel(LIMITED, BUSY, says("now"))

    await invoke_agent_async(Agent(model=model, retry=Retry(0.0)), "go", on_event=seen.append)

    retried = [(e.attempt, e.tries, e.reason, e.wait) for e in seen if isinstance(e, ModelRetried)]
    assert retried == [(2, 3, "slow down", 0.0), (3, 3, "busy", 0.0)]


async def test_the_waits_grow_and_are_bounded() -> None:
    slept, _ = await waits(*[BUSY] * 7, says("now"), retry=Retry(1.0, 10.0, 2.0, tries=8))

    assert slept == [1.0, 2.0, 4.0, 8.0, 10.0, 10.0, 10.0]


async def test_the_default_is_three_tries_with_waits_of_half_a_second_and_one() -> None:
    slept, run = await waits(BUSY, BUSY, BUSY, says("never said"))

    assert slept == [0.5, 1.0]
    assert run.ended is not None
    assert (run.ended.reason, run.ended.message) == ("failed", "busy")


@pytest.mark.parametrize("jitter", [0.0, 0.5, 1.0])
async def test_jitter_makes_a_wait_longer_and_never_longer_than_the_most(jitter: float) -> None:
    slept, _ = await waits(BUSY, BUSY, says("now"), retry=Retry(40.0, 60.0), jitter=jitter)

    assert 40.0 <= slept[0] <= 50.0
    assert slept[1] == 60.0


async def test_retry_after_is_honoured() -> None:
    slept, _ = await waits(fails("slow down", 429, retry_after=17.0), says("now"))

    assert slept == [17.0]


async def test_a_retry_after_longer_than_we_would_wait_ends_the_tries() -> None:
    slept, run = await waits(fails("slow down", 429, retry_after=61.0), says("never said"))

    assert slept == []
    assert run.ended is not None
    assert run.ended.reason == "failed"


async def test_no_try_begins_after_the_time_for_all_of_them() -> None:
    slept, run = await waits(*[BUSY] * 9, retry=Retry(1.0, 60.0, 2.0, max_elapsed_time=4.0, tries=9))

    assert slept == [1.0, 2.0]
    assert run.ended is not None
    assert run.ended.reason == "failed"


def test_no_retry_means_one_try() -> None:
    model = ScriptedModel(BUSY, says("never said"))

    with pytest.raises(ExecuteError, match="busy"):
        invoke_agent(Agent(model=model), "go", retry=Retry(tries=1))

    assert len(model.heard) == 1


def test_a_calls_retry_wins_over_the_agents() -> None:
    model = ScriptedModel(BUSY, says("now"))

    assert invoke_agent(Agent(model=model, retry=Retry(tries=1)), "go", retry=QUICK) == "now"


# ---- when they are used up -------------------------------------------------------------------------------------------


def test_when_tries_are_used_up_the_error_carries_the_conversation() -> None:
    model = ScriptedModel(calls(Call("lookup", {"q": "a"}, "c1"), text="Wait."), BUSY, BUSY, BUSY, says("there"))
    agent = Agent(model=model, tools=[lookup], retry=QUICK)

    with pytest.raises(ExecuteError) as raised:
        invoke_agent(agent, "go")

    assert str(raised.value) == "the model was asked 3 times, and failed each time: busy"
    assert raised.value.messages == [
        says_user("go"),
        AssistantTurn((Text("Wait."), ToolCall("c1", "lookup", '{"q":"a"}')), "tool_calls"),
        ToolTurn((ToolResult("c1", "found a"),)),
    ]
    assert invoke_agent(agent, raised.value.messages) == "there"
    assert model.heard[-1] == raised.value.messages


async def test_every_round_has_its_own_tries(door: Door, stream: bool) -> None:
    model = ScriptedModel(BUSY, BUSY, calls(Call("lookup", {"q": "a"}, "c1")), BUSY, BUSY, says("done"))

    async with door.serving(model, lookup) as served:
        said = await served.ask(stream=stream)

    assert said.content == "done"


# ---- never after something was shown ---------------------------------------------------------------------------------


async def test_nothing_is_silently_repeated_after_it_was_shown() -> None:
    model = ScriptedModel(Line("Hel", cut=True), says("Hello"))
    kinds = (TextDelta, ModelInterrupted, ModelRetried)

    seen: list[Event] = []
    with pytest.raises(ExecuteError, match="breaks off") as raised:
        await invoke_agent_async(Agent(model=model, retry=QUICK), "go", on_event=seen.append)

    assert [type(event) for event in seen if isinstance(event, kinds)] == [TextDelta, ModelInterrupted]
    assert len(model.heard) == 1
    assert raised.value.messages[-1] == AssistantTurn((Text("Hel"),), "interrupted")


async def test_who_wants_that_asks_again_after_something_was_shown() -> None:
    model = ScriptedModel(Line("Hel", cut=True), says("Hello"))
    kinds = (TextDelta, ModelInterrupted, ModelRetried)
    retry = Retry(0.0, on_interrupt="again")

    async with stream_agent(Agent(model=model, retry=retry), "go") as events:
        shown = [type(event) async for event in events if isinstance(event, kinds)]

    assert shown == [TextDelta, ModelInterrupted, TextDelta]
    assert events.result == "Hello"


async def test_asking_again_after_something_was_shown_waits_and_is_bounded_as_any_try_is() -> None:
    cut = Line("Hel", cut=True)
    slept, run = await waits(*[cut] * 5, retry=Retry(1.0, tries=4, on_interrupt="again"), stream=True)

    assert slept == [1.0, 2.0, 4.0]
    assert run.ended is not None
    assert (run.ended.reason, run.ended.code) == ("failed", "model_interrupted")


@pytest.mark.parametrize("line", [Line(reasoning="Hm", cut=True), Line(text="Hel", reasoning="Hm", cut=True)])
async def test_thoughts_that_were_shown_are_not_repeated_either(line: Line) -> None:
    slept, run = await waits(line, says("Hello"), stream=True)

    assert slept == []
    assert run.ended is not None
    assert run.ended.code == "model_interrupted"


async def test_text_that_is_held_back_was_not_shown_and_is_tried_again() -> None:
    answer = ResponseFormat("json_object")
    slept, run = await waits(
        Line('{"a"', cut=True), says('{"a":1}'), stream=True, options=Options(response_format=answer)
    )

    assert slept == [0.5]
    assert run.turns[-1] == AssistantTurn((Text('{"a":1}'),))


async def test_a_run_whose_process_ended_asks_again_also_after_something_was_shown() -> None:
    start = RunStarted("run_1", Plan("test", (ToolSpec("lookup"),), stream=True), (says_user("go"),))
    run = Run(start)
    run.apply(ModelStarted(0))
    [broken] = run.recover()

    assert isinstance(broken, ModelInterrupted)
    assert broken.cause == "process"
    assert [type(action) for action in run.todo()] == [CallModel]


def test_a_journal_of_old_that_went_on_after_an_interruption_still_does() -> None:
    old = b"""[{"type":"run_started","run":"run_1","plan":{"model":"m","tools":[{"name":"lookup"}],"stream":true},
      "turns":[{"type":"user","parts":[{"type":"text","text":"go"}]}]},
     {"type":"model_started","round":0},
     {"type":"model_interrupted","turn":{"type":"assistant","parts":[{"type":"text","text":"Hel"}],"stop":"interrupted"},
      "reason":"it broke off"},
     {"type":"model_started","round":1},
     {"type":"model_finished","turn":{"type":"assistant","parts":[{"type":"tool_call","id":"c","name":"lookup",
      "arguments":"{}"}],"stop":"tool_calls"}}]"""
    run = rebuild(msgspec.json.decode(old, type=list[Event]))

    assert run.todo() == [CallTool(ToolCall("c", "lookup", "{}"))]


async def test_a_caller_who_was_shown_nothing_gets_a_whole_answer_from_the_next_try() -> None:
    model = ScriptedModel(Line("Hel", cut=True), says("Hello"))

    assert await invoke_agent_async(Agent(model=model, retry=QUICK), "go") == "Hello"
    assert len(model.heard) == 2


# ---- over HTTP -------------------------------------------------------------------------------------------------------


async def test_an_upstream_that_recovers_is_not_noticed(door: Door, stream: bool) -> None:
    acts = [refuses(429, "slow down", retry_after="0"), refuses(500, "oops"), completes("now")]

    async with Upstream(*acts) as upstream, door.serving(upstream.url) as served:
        said = await served.ask(stream=stream)

    assert (said.content, said.finish_reason) == ("now", "stop")
    assert len(upstream.bodies) == 3
    assert upstream.bodies[0] == upstream.bodies[1] == upstream.bodies[2]


@pytest.mark.parametrize(("said", "wait"), [("0", 0.0), ("0.01", 0.01), ("Thu, 01 Jan 1970 00:00:00 GMT", 0.0)])
async def test_retry_after_of_an_upstream_is_read(door: Door, stream: bool, said: str, wait: float) -> None:
    acts = [refuses(429, "slow down", retry_after=said), completes("now")]

    async with (
        Upstream(*acts) as upstream,
        door.serving(upstream.url, retry=Retry(initial_interval=50.0)) as served,
    ):
        await served.ask(stream=stream)
        [events] = await served.events

    assert [event.wait for event in events if isinstance(event, ModelRetried)] == [wait]


async def test_a_retry_after_that_is_nonsense_is_not_believed(door: Door, stream: bool) -> None:
    acts = [refuses(429, "slow down", retry_after="soon"), completes("now")]

    async with Upstream(*acts) as upstream, door.serving(upstream.url) as served:
        assert (await served.ask(stream=stream)).content == "now"
