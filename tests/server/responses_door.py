"""What the tests of the Responses door share: the official SDK in front, the schema of Open Responses at hand."""

from __future__ import annotations

import contextlib
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import openai
import pytest
from tests.conformance.openresponses_schema import WHERE, OpenResponses, WithHostedItems, check_stream, open_responses
from tests.interaction.doors import Json, Raw, Served, soon

DATA = Path(__file__).parents[2].parent / "shared" / "data"


def schemas() -> OpenResponses:
    """Of the document beside the repository; without it everything is of its schema."""
    return open_responses(DATA)


needs_schemas = pytest.mark.skipif(
    not (DATA / WHERE).is_file(), reason=f"the OpenAPI document of Open Responses is not in {DATA}"
)


async def post(served: Served, body: Json | bytes, path: str = "/responses", key: str = "test", **headers: str) -> Raw:
    """Ask without a client library, and keep every byte."""
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    return await send(served, "POST", path, key, data, **{"content-type": "application/json", **headers})


async def send(
    served: Served, method: str, path: str, key: str = "test", data: bytes | None = None, **headers: str
) -> Raw:
    sent = {"authorization": f"Bearer {key}", **headers}
    async with soon(), served.http.request(method, served.url + path, data=data, headers=sent) as answer:
        received = {name.lower(): said for name, said in answer.headers.items()}
        return Raw(answer.status, received, await answer.read())


async def ask(client: openai.AsyncOpenAI, stream: bool, **request: Any) -> Any:
    """A response through the SDK, whether it came whole or the SDK put it together."""
    request = {"model": "default", "input": "go", **request}
    async with soon():
        if not stream:
            return await client.responses.create(**request)
        async with client.responses.stream(**request) as events:
            async for event in events:
                if event.type in ("response.incomplete", "response.failed"):
                    return event.response
            return await events.get_final_response()


def events_of(raw: Raw) -> list[Json]:
    """The events of a stream, after every one of them was found to be of its schema, where that is at hand."""
    return check_stream(schemas(), raw.body)


def items_of(response: Any) -> list[Json]:
    """The output without what differs from run to run."""
    said = response.to_dict() if hasattr(response, "to_dict") else response
    return [as_sent(item, "id") for item in said["output"]]


def as_sent(item: Json, *without: str) -> Json:
    """An item without what the SDK adds to it."""
    kept = {name: value for name, value in item.items() if name not in ("parsed_arguments", *without)}
    if item["type"] == "message":
        kept["content"] = [{key: value for key, value in part.items() if key != "parsed"} for part in item["content"]]
    return kept


def message(text: str, phase: str = "final_answer", status: str = "completed") -> Json:
    content = {"type": "output_text", "text": text, "annotations": [], "logprobs": []}
    return {"type": "message", "status": status, "role": "assistant", "content": [content], "phase": phase}


def function(name: str, **properties: str) -> Json:
    """A caller's tool, as it stands in a request. All its parameters are required."""
    schema = {
        "type": "object",
        "properties": {key: {"type": kind} for key, kind in properties.items()},
        "required": list(properties),
    }
    return {"type": "function", "name": name, "description": f"{name}s", "parameters": schema, "strict": False}


def output(call_id: str, said: str) -> Json:
    return {"type": "function_call_output", "call_id": call_id, "output": said}


class Socket:
    """A client that checks everything it hears against the schema."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse, known: OpenResponses | WithHostedItems) -> None:
        self.raw = socket
        self._known = known

    async def say(self, **event: Any) -> None:
        await self.raw.send_str(json.dumps({"type": "response.create", **event}))

    async def turn(self, **event: Any) -> Json:
        """Ask, and hear everything up to the end: the last event, whatever it is."""
        request = {"type": "response.create", "model": "default", **event}
        self._known.check(request, "WebSocketResponseCreateEvent")
        await self.say(**request)
        return (await self.rest())[-1]

    async def rest(self) -> list[Json]:
        known = self._known
        heard: list[Json] = []
        async with soon():
            while True:
                event: Json = json.loads(await self.raw.receive_str())
                if event["type"] == "error":
                    known.check(event, "WebSocketErrorEvent")
                    return [*heard, event]
                known.check_event(event)
                heard.append(event)
                assert event["sequence_number"] == len(heard) - 1
                if event["type"] in ("response.completed", "response.incomplete", "response.failed"):
                    known.check(event["response"], "ResponseResource")
                    return heard


@contextlib.asynccontextmanager
async def connected(
    served: Served, key: str = "test", *, hosted: frozenset[str] = frozenset()
) -> AsyncIterator[Socket]:
    """`hosted`: items of OpenAI's own tools that are heard, which the public document does not have."""
    url = served.url.replace("http", "ws") + "/responses"
    async with soon(), served.http.ws_connect(url, headers={"authorization": f"Bearer {key}"}) as socket:
        yield Socket(socket, WithHostedItems(schemas(), hosted) if hosted else schemas())


def code(event: Json) -> str:
    assert event["type"] == "error", event
    said: str = event["error"]["code"]
    return said


def text(event: Json) -> str:
    assert event["type"] == "response.completed", event
    return "".join([part["text"] for item in event["response"]["output"] for part in item.get("content", [])])
