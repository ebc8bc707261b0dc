"""The types of fields that vendors' requests have: the tables of the doors' readers say what becomes of a field, not its type.

A field that is not here may be anything: its reader says what is wrong with it.
"""

from __future__ import annotations

from typing import Any, Final

from ronda.server.http.operations import Shape, Words

_TEXTS: Final = (str, [str])
_PERMISSION: Final = Words("auto", "ask", "deny")

FIELD_TYPES: Final[dict[str, Shape]] = {
    **dict.fromkeys(
        (
            "model", "agent_id", "instructions", "name", "description", "user", "session_id", "on_disconnect",
            "previous_response_id", "from_entry_id", "version_message", "file_id", "purpose", "owner", "key", "url",
        ),
        str,
    ),
    **dict.fromkeys(
        (
            "stream", "store", "echo", "background", "parallel_tool_calls", "truncate_sequence",
            "deployment_chat",
        ),
        bool,
    ),
    **dict.fromkeys(
        (
            "n", "best_of", "max_tokens", "max_completion_tokens", "max_output_tokens", "max_tool_rounds",
            "max_tool_calls", "seed", "random_seed", "top_logprobs", "top_k", "dimensions",
        ),
        int,
    ),
    **dict.fromkeys(("temperature", "top_p", "frequency_penalty", "presence_penalty", "min_p"), float),
    **{name: [{"*": Any}] for name in ("messages", "tools", "approvals", "functions", "tool_confirmations")},
    **{
        name: {"*": Any}
        for name in ("metadata", "stream_options", "response_format", "completion_args", "logit_bias")
    },
    **dict.fromkeys(("agent_permission", "code_execution_permission"), _PERMISSION),
    "stop": _TEXTS,
    "prompt": _TEXTS,
    "stop_sequences": [str],
    "file_ids": [str],
    "handoffs": [str],
}  # fmt: skip
