"""What a tool gives and gets: progress, details and files; who it runs for, until when, and a person to ask."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec import Raw
from tests.timeouts import soon

from ronda import Agent, Asked, ToolContext, ToolOutput, invoke_agent, run_agent, stream_agent, tool
from ronda.core.events import Event, ModelFinished, ModelStarted, RunStarted, ToolFinished, ToolProgressed, ToolStarted
from ronda.core.parts import AssistantTurn, File, Text, ToolCall, ToolResult, UserTurn
from ronda.core.plan import Plan, ToolSpec
from ronda.core.run import Run
from ronda.drive.tools import PROGRESS_BYTES
from ronda.journal.memory import MemoryJournal
from ronda.testing import ScriptedModel, calls, says
from ronda.wire.shared.showing import Showing


async def seen(agent: Agent, inputs: Any = "go", **options: Any) -> list[Event]:
    found: list[Event] = []
    async with soon(), stream_agent(agent, inputs, **options) as events:
        async for event in events:
            found.append(event)  # noqa: PERF401  # the iterator is asynchronous
    return found


def agent_with(function: Any, *more: Any) -> Agent:
    tools = [function, *more]
    name = getattr(function, "__name__", "tool")
    return Agent(ScriptedModel(calls(name), says("done")), tools=tools)


def progress(events: Sequence[Event]) -> list[str]:
    return [event.text for event in events if type(event) is ToolProgressed]


def finished(events: Sequence[Event]) -> ToolFinished:
    return next(event for event in events if type(event) is ToolFinished)


# ---- progress --------------------------------------------------------------------------------------------------------


async def test_a_generator_shows_what_it_yields_and_its_last_word_is_the_result() -> None:
    @tool
    async def build() -> AsyncIterator[str]:
        """Build it."""
        yield "compiling"
        yield "linking"
        yield "built"

    events = await seen(agent_with(build))

    assert progress(events) == ["compiling", "linking", "built"]
    assert finished(events).result.content == "built"
    kinds = [type(event) for event in events if type(event) in (ToolStarted, ToolProgressed, ToolFinished)]
    assert kinds == [ToolStarted, ToolProgressed, ToolProgressed, ToolProgressed, ToolFinished]


async def test_a_generator_may_end_with_an_output_of_its_own() -> None:
    async def build() -> AsyncIterator[Any]:
        """Build it."""
        yield {"step": 1}
        yield ToolOutput("built", failed=True, details={"tool_type": "shell", "exit_code": 1})

    events = await seen(agent_with(build))

    assert progress(events) == ['{"step":1}']
    assert (finished(events).result.content, finished(events).result.failed) == ("built", True)


async def test_a_generator_that_is_given_up_is_closed() -> None:
    closed = asyncio.Event()

    @tool(timeout=0.01)
    async def build() -> AsyncIterator[str]:
        """Build it."""
        try:
            yield "compiling"
            await asyncio.Event().wait()
        finally:
            closed.set()

    events = await seen(agent_with(build))

    assert "timed out after 0.01 seconds" in finished(events).result.content
    assert closed.is_set()


async def test_a_plain_function_shows_progress_from_its_thread() -> None:
    def build(context: ToolContext) -> str:
        """Build it."""
        context.progress("compiling")
        return "built"

    assert progress(await seen(agent_with(build))) == ["compiling"]


async def test_progress_that_comes_too_late_is_not_shown() -> None:
    left, shown = threading.Event(), threading.Event()

    def build(context: ToolContext) -> str:
        """Build it."""

        def late() -> None:
            left.wait()
            context.progress("still here")
            shown.set()

        threading.Thread(target=late).start()
        return "built"

    events: list[Event] = []
    async with soon(), stream_agent(agent_with(build), "go") as stream:
        async for event in stream:
            events.append(event)
            if type(event) is ToolFinished:
                left.set()
                await asyncio.to_thread(shown.wait)
    assert progress(events) == []


async def test_of_one_call_so_much_progress_is_shown_and_no_more() -> None:
    def build(context: ToolContext) -> str:
        """Build it."""
        for _ in range(10):
            context.progress("é" * (PROGRESS_BYTES // 8))
        return "built"

    texts = progress(await seen(agent_with(build)))

    assert len("".join(texts).encode()) <= PROGRESS_BYTES + 100
    assert texts[-1].endswith("\n… (no more of it is shown)")
    assert len(texts) == 5


def test_a_run_that_nobody_watches_has_no_progress_and_the_same_facts() -> None:
    async def build() -> AsyncIterator[str]:
        """Build it."""
        yield "compiling"
        yield "built"

    journal = MemoryJournal()
    result = run_agent(agent_with(build), "go", journal=journal)
    assert result.output == "done"
    kept = asyncio.run(journal.read(result.run_id))
    assert progress(kept) == []


def test_progress_is_text() -> None:
    def build(context: ToolContext) -> str:
        """Build it."""
        context.progress(50)  # type: ignore[arg-type]  # that is the point
        return "built"

    result = run_agent(agent_with(build), "go")
    assert "progress is a text, not int" in str(result.tool_calls[0].content)


# ---- details and files -----------------------------------------------------------------------------------------------


async def test_details_and_files_are_in_the_event_and_in_the_journal() -> None:
    def build() -> ToolOutput:
        """Build it."""
        details = {"tool_type": "shell", "exit_code": 0, "where": Path("a") / "b"}
        return ToolOutput("built", details=details, files=(File(name="a.out", id="file_1"),))

    journal = MemoryJournal()
    events = await seen(agent_with(build), journal=journal)

    done = finished(events)
    assert msgspec.json.decode(done.details) == {"tool_type": "shell", "exit_code": 0, "where": "a/b"}
    assert done.files == (File(name="a.out", id="file_1"),)
    assert finished(await journal.read(events[0].run)) == done  # type: ignore[union-attr]  # it is RunStarted


async def test_details_that_cannot_be_written_do_not_undo_the_call() -> None:
    def build() -> ToolOutput:
        """Build it."""
        return ToolOutput("built", details={"a": "\ud800"})

    done = finished(await seen(agent_with(build)))
    assert (done.result.content, done.result.failed, bytes(done.details)) == ("built", False, b"null")


# ---- the context -----------------------------------------------------------------------------------------------------


def test_a_tool_knows_for_whom_until_when_and_where_it_runs(tmp_path: Path) -> None:
    contexts: list[ToolContext] = []

    @tool(timeout=600)
    def look(context: ToolContext) -> str:
        """Look."""
        contexts.append(context)
        return "fine"

    given = File("data:text/plain;base64,aGk=", "a.txt")
    before = time.time()
    run_agent(
        agent_with(look),
        [UserTurn((Text("go"), given))],
        owner="ada",
        workspace=tmp_path,
        max_seconds=60,
    )

    (context,) = contexts
    assert (context.owner, context.workspace, context.files) == ("ada", str(tmp_path), (given,))
    assert context.deadline is not None
    assert before < context.deadline <= time.time() + 60


@pytest.mark.parametrize("beside", [False, True])
def test_a_tool_asks_a_person_what_it_needs_to_know(beside: bool) -> None:
    asked: list[Asked] = []
    schema = {"type": "object", "properties": {"account": {"type": "string"}}, "required": ["account"]}

    async def pay(context: ToolContext) -> str:
        """Pay."""
        answer = await context.ask("Which account?", schema)
        return f"paid from {answer}"

    async def look() -> str:
        """Look."""
        return "fine"

    def approve(question: Asked) -> dict[str, Any]:
        asked.append(question)
        return {"account": "savings"}

    model = ScriptedModel(calls("pay", *(["look"] if beside else [])), says("done"))
    result = run_agent(Agent(model, tools=[pay, look]), "go", approve=approve)

    assert result.tool_calls[0].content == "paid from {'account': 'savings'}"
    (question,) = asked
    assert (question.kind, question.tool, question.message) == ("input", "pay", "Which account?")
    assert msgspec.json.decode(question.schema) == schema


@pytest.mark.parametrize("said", [False, {"account": 7}, None])
def test_what_is_no_answer_for_a_tool_is_a_no(said: Any) -> None:
    async def pay(context: ToolContext) -> str:
        """Pay."""
        schema = {"type": "object", "properties": {"account": {"type": "string"}}}
        return f"answered {await context.ask('Which account?', schema)}"

    result = run_agent(agent_with(pay), "go", approve=lambda question: said)
    assert result.tool_calls[0].content == "answered None"


def test_a_question_whose_schema_is_none_is_the_tools_mistake() -> None:
    async def pay(context: ToolContext) -> str:
        """Pay."""
        return f"answered {await context.ask('Which account?', {'type': 'nonsense'})}"

    result = run_agent(agent_with(pay), "go", approve=lambda question: True)
    assert "the schema of the question is none" in str(result.tool_calls[0].content)


def test_a_tool_is_told_when_nobody_answers_in_time() -> None:
    async def never(question: Asked) -> bool:
        await asyncio.Event().wait()
        return True

    async def pay(context: ToolContext) -> str:
        """Pay."""
        return f"answered {await context.ask('Which account?')}"

    result = run_agent(agent_with(pay), "go", approve=never, approval_timeout=0.01)
    assert result.tool_calls[0].content == "answered None"


def test_a_tool_is_told_when_there_is_nobody_to_ask() -> None:
    async def pay(context: ToolContext) -> str:
        """Pay."""
        return f"answered {await context.ask('Which account?')}"

    result = run_agent(agent_with(pay), "go")
    assert result.tool_calls[0].content == "Error: Tool 'pay' failed: there is no person to ask"
    assert invoke_agent(agent_with(pay), "go") == "done"


async def test_a_context_without_a_run_shows_nothing_and_asks_nobody() -> None:
    context = ToolContext("run", "", 0, "call")
    context.progress("compiling")
    assert (context.files, context.workspace, context.deadline, context.owner) == ((), None, None, "")
    with pytest.raises(Exception, match="there is no person to ask"):
        await context.ask("Which account?")


# ---- over HTTP -------------------------------------------------------------------------------------------------------


def shown_of(details: dict[str, Any] | None) -> tuple[dict[str, Any], dict[str, Any]]:
    """What any dialect says when the tool is done, and the record of it."""
    call = ToolCall("c1", "build", "{}")
    showing = Showing(Run(RunStarted("run_1", Plan("m", (ToolSpec("build"),)), ())))
    showing.take(ModelStarted(0))
    showing.take(ModelFinished(AssistantTurn((call,), "tool_calls")))
    result = ToolResult("c1", "built")
    raw = Raw(msgspec.json.encode(details))
    showing.take(ToolFinished(result, details=raw, files=(File(id="file_1"), File(name="no id"))))
    data = msgspec.json.decode(msgspec.json.encode(showing.tools.progress("c1", result)["data"]))
    (record,) = msgspec.json.decode(msgspec.json.encode(showing.tools.records))
    return data, record


def test_a_new_kind_of_tool_says_what_is_told_of_it() -> None:
    details = {"tool_type": "shell", "commands": ["make"], "exit_code": 0}
    data, record = shown_of(details)
    assert data == details
    assert (record["data"], record["file_ids"], record["result_content"]) == (details, ["file_1"], "built")


def test_a_tool_that_says_nothing_of_itself_is_told_of_as_before() -> None:
    data, record = shown_of(None)
    assert data == {"tool_type": "custom", "arguments": "{}", "input": {}, "content": "built"}
    assert "data" not in record


def test_a_tool_without_a_kind_adds_to_what_is_told_of_it() -> None:
    data, _ = shown_of({"seconds": 3})
    assert data == {"tool_type": "custom", "arguments": "{}", "input": {}, "content": "built", "seconds": 3}
