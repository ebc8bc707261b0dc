"""What becomes of the fields of requests, where no reader goes by a table of its own: for `make_compatibility`."""

from __future__ import annotations

from typing import Final, get_args

from ronda.server.doors.own.run_lists import LONGEST_PAGE, MOST_PIECES, PAGE, PIECES
from ronda.server.services.run_states import SHOWN_STATES
from ronda.wire import run_request, session_fields
from ronda.wire.app_stream.parameters import GenerationType, InputMode, Stack
from ronda.wire.approvals import FATE
from ronda.wire.capabilities import fate, hosted_by
from ronda.wire.fields import BACKGROUND, DISCONNECT, PERMISSION_FATES
from ronda.wire.mistral.handoffs import MOST_HANDOFFS
from ronda.wire.mistral.server_request import MAX_CHOICES, REFUSED
from ronda.wire.openai_responses import client_calls
from ronda.wire.openai_responses.tools import HOSTED, OFFERED

_TO_MISTRAL: Final = "passed on to Mistral upstreams"
_HANDOFF: Final = (
    f"read: `server` if left out, for {MOST_HANDOFFS} handoffs in one answer at the most; after one with `client` the answer "
    "ends, and the next append, which may be empty, goes to the next agent"
)
_BESIDE: Final = "; beside functions it is left out, with a warning"

APPROVALS: Final = {
    "POST /v1/agent/approvals/{id}": {
        "decision": "read: approve, deny",
        "message": "read: what the model is told of a no",
        "remember_for_session": "read: with approve; every later call of this tool in this run, and in its session, is approved",
        "arguments": "read (ours): with approve; other arguments for the call",
    },
}

_CHOSEN_RUNS: Final = {
    "state": "read: " + ", ".join(SHOWN_STATES) + "; several with commas, or given again",
    "session": "read",
    "agent": "read: its name; several likewise",
    "model": "read: its name; several likewise",
    "q": "read: a text in the first words, the model, the agent or the id",
    "since": "read: when runs began, in seconds since 1970, or as 2026-01-31T12:00:00Z",
    "until": "read: likewise",
    "min_cost": "read: in US dollars",
    "children": "read: false leaves out runs that are calls of others",
    "parent": "read: a run; those that go on from it, or are calls of it",
    "root": "read: a run; it, and all that go on from it",
    "group": "read: the variants of one request, in their order",
}
RUNS: Final = {
    "GET /v1/runs": {
        **_CHOSEN_RUNS,
        "limit": f"read: up to {LONGEST_PAGE}; {PAGE} if left out",
        "before": "read: `next` of the page before",
    },
    "GET /v1/runs/summary": {
        **_CHOSEN_RUNS,
        "span": "read: how far back from `until` (or now), such as 1h or 7d; 24h if left out",
        "pieces": f"read: of the histogram, up to {MOST_PIECES}; {PIECES} if left out",
    },
    "GET /v1/events": {
        "run": "read: runs whose events ride along, up to 8; with commas, or given again",
        "after": "read: the id of the last event that was seen; the header Last-Event-ID goes before it",
    },
    "POST /v1/runs": run_request.FIELDS,
    "POST /v1/runs/{id}/steer": {"text": "read: what the model hears with its next call"},
    "POST /v1/runs/{id}/answer": {
        "id": "read: of the question",
        "decision": "read: approve, deny",
        "arguments": "read: other arguments for the call; the answer to a question of kind `input`",
        "message": "read: what the model is told of a no",
        "remember": "read: the same for every later call of this tool in this run",
    },
    "GET /v1/runs/{id}/events": {
        "after": "read: a position, such as 12 or 12.345; the header Last-Event-ID goes before it"
    },
}

SESSIONS: Final = {
    "GET /v1/sessions": {
        "limit": f"read: up to {LONGEST_PAGE}; {PAGE} if left out",
        "before": "read: `next` of the page before",
        "q": "read: a text in the title, the id, or the first words of a run",
    },
    "GET /v1/sessions/{id}": {
        "branch": "read: the id of a branch; the session as it stands if left out",
        "limit": "read: up to 200; a page of turns from the end, with their runs and rounds, in the place of the document",
        "before": "read: with `limit`; `next` of the page after it",
    },
    "PUT /v1/sessions/{id}": {
        "messages": "read: plain, or with tagged values as mistral.rs writes them",
        "images": "read: base64; for parts of type `image`, in their order",
        "videos": "refused: a part of type `video_url` is taken",
        "files": "read: `{name, content}` with base64, on a server that runs code; elsewhere ignored",
        "title": "read",
        "metadata": "read",
        "turns": "read: what messages cannot say; where it says the same as `messages`",
        "any other": "ignored",
    },
    "PATCH /v1/sessions/{id}": {
        "title": "read",
        "metadata": "read: in the place of what was there",
        "branch": "read: the id of a branch that the session goes on with",
    },
    "POST /v1/sessions/{id}/fork": {
        "id": "read: of the copy; Ronda makes one if left out",
        "num_turns": "read: up to the answer of this number; all if left out",
        "run": "read: up to this run of the session, on whichever branch it is",
        "round": "read: up to this round of the run; rounds count from 0",
    },
}

TOOL_CHOICE: Final = {"type": "read", "name": "read", "disable_parallel_tool_use": "read"}

APP_STREAM: Final = {
    "generatedCodeConfig": "read: " + ", ".join(get_args(Stack)),
    "inputMode": "read: " + ", ".join(get_args(InputMode)),
    "generationType": "read: " + ", ".join(get_args(GenerationType)) + "; create if left out",
    "prompt": "read: `text`, or `fullText` in its place; `images` and `videos` are data URLs",
    "history": "read: messages with `role`, `text`, `images`, `videos`; with them an update does without `prompt`",
    "fileState": "read: `path` and `content` of the page as it is",
    "optionCodes": "read: pages that the model can look at",
    "isImageGenerationEnabled": "read",
    "isAssetExtractionEnabled": "read",
    "designSystem": "read",
    **dict.fromkeys(
        ("openAiApiKey", "anthropicApiKey", "geminiApiKey", "replicateApiKey", "screenshotOneApiKey", "openAiBaseURL"),
        "ignored: never read, never kept",
    ),
    "codeGenerationModel": "ignored: the server's own models write pages",
}

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
    "background": BACKGROUND,
}

ENTRIES: Final = {
    "message.input": "read",
    "message.output": "read",
    "function.call": "read: a call of a function of the caller's",
    "function.result": "read",
    "tool.execution": "read: a call and what came of it",
    "agent.handoff": "read: kept in the history; the model is told nothing of it",
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
    "tools": "read: beside the agent's; one of the same name takes its place",
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

RESPONSE_TOOLS: Final = {
    "function": "read",
    "namespace": "read: its functions are called NAMESPACE.NAME by the model",
    "custom": "read: for the model a function of one text, `input`, that is told the grammar it has to follow",
    **{
        type: fate(hosted) + (_BESIDE if type in OFFERED else "")
        for type in HOSTED
        if (hosted := hosted_by(type)) is not None
    },
    **dict.fromkeys(
        client_calls.OFFERED, "read: the client runs it; a model of another API is offered a function instead"
    ),
    "shell": "read: in a container on a server with --enable-shell, else refused; without one the client runs it",
}

# Clients of Mistral's that come to the address of Chat Completions, and what they get.
MISTRAL_CLIENTS = {
    "mistralai, ai-sdk/mistral": "known by their names: a stream has each call in one piece, and ids are nine letters and digits",
    "LangChain (JavaScript)": "known by `safe_prompt`, which it always sends: the same",
    "LangChain (Python), langchain-mistralai": "has no name of its own. Say one of Mistral's words "
    "(`ChatMistralAI(random_seed=…)`, or `model_kwargs={'safe_prompt': False}`), and it gets the same. Without one it loses "
    "tool calls that are streamed, which it takes for several, and ids that are not nine letters and digits, which it changes: "
    "a turn with calls of the server's and its own is not found again. Plain answers and text are as they should be",
}
