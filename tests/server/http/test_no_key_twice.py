"""Whatever fields a client makes up, an upstream is sent each key once, and what the loop says in it is the loop's."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.interaction.doors import Door, Json
from tests.interaction.upstreams import Upstream, answers
from tests.server.responses_door import post

from ronda.providers import Where, open_provider

# What one dialect or another writes into its requests.
NAMES = [
    *["model", "messages", "input", "contents", "system", "systemInstruction", "instructions", "agent_id"],
    *["tools", "tool_choice", "functions", "function_call", "parallel_tool_calls", "toolConfig"],
    *["stream", "stream_options", "store", "include", "text", "reasoning", "thinking", "generationConfig"],
    *["max_tokens", "max_completion_tokens", "max_output_tokens", "temperature", "stop", "stop_sequences", "seed"],
    *["random_seed", "response_format", "reasoning_effort", "output_config"],
]

REQUESTS: dict[str, Json] = {
    "/chat/completions": {"model": "default", "messages": [{"role": "user", "content": "hello"}]},
    "/responses": {"model": "default", "input": "hello"},
    "/messages": {"model": "default", "max_tokens": 5, "messages": [{"role": "user", "content": "hello"}]},
    "/agents/completions": {"agent_id": "default", "messages": [{"role": "user", "content": "hello"}]},
}
SPECS = ["openai-chat:m", "openai:m", "anthropic:m", "gemini:m", "mistral:m"]
STRAY: list[Any] = [[{"role": "user", "content": "stray"}], 3]


def once(pairs: list[tuple[str, Any]]) -> Json:
    """An object whose keys are there once."""
    names = [name for name, _ in pairs]
    assert sorted(names) == sorted(set(names))
    return dict(pairs)


@pytest.mark.parametrize("path", REQUESTS)
@pytest.mark.parametrize("spec", SPECS)
async def test_no_stray_field_is_sent_as_one_of_the_requests_own(door: Door, spec: str, path: str) -> None:
    asked = REQUESTS[path]
    bodies = [asked, *[{**asked, name: value} for name in NAMES if name not in asked for value in STRAY]]
    async with (
        Upstream(*[answers(b"{}", 400) for _ in bodies]) as upstream,
        door.serving(open_provider(spec, Where(upstream.url))) as served,
    ):
        for body in bodies:
            assert (await post(served, body, path)).status < 500

    assert upstream.bodies
    for sent in upstream.bodies:
        whole = json.loads(sent, object_pairs_hook=once)
        assert whole.get("model", "m") == "m"
        assert spec != "openai-chat:m" or not whole.keys() & {"functions", "function_call"}
        said = whole[{"openai:m": "input", "gemini:m": "contents"}.get(spec, "messages")]
        assert "hello" in json.dumps(said[-1])  # before it may stand instructions, where the door knows such a field


async def test_the_client_is_told_that_it_was_not_sent(door: Door) -> None:
    answer = {"choices": [{"index": 0, "message": {"role": "assistant", "content": "Hi."}, "finish_reason": "stop"}]}
    async with Upstream(answers(json.dumps(answer).encode())) as upstream, door.serving(upstream.url) as served:
        said = await post(served, {"input": "hello", "messages": [{"role": "user", "content": "stray"}]})

    assert said.status == 200
    assert said.json["warnings"] == [
        "'messages' is not sent: a request of this API has that field, and it says something else"
    ]
