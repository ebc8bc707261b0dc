"""What the tests of the Messages door share: the official SDK in front, a stand-in for Anthropic behind."""

from __future__ import annotations

import contextlib
import json
from collections.abc import AsyncIterator
from typing import Any

import anthropic
from tests.conformance.anthropic_streams import told
from tests.interaction.doors import TIMEOUT, Door, Json, Raw, Served, soon
from tests.interaction.upstreams import Act, Exchange

HI: Json = {"role": "user", "content": "hi"}
PICK: Json = {
    "name": "pick",
    "description": "Pick a color.",
    "input_schema": {"type": "object", "properties": {"color": {"type": "string"}}, "required": ["color"]},
}


@contextlib.asynccontextmanager
async def asking(door: Door, key: str = "test", **options: Any) -> AsyncIterator[anthropic.AsyncAnthropic]:
    """The official client, pointed at our server."""
    url = door.url.removesuffix("/v1")
    async with (
        anthropic.AsyncAnthropic(base_url=url, api_key=key, max_retries=0, timeout=TIMEOUT, **options) as client,
        soon(),
    ):
        yield client


async def answer(client: anthropic.AsyncAnthropic, *messages: Json, stream: bool, **request: Any) -> Json:
    """A message as JSON, whether it came whole or the SDK put it together."""
    said: Json = {"model": "default", "max_tokens": 100, "messages": list(messages) or [HI], **request}
    if not stream:
        made: anthropic.types.Message = await client.messages.create(**said)
    else:
        async with client.messages.stream(**said) as events:
            made = await events.get_final_message()
    return plainly(made.to_dict())


def plainly(message: Json) -> Json:
    """Without what differs from run to run, or only between the SDK's two ways to read."""
    differs = ("id", "session_id", "agentic_tool_calls", *[name for name in ("stop_details",) if not message.get(name)])
    kept = {name: value for name, value in message.items() if name not in differs}
    return {**kept, "content": [_plain(block) for block in message["content"]]}


def _plain(block: Json) -> Json:
    return {name: value for name, value in block.items() if name != "parsed_output" and value is not None}


def says(*content: Json, stop: str = "end_turn", input: int = 10, output: int = 5, **members: Any) -> Json:
    """What a message of ours looks like."""
    return {
        "type": "message",
        "role": "assistant",
        "model": "test",
        "content": list(content),
        "stop_reason": stop,
        "stop_sequence": None,
        "usage": usage(input, output),
        **members,
    }


def usage(input: int = 10, output: int = 5, **more: Any) -> Json:
    counts = {"cache_creation_input_tokens": 0, "cache_read_input_tokens": 0, **more}
    return {"input_tokens": input, **counts, "output_tokens": output}


def text(said: str) -> Json:
    return {"type": "text", "text": said}


def thinking(said: str, signature: str = "") -> Json:
    return {"type": "thinking", "thinking": said, "signature": signature}


def use(id: str, name: str, **input: Any) -> Json:
    return {"type": "tool_use", "id": id, "name": name, "input": input}


def result(id: str, content: Any, **more: Any) -> Json:
    return {"type": "tool_result", "tool_use_id": id, "content": content, **more}


def heard(*content: Json) -> Json:
    return {"role": "user", "content": list(content)}


def said(*content: Json) -> Json:
    return {"role": "assistant", "content": list(content)}


async def post(
    served: Served, body: Json | bytes, headers: dict[str, str] | None = None, path: str = "/messages"
) -> Raw:
    """Ask without a client library, and keep every byte."""
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    sent = {"content-type": "application/json", **(headers or {})}
    async with soon(), served.http.post(f"{served.url}{path}", data=data, headers=sent) as answered:
        received = {name.lower(): value for name, value in answered.headers.items()}
        return Raw(answered.status, received, await answered.read())


def events(raw: Raw) -> list[tuple[str, Json]]:
    return [(name, json.loads(data)) for name, data in raw.events]


# ---- a stand-in for Anthropic's API ----------------------------------------------------------------------------------

CLAUDE = "anthropic:claude-sonnet-4-5"


def claude_says(*content: Json, stop: str = "end_turn", **members: Any) -> Act:
    """Streamed or plain, as it is asked."""
    message = {
        "type": "message",
        "role": "assistant",
        "content": list(content),
        "stop_reason": stop,
        "usage": {"input_tokens": 10, "output_tokens": 5},
        **members,
    }

    async def act(exchange: Exchange) -> None:
        if exchange.json.get("stream"):
            body = "".join(f"event: {frame['type']}\ndata: {json.dumps(frame)}   \n\n" for frame in told(message))
            await exchange.answer(body.encode(), kind="text/event-stream; charset=utf-8")
        else:
            await exchange.answer(json.dumps(message).encode())

    return act
