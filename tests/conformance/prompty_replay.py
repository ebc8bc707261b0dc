"""Every vector of TurnConformance.replay: the host and the model do again what the recorded trajectory says they did, and our
run must leave the same trajectory behind.

The inputs of these vectors hold no script (those of `permission_denied` and `tool_success` are the same to the letter); what was
recorded is in the trajectory itself: which round asked for which tools, what was permitted, what failed, when it was
cancelled. Everything else in it (order, numbers, checkpoints, how it ends) is the loop's.
"""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass, field
from typing import Any

from tests.conformance.prompty_trajectory import HarnessEvent, summary, trajectory
from tests.conformance.prompty_turn_view import TurnView
from tests.conformance.prompty_vectors import Json, expected_of, fits

from ronda.agent import Agent, Cancel, invoke_agent_async
from ronda.core.guardrails import GuardrailResult, Guardrails
from ronda.core.plan import ToolSpec
from ronda.drive import ToolContext, ToolOutput
from ronda.errors import RunEnded
from ronda.providers.script import Call, Line, ScriptedModel


@dataclass
class _Asked:
    """A tool request of the recording, and its result."""

    id: str
    name: str = ""
    permitted: bool = True
    failed: bool = False
    error_kind: str | None = None


@dataclass
class _Round:
    asked: list[_Asked] = field(default_factory=list)
    answered: bool = False  # else the model failed


@dataclass
class _Recorded:
    rounds: list[_Round] = field(default_factory=list)
    cancelled: bool = False

    @classmethod
    def read(cls, lines: list[str]) -> _Recorded:
        found = cls()
        for line in lines:
            match line.split(":"):
                case ["turn", "llm_start", *_]:
                    found.rounds.append(_Round())
                case ["turn", "llm_complete", *_]:
                    found.rounds[-1].answered = True
                case ["turn", "permission_requested", _, request]:
                    found.rounds[-1].asked.append(_Asked(request.removesuffix("-permission")))
                case ["turn", "permission_completed", _, approved]:
                    found.rounds[-1].asked[-1].permitted = approved == "true"
                case ["turn", "tool_result", _, name, success, *kind]:
                    asked = found.rounds[-1].asked[-1]
                    asked.name, asked.failed = name, success != "true"
                    asked.error_kind = kind[0] if kind else None
                case ["turn", "cancelled", *_]:
                    found.cancelled = True
                case _:
                    pass
        return found

    @property
    def asked(self) -> dict[str, _Asked]:
        return {one.id: one for round_index in self.rounds for one in round_index.asked}

    def line(self, round: _Round) -> Line:
        if not round.answered:
            return Line(error="it failed", status=400)
        return Line(calls=tuple([Call(one.name, {"a": 1, "b": 2}, one.id) for one in round.asked]), text="3")


def check(vector: Json) -> None:
    said, expected = vector["input"], expected_of(vector)
    recorded = _Recorded.read(expected)
    turn = TurnView()
    asyncio.run(_run(said, recorded, turn))
    where = f"{said['sessionId']}:{said['turnId']}"
    lines = [_line(event, where, recorded) for event in trajectory(turn)]
    end = summary(turn)
    lines.append(f"summary:{said['sessionId']}:{end.status}:turns={end.turns}:checkpoints={end.checkpoints}")
    fits(lines, expected, "trajectory")


async def _run(said: Json, recorded: _Recorded, turn: TurnView) -> None:
    asked = recorded.asked
    denied = [one.id for one in asked.values() if not one.permitted]
    waiting = iter(asked.values())

    def judge(name: str, arguments: dict[str, Any]) -> GuardrailResult:
        one = next(waiting)
        return GuardrailResult(one.id not in denied, None if one.permitted else "Permission denied")

    cancel = Cancel()
    if recorded.cancelled and not asked:
        cancel.cancel()
    last = next(reversed(asked), None) if recorded.cancelled else None  # cancelled while this one ran
    tools = [_Tool(ToolSpec(name), asked, cancel, last) for name in {one.name: None for one in asked.values()}]
    options: dict[str, Any] = {"max_iterations": said["maxIterations"]} if "maxIterations" in said else {}
    with contextlib.suppress(RunEnded):  # how it ended is what the trajectory says
        await invoke_agent_async(
            Agent(ScriptedModel(*map(recorded.line, recorded.rounds)), tools=tools),
            {"input": "go", **(said.get("inputs") or {})},
            on_event=turn.feed,
            guardrails=Guardrails(tool=judge),
            parallel_tool_calls=False,
            cancel=cancel,
            **options,
        )


@dataclass
class _Tool:
    spec: ToolSpec
    asked: dict[str, _Asked]
    cancel: Cancel
    last: str | None

    async def run(self, arguments: dict[str, Any], context: ToolContext) -> ToolOutput:
        if context.call_id == self.last:
            self.cancel.cancel()
        if self.asked[context.call_id].failed:
            raise RuntimeError(self.asked[context.call_id].error_kind or "it failed")
        return ToolOutput("3")


def _line(event: HarnessEvent, where: str, recorded: _Recorded) -> str:
    payload = event.payload
    if event.scope == "session":
        end = f":{payload['status']}" if "status" in payload else ""
        return f"session:{event.type}:{where}{end}"
    start = f"turn:{event.type}:{event.iteration}"
    match event.type:
        case "permission_requested":
            return f"{start}:{payload['requestId']}"
        case "permission_completed":
            return f"{start}:{str(payload['approved']).lower()}"
        case "tool_execution_start":
            return f"{start}:{payload['toolName']}"
        case "tool_execution_complete" | "tool_result":
            kind = payload.get("errorKind")
            if kind == "exception":  # what a failure is called is the host's word, and the recording has it
                kind = next((one.error_kind for one in recorded.asked.values() if one.failed and one.permitted), kind)
            return f"{start}:{payload['toolName']}:{str(payload['success']).lower()}" + (f":{kind}" if kind else "")
        case "error":
            return f"{start}:{payload['errorKind']}"
        case "turn_end":
            return f"{start}:{payload['status']}"
        case _:
            return start
