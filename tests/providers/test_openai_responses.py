"""`openai:<model>` from the outside: an agent whose model is a server that speaks the Responses API."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.interaction.upstreams import Act, Upstream, answers, refuses, streams

from ronda import Agent, Retry, invoke_agent_async
from ronda.core.events import CallDelta, Event, ModelFinished, TextDelta
from ronda.core.plan import Options, Plan
from ronda.errors import BadRequest, ExecuteError
from ronda.providers import Where, open_provider
from ronda.providers.http import endpoint
from ronda.providers.openai_responses import OpenAIResponses
from ronda.providers.prices import PricedModel

Json = Any
THOUGHT = {"id": "rs_1", "type": "reasoning", "summary": [], "encrypted_content": "gAAAAA=="}
CALL = {
    "id": "fc_1",
    "type": "function_call",
    "status": "completed",
    "arguments": '{"city":"Paris"}',
    "call_id": "call_1",
    "name": "weather",
}
ANSWER = {
    "id": "msg_1",
    "type": "message",
    "status": "completed",
    "role": "assistant",
    "phase": "final_answer",
    "content": [{"type": "output_text", "text": "Sunny.", "annotations": [], "logprobs": []}],
}


def weather(city: str) -> str:
    """The weather in a city."""
    return f"sun in {city}"


def says(*output: Json, **members: Json) -> Act:
    """An answer, streamed or plain as the request wants it."""
    usage = {"input_tokens": 9, "output_tokens": 4, "total_tokens": 13}
    response = {
        "id": "resp_1",
        "object": "response",
        "status": "completed",
        "output": output,
        "usage": usage,
        **members,
    }

    async def act(exchange: Any) -> None:
        if not exchange.json.get("stream"):
            await answers(json.dumps(response).encode())(exchange)
            return
        events: list[Json] = [{"type": "response.created", "response": {**response, "output": []}}]
        for at, item in enumerate(output):
            begun = {**item, "content": [], "arguments": "", "encrypted_content": "begun"}
            events.append({"type": "response.output_item.added", "output_index": at, "item": begun})
            kind, said = "output_text", item["content"][0]["text"] if "content" in item else ""
            if item["type"] == "function_call":
                kind, said = "function_call_arguments", item["arguments"]
            events += [{"type": f"response.{kind}.delta", "output_index": at, "delta": piece} for piece in said]
            events.append({"type": "response.output_item.done", "output_index": at, "item": item})
        await streams(*events, {"type": "response.completed", "response": response})(exchange)

    return act


@pytest.mark.parametrize("stream", [False, True])
async def test_a_tool_round_sends_back_what_the_model_said_item_for_item(stream: bool) -> None:
    seen: list[Event] = []
    async with Upstream(says(THOUGHT, CALL), says(ANSWER)) as upstream:
        agent = Agent("openai:gpt-5", upstream.url, "key", "Be brief.", tools=[weather])
        answer = await invoke_agent_async(agent, "How is Paris?", on_event=seen.append if stream else None)
    assert answer == "Sunny."
    first, second = upstream.requests
    assert second["instructions"] == "Be brief."
    assert second["input"] == [
        {"type": "message", "role": "user", "content": "How is Paris?"},
        THOUGHT,
        CALL,
        {"type": "function_call_output", "call_id": "call_1", "output": "sun in Paris"},
    ]
    assert (first["store"], first["include"], first.get("stream")) == (
        False,
        ["reasoning.encrypted_content"],
        stream or None,
    )
    assert [tool["name"] for tool in first["tools"]] == ["weather"]
    assert [head["authorization"] for head in upstream.heads] == ["Bearer key"] * 2
    if stream:
        assert "".join(event.text for event in seen if isinstance(event, TextDelta)) == "Sunny."
        assert "".join(event.arguments for event in seen if isinstance(event, CallDelta)) == CALL["arguments"]
        assert [event.usage.total for event in seen if isinstance(event, ModelFinished)] == [13, 13]


async def test_the_first_piece_of_an_argument_is_shown_before_the_last_is_sent() -> None:
    begun = {**CALL, "arguments": ""}
    delta = {"type": "response.function_call_arguments.delta", "output_index": 0}
    waits = streams(
        {"type": "response.output_item.added", "output_index": 0, "item": begun},
        {**delta, "delta": '{"city":'},
        ...,
        {**delta, "delta": '"Paris"}'},
        {"type": "response.completed", "response": {"status": "completed", "output": [CALL]}},
    )
    async with Upstream(waits, says(ANSWER)) as upstream:

        def see(event: Event) -> None:
            if isinstance(event, CallDelta) and event.arguments:
                upstream.shown.set()

        agent = Agent("openai:gpt-5", upstream.url, "key", tools=[weather])
        assert await invoke_agent_async(agent, "How is Paris?", on_event=see) == "Sunny."


async def test_a_model_without_thoughts_is_asked_again_without_the_question_and_never_again_with_it() -> None:
    refusal = refuses(400, "Encrypted content is not supported with this model.")
    async with Upstream(refusal, says(CALL), says(ANSWER)) as upstream:
        agent = Agent("openai:my-deployment", upstream.url, "key", tools=[weather])
        assert await invoke_agent_async(agent, "How is Paris?") == "Sunny."
    assert [request.get("include") for request in upstream.requests] == [["reasoning.encrypted_content"], None, None]


async def test_a_response_that_failed_for_the_servers_own_reasons_is_tried_again() -> None:
    failed = says(status="failed", error={"code": "server_error", "message": "oops"})
    async with Upstream(failed, says(ANSWER)) as upstream:
        agent = Agent("openai:gpt-5", upstream.url, "key", retry=Retry(tries=2, initial_interval=0))
        assert await invoke_agent_async(agent, "hi") == "Sunny."
    assert len(upstream.requests) == 2


async def test_a_response_that_was_refused_is_not() -> None:
    failed = says(status="failed", error={"code": "invalid_prompt", "message": "we do not do that"})
    async with Upstream(failed) as upstream:
        agent = Agent("openai:gpt-5", upstream.url, "key")
        with pytest.raises(ExecuteError, match="we do not do that"):
            await invoke_agent_async(agent, "hi")
    assert len(upstream.requests) == 1


async def test_what_the_api_has_no_words_for_is_refused_before_anything_is_sent() -> None:
    async with Upstream() as upstream:
        agent = Agent("openai:gpt-5", upstream.url, "key", options=Options(stop=("END",)))
        with pytest.raises(BadRequest, match="'stop' is not part of the Responses API"):
            await invoke_agent_async(agent, "hi")
    assert upstream.requests == []
    with pytest.raises(BadRequest, match="'seed'"):
        OpenAIResponses("gpt-5").check(Plan("gpt-5", options=Options(seed=1)))


@pytest.mark.parametrize(
    ("base_url", "url"),
    [
        ("https://api.openai.com/v1", "https://api.openai.com/v1/responses"),
        ("http://localhost:8000/v1/", "http://localhost:8000/v1/responses"),
        (
            "https://x.openai.azure.com/openai/v1?api-version=preview",
            "https://x.openai.azure.com/openai/v1/responses?api-version=preview",
        ),
        ("http://localhost/v1/responses", "http://localhost/v1/responses"),
    ],
)
def test_the_address_is_where_responses_are_made(base_url: str, url: str) -> None:
    assert endpoint(base_url, "/responses") == url


def test_it_is_found_by_its_name() -> None:
    priced = open_provider("openai:gpt-5", Where())
    assert isinstance(priced, PricedModel)
    assert isinstance(priced.provider, OpenAIResponses)
