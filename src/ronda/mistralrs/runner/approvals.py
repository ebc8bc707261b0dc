"""Approvals in a program: a request's own callback decides about its calls, asked in the words of mistral.rs's module.

    callback(AgentToolApproval) → True, False, approval.approve(…) or approval.deny(…)

Which callback belongs to a run is told by the context in which its request is made, so that threads do not mix theirs up.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextvars import ContextVar
from enum import StrEnum
from typing import Any

import msgspec
from msgspec import Struct

from ronda.agent.approve import Approve, Decision, answer_to
from ronda.core.events import Answered, Asked
from ronda.core.run import Run
from ronda.drive import check_answer
from ronda.wire.shared.approvals import write_tool

log = logging.getLogger("ronda.approve")


class AgentToolSource(StrEnum):
    BuiltIn = "built_in"
    User = "user"
    Mcp = "mcp"
    External = "external"


class AgentToolKind(StrEnum):
    CodeExecution = "code_execution"
    WebSearch = "web_search"
    Shell = "shell"
    File = "file"
    Custom = "custom"
    External = "external"


class AgentTool(Struct, frozen=True):
    """What a person is asked about: `label` is its name for people."""

    source: AgentToolSource
    kind: AgentToolKind
    label: str


class AgentToolApproval(Struct, frozen=True):
    """A call that waits for a person."""

    approval_id: str
    session_id: str
    round: int
    tool: AgentTool
    arguments_json: str
    question: Asked

    @property
    def code(self) -> str | None:
        """Of a call of Python."""
        code = self.arguments().get("code") if self.tool.kind is AgentToolKind.CodeExecution else None
        return code if isinstance(code, str) else None

    def arguments(self) -> dict[str, Any]:
        return self.question.values

    def approve(self, arguments: Mapping[str, Any] | None = None, *, remember: bool = False) -> Answered:
        return self.question.approve(arguments, remember=remember)

    def deny(self, message: str | None = None) -> Answered:
        return self.question.deny(message or "")


Callback = Callable[[AgentToolApproval], Any]
_callback: ContextVar[tuple[Callback | None, Callable[[dict[str, Any]], Any] | None]] = ContextVar("approval_callback")


@contextlib.contextmanager
def deciding(callback: Callback | None, of_code: Callable[[dict[str, Any]], Any] | None) -> Iterator[None]:
    """Runs that begin in here ask `callback`; about Python `of_code`, if it has none: with a plain dictionary."""
    token = _callback.set((callback, of_code))
    try:
        yield
    finally:
        _callback.reset(token)


def find_approve(run: Run) -> Approve | None:
    """Who decides about a run that is begun in here: where there is no decider, and where deciding fails, the answer is no."""
    callback, of_code = _callback.get((None, None))

    def approve(question: Asked) -> Decision | Awaitable[Decision]:
        approval = _approval(run, question)
        try:
            if callback is not None:
                decision = callback(approval)
            elif of_code is not None and approval.tool.kind is AgentToolKind.CodeExecution:
                decision = of_code(_as_dictionary(approval))
            else:
                return question.deny("Agent action requires approval, but no approval handler is configured.")
            if isinstance(decision, Awaitable):
                return _decide_later(run, question, decision)
            return _decide(run, question, decision)
        except Exception as error:
            return _failed(question, error)

    return approve


async def _decide_later(run: Run, question: Asked, decision: Awaitable[Any]) -> Decision:
    try:
        return _decide(run, question, await decision)
    except Exception as error:
        return _failed(question, error)


def _failed(question: Asked, error: Exception) -> Answered:
    log.warning("the approval callback failed", exc_info=error)
    return question.deny("Agent action requires approval, but the approval handler failed.")


def _decide(run: Run, question: Asked, decision: Any) -> Answered:
    """Raises what is wrong with the decision: arguments, for one, that do not fit."""
    answer = _answer(question, decision)
    check_answer(run, answer)
    return answer


def _answer(question: Asked, decision: Any) -> Answered:
    """Also of one that says what was decided, as the original's does, and not about which question."""
    kind = getattr(decision, "decision", None)
    if isinstance(decision, Answered) or kind is None:
        return answer_to(question, decision)
    if kind == "approve":
        return question.approve(remember=bool(decision.remember_for_session))
    return question.deny(decision.message or "")


def _approval(run: Run, question: Asked) -> AgentToolApproval:
    spec = next((one for one in run.plan.tools if one.name == question.tool), None)
    tool = msgspec.convert(write_tool(question.tool, spec), AgentTool)
    return AgentToolApproval(question.id, run.start.session, max(0, run.round - 1), tool, question.arguments, question)


def _as_dictionary(approval: AgentToolApproval) -> dict[str, Any]:
    members = {
        name: getattr(approval, name) for name in ("approval_id", "session_id", "round", "arguments_json", "code")
    }
    return {**members, "tool": msgspec.to_builtins(approval.tool), "arguments": approval.arguments()}
