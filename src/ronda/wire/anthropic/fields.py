"""The fields of a request, and what becomes of each: data, for the reader to go by and for the documentation.

An upstream that speaks Anthropic's dialect is sent its own fields as they came. For one that does not, a field either has a
meaning that can be said otherwise, or changes nothing there, or asks for something that is not to be had.
"""

from __future__ import annotations

from typing import Final

from ronda.wire.own import session_fields
from ronda.wire.shared.capabilities import FATES, HOSTED, lack
from ronda.wire.shared.fields import DISABLED, DISABLED_FATE, NOT_HERE, PERMISSION_FATES
from ronda.wire.shared.supplies import OUTPUTS_FATE

_CACHES: Final = "ignored: caches are the upstream's own business"

# What a server must have for them.
NEEDED: Final = ("container", "mcp_servers")

# Anthropic's own → what is done with it where the model speaks another dialect.
OWN: Final[dict[str, str]] = {
    "thinking": "read: as an effort to reason",
    "output_config": "read: `format`, and `effort` as an effort to reason",
    "metadata": "ignored: it is kept with the run",
    "service_tier": "ignored: other upstreams have queues of their own",
    "speed": "ignored: a hint",
    "cache_control": _CACHES,
    "context_management": "ignored: what is sent is kept whole",
    "betas": "ignored: they switch on features of Anthropic's",
    "inference_geo": "refused: where other upstreams compute cannot be chosen",
    "container": "read: its id, and skills on a server with --enable-shell",
    "mcp_servers": f"refused: {lack(HOSTED['mcp_servers'])}",
}

# Sampling that other engines know, under the names they have for it.
PASSED_ON: Final = (
    "top_k", "min_p", "typical_p", "repetition_penalty", "presence_penalty", "frequency_penalty", "logit_bias", "ignore_eos",
    "dry_multiplier", "dry_base", "dry_allowed_length", "dry_sequence_breakers", "grammar", "enable_thinking",
    "chat_template_kwargs", "guide_calls",
)  # fmt: skip

READ: Final = (
    "model", "messages", "system", "tools", "tool_choice", "max_tokens", "stop_sequences", "temperature", "top_p", "stream",
    "output_format", "response_format", "reasoning_effort", "seed", "max_tool_rounds", "inputs", "on_disconnect", "background",
    "truncate_sequence", "approvals", *session_fields.FIELDS, *PERMISSION_FATES, DISABLED,
)  # fmt: skip

IGNORED: Final[dict[str, str]] = {
    "diagnostics": "an answer here has nothing to say of caches",
    "user_profile_id": "whose request it is says its key",
    "workspace_id": "whose request it is says its key",
    "anthropic_version": "the header says it; this is how other clouds do",
}

REFUSED: Final[dict[str, str]] = {
    "thread": "conversations are not held under the id of an answer; send the whole of it",
    "compaction": "this server does not compact a conversation on request",
    "fallbacks": "one model answers a request",
    "fallback_credit_token": "one model answers a request",
    "logprobs": "a message has no place for them",
    "top_logprobs": "a message has no place for them",
    **NOT_HERE,
}

# The API of 2026-10-21 answers 400 to them.
SAMPLING: Final = ("temperature", "top_p", "top_k")

FIELDS: Final[dict[str, str]] = {
    **dict.fromkeys(READ, "read"),
    **dict.fromkeys(PASSED_ON, "passed on"),
    **{name: f"passed on to Anthropic; elsewhere {why}" for name, why in OWN.items()},
    **{name: f"ignored: {why}" for name, why in IGNORED.items()},
    **{name: f"refused: {why}" for name, why in REFUSED.items()},
    "files": OUTPUTS_FATE,
    **FATES,
    **PERMISSION_FATES,
    DISABLED: DISABLED_FATE,
    **session_fields.FIELDS,
}
