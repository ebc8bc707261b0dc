"""How a run ended, and what a loop has to add to an answer: the same in all dialects that have no words of their own for it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from ronda.core.events import ModelInterrupted, RunFinished
from ronda.wire.approvals import write_approval
from ronda.wire.showing import Showing


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
    if approvals := [write_approval(one) for choice in choices for one in choice.approvals.values()]:
        more["approvals"] = approvals
    if with_records and (records := [record for one in choices for record in one.tools.records]):
        more["agentic_tool_calls"] = records
    if with_records and (files := [file for one in choices for file in one.tools.files]):
        more["files"] = files
    for one in choices:
        if one.run.ended is not None and one.run.ended.limit is not None:
            more["limit"] = one.run.ended.limit
            break
    for one in choices:
        if one.warnings:
            warnings = [*warnings, *one.warnings]
    if warnings:
        more["warnings"] = warnings
    return more


# ---- in the words of Chat Completions, which Mistral's completions have too --------------------------------------------


_REASONS: Final = {"limit": "stop", "failed": "error", "cancelled": "error", "interrupted": "error"}


def finish_reason(end: RunFinished | None) -> str:
    reason = end.reason if end is not None else "failed"
    return _REASONS.get(reason, reason)
