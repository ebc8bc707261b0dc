"""The addresses of our own API, described: what each takes and answers. From these the clients are printed."""

from __future__ import annotations

from typing import Any, Final

from ronda.server.doors.own.events import MOST_RUNS
from ronda.server.doors.own.run_lists import LONGEST_PAGE, MOST_PIECES, PAGE, PIECES
from ronda.server.http.operations import Field, Named, Operation, Shape, Words
from ronda.server.services.run_states import SHOWN_STATES
from ronda.wire.own import events
from ronda.wire.own.run_request import FIELDS as RUN_FIELDS
from ronda.wire.own.run_request import MAX_VARIANTS


def page_of(shape: Shape) -> Shape:
    return {"object": "list", "data": [shape], "has_more": bool}


def _pages_of(shape: Shape) -> Shape:
    return {**page_of(shape), "next": (str, None)}


_STATE: Final = Words(*SHOWN_STATES)
_NEXT_PAGE: Final[Field] = (str, "`next` of the page before")


def _limit(most: int, default: int) -> Field:
    return (int, f"up to {most}; {default} if left out")


def _event_schema() -> dict[str, Any]:
    schema = events.schema()
    del schema["$schema"], schema["title"]
    found: dict[str, Any] = _with_components(schema)
    return found


def _with_components(schema: Any) -> Any:
    """Names within a document of its own → names among the components."""
    if isinstance(schema, dict):
        return {
            name: value.replace("#/$defs/", "#/components/schemas/")
            if name == "$ref"
            else {key: one.replace("#/$defs/", "#/components/schemas/") for key, one in value.items()}
            if name == "mapping"
            else _with_components(value)
            for name, value in schema.items()
        }
    return [_with_components(one) for one in schema] if isinstance(schema, list) else schema


RUN_EVENT: Final = Named("RunEvent", schema=_event_schema())
_USAGE: Final = {"input_tokens": int, "output_tokens": int, "cached_tokens": int, "reasoning_tokens": int}
BUDGET: Final = Named(
    "BudgetState",
    {
        "scope": str,
        "per": str,
        "unit": str,
        "limit": float,
        "spent": float,
        "reserved": float,
        "remaining": float,
        "currency?": (str, None),
    },
    "How far a budget is used.",
)
RUN_ROW: Final = Named(
    "RunRow",
    {
        "object": "run",
        "id": str,
        "state": _STATE,
        "agent": (str, None),
        "session": (str, None),
        "created_at": float,
        "ended_at": (float, None),
        "model": (str, None),
        "input": (str, None),
        "parent": ({"run": str, "call": (str, None)}, None),
        "group": (str, None),
        "rounds": (int, None),
        "tool_calls": (int, None),
        "usage": (_USAGE, None),
        "cost": (float, None),
        "end": ({"reason": str, "limit": (str, None), "code": (str, None)}, None),
        "questions": [{"id": str, "kind": str, "tool": (str, None), "asked_at": float}],
        "kept": bool,
    },
    "A run as lists have it.",
)
RUN: Final = Named(
    "Run",
    {
        "object": "run",
        "id": str,
        "state": _STATE,
        "model": str,
        "agent": (str, None),
        "session": (str, None),
        "parent": ({"run": str, "facts": int, "call": (str, None)}, None),
        "created_at": float,
        "ended_at": (float, None),
        "position": str,
        "questions": [RUN_EVENT],
        "result": ({"text": str, "tool_calls": [{"id": str, "name": str, "arguments": str}]}, None),
        "incomplete": [{"text": str, "reason": str}],
        "end": ({"reason": str, "limit": (str, None), "message": (str, None), "code": (str, None)}, None),
        "usage": {**_USAGE, "cost": (float, None), "cache_written_tokens": int, "rounds": int, "tool_calls": int},
        "budget": (BUDGET, None),
        "group": (str, None),
        "previews": Words("kept", "gone"),
        "files?": {"*": str},
        "queue_position?": int,
    },
    "How a run stands, and its result.",
)
_ENDED_RUN: Final = {"id": str, "object": "run", "owner": str, "state": "cancelled"}
_FEED_EVENT: Final = Named(
    "OwnerEvent",
    {"type": str, "at?": float, "run?": Any, "question?": Any, "session?": Any, "position?": str, "event?": RUN_EVENT},
    "What happens to an owner's runs and sessions: `run_started`, `run_changed`, `asked`, `answered`, `session_changed`, "
    "`run_event`, `ready`, `reset`.",
)
APPROVAL: Final = Named(
    "Approval",
    {
        "type": str,
        "approval_id": str,
        "session_id": str,
        "round": int,
        "tool": {"source": str, "kind": str, "label": str},
        "arguments": Any,
        "tool_name": str,
        "tool_call_id": str,
        "expires_at": (float, None),
        "run_id": str,
        "created_at": float,
        "reason?": str,
        "question?": str,
        "message?": str,
        "schema?": Any,
    },
    "A call that waits for a person.",
)
SESSION: Final = Named(
    "Session",
    {
        "id": str,
        "object": "session",
        "created_at": float,
        "updated_at": float,
        "turns": int,
        "bytes": int,
        "title": (str, None),
        "metadata": {"*": Any},
        "branch": str,
        "state?": (str, None),
        "run?": (str, None),
    },
    "A conversation that the server keeps.",
)
_SESSION_PAGE: Final = Named(
    "SessionDocument",
    {
        "messages?": [{"*": Any}],
        "data?": [
            {
                "index": int,
                "run": (str, None),
                "round": (int, None),
                "at": float,
                "messages": [{"*": Any}],
                "turn?": {"*": Any},
            }
        ],
        "has_more?": bool,
        "next?": (str, None),
    },
    "A session to be moved; with `limit` in the query a page of its turns, to be shown.",
)
_TOOL: Final = Named(
    "Tool",
    {
        "object": "tool",
        "name": str,
        "label": str,
        "description": str,
        "source": {"kind": str, "type": (str, None), "server": (str, None)},
        "labels": [str],
        "approval": (str, None),
        "parameters": {"*": Any},
        "offered": bool,
    },
    "What a model here may call.",
)
_MCP_SERVER: Final = Named(
    "McpServer",
    {
        "name": str,
        "transport": str,
        "era": str,
        "state": str,
        "tools": int,
        "last_error": (str, None),
        "since": float,
    },
    "How an MCP server fares.",
)
_SENT: Final = {"object": str, "model": str}
_APPROVED: Final = page_of({"kind": Words("tool", "send"), "tool": str, "expires_at": float})

_CHOSEN_RUNS: Final[dict[str, Field]] = {
    "state": (str, ", ".join(SHOWN_STATES) + "; several with commas, or given again"),
    "session": (str, "its name"),
    "agent": (str, "its name; several likewise"),
    "model": (str, "its name; several likewise"),
    "q": (str, "a text in the first words, the model, the agent or the id"),
    "since": ((str, float), "when runs began, in seconds since 1970, or as 2026-01-31T12:00:00Z"),
    "until": ((str, float), "likewise"),
    "min_cost": (float, "in US dollars"),
    "children": (bool, "false leaves out runs that are calls of others"),
    "parent": (str, "a run; those that go on from it, or are calls of it"),
    "root": (str, "a run; it, and all that go on from it"),
    "kept": (bool, "true leaves out runs without the mark"),
    "group": (str, "the variants of one request, in their order"),
}
_RUN_TYPES: Final[dict[str, Shape]] = {
    "input": (str, [{"*": Any}]),
    "model": (str, [str]),
    "instructions": str,
    "variants": int,
    "files": {"*": str},
    "disabled_tools": [str],
    "parent": str,
}
_DECISION: Final = Words("approve", "deny")

RUNS: Final[dict[str, Operation]] = {
    "POST /v1/runs": Operation(
        name="start_runs",
        summary=f"Start a run, or up to {MAX_VARIANTS} variants of it, that no client waits for",
        fields={
            name: (_RUN_TYPES[name], said.removeprefix("read: ")) if name in _RUN_TYPES else said
            for name, said in RUN_FIELDS.items()
        },
        needs=("input",),
        answer={"object": "run_group", "id": (str, None), "data": [RUN_ROW]},
        status=202,
    ),
    "GET /v1/runs": Operation(
        name="list_runs",
        summary="List your runs, the newest first",
        query={**_CHOSEN_RUNS, "limit": _limit(LONGEST_PAGE, PAGE), "before": _NEXT_PAGE},
        answer=_pages_of(RUN_ROW),
    ),
    "GET /v1/runs/summary": Operation(
        name="summarize_runs",
        summary="Count your runs, by state and over time",
        query={
            **_CHOSEN_RUNS,
            "span": (str, "how far back from `until` (or now), such as 1h or 7d; 24h if left out"),
            "pieces": (int, f"of the histogram, up to {MOST_PIECES}; {PIECES} if left out"),
        },
        answer={
            "object": "run_summary",
            "since": float,
            "until": float,
            "step": float,
            "states": {"*": int},
            "histogram": [{"at": float, "states": {"*": int}}],
        },
    ),
    "GET /v1/runs/{id}": Operation(name="get_run", summary="How a run stands, and its result", answer=RUN),
    "PATCH /v1/runs/{id}": Operation(
        name="mark_run",
        summary="Mark a run that was chosen among its variants",
        fields={"kept": (bool, "whether it was chosen")},
        needs=("kept",),
        answer=RUN_ROW,
    ),
    "GET /v1/runs/{id}/events": Operation(
        name="follow_run",
        summary="Follow what happens in a run, as server-sent events",
        query={"after": (str, "a position, such as 12 or 12.345; the header Last-Event-ID goes before it")},
        answer=None,
        events=RUN_EVENT,
        others={204: None},
    ),
    "GET /v1/runs/{id}/rounds/{round}/request": Operation(
        name="get_round_request",
        summary="Exactly what the model was sent in a round; rounds count from 0",
        answer={**_SENT, "run": str, "round": int, "cached_tokens": (int, None)},
    ),
    "GET /v1/runs/{id}/cassette": Operation(
        summary="A run as a file that can be played again", answer=str, kind="application/jsonl"
    ),
    "POST /v1/runs/{id}/cancel": Operation(
        name="cancel_run",
        summary="End a run that is under way",
        query={"owner": (str, "of another owner's run; the key needs the scope `operate:write`")},
        answer=(RUN, _ENDED_RUN),
    ),
    "POST /v1/runs/{id}/steer": Operation(
        name="steer_run",
        summary="Say something to a run under way",
        fields={"text": (str, "what the model hears with its next call")},
        needs=("text",),
        answer=RUN,
    ),
    "POST /v1/runs/{id}/answer": Operation(
        name="answer_run",
        summary="Decide what a run waits for",
        fields={
            "id": (str, "of the question"),
            "decision": (_DECISION, "approve, deny"),
            "arguments": (Any, "other arguments for the call; the answer to a question of kind `input`"),
            "message": (str, "what the model is told about a no"),
            "remember": (bool, "the same for every later call of this tool in this run"),
        },
        needs=("id", "decision"),
        answer=RUN,
    ),
    "GET /v1/events": Operation(
        name="follow_all",
        summary="Follow what happens to your runs and sessions, as server-sent events",
        query={
            "run": (str, f"runs whose events ride along, up to {MOST_RUNS}; with commas, or given again"),
            "after": (str, "the id of the last event that was seen; the header Last-Event-ID goes before it"),
        },
        answer=None,
        events=_FEED_EVENT,
    ),
    "GET /v1/agent/approvals": Operation(
        name="list_approvals",
        summary="List the calls that wait for a decision",
        query={"owner": (str, "of another owner; the key needs the scope `decide`")},
        answer=page_of(APPROVAL),
    ),
    "POST /v1/agent/approvals/{id}": Operation(
        name="decide",
        summary="Decide about a call that waits",
        query={"owner": (str, "of another owner; the key needs the scope `decide`")},
        fields={
            "decision": (_DECISION, "approve, deny"),
            "message": (str, "what the model is told about a no"),
            "remember_for_session": (
                bool,
                "with approve; every later call of this tool in this run, and in its session, is approved",
            ),
            "arguments": ({"*": Any}, "(ours): with approve; other arguments for the call"),
        },
        needs=("decision",),
        answer={"status": "resolved"},
        others={404: {"status?": "not_found", "message?": str, "error?": Any}},
    ),
}

SESSIONS: Final[dict[str, Operation]] = {
    "GET /v1/sessions": Operation(
        name="list_sessions",
        summary="List your sessions, the last used first",
        query={
            "limit": _limit(LONGEST_PAGE, PAGE),
            "before": _NEXT_PAGE,
            "q": (str, "a text in the title, the id, or the first words of a run"),
        },
        answer=_pages_of(SESSION),
    ),
    "GET /v1/sessions/{id:path}": Operation(
        name="get_session",
        summary="A session as a document, or a page of its turns",
        query={
            "branch": (str, "the id of a branch; the session as it stands if left out"),
            "limit": (
                int,
                "up to 200; a page of turns from the end, with their runs and rounds, instead of the document",
            ),
            "before": (int, "with `limit`; `next` of the page after it"),
        },
        answer=_SESSION_PAGE,
    ),
    "PUT /v1/sessions/{id:path}": Operation(
        name="put_session",
        summary="Bring a session in",
        fields={
            "messages": ([{"*": Any}], "plain, or with tagged values as mistral.rs writes them"),
            "images": ([str], "base64; for parts of type `image`, in their order"),
            "videos": "refused: a part of type `video_url` is taken",
            "files": ([{"*": Any}], "`{name, content}` with base64, on a server that runs code; elsewhere ignored"),
            "title": (str, "of the session"),
            "metadata": ({"*": Any}, "of the session"),
            "turns": (Any, "what messages cannot say; where it says the same as `messages`"),
            "any other": "ignored",
        },
        needs=("messages",),
        answer=None,
    ),
    "PATCH /v1/sessions/{id:path}": Operation(
        name="change_session",
        summary="Name a session, or continue another of its branches",
        fields={
            "title": (str, "null takes it away"),
            "metadata": ({"*": Any}, "instead of what was there"),
            "branch": (str, "the id of a branch that the session continues"),
        },
        answer=SESSION,
    ),
    "DELETE /v1/sessions/{id:path}": Operation(name="delete_session", summary="Delete a session", answer=None),
    "POST /v1/sessions/{id:path}/fork": Operation(
        name="fork_session",
        summary="Copy a session, or a part of it",
        fields={
            "id": (str, "of the copy; Ronda makes one if left out"),
            "num_turns": (int, "up to the answer of this number; all if left out"),
            "run": (str, "up to this run of the session, on whichever branch it is"),
            "round": (int, "up to this round of the run; rounds count from 0"),
        },
        may_be_empty=True,
        answer={"id": str},
    ),
    "GET /v1/sessions/{id:path}/approvals": Operation(
        name="list_session_approvals", summary="What was approved for the whole session", answer=_APPROVED
    ),
    "DELETE /v1/sessions/{id:path}/approvals": Operation(
        name="take_back_approvals",
        summary="Have the calls of a tool, or of all tools, asked about again",
        query={"tool": (str, "its name; all if left out")},
        answer=_APPROVED,
    ),
}

MODEL: Final = Named(
    "Model",
    {"id": str, "object": "model", "created": int, "owned_by": str, "status?": str, "tools_available?": bool},
    "A model or an agent that requests may name.",
)
_TRANSCRIPT: Final = {
    "object": "transcript.check",
    "model": str,
    "accepted": bool,
    "changes": [{"at": str, "kind": str, "what": str, "why": str}],
    "warnings": [str],
    "request": Any,
    "refusal?": {"message": str, "param": (str, None)},
}
_READINESS: Final = {"status": str, "checks": {"database": str, "disk": str, "model": str, "draining": str}}

OTHERS: Final[dict[str, Operation]] = {
    "GET /v1/models": Operation(summary="List what requests may ask", answer={"object": "list", "data": [MODEL]}),
    "GET /v1/models/{name:path}": Operation(summary="A model or an agent", answer=MODEL),
    "GET /v1/tools": Operation(name="list_tools", summary="List what models here may call", answer=page_of(_TOOL)),
    "GET /v1/mcp": Operation(
        name="list_mcp_servers", summary="How the MCP servers fare", answer={"servers": [_MCP_SERVER]}
    ),
    "POST /v1/render": Operation(
        name="render",
        summary="Exactly what a model would be sent for a request; no model is called",
        query={"dialect": (Words("chat", "messages", "responses"), "which one the body is of; chat if left out")},
        body={"*": Any},
        answer=_SENT,
    ),
    "POST /v1/transcripts/check": Operation(
        summary="What would be changed in messages for a model; no model is called",
        fields={"model": "read: one of the server's, or a spec", "messages": "read"},
        needs=("messages",),
        answer=_TRANSCRIPT,
    ),
    "POST /mcp": Operation(summary="The server as an MCP server", body=Any, answer=Any, events=Any, others={202: None}),
    "GET /mcp": Operation(summary="The stream of an MCP session", answer=None, events=Any),
    "DELETE /mcp": Operation(summary="End an MCP session", answer=None, others={204: None}),
    "GET /health": Operation(summary="The process is alive", answer=str, kind="text/plain"),
    "GET /ready": Operation(
        summary="Whether the server can take requests, and if not, why", answer=_READINESS, others={503: _READINESS}
    ),
}

OPERATIONS: Final[dict[str, Operation]] = {**RUNS, **SESSIONS, **OTHERS}
