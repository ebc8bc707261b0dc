"""A run in our own words: what GET /v1/runs/{id} says of it. What happened in it is said by `wire.own.events`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ronda.core.calls import HANDED_OVER
from ronda.core.events import WITHOUT_ANSWER, Event, ModelInterrupted, RunFinished
from ronda.core.run import Run
from ronda.core.transcript import final_text
from ronda.wire.own.events import wire_event


def write_run(run: Run, state: str, facts: int, events: Iterable[Event]) -> dict[str, Any]:
    """`facts` is how many there are: the position of the last is one less. `events` have those that can be told by now."""
    start, end = run.start, run.ended
    return {
        "object": "run",
        "id": run.id,
        "state": state,
        "model": run.plan.model,
        "agent": start.agent or None,
        "session": start.session or None,
        "parent": None
        if start.parent is None
        else {"run": start.parent[0], "facts": start.parent[1], "call": start.call or None},
        "created_at": start.at,
        "ended_at": None if end is None else end.at,
        "position": str(facts - 1),
        "questions": [wire_event(question, run.tools) for question in run.questions],
        "result": None if end is None else _result(run, end),
        # Answers that broke off after part of them was shown: none of it is part of the result.
        "incomplete": [
            {"text": event.turn.text, "reason": event.reason}
            for event in events
            if type(event) is ModelInterrupted and event.turn.parts
        ],
        "end": None
        if end is None
        else {"reason": end.reason, "limit": end.limit, "message": end.message, "code": end.code},
        "usage": {
            "input_tokens": run.usage.input,
            "output_tokens": run.usage.output,
            "cached_tokens": run.usage.cached,
            "reasoning_tokens": run.usage.reasoning,
            "cost": run.usage.cost,
            "cache_written_tokens": run.usage.cache_written,
            "rounds": run.round,
            "tool_calls": run.tool_calls,
        },
        "budget": run.budget,
    }


def _result(run: Run, end: RunFinished) -> dict[str, Any] | None:
    """The answer, and the calls that are the caller's to run; none of a run that came to nothing."""
    if end.reason in WITHOUT_ANSWER:
        return None
    calls = run.open_calls if end.reason in HANDED_OVER else ()
    return {
        "text": end.answer or final_text(run),
        "tool_calls": [{"id": call.id, "name": call.name, "arguments": call.arguments} for call in calls],
    }


def write_summary(
    run: str, state: str, agent: str, session: str, started: float, ended: float | None
) -> dict[str, Any]:
    """The same in a list, as far as that is known without reading what happened."""
    return {
        "object": "run",
        "id": run,
        "state": state,
        "agent": agent or None,
        "session": session or None,
        "created_at": started,
        "ended_at": ended,
    }
