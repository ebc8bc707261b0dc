"""The same agent with the same model, through every door: the same tools run, and the same is said in the end."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias

import anthropic
import pytest
from mistralai.client import Mistral
from tests.interaction.doors import TIMEOUT, Door, Json, soon

from ronda import Agent, Runner, invoke_agent_async, stream_agent, tool
from ronda.providers.script import Call
from ronda.runner import ChatCompletionRequest
from ronda.testing import ScriptedModel, says
from ronda.testing import calls as asks

ANSWER = "It is warm in Lisbon and cold in Oslo."
Ask: TypeAlias = Callable[[Door, bool], Awaitable[str]]


def script() -> ScriptedModel:
    """Two tools at once, one that fails, then the answer."""
    return ScriptedModel(
        asks(Call("look", {"city": "Lisbon"}), Call("look", {"city": "Oslo"})), asks("fail"), says(ANSWER)
    )


def tools(log: list[Any]) -> list[Any]:
    @tool
    async def look(city: str) -> str:
        """Look at the sky."""
        log.append(("look", city))
        return f"sky over {city}"

    @tool
    async def fail() -> str:
        """Never works."""
        log.append(("fail",))
        raise ValueError("broken")

    return [look, fail]


async def chat(door: Door, stream: bool) -> str:
    client = door.client("test")
    question: Any = [{"role": "user", "content": "go"}]
    if not stream:
        made = await client.chat.completions.create(model="default", messages=question)
        return made.choices[0].message.content or ""
    pieces = await client.chat.completions.create(model="default", messages=question, stream=True)
    return "".join([piece.choices[0].delta.content or "" async for piece in pieces if piece.choices])


async def responses(door: Door, stream: bool) -> str:
    client = door.client("test")
    if not stream:
        return (await client.responses.create(model="default", input="go")).output_text
    events = await client.responses.create(model="default", input="go", stream=True)
    return "".join([event.delta async for event in events if event.type == "response.output_text.delta"])


async def messages(door: Door, stream: bool) -> str:
    url = door.url.removesuffix("/v1")
    question: Any = [{"role": "user", "content": "go"}]
    async with anthropic.AsyncAnthropic(base_url=url, api_key="test", max_retries=0, timeout=TIMEOUT) as client:
        if not stream:
            made = await client.messages.create(model="default", max_tokens=99, messages=question)
            return "".join([block.text for block in made.content if block.type == "text"])
        async with client.messages.stream(model="default", max_tokens=99, messages=question) as events:
            return "".join([text async for text in events.text_stream])


async def mistral(door: Door, stream: bool) -> str:
    question: Any = [{"role": "user", "content": "go"}]
    async with Mistral(api_key="test", server_url=door.url.removesuffix("/v1")) as client:
        if not stream:
            made = await client.agents.complete_async(messages=question, agent_id="default")
            assert made.choices[0].message is not None
            return str(made.choices[0].message.content)
        text = ""
        async for event in await client.agents.stream_async(messages=question, agent_id="default"):
            for choice in event.data.choices:
                text += str(choice.delta.content or "")
        return text


async def conversations(door: Door, stream: bool) -> str:
    async with Mistral(api_key="test", server_url=door.url.removesuffix("/v1")) as client:
        if not stream:
            made = await client.beta.conversations.start_async(model="default", inputs="go")
            said = [entry for entry in made.outputs if entry.type == "message.output"]
            return str(said[-1].content)
        text = ""
        async for event in await client.beta.conversations.start_stream_async(model="default", inputs="go"):
            if event.event == "message.output.delta":
                text += str(event.data.content)
        return text


DOORS: list[Ask] = [chat, responses, messages, mistral, conversations]


@pytest.mark.parametrize("ask", DOORS)
async def test_every_door_runs_the_same_tools_and_says_the_same(door: Door, ask: Ask, stream: bool) -> None:
    log: list[Any] = []
    async with door.serving(script(), *tools(log)) as served, soon():
        text = await ask(door, stream)
        [events] = await served.events

    assert text == ANSWER
    assert log == [("look", "Lisbon"), ("look", "Oslo"), ("fail",)]
    results = [event.result.content for event in events if hasattr(event, "result")]
    assert results == ["sky over Lisbon", "sky over Oslo", "Error: Tool 'fail' failed: ValueError: broken"]


async def test_the_library_and_the_runner_do_the_same(stream: bool) -> None:
    log: list[Any] = []
    agent = Agent(model=script(), tools=tools(log))
    if stream:
        async with stream_agent(agent, "go") as events:
            async for _ in events:
                pass
            text = events.result
    else:
        text = await invoke_agent_async(agent, "go")
    question: list[Json] = [{"role": "user", "content": "go"}]
    request = ChatCompletionRequest(model="default", messages=question, stream=stream)

    def in_process() -> str:
        answer: Any = Runner(model=script(), tools=tools(log)).send_chat_completion_request(request)
        if not stream:
            return str(answer.choices[0].message.content)
        return "".join([chunk.choices[0].delta.content or "" for chunk in answer if chunk.choices])

    assert (text, await asyncio.to_thread(in_process)) == (ANSWER, ANSWER)
    assert log == [("look", "Lisbon"), ("look", "Oslo"), ("fail",)] * 2
