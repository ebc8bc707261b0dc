"""Calls that a person has to approve: asked through a callback, or left open for another process to continue."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, Final

import msgspec
import pytest
from tests.timeouts import soon

from ronda import (
    Agent,
    Answered,
    Asked,
    Cancel,
    Guardrails,
    invoke_agent,
    invoke_agent_async,
    resume_agent,
    run_agent,
    tool,
)
from ronda.core.events import Event, RunFinished, ToolFinished
from ronda.core.parts import AssistantTurn
from ronda.errors import (
    BadConfig,
    BadRequest,
    RunCancelled,
)
from ronda.journal import RunState
from ronda.journal.memory import MemoryJournal
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
    (left,) = asyncio.run(journal.unfinished_runs())
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
    assert results(model) == ["Error: not run: no person approved it in time."]


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
    assert len(asyncio.run(journal.unfinished_runs())) == 1  # it waits


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
    assert (box.sent, await journal.unfinished_runs()) == ([], [])


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
