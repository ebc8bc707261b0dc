"""Our own client reads what our server writes: through the wire for anything a model may say, and over HTTP."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.driving import drive
from tests.interaction.doors import Door, soon
from tests.server.mistral_doors import serving

from ronda import Agent, invoke_agent_async, stream_agent, tool
from ronda.core.events import Event, ModelFinished, RunStarted
from ronda.core.parts import AssistantTurn, Reasoning, Text, ToolCall, Usage, user
from ronda.core.plan import Plan, ToolSpec
from ronda.core.run import Run, rebuild
from ronda.testing import Call, Line, ScriptedModel, calls, says
from ronda.wire.mistral.client_answer import Reader, read_plain
from ronda.wire.mistral.conversation_answer import ConversationAnswer
from ronda.wire.mistral.server_answer import CompletionAnswer

TEXTS = st.text(min_size=1, max_size=12).filter(lambda text: text.isprintable())
CALLS = st.lists(
    st.builds(
        lambda name, value: Call(name, {"a": value}), st.sampled_from(["f", "g"]), st.integers() | st.text(max_size=4)
    ),
    max_size=3,
).map(tuple)
LINES = st.builds(
    Line,
    text=TEXTS | st.just(""),
    reasoning=TEXTS | st.just(""),
    calls=CALLS,
    usage=st.builds(Usage, st.integers(0, 99), st.integers(0, 99), st.integers(0, 9), st.integers(0, 9)),
)
TOOLS = tuple([ToolSpec(name, kind="caller") for name in ("f", "g")])


def log_of(line: Line, stream: bool, **about: Any) -> list[Event]:
    """What a run says whose model says this."""
    start = RunStarted("run_" + "ab" * 12, Plan("script:x", TOOLS, stream=stream), (user("hi"),), 1.0, about=about)
    log: list[Event] = [start]
    asyncio.run(
        drive(Run(start), provider=ScriptedModel(line), tools={}, emit=log.extend, now=lambda: 2.0, jitter=lambda: 0.0)
    )
    return log


def written(log: Sequence[Event], stream: bool) -> bytes:
    """The answer, written again from the log."""
    facts = [event for event in log if type(event).__name__.endswith("Delta") is False]
    run = rebuild(facts)
    answer = CompletionAnswer([run])
    if stream:
        return b"".join(answer.feed(0, [event]) for event in log[1:])
    answer.fold(0, log[1:])
    return answer.body()


def expected(line: Line) -> ModelFinished:
    parts: list[Any] = [Reasoning(line.reasoning)] if line.reasoning else []
    parts += [Text(line.text)] if line.text else []
    log = log_of(line, stream=False)
    [finished] = [event for event in log if isinstance(event, ModelFinished)]
    made = finished.turn.calls
    return ModelFinished(AssistantTurn((*parts, *made), "tool_calls" if made else "stop"), line.usage)


def heard(finished: ModelFinished) -> tuple[Any, ...]:
    turn = finished.turn
    return turn.parts, turn.stop, finished.usage


@given(line=LINES, cut=st.integers(1, 40))
def test_what_a_model_said_is_read_as_it_was_said(line: Line, cut: int) -> None:
    plain = read_plain(written(log_of(line, stream=False), stream=False))
    data = written(log_of(line, stream=True), stream=True)
    reader = Reader()
    for at in range(0, len(data), cut):
        reader.feed(data[at : at + cut])

    assert heard(plain) == heard(reader.finish()) == heard(expected(line))


@given(line=LINES)
def test_a_stream_written_again_from_the_log_is_the_same(line: Line) -> None:
    log = log_of(line, stream=True)

    assert written(log, stream=True) == written(log, stream=True)


@given(line=LINES)
def test_a_conversations_stream_is_written_again_as_it_was(line: Line) -> None:
    from msgspec import Raw

    about = {"conversation": Raw(b'"conv_1"'), "inputs": Raw(b"[]"), "model": Raw(b'"x"')}
    log = log_of(line, stream=True, **about)
    facts = [event for event in log if not type(event).__name__.endswith("Delta")]

    def write() -> bytes:
        answer = ConversationAnswer([rebuild(facts)])
        return b"".join(answer.feed(0, [event]) for event in log[1:])

    assert write() == write()


# ---- over HTTP ----------------------------------------------------------------------------------------------------------


@tool
async def lookup(q: str) -> str:
    """Look something up."""
    return f"found {q}"


@tool
async def weather(city: str) -> str:
    """The weather of a city."""
    return f"hot in {city}"


async def test_a_provider_of_ours_talks_to_an_agent_of_ours(door: Door, stream: bool) -> None:
    """The one behind runs `lookup`, the one in front `weather`: each its own, in one conversation."""
    model = ScriptedModel(
        calls("lookup", q="x", text="Let me look."), calls("weather", city="Rome"), Line(text="Hot.", reasoning="so")
    )
    async with serving(door, model, lookup) as behind:
        status, made = await behind.ask(
            "POST", "/v1/agents", {"model": "default", "name": "A", "instructions": "Be brief"}
        )
        assert status == 200
        agent = Agent(f"mistral-agent:{made['id']}", base_url=door.url, api_key="test", tools=[weather])
        async with soon():
            if stream:
                async with stream_agent(agent, "hi") as events:
                    log = [event async for event in events]
                    answer = events.result
            else:
                log = []
                answer = await invoke_agent_async(agent, "hi", on_event=log.append)

    assert answer == "Hot."
    turns = [event.turn for event in log if isinstance(event, ModelFinished)]
    [asked] = turns[0].calls
    assert (turns[0].text, asked.name) == ("Let me look.\n\n", "weather")
    assert turns[1].reasoning == "so"
    assert type(asked) is ToolCall
    roles = [type(turn).__name__ for turn in model.heard[2]]
    assert roles == ["SystemTurn", "UserTurn", "AssistantTurn", "ToolTurn", "AssistantTurn", "ToolTurn"]


@pytest.mark.parametrize("agent_id", ["default", "test"])
async def test_a_model_of_the_server_is_an_agent_that_brings_nothing(door: Door, agent_id: str) -> None:
    async with serving(door, ScriptedModel(says("fine"))):
        agent = Agent(f"mistral-agent:{agent_id}", base_url=door.url, api_key="test")
        async with soon():
            assert await invoke_agent_async(agent, "hi") == "fine"
