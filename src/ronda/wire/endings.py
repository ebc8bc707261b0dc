"""How a run ended, and what a loop has to add to an answer: the same in all dialects that have no words of their own for it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from ronda.core.calls import HANDED_OVER
from ronda.core.events import ModelInterrupted, RunFinished


def has_answer(end: RunFinished) -> bool:
    """Whether what the model said last is the answer: it may have been held back until it was checked."""
    return end.reason in ("stop", "length", "content_filter", "limit")


def interruption(broken: ModelInterrupted) -> dict[str, Any]:
    """What is said where a new attempt begins: what was shown of the one before is not part of the answer."""
    return {"model_interrupted": {"reason": broken.reason}}


def has_calls(end: RunFinished) -> bool:
    """Whether the caller gets the calls of its tools that the last turn made."""
    return end.reason in HANDED_OVER


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
