"""What becomes of the fields of requests in Mistral's APIs: for docs/compatibility.md, and for GET /openapi.json.

The readers of these APIs check places of a body one by one, and go by no table.
"""

from __future__ import annotations

from typing import Final

from ronda.wire.mistral.handoffs import MOST_HANDOFFS
from ronda.wire.mistral.server_request import MAX_CHOICES, REFUSED
from ronda.wire.own import session_fields
from ronda.wire.shared.approvals import FATE
from ronda.wire.shared.fields import BACKGROUND, DISABLED, DISABLED_FATE, DISCONNECT, PERMISSION_FATES

_TO_MISTRAL: Final = "passed on to Mistral upstreams"
_HANDOFF: Final = (
    f"read: `server` if left out, for {MOST_HANDOFFS} handoffs in one answer at the most; after one with `client` the answer "
    "ends, and the next append, which may be empty, goes to the next agent"
)

AGENT: Final = {
    "model": "read: a model of this server",
    "name": "read",
    "instructions": "read: a system message before the caller's",
    "tools": "read",
    "completion_args": "read: they hold where a request says nothing",
    "guardrails": "read: passed on to Mistral upstreams, elsewhere 403 with block_on_error, else a warning",
    "description": "read: kept",
    "handoffs": "read: agents of the same key, each offered as a tool; one that is deleted later is not offered any more",
    "metadata": "read: kept",
    "version_message": "read: kept with the version",
    "deployment_chat": "read: kept (updates only)",
}

START: Final = {
    "inputs": "read",
    "stream": "read",
    "store": "read: false keeps nothing, and the conversation cannot be continued",
    "handoff_execution": _HANDOFF,
    "instructions": "read: with 'model'",
    "tools": "read: with 'model'",
    "completion_args": "read: with an agent, for this answer",
    "guardrails": "read: passed on to Mistral upstreams, elsewhere 403 with block_on_error, else a warning",
    "name": "read",
    "description": "read",
    "metadata": "read",
    "agent_id": "read: an agent or a model of this server",
    "agent_version": "read",
    "model": "read: a model of this server",
    "max_tool_rounds": "read (ours)",
    "truncate_sequence": "read (ours): what the model finds too long is cut at its beginning, with a warning",
    "on_disconnect": DISCONNECT,
    "agent_permission": PERMISSION_FATES["agent_permission"],
    DISABLED: DISABLED_FATE,
    "background": BACKGROUND,
}

APPEND: Final = {
    "inputs": "read",
    "stream": "read",
    "store": "read: false answers without adding to the conversation",
    "handoff_execution": _HANDOFF,
    "completion_args": "read: for this answer",
    "tool_confirmations": "read: of the calls that the last answer waits for, by their tool_call_id or approval_id",
    "max_tool_rounds": "read (ours)",
    "truncate_sequence": "read (ours): what the model finds too long is cut at its beginning, with a warning",
    "on_disconnect": DISCONNECT,
    "agent_permission": PERMISSION_FATES["agent_permission"],
    DISABLED: DISABLED_FATE,
    "background": BACKGROUND,
}

RESTART: Final = {
    "from_entry_id": "read: the last entry that the new conversation has from the old one",
    "inputs": "read",
    "stream": "read",
    "store": "read: false keeps nothing of the new conversation",
    "handoff_execution": _HANDOFF,
    "completion_args": "read: for this answer",
    "guardrails": "read: as in a start",
    "metadata": "read: the old conversation's if left out",
    "agent_version": "read: the agent's current version if left out",
    "max_tool_rounds": "read (ours)",
    "truncate_sequence": "read (ours): what the model finds too long is cut at its beginning, with a warning",
    "on_disconnect": DISCONNECT,
    "agent_permission": PERMISSION_FATES["agent_permission"],
    DISABLED: DISABLED_FATE,
    "background": BACKGROUND,
}

COMPLETION: Final = {
    "messages": "read",
    "agent_id": "read: a stored agent (ID, or ID@VERSION, or ID@ALIAS), or a model of this server",
    "max_tokens": "read",
    "stream": "read",
    "stop": "read",
    "random_seed": "read: the upstream's seed",
    "metadata": f"read: kept with the run; {_TO_MISTRAL}",
    "response_format": "read",
    "tools": "read: besides the agent's; one of the same name takes its place",
    "tool_choice": "read",
    "presence_penalty": "passed on",
    "frequency_penalty": "passed on",
    "n": f"read: up to {MAX_CHOICES}",
    "prediction": "passed on to Mistral and Chat Completions upstreams; elsewhere a hint that is dropped",
    "parallel_tool_calls": "read",
    "reasoning_effort": "read",
    "prompt_mode": f"{_TO_MISTRAL}; elsewhere our own reasoning prompt and the upstream's switch",
    "guardrails": f"{_TO_MISTRAL}; elsewhere there is no moderation: 403 with block_on_error, else a warning",
    "prompt_cache_key": "passed on to Mistral and OpenAI upstreams; elsewhere a hint that is dropped",
    "min_tokens": "passed on",
    "repetition_penalty": "passed on",
    "top_k": "passed on",
    "logprobs": "passed on",
    "top_logprobs": "passed on",
    "prompt_logprobs": "refused unless false: upstreams do not give them",
    "top_prompt_logprobs": "refused unless 0: upstreams do not give them",
    "service_tier": "ignored: this server has one tier",
    "max_tool_rounds": "read (ours)",
    **session_fields.FIELDS,
    "inputs": "read (ours): of an agent that has some",
    "truncate_sequence": "read (ours): what the model finds too long is cut at its beginning, with a warning",
    "on_disconnect": DISCONNECT,
    "agent_permission": PERMISSION_FATES["agent_permission"],
    DISABLED: DISABLED_FATE,
    "background": BACKGROUND,
    "approvals": FATE,
    "grammar": "passed on (ours)",
    **dict.fromkeys(
        ("min_p", "typical_p", "logit_bias", "ignore_eos", "enable_thinking", "chat_template_kwargs", "guide_calls"),
        "passed on (ours)",
    ),
    **dict.fromkeys(("dry_multiplier", "dry_base", "dry_allowed_length", "dry_sequence_breakers"), "passed on (ours)"),
    **{name: f"refused: {why}" for name, why in REFUSED.items()},
}

MESSAGES: Final = {
    "role": "read",
    "content": "read",
    "tool_calls": "read: arguments as an object or a string",
    "prefix": "read: the answer begins with this content; of the last message only",
    "tool_call_id": "read",
    "name": "ignored: the call that a result answers names the tool",
}

ENTRIES: Final = {
    "message.input": "read",
    "message.output": "read",
    "function.call": "read: a call of a function of the caller's",
    "function.result": "read",
    "tool.execution": "read: a call and its result",
    "agent.handoff": "read: kept in the history; the model is told nothing of it",
}

CHUNKS: Final = {
    "text": "read",
    "image_url": "read",
    "document_url": "read",
    "reference": "read: a note to the model in a user's message; sent back to a Mistral upstream in an assistant's",
    "file": "read: passed on by its id",
    "thinking": "read: the text of it in a system message; sent back to a Mistral upstream in an assistant's",
    "input_audio": "read",
    "tool_reference": "read: a note to the model in a user's message; sent back to a Mistral upstream in an assistant's",
    "tool_file": "read: passed on by its id",
    "resource": "read: what it holds",
    "resource_link": "read: a note to the model",
}
