"""A run's events → the turn-engine contract of Prompty's vectors: semantic events, context snapshots, tool results
and how the turn ended.

A pure reader: it folds the events itself, so a live run and a journal give the same view. What the engine calls an iteration
is our round, an attempt is a try of the same call, a permission is the word of the tool guardrail or of a person (everything is
permitted where there is neither), and a checkpoint is a place our journal can be cut at and resumed from: behind every answer
of the model, every tool that ran, and every round.

An invocation is portable while all the model is shown is ours; delegated once a provider keeps a part of it under a name; and
opaque where it does not say the name.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal, TypeAlias, assert_never

from msgspec import Struct, field

from ronda.core.events import (
    Answered,
    Asked,
    CallDelta,
    Checked,
    Compacted,
    Event,
    Held,
    LogprobsDelta,
    ModelFailed,
    ModelFinished,
    ModelInterrupted,
    ModelRetried,
    ModelStarted,
    NativeDelta,
    ReasoningDelta,
    Recovered,
    RefusalDelta,
    Released,
    RunFinished,
    RunStarted,
    Steered,
    TextDelta,
    ToolFinished,
    ToolProgressed,
    ToolStarted,
    Warned,
)
from ronda.core.parts import ToolCall, ToolResult
from ronda.core.run import Run
from ronda.core.transcript import final_text
from ronda.prompty.message_parts import Message
from ronda.prompty.turn_events import tool_error_kind
from ronda.prompty.turns import count_of, messages_of

EngineKind: TypeAlias = Literal[
    "turn_started",
    "context_prepared",
    "model_invocation_started",
    "model_invocation_completed",
    "model_invocation_failed",
    "permission_requested",
    "permission_resolved",
    "tool_execution_started",
    "tool_execution_completed",
    "tool_result_committed",
    "conversation_updated",
    "checkpoint_created",
    "turn_committed",
    "turn_cancelled",
    "turn_failed",
    "post_commit_started",
    "post_commit_completed",
]
Portability: TypeAlias = Literal["portable", "delegated", "opaque"]
Outcome: TypeAlias = Literal["success", "failed", "indeterminate"]
TurnStatus: TypeAlias = Literal["running", "success", "failed", "cancelled"]


class EngineEvent(Struct, frozen=True):
    kind: EngineKind
    iteration: int
    payload: dict[str, Any] = field(default_factory=dict)


class Snapshot(Struct, frozen=True):
    """What one model invocation was shown. Tries of the same call share it."""

    iteration: int
    messages: list[Message]
    stable_prefix_messages: int
    portability: Portability
    delegated_state: tuple[Held, ...]


class EngineResult(Struct, frozen=True):
    """`indeterminate`: it is not known whether it ran; it was under way when the process ended."""

    request_id: str
    name: str
    outcome: Outcome
    output: str
    error_kind: str | None = None


class TurnView:
    """Feed it the events of a run, from its RunStarted on."""

    def __init__(self) -> None:
        self.events: list[EngineEvent] = []
        self.snapshots: list[Snapshot] = []
        self.tool_results: list[EngineResult] = []
        self.iterations = 0
        self.status: TurnStatus = "running"
        self.output: str | None = None
        self.error_kind: str | None = None
        self.held: tuple[Held, ...] = ()
        self._run: Run
        self._iteration = 0
        self._attempt = 0
        self._prefix = 0
        self._rounds = 0
        self._calls: dict[str, ToolCall] = {}
        self._permissions: set[str] = set()
        self._questions: dict[str, str] = {}  # id of a question → the call it is about
        self._denied: set[str] = set()
        self._ran: set[str] = set()

    @property
    def portability(self) -> Portability:
        if not self.held:
            return "portable"
        return "delegated" if all(held.id for held in self.held) else "opaque"

    def feed(self, event: Event) -> None:
        if type(event) is RunStarted:
            self._run = Run(event)
            self._prefix = count_of(event.turns)
            self._say("turn_started", session=event.session, run=event.run)
            return
        run = self._run
        if type(event) is ModelStarted:
            self._model_started(run, event)  # which tells what the model is shown, before the run knows of it
        run.apply(event)
        match event:
            case RunFinished():
                self._finished(run, event)
            case Compacted():
                self._prefix = min(self._prefix, count_of(run.shown[: run.instructions]))
            case ModelRetried():
                self._say("model_invocation_failed", attempt=self._attempt, exhausted=False, message=event.reason)
                self._attempt += 1
                self._say("model_invocation_started", attempt=self._attempt)
            case ModelFinished():
                self._model_finished(run, event)
            case ModelInterrupted(reason=reason):
                self._failed_to_invoke(reason, outcomeUnknown=True)
            case ModelFailed(reason=reason):
                self._failed_to_invoke(reason, exhausted=True)
            case Checked(stage=stage, call_id=call_id):
                if stage == "tool" and call_id is not None:
                    self._permission(self._calls[call_id], event.allowed, event.problem)
                    self._close_round(run)
            case Asked(id=question, call_id=call_id, kind=kind):
                if kind == "approval":
                    self._questions[question] = call_id
            case Answered():
                is_open = {one.id for one in run.questions}
                for question in [
                    call_id for call_id in self._questions if call_id not in is_open
                ]:  # several, if it is remembered
                    call = self._calls[self._questions.pop(question)]
                    self._permission(call, event.decision == "approve", event.message)
                self._close_round(run)
            case ToolStarted(call_id=call_id):
                call = self._calls[call_id]
                if call_id not in self._permissions:
                    self._permission(call, True, "allow_all")
                self._say("tool_execution_started", **_request(call))
            case ToolFinished(result=result):
                done = self._result(result)
                self._ran.add(result.call_id)
                self.tool_results.append(done)
                self._say("tool_execution_completed", **_payload(done))
                self._checkpoint("tool")
                self._close_round(run)
            case RunStarted() | ModelStarted() | Steered() | Warned() | Released() | Recovered():
                pass
            case TextDelta() | ReasoningDelta() | RefusalDelta() | CallDelta() | LogprobsDelta() | NativeDelta():
                pass
            case ToolProgressed():
                pass
            case _:
                assert_never(event)

    def _say(self, kind: EngineKind, **payload: Any) -> None:
        self.events.append(EngineEvent(kind, self._iteration, payload))

    def _checkpoint(self, after: Literal["model", "tool", "round"]) -> None:
        self._say("checkpoint_created", after=after, stablePrefixMessages=self._prefix)

    # ---- models ------------------------------------------------------------------------------------------------------

    def _model_started(self, run: Run, event: ModelStarted) -> None:
        self._iteration = event.round
        self._attempt = 0
        messages = messages_of(run.shown)
        prefix = min(self._prefix, len(messages))
        self.snapshots.append(Snapshot(event.round, messages, prefix, self.portability, self.held))
        self._say("context_prepared", messages=len(messages), portability=self.portability)
        self._say("model_invocation_started", attempt=0)

    def _model_finished(self, run: Run, event: ModelFinished) -> None:
        self.iterations += 1
        self._calls = {call.id: call for call in event.turn.calls}
        self._permissions.clear()
        self._denied.clear()
        self._ran.clear()
        self.held = event.held or self.held
        self._say("model_invocation_completed", attempt=self._attempt)
        self._checkpoint("model")
        self._close_round(run)

    def _failed_to_invoke(self, reason: str, **how: bool) -> None:
        self._say("model_invocation_failed", attempt=self._attempt, message=reason, **how)

    # ---- tools -------------------------------------------------------------------------------------------------------

    def _permission(self, call: ToolCall, approved: bool, reason: str | None) -> None:
        self._permissions.add(call.id)
        self._say("permission_requested", **_request(call))
        self._say("permission_resolved", id=call.id, name=call.name, approved=approved, reason=reason)
        if not approved:
            self._denied.add(call.id)
            self.tool_results.append(EngineResult(call.id, call.name, "failed", reason or "", "permission_denied"))
            self._checkpoint("tool")

    def _result(self, result: ToolResult) -> EngineResult:
        name = self._calls[result.call_id].name
        kind = tool_error_kind(result, denied=result.call_id in self._denied)
        outcome: Outcome = "success" if kind is None else "indeterminate" if kind == "outcome_unknown" else "failed"
        return EngineResult(result.call_id, name, outcome, result.content, kind)

    def _close_round(self, run: Run) -> None:
        if run.tool_rounds == self._rounds:
            return
        self._rounds = run.tool_rounds
        for result in run.last_results:
            committed = self._result(result)
            if result.call_id not in self._ran and result.call_id not in self._denied:
                self.tool_results.append(committed)  # made by the loop itself: arguments that cannot be read
            self._say("tool_result_committed", **_payload(committed))
        self._say("conversation_updated", messages=count_of(run.shown))
        self._checkpoint("round")

    # ---- the end -----------------------------------------------------------------------------------------------------

    def _finished(self, run: Run, event: RunFinished) -> None:
        self._iteration = self.iterations
        if event.reason == "cancelled":
            self.status = "cancelled"
            self._say("turn_cancelled")
            return
        if event.reason == "failed" or (event.reason == "limit" and run.plan.limits.on_limit == "error"):
            self.status = "failed"
            self.error_kind = _error_kind(run, event)
            self._say("turn_failed", errorKind=self.error_kind, message=event.message)
            return
        self.status = "success"
        self.output = final_text(run)
        self._say("turn_committed", status="success")
        self._say("post_commit_started")
        self._say("post_commit_completed")


def view(events: Iterable[Event]) -> TurnView:
    """The whole of a run's events, seen as a turn."""
    seen = TurnView()
    for event in events:
        seen.feed(event)
    return seen


def _request(call: ToolCall) -> dict[str, Any]:
    return {"id": call.id, "name": call.name, "arguments": call.arguments}


def _payload(result: EngineResult) -> dict[str, Any]:
    fields: dict[str, Any] = {"id": result.request_id, "name": result.name, "outcome": result.outcome}
    return fields if result.error_kind is None else {**fields, "errorKind": result.error_kind}


def _error_kind(run: Run, event: RunFinished) -> str:
    if run.denied is not None:
        return f"{run.denied.stage}_guardrail_denied"
    if run.failure is not None:
        return "model_error"
    if event.limit is not None:
        return "max_iterations" if event.limit == "max_tool_rounds" else event.limit
    if event.code == "tool_missing":
        return "tool_configuration_error"
    return "engine_error"
