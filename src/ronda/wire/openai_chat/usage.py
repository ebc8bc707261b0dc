"""What a run used → what Chat Completions says about it."""

from __future__ import annotations

from typing import Any

from ronda.core.parts import Usage


def write_usage(usage: Usage) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "prompt_tokens": usage.input,
        "completion_tokens": usage.output,
        "total_tokens": usage.input + usage.output,
        "prompt_tokens_details": {"cached_tokens": usage.cached},
        "completion_tokens_details": {"reasoning_tokens": usage.reasoning},
    }
    if usage.cost is not None:  # OpenRouter's name for it
        fields["cost"] = usage.cost
    prompt, completion = usage.prompt_seconds, usage.completion_seconds
    if prompt or completion:  # an engine of ours, which knows
        fields |= {
            "avg_tok_per_sec": _rate(usage.total, prompt + completion),
            "avg_prompt_tok_per_sec": _rate(usage.input, prompt),
            "avg_compl_tok_per_sec": _rate(usage.output, completion),
            "total_time_sec": round(prompt + completion, 3),
            "total_prompt_time_sec": round(prompt, 3),
            "total_completion_time_sec": round(completion, 3),
        }
    return fields


def _rate(tokens: int, seconds: float) -> float:
    return round(tokens / seconds, 2) if seconds else 0.0
