"""How a run ended, and what a loop has to add to an answer: the same in all dialects that have no words of their own for it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from ronda.core.events import ModelInterrupted, RunFinished
from ronda.wire.shared.approvals import write_approval
from ronda.wire.shared.showing import Showing


def interruption(broken: ModelInterrupted) -> dict[str, Any]:
    """What is said where a new attempt begins: what was shown of the one before is not part of the answer."""
    return {"model_interrupted": {"reason": broken.reason}}


def extensions(
    session: str | None, choices: Sequence[Showing], warnings: Sequence[str], *, with_records: bool = False
) -> dict[str, Any]:
    """What a loop adds to the dialect, beside the answer's own members."""
    more: dict[str, Any] = {}
    if session:
        more["session_id"] = session
    for choice in choices:  # most have nothing to add
        if approvals := choice.approvals():
            _add(more, "approvals", list(map(write_approval, approvals.values())))
        if with_records and choice.tools.has_records():
            _add(more, "agentic_tool_calls", choice.tools.records)
            _add(more, "files", choice.tools.files)
        end = choice.run.ended
        if end is not None and end.limit is not None:
            more.setdefault("limit", end.limit)
        if choice.run.budget is not None:
            more["budget"] = choice.run.budget
        if choice.warnings:
            warnings = [*warnings, *choice.warnings]
    if warnings:
        more["warnings"] = warnings
    return more


def _add(more: dict[str, Any], name: str, values: Sequence[Any]) -> None:
    if values:
        more[name] = [*more.get(name, ()), *values]


# ---- in the words of Chat Completions, which Mistral's completions have too --------------------------------------------


_REASONS: Final = {"limit": "stop", "failed": "error", "cancelled": "error", "interrupted": "error"}


def finish_reason(end: RunFinished | None) -> str:
    reason = end.reason if end is not None else "failed"
    return _REASONS.get(reason, reason)
