"""As long as a stream has shown nothing, a failure is the HTTP status that it is for a plain request, on every door."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias

import anthropic
import pytest
from mistralai.client import Mistral
from mistralai.client.errors import MistralError
from tests.interaction.doors import TIMEOUT, Door, Json, Raw, Remembering, Served, soon
from tests.interaction.upstreams import Act, Exchange, Upstream, completes, delta, refuses, streams

from ronda.core.events import ModelFinished
from ronda.core.limits import Retry
from ronda.core.request import ModelRequest
from ronda.drive import Show
from ronda.errors import UpstreamError
from ronda.providers.script import ScriptedModel, says

HI: Json = {"role": "user", "content": "hi"}
BODIES: dict[str, Json] = {
    "/chat/completions": {"messages": [HI]},
    "/responses": {"input": "hi"},
    "/messages": {"messages": [HI], "max_tokens": 9},
    "/agents/completions": {"agent_id": "default", "messages": [HI]},
    "/conversations": {"model": "default", "inputs": "hi"},
}
DOORS = pytest.mark.parametrize("path", BODIES)
FAILURES: dict[str, tuple[Act, int]] = {
    "rate limit": (refuses(429, "slow down"), 429),
    "refused": (refuses(400, "temperature is too hot"), 400),
    "too long": (refuses(400, "maximum context length is 8 tokens"), 400),
    "down": (refuses(500, "overloaded"), 502),
    "broke off": (streams(ended=False), 502),
}
WAYS_TO_FAIL = pytest.mark.parametrize(("act", "status"), FAILURES.values(), ids=FAILURES.keys())


async def post(served: Served, path: str, *, stream: bool, shown: asyncio.Event | None = None, **more: Any) -> Raw:
    body = {**BODIES[path], "stream": stream, **more}
    async with soon(), served.http.post(served.url + path, json=body) as answer:
        headers = {name.lower(): said for name, said in answer.headers.items()}
        first = await answer.content.readany()
        if shown is not None:
            shown.set()
        return Raw(answer.status, headers, first + await answer.read())


def ids_apart(answer: Raw) -> Json:
    said: Json = answer.json
    said.pop("request_id", None)
    return said


@WAYS_TO_FAIL
@DOORS
async def test_a_failure_that_nothing_was_shown_before_is_the_plain_one(
    door: Door, path: str, act: Act, status: int
) -> None:
    async with Upstream(act, act) as upstream, door.serving(upstream.url, retry=Retry(tries=1)) as served:
        plain = await post(served, path, stream=False)
        streamed = await post(served, path, stream=True)

    assert (plain.status, streamed.status) == (status, status)
    if act is FAILURES["broke off"][0]:  # it says how it broke off, and there are two ways to
        return
    assert ids_apart(streamed) == ids_apart(plain)
    assert streamed.headers["content-type"] == "application/json"
    assert streamed.headers["x-should-retry"] == "false"
    assert "x-request-id" in streamed.headers


@DOORS
async def test_a_server_that_breaks_down_is_the_plain_one(door: Door, path: str) -> None:
    class Broken:
        async def call(self, request: ModelRequest, show: Show) -> ModelFinished:
            raise RuntimeError("ours")

    async with door.serving(Broken()) as served:
        plain = await post(served, path, stream=False)
        streamed = await post(served, path, stream=True)

    assert (plain.status, streamed.status) == (500, 500)
    assert ids_apart(streamed) == ids_apart(plain)


# ---- official clients --------------------------------------------------------------------------------------------------

Ask: TypeAlias = Callable[[Served, bool], Awaitable[Any]]


async def chat(served: Served, stream: bool) -> Any:
    messages: Any = [HI]
    create: Any = served.client().chat.completions.create
    answer = await create(model="default", messages=messages, stream=stream)
    return [chunk async for chunk in answer] if stream else answer


async def responses(served: Served, stream: bool) -> Any:
    create: Any = served.client().responses.create
    answer = await create(model="default", input="hi", stream=stream)
    return [event async for event in answer] if stream else answer


async def responses_accumulated(served: Served, stream: bool) -> Any:
    if not stream:
        return await responses(served, False)
    async with served.client().responses.stream(model="default", input="hi") as seen:
        return await seen.get_final_response()


async def messages(served: Served, stream: bool) -> Any:
    url = served.url.removesuffix("/v1")
    async with anthropic.AsyncAnthropic(api_key="k", base_url=url, max_retries=0, timeout=TIMEOUT) as client:
        create: Any = client.messages.create
        answer = await create(model="default", max_tokens=9, messages=[HI], stream=stream)
        return [event async for event in answer] if stream else answer


async def mistral(served: Served, stream: bool, kind: str = "agents") -> Any:
    async with Mistral(api_key="k", server_url=served.url.removesuffix("/v1"), timeout_ms=10_000) as untyped:
        client: Any = untyped
        asked: Json = {"messages": [HI]}
        match kind:
            case "agents":
                plain, streamed, asked["agent_id"] = client.agents.complete_async, client.agents.stream_async, "default"
            case "chat":
                plain, streamed, asked["model"] = client.chat.complete_async, client.chat.stream_async, "default"
            case _:
                talk = client.beta.conversations
                plain, streamed, asked = talk.start_async, talk.start_stream_async, {"model": "default", "inputs": "hi"}
        answer = await (streamed if stream else plain)(**asked)
        return [event async for event in answer] if stream else answer


async def mistral_chat(served: Served, stream: bool) -> Any:
    return await mistral(served, stream, "chat")


async def mistral_conversations(served: Served, stream: bool) -> Any:
    return await mistral(served, stream, "conversations")


CLIENTS = [chat, responses, responses_accumulated, messages, mistral, mistral_chat, mistral_conversations]


@pytest.mark.parametrize(("act", "status"), list(FAILURES.values())[:4], ids=list(FAILURES)[:4])
@pytest.mark.parametrize("ask", CLIENTS)
async def test_an_official_client_raises_the_same_exception_streamed_and_plain(
    door: Door, ask: Ask, act: Act, status: int
) -> None:
    raised = []
    async with Upstream(act, act) as upstream, door.serving(upstream.url, retry=Retry(tries=1)) as served, soon():
        for stream in (False, True):
            with pytest.raises(Exception, match=r".") as caught:
                await ask(served, stream)
            raised.append((type(caught.value), getattr(caught.value, "status_code", None)))

    assert raised[0] == raised[1]
    assert raised[0][1] == status


# ---- once something was shown ------------------------------------------------------------------------------------------


def error_in(path: str, answer: Raw) -> Json:
    """The error inside a stream, as the dialect says it."""
    assert answer.status == 200
    events = [(name, json.loads(data)) for name, data in answer.events if data != "[DONE]" and name != "ping"]
    match path:
        case "/responses":
            return dict(events[-1][1]["response"]["error"])
        case "/messages":
            return dict(events[-1][1]["error"])
        case "/conversations":
            return {**events[-1][1]["error"], "status": events[-1][1]["code"]}
        case "/agents/completions":
            return dict(events[-1][1])
        case _:
            return dict(events[-1][1]["error"])


@pytest.mark.parametrize(("act", "status"), list(FAILURES.values())[:4], ids=list(FAILURES)[:4])
@DOORS
async def test_an_error_inside_a_stream_has_the_type_and_code_of_the_plain_one(
    door: Door, path: str, act: Act, status: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ronda.server.answering.answer.HEAD_SECONDS", 0.0)
    monkeypatch.setattr("ronda.server.answering.answer.KEEP_ALIVE_SECONDS", 0.01)
    shown = asyncio.Event()

    async def late(exchange: Exchange) -> None:
        await exchange.shown.wait()
        await act(exchange)

    async with Upstream(act, late) as upstream, door.serving(upstream.url, retry=Retry(tries=1)) as served:
        upstream.shown = shown
        plain = await post(served, path, stream=False)
        streamed = await post(served, path, stream=True, shown=shown)

    error = error_in(path, streamed)
    said = plain.json.get("error", plain.json)
    assert {name: error.get(name) for name in ("type", "code")} == {name: said.get(name) for name in ("type", "code")}
    assert plain.status == status
    assert error.get("status", status) == status


@pytest.mark.parametrize("ask", [mistral, mistral_chat])
async def test_mistrals_sdk_raises_what_goes_wrong_inside_a_stream(door: Door, ask: Ask) -> None:
    act = streams(delta(role="assistant", content="Hel"), {"error": {"message": "out of memory", "code": 500}})
    async with Upstream(act) as upstream, door.serving(upstream.url) as served, soon():
        with pytest.raises(MistralError) as caught:
            await ask(served, True)

    assert "out of memory" in caught.value.body


# ---- what opens a stream -----------------------------------------------------------------------------------------------


@DOORS
async def test_the_head_goes_out_in_time_though_there_is_nothing_to_show(
    door: Door, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ronda.server.answering.answer.HEAD_SECONDS", 0.0)
    seen = asyncio.Event()

    async def late(exchange: Exchange) -> None:
        await seen.wait()
        await completes("Hello")(exchange)

    async with (
        Upstream(late) as upstream,
        door.serving(upstream.url) as served,
        soon(),
        served.http.post(served.url + path, json={**BODIES[path], "stream": True}) as answer,
    ):
        assert answer.status == 200
        seen.set()
        assert b"Hello" in await answer.read()


class Choosy:
    """A model whose n-th call fails where it is told to."""

    def __init__(self, *fails: bool) -> None:
        self._fails = list(fails)

    async def call(self, request: ModelRequest, show: Show) -> ModelFinished:
        if self._fails.pop(0):
            raise UpstreamError("slow down", status=429)
        return await ScriptedModel(says("Hello")).call(request, show)


@pytest.mark.parametrize("path", ["/chat/completions", "/agents/completions"])
@pytest.mark.parametrize(("fails", "status"), [((True, True), 429), ((True, False), 200), ((False, True), 200)])
async def test_of_several_choices_all_must_fail(door: Door, path: str, fails: tuple[bool, ...], status: int) -> None:
    async with door.serving(Choosy(*fails)) as served:
        answer = await post(served, path, stream=True, n=2)

    assert answer.status == status
    if status == 200:
        assert b"Hello" in answer.body
        assert b"slow down" in answer.body


# ---- ids that must outlive the process ---------------------------------------------------------------------------------


class Gated(Remembering):
    """A journal that keeps nothing before it is let."""

    def __init__(self) -> None:
        super().__init__()
        self.asked = asyncio.Event()
        self.may_keep = asyncio.Event()

    async def barrier(self, run: str) -> None:
        self.asked.set()
        await self.may_keep.wait()


@pytest.mark.parametrize("path", ["/responses", "/conversations"])
async def test_a_stored_answers_id_is_journaled_before_it_is_shown(door: Door, path: str) -> None:
    journal, shown = Gated(), asyncio.Event()
    act = streams(delta(role="assistant", content="Hel"), ..., delta("stop", content="lo"), "[DONE]")
    async with Upstream(act) as upstream, door.serving(upstream.url, journal=journal) as served, soon():
        upstream.shown = shown
        asking = asyncio.create_task(post(served, path, stream=True, shown=shown))
        await journal.asked.wait()  # before the model has said everything: the stream itself asks
        assert not shown.is_set()
        journal.may_keep.set()
        answer = await asking

    assert answer.status == 200


@pytest.mark.parametrize("path", ["/chat/completions", "/messages", "/agents/completions"])
async def test_an_id_that_nobody_can_ask_for_is_shown_at_once(door: Door, path: str) -> None:
    journal, shown = Gated(), asyncio.Event()
    act = streams(delta(role="assistant", content="Hel"), ..., delta("stop", content="lo"), "[DONE]")
    async with Upstream(act) as upstream, door.serving(upstream.url, journal=journal) as served, soon():
        upstream.shown = shown
        asking = asyncio.create_task(post(served, path, stream=True, shown=shown))
        await journal.asked.wait()
        assert shown.is_set()
        journal.may_keep.set()
        await asking
