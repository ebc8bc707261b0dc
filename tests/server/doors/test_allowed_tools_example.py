"""The documentation's example of `allowed_tools`, as it stands for Python and curl; `test_responses_node` has it for Node."""

from __future__ import annotations

import asyncio
import json
import shutil
import sys
from typing import Any

import pytest
from tests.interaction.doors import Door, soon
from tests.server.doors.test_responses_node import Obedient

from ronda.core.plan import ToolChoice

ADDRESS = "http://localhost:1234"  # of the example; what it sends there goes to the server under test


def function(name: str, description: str) -> dict[str, Any]:
    parameters = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
    return {
        "type": "function",
        "function": {"name": name, "description": description, "parameters": parameters, "strict": True},
    }


BODY = {
    "model": "default",
    "messages": [{"role": "user", "content": "Use a tool to help me plan for Tokyo."}],
    "tools": [
        function("get_weather", "Get the current weather for a city."),
        function("book_flight", "Book a flight to a city."),
    ],
    "tool_choice": {
        "type": "allowed_tools",
        "mode": "required",
        "tools": [{"type": "function", "name": "get_weather"}],
    },
}
PYTHON = f"""
from openai import OpenAI

client = OpenAI(api_key="foobar", base_url="{ADDRESS}/v1/")
completion = client.chat.completions.create(**{BODY!r})
print(completion.choices[0].message.tool_calls[0].function.name)
"""
CURL = f"""
curl --silent --show-error {ADDRESS}/v1/chat/completions \\
  -H 'Content-Type: application/json' \\
  -H 'Authorization: Bearer foobar' \\
  -d '{json.dumps(BODY)}'
"""


def name_printed_by_curl(printed: str) -> str:
    return str(json.loads(printed)["choices"][0]["message"]["tool_calls"][0]["function"]["name"])


@pytest.mark.parametrize(
    ("program", "text", "read"),
    [
        ([sys.executable, "-c"], PYTHON, str.strip),
        pytest.param(
            ["bash", "-euc"],
            CURL,
            name_printed_by_curl,
            marks=pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed"),
        ),
    ],
    ids=["python", "curl"],
)
async def test_the_example_calls_the_tool_that_is_allowed(door: Door, program: list[str], text: str, read: Any) -> None:
    model = Obedient()
    async with door.serving(model) as served:
        text = text.replace(ADDRESS, served.url.removesuffix("/v1"))
        process = await asyncio.create_subprocess_exec(
            *program, text, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
        )
        async with soon():
            out, errors = await process.communicate()
        assert process.returncode == 0, errors.decode()

    assert read(out.decode()) == "get_weather"
    (request,) = model.requests
    assert request.choice == ToolChoice("required", ("get_weather",))
    assert [tool.name for tool in request.tools] == ["get_weather", "book_flight"]
