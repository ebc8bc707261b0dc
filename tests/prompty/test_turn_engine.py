"""A run seen as the turn engine's: what it tells, what it showed the model, and how it ended."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest
from tests.conformance.prompty_trajectory import summary, trajectory
from tests.conformance.prompty_turn_view import EngineResult, TurnView, view

from ronda import Agent, Cancel, GuardrailResult, Guardrails, invoke_agent
from ronda.core.calls import OUTCOME_UNKNOWN
from ronda.core.events import Event, Held, ModelFinished, ToolFinished
from ronda.core.parts import AssistantTurn, Text, ToolResult, Turn, user
from ronda.core.request import ModelRequest
from ronda.drive import Show
from ronda.errors import RunEnded
from ronda.testing import Call, ScriptedModel, calls, fails, says

ANSWER = [
    "context_prepared",
    "model_invocation_started",
    "model_invocation_completed",
    "checkpoint_created",
]
COMMIT = ["turn_committed", "post_commit_started", "post_commit_completed"]
RAN = [
    "permission_requested",
    "permission_resolved",
    "tool_execution_started",
    "tool_execution_completed",
    "checkpoint_created",
]
CLOSED = ["conversation_updated", "checkpoint_created"]


def echo(value: str) -> str:
    return value


def broken() -> str:
    raise RuntimeError("no")


def seen(model: Any, inputs: Any = "go", **options: Any) -> tuple[TurnView, list[Event]]:
    events: list[Event] = []
    with contextlib.suppress(RunEnded):
        invoke_agent(
            Agent(model, tools=[echo, broken]), inputs, on_event=events.append, parallel_tool_calls=False, **options
        )
    return view(events), events


def kinds(turn: TurnView) -> list[str]:
    return [event.kind for event in turn.events]


TWO = calls(Call("echo", {"value": "A"}, "a"), Call("echo", {"value": "B"}, "b"))


def test_an_answer_is_one_invocation_and_a_commit() -> None:
    turn, _ = seen(ScriptedModel("hello"))
    assert kinds(turn) == ["turn_started", *ANSWER, *COMMIT]
    assert (turn.status, turn.output, turn.iterations, turn.portability) == ("success", "hello", 1, "portable")
    assert [(shot.iteration, shot.stable_prefix_messages) for shot in turn.snapshots] == [(0, 1)]


def test_results_are_committed_in_the_order_they_were_asked_for() -> None:
    turn, _ = seen(ScriptedModel(TWO, says("A then B")))
    assert kinds(turn) == [
        "turn_started",
        *ANSWER,
        *RAN,
        *RAN,
        "tool_result_committed",
        "tool_result_committed",
        *CLOSED,
        *ANSWER,
        *COMMIT,
    ]
    assert turn.tool_results == [
        EngineResult("a", "echo", "success", "A"),
        EngineResult("b", "echo", "success", "B"),
    ]
    assert [shot.stable_prefix_messages for shot in turn.snapshots] == [1, 1]
    assert [len(shot.messages) for shot in turn.snapshots] == [1, 4]


def test_a_denial_is_a_result_and_no_execution() -> None:
    guard = Guardrails(tool=lambda name, arguments: GuardrailResult(False, "no"))
    turn, _ = seen(ScriptedModel(calls(Call("echo", {"value": "A"}, "a")), says("denied")), guardrails=guard)
    assert kinds(turn) == [
        "turn_started",
        *ANSWER,
        "permission_requested",
        "permission_resolved",
        "checkpoint_created",
        "tool_result_committed",
        *CLOSED,
        *ANSWER,
        *COMMIT,
    ]
    assert [(result.outcome, result.error_kind) for result in turn.tool_results] == [("failed", "permission_denied")]


def test_a_tool_that_fails_is_executed_and_failed() -> None:
    turn, _ = seen(ScriptedModel(calls("broken"), says("sorry")))
    assert [(result.outcome, result.error_kind) for result in turn.tool_results] == [("failed", "exception")]
    assert "tool_execution_completed" in kinds(turn)
    assert turn.status == "success"


def test_a_call_that_cannot_be_read_is_committed_without_running() -> None:
    turn, _ = seen(ScriptedModel(calls(Call("echo", "{", "a")), says("sorry")))
    assert [result.outcome for result in turn.tool_results] == ["failed"]
    assert "tool_execution_started" not in kinds(turn)
    assert kinds(turn).count("tool_result_committed") == 1


def test_a_turn_cancelled_before_it_began_shows_nothing() -> None:
    cancel = Cancel()
    cancel.cancel()
    turn, _ = seen(ScriptedModel("never"), cancel=cancel)
    assert kinds(turn) == ["turn_started", "turn_cancelled"]
    assert (turn.status, turn.iterations, turn.snapshots) == ("cancelled", 0, [])


def test_tries_share_one_snapshot() -> None:
    turn, _ = seen(ScriptedModel(fails("busy", 503, retry_after=0.0), says("ok")))
    assert len(turn.snapshots) == 1
    attempts = [event.payload["attempt"] for event in turn.events if event.kind == "model_invocation_started"]
    assert attempts == [0, 1]
    assert turn.iterations == 1


@pytest.mark.parametrize(
    ("lines", "options", "kind"),
    [
        ([TWO, TWO], {"max_iterations": 1}, "max_iterations"),
        ([fails("no", 400)], {}, "model_error"),
        ([calls("nobody")], {}, "tool_configuration_error"),
        ([says("x")], {"guardrails": {"input": lambda turns: False}}, "input_guardrail_denied"),
        ([says("x")], {"guardrails": {"output": lambda turn: False}}, "output_guardrail_denied"),
    ],
)
def test_a_turn_that_fails_says_what_kind_of_failure_it_was(lines: Any, options: dict[str, Any], kind: str) -> None:
    turn, _ = seen(ScriptedModel(*lines), **options)
    assert (turn.status, turn.error_kind, turn.events[-1].kind) == ("failed", kind, "turn_failed")


class Keeps(ScriptedModel):
    """A provider that keeps the conversation on its side."""

    def __init__(self, held: Held, *lines: Any) -> None:
        super().__init__(*lines)
        self._held = held

    async def call(self, request: ModelRequest, show: Show) -> ModelFinished:
        finished = await super().call(request, show)
        return ModelFinished(finished.turn, finished.usage, held=(self._held,))


@pytest.mark.parametrize(("id", "portability"), [("resp_1", "delegated"), ("", "opaque")])
def test_what_the_provider_keeps_is_known_from_the_next_invocation_on(id: str, portability: str) -> None:
    held = Held("openai", "response", id)
    turn, events = seen(Keeps(held, TWO, says("ok")))
    assert [shot.portability for shot in turn.snapshots] == ["portable", portability]
    assert turn.snapshots[1].delegated_state == (held,)
    assert [event.held for event in events if type(event) is ModelFinished] == [(held,), (held,)]


def test_an_outcome_nobody_knows_is_indeterminate() -> None:
    _, events = seen(ScriptedModel(TWO, says("ok")))
    lost = [
        ToolFinished(ToolResult("a", OUTCOME_UNKNOWN, failed=True))
        if type(event) is ToolFinished and event.result.call_id == "a"
        else event
        for event in events
    ]
    assert view(lost).tool_results[0].outcome == "indeterminate"


def test_only_the_instructions_are_stable_once_the_rest_is_summed_up() -> None:
    turns: list[Turn] = [user("long " * 50), AssistantTurn((Text("long " * 50),)), user("now?")]
    turn, _ = seen(ScriptedModel("ok"), turns, context_budget=100)
    assert [(len(shot.messages), shot.stable_prefix_messages) for shot in turn.snapshots] == [(2, 0)]


def test_the_trajectory_of_a_tool_round() -> None:
    turn, _ = seen(ScriptedModel(calls(Call("echo", {"value": "A"}, "exec-1")), says("ok")))
    assert [(event.scope, event.type, event.iteration) for event in trajectory(turn)] == [
        ("session", "session_start", 0),
        ("turn", "turn_start", 0),
        ("turn", "llm_start", 0),
        ("turn", "llm_complete", 0),
        ("session", "checkpoint_created", 0),
        ("turn", "permission_requested", 0),
        ("turn", "permission_completed", 0),
        ("turn", "tool_execution_start", 0),
        ("turn", "tool_execution_complete", 0),
        ("turn", "tool_result", 0),
        ("turn", "messages_updated", 0),
        ("turn", "llm_start", 1),
        ("turn", "llm_complete", 1),
        ("session", "checkpoint_created", 1),
        ("turn", "turn_end", 2),
        ("session", "session_end", 2),
    ]
    said = summary(turn)
    assert (said.status, said.turns, said.checkpoints) == ("success", 1, 2)


def test_the_trajectory_of_a_turn_that_was_cancelled() -> None:
    cancel = Cancel()
    cancel.cancel()
    turn, _ = seen(ScriptedModel("never"), cancel=cancel)
    assert [event.type for event in trajectory(turn)] == [
        "session_start",
        "turn_start",
        "cancelled",
        "turn_end",
        "session_end",
    ]
    assert summary(turn).status == "cancelled"
