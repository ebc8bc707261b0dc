"""Recordings of our own, so that `make conformance` has something to read where there are no others: `python -m
tests.conformance.make_sample`.

Ronda's library runs an agent with one tool against a fake upstream that answers in the shapes of each vendor (`bench.dialects`),
plain and streamed, and refuses one request. What went over the wire is written to `sample/traffic`, in the form of recorded
traffic. Recordings of real servers have surprises in them; these have none: they show a stranger that the parts work.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from aiohttp import web
from bench import dialects
from bench.dialects import Json, Said
from msgspec import Struct

from ronda import Agent, invoke_agent_async, stream_agent, tool
from ronda.errors import ExecuteError
from ronda.providers import Where, open_provider

FOLDER: Final = Path(__file__).parent / "sample"
WORDS: Final = ["It is ", "mild and ", "clear in ", "Paris."]
ARGUMENTS: Final = '{"q":"Paris"}'


def chat_body(said: Said, call_id: str) -> Json:
    message: Json = {"role": "assistant", "content": said.text}
    if said.arguments:
        function = {"name": "lookup", "arguments": said.arguments}
        message = {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": call_id, "type": "function", "function": function}],
        }
    choice = {"index": 0, "message": message, "finish_reason": "tool_calls" if said.arguments else "stop"}
    usage = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
    head = {"id": f"chatcmpl-{said.number}", "object": "chat.completion", "created": 1_700_000_000, "model": said.model}
    return {**head, "choices": [choice], "usage": usage}


def chat_events(said: Said, call_id: str) -> list[bytes]:
    whole = chat_body(said, call_id)
    deltas: list[Json] = [{"role": "assistant", "content": ""}, *[{"content": word} for word in said.words]]
    if said.arguments:
        first = {"index": 0, "id": call_id, "type": "function", "function": {"name": "lookup", "arguments": ""}}
        deltas = [{"role": "assistant", "tool_calls": [first]}]
        deltas += [{"tool_calls": [{"index": 0, "function": {"arguments": scrap}}]} for scrap in said.scraps]
    head = {**whole, "object": "chat.completion.chunk", "usage": None}
    choices: list[Json] = [{"index": 0, "delta": delta, "finish_reason": None} for delta in deltas]
    choices.append({"index": 0, "delta": {}, "finish_reason": whole["choices"][0]["finish_reason"]})
    chunks: list[Json] = [{**head, "choices": [choice]} for choice in choices]
    chunks[-1]["usage"] = whole["usage"]
    return [*[b"data: %b\n\n" % json.dumps(chunk).encode() for chunk in chunks], b"data: [DONE]\n\n"]


def openai_error(message: str) -> Json:
    return {"error": {"message": message, "type": "invalid_request_error", "param": None, "code": None}}


def gemini_error(message: str) -> Json:
    return {"error": {"code": 400, "message": message, "status": "INVALID_ARGUMENT"}}


class Vendor(Struct, frozen=True):
    """`base` is what its addresses begin with, and `root` the part of them that a client is given."""

    file: str
    provider: str
    model: str
    base: str
    root: str
    body: Callable[[Said], Json]
    events: Callable[[Said], list[bytes]]
    error: Callable[[str], Json] | None  # None where no part reads errors


VENDORS: Final = (
    Vendor(
        "openai-chat", "openai-chat", "gpt-4o-mini", "https://api.openai.com", "/v1",
        lambda said: chat_body(said, f"call_{said.number}"), lambda said: chat_events(said, f"call_{said.number}"), openai_error,
    ),
    Vendor(
        "mistral", "mistral", "mistral-small-latest", "https://api.mistral.ai", "/v1",
        lambda said: chat_body(said, f"call{said.number:05d}"), lambda said: chat_events(said, f"call{said.number:05d}"),
        None,
    ),
    Vendor(
        "openai-responses", "openai", "gpt-4o-mini", "https://api.openai.com", "/v1",
        dialects.response_body, dialects.response_events, openai_error,
    ),
    Vendor(
        "anthropic", "anthropic", "claude-sonnet-4-5", "https://api.anthropic.com", "",
        dialects.message_body, dialects.message_events,
        lambda message: {"type": "error", "error": {"type": "invalid_request_error", "message": message}},
    ),
    Vendor(
        "gemini", "gemini", "gemini-2.5-flash", "https://generativelanguage.googleapis.com", "/v1beta",
        dialects.gemini_body, dialects.gemini_events, gemini_error,
    ),
)  # fmt: skip


class Recorder:
    """A fake upstream that keeps what went over the wire. A cassette's first request gets a call, the next one the answer."""

    def __init__(self, vendor: Vendor) -> None:
        self._vendor = vendor
        self._cassette = ""
        self._number = 0
        self.lines: list[Json] = []

    def begin(self, cassette: str) -> None:
        self._cassette, self._number = f"ronda:{self._vendor.file}/{cassette}", 0

    async def answer(self, request: web.Request) -> web.Response:
        vendor, asked = self._vendor, await request.json()
        number = len(self.lines)
        is_call = self._number == 0
        said = Said(vendor.model, number, ARGUMENTS if is_call else "", [] if is_call else WORDS)
        line: Json = {
            "id": f"{self._cassette}#{self._number}",
            "cassette": self._cassette,
            "index": self._number,
            "provider": vendor.file,
            "endpoint": request.path,
            "source": "made by tests/conformance/make_sample.py",
            "licence": "MIT",
            "method": "POST",
            "url": vendor.base + request.path,
            "request": asked,
        }
        self._number += 1
        self.lines.append(line)
        if self._cassette.endswith("refused") and vendor.error is not None:
            error = vendor.error("this model does not take the request")
            line |= {
                "response_status": 400,
                "response_headers": {"content-type": "application/json"},
                "response_body": error,
            }
            return web.json_response(error, status=400)
        if asked.get("stream") or "streamGenerateContent" in request.path:
            text = b"".join(vendor.events(said))
            kind = "text/event-stream"
            line |= {"response_status": 200, "response_headers": {"content-type": kind}, "sse_text": text.decode()}
            return web.Response(body=text, content_type=kind)
        body = vendor.body(said)
        line |= {
            "response_status": 200,
            "response_headers": {"content-type": "application/json"},
            "response_body": body,
        }
        return web.json_response(body)


@tool
def lookup(q: str) -> str:
    """Look something up."""
    return f"{q}: 18 degrees, no clouds"


async def record(vendor: Vendor) -> list[Json]:
    recorder = Recorder(vendor)
    app = web.Application()
    app.router.add_post("/{rest:.*}", recorder.answer)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        port = runner.addresses[0][1]
        provider = open_provider(
            f"{vendor.provider}:{vendor.model}", Where(f"http://127.0.0.1:{port}{vendor.root}", "no key")
        )
        agent: Agent[Any] = Agent(model=provider, instructions="Use the tool.", tools=[lookup])
        recorder.begin("plain")
        await invoke_agent_async(agent, "What is the weather in Paris?")
        recorder.begin("streamed")
        async with stream_agent(agent, "What is the weather in Paris?") as events:
            async for _ in events:
                pass
        if vendor.error is None:
            return recorder.lines
        recorder.begin("refused")
        try:
            await invoke_agent_async(agent, "What is the weather in Paris?")
        except ExecuteError:
            return recorder.lines
        raise AssertionError(f"{vendor.file}: a refused request was answered")
    finally:
        await runner.cleanup()


async def make(folder: Path) -> None:
    traffic = folder / "traffic"
    traffic.mkdir(parents=True, exist_ok=True)
    for vendor in VENDORS:
        lines = await record(vendor)
        (traffic / f"{vendor.file}.jsonl").write_text(
            "".join([json.dumps(line, sort_keys=True) + "\n" for line in lines])
        )


if __name__ == "__main__":
    asyncio.run(make(FOLDER))
