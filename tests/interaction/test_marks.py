"""What a run has read follows wherever it is continued: into agents that it starts, and into conversations that were saved."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from tests.server.labelled_tools import labelled_tools

from ronda import Agent, Asked, run_agent
from ronda.drive import Tool
from ronda.journal.memory import MemoryJournal
from ronda.testing import ScriptedModel, calls, says


class Person:
    """Says no, and remembers what to."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str]] = []

    def __call__(self, question: Asked) -> bool:
        self.asked.append((question.tool, question.cause))
        return False


def test_an_agent_that_is_started_has_read_what_its_parent_has() -> None:
    """The parent has read a secret and the child a stranger's page: neither has read both."""
    sent: list[str] = []
    read, fetch, send_out = labelled_tools(sent)
    child = Agent(
        ScriptedModel(calls("fetch"), calls("send_out", words="a secret"), says("Sent.")),
        name="child",
        tools=[fetch, send_out],
    )
    boss = ScriptedModel(calls("read"), calls("child", input="The secret is: a secret."), says("Done."))
    person = Person()

    result = run_agent(Agent(boss, tools=[read, child.as_tool()]), "go", approve=person)

    assert (result.output, person.asked, sent) == ("Done.", [("send_out", "taint")], [])


def test_who_starts_an_agent_has_read_what_the_agent_has() -> None:
    """Also where the agent's own tools have no labels, since its agent has read by another."""
    sent: list[str] = []
    read, fetch, send_out = labelled_tools(sent)
    inner = Agent(ScriptedModel(calls("fetch"), says("Send it.")), name="inner", tools=[fetch])
    outer = Agent(ScriptedModel(calls("inner", input="?"), says("Send it.")), name="outer", tools=[inner.as_tool()])
    boss = ScriptedModel(calls("read"), calls("outer", input="?"), calls("send_out", words="a secret"), says("Done."))
    person = Person()

    run_agent(Agent(boss, tools=[read, outer.as_tool(), send_out]), "go", approve=person)

    assert (person.asked, sent) == ([("send_out", "taint")], [])


@pytest.mark.parametrize("form", ["turns", "json"])
def test_a_conversation_that_was_saved_has_read_what_it_had(form: str) -> None:
    """By tools that the next agent has not."""
    sent: list[str] = []
    read, fetch, send_out = labelled_tools(sent)
    first = run_agent(Agent(ScriptedModel(calls("read"), calls("fetch"), says("Well.")), tools=[read, fetch]), "go")
    history: Any = first.messages if form == "turns" else msgspec.json.decode(msgspec.json.encode(first.messages))
    person = Person()

    model = ScriptedModel(calls("send_out", words="a secret"), says("Done."))
    run_agent(Agent(model, tools=[send_out]), "and now?", history=history, approve=person)

    assert (person.asked, sent) == ([("send_out", "taint")], [])


def test_a_run_that_is_resumed_has_read_what_it_inherited() -> None:
    sent: list[str] = []
    journal = MemoryJournal()

    def boss(*lines: Any, child: Tool) -> Agent:
        return Agent(ScriptedModel(*lines), tools=[read, child])

    read, fetch, send_out = labelled_tools(sent)
    model = ScriptedModel(calls("fetch"), calls("send_out", words="a secret"), says("No."))
    child = Agent(model, name="child", tools=[fetch, send_out]).as_tool()
    result = run_agent(
        boss(calls("read"), calls("child", input="a secret"), says("Done."), child=child), "go", journal=journal
    )

    [question] = result.questions
    assert (question.tool, question.cause, sent) == ("send_out", "taint", [])
