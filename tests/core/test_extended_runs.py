"""What holds for every run holds for those too that are steered, guarded and compacted: checked on runs made up by Hypothesis."""

from __future__ import annotations

import asyncio
import itertools
from collections import Counter
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.driving import drive

from ronda.core.actions import CallModel, Finish
from ronda.core.events import (
    PREVIEWS,
    Checked,
    Compacted,
    Event,
    ModelFinished,
    ModelStarted,
    RunStarted,
    Steered,
    TextDelta,
    ToolFinished,
    ToolStarted,
)
from ronda.core.guardrails import GuardrailResult, Guardrails
from ronda.core.limits import Limits, Retry
from ronda.core.parts import AssistantTurn, SystemTurn, Text, ToolCall, ToolResult, ToolTurn, Turn, UserTurn, user
from ronda.core.plan import Plan, ToolSpec
from ronda.core.request import ModelRequest
from ronda.core.run import Run, rebuild
from ronda.core.steering import Steering
from ronda.drive import Show, ToolContext, ToolOutput
from ronda.providers.script import Call, Line, ScriptedModel

NAMES = ("once", "again", "nobody")


class CountingTool:
    def __init__(self, name: str, repeatable: bool) -> None:
        self.spec = ToolSpec(name, repeatable=repeatable)
        self.ran: Counter[str] = Counter()
        self.given: list[dict[str, Any]] = []

    async def run(self, arguments: dict[str, Any], context: ToolContext) -> ToolOutput:
        self.ran[context.call_id] += 1
        self.given.append(arguments)
        return ToolOutput(f"{self.spec.name} of {context.call_id}")


class Model:
    """Says the line of the round, and has a caller speak into the run meanwhile. `heard` is what it was shown."""

    def __init__(self, lines: Sequence[Line], said: dict[int, int], steering: Steering) -> None:
        self._lines = lines
        self._said = said
        self._steering = steering
        self.heard: list[list[Turn]] = []

    async def call(self, request: ModelRequest, show: Show) -> ModelFinished:
        self.heard.append(list(request.turns))
        for n in range(self._said.get(request.round, 0)):
            self._steering.send(f"steer {request.round} {n}")
        line = self._lines[min(request.round, len(self._lines) - 1)]
        calls = [Call(call.name, call.arguments, f"c{request.round}_{n}") for n, call in enumerate(line.calls)]
        return await ScriptedModel(msgspec.structs.replace(line, calls=tuple(calls))).call(request, show)


class Extension(msgspec.Struct, frozen=True):
    """How a run is extended: its budget, what its guardrails say to the nth thing they see, who speaks in which round."""

    budget: int | None
    verdicts: dict[str, tuple[str, ...]]
    said: dict[int, int]
    parallel: bool

    def guardrails(self) -> Guardrails:
        seen: Counter[str] = Counter()

        def judge(stage: str, rewrite: Any) -> GuardrailResult:
            said = self.verdicts[stage][seen[stage] % len(self.verdicts[stage])]
            seen[stage] += 1
            if said == "raise":
                raise RuntimeError("it broke")
            return GuardrailResult(said != "deny", "because", rewrite if said == "rewrite" else None)

        def of(stage: str, rewrite: Any) -> Any:
            return None if stage not in self.verdicts else lambda *given: judge(stage, rewrite(*given))

        return Guardrails(
            input=of("input", lambda turns: [*turns[:-1], user("rewritten")] if type(turns[-1]) is UserTurn else turns),
            output=of("output", lambda turn: "reworded"),
            tool=of("tool", lambda name, arguments: {"reworded": True}),
        )

    def plan(self) -> dict[str, Any]:
        guards = tuple([stage for stage in ("input", "output", "tool") if stage in self.verdicts])
        return {"context_budget": self.budget, "guards": guards, "parallel": self.parallel}


texts = st.text(st.characters(codec="utf-8", exclude_categories=["Cs"]), max_size=40)
arguments = st.sampled_from(["{}", '{"a":1}', '{"a":3,}', '{"a":'])
lines = st.builds(
    Line,
    text=texts,
    calls=st.lists(st.builds(Call, st.sampled_from(NAMES), arguments), max_size=3).map(tuple),
    stop=st.sampled_from([None, None, None, "length"]),
)
scripts = st.lists(lines, max_size=5).map(lambda said: [*said, Line(text="done")])
verdicts = st.lists(st.sampled_from(["allow", "allow", "allow", "rewrite", "deny", "raise"]), min_size=1, max_size=4)
extensions = st.builds(
    Extension,
    st.one_of(st.none(), st.integers(20, 400)),
    st.dictionaries(st.sampled_from(["input", "output", "tool"]), verdicts.map(tuple)),
    st.dictionaries(st.integers(0, 4), st.integers(1, 2), max_size=2),
    st.booleans(),
)
history = (
    SystemTurn("Be brief."),
    user("hello there, a first question that is rather long"),
    AssistantTurn((ToolCall("h0", "once", "{}"),), "tool_calls"),
    ToolTurn((ToolResult("h0", "a result of some length, so that it counts"),)),
    AssistantTurn((Text("an answer of some length"),)),
    user("go"),
)


def tools() -> dict[str, CountingTool]:
    return {"once": CountingTool("once", False), "again": CountingTool("again", True)}


def started(extension: Extension) -> RunStarted:
    specs = tuple([tool.spec for tool in tools().values()])
    plan = Plan("m", specs, stream=True, retry=Retry(tries=1), **extension.plan())
    return RunStarted("run_1", plan, history, at=5.0)


async def driven(
    run: Run, said: Sequence[Line], extension: Extension, handlers: dict[str, CountingTool]
) -> tuple[list[Event], Model]:
    clock = itertools.count(10)
    events: list[Event] = []
    steering = Steering()
    model = Model(said, extension.said, steering)
    await drive(
        run,
        provider=model,
        tools=handlers,
        emit=events.extend,
        steering=steering,
        guardrails=extension.guardrails(),
        now=lambda: float(next(clock)),
    )
    return events, model


def played(said: Sequence[Line], extension: Extension) -> tuple[Run, list[Event], Model]:
    start = started(extension)
    run = Run(start)
    events, model = asyncio.run(driven(run, said, extension, tools()))
    return run, [start, *events], model


def facts(events: Sequence[Event]) -> list[Event]:
    return [event for event in events if type(event) not in PREVIEWS]


def state(run: Run) -> tuple[object, ...]:
    ends = run.usage, run.ended, run.denied, run.round, run.tool_rounds, run.steered
    return run.turns, run.shown, ends, run.open_calls, run.results


def assert_paired(turns: Sequence[Turn]) -> None:
    for turn, after in itertools.zip_longest(turns, turns[1:]):
        if type(turn) is AssistantTurn and turn.calls:
            assert type(after) is ToolTurn
            assert [result.call_id for result in after.results] == [call.id for call in turn.calls]
        elif type(after) is ToolTurn:
            pytest.fail(f"results without a call: {after}")


@given(scripts, extensions)
def test_dropping_previews_changes_no_state(said: list[Line], extension: Extension) -> None:
    run, events, _ = played(said, extension)
    assert state(rebuild(facts(events))) == state(rebuild(events)) == state(run)


@given(scripts, extensions)
def test_events_survive_json(said: list[Line], extension: Extension) -> None:
    events = played(said, extension)[1]
    assert msgspec.json.decode(msgspec.json.encode(events), type=list[Event]) == events


@given(scripts, extensions)
def test_whatever_a_model_is_shown_pairs_calls_and_results(said: list[Line], extension: Extension) -> None:
    run, _, model = played(said, extension)
    for heard in model.heard:
        assert_paired(heard)
    assert_paired(run.turns)


@given(scripts, extensions)
def test_a_summary_takes_neither_the_instructions_nor_the_last_question(said: list[Line], extension: Extension) -> None:
    _, events, model = played(said, extension)
    if any(type(event) is Checked and event.stage == "input" and event.rewrite for event in events):
        return  # then the guardrail decides what is shown
    for heard in model.heard:
        assert heard[0] == SystemTurn("Be brief.")
        assert any(type(turn) is UserTurn for turn in heard)


@given(scripts, extensions)
def test_nothing_is_lost_from_the_run_when_the_model_is_shown_less(said: list[Line], extension: Extension) -> None:
    run, events, _ = played(said, extension)
    if run.denied is None:
        assert tuple(run.turns[: len(history)]) == history
        asked = [event.turn for event in events if type(event) is Steered]
        assert [turn for turn in run.turns[len(history) :] if type(turn) is UserTurn] == asked[: run.steered]


@given(scripts, extensions)
def test_what_was_said_is_heard_before_the_run_ends_unless_it_fails(said: list[Line], extension: Extension) -> None:
    run, events, _ = played(said, extension)
    sent = sum(type(event) is Steered for event in events)
    assert run.ended is not None
    if run.ended.reason == "stop" and run.limit is None:
        assert run.steered == sent


@given(scripts, extensions)
def test_no_denied_call_is_run_and_no_unseen_text_is_shown(said: list[Line], extension: Extension) -> None:
    _, events, _ = played(said, extension)
    denied: set[str | None] = set()
    seen = 0
    for event in events:
        match event:
            case Checked(stage="tool", allowed=False, call_id=call_id):
                denied.add(call_id)
            case Checked(stage="output", allowed=True):
                seen += 1
            case ToolStarted(call_id=call_id):
                assert call_id not in denied
                if "tool" in extension.verdicts:
                    assert any(type(e) is Checked and e.call_id == call_id and e.allowed for e in events)
            case TextDelta() if "output" in extension.verdicts:
                seen -= 1
                assert seen >= 0
            case _:
                pass


@settings(max_examples=30, deadline=None)
@given(scripts, extensions)
def test_a_journal_cut_anywhere_and_resumed_answers_every_call_once(said: list[Line], extension: Extension) -> None:
    kept = facts(played(said, extension)[1])
    for cut in range(1, len(kept) + 1):
        before = kept[:cut]
        run = rebuild(list(before))
        assert run.shown == rebuild(list(before)).shown
        recovered = run.recover()
        handlers = tools()
        after: list[Event] = list(recovered)
        if run.ended is None:
            events, model = asyncio.run(driven(run, said, extension, handlers))
            after += events
            for heard in model.heard:
                assert_paired(heard)
        assert run.ended is not None
        assert_paired(run.turns)
        finished = {event.result.call_id for event in before if type(event) is ToolFinished}
        ran_again = Counter(call_id for tool in handlers.values() for call_id in tool.ran.elements())
        assert not finished & ran_again.keys()
        assert max(ran_again.values(), default=1) == 1
        # What a guardrail has seen, it is not asked about again.
        whole = [*before, *facts(after)]
        asked = Counter(event.call_id for event in whole if type(event) is Checked and event.stage == "tool")
        assert max(asked.values(), default=1) == 1
        assert state(rebuild(whole)) == state(run)


@given(scripts, extensions)
def test_a_conversation_is_summed_up_once_a_call_at_most(said: list[Line], extension: Extension) -> None:
    times = 0
    for event in played(said, extension)[1]:
        if type(event) is Compacted:
            times += 1
            assert times == 1
        elif type(event) is ModelStarted or type(event) is Steered:
            times = 0


def test_nothing_follows_the_last_answer_of_a_run_at_its_limit() -> None:
    plan = Plan("m", (ToolSpec("once"),), limits=Limits(rounds=1))
    run = Run(RunStarted("run_1", plan, (user("go"),)))
    for event in (
        ModelStarted(0),
        ModelFinished(AssistantTurn((ToolCall("a", "once", "{}"),), "tool_calls")),
        ToolStarted("a"),
        ToolFinished(ToolResult("a", "x")),
        ModelStarted(1, last=True),
        ModelFinished(AssistantTurn((Text("as far as I got"),))),
        Steered(user("one more thing")),
    ):
        run.apply(event)
    assert run.todo() == [Finish("stop", "max_tool_rounds")]


@pytest.mark.parametrize("when", ["before", "during the call", "during the tool"])
def test_what_is_said_at_any_time_waits_for_the_next_call(when: str) -> None:
    """A server may let people speak at any moment, not only between two steps."""
    run = Run(RunStarted("run_1", Plan("m", (ToolSpec("once"),)), (user("go"),)))
    said = Steered(user("briefly"))
    asked = AssistantTurn((ToolCall("a", "once", "{}"),), "tool_calls")
    events: list[tuple[str, Event]] = [
        ("before", ModelStarted(0)),
        ("during the call", ModelFinished(asked)),
        ("", ToolStarted("a")),
        ("during the tool", ToolFinished(ToolResult("a", "x"))),
    ]
    for moment, event in events:
        if moment == when:
            run.apply(said)
        run.apply(event)
    results = ToolTurn((ToolResult("a", "x"),))
    expected = [user("go"), asked, results]
    expected.insert(1 if when == "before" else 3, user("briefly"))
    assert run.turns == expected
    assert run.todo() == [CallModel(1)]


def test_journals_of_before_are_still_read() -> None:
    old = (
        b'[{"type":"checked","problem":"no","at":1.5},{"type":"model_finished","turn":{"type":"assistant","parts":[]}}]'
    )
    assert msgspec.json.decode(old, type=list[Event]) == [
        Checked("no", 1.5, "format", True, None, None),
        ModelFinished(AssistantTurn(()), held=()),
    ]
