"""A turn's semantic events → the trajectory that Prompty's harness journals: events of session and turn, and a summary.

It says less than the engine's events, and some of it sooner: a tool's result stands right behind the tool, and only the
checkpoints behind a model's answer are counted.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from msgspec import Struct, field
from tests.conformance.prompty_turn_view import EngineEvent, TurnView


class HarnessEvent(Struct, frozen=True):
    scope: Literal["session", "turn"]
    type: str
    iteration: int = 0
    payload: dict[str, Any] = field(default_factory=dict)


class Summary(Struct, frozen=True):
    status: Literal["success", "error", "cancelled"]
    turns: int
    checkpoints: int


def trajectory(turn: TurnView) -> list[HarnessEvent]:
    found: list[HarnessEvent] = []
    for event in turn.events:
        found += _harness_events(event, turn)
    return found


def summary(turn: TurnView) -> Summary:
    return Summary(_status(turn), 1, len(_checkpoints(turn.events)))


def _status(turn: TurnView) -> Literal["success", "error", "cancelled"]:
    return "success" if turn.status == "success" else "cancelled" if turn.status == "cancelled" else "error"


def _checkpoints(events: Sequence[EngineEvent]) -> list[EngineEvent]:
    return [event for event in events if event.kind == "checkpoint_created" and event.payload["after"] == "model"]


def _harness_events(event: EngineEvent, turn: TurnView) -> list[HarnessEvent]:
    def said(type: str, **payload: Any) -> HarnessEvent:
        return HarnessEvent("turn", type, event.iteration, payload)

    payload = event.payload
    match event.kind:
        case "turn_started":
            return [HarnessEvent("session", "session_start"), said("turn_start")]
        case "model_invocation_started" if payload["attempt"]:
            return [said("retry", attempt=payload["attempt"])]
        case "model_invocation_started":
            return [said("llm_start", attempt=0)]
        case "model_invocation_completed":
            return [said("llm_complete")]
        case "checkpoint_created" if payload["after"] == "model":
            return [HarnessEvent("session", "checkpoint_created", event.iteration)]
        case "permission_requested":
            return [said("permission_requested", requestId=f"{payload['id']}-permission", target=payload["name"])]
        case "permission_resolved":
            resolved = said("permission_completed", approved=payload["approved"], reason=payload["reason"])
            if payload["approved"]:
                return [resolved]
            denied = said("tool_result", toolName=payload["name"], success=False, errorKind="permission_denied")
            return [resolved, denied]
        case "tool_execution_started":
            return [said("tool_execution_start", toolName=payload["name"])]
        case "tool_execution_completed":
            result = {"toolName": payload["name"], "success": payload["outcome"] == "success"}
            if "errorKind" in payload:
                result["errorKind"] = payload["errorKind"]
            return [said("tool_execution_complete", **result), said("tool_result", **result)]
        case "conversation_updated":
            return [said("messages_updated")]
        case "turn_cancelled":
            return [said("cancelled"), *_ended(turn)]
        case "turn_failed":
            return [said("error", errorKind=payload["errorKind"], message=payload["message"]), *_ended(turn)]
        case "turn_committed":
            return _ended(turn)
        case _:
            return []


def _ended(turn: TurnView) -> list[HarnessEvent]:
    status = _status(turn)
    return [
        HarnessEvent("turn", "turn_end", turn.iterations, {"status": status, "response": turn.output}),
        HarnessEvent("session", "session_end", turn.iterations, {"status": status}),
    ]
