"""Calls that a person has to approve: asked through a callback, or left open for another process to go on with."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import msgspec
import pytest
from tests.patience import soon

from ronda import (
    Agent,
    Answered,
    Asked,
    Cancel,
    Guardrails,
    invoke_agent,
    invoke_agent_async,
    resume_agent,
    resume_agent_async,
    run_agent,
    stream_agent,
    tool,
)
from ronda.core.events import Event, Preview, RunFinished, ToolFinished
from ronda.core.parts import AssistantTurn
from ronda.errors import (
    AlreadyAnswered,
    BadConfig,
    BadRequest,
    NotFound,
    RunCancelled,
    RunWaiting,
)
from ronda.journal import Journal, RunState
from ronda.journal.memory import MemoryJournal
from ronda.journal.sqlite import SqliteJournal
from ronda.prompty.turn_engine import TurnView
from ronda.prompty.turn_events import TurnEvents
from ronda.testing import Call, ScriptedModel, calls, says

STATES: Final[tuple[RunState, ...]] = ("waiting", "running", "finished")


class Mailbox:
    """A tool that must not run by accident, and what it has sent."""

    def __init__(self) -> None:
        self.sent: list[str] = []

    def tool(self, **options: Any) -> Any:
        @tool(**{"approval": "ask", **options})
        def send_mail(to: str) -> str:
            """Send a mail."""
            self.sent.append(to)
            return f"sent to {to}"

        return send_mail


def mail(*people: str) -> Any:
    return calls(*[Call("send_mail", {"to": one}, f"c_{one}") for one in people])


def results(model: ScriptedModel) -> list[str]:
    return [result.content for result in model.heard[-1][-1].results]  # type: ignore[union-attr]  # it is a ToolTurn


# ---- with a callback -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("is_async", [False, True])
def test_an_approved_call_runs_and_the_person_saw_what_it_would_do(is_async: bool) -> None:
    box, seen = Mailbox(), list[Asked]()

    def approve(question: Asked) -> bool:
        assert box.sent == []
        seen.append(question)
        return True

    async def approve_async(question: Asked) -> bool:
        return approve(question)

    answer = invoke_agent(
        Agent(ScriptedModel(mail("ada"), says("done")), tools=[box.tool()]),
        "go",
        approve=approve_async if is_async else approve,
    )

    assert (answer, box.sent) == ("done", ["ada"])
    assert [(one.tool, one.values, one.kind, one.call_id) for one in seen] == [
        ("send_mail", {"to": "ada"}, "approval", "c_ada")
    ]


def test_a_denied_call_does_not_run_and_the_model_reads_why() -> None:
    box = Mailbox()
    model = ScriptedModel(mail("ada"), says("sorry"))

    answer = invoke_agent(
        Agent(model, tools=[box.tool()]), "go", approve=lambda question: question.deny("not on Sundays")
    )

    assert (answer, box.sent) == ("sorry", [])
    assert results(model) == ["Error: not run: it was not approved: not on Sundays."]


def test_words_that_no_journal_could_write_are_mended() -> None:
    box, journal = Mailbox(), MemoryJournal()
    model = ScriptedModel(mail("ada"), says("sorry"))
    agent = Agent(model, tools=[box.tool()])

    result = run_agent(agent, "go", journal=journal, approve=lambda question: question.deny("no \ud800"))

    assert msgspec.json.encode(asyncio.run(journal.read(result.run_id)))
    assert results(model) == ["Error: not run: it was not approved: no ?."]


def test_an_edit_changes_what_runs_and_not_the_turn() -> None:
    box = Mailbox()
    model = ScriptedModel(mail("ada"), says("done"))

    invoke_agent(Agent(model, tools=[box.tool()]), "go", approve=lambda question: question.approve({"to": "eve"}))

    assert box.sent == ["eve"]
    turn = model.heard[-1][-2]
    assert isinstance(turn, AssistantTurn)
    assert turn.calls[0].arguments == '{"to":"ada"}'


def test_an_edit_that_does_not_fit_is_refused_and_the_question_stays_open() -> None:
    box, journal = Mailbox(), MemoryJournal()
    agent = Agent(ScriptedModel(mail("ada"), says("done")), tools=[box.tool()])

    with pytest.raises(BadRequest, match="the arguments do not fit the tool 'send_mail'"):
        invoke_agent(agent, "go", journal=journal, approve=lambda question: question.approve({"to": 7}))

    assert box.sent == []
    (left,) = asyncio.run(journal.unfinished())
    result = resume_agent(left.run, journal=journal, agent=agent)
    assert [question.tool for question in result.questions] == ["send_mail"]


def test_what_is_remembered_is_asked_once() -> None:
    box, asked = Mailbox(), list[str]()

    def approve(question: Asked) -> Answered:
        asked.append(question.values["to"])
        return question.approve(remember=True)

    model = ScriptedModel(mail("ada", "eve"), mail("bob"), says("done"))
    invoke_agent(Agent(model, tools=[box.tool()]), "go", approve=approve)

    assert asked == ["ada"]
    assert sorted(box.sent) == ["ada", "bob", "eve"]


def test_a_no_that_is_remembered_needs_no_second_one() -> None:
    box, asked = Mailbox(), list[str]()

    def approve(question: Asked) -> Answered:
        asked.append(question.values["to"])
        return question.deny(remember=True)

    model = ScriptedModel(mail("ada"), mail("bob"), says("sorry"))
    invoke_agent(Agent(model, tools=[box.tool()]), "go", approve=approve)

    assert (asked, box.sent) == (["ada"], [])
    assert results(model) == ["Error: not run: calls of 'send_mail' are not permitted."]


def test_a_question_nobody_answers_in_time_is_a_no() -> None:
    box = Mailbox()
    model = ScriptedModel(mail("ada"), says("sorry"))

    async def never(question: Asked) -> bool:
        await asyncio.Event().wait()
        return True

    answer = invoke_agent(Agent(model, tools=[box.tool()]), "go", approve=never, approval_timeout=0.01)

    assert (answer, box.sent) == ("sorry", [])
    assert results(model) == ["Error: not run: nobody approved it in time."]


def test_a_tool_that_is_denied_never_runs_and_nobody_is_asked() -> None:
    box = Mailbox()
    model = ScriptedModel(mail("ada"), says("sorry"))

    answer = invoke_agent(Agent(model, tools=[box.tool(approval="deny")]), "go", approve=lambda question: 1 / 0)  # type: ignore[arg-type,return-value]  # never called

    assert (answer, box.sent) == ("sorry", [])
    assert results(model) == ["Error: not run: calls of 'send_mail' are not permitted."]


def test_an_approval_is_one_of_three_words() -> None:
    with pytest.raises(BadConfig, match="approval is 'always'; it can be 'auto', 'ask' or 'deny'"):
        tool(approval="always")(lambda: "x")  # type: ignore[call-overload]  # that is the point


async def test_other_calls_go_on_while_a_person_thinks() -> None:
    box, looked = Mailbox(), asyncio.Event()

    async def look() -> str:
        looked.set()
        return "fine"

    async def approve(question: Asked) -> bool:
        await looked.wait()
        return True

    model = ScriptedModel(calls(Call("send_mail", {"to": "ada"}, "a"), Call("look", {}, "b")), says("done"))
    events: list[Event] = []
    async with soon():
        await invoke_agent_async(Agent(model, tools=[box.tool(), look]), "go", approve=approve, on_event=events.append)

    assert [event.name for event in events if type(event) is ToolFinished] == ["look", "send_mail"]
    assert results(model) == ["sent to ada", "fine"]


async def test_an_answer_starts_its_call_while_others_are_still_running() -> None:
    sent = asyncio.Event()

    @tool(approval="ask")
    async def send_mail() -> str:
        sent.set()
        return "sent"

    async def look() -> str:
        await sent.wait()  # would wait for ever if the answer were looked at only afterwards
        return "fine"

    async def approve(question: Asked) -> bool:
        return True

    model = ScriptedModel(calls("send_mail", "look"), says("done"))
    async with soon():
        assert await invoke_agent_async(Agent(model, tools=[send_mail, look]), "go", approve=approve) == "done"


def test_a_plain_callback_is_asked_one_question_after_the_other() -> None:
    events, answered = list[Event](), list[int]()

    def approve(question: Asked) -> bool:
        answered.append(sum(type(event) is Answered for event in events))
        return True

    agent = Agent(ScriptedModel(mail("a", "b", "c"), says("done")), tools=[Mailbox().tool()])
    invoke_agent(agent, "go", approve=approve, on_event=events.append)

    assert answered == [0, 1, 2]


def test_the_guardrail_comes_first() -> None:
    box, asked = Mailbox(), list[Asked]()
    model = ScriptedModel(mail("eve"), says("sorry"))

    def approve(question: Asked) -> bool:
        asked.append(question)
        return True

    invoke_agent(
        Agent(model, tools=[box.tool()]),
        "go",
        guardrails=Guardrails(tool=lambda name, arguments: arguments["to"] != "eve"),
        approve=approve,
    )

    assert (asked, box.sent) == ([], [])


@pytest.mark.parametrize(
    ("said", "error"), [(None, "is None; it has to be True, False or an answer"), ("yes", "'yes'")]
)
def test_what_is_no_answer_runs_nothing(said: Any, error: str) -> None:
    box = Mailbox()
    with pytest.raises(TypeError, match=error):
        invoke_agent(Agent(ScriptedModel(mail("ada")), tools=[box.tool()]), "go", approve=lambda question: said)
    assert box.sent == []


def test_what_the_callback_raises_reaches_the_caller_and_runs_nothing() -> None:
    box, journal = Mailbox(), MemoryJournal()

    def approve(question: Asked) -> bool:
        raise ConnectionError("no pager")

    with pytest.raises(ConnectionError, match="no pager"):
        invoke_agent(Agent(ScriptedModel(mail("ada")), tools=[box.tool()]), "go", approve=approve, journal=journal)
    assert box.sent == []
    assert len(asyncio.run(journal.unfinished())) == 1  # it waits


async def test_a_run_that_is_cancelled_while_a_person_thinks_ends_cancelled() -> None:
    box, cancel, journal = Mailbox(), Cancel(), MemoryJournal()
    events: list[Event] = []

    async def approve(question: Asked) -> bool:
        cancel.cancel()
        await asyncio.Event().wait()
        return True

    agent = Agent(ScriptedModel(mail("ada")), tools=[box.tool()])
    async with soon():
        with pytest.raises(RunCancelled):
            await invoke_agent_async(
                agent, "go", approve=approve, cancel=cancel, journal=journal, on_event=events.append
            )
    assert type(events[-1]) is RunFinished
    assert events[-1].reason == "cancelled"
    assert (box.sent, await journal.unfinished()) == ([], [])


def test_a_child_asks_whom_its_parent_asks() -> None:
    box, asked = Mailbox(), list[str]()
    child = Agent(ScriptedModel(mail("ada"), says("mailed")), tools=[box.tool()], name="mailer")

    def approve(question: Asked) -> bool:
        asked.append(question.tool)
        return True

    def parent() -> Agent:
        return Agent(ScriptedModel(calls("mailer", input="mail ada"), says("done")), tools=[child])

    assert invoke_agent(parent(), "go", approve=approve) == "done"
    assert (asked, box.sent) == (["send_mail"], ["ada"])


def test_a_child_that_can_ask_nobody_is_told_no() -> None:
    box = Mailbox()
    inner = ScriptedModel(mail("ada"), says("could not"))
    child = Agent(inner, tools=[box.tool()], name="mailer")

    answer = invoke_agent(Agent(ScriptedModel(calls("mailer", input="mail"), says("done")), tools=[child]), "go")

    assert (answer, box.sent) == ("done", [])
    assert "nobody can be asked" in results(inner)[0]


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
        states.append({state: len((await journal.list_runs("ann", state=state)).runs) for state in STATES})

    with pytest.raises(RunWaiting):
        await invoke_agent_async(agent, "go", **options)
    await look()
    (left,) = await journal.unfinished()
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
        ({"ask_other_0": True}, NotFound, "has no question 'ask_other_0'; open: 'ask_"),
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
    turns = TurnEvents(lambda type, data: seen.append((type, data)))

    def on_event(event: Event) -> None:
        turns(event)
        view.feed(event)

    agent = Agent(ScriptedModel(mail("ada", "eve"), says("done")), tools=[box.tool()])
    invoke_agent(agent, "go", approve=approve, on_event=on_event)

    approved = said == "approve"
    assert permissions(seen) == [("permission_requested", None)] * 2 + [("permission_completed", approved)] * 2
    assert [data.get("errorKind") for type, data in seen if type == "tool_result"] == [kind] * 2
    resolved = [event.payload for event in view.events if event.kind == "permission_resolved"]
    assert [(one["name"], one["approved"]) for one in resolved] == [("send_mail", approved)] * 2


# ---- files -----------------------------------------------------------------------------------------------------------

FILE = """---
name: mailer
model: {id: script.json, provider: script}
tools:
  - name: send_mail
    kind: function
    description: Send a mail.
    parameters:
      - {name: to, kind: string, required: true}
---
user:
Mail {{who}}.
"""


def test_a_tool_of_a_file_is_asked_about_as_its_function_says(tmp_path: Path) -> None:
    script = tmp_path / "script.json"
    script.write_text('[{"calls": [{"name": "send_mail", "arguments": {"to": "ada"}}]}, "done"]')
    file = tmp_path / "mailer.prompty"
    file.write_text(FILE)
    box, journal = Mailbox(), MemoryJournal()

    result = run_agent(file, {"who": "ada"}, [box.tool()], journal=journal)
    assert [question.tool for question in result.questions] == ["send_mail"]

    result = resume_agent(
        result.run_id, {result.questions[0].id: True}, journal=journal, agent=file, tools=[box.tool()]
    )
    assert (result.output, box.sent) == ("done", ["ada"])
