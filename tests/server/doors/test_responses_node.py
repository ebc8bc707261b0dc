"""npm's official client in front of our server: the documentation's example as it stands there, and all forms of tool_choice."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from tests.interaction.doors import Door, Json, Served, soon
from tests.server.responses_door import function
from tests.server.runs_door import Deleting
from tests.server.web_site import web_site

from ronda import tool
from ronda.core.events import ModelFinished
from ronda.core.parts import AssistantTurn, Text, ToolCall, Usage
from ronda.core.plan import ToolChoice
from ronda.core.request import ModelRequest
from ronda.drive import Show
from ronda.providers.script import Call, ScriptedModel, calls, says
from ronda.wire.web.search import SEARCH

FOLDER = Path(__file__).parents[2] / "node"
NODE = shutil.which("node")

pytestmark = [
    pytest.mark.skipif(NODE is None, reason="node is not installed"),
    pytest.mark.skipif(
        not (FOLDER / "node_modules").is_dir(), reason="tests/node has no packages: npm ci --prefix tests/node"
    ),
]


async def node(served: Served, *arguments: str, given: str = "") -> str:
    """What a program prints."""
    process = await asyncio.create_subprocess_exec(
        str(NODE),
        *arguments,
        cwd=FOLDER,
        env={**os.environ, "RONDA_URL": served.url.removesuffix("/v1")},
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    async with soon():
        out, errors = await process.communicate(given.encode())
    assert process.returncode == 0, errors.decode()
    return out.decode()


@tool
async def lookup(q: str) -> str:
    """Look something up."""
    return f"found {q}"


class Obedient:
    """A model that calls what it may, and only what it must or may: the first of its tools that the choice allows."""

    def __init__(self) -> None:
        self.requests: list[ModelRequest] = []

    async def call(self, request: ModelRequest, show: Show) -> ModelFinished:
        self.requests.append(request)
        choice = request.choice
        if choice.mode == "none":
            return ModelFinished(AssistantTurn((Text("No tools."),)), Usage(1, 1))
        name = choice.names[0] if choice.names else request.tools[0].name
        return ModelFinished(AssistantTurn((ToolCall("c1", name, '{"city":"Tokyo"}'),), "tool_calls"), Usage(1, 1))


async def test_the_documentations_example_runs_as_it_stands(door: Door) -> None:
    model = Obedient()
    async with door.serving(model) as served:
        printed = await node(served, "--import", "./redirect.mjs", "allowed_tools.mjs")

    assert printed == "get_weather\n"
    (request,) = model.requests
    assert request.choice == ToolChoice("required", ("get_weather",))
    assert [tool.name for tool in request.tools] == ["get_weather", "book_flight"]


ONLY: Json = {"type": "function", "name": "get_weather"}
FORMS: dict[str, Any] = {
    "none": "none",
    "auto": "auto",
    "required": "required",
    "named": ONLY,
    "named, nested": {"type": "function", "function": {"name": "get_weather"}},
    "allowed": {"type": "allowed_tools", "mode": "auto", "tools": [ONLY]},
    "allowed and required": {"type": "allowed_tools", "mode": "required", "tools": [ONLY]},
}


async def test_each_form_of_tool_choice_works_on_chat_and_responses(door: Door) -> None:
    tools = [function("book_flight", city="string"), function("get_weather", city="string")]
    async with door.serving(Obedient()) as served:
        printed = await node(served, "tool_choices.mjs", given=json.dumps({"forms": FORMS, "tools": tools}))
    said = {line["name"]: line["calls"] for line in map(json.loads, printed.splitlines())}

    free = [["book_flight"]] * 4
    assert said == {"none": [[]] * 4, "auto": free, "required": free} | {
        name: [["get_weather"]] * 4 for name in list(FORMS)[3:]
    }


async def test_a_chain_with_a_tool_works(door: Door) -> None:
    model = ScriptedModel(calls(Call("pick", {"color": "red"}, "c1")), says("Red."))
    async with door.serving(model) as served:
        printed = json.loads(await node(served, "responses.mjs"))

    assert printed == {
        "arguments": '{"color":"red"}',
        "text": "Red.",
        "kept": "Red.",
        "items": ["message", "function_call", "function_call_output"],
        "gone": 404,
    }


async def test_the_progress_of_a_server_tool_does_not_disturb_the_accumulator(door: Door) -> None:
    async with door.serving(ScriptedModel(calls(Call("lookup", {"q": "a"}, "c1")), says("It is a.")), lookup) as served:
        printed = json.loads(await node(served, "progress.mjs"))

    seen = {"phases": [["lookup", "calling"], ["lookup", "complete"]], "text": "It is a."}
    assert printed == [seen, seen]


async def test_searches_and_citations_pass_its_accumulator(door: Door) -> None:
    text = "Twice a day [1]."
    model = ScriptedModel(calls(SEARCH, query="tides"), says(text))

    async with web_site() as site, door.serving(model, **site.config) as served:
        live, again = json.loads(await node(served, "progress.mjs"))

    assert live == again == {"phases": [[SEARCH, "calling"], [SEARCH, "complete"]], "text": text}


async def test_npms_accumulator_takes_an_answer_that_waits(door: Door) -> None:
    files = Deleting()
    async with door.serving(
        ScriptedModel(calls("delete", path="/a", text="Let me see."), says("It is gone.")),
        files.tool,
        approval_timeout=0.01,
    ) as served:
        printed = json.loads(await node(served, "approvals.mjs"))

    assert printed == {
        "asked": ["delete"],
        "first": ["message", "mcp_approval_request"],
        "second": ["mcp_call", "message"],
        "text": "It is gone.",
    }
    assert files.deleted == ["/a"]
