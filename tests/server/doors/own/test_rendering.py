"""What a model was sent, and would be: equal to what arrived at its server, and without the keys."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.interaction.doors import Door, Json, Served, soon, user
from tests.interaction.upstreams import Act, Upstream, answers, call, completes, refuses

from ronda import tool
from ronda.drive import Provider
from ronda.providers import Where, open_provider
from ronda.testing import ScriptedModel, says

CLAUDE = "anthropic:claude-sonnet-4-5"
KEY = "sk-canary-0123456789abcdef"
QUESTION = {"messages": [{"role": "system", "content": "Be brief."}, user("How is Paris?")]}


@tool
def forecast(city: str) -> str:
    """The weather of tomorrow.

    Args:
        city: Where.
    """
    return f"sunny in {city}"


def _json(body: Json) -> Act:
    return answers(json.dumps(body).encode())


def chat_rounds() -> tuple[Act, ...]:
    return completes(None, call("forecast", city="Paris")), completes("Sunny.")


def responses_rounds() -> tuple[Act, ...]:
    usage = {"input_tokens": 9, "output_tokens": 3, "total_tokens": 12, "input_tokens_details": {"cached_tokens": 4}}
    thought = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "c2VhbGVk"}
    asked = {
        "type": "function_call",
        "id": "fc_1",
        "call_id": "call_1",
        "name": "forecast",
        "arguments": '{"city":"Paris"}',
    }
    text = {"type": "output_text", "text": "Sunny.", "annotations": []}
    said = {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": [text]}
    whole = {"object": "response", "status": "completed", "model": "gpt-5", "usage": usage}
    return _json({"id": "resp_1", **whole, "output": [thought, asked]}), _json(
        {"id": "resp_2", **whole, "output": [said]}
    )


def anthropic_rounds() -> tuple[Act, ...]:
    usage = {"input_tokens": 9, "output_tokens": 3, "cache_read_input_tokens": 4}
    thought = {"type": "thinking", "thinking": "A forecast would help.", "signature": "c2VhbGVk"}
    asked = {"type": "tool_use", "id": "toolu_1", "name": "forecast", "input": {"city": "Paris"}}
    whole = {"type": "message", "role": "assistant", "usage": usage}
    return (
        _json({**whole, "content": [thought, asked], "stop_reason": "tool_use"}),
        _json({**whole, "content": [{"type": "text", "text": "Sunny."}], "stop_reason": "end_turn"}),
    )


def gemini_rounds() -> tuple[Act, ...]:
    asked = {"functionCall": {"name": "forecast", "args": {"city": "Paris"}}, "thoughtSignature": "c2VhbGVk"}
    usage = {"promptTokenCount": 9, "candidatesTokenCount": 3, "cachedContentTokenCount": 4}

    def said(part: Json) -> Act:
        candidate = {"content": {"role": "model", "parts": [part]}, "finishReason": "STOP"}
        return _json({"candidates": [candidate], "usageMetadata": usage})

    return said(asked), said({"text": "Sunny."})


def mistral_rounds() -> tuple[Act, ...]:
    thought = {"type": "thinking", "thinking": [{"type": "text", "text": "A forecast would help."}]}
    asked = {"id": "abcdefghi", "function": {"name": "forecast", "arguments": '{"city":"Paris"}'}}
    usage = {"prompt_tokens": 9, "completion_tokens": 3, "total_tokens": 12}
    first = {"role": "assistant", "content": [thought], "tool_calls": [asked]}
    last = {"role": "assistant", "content": "Sunny."}
    return (
        _json({"choices": [{"index": 0, "message": first, "finish_reason": "tool_calls"}], "usage": usage}),
        _json({"choices": [{"index": 0, "message": last, "finish_reason": "stop"}], "usage": usage}),
    )


UPSTREAMS = {
    "openai-chat:gpt-5": chat_rounds,
    "openai:gpt-5": responses_rounds,
    CLAUDE: anthropic_rounds,
    "gemini:gemini-2.5-flash": gemini_rounds,
    "mistral:mistral-large-latest": mistral_rounds,
}


def provider(model: str, upstream: Upstream) -> Provider:
    return open_provider(model, Where(upstream.url, KEY))


async def post(served: Served, path: str, body: Json) -> tuple[int, Json]:
    async with soon(), served.http.post(f"{served.url}{path}", json=body) as answer:
        return answer.status, json.loads(await answer.read())


async def get(served: Served, path: str) -> tuple[int, Json]:
    async with soon(), served.http.get(f"{served.url}{path}") as answer:
        return answer.status, json.loads(await answer.read())


async def run_of(served: Served, body: Json) -> str:
    async with soon(), served.http.post(f"{served.url}/chat/completions", json=body) as answer:
        assert answer.status == 200, await answer.read()
        return answer.headers["x-ronda-run"]


@pytest.mark.parametrize("model", UPSTREAMS)
async def test_each_round_is_told_as_it_arrived_at_the_models_server(door: Door, model: str) -> None:
    async with (
        Upstream(*UPSTREAMS[model]()) as upstream,
        door.serving(provider(model, upstream), forecast, model=model) as served,
    ):
        rendered = await post(served, "/render", QUESTION)
        run = await run_of(served, QUESTION)
        told = [await get(served, f"/runs/{run}/rounds/{number}/request") for number in (0, 1)]

    assert [status for status, _ in told] == [200, 200], told
    assert [one["body"] for _, one in told] == upstream.requests
    assert [one["bytes"] for _, one in told] == [len(body) for body in upstream.bodies]
    assert rendered[1]["body"] == upstream.requests[0]
    assert all(KEY in json.dumps(head) for head in upstream.heads), "the key went out …"
    assert KEY not in json.dumps([told, rendered]), "… and is not shown"
    address = told[0][1]["url"]
    assert address.startswith(upstream.url)
    assert {one["exact"] for _, one in told} == {True}


@pytest.mark.parametrize("model", UPSTREAMS)
async def test_a_round_says_what_it_has_in_common_with_the_one_before(door: Door, model: str) -> None:
    async with (
        Upstream(*UPSTREAMS[model]()) as upstream,
        door.serving(provider(model, upstream), forecast, model=model) as served,
    ):
        run = await run_of(served, QUESTION)
        _, first = await get(served, f"/runs/{run}/rounds/0/request")
        _, second = await get(served, f"/runs/{run}/rounds/1/request")

    prompt = [block for block in first["blocks"] if block["kind"] != "options"]
    assert first["prefix"] is None
    assert second["prefix"] == {
        "blocks": len(prompt),
        "tokens": sum(block["tokens"] for block in prompt),
        "broken_at": None,
        "reason": None,
    }
    assert [block["hash"] for block in second["blocks"][: len(prompt)]] == [block["hash"] for block in prompt]
    assert first["tokens"] == sum(block["tokens"] for block in first["blocks"])


async def test_what_the_provider_had_read_before_is_told(door: Door) -> None:
    async with (
        Upstream(*anthropic_rounds()) as upstream,
        door.serving(provider(CLAUDE, upstream), forecast, model=CLAUDE) as served,
    ):
        run = await run_of(served, QUESTION)
        _, told = await get(served, f"/runs/{run}/rounds/1/request")

    assert told["cached_tokens"] == 4


async def test_a_streamed_run_is_told_as_it_was_sent(door: Door) -> None:
    async with Upstream(*chat_rounds()) as upstream, door.serving(upstream.url, forecast) as served:
        rendered = await post(served, "/render", {**QUESTION, "stream": True})
        run = await run_of(served, {**QUESTION, "stream": True})
        told = [(await get(served, f"/runs/{run}/rounds/{number}/request"))[1]["body"] for number in (0, 1)]

    assert told == upstream.requests
    assert rendered[1]["body"] == upstream.requests[0]
    assert told[0]["stream"] is True


@pytest.mark.parametrize("dialect", ["messages", "responses"])
async def test_a_request_of_another_dialect_is_rendered_too(door: Door, dialect: str) -> None:
    body: Json = {"model": "default", "input": "Hi"}
    if dialect == "messages":
        body = {"model": "default", "max_tokens": 50, "messages": [user("Hi")]}
    async with Upstream(completes("Hello.")) as upstream, door.serving(upstream.url, forecast) as served:
        status, rendered = await post(served, f"/render?dialect={dialect}", body)
        asked = await post(served, f"/{dialect}", body)

    assert (status, asked[0]) == (200, 200), (rendered, asked)
    assert rendered["body"] == upstream.requests[0]


async def test_secrets_in_an_address_are_not_shown(door: Door) -> None:
    async with Upstream(completes("Hello.")) as upstream:
        host = upstream.url.removeprefix("http://")
        address = f"http://name:password@{host}?api-version=2024-10-21&subscription-key={KEY}"
        async with door.serving(address) as served:
            _, rendered = await post(served, "/render", {"messages": [user("Hi")]})

    assert rendered["url"] == f"http://{host}/chat/completions?api-version=2024-10-21&subscription-key=…"
    assert "password" not in json.dumps(rendered)


async def test_a_round_that_another_model_answered_is_told_as_that_one_was_asked(door: Door) -> None:
    async with (
        Upstream(completes(None, call("forecast", city="Paris")), refuses(503, "away")) as first,
        Upstream(*anthropic_rounds()) as other,
    ):
        models = {
            "safe": {"model": "openai-chat:gpt-5", "base_url": first.url, "fallback": ["claude"]},
            "claude": {"model": CLAUDE, "base_url": other.url},
        }
        async with door.serving(ScriptedModel(), forecast, models=models) as served:
            run = await run_of(served, {**QUESTION, "model": "safe"})
            told = [(await get(served, f"/runs/{run}/rounds/{number}/request"))[1] for number in (0, 1, 2)]
            _, ended = await get(served, f"/runs/{run}")
            async with soon(), served.http.get(f"{served.url}/runs/{run}/events?stream=false") as answer:
                events = (await answer.text()).split("\n")

    assert ended["state"] == "finished"
    assert [one["model"] for one in told] == ["openai-chat:gpt-5", CLAUDE, CLAUDE]
    assert [one["url"].removesuffix("/chat/completions").removesuffix("/messages") for one in told] == [
        first.url, other.url, other.url,
    ]  # fmt: skip
    assert [one["body"] for one in told] == [first.requests[0], *other.requests]
    assert [one["exact"] for one in told] == [True] * 3
    assert (told[1]["prefix"]["reason"], told[2]["prefix"]["broken_at"]) == ("the model is another", None)
    finished = [json.loads(line[6:]) for line in events if '"type":"model_finished"' in line]
    assert [one.get("model") for one in finished] == [None, CLAUDE, CLAUDE]


async def test_words_that_were_taken_out_are_said_to_be(door: Door) -> None:
    async with Upstream(completes("Hello."), completes("Hello.")) as upstream:
        rules = [{"pattern": "hunter2", "replacement": 'the "word"'}]
        async with door.serving(upstream.url, redact=rules) as served:
            told = []
            for words in ("My word is hunter2.", "Hi"):
                run = await run_of(served, {"messages": [user(words)]})
                told.append((await get(served, f"/runs/{run}/rounds/0/request"))[1])

    assert [one["exact"] for one in told] == [False, True]
    assert told[0]["body"]["messages"] == [user('My word is the "word".')]
    assert told[0]["url"] == f"{upstream.url}/chat/completions"


async def test_a_model_without_a_wire_is_told_as_chat_completions_has_it(door: Door) -> None:
    async with door.serving(ScriptedModel(says("Hello."))) as served:
        run = await run_of(served, {"messages": [user("Hi")]})
        status, told = await get(served, f"/runs/{run}/rounds/0/request")

    assert (status, told["exact"], told["url"], told["api"]) == (200, False, None, "openai-chat")
    assert told["body"]["messages"] == [user("Hi")]


@pytest.mark.parametrize(
    ("path", "status", "code"),
    [
        ("runs/run_none/rounds/0/request", 404, "run_not_found"),
        ("runs/{run}/rounds/1/request", 404, "round_not_found"),
        ("runs/{run}/rounds/-1/request", 400, None),
        ("runs/{run}/rounds/²/request", 400, None),
        ("runs/{run}/rounds/99999999999999999999/request", 400, None),
    ],
)
async def test_rounds_that_are_not_there_are_said_to_be(door: Door, path: str, status: int, code: str | None) -> None:
    async with door.serving(ScriptedModel(says("Hello."))) as served:
        run = await run_of(served, {"messages": [user("Hi")]})
        found, told = await get(served, "/" + path.format(run=run))

    assert (found, told["error"]["code"]) == (status, code)


async def test_a_session_is_not_rendered(door: Door) -> None:
    async with door.serving(ScriptedModel()) as served:
        status, told = await post(served, "/render", {"messages": [user("Hi")], "session_id": "mine"})

    assert (status, told["error"]["param"]) == (400, "session")


async def test_the_page_is_told_that_requests_can_be_shown(door: Door) -> None:
    async with (
        door.serving(ScriptedModel()) as served,
        soon(),
        served.http.get(f"{served.url.removesuffix('/v1')}/ui/server") as answer,
    ):
        facts: Any = json.loads(await answer.read())

    assert facts["features"]["round_requests"] is True
