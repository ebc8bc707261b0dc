"""The floors of the server's figures: what a person writes in an afternoon with Starlette and aiohttp.

`/v1/chat/completions` passes bytes on, `/rewrite` parses and writes every event again as any gateway must, `/agent`
runs the whole tool loop within the request. Runs under uvicorn with uvloop and httptools, as Ronda's server does.
"""

import json
import os
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
from bench.floors import HEADERS, TOOLS, run_calls
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

URL = os.environ["BENCH_UPSTREAM"] + "/chat/completions"
SSE = "text/event-stream"

_sessions: list[aiohttp.ClientSession] = []


def session() -> aiohttp.ClientSession:
    if not _sessions:  # made by the first request: a session needs the running loop
        _sessions.append(aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)))
    return _sessions[0]


async def post(body: bytes | str) -> bytes:
    async with session().post(URL, data=body, headers=HEADERS) as response:
        return await response.read()


async def chat(request: Request) -> Response:
    body = await request.body()
    if json.loads(body).get("stream"):
        return StreamingResponse(passed_on(body), media_type=SSE)
    return Response(await post(body), media_type="application/json")


async def passed_on(body: bytes) -> AsyncIterator[bytes]:
    async with session().post(URL, data=body, headers=HEADERS) as response:
        async for data in response.content.iter_any():
            yield data


async def rewrite(request: Request) -> Response:
    return StreamingResponse(rewritten(await request.body()), media_type=SSE)


async def rewritten(body: bytes) -> AsyncIterator[bytes]:
    rest = b""
    async with session().post(URL, data=body, headers=HEADERS) as response:
        async for data in response.content.iter_any():
            *frames, rest = (rest + data).split(b"\n\n")
            yield b"".join([rewritten_frame(frame) + b"\n\n" for frame in frames])


def rewritten_frame(frame: bytes) -> bytes:
    if frame == b"data: [DONE]":
        return frame
    chunk = json.loads(frame.removeprefix(b"data: "))
    chunk["id"] = "chatcmpl-floor"
    return b"data: " + json.dumps(chunk, separators=(",", ":")).encode()


async def agent(request: Request) -> Response:
    asked: dict[str, Any] = json.loads(await request.body())
    messages = asked["messages"]
    while True:
        answer = json.loads(await post(json.dumps({"model": asked["model"], "messages": messages, "tools": TOOLS})))
        message = answer["choices"][0]["message"]
        if not message.get("tool_calls"):
            return JSONResponse(answer)
        messages.append(message)
        messages += await run_calls(message)


async def health(_: Request) -> Response:
    return Response()


app = Starlette(
    routes=[
        Route("/health", health),
        Route("/v1/chat/completions", chat, methods=["POST"]),
        Route("/rewrite", rewrite, methods=["POST"]),
        Route("/agent", agent, methods=["POST"]),
    ]
)
