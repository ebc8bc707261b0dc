"""How a run ends: at a limit, or with what the model said last."""

from __future__ import annotations

from ronda.core.actions import Finish
from ronda.core.events import EndReason
from ronda.core.limits import LimitName, Limits

LIMIT_ANSWER = "I reached the limit of this run before I had an answer."

# Why a model stopped → how the run ends that it was the last word of.
END_OF: dict[str, EndReason] = {
    "stop": "stop",
    "tool_calls": "stop",
    "length": "length",
    "content_filter": "content_filter",
    "interrupted": "failed",
}


def end_at(limit: LimitName, limits: Limits) -> Finish | None:
    """How the plan wants a run to end at a limit; None for one last answer with tools off."""
    if limits.on_limit == "error":
        messages = {
            "max_tool_rounds": f"Agent loop exceeded {limits.rounds} iterations",
            "max_tool_calls": f"Agent loop exceeded {limits.tool_calls} tool calls",
            "max_tokens": f"Agent loop exceeded {limits.tokens} tokens",
            "unknown_tool": "the model kept asking for tools that do not exist",
            "unreadable_calls": "the model kept writing tool calls that cannot be read",
        }
        return Finish("limit", limit, messages[limit])
    if limit == "max_tokens":  # a last call would cost more of what there is no more of
        return Finish("limit", limit, f"the run used its {limits.tokens} tokens", LIMIT_ANSWER)
    return None
