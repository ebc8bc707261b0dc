"""What an operator gives a server acts on every run of it: guardrails, and who sums up a conversation that grows too long."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.interaction.doors import Door, soon
from tests.interaction.every_door import NAMES, ask

from ronda import GuardrailResult, Guardrails, tool
from ronda.core.events import Compacted, RunStarted
from ronda.core.parts import AssistantTurn, ToolTurn, Turn, UserTurn, user
from ronda.errors import BadConfig
from ronda.journal.memory import MemoryJournal
from ronda.server.app import Server
from ronda.server.config import ServerConfig
from ronda.testing import ScriptedModel, calls, says

NO = GuardrailResult(False, "not here")


@tool
def look(city: str = "Paris") -> str:
    """Look."""
    return f"{city}: fine"


@pytest.mark.parametrize("asked", NAMES)
async def test_input_that_is_denied_reaches_no_model(door: Door, asked: str, stream: bool) -> None:
    model = ScriptedModel("never")
    async with door.serving(model, guardrails=Guardrails(input=lambda turns: NO)) as served:
        heard = await ask(served, asked, stream)

    assert "Input guardrail denied: not here" in heard.error
    assert (heard.status, heard.end, model.heard) == (400, "error", [])


@pytest.mark.parametrize("asked", NAMES)
async def test_output_that_is_denied_is_not_shown(door: Door, asked: str, stream: bool) -> None:
    seen: list[str] = []

    async def judge(turn: AssistantTurn) -> GuardrailResult:
        seen.append(turn.text)
        return NO

    async with door.serving(ScriptedModel("a secret"), guardrails={"output": judge}) as served:
        heard = await ask(served, asked, stream)
        run = (await served.events)[0][0]
        assert isinstance(run, RunStarted)
        async with soon(), served.http.get(f"{served.url}/runs/{run.run}") as answer:
            kept = await answer.text()
        async with soon(), served.http.get(f"{served.url}/runs/{run.run}/events") as answer:
            events = await answer.text()

    assert seen == ["a secret"]
    assert "Output guardrail denied: not here" in heard.error
    assert "secret" not in heard.error + heard.text + str(heard.events) + kept + events
    assert "model_finished" in events


@pytest.mark.parametrize("asked", NAMES)
async def test_output_may_be_rewritten(door: Door, asked: str, stream: bool) -> None:
    guards = Guardrails(output=lambda turn: GuardrailResult(True, rewrite="[gone]"))
    async with door.serving(ScriptedModel("a secret"), guardrails=guards) as served:
        heard = await ask(served, asked, stream)

    assert (heard.status, heard.text) == (200, "[gone]")
    assert "secret" not in str(heard.events)


async def test_a_call_that_is_denied_is_not_run(door: Door, stream: bool) -> None:
    def judge(name: str, arguments: dict[str, Any]) -> GuardrailResult:
        return GuardrailResult(arguments["city"] != "Atlantis", "it sank")

    model = ScriptedModel(calls("look", city="Atlantis"), calls("look", city="Rome"), says("done"))
    async with door.serving(model, look, guardrails=Guardrails(tool=judge)) as served:
        answer = await served.ask(stream=stream)

    told = [turn.results[0].content for turn in model.heard[2] if isinstance(turn, ToolTurn)]
    assert told == ["Tool denied by guardrail: it sank", "Rome: fine"]
    assert [record["result_content"] for record in answer.records] == ["Rome: fine"]


async def test_what_goes_beyond_the_budget_is_summed_up(door: Door, stream: bool) -> None:
    gone: list[Turn] = []

    async def summarize(turns: Sequence[Turn]) -> str:
        gone.extend(turns)
        return "They spoke of whales."

    talk = [{"role": "user" if at % 2 == 0 else "assistant", "content": f"{at} " + "x" * 500} for at in range(7)]
    model = ScriptedModel("Fine.")
    async with door.serving(model, context_budget=1500, compaction=summarize) as served:
        answer = await served.ask(talk, stream=stream)
        [events] = await served.events

    assert answer.content == "Fine."
    assert sum(type(event) is Compacted for event in events) == 1
    assert len(gone) > 2
    assert "They spoke of whales." in str(model.heard[0])
    shown = [turn for turn in model.heard[0] if isinstance(turn, UserTurn)]
    assert shown[-1] == user("6 " + "x" * 500)
    assert len(str(model.heard[0])) < 4000


SAFEGUARDS = """
from ronda import GuardrailResult, Guardrails

guardrails = Guardrails(input=lambda turns: GuardrailResult(False, "closed"))


def compaction(turns):
    return "summary"
"""


async def test_a_tools_file_may_have_them(door: Door, tmp_path: Path) -> None:
    path = tmp_path / "safeguards.py"
    path.write_text(SAFEGUARDS)
    async with door.serving(ScriptedModel("never"), tools=(str(path),)) as served:
        heard = await ask(served, "chat", False)

    assert "Input guardrail denied: closed" in heard.error


def test_guardrails_that_are_none_or_there_twice_are_refused(tmp_path: Path) -> None:
    files = {name: tmp_path / f"{name}.py" for name in ("one", "two", "wrong")}
    files["one"].write_text(SAFEGUARDS)
    files["two"].write_text(SAFEGUARDS)
    files["wrong"].write_text("guardrails = 5\n")

    for names, message in (
        (("one", "two"), "has 'guardrails', and so has one before it"),
        (("wrong",), "'guardrails' of the tools file .* is 5; it has to be a ronda.Guardrails"),
    ):
        config = ServerConfig(model="script:test", tools=tuple([str(files[name]) for name in names]))
        with pytest.raises(BadConfig, match=message):
            Server(config, MemoryJournal(), provider=ScriptedModel())
