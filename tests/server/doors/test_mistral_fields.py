"""Each field of /v1/agents/completions, sent with Mistral's SDK, and what becomes of it: upstream, or in the answer."""

from __future__ import annotations

import asyncio
import inspect
import json
from dataclasses import dataclass
from typing import Any

import pytest
from mistralai.client import Mistral, errors
from mistralai.client.agents import Agents
from tests.interaction.doors import Door, Json
from tests.interaction.upstreams import Upstream, answers, call, completes, delta, streams
from tests.server.mistral_doors import function, serving

from ronda.server.doors.mistral.upstream import REASONING_PROMPT

HI: list[Any] = [{"role": "user", "content": "hi"}]
WEATHER = function("weather", city="string")
CLOCK = function("clock")
SCHEMA: Json = {
    "type": "object",
    "properties": {"a": {"type": "integer"}},
    "required": ["a"],
    "additionalProperties": False,
}

MODERATION = {"model_name": "m", "ignore_other_categories": False, "action": "block"}


@dataclass(frozen=True)
class Case:
    """What is sent, and what an upstream of each kind must have been asked: members, and those that must not be there."""

    sent: Json
    mistral: Json
    chat: Json
    not_mistral: tuple[str, ...] = ()
    not_chat: tuple[str, ...] = ()
    says: str = "fine"


CASES: dict[str, Case] = {
    "messages": Case(
        {"messages": [{"role": "system", "content": "Be brief"}, *HI]},
        {"messages": [{"role": "system", "content": "Be brief"}, *HI]},
        {"messages": [{"role": "system", "content": "Be brief"}, *HI]},
    ),
    "max_tokens": Case({"max_tokens": 7}, {"max_tokens": 7}, {"max_tokens": 7}),
    "stop as a text": Case({"stop": "END"}, {"stop": ["END"]}, {"stop": ["END"]}),
    "stop as a list": Case({"stop": ["A", "B"]}, {"stop": ["A", "B"]}, {"stop": ["A", "B"]}),
    "stop null": Case({"stop": None}, {}, {}, ("stop",), ("stop",)),
    "random_seed": Case({"random_seed": 42}, {"random_seed": 42}, {"seed": 42}, ("seed",), ("random_seed",)),
    "metadata": Case({"metadata": {"who": {"a": 1}}}, {"metadata": {"who": {"a": 1}}}, {}, (), ("metadata",)),
    "response_format text": Case(
        {"response_format": {"type": "text"}}, {}, {}, ("response_format",), ("response_format",)
    ),
    "response_format json_object": Case(
        {"response_format": {"type": "json_object"}},
        {"response_format": {"type": "json_object"}},
        {"response_format": {"type": "json_object"}},
        says="{}",
    ),
    "response_format json_schema": Case(
        {"response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema_definition": SCHEMA}}},
        {"response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": SCHEMA}}},
        {},
        says='{"a":1}',
    ),
    "tools": Case({"tools": [WEATHER]}, {"tools": [WEATHER]}, {"tools": [WEATHER]}),
    "tool_choice auto": Case({"tools": [WEATHER], "tool_choice": "auto"}, {}, {}, ("tool_choice",), ("tool_choice",)),
    "tool_choice none": Case(
        {"tools": [WEATHER], "tool_choice": "none"}, {"tool_choice": "none"}, {"tool_choice": "none"}
    ),
    "presence_penalty": Case({"presence_penalty": 0.5}, {"presence_penalty": 0.5}, {"presence_penalty": 0.5}),
    "frequency_penalty": Case({"frequency_penalty": -1.5}, {"frequency_penalty": -1.5}, {"frequency_penalty": -1.5}),
    "min_tokens": Case({"min_tokens": 3}, {}, {"min_tokens": 3}),
    "repetition_penalty": Case({"repetition_penalty": 1.1}, {}, {"repetition_penalty": 1.1}),
    "top_k": Case({"top_k": 5}, {}, {"top_k": 5}),
    "logprobs": Case({"logprobs": True}, {}, {"logprobs": True}),
    "top_logprobs": Case({"logprobs": True, "top_logprobs": 2}, {}, {"top_logprobs": 2}),
    "prediction": Case(
        {"prediction": {"type": "content", "content": "so"}},
        {"prediction": {"type": "content", "content": "so"}},
        {"prediction": {"type": "content", "content": "so"}},
    ),
    "parallel_tool_calls": Case(
        {"tools": [WEATHER], "parallel_tool_calls": False},
        {"parallel_tool_calls": False},
        {"parallel_tool_calls": False},
    ),
    "reasoning_effort": Case({"reasoning_effort": "high"}, {"reasoning_effort": "high"}, {"reasoning_effort": "high"}),
    "prompt_mode": Case(
        {"prompt_mode": "reasoning"},
        {"prompt_mode": "reasoning", "messages": HI},
        {"reasoning_effort": "medium", "messages": [{"role": "system", "content": REASONING_PROMPT}, *HI]},
        ("reasoning_effort",),
        ("prompt_mode",),
    ),
    "guardrails": Case(
        {"guardrails": [{"block_on_error": False, "moderation_llm_v1": {"action": "block", "model_name": "m"}}]},
        {"guardrails": [{"moderation_llm_v1": MODERATION}]},
        {},
        (),
        ("guardrails",),
    ),
    "prompt_cache_key": Case({"prompt_cache_key": "k"}, {"prompt_cache_key": "k"}, {"prompt_cache_key": "k"}),
    "service_tier": Case({"service_tier": "auto"}, {}, {}, ("service_tier",), ("service_tier",)),
    "prompt_logprobs": Case({"prompt_logprobs": False}, {}, {}, ("prompt_logprobs",), ("prompt_logprobs",)),
    "top_prompt_logprobs": Case({"top_prompt_logprobs": 0}, {}, {}, ("top_prompt_logprobs",), ("top_prompt_logprobs",)),
}

# Fields whose effect is in the answer, or in whether there is one: tested by themselves, further down or elsewhere.
APART = {"agent_id", "stream", "tool_choice", "n"}
OF_THE_CLIENT = {"self", "retries", "server_url", "timeout_ms", "http_headers"}


def test_no_field_of_the_sdk_is_left_out() -> None:
    fields = set(inspect.signature(Agents.complete).parameters) - OF_THE_CLIENT
    assert fields - {name.split(" ")[0] for name in CASES} - APART == set()


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
@pytest.mark.parametrize("kind", ["mistral", "openai-chat"])
async def test_the_upstream_is_asked_what_the_caller_said(door: Door, kind: str, case: Case, stream: bool) -> None:
    async with (
        Upstream(completes(case.says)) as upstream,
        serving(door, upstream.url, spec=f"{kind}:small") as behind,
        behind.client() as client,
    ):
        text = await say(client, stream, **{"agent_id": "default", "messages": HI, **case.sent})

    wanted, unwanted = (case.mistral, case.not_mistral) if kind == "mistral" else (case.chat, case.not_chat)
    asked = upstream.requests[0]
    assert {name: asked.get(name) for name in wanted} == wanted
    assert asked.keys() & set(unwanted) == set()
    assert asked.get("stream", False) is stream
    assert text == case.says


async def say(client: Any, stream: bool, **sent: Any) -> str:
    """The text of the answer, plain or streamed."""
    if not stream:
        answer = await client.agents.complete_async(**sent)
        message = answer.choices[0].message
        assert message is not None
        assert isinstance(message.content, str)
        return message.content
    text = ""
    async with await client.agents.stream_async(**sent) as events:
        async for event in events:
            for choice in event.data.choices:
                assert isinstance(choice.delta.content or "", str)
                text += str(choice.delta.content or "")
    return text


FORCED: dict[str, tuple[Any, Any, Any]] = {
    "any": ("any", "any", "required"),
    "required": ("required", "any", "required"),
    "named": (
        {"type": "function", "function": {"name": "weather"}},
        {"type": "function", "function": {"name": "weather"}},
        {"type": "function", "function": {"name": "weather"}},
    ),
}


@pytest.mark.parametrize(("said", "mistral", "chat"), FORCED.values(), ids=FORCED.keys())
@pytest.mark.parametrize("kind", ["mistral", "openai-chat"])
async def test_a_choice_forces_a_call(door: Door, kind: str, said: Any, mistral: Any, chat: Any) -> None:
    async with (
        Upstream(completes("", call("weather", "abcdefghi", city="Rome"))) as upstream,
        serving(door, upstream.url, spec=f"{kind}:small") as behind,
        behind.client() as client,
    ):
        answer = await client.agents.complete_async(
            agent_id="default", messages=HI, tools=[WEATHER, CLOCK], tool_choice=said
        )

    assert upstream.requests[0]["tool_choice"] == (mistral if kind == "mistral" else chat)
    [choice] = answer.choices
    assert choice.finish_reason == "tool_calls"
    assert choice.message is not None
    assert choice.message.tool_calls
    assert [(one.id, one.function.name) for one in choice.message.tool_calls] == [("abcdefghi", "weather")]


async def test_a_model_that_does_not_call_what_it_must_is_asked_again_and_then_it_is_an_error(door: Door) -> None:
    async with (
        Upstream(completes("no"), completes("no")) as upstream,
        serving(door, upstream.url, spec="openai-chat:small") as behind,
        behind.client() as client,
    ):
        with pytest.raises(errors.SDKError, match="no tools were called"):
            await client.agents.complete_async(agent_id="default", messages=HI, tools=[WEATHER], tool_choice="any")

    assert len(upstream.requests) == 2


async def test_several_choices_are_asked_for_at_once_where_the_upstream_can(door: Door) -> None:
    choices = [{"index": at, "message": {"role": "assistant", "content": said}, "finish_reason": "stop"}
               for at, said in enumerate(("one", "two"))]  # fmt: skip
    usage = {"prompt_tokens": 10, "completion_tokens": 4, "total_tokens": 14}
    body = json.dumps({"id": "up", "choices": choices, "usage": usage}).encode()
    async with (
        Upstream(answers(body)) as upstream,
        serving(door, upstream.url, spec="openai-chat:small") as behind,
        behind.client() as client,
    ):
        answer = await client.agents.complete_async(agent_id="default", messages=HI, n=2)

    assert [(one.index, one.message.content) for one in answer.choices if one.message] == [(0, "one"), (1, "two")]
    assert (answer.usage.prompt_tokens, answer.usage.completion_tokens) == (10, 4)
    assert len(upstream.requests) == 1


async def test_metadata_is_kept_with_the_run(door: Door) -> None:
    async with (
        Upstream(completes("fine")) as upstream,
        serving(door, upstream.url, spec="openai-chat:small") as behind,
        behind.client() as client,
    ):
        await client.agents.complete_async(agent_id="default", messages=HI, metadata={"who": "me"})
        [start, *_] = await behind.journal.read(behind.journal.runs[0])

    about: Any = start
    assert json.loads(bytes(about.about["metadata"])) == {"who": "me"}


async def test_guardrails_that_must_be_asked_block_where_there_is_no_moderation(door: Door) -> None:
    async with (
        Upstream() as upstream,
        serving(door, upstream.url, spec="openai-chat:small") as behind,
        behind.client() as client,
    ):
        with pytest.raises(errors.SDKError) as refused:
            await client.agents.complete_async(agent_id="default", messages=HI, guardrails=[{"block_on_error": True}])

    assert refused.value.status_code == 403
    assert json.loads(refused.value.body)["code"] == "guardrail_error"
    assert upstream.requests == []


async def test_guardrails_that_may_be_left_out_are_left_out_with_a_warning(door: Door) -> None:
    async with Upstream(completes("fine")) as upstream, serving(door, upstream.url, spec="openai-chat:x") as behind:
        body = {"agent_id": "default", "messages": HI, "guardrails": [{"moderation_llm_v1": {}}]}
        _, answer = await behind.ask("POST", "/v1/agents/completions", body)

    assert answer["warnings"] == [
        "guardrails were left out: this server has no moderation model, so guardrails cannot be asked"
    ]


async def test_a_text_that_asks_for_thinking_does_not_raise_what_the_caller_said_about_effort(door: Door) -> None:
    async with (
        Upstream(completes("fine")) as upstream,
        serving(door, upstream.url, spec="openai-chat:small") as behind,
        behind.client() as client,
    ):
        await client.agents.complete_async(
            agent_id="default", messages=HI, prompt_mode="reasoning", reasoning_effort="low"
        )

    assert upstream.requests[0]["reasoning_effort"] == "low"


NULLABLE = (
    "max_tokens", "stop", "random_seed", "metadata", "tools", "presence_penalty", "frequency_penalty", "n",
    "reasoning_effort", "prompt_mode", "guardrails", "prompt_cache_key",
)  # fmt: skip


@pytest.mark.parametrize("name", NULLABLE)
async def test_null_says_nothing(door: Door, name: str) -> None:
    async with (
        Upstream(completes("fine")) as upstream,
        serving(door, upstream.url, spec="mistral:small") as behind,
        behind.client() as client,
    ):
        sent: Json = {"agent_id": "default", "messages": HI, name: None}
        await client.agents.complete_async(**sent)

    assert upstream.requests[0].keys() == {"messages", "model"}


# ---- messages ---------------------------------------------------------------------------------------------------------


async def test_every_chunk_of_a_message_reaches_the_model(door: Door) -> None:
    content: list[Any] = [
        {"type": "text", "text": "Look:"},
        {"type": "image_url", "image_url": "https://x.test/a.png"},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA", "detail": "low"}},
        {"type": "document_url", "document_url": "https://x.test/a.pdf", "document_name": "a.pdf"},
        {"type": "reference", "reference_ids": [1, "b"]},
        {"type": "file", "file_id": "file-1"},
        {"type": "input_audio", "input_audio": "UklGRgAA"},
    ]
    async with (
        Upstream(completes("fine")) as upstream,
        serving(door, upstream.url, spec="mistral:small") as behind,
        behind.client() as client,
    ):
        await client.agents.complete_async(agent_id="default", messages=[{"role": "user", "content": content}])

    assert upstream.requests[0]["messages"] == [
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "Look:"},
                {"type": "image_url", "image_url": {"url": "https://x.test/a.png"}},
                {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA", "detail": "low"}},
                {"type": "document_url", "document_url": "https://x.test/a.pdf", "document_name": "a.pdf"},
                {"type": "text", "text": "[reference 1, b]"},
                {"type": "file", "file_id": "file-1"},
                {"type": "input_audio", "input_audio": "UklGRgAA"},
            ],
        }
    ]


THOUGHT = [
    {"type": "thinking", "thinking": [{"type": "text", "text": "hm"}], "signature": "s"},
    {"type": "text", "text": "Hello"},
    {"type": "reference", "reference_ids": [1]},
]


@pytest.mark.parametrize(("kind", "content"), [("mistral", THOUGHT), ("openai-chat", "Hello")])
async def test_thoughts_go_back_to_mistral_as_they_came_and_to_nobody_else(door: Door, kind: str, content: Any) -> None:
    history: list[Any] = [*HI, {"role": "assistant", "content": THOUGHT}, {"role": "user", "content": "and?"}]
    async with (
        Upstream(completes("fine")) as upstream,
        serving(door, upstream.url, spec=f"{kind}:small") as behind,
        behind.client() as client,
    ):
        await client.agents.complete_async(agent_id="default", messages=history)

    assert upstream.requests[0]["messages"][1] == {"role": "assistant", "content": content}


@pytest.mark.parametrize("arguments", ['{"city":"Rome"}', {"city": "Rome"}], ids=["a text", "an object"])
@pytest.mark.parametrize("id", ["call_1", None], ids=["an id", "no id"])
async def test_calls_and_results_of_the_history_go_upstream_with_ids_mistral_takes(
    door: Door, arguments: Any, id: str | None
) -> None:
    asked: Json = {"function": {"name": "weather", "arguments": arguments}}
    result: Json = {"role": "tool", "content": "sunny", "name": "weather"}
    if id is not None:
        asked["id"] = result["tool_call_id"] = id
    history: list[Any] = [*HI, {"role": "assistant", "content": "", "tool_calls": [asked]}, result]
    async with (
        Upstream(completes("fine")) as upstream,
        serving(door, upstream.url, spec="mistral:small") as behind,
        behind.client() as client,
    ):
        await client.agents.complete_async(agent_id="default", messages=history, tools=[WEATHER])

    _, called, answered = upstream.requests[0]["messages"]
    [sent] = called["tool_calls"]
    assert json.loads(sent["function"]["arguments"]) == {"city": "Rome"}
    assert (len(sent["id"]), sent["id"].isalnum()) == (9, True)
    assert answered == {"role": "tool", "tool_call_id": sent["id"], "name": "weather", "content": "sunny"}


@pytest.mark.parametrize("said", ["The sky is", " is blue", "The sky is blue"])
async def test_an_answer_begins_with_the_prefix_whether_the_model_repeats_it_or_not(
    door: Door, said: str, stream: bool
) -> None:
    history: list[Any] = [*HI, {"role": "assistant", "content": "The sky", "prefix": True}]
    text = [delta(content=piece) for piece in (said[:3], said[3:7], said[7:])]
    act = streams(*text, delta(finish="stop"), "[DONE]") if stream else completes(said)
    async with (
        Upstream(act) as upstream,
        serving(door, upstream.url, spec="mistral:small") as behind,
        behind.client() as client,
    ):
        answer = await say(client, stream, agent_id="default", messages=history)

    assert upstream.requests[0]["messages"][-1] == {"role": "assistant", "content": "The sky", "prefix": True}
    assert answer == (said if said.startswith("The sky") else "The sky" + said)


async def test_the_synchronous_client_gets_the_same(door: Door, stream: bool) -> None:
    async with Upstream(completes("fine")) as upstream, serving(door, upstream.url, spec="mistral:small") as behind:

        def ask() -> str:
            with Mistral(api_key="test", server_url=behind.url) as client:
                if not stream:
                    message = client.agents.complete(agent_id="default", messages=HI).choices[0].message
                    assert message is not None
                    return str(message.content)
                with client.agents.stream(agent_id="default", messages=HI) as events:
                    return "".join(str(one.data.choices[0].delta.content or "") for one in events if one.data.choices)

        assert await asyncio.to_thread(ask) == "fine"
