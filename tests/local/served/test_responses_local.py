"""The tool-calling case of Open Responses on the default local model: the call is not forced."""

from __future__ import annotations

import json

import pytest
from tests.interaction.doors import Door
from tests.local.conftest import SMALL
from tests.server.doors.test_responses_compliance import created, message

from ronda.local.engine import Engine
from ronda.local.files import DEFAULT, ModelFile, default_path
from ronda.local.provider import LocalModel

WEATHER = {
    "type": "function",
    "name": "get_weather",
    "description": "Get the current weather for a location",
    "parameters": {
        "type": "object",
        "properties": {"location": {"type": "string", "description": "The city and state, e.g. Portland, OR"}},
        "required": ["location"],
    },
}


@pytest.fixture(scope="module")
def local() -> LocalModel:
    path = default_path()
    if path is None:
        pytest.skip("the default model is not installed: run 'ronda models pull'")
    return LocalModel(Engine(ModelFile(DEFAULT, path), SMALL))


async def test_tool_calling_passes_on_the_default_model(door: Door, local: LocalModel) -> None:
    question = message("user", "What's the weather like in San Francisco?")
    async with door.serving(local) as served:
        response = await created(served, input=[question], tools=[WEATHER])

    [item] = response["output"]
    assert (item["type"], item["name"]) == ("function_call", "get_weather")
    assert json.loads(item["arguments"]).keys() == {"location"}


async def test_a_greeting_is_answered_though_there_is_a_tool(door: Door, local: LocalModel) -> None:
    async with door.serving(local) as served:
        greeting = [message("user", "Good morning!")]
        response = await created(served, input=greeting, tools=[WEATHER], max_output_tokens=20, temperature=0)

    assert [item["type"] for item in response["output"]] == ["message"]
