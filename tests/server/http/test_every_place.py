"""Whatever stands in whatever place of a request, the server does not break down on it."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
from tests.interaction.doors import Door, Json
from tests.server.every_route import ROUTES
from tests.server.refusals import Nodding

from ronda.server.http.routing import WEBSOCKET

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
SCHEMA: Json = {
    "type": "object",
    "properties": {
        "a": {"type": "integer"},
        "b": {"anyOf": [{"type": "string", "enum": ["x"]}, {"$ref": "#/$defs/n"}]},
    },
    "required": ["a"],
    "$defs": {"n": {"type": "null"}},
}
FUNCTION: Json = {"name": "mine", "description": "d", "strict": True, "parameters": SCHEMA}
SKILL: Json = {"type": "inline", "name": "s", "description": "d", "source": {"type": "base64", "data": "UEsFBg=="}}
OURS: Json = {
    "session_id": "s",
    "session_mode": "append",
    "on_busy": "queue",
    "on_disconnect": "cancel",
    "max_tool_rounds": 2,
    "agent_permission": "auto",
    "files": [{"name": "r.md", "format": "md"}],
}
MESSAGES: list[Json] = [
    {"role": "system", "content": "s"},
    {
        "role": "user",
        "content": [
            {"type": "text", "text": "hi"},
            {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PIXEL}", "detail": "low"}},
            {"type": "file", "file": {"filename": "a.txt", "file_data": "data:text/plain;base64,aGk="}},
        ],
    },
    {
        "role": "assistant",
        "content": "x",
        "tool_calls": [{"id": "c", "type": "function", "function": {"name": "mine", "arguments": "{}"}}],
    },
    {"role": "tool", "tool_call_id": "c", "content": "ok"},
    {"role": "user", "content": "go"},
]
TURNS: list[Json] = [
    {"type": "system", "text": "s"},
    {"type": "user", "parts": [{"type": "text", "text": "hi"}]},
    {
        "type": "assistant",
        "parts": [{"type": "tool_call", "id": "c", "name": "mine", "arguments": "{}"}],
        "stop": "tool_calls",
    },
    {"type": "tool", "results": [{"call_id": "c", "content": "ok"}]},
]
BODIES: dict[str, tuple[str, str, Json]] = {
    "chat": (
        "POST",
        "/chat/completions",
        {
            "messages": MESSAGES,
            "tools": [{"type": "function", "function": FUNCTION}],
            "tool_choice": {"type": "function", "function": {"name": "mine"}},
            "response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema": SCHEMA}},
            "logit_bias": {"5": 1},
            "stop": ["x"],
            "web_search_options": {"user_location": {"type": "approximate", "approximate": {"city": "P"}}},
            "shell_skills": [SKILL],
            **OURS,
        },
    ),
    "chat, as it was before there were tools": (
        "POST",
        "/chat/completions",
        {
            "messages": [
                {"role": "user", "content": "go"},
                {"role": "assistant", "content": None, "function_call": {"name": "mine", "arguments": "{}", "id": "c"}},
                {"role": "function", "name": "mine", "content": "ok"},
            ],
            "functions": [FUNCTION],
            "function_call": {"name": "mine"},
        },
    ),
    "responses": (
        "POST",
        "/responses",
        {
            "input": [
                {
                    "type": "message",
                    "role": "user",
                    "content": [
                        {"type": "input_text", "text": "hi"},
                        {"type": "input_image", "image_url": f"data:image/png;base64,{PIXEL}"},
                        {"type": "input_file", "filename": "a.txt", "file_data": "data:text/plain;base64,aGk="},
                    ],
                },
                {"type": "function_call", "call_id": "c", "name": "mine", "arguments": "{}"},
                {"type": "function_call_output", "call_id": "c", "output": "ok"},
                {
                    "type": "shell_call",
                    "call_id": "d",
                    "action": {"commands": ["ls"]},
                    "environment": {"type": "local"},
                },
                {"type": "shell_call_output", "call_id": "d", "output": [{"stdout": "", "outcome": {"type": "exit"}}]},
                {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "t"}]},
                {"type": "computer_call_output", "call_id": "e", "output": {"type": "computer_screenshot"}},
                {"type": "mcp_approval_response", "approval_request_id": "x", "approve": True},
                {"type": "compaction", "encrypted_content": "x"},
            ],
            "tools": [
                {"type": "function", **FUNCTION},
                {"type": "shell", "environment": {"type": "container_auto", "skills": [SKILL]}},
                {"type": "web_search", "filters": {"allowed_domains": ["a.example"]}},
                {"type": "code_interpreter", "container": {"type": "auto", "file_ids": ["file-x"]}},
                {"type": "mcp", "server_label": "a", "server_url": "https://a.example", "allowed_tools": ["x"]},
                {"type": "custom", "name": "cu", "format": {"type": "grammar", "syntax": "lark", "definition": "a"}},
                {"type": "namespace", "name": "ns", "tools": [{"type": "function", **FUNCTION}]},
            ],
            "tool_choice": {"type": "allowed_tools", "mode": "auto", "tools": [{"type": "function", "name": "mine"}]},
            "text": {"format": {"type": "json_schema", "name": "n", "schema": SCHEMA}},
            "reasoning": {"effort": "low"},
            "include": ["reasoning.encrypted_content"],
            "metadata": {"a": "b"},
            **OURS,
        },
    ),
    "messages": (
        "POST",
        "/messages",
        {
            "max_tokens": 9,
            "system": [{"type": "text", "text": "s", "cache_control": {"type": "ephemeral"}}],
            "messages": [
                {
                    "role": "user",
                    "content": [
                        {"type": "text", "text": "hi"},
                        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PIXEL}},
                        {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "x"}},
                    ],
                },
                {"role": "assistant", "content": [{"type": "tool_use", "id": "t", "name": "mine", "input": {"a": 1}}]},
                {
                    "role": "user",
                    "content": [
                        {"type": "tool_result", "tool_use_id": "t", "content": [{"type": "text", "text": "ok"}]}
                    ],
                },
            ],
            "tools": [
                {"name": "mine", "input_schema": SCHEMA},
                {"type": "web_search_20250305", "name": "web_search", "max_uses": 2},
                {"type": "code_execution_20250825", "name": "code_execution"},
                {"type": "mcp_toolset", "mcp_server_name": "a"},
            ],
            "mcp_servers": [{"type": "url", "name": "a", "url": "https://a.example"}],
            "tool_choice": {"type": "auto"},
            "thinking": {"type": "enabled", "budget_tokens": 1024},
            "container": {"id": "x", "skills": [{"type": "custom", "skill_id": "x", "version": "1"}]},
            **OURS,
        },
    ),
    "completions": (
        "POST",
        "/agents/completions",
        {"agent_id": "x", "messages": MESSAGES, "tools": [{"type": "function", "function": FUNCTION}], "stop": ["x"]},
    ),
    "conversations": (
        "POST",
        "/conversations",
        {
            "inputs": [
                {"type": "message.input", "role": "user", "content": [{"type": "text", "text": "x"}]},
                {"type": "function.call", "name": "mine", "tool_call_id": "abcdefghi", "arguments": "{}"},
                {"type": "function.result", "tool_call_id": "abcdefghi", "result": "ok"},
                {"type": "tool.execution", "name": "web_search", "arguments": "{}", "info": {"result": "x"}},
                {"type": "message.output", "content": [{"type": "text", "text": "x"}]},
            ],
            "tools": [{"type": "function", "function": FUNCTION}, {"type": "web_search"}],
            "completion_args": {"temperature": 0.1, "stop": ["x"], "response_format": {"type": "text"}},
            "metadata": {"a": 1},
        },
    ),
    "agents": (
        "POST",
        "/agents",
        {
            "model": "default",
            "name": "a",
            "tools": [{"type": "function", "function": FUNCTION}],
            "completion_args": {"stop": ["x"], "tool_choice": "auto"},
            "handoffs": ["x"],
            "metadata": {"a": "b"},
        },
    ),
    "runs": ("POST", "/runs", {"input": "x", "model": "default", "files": {"a.txt": "x"}, "variants": 2}),
    "runs, with messages": ("POST", "/runs", {"input": MESSAGES, "instructions": "s", "parent": "run_x"}),
    "runs, with turns": ("POST", "/runs", {"input": TURNS, "model": ["default", "test"]}),
    "steering": ("POST", "/runs/x/steer", {"text": "x"}),
    "a decision": ("POST", "/agent/approvals/x", {"decision": "approve", "message": "x", "remember": True}),
    "a session of turns": ("PUT", "/sessions/s", {"messages": TURNS, "files": [{"name": "a", "content": "eA=="}]}),
    "a session": ("PUT", "/sessions/s", {"messages": MESSAGES, "title": "x", "metadata": {"a": 1}}),
    "a mark of a run": ("PATCH", "/runs/x", {"kept": True}),
    "a part of a session": ("PATCH", "/sessions/s", {"title": "x", "metadata": {"a": 1}, "branch": "x"}),
    "a fork": ("POST", "/sessions/s/fork", {"id": "t", "num_turns": 1, "run": "x", "round": 1}),
    "a container": (
        "POST",
        "/containers",
        {
            "name": "c",
            "file_ids": ["file-x"],
            "expires_after": {"anchor": "last_active_at", "minutes": 20},
            "skills": [{"type": "skill_reference", "skill_id": "x"}],
            "network_policy": {"type": "disabled"},
        },
    ),
    "a transcript": ("POST", "/transcripts/check", {"messages": MESSAGES}),
    "an answer": ("POST", "/runs/x/answer", {"id": "q", "decision": "approve", "arguments": {}, "remember": True}),
}
ODD: tuple[Any, ...] = ("x", "", 7, -1, 1.5, 1e300, 2**70, True, None, [], {}, ["x"], {"type": "x"}, [[{}]], "\0")


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if path:
        yield path
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, one in inner:
        yield from places(one, (*path, key))


def with_odd(body: Json, path: tuple[Any, ...], odd: Any) -> Json:
    changed = copy.deepcopy(body)
    at: Any = changed
    for key in path[:-1]:
        at = at[key]
    at[path[-1]] = odd
    return changed


@pytest.mark.parametrize("door_name", BODIES)
async def test_no_value_in_any_place_breaks_the_server(door: Door, door_name: str) -> None:
    method, path, body = BODIES[door_name]
    broken = []
    async with door.serving(Nodding()) as served:
        for number, place in enumerate(places(body)):
            # Each place has three of them, and all of them come up.
            for odd in [ODD[(number * 3 + at) % len(ODD)] for at in range(3)]:
                async with served.http.request(method, served.url + path, json=with_odd(body, place, odd)) as answer:
                    text = await answer.text()
                    if answer.status >= 500 and answer.status != 502:  # which says that the model was no good
                        broken.append((place, odd, answer.status, text[:200]))

    assert broken == []


@pytest.mark.parametrize(
    "item", [{"type": ["a"]}, {"type": {"a": 1}, "role": "user"}, {"role": ["a"]}, {"role": {}}, [], [[]]]
)
async def test_a_message_of_no_kind_is_the_clients_mistake(door: Door, item: Any) -> None:
    async with door.serving(Nodding()) as served:
        statuses = {}
        for method, path, body in (
            ("POST", "/runs", {"input": [item]}),
            ("PUT", "/sessions/s", {"messages": [item]}),
            ("POST", "/transcripts/check", {"messages": [item]}),
            ("POST", "/responses", {"input": [item]}),
            ("POST", "/messages", {"max_tokens": 9, "messages": [item]}),
            ("POST", "/chat/completions", {"messages": [item]}),
            ("POST", "/conversations", {"inputs": [item]}),
        ):
            async with served.http.request(method, served.url + path, json=body) as answer:
                statuses[path] = answer.status

    assert statuses.pop("/conversations") == 422  # Mistral's word for it
    assert set(statuses.values()) <= {400, 422}, statuses


async def test_no_address_breaks_down_on_a_body_that_is_no_text(door: Door) -> None:
    rows = [row for row in ROUTES.rows if row.method not in (WEBSOCKET, "GET", "DELETE")]
    broken = []
    async with door.serving(Nodding()) as served:
        for row in rows:
            address = served.url.removesuffix("/v1") + re.sub(r"\{[^}]*\}", "x", row.path)
            for body in (
                b'{"\xff": 1}',
                b'{"a": "\xff"}',
                b"\xff",
                b"[" * 5000,
                b"null",
                b"\0",
                json.dumps("x").encode(),
            ):
                headers = {"Content-Type": "application/json"}
                async with served.http.request(row.method, address, data=body, headers=headers) as answer:
                    if answer.status >= 500:
                        broken.append((row.method, row.path, body[:20], answer.status, await answer.text()))

    assert broken == []
