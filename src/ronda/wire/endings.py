"""How a run ended, and what a loop has to add to an answer: the same in all dialects that have no words of their own for it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from ronda.core.events import RunFinished


def has_answer(end: RunFinished) -> bool:
    """Whether what the model said last is the answer: it may have been held back until it was checked."""
    return end.reason in ("stop", "length", "content_filter", "limit")


def extensions(
    session: str | None,
    ends: Iterable[RunFinished | None],
    warnings: Sequence[str],
    records: Sequence[dict[str, Any]] = (),
) -> dict[str, Any]:
    """What a loop adds to the dialect, beside the answer's own members."""
    more: dict[str, Any] = {}
    if session:
        more["session_id"] = session
    if records:
        more["agentic_tool_calls"] = records
    for end in ends:
        if end is not None and end.limit is not None:
            more["limit"] = end.limit
            break
    if warnings:
        more["warnings"] = warnings
    return more


# ---- in the words of Chat Completions, which Mistral's completions have too --------------------------------------------


def finish_reason(end: RunFinished | None) -> str:
    reason = end.reason if end is not None else "failed"
    return {"limit": "stop", "failed": "error", "cancelled": "error"}.get(reason, reason)
