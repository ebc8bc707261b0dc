"""Every vector of TurnConformance.runTurn: an agent is run, and its events are read as the turn engine's."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

import msgspec
from tests.conformance.prompty_turn_view import TurnView
from tests.conformance.prompty_vectors import Json, expected_of, fits

from ronda.agent import Agent, Cancel, invoke_agent_async
from ronda.core.events import Held, ModelFinished
from ronda.core.guardrails import GuardrailResult, Guardrails
from ronda.core.parts import AssistantPart, AssistantTurn, Text, ToolCall
from ronda.core.plan import ToolSpec
from ronda.core.request import ModelRequest
from ronda.drive import Show, ToolContext, ToolOutput
from ronda.errors import RunEnded, UpstreamError
from ronda.prompty.message_parts import read_message
from ronda.prompty.turns import turns_of


def check(vector: Json) -> None:
    said = vector["input"]
    turn = TurnView()
    asyncio.run(_run(said, turn))
    expected = expected_of(vector)
    ours = _told(turn)
    last = said["model"][-1] if said.get("model") else {}
    if not isinstance(last.get("output", ""), str) and turn.output is not None:
        # The model said an object: as text, which is all a model says.
        ours["output"] = msgspec.json.decode(turn.output)
    unknown = expected.keys() - ours.keys()
    assert not unknown, f"this adapter does not know how to compare {sorted(unknown)}"
    fits({key: _counted(ours[key], wanted) for key, wanted in expected.items()}, expected, "turn")


def _counted(ours: Json, wanted: Json) -> Json:
    """Where the vector says how many there are, so do we."""
    if isinstance(ours, list) and isinstance(wanted, list):
        return [_counted(one, other) for one, other in zip_longest(ours, wanted)]
    return len(ours) if isinstance(ours, (list, dict)) and isinstance(wanted, int) else ours


async def _run(said: Json, turn: TurnView) -> None:
    denied = said.get("denyTools") or []
    outputs = said.get("toolOutputs") or {}
    cancel = Cancel()
    if said.get("cancelBeforeRun"):
        cancel.cancel()

    def judge(name: str, arguments: dict[str, Any]) -> GuardrailResult:
        return GuardrailResult(name not in denied, "Permission denied" if name in denied else None)

    names = {tool["name"]: None for step in said.get("model") or () for tool in step.get("tools") or ()}
    tools = [_Tool(ToolSpec(name), outputs) for name in names]
    with contextlib.suppress(RunEnded):  # how it ended is what the view says
        await invoke_agent_async(
            Agent(_Model(said.get("model") or []), tools=tools),
            turns_of([read_message(message) for message in said["messages"]]),
            on_event=turn.feed,
            guardrails=Guardrails(tool=judge),
            parallel_tool_calls=False,
            cancel=cancel,
            max_iterations=said.get("maxIterations", 10),
        )


class _Model:
    def __init__(self, steps: list[Json]) -> None:
        self._steps = iter(steps)

    async def call(self, request: ModelRequest, show: Show) -> ModelFinished:
        step = next(self._steps, None)
        if step is None:
            raise UpstreamError("the vector's model has nothing more to say")
        said = step.get("assistant") or step.get("output")
        text = said if isinstance(said, str) or said is None else msgspec.json.encode(said).decode()
        parts: list[AssistantPart] = [Text(text)] if text else []
        calls = step.get("tools") or []
        parts += [
            ToolCall(call["id"], call["name"], msgspec.json.encode(call.get("arguments", {})).decode())
            for call in calls
        ]
        finished = AssistantTurn(tuple(parts), "tool_calls" if calls else "stop")
        return ModelFinished(finished, held=_held(step))


def _held(step: Json) -> tuple[Held, ...]:
    """What the provider keeps: by name where it is delegated, without one where it is opaque."""
    found = step.get("delegatedState") or []
    found = found if isinstance(found, list) else [found]
    if not found and (portability := step.get("nextPortability", "portable")) != "portable":
        return (Held("", portability, "" if portability == "opaque" else portability),)
    return tuple([Held(item.get("provider", ""), item.get("kind", ""), item.get("id", "")) for item in found])


@dataclass
class _Tool:
    spec: ToolSpec
    outputs: Json

    async def run(self, arguments: dict[str, Any], context: ToolContext) -> ToolOutput:
        output = self.outputs.get(context.call_id)  # what the vector does not name is null
        return ToolOutput(output if isinstance(output, str) else msgspec.json.encode(output).decode())


def _told(turn: TurnView) -> Json:
    results = {result.request_id: result for result in turn.tool_results}
    committed = [event.payload["id"] for event in turn.events if event.kind == "tool_result_committed"]
    held = [_named(snapshot.delegated_state) for snapshot in turn.snapshots]
    portability = [snapshot.portability for snapshot in turn.snapshots]
    return {
        "status": turn.status,
        "output": turn.output,
        "iterations": turn.iterations,
        "snapshots": len(turn.snapshots),
        "snapshotStablePrefixes": [snapshot.stable_prefix_messages for snapshot in turn.snapshots],
        "snapshotPortability": portability,
        "snapshotPortabilities": portability,
        "snapshotDelegatedState": held,
        "snapshotDelegatedStates": held,
        "portability": turn.portability,
        "finalPortability": turn.portability,
        "commitPortability": turn.portability,
        "delegatedState": _named(turn.held),
        "toolResults": len(turn.tool_results),
        "toolResultOrder": committed,
        "toolOutcomes": {run_id: result.outcome for run_id, result in results.items()},
        "checkpoints": sum(event.kind == "checkpoint_created" for event in turn.events),
        "errorKind": turn.error_kind,
        "events": [msgspec.to_builtins(event) for event in turn.events],
        "eventKinds": [event.kind for event in turn.events],
    }


def _named(held: Iterable[Held]) -> list[Json]:
    """What a provider keeps under a name: state that is opaque has none."""
    return [msgspec.to_builtins(item) for item in held if item.id]
