"""The state of a run without a waiting client: the members that a door's own object gets besides those of its dialect."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, TypeAlias

from ronda.core.events import RunFinished
from ronda.core.run import Run

Status: TypeAlias = Literal[
    "queued", "in_progress", "requires_action", "completed", "incomplete", "failed", "cancelled"
]


def status_of(run: Run) -> Status:
    if run.ended is not None:
        return _status_at(run.ended)
    if run.is_waiting:
        return "requires_action"
    has_begun = run.round > 0 or run.model_is_running or run.questions_asked > 0
    return "in_progress" if has_begun else "queued"


def _status_at(end: RunFinished) -> Status:
    match end.reason:
        case "failed" | "interrupted":
            return "failed"
        case "cancelled":
            return "cancelled"
        case "length" | "content_filter":
            return "incomplete"
        case "limit" if end.limit == "max_seconds":
            return "incomplete"
    return "completed"


# Of several choices the first of these that one of them has, while they are not all the same.
_FIRST: tuple[Status, ...] = ("in_progress", "requires_action", "queued", "failed", "cancelled", "incomplete")


def status_of_all(runs: Sequence[Run]) -> Status:
    each = [status_of(run) for run in runs]
    if "queued" in each and set(each) != {"queued"}:
        return "in_progress"
    return next((status for status in _FIRST if status in each), "completed")


def progress(runs: Sequence[Run], queue_position: int | None) -> dict[str, Any]:
    """How far they have come. `queue_position` is how many runs wait before them."""
    members: dict[str, Any] = {
        "rounds": sum([run.round for run in runs]),
        "tool_calls": sum([run.tool_calls for run in runs]),
    }
    return members if queue_position is None else {"queue_position": queue_position, **members}
