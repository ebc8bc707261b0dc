"""A run that waits for people without a person who is asked: it stops, and goes on when it is answered, here or elsewhere."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.conformance.prompty_turn_view import TurnView
from tests.interaction.test_approvals import STATES, Mailbox, mail, results

from ronda import (
    Agent,
    Answered,
    Asked,
    invoke_agent,
    invoke_agent_async,
    resume_agent,
    resume_agent_async,
    run_agent,
    stream_agent,
)
from ronda.core.events import Event, Preview
from ronda.errors import (
    AlreadyAnswered,
    BadRequest,
    NotFound,
    RunWaiting,
)
from ronda.journal import Journal, RunQuery
from ronda.journal.memory import MemoryJournal
from ronda.journal.sqlite import SqliteJournal
from ronda.prompty.turn_events import TurnEvents
from ronda.testing import ScriptedModel, says

# ---- without one -----------------------------------------------------------------------------------------------------


def test_without_a_callback_the_run_waits_and_says_for_what() -> None:
    box = Mailbox()
    agent = Agent(ScriptedModel(mail("ada")), tools=[box.tool()])

    result = run_agent(agent, "go")

    assert [(question.tool, question.values) for question in result.questions] == [("send_mail", {"to": "ada"})]
    with pytest.raises(RunWaiting, match="waits for an approval of 'send_mail'") as raised:
        _ = result.output
    assert (raised.value.run, raised.value.questions) == (result.run_id, result.questions)
    with pytest.raises(RunWaiting):
        invoke_agent(Agent(ScriptedModel(mail("ada")), tools=[box.tool()]), "go")
    assert box.sent == []


async def test_a_stream_of_events_ends_with_the_question() -> None:
    seen: list[Event] = []

    async def read() -> None:
        async with stream_agent(Agent(ScriptedModel(mail("ada")), tools=[Mailbox().tool()]), "go") as events:
            async for event in events:
                seen.append(event)  # noqa: PERF401  # what was read before it raises is looked at

    with pytest.raises(RunWaiting):
        await read()
    assert type(seen[-1]) is Asked


def test_a_stream_of_text_ends_with_the_question() -> None:
    stream = invoke_agent(Agent(ScriptedModel(mail("ada")), tools=[Mailbox().tool()]), "go", stream=True)
    with pytest.raises(RunWaiting):
        "".join(stream)


def waiting(journal: Journal, box: Mailbox, *lines: Any, **options: Any) -> tuple[Agent, ScriptedModel, Any]:
    model = ScriptedModel(*lines)
    agent = Agent(model, tools=[box.tool()])
    return agent, model, run_agent(agent, "go", journal=journal, **options)


def test_a_run_that_waits_goes_on_when_it_is_answered() -> None:
    box, journal = Mailbox(), MemoryJournal()
    agent, model, result = waiting(journal, box, mail("ada", "eve", "bob"), says("done"))
    ada, eve, bob = result.questions

    result = resume_agent(result.run_id, {ada.id: True, eve.id: eve.deny("no")}, journal=journal, agent=agent)
    assert [question.id for question in result.questions] == [bob.id]
    assert box.sent == ["ada"]

    again = result
    result = resume_agent(result.run_id, {bob.id: bob.approve({"to": "rob"})}, journal=journal, agent=agent)
    assert (result.output, result.questions, box.sent) == ("done", [], ["ada", "rob"])
    assert results(model) == ["sent to ada", "Error: not run: it was not approved: no.", "sent to rob"]
    assert result.run_id == again.run_id
    with pytest.raises(AlreadyAnswered, match="is over"):
        resume_agent(result.run_id, journal=journal, agent=agent)


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
async def test_a_list_of_runs_tells_which_of_them_wait(kind: str, tmp_path: Path) -> None:
    box, journal = Mailbox(), MemoryJournal() if kind == "memory" else SqliteJournal(tmp_path / "journal.db")
    agent = Agent(ScriptedModel(mail("ada", "eve"), says("done"), says("hi")), tools=[box.tool()])
    options: Any = {"journal": journal, "owner": "ann"}
    states = []

    async def look() -> None:
        states.append(
            {state: len((await journal.list_runs(RunQuery("ann", states=(state,)))).runs) for state in STATES}
        )

    with pytest.raises(RunWaiting):
        await invoke_agent_async(agent, "go", **options)
    await look()
    (left,) = await journal.unfinished_runs()
    ada, eve = (await resume_agent_async(left.run, journal=journal, agent=agent)).questions
    await look()
    await resume_agent_async(left.run, {ada.id: True}, journal=journal, agent=agent)
    await look()
    await resume_agent_async(left.run, {eve.id: True}, journal=journal, agent=agent)
    await look()
    await journal.close()

    assert states == [{"waiting": 1, "running": 0, "finished": 0}] * 3 + [{"waiting": 0, "running": 0, "finished": 1}]


def test_a_second_answer_is_refused_and_the_first_stands() -> None:
    box, journal = Mailbox(), MemoryJournal()
    agent, _, result = waiting(journal, box, mail("ada", "eve"), says("done"))
    ada, eve = result.questions
    resume_agent(result.run_id, {ada.id: False}, journal=journal, agent=agent)

    with pytest.raises(AlreadyAnswered, match=f"question '{ada.id}' is closed"):
        resume_agent(result.run_id, {ada.id: True}, journal=journal, agent=agent)

    result = resume_agent(result.run_id, {eve.id: True}, journal=journal, agent=agent)
    assert (result.output, box.sent) == ("done", ["eve"])


@pytest.mark.parametrize(
    ("answers", "error", "match"),
    [
        ({"appr_other": True}, NotFound, "has no question 'appr_other'; open: 'appr_"),
        ({"": "yes"}, NotFound, "has no question ''"),
    ],
)
def test_an_answer_to_nothing_is_refused_and_nothing_is_driven(answers: Any, error: Any, match: str) -> None:
    box, journal = Mailbox(), MemoryJournal()
    agent, _, result = waiting(journal, box, mail("ada"), says("done"))
    with pytest.raises(error, match=match):
        resume_agent(result.run_id, answers, journal=journal, agent=agent)
    with pytest.raises(BadRequest, match="it has to be True, False or an answer"):
        resume_agent(result.run_id, {result.questions[0].id: "yes"}, journal=journal, agent=agent)  # type: ignore[dict-item]
    with pytest.raises(NotFound, match="the journal has no run 'run_x'"):
        resume_agent("run_x", journal=journal, agent=agent)
    with pytest.raises(TypeError, match="unknown option 'max_iterations'; there is approve"):
        resume_agent(result.run_id, journal=journal, agent=agent, max_iterations=3)  # type: ignore[call-arg]
    assert resume_agent(result.run_id, {result.questions[0].id: True}, journal=journal, agent=agent).output == "done"


def test_an_answer_that_comes_too_late_is_refused() -> None:
    box, journal = Mailbox(), MemoryJournal()
    agent, _, result = waiting(journal, box, mail("ada"), says("sorry"), approval_timeout=1e-6)
    if not result.questions:  # it took that long to say so
        assert result.output == "sorry"
        return
    with pytest.raises(AlreadyAnswered):
        resume_agent(result.run_id, {result.questions[0].id: True}, journal=journal, agent=agent)
    assert resume_agent(result.run_id, journal=journal, agent=agent).output == "sorry"
    assert box.sent == []


def test_the_rest_of_the_questions_goes_to_the_callback() -> None:
    box, journal = Mailbox(), MemoryJournal()
    agent, _, result = waiting(journal, box, mail("ada", "eve"), says("done"))

    result = resume_agent(
        result.run_id, {result.questions[0].id: False}, journal=journal, agent=agent, approve=lambda question: True
    )

    assert (result.output, box.sent) == ("done", ["eve"])


def a_day_before(journal: Journal, run: str, facts: int | None = None) -> MemoryJournal:
    """A journal in which all of it, or the first `facts`, happened a day earlier."""
    yesterday = MemoryJournal()
    for event in asyncio.run(journal.read(run))[:facts]:
        assert not isinstance(event, Preview)
        yesterday.append(run, [msgspec.structs.replace(event, at=event.at and event.at - 86400)])
    yesterday.release(run)
    return yesterday


def test_the_time_it_waited_does_not_count() -> None:
    box, journal = Mailbox(), MemoryJournal()
    agent, _, result = waiting(journal, box, mail("ada"), says("done"), max_seconds=600)
    yesterday = a_day_before(journal, result.run_id)

    assert resume_agent(result.run_id, {result.questions[0].id: True}, journal=yesterday, agent=agent).output == "done"


@pytest.mark.parametrize("facts", [1, 2])
def test_the_time_in_which_nobody_drove_it_does_not_count(facts: int) -> None:
    box, journal = Mailbox(), MemoryJournal()
    agent, _, result = waiting(journal, box, mail("ada"), mail("ada"), says("done"), max_seconds=600)
    yesterday = a_day_before(journal, result.run_id, facts)  # cut off before, or in, its first model call
    first = resume_agent(result.run_id, journal=yesterday, agent=agent)
    second = resume_agent(result.run_id, {first.questions[0].id: True}, journal=yesterday, agent=agent)

    assert (second.output, box.sent) == ("done", ["ada"])


def test_the_process_that_asked_may_still_be_there(tmp_path: Path) -> None:
    box, path = Mailbox(), str(tmp_path / "runs.db")
    here, there = SqliteJournal(path), SqliteJournal(path)
    agent, _, result = waiting(here, box, mail("ada"), says("done"))
    answers = {result.questions[0].id: True}
    with pytest.raises(NotFound):
        resume_agent(result.run_id, {"no": True}, journal=here, agent=agent)

    assert resume_agent(result.run_id, answers, journal=there, agent=agent).output == "done"
    with pytest.raises(AlreadyAnswered):
        resume_agent(result.run_id, answers, journal=here, agent=agent)
    asyncio.run(here.close())
    asyncio.run(there.close())


PROGRAM = """
import sys
from ronda import Agent, resume_agent, run_agent, tool
from ronda.journal.sqlite import SqliteJournal
from ronda.testing import Call, ScriptedModel, calls, says

path, log, *run = sys.argv[1:]


def note(what):
    with open(log, "a") as file:
        print(what, file=file)


@tool(approval="ask")
def send_mail(to: str) -> str:
    note(f"sent to {to}")
    return "sent"


def look() -> str:
    note("looked")
    return "fine"


if run:
    agent = Agent(ScriptedModel(says("done")), tools=[send_mail, look])
    answers = {id: word == "yes" for id, _, word in [one.partition("=") for one in run[1:]]}
    result = resume_agent(run[0], answers, journal=SqliteJournal(path), agent=agent)
else:
    agent = Agent(ScriptedModel(calls(Call("look"), Call("send_mail", {"to": "ada"}))), tools=[send_mail, look])
    result = run_agent(agent, "go", journal=SqliteJournal(path))
print(result.run_id, *[question.id for question in result.questions])
print("" if result.questions else result.output)
"""


def test_another_process_goes_on_with_it(tmp_path: Path) -> None:
    program, journal, log = tmp_path / "program.py", tmp_path / "runs.db", tmp_path / "log"
    program.write_text(PROGRAM)

    def process(*arguments: str) -> list[str]:
        command = [sys.executable, str(program), str(journal), str(log), *arguments]
        done = subprocess.run(command, env=dict(os.environ), capture_output=True, text=True, timeout=60, check=True)
        return done.stdout.splitlines()

    run, question = process()[0].split()
    assert log.read_text() == "looked\n"

    assert process(run, f"{question}=yes") == [run, "done"]
    assert log.read_text() == "looked\nsent to ada\n"


def permissions(events: list[tuple[str, Any]]) -> list[tuple[str, Any]]:
    return [(kind, data.get("approved")) for kind, data in events if kind.startswith("permission_")]


@pytest.mark.parametrize(("said", "kind"), [("approve", None), ("deny", "permission_denied")])
def test_the_turns_events_say_who_was_asked_and_what_came_of_it(said: Any, kind: str | None) -> None:
    def approve(question: Asked) -> Answered:
        return Answered(question.id, said, remember=True)

    seen: list[tuple[str, Any]] = []
    view, box = TurnView(), Mailbox()
    turns = TurnEvents(lambda event_type, data: seen.append((event_type, data)))

    def on_event(event: Event) -> None:
        turns(event)
        view.feed(event)

    agent = Agent(ScriptedModel(mail("ada", "eve"), says("done")), tools=[box.tool()])
    invoke_agent(agent, "go", approve=approve, on_event=on_event)

    approved = said == "approve"
    assert permissions(seen) == [("permission_requested", None)] * 2 + [("permission_completed", approved)] * 2
    assert [data.get("errorKind") for event_type, data in seen if event_type == "tool_result"] == [kind] * 2
    resolved = [event.payload for event in view.events if event.kind == "permission_resolved"]
    assert [(one["name"], one["approved"]) for one in resolved] == [("send_mail", approved)] * 2
