"""A conversation that goes on at another provider: what that one cannot be sent reaches it as words, and the caller is told."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.interaction.doors import Door, Json
from tests.interaction.upstreams import Upstream, answers

from ronda.journal.memory import MemoryJournal
from ronda.store.memory import MemoryCatalog

SPOKEN = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "ok"}]}
CHOICE = {"choices": [{"message": {"role": "assistant", "content": "ok"}, "finish_reason": "stop"}]}
ANSWERS: dict[str, Json] = {
    "openai:gpt-5": {"status": "completed", "output": [SPOKEN]},
    "anthropic:claude-sonnet-4-5": {
        "type": "message",
        "content": [{"type": "text", "text": "ok"}],
        "stop_reason": "end_turn",
    },
    "gemini:gemini-2.5-flash": {
        "candidates": [{"content": {"role": "model", "parts": [{"text": "ok"}]}, "finishReason": "STOP"}]
    },
    "mistral:mistral-large-latest": CHOICE,
    "openai-chat:m": CHOICE,
}
PAINTER = "gemini:gemini-2.5-flash-image"
PICTURE = {
    "candidates": [
        {
            "content": {"role": "model", "parts": [{"inlineData": {"mimeType": "image/png", "data": "AAAA"}}]},
            "finishReason": "STOP",
        }
    ]
}


async def asked(door: Door, model: str, answer: Json, kept: Any = None, **request: Any) -> tuple[Json, Json]:
    """What a provider was sent, and what the client read."""
    async with (
        Upstream(answers(json.dumps(answer).encode())) as upstream,
        door.serving(upstream.url, model=model, **(kept or {})) as served,
    ):
        said = await served.post(request)
    assert said.status == 200, said.body
    return upstream.requests[0], json.loads(said.body)


@pytest.mark.parametrize("model", ANSWERS)
async def test_a_refusal_said_at_chat_reaches_any_provider(door: Door, model: str) -> None:
    said = {"role": "assistant", "content": None, "refusal": "I will not."}
    messages = [{"role": "user", "content": "Do it."}, said, {"role": "user", "content": "Why?"}]

    request, _ = await asked(door, model, ANSWERS[model], messages=messages)

    assert "I will not." in json.dumps(request)


FILES = {
    "anthropic:claude-sonnet-4-5": "file-BK7bzQj3FfZFXr7DbL6xJwfo",
    "gemini:gemini-2.5-flash": "file-BK7bzQj3FfZFXr7DbL6xJwfo",
    "mistral:mistral-large-latest": "file_011CNha8iCJcU1wXNR6q4V8w",
}


@pytest.mark.parametrize("model", FILES)
async def test_a_file_that_another_provider_has_is_mentioned_and_told_as_left_out(door: Door, model: str) -> None:
    file = {"type": "file", "file": {"file_id": FILES[model]}}
    message = {"role": "user", "content": [{"type": "text", "text": "Read this."}, file]}

    request, answer = await asked(door, model, ANSWERS[model], messages=[message])

    assert "Read this." in json.dumps(request)
    assert FILES[model] not in json.dumps(request)
    assert any("only mentioned to the model" in warning for warning in answer["warnings"])


async def test_a_file_that_the_provider_has_goes_there(door: Door) -> None:
    file_id = "file_011CNha8iCJcU1wXNR6q4V8w"
    message = {"role": "user", "content": [{"type": "file", "file": {"file_id": file_id}}]}
    model = "anthropic:claude-sonnet-4-5"

    request, answer = await asked(door, model, ANSWERS[model], messages=[message])

    assert request["messages"][0]["content"][0]["source"] == {"type": "file", "file_id": file_id}
    assert "warnings" not in answer


@pytest.mark.parametrize("model", ANSWERS)
async def test_an_answer_that_is_only_a_picture_is_mentioned_to_the_next_provider(door: Door, model: str) -> None:
    kept = {"journal": MemoryJournal(), "catalog": MemoryCatalog()}
    await asked(door, PAINTER, PICTURE, kept, messages="Paint a boat.", session_id="s")
    request, answer = await asked(door, model, ANSWERS[model], kept, messages="And now?", session_id="s")

    written = json.dumps(request)
    places = [written.index(words) for words in ("Paint a boat.", "Here I answered with a picture", "And now?")]
    assert places == sorted(places)
    assert any("an answer without words is only mentioned" in warning for warning in answer["warnings"])
