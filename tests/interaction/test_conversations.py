"""`agent.run`, typed answers, and a `Conversation`: the manners of the library."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypedDict

import msgspec
import pydantic
import pytest
from tests.timeouts import TIMEOUT

from ronda import Agent, Conversation, run_agent
from ronda.core.parts import SystemTurn, UserTurn
from ronda.errors import BadRequest, RunEnded
from ronda.testing import ScriptedModel, calls, fails, says


@dataclass
class DataCity:
    name: str
    people: int


class DictCity(TypedDict):
    name: str
    people: int


class StructCity(msgspec.Struct):
    name: str
    people: int


class ModelCity(pydantic.BaseModel):
    name: str
    people: int


LISBON = '{"name": "Lisbon", "people": 567131}'


@pytest.mark.parametrize("kind", [DataCity, DictCity, StructCity, ModelCity])
async def test_an_answer_is_an_instance_of_what_was_asked_for(kind: Any) -> None:
    agent = Agent(ScriptedModel(says(LISBON), says(LISBON)), output=kind)
    expected = kind(name="Lisbon", people=567131)
    assert (await agent.run_async("A city?")).output == expected
    assert agent.run("A city?").output == expected


def test_the_type_checker_knows_the_answer(tmp_path: Path) -> None:
    file = tmp_path / "typed.py"
    file.write_text(
        "from dataclasses import dataclass\n"
        "from ronda import Agent, Conversation, run_agent, stream_agent\n\n\n"
        "@dataclass\nclass City:\n    name: str\n\n\n"
        "agent = Agent('openai:x', output=City)\n"
        "reveal_type(run_agent(agent, 'x').output)\n"
        "reveal_type(agent.run('x').output)\n"
        "reveal_type(Conversation(agent).ask('x').output)\n"
        "reveal_type(Agent('openai:x', output=list[City]).run('x').output)\n"
        "reveal_type(Agent('openai:x').run('x').output)\n"
        "reveal_type(run_agent('a.prompty', {'x': 1}).output)\n"
        "\n\nasync def main() -> None:\n"
        "    reveal_type((await agent.run_async('x')).output)\n"
        "    async with agent.stream('x') as events, stream_agent(agent, 'x') as more:\n"
        "        reveal_type(events.result)\n"
        "        reveal_type(more.result)\n"
    )
    command = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(tmp_path / "cache"), str(file)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT, check=False, cwd=tmp_path)
    shown = [
        line.partition('Revealed type is "')[2].rstrip('"') for line in done.stdout.splitlines() if "Revealed" in line
    ]
    city = "typed.City"
    assert shown == [city, city, city, "list[typed.City]", "Any", "Any", city, city, city], done.stdout


async def test_an_agent_streams_itself() -> None:
    async with Agent(ScriptedModel(says("Hi."))).stream("Hello") as events:
        assert [event async for event in events]
        assert events.result == "Hi."


def look_up(city: str) -> str:
    """Look the weather up."""
    return "22 degrees"


def test_each_question_knows_what_was_said_before() -> None:
    model = ScriptedModel(calls("look_up", city="Paris"), says("22 degrees."), says("Warmer."))
    conversation = Conversation(Agent(model, instructions="Be brief.", tools=[look_up]))

    assert conversation.ask("How is Paris?").output == "22 degrees."
    assert conversation.ask("And compared?").output == "Warmer."

    assert [type(turn).__name__ for turn in model.heard[-1]] == [
        "SystemTurn", "UserTurn", "AssistantTurn", "ToolTurn", "AssistantTurn", "UserTurn",
    ]  # fmt: skip
    assert len([turn for turn in conversation.messages if type(turn) is SystemTurn]) == 1
    assert conversation.usage.input > 0


def test_a_question_that_fails_leaves_the_conversation_as_it_was() -> None:
    agent = Agent(ScriptedModel(says("One."), fails("no", status=400), says("Two.")))
    conversation = Conversation(agent)
    conversation.ask("First?")
    before = conversation.messages

    with pytest.raises(RunEnded):
        conversation.ask("Second?")
    assert conversation.messages == before

    conversation.ask("Third?")
    asked = [turn for turn in conversation.messages if type(turn) is UserTurn]
    assert len(asked) == 2


async def test_two_questions_at_a_time_are_refused() -> None:
    started, go_on = asyncio.Event(), asyncio.Event()

    async def wait() -> str:
        """Wait."""
        started.set()
        await go_on.wait()
        return "done"

    conversation = Conversation(Agent(ScriptedModel(calls("wait"), says("One.")), tools=[wait]))
    first = asyncio.create_task(conversation.ask_async("First?"))
    await asyncio.wait_for(started.wait(), TIMEOUT)
    with pytest.raises(RuntimeError, match="waits for an answer"):
        await conversation.ask_async("Second?")
    go_on.set()
    assert (await first).output == "One."


def test_a_conversation_is_saved_and_goes_on() -> None:
    agent = Agent(ScriptedModel(says("One."), says("Two.")), instructions="Be brief.")
    conversation = Conversation(agent)
    conversation.ask("First?")

    later = Conversation.load(agent, conversation.dump())
    assert later.messages == conversation.messages
    assert later.ask("Second?").output == "Two."
    assert later.messages[: len(conversation.messages)] == conversation.messages


@pytest.mark.parametrize("data", [b"", b"{", b"3", b'[{"type": "nothing"}]'])
def test_what_is_no_conversation_is_refused(data: bytes) -> None:
    with pytest.raises(BadRequest):
        Conversation.load(Agent(ScriptedModel(says("One."))), data)


def test_a_history_is_given_once() -> None:
    agent = Agent(ScriptedModel(says("One.")))
    first = run_agent(agent, "First?")
    with pytest.raises(BadRequest, match="history of its own"):
        Conversation(agent).ask("Second?", history=first.messages)
