"""The real local model behind the real server: a sample of what `make conformance-local` does at length."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from openai import OpenAI
from tests.conformance_local.schemas import TOOLS, declared
from tests.timeouts import TIMEOUT

from ronda.local.files import default_path
from ronda.schema.validate import Validator

pytestmark = [
    pytest.mark.skipif(default_path() is None, reason="the local model is not installed: make setup gets it"),
    pytest.mark.xdist_group("local"),
]


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OpenAI]:
    folder = tmp_path_factory.mktemp("local")
    command = [sys.executable, "-m", "ronda", "serve", "--port", "0", "--data-dir", str(folder / "data")]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, cwd=folder, env={**os.environ}) as process:
        assert process.stderr is not None
        found = next(address for line in process.stderr if (address := re.search(r"http://\S+", line)))
        yield OpenAI(base_url=f"{found.group()}/v1", api_key="any", max_retries=0, timeout=TIMEOUT)
        process.terminate()
        process.stderr.read()


@pytest.mark.parametrize("name", ["get_weather", "pick_colour", "order", "book", "move", "ping"])
def test_a_required_call_is_made_and_valid(client: OpenAI, name: str) -> None:
    messages: Any = [{"role": "user", "content": "Do something useful with the tool you have."}]
    tools: Any = [declared(name)]

    answer = client.chat.completions.create(
        model="default", messages=messages, tools=tools, tool_choice="required", max_tokens=200, seed=7
    )

    (call,) = answer.choices[0].message.tool_calls or []
    assert call.type == "function"
    assert (call.function.name, answer.choices[0].finish_reason) == (name, "tool_calls")
    assert Validator(TOOLS[name]).problems(json.loads(call.function.arguments)) == []


def test_a_response_format_binds_the_answer(client: OpenAI) -> None:
    schema = {"type": "object", "properties": {"mood": {"enum": ["good", "bad"]}}, "required": ["mood"]}
    answer_format: Any = {
        "type": "json_schema",
        "json_schema": {"name": "mood", "schema": {**schema, "additionalProperties": False}},
    }

    answer = client.chat.completions.create(
        model="default",
        messages=[{"role": "user", "content": "How are you?"}],
        response_format=answer_format,
        max_tokens=60,
    )

    assert json.loads(answer.choices[0].message.content or "")["mood"] in ("good", "bad")


def test_none_never_calls(client: OpenAI) -> None:
    tools: Any = [declared("get_weather")]
    messages: Any = [{"role": "user", "content": "Call get_weather for Paris."}]

    answer = client.chat.completions.create(
        model="default", messages=messages, tools=tools, tool_choice="none", max_tokens=30
    )

    assert answer.choices[0].message.tool_calls is None
    assert "<tool_call>" not in (answer.choices[0].message.content or "")


def test_tools_and_a_response_format_go_together(client: OpenAI) -> None:
    schema = {
        "type": "object",
        "properties": {"ok": {"type": "boolean"}},
        "required": ["ok"],
        "additionalProperties": False,
    }
    answer_format: Any = {"type": "json_schema", "json_schema": {"name": "ok", "schema": schema}}
    tools: Any = [declared("get_weather")]

    answer = client.chat.completions.create(
        model="default",
        messages=[{"role": "user", "content": "Is it raining in Paris?"}],
        tools=tools,
        response_format=answer_format,
        max_tokens=120,
        seed=3,
    )

    message = answer.choices[0].message
    if message.tool_calls:
        assert Validator(TOOLS["get_weather"]).problems(json.loads(message.tool_calls[0].function.arguments)) == []  # type: ignore[union-attr]
    else:
        assert Validator(schema).problems(json.loads(message.content or "")) == []
