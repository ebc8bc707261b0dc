"""Gemini over HTTP: where requests go and with which key, plain and streamed, and a whole loop against a strict server."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from tests.conformance.gemini_strict import refusals

from ronda.agent import Agent, invoke_agent_async
from ronda.core.events import ModelFinished, Preview, TextDelta
from ronda.core.parts import AssistantTurn, Text, Usage, user
from ronda.core.plan import AUTO, NO_OPTIONS
from ronda.core.request import ModelRequest
from ronda.errors import UpstreamBroken, UpstreamError
from ronda.providers import Where, open_provider
from ronda.providers.gemini import Gemini, endpoint

MODEL = "gemini-3-flash-preview"
Act = Callable[[web.Request, Any], web.StreamResponse | bytes]


class Server:
    def __init__(self, *acts: bytes | web.Response) -> None:
        self.acts = list(acts)
        self.paths: list[str] = []
        self.headers: list[dict[str, str]] = []
        self.requests: list[Any] = []

    async def handle(self, request: web.Request) -> web.StreamResponse:
        self.paths.append(request.path_qs)
        self.headers.append({name.lower(): value for name, value in request.headers.items()})
        self.requests.append(await request.json())
        if problems := refusals(MODEL, self.requests[-1]):
            return web.json_response({"error": {"code": 400, "message": "; ".join(problems)}}, status=400)
        act = self.acts[len(self.requests) - 1]
        if isinstance(act, web.Response):
            return act
        kind = "text/event-stream" if act.startswith(b"data:") else "application/json"
        answer = web.StreamResponse(headers={"Content-Type": kind})
        await answer.prepare(request)
        for at in range(0, len(act), 50):
            await answer.write(act[at : at + 50])
        return answer


@asynccontextmanager
async def serving(*acts: bytes | web.Response) -> AsyncIterator[tuple[Server, str]]:
    server = Server(*acts)
    app = web.Application()
    app.router.add_post("/{path:.*}", server.handle)
    async with TestServer(app) as running:
        yield server, str(running.make_url("/v1beta"))


def chunk(*parts: Any, finish: str | None = "STOP") -> Any:
    usage = {"promptTokenCount": 3, "candidatesTokenCount": 2, "totalTokenCount": 5}
    return {
        "candidates": [{"content": {"role": "model", "parts": list(parts)}, "finishReason": finish}],
        "usageMetadata": usage,
    }


def plain(*parts: Any) -> bytes:
    return json.dumps(chunk(*parts)).encode()


def events(*chunks: Any) -> bytes:
    return b"".join(b"data: " + json.dumps(one).encode() + b"\r\n\r\n" for one in chunks)


def asking(stream: bool = False) -> ModelRequest:
    return ModelRequest([user("Hi")], (), AUTO, NO_OPTIONS, stream, "run", 0, 1, scratch={})


HELLO = ModelFinished(AssistantTurn((Text("Hello."),)), Usage(3, 2))


def test_a_plain_call_goes_to_generate_content_with_the_key_in_its_header() -> None:
    async def go() -> None:
        async with serving(plain({"text": "Hello."})) as (server, url):
            provider = open_provider(f"gemini:{MODEL}", Where(url, "secret"))
            assert await provider.call(asking(), lambda _: None) == HELLO
            assert server.paths == [f"/v1beta/models/{MODEL}:generateContent"]
            assert server.headers[0]["x-goog-api-key"] == "secret"

    asyncio.run(go())


@pytest.mark.parametrize("form", ["events", "array"])
def test_a_streamed_call_is_shown_as_it_comes_in_whichever_form(form: str) -> None:
    chunks = [chunk({"text": "Hel"}, finish=None), chunk({"text": "lo."})]

    async def go() -> None:
        said = events(*chunks) if form == "events" else json.dumps(chunks).encode()
        async with serving(said) as (server, url):
            shown: list[Preview] = []
            assert await Gemini(MODEL, url).call(asking(stream=True), shown.extend) == HELLO
            assert shown == [TextDelta("Hel"), TextDelta("lo.")]
            assert server.paths == [f"/v1beta/models/{MODEL}:streamGenerateContent?alt=sse"]
            assert "x-goog-api-key" not in server.headers[0]

    asyncio.run(go())


def test_a_stream_that_breaks_off_is_broken() -> None:
    async def go() -> None:
        async with serving(events(chunk({"text": "Hel"}, finish=None))) as (_, url):
            with pytest.raises(UpstreamBroken):
                await Gemini(MODEL, url).call(asking(stream=True), lambda _: None)

    asyncio.run(go())


def test_a_refusal_is_told_in_googles_words() -> None:
    body = {"error": {"code": 429, "message": "Quota exceeded", "details": [{"retryDelay": "7s"}]}}

    async def go() -> None:
        async with serving(web.json_response(body, status=429)) as (_, url):
            with pytest.raises(UpstreamError, match="Quota exceeded") as caught:
                await Gemini(MODEL, url).call(asking(), lambda _: None)
            assert (caught.value.status, caught.value.retryable, caught.value.retry_after) == (429, True, 7.0)

    asyncio.run(go())


@pytest.mark.parametrize(
    ("base", "model", "address"),
    [
        ("https://g/v1beta/", "gemini-x", "https://g/v1beta/models/gemini-x:generateContent"),
        ("https://g/v1beta", "tunedModels/t1", "https://g/v1beta/tunedModels/t1:generateContent"),
        ("https://g/v1?a=b", "m", "https://g/v1/models/m:generateContent?a=b"),
        (
            "https://eu-aiplatform.googleapis.com/v1/projects/p/locations/eu/publishers/google",
            "m",
            "https://eu-aiplatform.googleapis.com/v1/projects/p/locations/eu/publishers/google/models/m:generateContent",
        ),
    ],
)
def test_where_a_model_is(base: str, model: str, address: str) -> None:
    assert endpoint(base, model, "generateContent") == address


def test_a_token_of_google_cloud_is_a_bearer_token() -> None:
    async def go() -> None:
        async with serving(plain({"text": "Hello."})) as (server, url):
            await Gemini(MODEL, url, "ya29.token").call(asking(), lambda _: None)
            assert server.headers[0]["authorization"] == "Bearer ya29.token"

    asyncio.run(go())


@pytest.mark.parametrize("stream", [False, True])
def test_a_loop_with_parallel_tools_sends_signed_parts_back_and_results_in_order(stream: bool) -> None:
    calls = [
        {"text": "I look.", "thought": True},
        {"functionCall": {"name": "look", "args": {"at": "sky"}}, "thoughtSignature": "U0lHTg=="},
        {"functionCall": {"name": "look", "args": {"at": "sea"}}},
    ]
    first, last = (
        (events(chunk(*calls)), events(chunk({"text": "Both blue."})))
        if stream
        else (
            plain(*calls),
            plain({"text": "Both blue."}),
        )
    )

    async def look(at: str) -> str:
        """Look somewhere."""
        if at == "sea":
            raise ValueError("too dark")
        await asyncio.sleep(0)
        return f"{at} is blue"

    async def go() -> None:
        async with serving(first, last) as (server, url):
            agent = Agent(model=f"gemini:{MODEL}", base_url=url, api_key="k", tools=[look])
            watching: dict[str, Any] = {"on_event": lambda _: None} if stream else {}
            result = await invoke_agent_async(agent, "Sky and sea?", **watching)
            assert str(result) == "Both blue."
            assert server.requests[1]["contents"][1:] == [
                {"role": "model", "parts": calls},
                {
                    "role": "user",
                    "parts": [
                        {"functionResponse": {"name": "look", "response": {"output": "sky is blue"}}},
                        {"functionResponse": {"name": "look", "response": {"error": _error(server)}}},
                    ],
                },
            ]
            assert "too dark" in _error(server)

    asyncio.run(go())


def _error(server: Server) -> str:
    return str(server.requests[1]["contents"][2]["parts"][1]["functionResponse"]["response"].get("error"))
