"""`make live` itself, on upstreams of ours: a server with a model that knows the answers, asked in three dialects."""

from __future__ import annotations

import asyncio
import json
import re
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import uvicorn
from tests.live.__main__ import PROVIDERS, chosen, main
from tests.live.checks import CHECKS, CODES
from tests.timeouts import soon

from ronda.cli.serve import http_settings
from ronda.core.events import ModelFinished, TextDelta
from ronda.core.parts import AssistantTurn, File, Image, Text, ToolCall, ToolTurn, Turn, Usage, UserTurn
from ronda.core.request import ModelRequest
from ronda.drive import Capabilities, Show
from ronda.journal.memory import MemoryJournal
from ronda.server.app import Server, create_app
from ronda.server.config import ServerConfig

# Gemini's API is no door of ours, and Mistral's takes PDFs in a form that Chat Completions does not know.
DIALECTS = ["openai", "openai-chat", "anthropic"]


class Knowing:
    """Answers the questions of the checks. `is_dull`: it answers none."""

    capabilities = Capabilities(takes_addresses=True)

    def __init__(self, *, is_dull: bool = False) -> None:
        self.is_dull = is_dull
        self.count = 0

    async def call(self, request: ModelRequest, show: Show) -> ModelFinished:
        self.count += 1
        turns = list(request.turns)
        last = turns[-1]
        usage = Usage(input=100, output=20)
        users = [turn for turn in turns if isinstance(turn, UserTurn)]
        question = "".join(part.text for part in users[-1].parts if isinstance(part, Text))
        cities = [city for city in CODES if re.search(city, question.lower())]
        if request.tools and cities and not isinstance(last, ToolTurn) and not self.is_dull:
            calls = [ToolCall(f"c{at}", "get_code", json.dumps({"city": city})) for at, city in enumerate(cities)]
            return ModelFinished(AssistantTurn(tuple(calls), "tool_calls"), usage)
        text = "I do not know." if self.is_dull else self._answer(turns, question)
        show([TextDelta(text)])
        return ModelFinished(AssistantTurn((Text(text),), "stop"), usage)

    def _answer(self, turns: list[Turn], question: str) -> str:
        results = [one.content for turn in turns if isinstance(turn, ToolTurn) for one in turn.results]
        if results:
            return f"The codes: {' '.join(map(str, results))}"
        if "Eiffel" in question:
            return '{"name": "Paris", "country": "France"}'
        parts = [part for turn in turns if isinstance(turn, UserTurn) for part in turn.parts]
        known = {
            "PONG": "PONG",
            "Count": "one two three four five six seven eight nine ten",
            "17": "391",
            "name of my cat": "Pixel" if any("Pixel" in part.text for part in parts if isinstance(part, Text)) else "?",
            "colour": "Red." if any(isinstance(part, Image) for part in parts) else "?",
            "Lima": "5561" if any(isinstance(part, File) for part in parts) else "?",
        }
        return next((answer for words, answer in known.items() if words in question), "OK")


@asynccontextmanager
async def upstream(model: Knowing) -> AsyncIterator[str]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        config = ServerConfig(model="script:knowing", port=listener.getsockname()[1], aliases=("small",))
        made = Server(config, MemoryJournal(), provider=model)
        server = uvicorn.Server(http_settings(create_app(made), config, made.body_memory))
        serving = asyncio.create_task(server.serve([listener]))
        try:
            yield f"http://127.0.0.1:{config.port}"
        finally:
            server.should_exit = True
            async with soon():
                await serving


async def live(url: str, name: str, *more: str) -> int:
    at = url if name == "anthropic" else f"{url}/v1"
    return await main(["--model", f"{name}:small", "--base-url", at, *more], {})


@pytest.mark.parametrize("name", DIALECTS)
async def test_an_upstream_that_does_it_all_passes(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    async with upstream(Knowing()) as url:
        code = await live(url, name, "--cap", "1")

    out = capsys.readouterr().out
    assert code == 0, out
    assert [check for check in CHECKS if not re.search(rf"^  {check} .* ok$", out, re.MULTILINE)] == []
    assert f"0 of {len(CHECKS)} failed" in out


async def test_what_fails_is_named_and_the_rest_is_asked(capsys: pytest.CaptureFixture[str]) -> None:
    async with upstream(Knowing(is_dull=True)) as url:
        code = await live(url, "openai-chat", "--cap", "1")

    out = capsys.readouterr().out
    assert code == 1
    assert "the answer lacks pong: 'I do not know.'" in out
    assert re.search(r"^  unknown model .* ok$", out, re.MULTILINE)


async def test_nothing_is_asked_once_the_cap_is_spent(capsys: pytest.CaptureFixture[str]) -> None:
    model = Knowing()
    async with upstream(model) as url:
        code = await live(url, "openai-chat", "--cap", "0.001")  # a call of 120 tokens is taken to cost 0.0012

    assert (code, model.count) == (1, 1)
    assert capsys.readouterr().out.count("not asked: 0.00 dollars are spent") == len(CHECKS) - 1


async def test_without_a_key_it_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    assert await main([], {}) == 0
    assert capsys.readouterr().out.startswith(
        "nothing was asked: the environment has no key of a provider (OPENAI_API_KEY, "
    )


def test_providers_are_chosen_by_their_keys() -> None:
    keys = {"ANTHROPIC_API_KEY": "x", "GOOGLE_API_KEY": "y", "OPENAI_API_KEY": ""}
    assert chosen([], [], keys) == [one.spec for one in PROVIDERS if one.name in ("anthropic", "gemini")]
    assert chosen([], ["gemini"], keys) == [one.spec for one in PROVIDERS if one.name == "gemini"]
    assert chosen(["groq:x"], [], {}) == ["groq:x"]
