"""`n` choices: with server tools n runs side by side from the same input; without, n goes upstream."""

from __future__ import annotations

import asyncio
import json
from collections import Counter

import openai
import pytest
from tests.interaction.doors import Door, Said
from tests.interaction.upstreams import Exchange, Upstream, call, completes, delta

from ronda import tool
from ronda.core.events import ModelFinished, TextDelta
from ronda.core.parts import AssistantTurn, Text, ToolCall, Usage
from ronda.core.request import ModelRequest
from ronda.drive import Show


class Numbered:
    """A model that asks for a tool first and then says which of its answers this is."""

    def __init__(self, calls_first: bool = True) -> None:
        self._calls_first = calls_first
        self.asked = 0
        self.answered = 0

    async def call(self, request: ModelRequest, show: Show) -> ModelFinished:
        self.asked += 1
        if self._calls_first and len(request.turns) == 1:
            return ModelFinished(AssistantTurn((ToolCall("c1", "meet", "{}"),), "tool_calls"), Usage(10, 5))
        self.answered += 1
        text = f"answer {self.answered}"
        if request.stream:
            show([TextDelta(text)])
        return ModelFinished(AssistantTurn((Text(text),)), Usage(10, 5))


async def test_with_server_tools_n_runs_go_side_by_side(door: Door, stream: bool) -> None:
    barrier = asyncio.Barrier(3)

    @tool
    async def meet() -> str:
        """Wait for the other choices."""
        await barrier.wait()
        return "met"

    model = Numbered()
    async with door.serving(model, meet) as served:
        choices = await served.ask_for(stream=stream, n=3)
        ends = await served.ends

    assert Counter(said.content for said in choices) == {"answer 1": 1, "answer 2": 1, "answer 3": 1}
    assert [said.finish_reason for said in choices] == ["stop"] * 3
    assert [said.usage for said in choices] == [(60, 30)] * 3  # one usage, of all of them
    assert [end.reason for end in ends] == ["stop"] * 3
    assert model.asked == 6


async def test_every_choice_has_its_own_records(door: Door, stream: bool) -> None:
    @tool
    async def meet() -> str:
        """Meet."""
        return "met"

    async with door.serving(Numbered(), meet) as served:
        choices = await served.ask_for(stream=stream, n=2)

    common = {"round": 0, "tool_call_id": "c1", "name": "meet", "arguments": "{}", "result_content": "met"}
    assert [said.records for said in choices] == [[common], [{**common, "choice": 1}]]


async def test_events_name_their_choice(door: Door) -> None:
    @tool
    async def meet() -> str:
        """Meet."""
        return "met"

    async with door.serving(Numbered(), meet) as served:
        choices = await served.ask_for(stream=True, n=2)

    for at, said in enumerate(choices):
        assert [(event["phase"], event["choices"][0]["index"]) for event in said.progress] == [
            ("calling", at),
            ("complete", at),
        ]


async def test_eight_is_the_most(door: Door, stream: bool) -> None:
    @tool
    async def meet() -> str:
        """Meet."""
        return "met"

    async with door.serving(Numbered(), meet) as served:
        assert len(await served.ask_for(stream=stream, n=8)) == 8
        with pytest.raises(openai.BadRequestError, match="n must be from 1 to 8"):
            await served.ask_for(stream=stream, n=9)


async def test_one_choice_that_fails_does_not_leave_a_stream_open(door: Door) -> None:
    good = completes("fine")
    bad = completes(None, call("meet", "c1"))

    @tool
    async def meet() -> str:
        """Meet."""
        return "met"

    async with Upstream(good, bad) as upstream, door.serving(upstream.url, meet) as served:
        answer = await served.post({"messages": "go", "stream": True, "n": 2})

    finished = [
        choice["finish_reason"]
        for chunk in answer.chunks
        for choice in chunk["choices"]
        if choice["finish_reason"] is not None
    ]
    assert sorted(finished) == ["error", "stop"]


async def two_choices(exchange: Exchange) -> None:
    usage = {"prompt_tokens": 10, "completion_tokens": 8, "total_tokens": 18}
    if exchange.json.get("stream"):
        await exchange.begin_stream()
        for at in (0, 1):
            for said in ({"content": f"answer {at}"}, {}):
                frame = delta(None if said else "stop", **said)
                frame["choices"][0]["index"] = at
                await exchange.send(frame)
        await exchange.send({"choices": [], "usage": usage}, "[DONE]")
        await exchange.end_stream()
        return
    choices = [
        {"index": at, "message": {"role": "assistant", "content": f"answer {at}"}, "finish_reason": "stop"}
        for at in (0, 1)
    ]
    await exchange.answer(json.dumps({"choices": choices, "usage": usage}).encode())


async def test_without_server_tools_n_goes_upstream(door: Door, stream: bool) -> None:
    async with Upstream(two_choices) as upstream, door.serving(upstream.url) as served:
        choices = await served.ask_for(stream=stream, n=2)

    assert [request["n"] for request in upstream.requests] == [2]
    assert choices == [Said(f"answer {at}", finish_reason="stop", usage=(10, 8)) for at in (0, 1)]


async def test_with_server_tools_n_does_not_go_upstream(door: Door, stream: bool) -> None:
    @tool
    async def meet() -> str:
        """Meet."""
        return "met"

    async with Upstream(completes("a"), completes("b")) as upstream, door.serving(upstream.url, meet) as served:
        choices = await served.ask_for(stream=stream, n=2)

    assert sorted(said.content for said in choices) == ["a", "b"]
    assert ["n" in request and request["n"] != 1 for request in upstream.requests] == [False, False]
