"""Arguments that a tool wants watched go out while the model writes them, at every door that streams."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from tests.interaction.doors import Door, Json, soon
from tests.server.responses_door import connected
from tests.server.runs_door import ask, frames

from ronda import tool
from ronda.core.events import CallDelta, ModelFinished
from ronda.core.guardrails import GuardrailResult, Guardrails
from ronda.core.parts import AssistantTurn, Text, ToolCall
from ronda.core.request import ModelRequest
from ronda.drive import Show
from ronda.errors import UpstreamError
from ronda.wire.codec.partial_json import read_pointer

PAGE = '<h1>"Grüße" 😀</h1>\n'
ARGUMENTS = json.dumps({"content": PAGE, "path": "index.html"})


@tool(preview=["/content"])
async def write(path: str, content: str) -> str:
    """Write a file."""
    return f"wrote {len(content)}"


class Writing:
    """A model that writes one call in pieces of three characters, and then says that it is done."""

    async def call(self, request: ModelRequest, show: Show) -> ModelFinished:
        if request.round:
            return ModelFinished(AssistantTurn((Text("done"),)))
        for at in range(0, len(ARGUMENTS), 3):
            show([CallDelta(0, "c1", "write", ARGUMENTS[at : at + 3])])
        return ModelFinished(AssistantTurn((ToolCall("c1", "write", ARGUMENTS),), "tool_calls"))


def previews(stream: bytes) -> list[Json]:
    blocks = [block.split("\n") for block in stream.decode().split("\n\n")]
    found = [lines for lines in blocks if lines[0] == "event: agentic_tool_call_preview"]
    return [json.loads(lines[1].removeprefix("data: ")) for lines in found]


def mistral_previews(stream: bytes) -> list[Json]:
    """Mistral's clients raise at events that they do not know: it stands in those that they do."""
    lines = [line.removeprefix("data: ") for line in stream.decode().split("\n") if line.startswith("data: {")]
    return [found for line in lines if (found := json.loads(line).get("agentic_tool_call_preview")) is not None]


def joined(events: list[Json]) -> str:
    """What is at /content, for one who knows the patches alone. It is a beginning of the page at every moment."""
    content = ""
    for patch in [patch for event in events for patch in event["patches"]]:
        assert read_pointer(patch["path"]) == ("content",)
        content = patch["value"] if patch["op"] == "set" else content + patch["value"]
        assert PAGE.startswith(content)
    return content


@pytest.mark.parametrize(
    ("path", "body", "read"),
    [
        ("/v1/chat/completions", {"messages": [{"role": "user", "content": "go"}]}, previews),
        ("/v1/responses", {"input": "go"}, previews),
        ("/v1/messages", {"max_tokens": 100, "messages": [{"role": "user", "content": "go"}]}, previews),
        (
            "/v1/agents/completions",
            {"agent_id": "default", "messages": [{"role": "user", "content": "go"}]},
            mistral_previews,
        ),
        ("/v1/conversations", {"inputs": "go"}, mistral_previews),
    ],
)
async def test_a_stream_shows_them_as_they_grow(
    door: Door, path: str, body: Json, read: Callable[[bytes], list[Json]]
) -> None:
    async with door.serving(Writing(), write) as served, soon():
        url = served.url.removesuffix("/v1") + path
        model = {} if "agent_id" in body else {"model": "default"}
        async with served.http.post(url, json={**model, "stream": True, **body}) as answer:
            events = read(await answer.read())

    assert len(events) > 5
    assert joined(events) == PAGE
    assert {(event["tool_name"], event["tool_call_id"], event["index"], event["round"]) for event in events} == {
        ("write", "c1", 0, 0)
    }


class TriedAgain(Writing):
    """Its first attempt breaks off in the middle of the call."""

    def __init__(self) -> None:
        self.attempts = 0

    async def call(self, request: ModelRequest, show: Show) -> ModelFinished:
        self.attempts += 1
        if self.attempts > 1:
            return await super().call(request, show)
        show([CallDelta(0, "c1", "write", ARGUMENTS[:21])])
        raise UpstreamError("torn", retryable=True)


async def test_what_a_torn_attempt_wrote_is_not_mixed_with_the_next(door: Door) -> None:
    async with door.serving(TriedAgain(), write) as served, soon():
        answer = await served.post({"messages": [{"role": "user", "content": "go"}], "stream": True})

    events = previews(answer.body)
    assert (joined(events), len(events) > 5) == (PAGE, True)


async def test_so_does_a_websocket(door: Door) -> None:
    async with door.serving(Writing(), write) as served, connected(served) as socket:
        await socket.say(input="go")
        events = [event for event in await socket.rest() if "patches" in event]

    assert (joined(events), len(events) > 5) == (PAGE, True)


async def _events(served: Any, run: str, after: str | None = None) -> list[tuple[str, str, Json]]:
    query = "" if after is None else f"?after={after}"
    headers = {"authorization": "Bearer test"}
    async with served.http.get(f"{served.url}/runs/{run}/events{query}", headers=headers) as answer:
        return frames(await answer.read())


async def test_whoever_follows_the_run_sees_them_from_any_place(door: Door) -> None:
    async with door.serving(Writing(), write) as served, soon():
        run = await ask(served, stream=True)
        whole = await _events(served, run)
        again = {position: await _events(served, run, position) for position, _, _ in whole[:-1]}

    assert joined([data for _, kind, data in whole if kind == "call_preview"]) == PAGE
    for position, rest in again.items():
        behind = [frame for frame in whole if _number(frame[0]) > _number(position)]
        assert rest == behind


def _number(position: str) -> tuple[int, ...]:
    fact, _, preview = position.partition(".")
    return int(fact), int(preview or 0)


async def test_what_a_guardrail_may_refuse_is_not_shown_early(door: Door) -> None:
    guardrails = Guardrails(output=lambda text, *more: True)
    async with door.serving(Writing(), write, guardrails=guardrails) as served, soon():
        answer = await served.post({"messages": [{"role": "user", "content": "go"}], "stream": True})

    assert previews(answer.body) == []


async def test_arguments_that_a_guardrail_rewrites_are_shown_as_they_run(door: Door) -> None:
    guardrails = Guardrails(tool=lambda *call: GuardrailResult(True, rewrite={"path": "x", "content": "other"}))
    async with door.serving(Writing(), write, guardrails=guardrails) as served, soon():
        answer = await served.post({"messages": [{"role": "user", "content": "go"}], "stream": True})

    assert previews(answer.body)[-1]["patches"] == [{"op": "set", "path": "/content", "value": "other"}]
