"""The calls of a finished turn → those that are answered at once, because they will not be run.

A turn that was cut, arguments that cannot be read, a tool that does not exist, a limit that is reached: each gets the result the
model reads instead. Counting how often that happens is the run's affair.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from msgspec import Struct

from ronda.core.actions import Finish
from ronda.core.limits import LimitName
from ronda.core.parts import AssistantTurn, ToolCall, ToolResult
from ronda.core.permissions import approval_of
from ronda.core.plan import Plan, ToolSpec
from ronda.errors import quote_names

_CUT = "Error: not run: your turn was cut off before it was complete. Ask again, more briefly."
_UNREADABLE_SIBLING = "Error: not run: another call of the same turn could not be read. Ask again."

NOT_PERMITTED = "Error: not run: calls of '{}' are not permitted."


class Triage(Struct):
    """`trouble` is the model's, `limit` the run's; `end` is where it may not go on.

    `is_handed_over`: the caller gets calls of its tools, whatever became of the others, and the turn is not asked for again.
    """

    results: dict[str, ToolResult]
    trouble: Literal["cut", "unreadable", "unknown"] | None = None
    limit: LimitName | None = None
    end: Finish | None = None
    is_handed_over: bool = False


def triage(
    turn: AssistantTurn,
    calls: tuple[ToolCall, ...],
    plan: Plan,
    tools: Mapping[str, ToolSpec],
    tokens_used: int,
    calls_made: int,
) -> Triage:
    ours = _not_handed_over(calls, plan, tools)
    is_handed_over = len(ours) < len(calls)
    if turn.stop != "tool_calls":
        return Triage(_all(ours, _CUT), None if is_handed_over else "cut", is_handed_over=is_handed_over)
    if [call for call in ours if call.problem]:
        unread: dict[str, ToolResult] = {}
        for call in ours:
            text = f"Error: {call.problem}" if call.problem else _UNREADABLE_SIBLING
            unread[call.id] = ToolResult(call.id, text, failed=True)
        return Triage(unread, None if is_handed_over else "unreadable", is_handed_over=is_handed_over)
    limits = plan.limits
    if limits.tokens is not None and tokens_used >= limits.tokens:
        spent = f"Error: not run: the run has used its {limits.tokens} tokens."
        limit: LimitName | None = None if is_handed_over else "max_tokens"
        return Triage(_all(ours, spent), limit=limit, is_handed_over=is_handed_over)
    found = Triage({}, is_handed_over=is_handed_over)
    room = None if limits.tool_calls is None else limits.tool_calls - calls_made
    for call in calls:
        spec = tools.get(call.name)
        if spec is None or not plan.choice.allows(call.name):
            found.trouble = "unknown"
            found.results[call.id] = ToolResult(call.id, _no_such_tool(call.name, plan, tools), failed=True)
            if plan.on_unknown_tool == "raise":
                found.end = Finish("failed", message=f"Tool not registered: {call.name}", code="tool_missing")
        elif spec.kind == "caller":
            if plan.on_unknown_tool == "raise":
                missing = f"No handler registered for tool: {call.name} (kind: {spec.declared})"
                found.end = Finish("failed", message=missing, code="tool_missing")
        elif approval_of(plan, spec, call.arguments) == "deny":
            found.results[call.id] = ToolResult(call.id, NOT_PERMITTED.format(call.name), failed=True)
        elif room is not None and room <= 0:
            reached = f"Error: not run: the limit of {limits.tool_calls} tool calls is reached."
            found.results[call.id] = ToolResult(call.id, reached, failed=True)
            found.limit = "max_tool_calls"
        elif room is not None:
            room -= 1
    return found


def _not_handed_over(calls: Sequence[ToolCall], plan: Plan, tools: Mapping[str, ToolSpec]) -> Sequence[ToolCall]:
    """The calls that are not the caller's. It gets its own whatever became of the others, since it may have seen them begin;
    but strict ones that cannot be read have not been shown, and are asked for again."""
    if plan.on_unknown_tool == "raise":
        return calls
    for call in calls:
        if (spec := tools.get(call.name)) is not None and spec.kind == "caller":
            break
    else:
        return calls  # nearly always
    ours = [call for call in calls if not _is_callers(call, plan, tools)]
    if len(ours) < len(calls) and any(call.problem and _is_callers(call, plan, tools) for call in calls):
        return calls
    return ours


def _is_callers(call: ToolCall, plan: Plan, tools: Mapping[str, ToolSpec]) -> bool:
    spec = tools.get(call.name)
    return spec is not None and spec.kind == "caller" and plan.choice.allows(call.name)


def _all(calls: Sequence[ToolCall], text: str) -> dict[str, ToolResult]:
    return {call.id: ToolResult(call.id, text, failed=True) for call in calls}


def _no_such_tool(name: str, plan: Plan, tools: Mapping[str, ToolSpec]) -> str:
    allowed = [tool for tool in tools if plan.choice.allows(tool)]
    there_is = quote_names(allowed) or "no tool at all"
    return f"Error: Tool '{name}' is not available; this agent has {there_is}."
