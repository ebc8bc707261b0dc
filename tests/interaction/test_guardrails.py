"""Guardrails see what goes in, what comes out and what is called, and their word is part of the run."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest
from tests.driving import drive
from tests.pipeline.files import scripted
from tests.timeouts import soon

from ronda import Agent, GuardrailResult, Guardrails, Steering, invoke_agent, invoke_agent_async, stream_agent
from ronda.core.events import Checked, Event, ModelFinished, ModelStarted, RunFinished, TextDelta, ToolStarted
from ronda.core.parts import AssistantTurn, SystemTurn, Text, ToolCall, ToolResult, ToolTurn, Turn, user
from ronda.core.run import rebuild
from ronda.errors import BadRequest, GuardrailError
from ronda.journal.memory import MemoryJournal
from ronda.testing import Call, Line, ScriptedModel, calls, fails, says

YES = GuardrailResult(True)


def look(city: str = "Paris") -> str:
    return f"{city}: fine"


def checks(events: list[Event]) -> list[tuple[str, bool]]:
    return [(event.stage, event.allowed) for event in events if type(event) is Checked]


# ---- input -----------------------------------------------------------------------------------------------------------


def test_input_that_is_denied_reaches_no_model() -> None:
    model = ScriptedModel("never")
    events: list[Event] = []

    with pytest.raises(GuardrailError, match=r"^Input guardrail denied: Contains PII$") as raised:
        invoke_agent(
            Agent(model, instructions="Help."),
            "my number is 123",
            guardrails=Guardrails(input=lambda turns: GuardrailResult(False, "Contains PII")),
            on_event=events.append,
        )

    assert (raised.value.reason, raised.value.stage) == ("Contains PII", "input")
    assert raised.value.messages == [SystemTurn("Help."), user("my number is 123")]
    assert model.heard == []
    assert [type(event) for event in events[1:]] == [Checked, RunFinished]


@pytest.mark.parametrize(
    ("stage", "text"), [("input", "Input guardrail denied"), ("output", "Output guardrail denied")]
)
def test_a_no_without_a_reason_is_a_no(stage: str, text: str) -> None:
    with pytest.raises(GuardrailError) as raised:
        invoke_agent(Agent(ScriptedModel("hi")), "go", guardrails={stage: lambda seen: False})
    assert (str(raised.value), raised.value.reason) == (text, None)


def test_input_is_seen_before_every_call_with_what_was_said_meanwhile() -> None:
    seen: list[list[Turn]] = []
    steering = Steering()

    def watch(turns: Sequence[Turn]) -> bool:
        seen.append(list(turns))
        return True

    def tool_that_is_interrupted() -> str:
        steering.send("briefly")
        return "ok"

    model = ScriptedModel(calls("tool_that_is_interrupted"), says("done"))
    invoke_agent(
        Agent(model, tools=[tool_that_is_interrupted]), "go", guardrails=Guardrails(input=watch), steering=steering
    )

    assert seen == model.heard
    assert seen[1][-1] == user("briefly")


def test_input_can_be_rewritten_and_stays_so() -> None:
    def hide(turns: Sequence[Turn]) -> GuardrailResult:
        clean = [user("my number is ***") if turn == user("my number is 123") else turn for turn in turns]
        return GuardrailResult(True, rewrite=clean if clean != list(turns) else None)

    events: list[Event] = []
    model = ScriptedModel(calls(Call("look", {}, "c1")), says("done"))
    answer = invoke_agent(
        Agent(model, tools=[look]),
        "my number is 123",
        guardrails=Guardrails(input=hide),
        on_event=events.append,
    )

    assert answer == "done"
    assert [heard[0] for heard in model.heard] == [user("my number is ***")] * 2
    run = rebuild(events)
    assert run.turns[0] == user("my number is 123")  # the run keeps what was really said
    assert run.shown[0] == user("my number is ***")


# ---- output ----------------------------------------------------------------------------------------------------------


def test_output_that_is_denied_is_not_returned() -> None:
    model = ScriptedModel("something harmful")
    with pytest.raises(GuardrailError, match="Output guardrail denied: harmful") as raised:
        invoke_agent(Agent(model), "go", guardrails={"output": lambda turn: GuardrailResult(False, "harmful")})
    assert raised.value.messages == [user("go")]
    assert len(model.heard) == 1


def test_output_can_be_rewritten() -> None:
    guard = Guardrails(output=lambda turn: GuardrailResult(True, rewrite=turn.text.upper()))
    assert invoke_agent(Agent(ScriptedModel("quiet")), "go", guardrails=guard) == "QUIET"


def test_what_is_said_beside_a_call_is_seen_before_the_call_runs() -> None:
    ran: list[str] = []

    def act() -> str:
        ran.append("act")
        return "ok"

    model = ScriptedModel(calls("act", text="I will do something terrible"), says("done"))
    with pytest.raises(GuardrailError):
        invoke_agent(Agent(model, tools=[act]), "go", guardrails={"output": lambda turn: "terrible" not in turn.text})
    assert ran == []


def test_what_is_said_beside_a_call_can_be_rewritten() -> None:
    model = ScriptedModel(calls(Call("look", {}, "c1"), text="secret plan"), says("done"))

    def hide(turn: AssistantTurn) -> GuardrailResult:
        return GuardrailResult(True, rewrite=turn.text.replace("secret", "***"))

    assert invoke_agent(Agent(model, tools=[look]), "go", guardrails={"output": hide}) == "done"
    assert model.heard[1][1] == AssistantTurn((Text("*** plan"), ToolCall("c1", "look", "{}")), "tool_calls")


def test_a_call_without_words_is_not_output() -> None:
    seen: list[str] = []

    def watch(turn: AssistantTurn) -> bool:
        seen.append(turn.text)
        return True

    model = ScriptedModel(calls("look"), says("done"))
    invoke_agent(Agent(model, tools=[look]), "go", guardrails=Guardrails(output=watch))
    assert seen == ["done"]


async def test_nobody_who_watches_sees_what_the_guardrail_has_not_seen() -> None:
    model = ScriptedModel(says("one two three", chunks=("one ", "two ", "three")))
    shown: list[str] = []

    async def watch() -> None:
        async with stream_agent(Agent(model), "go", guardrails={"output": lambda turn: False}) as events:
            shown.extend([event.text async for event in events if type(event) is TextDelta])

    with pytest.raises(GuardrailError):
        await watch()
    assert shown == []


async def test_what_passed_is_shown_to_those_who_watch() -> None:
    guard = Guardrails(output=lambda turn: GuardrailResult(True, rewrite="4 5"))
    async with stream_agent(Agent(ScriptedModel("1 2 3")), "go", guardrails=guard) as events:
        shown = [event.text async for event in events if type(event) is TextDelta]
    assert shown == ["4 5"]
    assert events.result == "4 5"


def test_a_structured_answer_is_seen_once_it_is_one() -> None:
    seen: list[str] = []

    def watch(turn: AssistantTurn) -> bool:
        seen.append(turn.text)
        return True

    model = ScriptedModel("not json", '{"n": 1}')
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    assert invoke_agent(Agent(model, output=schema), "go", guardrails={"output": watch}) == {"n": 1}
    assert seen == ['{"n": 1}']


# ---- tools -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("parallel", [True, False])
def test_a_denied_call_is_told_and_the_others_run(parallel: bool) -> None:
    ran: list[str] = []

    def fine() -> str:
        ran.append("fine")
        return "fine"

    def dangerous() -> str:
        ran.append("dangerous")
        return "boom"

    model = ScriptedModel(calls(Call("fine", {}, "a"), Call("dangerous", {}, "b"), Call("fine", {}, "c")), says("ok"))
    answer = invoke_agent(
        Agent(model, tools=[fine, dangerous]),
        "go",
        guardrails=Guardrails(tool=lambda name, arguments: GuardrailResult(name == "fine", "Not authorized")),
        parallel_tool_calls=parallel,
    )
    assert answer == "ok"
    assert ran == ["fine", "fine"]
    assert model.heard[1][-1] == ToolTurn(
        (
            ToolResult("a", "fine"),
            ToolResult("b", "Tool denied by guardrail: Not authorized", failed=True),
            ToolResult("c", "fine"),
        )
    )


def test_arguments_can_be_rewritten_but_the_turn_stays_as_it_was() -> None:
    given: list[str] = []

    def visit(city: str) -> str:
        given.append(city)
        return f"went to {city}"

    def instead(name: str, arguments: dict[str, Any]) -> GuardrailResult:
        return GuardrailResult(True, rewrite={**arguments, "city": "Rome"})

    model = ScriptedModel(calls(Call("visit", {"city": "Paris"}, "c1")), says("ok"))
    invoke_agent(Agent(model, tools=[visit]), "go", guardrails=Guardrails(tool=instead))

    assert given == ["Rome"]
    assert model.heard[1][1:] == [
        AssistantTurn((ToolCall("c1", "visit", '{"city":"Paris"}'),), "tool_calls"),
        ToolTurn((ToolResult("c1", "went to Rome"),)),
    ]


def test_a_rewritten_call_is_checked_as_any_other() -> None:
    def visit(city: str) -> str:
        return city

    guard = Guardrails(tool=lambda name, arguments: GuardrailResult(True, rewrite={"city": 3}))
    model = ScriptedModel(calls("visit", city="Paris"), says("ok"))
    invoke_agent(Agent(model, tools=[visit]), "go", guardrails=guard)
    result = model.heard[1][-1]
    assert isinstance(result, ToolTurn)
    assert result.results[0].content.startswith("Error: Tool 'visit' failed: the arguments do not fit")


def test_repaired_arguments_are_what_the_guardrail_sees() -> None:
    seen: list[dict[str, Any]] = []

    def watch(name: str, arguments: dict[str, Any]) -> bool:
        seen.append(arguments)
        return True

    model = ScriptedModel(calls(Call("look", '```json\n{"city": "Rome",}\n```')), says("ok"))
    invoke_agent(Agent(model, tools=[look]), "go", guardrails=Guardrails(tool=watch))
    assert seen == [{"city": "Rome"}]


def test_a_call_that_cannot_be_read_is_not_asked_about() -> None:
    asked: list[str] = []

    def watch(name: str, arguments: dict[str, Any]) -> bool:
        asked.append(name)
        return True

    guard = Guardrails(tool=watch)
    model = ScriptedModel(calls(Call("look", "{")), says("ok"))
    assert invoke_agent(Agent(model, tools=[look]), "go", guardrails=guard) == "ok"
    assert asked == []


def test_one_after_another_a_call_is_judged_when_its_turn_comes() -> None:
    happened: list[str] = []

    def act(n: int) -> str:
        happened.append(f"run {n}")
        return str(n)

    def judge(name: str, arguments: dict[str, Any]) -> bool:
        happened.append(f"judge {arguments['n']}")
        return True

    model = ScriptedModel(calls(Call("act", {"n": 1}), Call("act", {"n": 2})), says("ok"))
    guard = Guardrails(tool=judge)
    invoke_agent(Agent(model, tools=[act]), "go", guardrails=guard, parallel_tool_calls=False)
    assert happened == ["judge 1", "run 1", "judge 2", "run 2"]


async def test_calls_that_run_side_by_side_are_judged_side_by_side() -> None:
    both = asyncio.Barrier(2)

    async def judge(name: str, arguments: dict[str, Any]) -> bool:
        async with soon():
            await both.wait()
        return True

    model = ScriptedModel(calls("look", "look"), says("ok"))
    assert await invoke_agent_async(Agent(model, tools=[look]), "go", guardrails=Guardrails(tool=judge)) == "ok"


# ---- whatever they are -----------------------------------------------------------------------------------------------


async def test_guardrails_may_be_async() -> None:
    async def yes(*seen: Any) -> GuardrailResult:
        await asyncio.sleep(0)
        return YES

    events: list[Event] = []
    model = ScriptedModel(calls("look"), says("ok"))
    guard = Guardrails(yes, yes, yes)
    assert await invoke_agent_async(Agent(model, tools=[look]), "go", guardrails=guard, on_event=events.append) == "ok"
    assert checks(events) == [("input", True), ("tool", True), ("input", True), ("output", True)]


@pytest.mark.parametrize(
    ("guard", "why"),
    [
        (lambda turns: 1 / 0, "the guardrail failed: division by zero"),
        (lambda turns: None, "the guardrail returned nothing; it has to return a GuardrailResult or a bool"),
        (lambda turns: "yes", "the guardrail returned str; it has to return a GuardrailResult or a bool"),
        (
            lambda turns: GuardrailResult(True, rewrite="a text"),
            "the guardrail's rewrite is of type str; it has to be the turns to show",
        ),
        (
            lambda turns: GuardrailResult(True, rewrite=[]),
            "the guardrail's rewrite is of type list; it has to be the turns to show",
        ),
    ],
)
def test_a_guardrail_that_does_not_work_lets_nothing_through(guard: Any, why: str) -> None:
    model = ScriptedModel("never")
    with pytest.raises(GuardrailError) as raised:
        invoke_agent(Agent(model), "go", guardrails={"input": guard})
    assert raised.value.reason == why
    assert model.heard == []


def test_a_tool_guardrail_that_does_not_work_denies() -> None:
    def broken(name: str, arguments: dict[str, Any]) -> bool:
        raise RuntimeError("no policy")

    model = ScriptedModel(calls("look"), says("ok"))
    assert invoke_agent(Agent(model, tools=[look]), "go", guardrails={"tool": broken}) == "ok"
    result = model.heard[1][-1]
    assert isinstance(result, ToolTurn)
    assert result.results[0].content == "Tool denied by guardrail: the guardrail failed: no policy"


def test_a_guardrail_nobody_knows_is_refused() -> None:
    with pytest.raises(BadRequest, match="no guardrail 'inputs'; there are input, output, tool"):
        invoke_agent(Agent(ScriptedModel("x")), "go", guardrails={"inputs": lambda turns: True})


def test_a_run_without_guardrails_has_no_checks() -> None:
    events: list[Event] = []
    model = ScriptedModel(calls("look"), says("ok"))
    invoke_agent(Agent(model, tools=[look]), "go", on_event=events.append)
    assert checks(events) == []


# ---- journals --------------------------------------------------------------------------------------------------------


async def _resumed(kept: list[Event], guard: Guardrails | None, model: ScriptedModel) -> list[Event]:
    run = rebuild(kept)
    run.recover()
    events: list[Event] = []
    from ronda.tools.function import as_tool

    await drive(run, provider=model, tools={"look": as_tool(look)}, emit=events.extend, guardrails=guard)
    return events


async def _kept(guard: Guardrails) -> list[Event]:
    journal = MemoryJournal()
    events: list[Event] = []
    model = ScriptedModel(calls("look"), says("ok"))
    await invoke_agent_async(
        Agent(model, tools=[look]), "go", guardrails=guard, journal=journal, on_event=events.append
    )
    return await journal.read(events[0].run)  # type: ignore[union-attr]  # a run starts with RunStarted


@pytest.mark.parametrize(
    ("crash_before", "lines", "asked_again"),
    [
        (ModelStarted, [calls("look"), says("ok")], ["tool", "input", "output"]),
        (ModelFinished, [calls("look"), says("ok")], ["tool", "input", "output"]),
        (ToolStarted, [says("ok")], ["input", "output"]),
        (RunFinished, [], []),
    ],
)
async def test_what_was_judged_before_a_crash_is_not_judged_again(
    crash_before: type, lines: list[Any], asked_again: list[str]
) -> None:
    asked: list[str] = []

    def watch(stage: str) -> Any:
        def ask(*seen: Any) -> bool:
            asked.append(stage)
            return True

        return ask

    guard = Guardrails(watch("input"), watch("output"), watch("tool"))
    kept = await _kept(guard)
    assert asked == ["input", "tool", "input", "output"]
    cut = [type(event) for event in kept].index(crash_before)
    asked.clear()
    await _resumed(kept[:cut], guard, ScriptedModel(*lines))
    assert asked == asked_again


async def test_a_run_resumed_without_its_guardrails_lets_nothing_through() -> None:
    kept = await _kept(Guardrails(input=lambda turns: True))
    events = await _resumed(kept[:1], None, ScriptedModel("never"))
    assert events[-1] == RunFinished(
        "failed",
        message="Input guardrail denied: the input guardrail this run began with is not here",
        at=events[-1].at,
        code="guardrail",
    )


@pytest.mark.parametrize("then", [says("hot"), fails("down", 401)], ids=["wrong again", "fails"])
def test_an_answer_in_the_wrong_form_is_judged_before_it_is_taken_as_it_is(then: Line) -> None:
    """A file's wish for JSON that a model does not grant ends with the model's words; these, too, pass the guardrail first."""
    seen: list[str] = []

    def judge(turn: AssistantTurn) -> GuardrailResult:
        seen.append(turn.text)
        return GuardrailResult(False, "rude")

    prompty = scripted(ScriptedModel("warm", then), outputs={"degrees": {"kind": "integer", "required": True}})
    with pytest.raises(GuardrailError, match=r"^Output guardrail denied: rude$"):
        invoke_agent(prompty, guardrails=Guardrails(output=judge))

    assert seen == ["hot" if then.error is None else "warm"]
