"""The calls of one turn, and what has become of each.

A call is open from ModelFinished until it has a result. Between the two it may have to be allowed by a guardrail, it may have
to wait for its turn, it is started, and it ends: with what the tool said, with what was said instead of running it, or with
the run. Which calls are answered at once is sorted out elsewhere (`sorting`).
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from ronda.core.actions import Action, CallTool, Check, Finish
from ronda.core.events import Checked, EndReason
from ronda.core.parts import ToolCall, ToolResult
from ronda.core.plan import Plan, ToolSpec
from ronda.errors import ProtocolError

OUTCOME_UNKNOWN = (
    "Error: the outcome of this call is unknown: it was running when the process ended. "
    "It may or may not have taken effect; check before calling again."
)


# Ends at which the caller gets the calls of its tools; a turn may be cut in the middle of one.
HANDED_OVER: frozenset[EndReason] = frozenset({"tool_calls", "length", "content_filter"})


class OpenCalls(Struct, gc=False):
    """`asked` is in the model's order. What was answered at once has its result from the beginning, and is never started."""

    asked: dict[str, ToolCall] = {}
    results: dict[str, ToolResult] = {}
    started: set[str] = set()
    allowed: dict[str, str | None] = {}  # by a guardrail: calls that may run, and the arguments they are to run with

    # ---- what happened to a call -------------------------------------------------------------------------------------

    def start(self, id: str, tools: Mapping[str, ToolSpec]) -> bool:
        """False when it was started before: a repeatable one may be."""
        call = self.asked.get(id)
        if call is None or id in self.results:
            raise ProtocolError(f"no open call {id!r} to start")
        if id in self.started:
            if not tools[call.name].repeatable:
                raise ProtocolError(f"call {id!r} was started twice and is not repeatable")
            return False
        self.started.add(id)
        return True

    def answer(self, result: ToolResult) -> None:
        id = result.call_id
        if id not in self.asked:
            raise ProtocolError(f"a result for {id!r}, which is not open")
        if id in self.results:
            raise ProtocolError(f"a second result for {id!r}")
        self.results[id] = result
        self.started.add(id)  # it has a result of its own, so it was

    def judge(self, verdict: Checked) -> None:
        """A guardrail let a call run, perhaps with other arguments, or did not: then the model is told."""
        id = verdict.call_id
        if id is None or id not in self.asked or id in self.results or id in self.started:
            raise ProtocolError(f"no call {id!r} that waits to be allowed")
        if verdict.allowed:
            self.allowed[id] = verdict.rewrite if isinstance(verdict.rewrite, str) else None
        else:
            reason = f": {verdict.problem}" if verdict.problem else ""
            self.results[id] = ToolResult(id, f"Tool denied by guardrail{reason}", failed=True)

    def abandon(self, reason: EndReason, tools: Mapping[str, ToolSpec]) -> None:
        """The run ends: what has no result gets one, so that every call has; but for the caller's, if it is handed them."""
        why = "cancelled" if reason == "cancelled" else "ended"
        for id, call in self.asked.items():
            if id in self.results or (reason in HANDED_OVER and tools[call.name].kind == "caller"):
                continue
            if id not in self.started:
                text = f"Error: not run: the run was {why} first."
            elif reason == "cancelled":
                text = "Error: cancelled while it was running; it may have taken effect."
            else:
                text = OUTCOME_UNKNOWN
            self.results[id] = ToolResult(id, text, failed=True)

    # ---- where they stand --------------------------------------------------------------------------------------------

    @property
    def running(self) -> list[ToolCall]:
        return [call for id, call in self.asked.items() if id in self.started and id not in self.results]

    @property
    def answers(self) -> list[ToolResult]:
        """In the order the model asked, whatever order they came in."""
        return [self.results[id] for id in self.asked if id in self.results]

    def todo(self, plan: Plan, tools: Mapping[str, ToolSpec]) -> list[Action]:
        """What can be started now. Nothing, while what is running must be waited for; when all wait for the caller, the end."""
        start: list[ToolCall] = []
        running = False
        taken: set[str] = set()  # exclusive keys in use, or promised to an earlier call
        for id, call in self.asked.items():
            if id in self.results:
                continue
            spec = tools[call.name]
            if spec.kind == "caller":
                continue
            key = spec.exclusive
            if id in self.started:
                running = True
            elif not plan.parallel and (running or start):
                break
            elif key is None or key not in taken:
                start.append(call)
            if key is not None:
                taken.add(key)
        if start and "tool" in plan.guards:
            unseen: list[Action] = [Check("tool", call=call) for call in start if call.id not in self.allowed]
            return unseen or [CallTool(self._as_allowed(call)) for call in start]
        if start or running:
            return [CallTool(call) for call in start]
        return [Finish("tool_calls")]

    def _as_allowed(self, call: ToolCall) -> ToolCall:
        """A guardrail changes what runs, never the turn: a provider's signature would not fit it any more."""
        rewritten = self.allowed[call.id]
        return call if rewritten is None else ToolCall(call.id, call.name, rewritten)


# Between two turns. Nothing can happen to a call that was not asked for, so all runs share it.
NO_CALLS = OpenCalls()
