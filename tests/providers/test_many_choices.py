"""Several choices of one call, where the API can: the prompt is sent once, and usage is counted once."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.interaction.upstreams import Act, Upstream, answers, streams

from ronda.core.events import Preview, TextDelta
from ronda.core.parts import Usage, user
from ronda.core.plan import AUTO, NO_OPTIONS
from ronda.core.request import ModelRequest
from ronda.errors import UpstreamError
from ronda.providers import Where, open_provider

WORDS = ("One.", "Two.", "Three.")


def asking(stream: bool) -> ModelRequest:
    return ModelRequest([user("Hi")], (), AUTO, NO_OPTIONS, stream, "run", 0, 1, scratch={})


def gemini(*words: str, stream: bool) -> Act:
    candidates = [
        {"index": at, "content": {"parts": [{"text": text}]}, "finishReason": "STOP"} for at, text in enumerate(words)
    ]
    chunk = {"candidates": candidates, "usageMetadata": {"promptTokenCount": 3, "candidatesTokenCount": 6}}
    return streams(chunk) if stream else answers(json.dumps(chunk).encode())


def mistral(*words: str, stream: bool) -> Act:
    key = "delta" if stream else "message"
    choices = [
        {"index": at, key: {"role": "assistant", "content": text}, "finish_reason": "stop"}
        for at, text in enumerate(words)
    ]
    chunk = {"choices": choices, "usage": {"prompt_tokens": 3, "completion_tokens": 6}}
    return streams(chunk, "[DONE]") if stream else answers(json.dumps(chunk).encode())


async def call_many(provider: Any, stream: bool, n: int = 3) -> tuple[list[str], list[Usage], list[list[Preview]]]:
    shown: list[list[Preview]] = [[] for _ in range(n)]
    finished = await provider.call_many(asking(stream), [one.extend for one in shown])
    return [one.turn.text for one in finished], [one.usage for one in finished], shown


@pytest.mark.parametrize("stream", [False, True])
async def test_gemini_gives_candidates(stream: bool) -> None:
    async with Upstream(gemini(*WORDS, stream=stream)) as upstream:
        said, usage, shown = await call_many(open_provider("gemini:gemini-2.5-flash", Where(upstream.url)), stream)

    assert (said, usage) == (list(WORDS), [Usage(3, 6), Usage(), Usage()])
    assert shown == ([[TextDelta(text)] for text in WORDS] if stream else [[], [], []])
    assert upstream.requests[0]["generationConfig"] == {"candidateCount": 3}


@pytest.mark.parametrize("stream", [False, True])
async def test_mistral_gives_choices(stream: bool) -> None:
    async with Upstream(mistral(*WORDS, stream=stream)) as upstream:
        said, usage, shown = await call_many(open_provider("mistral:mistral-large", Where(upstream.url)), stream)

    assert (said, usage) == (list(WORDS), [Usage(3, 6), Usage(), Usage()])
    assert shown == ([[TextDelta(text)] for text in WORDS] if stream else [[], [], []])
    assert upstream.requests[0]["n"] == 3


async def test_whoever_gives_fewer_is_asked_for_the_rest() -> None:
    async with Upstream(mistral("One.", stream=False), *[mistral("Two.", stream=False)] * 2) as upstream:
        said, _, _ = await call_many(open_provider("mistral:mistral-large", Where(upstream.url)), False)

    assert said == ["One.", "Two.", "Two."]
    assert [request.get("n") for request in upstream.requests] == [3, None, None]


async def test_a_model_that_refuses_candidates_is_asked_one_by_one_and_not_for_several_again() -> None:
    refusal = {"error": {"code": 400, "message": "Multiple candidates is not enabled for this model"}}
    acts = (answers(json.dumps(refusal).encode(), 400), *[gemini("One.", stream=False)] * 4)
    async with Upstream(*acts) as upstream:
        provider = open_provider("gemini:gemini-3-pro", Where(upstream.url))
        first, _, _ = await call_many(provider, False, 2)
        second, _, _ = await call_many(provider, False, 2)

    assert first == second == ["One.", "One."]
    assert [request.get("generationConfig") for request in upstream.requests] == [{"candidateCount": 2}, *[None] * 4]


async def test_any_other_refusal_is_told_and_not_asked_for_once_for_each_choice() -> None:
    refusal = {"error": {"code": 400, "message": "API key not valid"}}
    async with Upstream(*[answers(json.dumps(refusal).encode(), 400)] * 3) as upstream:
        with pytest.raises(UpstreamError, match="API key not valid"):
            await call_many(open_provider("gemini:gemini-3-pro", Where(upstream.url)), False, 3)

    assert [request.get("generationConfig") for request in upstream.requests] == [{"candidateCount": 3}, None]
