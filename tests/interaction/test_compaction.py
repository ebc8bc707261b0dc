"""A conversation that outgrows its budget is summed up: the model is shown less, the run keeps everything."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from ronda import Agent, clear_connections, invoke_agent, invoke_agent_async, register_connection
from ronda.core.context import SUMMARY
from ronda.core.events import Compacted, Event, ModelStarted, Warned
from ronda.core.parts import AssistantTurn, Image, Native, SystemTurn, Text, ToolTurn, Turn, UserTurn, user
from ronda.core.run import rebuild
from ronda.errors import BadRequest
from ronda.journal.memory import MemoryJournal
from ronda.testing import Call, ScriptedModel, calls, says

LONG = "a long story that goes on and on, " * 8
HISTORY: list[Turn] = [
    SystemTurn("Be brief."),
    SystemTurn("Be formal."),
    user(f"First question. {LONG}"),
    AssistantTurn((Text(f"First answer. {LONG}"),)),
    user("And now?"),
]


def compactions(events: Sequence[Event]) -> list[Compacted]:
    return [event for event in events if type(event) is Compacted]


def test_a_conversation_that_fits_is_left_alone() -> None:
    events: list[Event] = []
    model = ScriptedModel("ok")
    assert invoke_agent(Agent(model), HISTORY, context_budget=10_000, on_event=events.append) == "ok"
    assert model.heard == [HISTORY]
    assert compactions(events) == []


def test_instructions_and_the_last_question_stay() -> None:
    events: list[Event] = []
    model = ScriptedModel("ok")

    assert invoke_agent(Agent(model), HISTORY, context_budget=300, on_event=events.append) == "ok"

    (shown,) = model.heard
    assert [shown[0], shown[1], shown[3]] == [*HISTORY[:2], HISTORY[4]]
    summary = shown[2]
    assert isinstance(summary, SystemTurn)
    said = summary.text.removeprefix(SUMMARY).split("\n")
    assert [line[:22] for line in said] == ["User asked: First ques", "Assistant: First answe"]
    assert max(map(len, said)) <= 213  # each cut to two hundred characters and its label
    run = rebuild(events)
    assert run.turns[:5] == HISTORY
    assert run.shown[:-1] == shown


def test_a_function_may_write_the_summary() -> None:
    given: list[Turn] = []

    def sum_up(turns: Sequence[Turn]) -> str:
        given.extend(turns)
        return "  They spoke of stories.  "

    model = ScriptedModel("ok")
    invoke_agent(Agent(model), HISTORY, context_budget=300, compaction=sum_up)
    assert given == HISTORY[2:4]
    assert model.heard[0][2] == SystemTurn(SUMMARY + "They spoke of stories.")


async def test_an_async_function_or_an_agent_may_write_it() -> None:
    async def sum_up(turns: Sequence[Turn]) -> str:
        return f"{len(turns)} turns"

    writer = ScriptedModel("The agent's summary.")
    for compaction, said in ((sum_up, "2 turns"), (Agent(writer, instructions="Sum up."), "The agent's summary.")):
        model = ScriptedModel("ok")
        await invoke_agent_async(Agent(model), HISTORY, context_budget=300, compaction=compaction)
        assert model.heard[0][2] == SystemTurn(SUMMARY + said)
    asked = writer.heard[0][1]
    assert isinstance(asked, UserTurn)
    assert asked.parts[0] == Text(f"[user]: First question. {LONG.strip()}\n[assistant]: First answer. {LONG.strip()}")


async def test_a_prompty_file_may_write_it(tmp_path: Path) -> None:
    writer = ScriptedModel("The file's summary.")
    register_connection("writer", writer)
    front = "model: {id: m, provider: openai, connection: {kind: reference, name: writer}}"
    file = tmp_path / "sum.prompty"
    file.write_text(
        f"---\nname: sum\n{front}\ninputs: {{conversation: {{kind: string}}}}\n---\nSum up: {{{{conversation}}}}"
    )
    model = ScriptedModel("ok")
    try:
        await invoke_agent_async(Agent(model), HISTORY, context_budget=300, compaction=file)
    finally:
        clear_connections()
    assert model.heard[0][2] == SystemTurn(SUMMARY + "The file's summary.")
    assert "First question." in str(writer.heard[0])


@pytest.mark.parametrize("writes", [lambda turns: 1 / 0, lambda turns: "  ", lambda turns: None])
def test_a_summary_that_fails_is_replaced_by_an_excerpt(writes: Any) -> None:
    events: list[Event] = []
    model = ScriptedModel("ok")
    answer = invoke_agent(Agent(model), HISTORY, context_budget=300, compaction=writes, on_event=events.append)
    assert answer == "ok"
    (compacted,) = compactions(events)
    assert compacted.failure is not None
    assert compacted.summary.startswith("User asked: First question.")
    assert any(type(event) is Warned and compacted.failure in event.message for event in events)


def look(n: int) -> str:
    return f"result {n}: {LONG}"


def test_a_long_tool_loop_keeps_the_question_and_its_last_round() -> None:
    lines = [calls(Call("look", {"n": n}, f"c{n}")) for n in range(6)]
    model = ScriptedModel(*lines, says("done"))
    events: list[Event] = []

    answer = invoke_agent(
        Agent(model, tools=[look], instructions="Look."), "the question", context_budget=900, on_event=events.append
    )

    assert answer == "done"
    for heard in model.heard:
        assert heard[0] == SystemTurn("Look.")
        assert user("the question") in heard
        for turn, after in itertools.pairwise(heard):
            if isinstance(turn, AssistantTurn) and turn.calls:
                assert isinstance(after, ToolTurn)
                assert [result.call_id for result in after.results] == [call.id for call in turn.calls]
    last = model.heard[-1]
    assert [type(turn) for turn in last[:2]] == [SystemTurn, SystemTurn]
    assert isinstance(last[1], SystemTurn)
    assert last[1].text.count(SUMMARY) == 1  # what was summed up before is part of the new summary
    assert "Called tools: look" in last[1].text
    assert len(compactions(events)) > 1
    run = rebuild(events)
    assert sum(isinstance(turn, ToolTurn) for turn in run.turns) == 6


def test_a_providers_own_turn_goes_whole_or_stays_whole() -> None:
    from msgspec import Raw

    native = Native("openai", Raw(b'[{"type":"reasoning"},{"type":"function_call"}]'))
    turns: list[Turn] = [
        user("old"),
        AssistantTurn((Text(LONG),), native=native),
        user("new"),
        AssistantTurn((Text("kept"),), native=native),
        user("newest"),
    ]
    model = ScriptedModel("ok")
    invoke_agent(Agent(model), turns, context_budget=150)
    assert model.heard[0][1:] == turns[2:]


def test_media_never_gets_into_a_summary() -> None:
    picture = Image("data:image/png;base64," + "A" * 5000)
    turns: list[Turn] = [
        UserTurn((Text("see this"), picture)),
        AssistantTurn((Text(LONG),)),
        user("next"),
    ]
    model = ScriptedModel("ok")
    invoke_agent(Agent(model), turns, context_budget=300)
    summary = model.heard[0][0]
    assert isinstance(summary, SystemTurn)
    assert "see this" in summary.text
    assert "AAAA" not in summary.text


def test_what_a_provider_kept_of_the_old_conversation_is_dropped() -> None:
    kept: list[bool] = []

    class Keeps(ScriptedModel):
        async def call(self, request: Any, show: Any) -> Any:
            kept.append("written" in request.scratch)
            request.scratch["written"] = True
            return await super().call(request, show)

    model = Keeps(*[calls(Call("look", {"n": n})) for n in range(3)], says("done"))
    invoke_agent(Agent(model, tools=[look]), "go", context_budget=800)
    assert kept == [False, True, False, False]


def test_what_cannot_be_cut_is_sent_as_it_is() -> None:
    model = ScriptedModel("ok")
    assert invoke_agent(Agent(model), LONG, context_budget=10) == "ok"
    assert model.heard == [[user(LONG)]]


async def test_the_journal_keeps_what_the_model_is_not_shown() -> None:
    journal = MemoryJournal()
    events: list[Event] = []
    model = ScriptedModel("ok")
    await invoke_agent_async(Agent(model), HISTORY, context_budget=300, journal=journal, on_event=events.append)
    run = rebuild(await journal.read(events[0].run))  # type: ignore[union-attr]  # a run starts with RunStarted
    assert run.turns[:5] == HISTORY
    assert run.shown[:-1] == model.heard[0]
    assert [type(event) for event in events[1:4]] == [Compacted, Warned, ModelStarted]


def test_a_budget_counts_from_one() -> None:
    with pytest.raises(BadRequest, match="context_budget is 0"):
        invoke_agent(Agent(ScriptedModel("x")), "go", context_budget=0)
