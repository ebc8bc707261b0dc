"""Runs that are recorded, played again without a model, and left for another way: through the library."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from ronda import Agent, invoke_agent, tool
from ronda.agent.cassettes.cassette import BadCassette
from ronda.agent.invoke import invoke_agent_async, run_agent_async
from ronda.core.events import RunFinished
from ronda.core.limits import Retry
from ronda.errors import RondaError
from ronda.testing import Difference, ScriptedModel, calls, fails, replay, replay_async, says


@tool
async def weather(city: str) -> str:
    """How the weather is.

    Args:
        city: Where.
    """
    return f"sunny in {city}"


def agent_of(*lines: Any, instructions: str = "Be brief.", tools: Any = (weather,)) -> Agent:
    return Agent(ScriptedModel(*lines), instructions=instructions, tools=list(tools))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "run.jsonl"


def lines_of(path: Path) -> list[Any]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def rewrite(path: Path, **changes: Any) -> None:
    """Put other values in the place of some texts of the record."""
    text = path.read_text()
    for old, new in changes.items():
        assert old in text
        text = text.replace(old, new)
    path.write_text(text)


def test_a_run_that_was_recorded_goes_the_same_way_again(path: Path) -> None:
    agent = agent_of(calls("weather", city="Rome"), says("Sunny."))
    answer = invoke_agent(agent, "How is Rome?", record=path)
    played = replay(path)

    assert answer == "Sunny."
    assert (played.calls, played.broken_off) == (2, None)
    assert played.run.turns[-1].text == "Sunny."  # type: ignore[union-attr]
    assert [line["line"] for line in lines_of(path)][:2] == ["header", "request"]


def test_an_agent_that_is_the_same_today_plays_its_cassette(path: Path) -> None:
    invoke_agent(agent_of(calls("weather", city="Rome"), says("Sunny.")), "How is Rome?", record=path)

    assert replay(path, agent_of()).calls == 2


@pytest.mark.parametrize(
    ("changed", "path_of_change"),
    [
        (agent_of(instructions="Be verbose."), "$[0].text"),
        (agent_of(tools=()), "$[0]"),
    ],
    ids=["instructions", "tools"],
)
def test_an_agent_that_has_changed_is_told_where(path: Path, changed: Agent, path_of_change: str) -> None:
    invoke_agent(agent_of(calls("weather", city="Rome"), says("Sunny.")), "How is Rome?", record=path)

    with pytest.raises(Difference) as caught:
        replay(path, changed)
    assert caught.value.path == path_of_change


def test_another_question_is_a_difference(path: Path) -> None:
    invoke_agent(agent_of(says("Sunny.")), "How is Rome?", record=path)

    with pytest.raises(Difference, match=r'recorded "How is Rome\?", now "How is Oslo\?"'):
        replay(path, agent_of(), "How is Oslo?")


def test_the_first_difference_ends_a_replay_with_its_path(path: Path) -> None:
    invoke_agent(agent_of(calls("weather", city="Rome"), says("Sunny.")), "How is Rome?", record=path)
    text = path.read_text().splitlines()
    at = max(number for number, line in enumerate(text) if '"line":"request"' in line)
    text[at] = text[at].replace("sunny in Rome", "rainy in Rome")
    path.write_text("\n".join(text))

    with pytest.raises(Difference) as caught:
        replay(path)
    assert (caught.value.path, caught.value.recorded, caught.value.now) == (
        "$.turns[3].results[0].content",
        "rainy in Rome",
        "sunny in Rome",
    )


async def test_calls_end_in_the_order_in_which_they_did(path: Path) -> None:
    second_is_over = asyncio.Event()

    @tool
    async def first() -> str:
        """Ends last."""
        await second_is_over.wait()
        return "one"

    @tool
    async def second() -> str:
        """Ends first."""
        second_is_over.set()
        return "two"

    agent = agent_of(calls("first", "second"), says("done"), tools=(first, second))
    await invoke_agent_async(agent, "go", record=path)

    assert (await replay_async(path)).events == len([line for line in lines_of(path) if line["line"] == "event"])


def test_tries_that_failed_fail_again(path: Path) -> None:
    agent = agent_of(fails("busy", 429, 0.0), fails("busy", 503, 0.0), says("at last"))
    invoke_agent(agent, "go", record=path)

    assert replay(path).calls == 3


def test_a_run_that_failed_fails_again(path: Path) -> None:
    with pytest.raises(RondaError):
        invoke_agent(agent_of(fails("no", 400)), "go", record=path)

    ended = replay(path).run.ended
    assert ended is not None
    assert ended.reason == "failed"


def test_what_people_decided_is_decided_again(path: Path) -> None:
    deleted: list[str] = []

    @tool(approval="ask")
    async def delete(path: str) -> str:
        """Delete a file."""
        deleted.append(path)
        return "gone"

    agent = agent_of(calls("delete", path="a"), calls("delete", path="b"), says("done"), tools=(delete,))
    invoke_agent(agent, "go", record=path, approve=lambda question: question.values["path"] == "a")
    played = replay(path)

    assert deleted == ["a"]
    assert played.broken_off is None


def test_guardrails_judge_as_they_did(path: Path) -> None:
    from ronda import GuardrailResult

    agent = agent_of(calls("weather", city="Rome"), says("Sunny."))
    guardrails = {
        "input": lambda turns: True,
        "tool": lambda name, arguments: GuardrailResult(True, rewrite={"city": "Oslo"}),
        "output": lambda turn: GuardrailResult(True, rewrite="Cloudy."),
    }
    answer = invoke_agent(agent, "go", record=path, guardrails=guardrails)  # type: ignore[arg-type]

    assert (answer, replay(path).broken_off) == ("Cloudy.", None)


async def test_a_run_that_was_cancelled_is_played_up_to_there(path: Path) -> None:
    begun = asyncio.Event()

    @tool
    async def stay() -> str:
        """Stay."""
        begun.set()
        await asyncio.Event().wait()
        return ""

    running = asyncio.create_task(
        run_agent_async(agent_of(calls("stay"), says("done"), tools=(stay,)), "go", record=path)
    )
    await begun.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    played = await replay_async(path)

    assert played.run.ended is None
    assert played.broken_off == "the run was cancelled or interrupted here"


def test_no_key_is_in_a_cassette(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret-of-the-environment")
    with pytest.raises(RondaError):
        invoke_agent(
            Agent("openai-chat:nothing", "http://127.0.0.1:9/v1", "sk-secret-of-the-agent"),
            "go",
            record=path,
            retry=Retry(tries=1),
        )

    assert "secret" not in path.read_text()
    ended = replay(path).run.ended
    assert isinstance(ended, RunFinished)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "empty"),
        ("no json", "line 1"),
        ('{"line":"shown","previews":[]}', "header"),
        ('{"line":"what"}', "line 1"),
    ],
)
def test_what_is_no_cassette_is_said_to_be_none(path: Path, text: str, problem: str) -> None:
    path.write_text(text)

    with pytest.raises(BadCassette, match=problem):
        replay(path)
