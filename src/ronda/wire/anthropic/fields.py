"""The fields of a request, and what becomes of each: data, for the reader to go by and for the documentation.

An upstream that speaks Anthropic's dialect is sent its own fields as they came. For one that does not, a field either has a
meaning that can be said otherwise, or changes nothing there, or asks for something that is not to be had.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from msgspec import Raw

from ronda.wire.own import session_fields
from ronda.wire.shared.capabilities import FATES, HOSTED, lack
from ronda.wire.shared.field_table import (
    BACKGROUND,
    DISABLED_TOOLS,
    LINGERS,
    PERMISSION,
    WHOLE,
    Field,
    Reads,
    Table,
    bounded,
)
from ronda.wire.shared.fields import DISABLED, DISABLED_FATE, NOT_HERE, PERMISSION_FATES, bad, field
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


def _up_to(limit: float) -> Reads:
    def read(fields: Mapping[str, Raw], name: str) -> float:
        value: float = field(fields, name, float, 0.0)
        if not 0 <= value <= limit:
            raise bad(name, f"is {value:g}; it must be from 0 to {limit:g}")
        return value

    return Reads(read)


TABLE: Final = Table(
    [
        Field("model", str, "model"),
        Field("messages"),
        Field("system"),
        Field("tools"),
        Field("tool_choice"),
        Field("max_tokens", bounded(1), "options.max_tokens"),
        Field("stop_sequences"),
        Field("temperature", _up_to(2), "options.temperature"),
        Field("top_p", _up_to(1), "options.top_p"),
        Field("stream", bool, "stream"),
        Field("output_format"),
        Field("response_format"),
        Field("reasoning_effort", str, "options.reasoning_effort"),
        Field("seed", WHOLE, "options.seed"),
        Field("max_tool_rounds", bounded(0), "max_tool_rounds"),
        Field("inputs", dict[str, Any], "inputs"),
        Field("on_disconnect", LINGERS, "lingers"),
        Field("background", BACKGROUND, "background"),
        Field("background", LINGERS, "lingers"),
        Field("truncate_sequence", bool, "truncates"),
        Field("approvals"),
        *session_fields.ROWS,
        *[Field(name, PERMISSION, "permission", fate) for name, fate in PERMISSION_FATES.items()],
        Field(DISABLED, DISABLED_TOOLS, "disabled_tools", DISABLED_FATE),
        *[Field(name, fate="passed on") for name in PASSED_ON],
        *[Field(name, fate=f"passed on to Anthropic; elsewhere {why}") for name, why in OWN.items()],
        *[Field(name, fate=f"ignored: {why}") for name, why in IGNORED.items()],
        *[Field(name, fate=f"refused: {why}") for name, why in REFUSED.items()],
        Field("files", fate=OUTPUTS_FATE),
        *[Field(name, fate=fate) for name, fate in FATES.items()],
    ]
)
FIELDS: Final = TABLE.fates
