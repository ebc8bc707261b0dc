"""Why a run failed is said twice: in words for people, and as a code for programs. No program reads the words."""

from __future__ import annotations

from typing import Any

import pytest
from tests.conformance.prompty_turn_view import view

from ronda import Agent, Guardrails, invoke_agent, invoke_agent_async, tool
from ronda.core.events import Event, ModelFinished, RunFinished
from ronda.core.plan import ToolChoice
from ronda.core.request import ModelRequest
from ronda.drive import Provider, Show
from ronda.errors import ExecuteError, RunEnded, UpstreamError
from ronda.providers.script import Line, ScriptedModel, calls, fails, says


@tool
async def lookup(q: str = "") -> str:
    """Look something up."""
    return f"found {q}"


class Refuses:
    """A model whose server says what another would say."""

    def __init__(self, words: str) -> None:
        self._words = words

    async def call(self, request: ModelRequest, show: Show) -> ModelFinished:
        raise UpstreamError(self._words)


async def ended(model: Provider, **options: Any) -> tuple[RunFinished, list[Event]]:
    seen: list[Event] = []
    made = {name: options.pop(name) for name in ("tool_choice", "output") if name in options}
    with pytest.raises(RunEnded):
        await invoke_agent_async(
            Agent(model=model, tools=[lookup], **made), "go", on_event=seen.append, retry=None, **options
        )
    end = seen[-1]
    assert isinstance(end, RunFinished)
    return end, seen


@pytest.mark.parametrize(
    ("lines", "options", "code"),
    [
        ([fails("no", 400)], {}, "model_failed"),
        ([calls("nobody")], {}, "tool_missing"),
        ([says("no")] * 2, {"tool_choice": ToolChoice("required")}, "no_call"),
        ([says("no")] * 2, {"output": dict[str, int]}, "wrong_format"),
        ([says("no")], {"guardrails": Guardrails(output=lambda turn: False)}, "guardrail"),
        ([Line("Hel", cut=True)] * 4, {}, "model_interrupted"),
    ],
)
async def test_a_run_that_failed_says_why_in_a_code(lines: list[Line], options: dict[str, Any], code: str) -> None:
    end, _ = await ended(ScriptedModel(*lines), **options)

    assert (end.reason, end.code) == ("failed", code)


@pytest.mark.parametrize("words", ["Tool not registered: search", "No handler registered for tool: x (kind: mcp)"])
def test_what_an_upstream_says_does_not_decide_which_error_is_raised(words: str) -> None:
    with pytest.raises(ExecuteError):
        invoke_agent(Agent(model=Refuses(words)), "go")


async def test_a_missing_tool_is_told_from_others_by_its_code() -> None:
    _, seen = await ended(ScriptedModel(calls("nobody")))

    assert view(seen).error_kind == "tool_configuration_error"
    [*before, end] = seen
    assert isinstance(end, RunFinished)
    reworded = RunFinished(end.reason, message="kein solches Werkzeug", at=end.at, code=end.code)
    assert view([*before, reworded]).error_kind == "tool_configuration_error"
