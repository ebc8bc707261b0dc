"""How a run ended, and what a loop has to add to an answer: the same in all dialects that have no words of their own for it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

from ronda.core.events import ModelFailed, RunFinished

# OpenAI's code, which clients wait for to shorten a conversation.
TOO_LONG: Final = "context_length_exceeded"

# Something of ours broke before the run could end.
BROKE_DOWN: Final = RunFinished("failed", message="the run broke down; the server's log says why")


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


def error_in_stream(end: RunFinished, failure: ModelFailed | None) -> dict[str, Any]:
    message = end.message or f"the run ended: {end.reason}"
    if failure is not None and failure.too_long:
        return {"message": message, "type": "invalid_request_error", "param": None, "code": TOO_LONG}
    return {"message": message, "type": "server_error", "param": None, "code": end.reason}
