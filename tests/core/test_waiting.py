"""What holds for every run holds for those too that ask people: checked on runs made up by Hypothesis, and rule by rule."""

from __future__ import annotations

import asyncio
import itertools
from collections import Counter
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from msgspec import Raw
from tests.core.test_invariants import CountingTool, Replayed, assert_paired, facts, texts
from tests.driving import drive

from ronda.core.actions import Ask, CallTool, Check, Finish
from ronda.core.calls import OUTCOME_UNKNOWN
from ronda.core.events import (
    Answered,
    Asked,
    Checked,
    Event,
    ModelFailed,
    ModelFinished,
    ModelStarted,
    Recovered,
    RunFinished,
    RunStarted,
    Steered,
    ToolFinished,
    ToolStarted,
)
from ronda.core.limits import Limits, Retry
from ronda.core.parts import AssistantTurn, ToolCall, ToolResult, ToolTurn, user
from ronda.core.plan import Plan, ToolSpec
from ronda.core.run import Run, rebuild
from ronda.drive import Inbox, check_answer
from ronda.errors import AlreadyAnswered, BadRequest, NotFound, ProtocolError
from ronda.providers.script import Call, Line

SCHEMA = Raw(b'{"type":"object","properties":{"a":{"type":"integer"}}}')
SPECS = (
    ToolSpec("again", repeatable=True),
    ToolSpec("asks", parameters=SCHEMA, repeatable=True, approval="ask"),
    ToolSpec("asks_once", repeatable=False, approval="ask"),
    ToolSpec("alone", repeatable=True, exclusive="key", approval="ask"),
    ToolSpec("never", approval="deny"),
    ToolSpec("theirs", kind="caller"),
)
CALLED = ("again", "asks", "asks_once", "alone", "never", "theirs", "nobody")


class Person(msgspec.Struct, frozen=True):
    """Who answers what is asked of the nth call of a turn, whenever that is: at once, or when nothing else is left to do."""

    answers: tuple[str, ...]
    at_once: bool

    def answer(self, question: Asked) -> Answered:
        place = int(question.call_id.rpartition("_")[2])
        match self.answers[place % len(self.answers)]:
            case "approve":
                return question.approve()
            case "edit":
                return question.approve({"a": 7})
            case "always":
                return question.approve(remember=True)
            case "deny":
                return question.deny("not today")
            case "never":
                return question.deny(remember=True)
            case _:
                return Answered(question.id, "expired")


people = st.builds(
    Person,
    st.lists(st.sampled_from(["approve", "edit", "always", "deny", "never", "expired"]), min_size=1, max_size=4).map(
        tuple
    ),
    st.booleans(),
)
arguments = st.sampled_from(["{}", '{"a":1}'])
lines = st.builds(
    Line,
    text=texts,
    calls=st.lists(st.builds(Call, st.sampled_from(CALLED), arguments), max_size=4).map(tuple),
    stop=st.sampled_from([None, None, None, "length"]),
)
scripts = st.lists(lines, max_size=4).map(lambda said: [*said, Line(text="done")])


def tools(waits: int = 0) -> dict[str, CountingTool]:
    made = {}
    for spec in SPECS:
        if spec.kind != "caller":
            made[spec.name] = CountingTool(spec.name, spec.repeatable, waits)
            made[spec.name].spec = spec
    return made


def started(**plan: Any) -> RunStarted:
    return RunStarted("run_0123456789ab", Plan("m", SPECS, retry=Retry(tries=1), **plan), (user("go"),), at=5.0)


async def driven(run: Run, said: Sequence[Line], person: Person, handlers: dict[str, CountingTool]) -> list[Event]:
    clock = itertools.count(10)
    events: list[Event] = []
    inbox = Inbox(run)

    def emit(batch: list[Event]) -> None:
        events.extend(batch)
        if person.at_once:
            for event in batch:
                if type(event) is Asked:
                    inbox.send(person.answer(event))

    if person.at_once:  # what was cut off before the answer was kept is answered first, as it was
        for question in run.questions:
            inbox.send(person.answer(question))
    while run.ended is None:
        await drive(
            run,
            provider=Replayed(said),
            tools=handlers,
            emit=emit,
            inbox=inbox,
            now=lambda: float(next(clock)),
        )
        if run.is_waiting:
            inbox.send(person.answer(run.questions[0]))
    return events


def played(said: Sequence[Line], person: Person, waits: int = 0, **plan: Any) -> tuple[Run, list[Event]]:
    start = started(**plan)
    run = Run(start)
    return run, [start, *asyncio.run(driven(run, said, person, tools(waits)))]


def state(run: Run) -> tuple[object, ...]:
    ends = run.usage, run.ended, run.round, run.tool_rounds, run.questions_asked, run.questions, run.is_waiting
    return run.turns, run.tools, ends, run.open_calls, run.results


@given(scripts, people, st.booleans())
def test_a_run_with_questions_is_the_fold_of_its_events(said: list[Line], person: Person, parallel: bool) -> None:
    run, events = played(said, person, parallel=parallel)
    assert run.ended is not None
    assert_paired(run.turns, frozenset(call.id for call in run.open_calls))
    assert state(rebuild(facts(events))) == state(run)
    assert msgspec.json.decode(msgspec.json.encode(events), type=list[Event]) == events


@settings(max_examples=60, deadline=None)
@given(scripts, people, st.integers(0, 2), st.booleans())
def test_a_run_with_questions_cut_after_any_event_and_resumed_ends_the_same(
    said: list[Line], person: Person, waits: int, parallel: bool
) -> None:
    whole, events = played(said, person, waits, parallel=parallel)
    kept = facts(events)
    for cut in range(1, len(kept)):
        before = kept[:cut]
        run = rebuild(list(before))
        recovered = run.recover()
        handlers = tools()
        after = [*recovered, *asyncio.run(driven(run, said, person, handlers))]
        unknown = [e for e in recovered if type(e) is ToolFinished and e.result.content == OUTCOME_UNKNOWN]
        assert run.ended is not None
        assert whole.ended is not None
        if not unknown:
            assert (run.turns, run.open_calls) == (whole.turns, whole.open_calls)
            assert (run.ended.reason, run.ended.limit) == (whole.ended.reason, whole.ended.limit)
        # What was asked and answered before is not asked again, and nothing that had finished runs again.
        asked = Counter(e.id for e in [*before, *after] if type(e) is Asked)
        assert max(asked.values(), default=1) == 1
        finished = {e.result.call_id for e in before if type(e) is ToolFinished}
        ran = Counter(run_id.partition("/")[2] for tool in handlers.values() for run_id in tool.ran.elements())
        assert not finished & ran.keys()
        assert state(rebuild([*before, *facts(after)])) == state(run)


@given(scripts, people, st.integers(0, 2), st.booleans())
@example([Line(calls=(Call("asks"), Call("asks"), Call("theirs"))), Line("done")], Person(("always",), False), 0, True)
@example([Line(calls=(Call("asks"), Call("asks"), Call("theirs"))), Line("done")], Person(("never",), False), 0, True)
def test_no_call_runs_that_was_not_approved_and_none_that_is_forbidden(
    said: list[Line], person: Person, waits: int, parallel: bool
) -> None:
    _, events = played(said, person, waits, parallel=parallel)
    asked: dict[str, Asked] = {}
    approved: set[str] = set()
    always: set[str] = set()
    remembered: set[str] = set()  # as a yes or as a no
    for event in events:
        match event:
            case ModelFinished():
                asked, approved = {}, set()
            case Asked():
                assert event.tool not in remembered
                asked[event.id] = event
            case Answered(decision=decision):
                if event.remember:
                    remembered.add(asked[event.id].tool)
                if decision == "approve":
                    approved.add(asked[event.id].call_id)
                    always |= remembered & {asked[event.id].tool}
            case ToolStarted(name="asks" | "asks_once" | "alone" as name, call_id=call_id):
                assert call_id in approved or name in always
            case ToolStarted(name=name):
                assert name == "again"
            case RunFinished(reason="tool_calls"):
                opened = [one for one in asked.values() if one.call_id not in _answered(events)]
                assert not [one for one in opened if one.tool not in remembered]  # which answers these, too
            case _:
                pass


def _answered(events: Sequence[Event]) -> set[str]:
    questions = {e.id: e.call_id for e in events if type(e) is Asked}
    return {questions[e.id] for e in events if type(e) is Answered}


# ---- rule by rule ------------------------------------------------------------------------------------------------------


def asked_for(*names: str, plan: Plan | None = None) -> Run:
    """A run whose model has just asked for these tools: calls `a`, `b`, …"""
    run = Run(RunStarted("run_0123456789ab", plan or Plan("m", SPECS), (user("go"),), at=1.0))
    run.apply(ModelStarted(0, at=2.0))
    calls = [ToolCall("abcdef"[n], name, "{}") for n, name in enumerate(names)]
    run.apply(ModelFinished(AssistantTurn(tuple(calls), "tool_calls"), at=3.0))
    return run


def question(number: int, call: str, tool: str = "asks", **more: Any) -> Asked:
    return Asked(f"ask_0123456789ab_{number}", call, tool=tool, **more)


def test_questions_come_first_and_siblings_go_on_meanwhile() -> None:
    run = asked_for("again", "asks", "theirs", "asks")
    a, b, d = ToolCall("a", "again", "{}"), ToolCall("b", "asks", "{}"), ToolCall("d", "asks", "{}")
    assert run.todo() == [Ask(b), Ask(d), CallTool(a)]
    run.apply(question(0, "b"))
    run.apply(question(1, "d"))
    assert not run.is_waiting  # a can start
    run.apply(ToolStarted("a"))
    assert (run.todo(), run.is_waiting) == ([], False)  # a is running
    run.apply(ToolFinished(ToolResult("a", "x")))
    assert (run.todo(), run.is_waiting) == ([], True)  # and nothing goes out to the caller
    run.apply(run.questions[0].approve({"a": 1}))
    assert (run.todo(), run.is_waiting) == ([CallTool(ToolCall("b", "asks", '{"a":1}'))], False)
    run.apply(ToolStarted("b"))
    run.apply(ToolFinished(ToolResult("b", "y")))
    run.apply(run.questions[0].deny("no"))
    assert run.todo() == [Finish("tool_calls")]
    assert [result.content for result in run.results] == ["x", "y", "Error: not run: it was not approved: no."]
    turn = run.turns[-1]
    assert type(turn) is AssistantTurn
    assert turn.calls[1].arguments == "{}"  # the edit changed what ran, not the turn


def test_the_guardrail_comes_first_and_people_see_what_it_made_of_the_call() -> None:
    run = asked_for("asks", plan=Plan("m", SPECS, guards=("tool",)))
    assert run.todo() == [Check("tool", call=ToolCall("a", "asks", "{}"))]
    run.apply(Checked(stage="tool", call_id="a", rewrite='{"a":2}'))
    assert run.todo() == [Ask(ToolCall("a", "asks", '{"a":2}'))]
    run.apply(question(0, "a"))
    run.apply(run.questions[0].approve({"a": 3}))
    assert run.todo() == [CallTool(ToolCall("a", "asks", '{"a":3}'))]


def test_one_call_after_the_other_is_asked_one_after_the_other() -> None:
    run = asked_for("asks", "again", plan=Plan("m", SPECS, parallel=False))
    assert run.todo() == [Ask(ToolCall("a", "asks", "{}"))]
    run.apply(question(0, "a"))
    assert (run.todo(), run.is_waiting) == ([], True)


@pytest.mark.parametrize("decision", ["approve", "deny"])
def test_what_is_remembered_holds_for_the_tool_in_this_turn_and_later(decision: Any) -> None:
    run = asked_for("asks", "asks", plan=Plan("m", SPECS, parallel=False))
    run.apply(question(0, "a"))
    run.apply(Answered(run.questions[0].id, decision, remember=True))
    if decision == "approve":
        for call_id in "ab":
            assert run.todo() == [CallTool(ToolCall(call_id, "asks", "{}"))]
            run.apply(ToolStarted(call_id))
            run.apply(ToolFinished(ToolResult(call_id, "x")))
    assert type(run.turns[-1]) is ToolTurn
    run.apply(ModelStarted(1))
    run.apply(ModelFinished(AssistantTurn((ToolCall("c", "asks", "{}"),), "tool_calls")))
    if decision == "approve":
        assert run.todo() == [CallTool(ToolCall("c", "asks", "{}"))]
    else:
        assert run.last_results[0].content == "Error: not run: calls of 'asks' are not permitted."


def test_what_is_remembered_answers_what_is_in_question_and_leaves_edits_alone() -> None:
    run = asked_for("asks", "asks", "asks", "asks_once")
    for number, (call, name) in enumerate([("a", "asks"), ("b", "asks"), ("c", "asks"), ("d", "asks_once")]):
        run.apply(question(number, call, name))
    a, b, _, d = run.questions
    run.apply(a.approve({"a": 1}))
    run.apply(b.approve({"a": 2}, remember=True))
    assert run.questions == (d,)
    calls = [ToolCall("a", "asks", '{"a":1}'), ToolCall("b", "asks", '{"a":2}'), ToolCall("c", "asks", "{}")]
    assert run.todo() == [CallTool(call) for call in calls]


def test_a_question_that_is_closed_takes_no_second_answer() -> None:
    run = asked_for("asks", "asks")
    run.apply(question(0, "a"))
    run.apply(question(1, "b"))
    answer = run.questions[0].approve()
    run.apply(answer)
    with pytest.raises(ProtocolError, match="no open question"):
        run.apply(answer)
    with pytest.raises(AlreadyAnswered):
        check_answer(run, answer)
    with pytest.raises(NotFound, match="open: 'ask_0123456789ab_1'"):
        check_answer(run, Answered("ask_x", "deny"))


@pytest.mark.parametrize("arguments", ['{"a":"x"}', "[]", "{", "[" * 5000, "null"])
def test_an_edit_that_does_not_fit_is_refused_and_the_question_stays_open(arguments: str) -> None:
    run = asked_for("asks")
    run.apply(question(0, "a"))
    inbox = Inbox(run)
    with pytest.raises(BadRequest, match="do not fit the tool 'asks'"):
        inbox.send(Answered(run.questions[0].id, "approve", arguments))
    assert run.is_waiting
    assert not inbox
    inbox.send(run.questions[0].approve({"a": 1}))
    with pytest.raises(AlreadyAnswered):
        inbox.send(run.questions[0].deny())


def test_nobody_speaks_into_a_run_that_calls_no_model_any_more() -> None:
    run = asked_for("again")
    Inbox(run).send(Steered(user("briefly")))
    run.apply(ToolStarted("a"))
    run.apply(ToolFinished(ToolResult("a", "x")))
    run.apply(ModelStarted(1))
    run.apply(ModelFailed("it is gone"))
    with pytest.raises(BadRequest, match="about to end"):
        Inbox(run).send(Steered(user("too late")))


def test_the_time_a_run_waits_does_not_count() -> None:
    run = asked_for("asks", "again", plan=Plan("m", SPECS, limits=Limits(seconds=100)))
    for event in (
        question(0, "a", at=4.0),
        ToolStarted("b", at=5.0),
        ToolFinished(ToolResult("b", "x"), at=15.0),
        Steered(user("hello?"), at=1000.0),
        Answered("ask_0123456789ab_0", "approve", at=2000.0),
        ToolStarted("a", at=2001.0),
    ):
        run.apply(event)
    assert run.driven == 15.0
    assert run.seconds_driven(2005.0) == 19.0


def test_the_time_in_which_nobody_drove_a_run_does_not_count() -> None:
    run = asked_for("asks", "again", plan=Plan("m", SPECS, limits=Limits(seconds=100)))
    for start in (5.0, 1000.0):
        run.apply(ToolStarted("b", at=start))
        run.recover()
        run.apply(Recovered(start + 994))
    assert run.driven == 5.0
    assert run.seconds_driven(2000.0) == 11.0


def test_a_tool_that_is_gone_wants_to_know_nothing_any_more() -> None:
    run = asked_for("again")
    run.apply(ToolStarted("a"))
    run.apply(question(0, "a", "again", kind="input"))
    assert not run.is_waiting  # its tool is running
    assert run.recover() == [Answered("ask_0123456789ab_0", "expired", message="the process ended")]
    assert run.todo() == [CallTool(ToolCall("a", "again", "{}"))]
    run.apply(ToolStarted("a"))
    run.apply(question(1, "a", "again", kind="input"))
    run.apply(ToolFinished(ToolResult("a", "never mind")))
    assert run.questions == ()


def test_a_run_that_ends_has_no_open_question() -> None:
    run = asked_for("asks")
    run.apply(question(0, "a"))
    run.apply(RunFinished("cancelled"))
    assert (run.questions, run.is_waiting) == ((), False)
    assert run.last_results[0].content == "Error: not run: the run was cancelled first."


async def test_a_run_with_nothing_to_do_that_does_not_wait_fails_loudly() -> None:
    run = asked_for("again")
    run.apply(ToolStarted("a"))  # under way in a driver that is gone, and `recover` was not called
    with pytest.raises(ProtocolError, match="nothing to do"):
        await drive(run, provider=Replayed([]), tools=tools(), emit=lambda batch: None)
