"""An agent that is a tool of another: its run is found again wherever its parent goes on, and what it asks its parent asks."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from ronda import Agent, Asked, Result, resume_agent, resume_agent_async, run_agent, run_agent_async, tool
from ronda.core.calls import OUTCOME_UNKNOWN
from ronda.core.events import Event, Fact, Recovered, RunFinished, RunStarted, ToolFinished, ToolStarted
from ronda.core.run import rebuild
from ronda.drive import child_id
from ronda.errors import AlreadyAnswered, BadRequest, RunWaiting
from ronda.journal import RunQuery
from ronda.journal.memory import MemoryJournal
from ronda.journal.sqlite import SqliteJournal


class Recording(MemoryJournal):
    """Which run said what, in the order of all of them."""

    def __init__(self) -> None:
        super().__init__()
        self.order: list[tuple[str, Event]] = []

    def append(self, run: str, events: Sequence[Event], size: int | None = None) -> None:
        super().append(run, events, size)
        self.order += [(run, event) for event in events]


def cut_after(order: list[tuple[str, Event]], count: int) -> MemoryJournal:
    """What is left of several runs when their process ends."""
    journal, said = MemoryJournal(), dict[str, list[Event]]()
    for run, event in order[:count]:
        said.setdefault(run, []).append(event)
    for run, events in said.items():
        journal.append(run, events)
        journal.release(run, waiting=rebuild(events).is_waiting)
    return journal


def call(name: str, **arguments: Any) -> dict[str, Any]:
    return {"name": name, "arguments": arguments}


class World:
    """A boss whose tool is a mailer, whose tool is a person to be asked about. Models say the same however often."""

    def __init__(self, folder: Path, *mails: str) -> None:
        self.ran: Counter[str] = Counter()
        self.folder = folder
        turns = {
            "boss": [{"calls": [call("count"), call("mailer", input="mail them")]}, {"calls": [call("count")]}, "done"],
            "mailer": [
                {"calls": [call("count")]},
                {"calls": [call("send", to=to) for to in mails] or [call("count")]},
                "mailed",
            ],
        }
        for name, said in turns.items():
            (folder / f"{name}.json").write_text(json.dumps(said))

    @property
    def agent(self) -> Agent:
        @tool
        async def count() -> str:
            """Count."""
            self.ran["count"] += 1
            return "counted"

        @tool(approval="ask")
        async def send(to: str) -> str:
            """Send a mail."""
            self.ran[to] += 1
            return f"sent to {to}"

        mailer = Agent(f"script:{self.folder}/mailer.json", tools=[count, send], name="mailer")
        return Agent(f"script:{self.folder}/boss.json", tools=[count, mailer], name="boss")


def results(events: list[Event]) -> dict[str, tuple[str, bool]]:
    return {
        event.result.call_id: (event.result.content, event.result.failed)
        for event in events
        if isinstance(event, ToolFinished)
    }


async def by_run(journal: MemoryJournal, parent: str) -> tuple[list[Event], list[Event]]:
    """The events of a parent and of its child."""
    mine = await journal.read(parent)
    child = next(event.child for event in mine if isinstance(event, ToolStarted) and event.child)
    return mine, await journal.read(child)


async def answered(result: Result, journal: MemoryJournal, world: World, decision: Any = True) -> Result:
    """Everything that it waits for, until it is over."""
    while result.questions:
        answers = {question.id: decision for question in result.questions}
        result = await resume_agent_async(result.run_id, answers, journal=journal, agent=world.agent)
    return result


async def test_a_call_says_which_run_it_is_and_the_run_which_call(tmp_path: Path) -> None:
    world, journal = World(tmp_path), Recording()
    result = await run_agent_async(world.agent, "go", journal=journal)

    mine, childs = await by_run(journal, result.run_id)
    start = childs[0]
    assert isinstance(start, RunStarted)
    assert (start.run, start.call) == (child_id(result.run_id, 0, "call_0_1"), "call_0_1")
    assert start.parent is not None
    assert start.parent[0] == result.run_id
    assert [event.child for event in mine if isinstance(event, ToolStarted)] == ["", start.run, ""]


@pytest.mark.parametrize("mails", [(), ("ada",), ("ada", "eve")], ids=["plain", "one question", "two questions"])
async def test_cut_after_any_event_of_parent_or_child_it_ends_the_same(tmp_path: Path, mails: tuple[str, ...]) -> None:
    world, journal = World(tmp_path, *mails), Recording()
    whole = await answered(await run_agent_async(world.agent, "go", journal=journal), journal, world)
    order, counts = journal.order, 3 if mails else 4
    assert (whole.output, world.ran) == ("done", Counter({"count": counts, **dict.fromkeys(mails, 1)}))
    for cut in range(1, len(order)):
        if isinstance(order[cut - 1][1], RunFinished) and order[cut - 1][0] == whole.run_id:
            continue
        left, world.ran = cut_after(order, cut), Counter()

        result = await resume_agent_async(whole.run_id, journal=left, agent=world.agent)
        result = await answered(result, left, world)

        said = result.output, result.usage, [(one.name, one.failed) for one in result.tool_calls][1:2]
        assert said == ("done", whole.usage, [("mailer", False)]), f"cut after {order[cut - 1]}"
        mine, childs = await by_run(left, whole.run_id)
        for events in (mine, childs):
            assert type(events[-1]) is RunFinished
            ends = [event.result.call_id for event in events if isinstance(event, ToolFinished)]
            assert len(ends) == len(set(ends))  # each call has one result
        # What had started before the cut is not run again: it had finished, or its outcome is unknown.
        started = [(run, one.call_id) for run, one in order[:cut] if isinstance(one, ToolStarted) and not one.child]
        assert world.ran.total() + len(set(started)) == counts + len(mails)
        unknown = [one for run in (mine, childs) for one in results(run).values() if one[0] == OUTCOME_UNKNOWN]
        assert len(unknown) <= 2


async def test_a_child_that_is_found_again_says_so_and_is_no_second_run(tmp_path: Path) -> None:
    world, journal = World(tmp_path), Recording()
    whole = await run_agent_async(world.agent, "go", journal=journal)
    _, childs = await by_run(journal, whole.run_id)
    at = next(n for n, (_, event) in enumerate(journal.order) if event is childs[-3])
    left = cut_after(journal.order, at)

    await resume_agent_async(whole.run_id, journal=left, agent=world.agent)

    _, after = await by_run(left, whole.run_id)
    assert [type(event) for event in after].count(RunStarted) == 1
    assert Recovered in [type(event) for event in after]
    assert len((await left.list_runs(RunQuery(""))).runs) == 2


# ---- what a child asks -----------------------------------------------------------------------------------------------


def waiting(world: World, **options: Any) -> tuple[Result, MemoryJournal]:
    journal = MemoryJournal()
    return run_agent(world.agent, "go", journal=journal, **options), journal


def test_a_parent_waits_with_its_child_and_goes_on_with_the_answer(tmp_path: Path) -> None:
    world = World(tmp_path, "ada")
    result, journal = waiting(world)

    [question] = result.questions
    assert (question.tool, question.values, question.call_id) == ("send", {"to": "ada"}, "call_0_1")
    with pytest.raises(RunWaiting, match="approval of 'send'"):
        _ = result.output
    result = resume_agent(result.run_id, {question.id: True}, journal=journal, agent=world.agent)

    assert (result.output, world.ran["ada"], result.questions) == ("done", 1, [])
    with pytest.raises(AlreadyAnswered):
        resume_agent(result.run_id, {question.id: True}, journal=journal, agent=world.agent)


def test_what_is_decided_reaches_the_child(tmp_path: Path) -> None:
    world = World(tmp_path, "ada", "eve", "bob")
    result, journal = waiting(world)
    ada, eve, bob = result.questions
    wrong = ada.approve({"nobody": 1})
    with pytest.raises(BadRequest, match="do not fit the tool 'send'"):
        resume_agent(result.run_id, {ada.id: wrong}, journal=journal, agent=world.agent)

    answers: Any = {ada.id: ada.approve({"to": "rob"}), eve.id: eve.deny("not her")}
    result = resume_agent(result.run_id, answers, journal=journal, agent=world.agent)
    assert [question.id for question in result.questions] == [bob.id]
    assert world.ran == Counter(count=2, rob=1)
    with pytest.raises(AlreadyAnswered):
        resume_agent(result.run_id, {ada.id: True}, journal=journal, agent=world.agent)

    result = resume_agent(result.run_id, {bob.id: True}, journal=journal, agent=world.agent)
    assert (result.output, world.ran) == ("done", Counter(count=3, rob=1, bob=1))
    _, childs = asyncio.run(by_run(journal, result.run_id))
    assert [said for said, _ in results(childs).values()] == ["counted", "sent to rob", "sent to bob"]


def test_a_yes_that_is_remembered_holds_for_the_childs_other_calls(tmp_path: Path) -> None:
    world = World(tmp_path, "ada", "eve")
    result, journal = waiting(world)
    ada = result.questions[0]

    result = resume_agent(result.run_id, {ada.id: ada.approve(remember=True)}, journal=journal, agent=world.agent)

    assert (result.output, world.ran["ada"], world.ran["eve"]) == ("done", 1, 1)


def test_a_childs_question_that_nobody_answers_in_time_is_a_no(tmp_path: Path) -> None:
    world = World(tmp_path, "ada")
    result, _ = waiting(world, approval_timeout=0)
    assert (result.output, world.ran["ada"]) == ("done", 0)


def test_the_callback_is_asked_about_what_a_child_waits_for(tmp_path: Path) -> None:
    world, asked = World(tmp_path, "ada"), list[str]()
    result, journal = waiting(world)

    def approve(question: Asked) -> bool:
        asked.append(question.tool)
        return True

    result = resume_agent(result.run_id, journal=journal, agent=world.agent, approve=approve)
    assert (result.output, asked, world.ran["ada"]) == ("done", ["send"], 1)


def test_a_grandchilds_question_is_the_first_runs(tmp_path: Path) -> None:
    world = World(tmp_path, "ada")
    (tmp_path / "chief.json").write_text(json.dumps([{"calls": [call("boss", input="go")]}, "all done"]))

    def chief() -> Agent:
        return Agent(f"script:{tmp_path}/chief.json", tools=[world.agent], name="chief")

    journal = SqliteJournal(tmp_path / "runs.db")
    result = run_agent(chief(), "go", journal=journal)
    [question] = result.questions
    assert question.tool == "send"
    asyncio.run(journal.close())

    journal = SqliteJournal(tmp_path / "runs.db")
    result = resume_agent(result.run_id, {question.id: True}, journal=journal, agent=chief())
    asyncio.run(journal.close())
    assert (result.output, world.ran) == ("all done", Counter(count=3, ada=1))


def test_a_run_of_files_goes_on_with_the_childs_answer_and_needs_no_file(tmp_path: Path) -> None:
    sent: list[str] = []

    @tool(approval="ask")
    def send(to: str) -> str:
        """Send a mail."""
        sent.append(to)
        return "sent"

    declared = "tools: [{name: send, kind: function, parameters: {to: string}}]"
    (tmp_path / "c.json").write_text(json.dumps([{"calls": [call("send", to="ada")]}, "mailed"]))
    (tmp_path / "c.prompty").write_text(f"---\nmodel: {{id: c.json, provider: script}}\n{declared}\n---\nuser:\nMail.")
    (tmp_path / "p.json").write_text(json.dumps([{"calls": [call("ask")]}, "done"]))
    tools = "tools: [{name: ask, kind: prompty, path: c.prompty, mode: agentic}]"
    (tmp_path / "p.prompty").write_text(f"---\nmodel: {{id: p.json, provider: script}}\n{tools}\n---\nuser:\nGo.")
    journal = MemoryJournal()
    result = run_agent(tmp_path / "p.prompty", {}, {"send": send}, journal=journal)
    (tmp_path / "c.prompty").unlink()
    (tmp_path / "p.prompty").unlink()

    answers = {result.questions[0].id: True}
    result = resume_agent(result.run_id, answers, journal=journal, tools={"send": send})
    assert (result.output, sent) == ("done", ["ada"])


def test_the_time_that_a_child_waits_counts_for_neither(tmp_path: Path) -> None:
    world = World(tmp_path, "ada")
    result, journal = waiting(world, max_seconds=100)
    for events in asyncio.run(by_run(journal, result.run_id)):
        start = events[0]
        assert isinstance(start, RunStarted)
        assert start.plan.limits.seconds is not None
        assert start.plan.limits.seconds <= 100
        run = rebuild(events)
        assert run.is_waiting
        before = run.driven
        last: Fact = Recovered(at=start.at + 10_000)
        run.apply(last)
        assert run.driven == before
