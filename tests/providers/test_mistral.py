"""Mistral over HTTP: a model or an agent, plain and streamed, and a whole loop against a strict server."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from tests.conformance.mistral_strict import refusals
from tests.interaction.upstreams import Act, Upstream, answers, refuses, streams

from ronda.agent import Agent, invoke_agent_async
from ronda.core.events import ModelFinished, Preview, TextDelta
from ronda.core.parts import AssistantTurn, Text, ToolCall, ToolResult, ToolTurn, Turn, Usage, user
from ronda.core.plan import AUTO, NO_OPTIONS, ToolSpec
from ronda.core.request import ModelRequest
from ronda.errors import UpstreamBroken, UpstreamError
from ronda.providers import Where, open_provider
from ronda.providers.mistral import endpoint

USAGE = {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5}


def asking(stream: bool = False) -> ModelRequest:
    return ModelRequest([user("Hi")], (), AUTO, NO_OPTIONS, stream, "run", 0, 1, scratch={})


def says(stream: bool, finish: str, **message: Any) -> Act:
    """One message, whole or as a stream of two chunks."""
    if not stream:
        said = {"index": 0, "message": {"role": "assistant", **message}, "finish_reason": finish}
        return answers(json.dumps({"choices": [said], "usage": USAGE}).encode())
    first = {"choices": [{"index": 0, "delta": {"role": "assistant", **message}, "finish_reason": None}]}
    last = {"choices": [{"index": 0, "delta": {"content": ""}, "finish_reason": finish}], "usage": USAGE}
    return streams(first, last, "[DONE]")


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("agent", [False, True])
def test_a_call_of_a_model_or_an_agent(stream: bool, agent: bool) -> None:
    async def go() -> None:
        async with Upstream(says(stream, "stop", content="Hello.")) as upstream:
            spec = "mistral-agent:ag_1" if agent else "mistral:mistral-large"
            shown: list[Preview] = []
            finished = await open_provider(spec, Where(upstream.url, "secret")).call(asking(stream), shown.extend)

            assert finished == ModelFinished(AssistantTurn((Text("Hello."),)), Usage(3, 2))
            assert shown == ([TextDelta("Hello.")] if stream else [])
            assert upstream.heads[0]["authorization"] == "Bearer secret"
            assert refusals(upstream.requests[0], agent=agent) == []
            assert upstream.requests[0].get("agent_id") == ("ag_1" if agent else None)
            assert upstream.requests[0].get("stream") == (True if stream else None)

    asyncio.run(go())


@pytest.mark.parametrize(
    ("base", "agent", "address"),
    [
        ("https://api.mistral.ai/v1", False, "https://api.mistral.ai/v1/chat/completions"),
        ("https://api.mistral.ai", True, "https://api.mistral.ai/v1/agents/completions"),
        ("http://localhost:1234/v1/?a=b", True, "http://localhost:1234/v1/agents/completions?a=b"),
        ("http://localhost/x/chat/completions", False, "http://localhost/x/chat/completions"),
    ],
)
def test_where_requests_go(base: str, agent: bool, address: str) -> None:
    assert endpoint(base, agent) == address


def test_refusals_are_told_in_mistrals_words() -> None:
    detail = [{"type": "extra_forbidden", "loc": ["body", "foo"], "msg": "Extra inputs are not permitted"}]

    async def go() -> None:
        acts = (answers(json.dumps({"detail": detail}).encode(), 422), refuses(429, "Requests rate limit exceeded"))
        async with Upstream(*acts) as upstream:
            provider = open_provider("mistral:m", Where(upstream.url))
            with pytest.raises(UpstreamError, match="Extra inputs are not permitted") as caught:
                await provider.call(asking(), lambda _: None)
            assert (caught.value.status, caught.value.retryable) == (422, False)
            with pytest.raises(UpstreamError, match="rate limit") as caught:
                await provider.call(asking(), lambda _: None)
            assert (caught.value.status, caught.value.retryable) == (429, True)

    asyncio.run(go())


def test_a_stream_that_breaks_off_is_broken() -> None:
    async def go() -> None:
        async with Upstream(streams({"choices": [{"index": 0, "delta": {"content": "He"}}]})) as upstream:
            with pytest.raises(UpstreamBroken):
                await open_provider("mistral:m", Where(upstream.url)).call(asking(stream=True), lambda _: None)

    asyncio.run(go())


@pytest.mark.parametrize("stream", [False, True])
def test_a_loop_with_parallel_tools_keeps_ids_thoughts_and_order(stream: bool) -> None:
    thoughts = [{"type": "thinking", "thinking": [{"type": "text", "text": "I look."}], "closed": True}]
    calls = [
        {"id": "D681PevKs", "function": {"name": "look", "arguments": '{"at": "sky"}'}, "index": 0},
        {"id": "9tQ8vbbbb", "function": {"name": "look", "arguments": '{"at": "sea"}'}, "index": 1},
    ]

    async def look(at: str) -> str:
        """Look somewhere."""
        return f"{at} is blue"

    async def go() -> None:
        acts = (
            says(stream, "tool_calls", content=thoughts, tool_calls=calls),
            says(stream, "stop", content="Both blue."),
        )
        async with Upstream(*acts) as upstream:
            agent = Agent(model="mistral:magistral", base_url=upstream.url, api_key="k", tools=[look])
            watching: dict[str, Any] = {"on_event": lambda _: None} if stream else {}
            assert await invoke_agent_async(agent, "Sky and sea?", **watching) == "Both blue."
            assert [refusals(request) for request in upstream.requests] == [[], []]
            said = upstream.requests[1]["messages"][1:]
            assert said[0]["content"] == thoughts
            assert [call["id"] for call in said[0]["tool_calls"]] == ["D681PevKs", "9tQ8vbbbb"]
            assert [(one["tool_call_id"], one["content"]) for one in said[1:]] == [
                ("D681PevKs", "sky is blue"),
                ("9tQ8vbbbb", "sea is blue"),
            ]

    asyncio.run(go())


async def test_an_ok_goes_between_a_result_and_a_question_only_where_the_server_wants_one() -> None:
    turns: list[Turn] = [
        user("Sky?"),
        AssistantTurn((ToolCall("abcdefghi", "look", "{}"),), "tool_calls"),
        ToolTurn((ToolResult("abcdefghi", "blue"),)),
        user("So?"),
    ]
    refusal = {"object": "error", "message": "Unexpected role 'user' after role 'tool'", "code": "3230"}
    told = says(False, "stop", content="Yes.")
    async with Upstream(told, answers(json.dumps(refusal).encode(), 400), told, told) as upstream:
        provider = open_provider("mistral:mistral-large-latest", Where(upstream.url))
        for _ in range(3):
            request = ModelRequest(turns, (ToolSpec("look"),), AUTO, NO_OPTIONS, False, "run", 0, 1, scratch={})
            finished = await provider.call(request, lambda _: None)
            assert finished.turn.text == "Yes."

    roles = [[message["role"] for message in request["messages"]] for request in upstream.requests]
    plain, bridged = ["user", "assistant", "tool", "user"], ["user", "assistant", "tool", "assistant", "user"]
    assert roles == [plain, plain, bridged, bridged]
