"""What the tests of Mistral's doors share: our server behind the session's socket, and Mistral's own SDK in front of it."""

from __future__ import annotations

import contextlib
import json
from collections.abc import AsyncIterator, Iterable, Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any

import aiohttp
from mistralai.client import Mistral
from tests.interaction.doors import QUICK, Door, Json, Remembering, config_of, soon

from ronda.drive import Provider, Tool
from ronda.journal import Journal
from ronda.server.app import Server, create_app
from ronda.store.sqlite_catalog import SqliteCatalog

MINE = blake2b(b"Bearer test", digest_size=16).hexdigest()  # the owner of what is asked for here


@dataclass
class Behind:
    """A server of ours, and ways to ask it."""

    server: Server
    url: str  # without /v1: the SDK adds it
    http: aiohttp.ClientSession

    @contextlib.asynccontextmanager
    async def client(self, key: str = "test") -> AsyncIterator[Any]:
        """Of no type: tests say things in plain dicts, as people do, which the SDK's annotations do not all allow."""
        async with soon(), Mistral(api_key=key, server_url=self.url, timeout_ms=10_000) as client:
            yield client

    async def ask(
        self, method: str, path: str, body: Any = None, key: str = "test", headers: Mapping[str, str] | None = None
    ) -> tuple[int, Any]:
        """Without a client library: the status, and the JSON."""
        data = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
        sent = {"authorization": f"Bearer {key}", "content-type": "application/json", **(headers or {})}
        async with soon(), self.http.request(method, self.url + path, data=data, headers=sent) as answer:
            text = await answer.read()
            return answer.status, json.loads(text) if text else None

    async def stream(self, path: str, body: Json, key: str = "test") -> bytes:
        sent = {"authorization": f"Bearer {key}", "content-type": "application/json"}
        async with soon(), self.http.post(self.url + path, data=json.dumps(body).encode(), headers=sent) as answer:
            assert answer.status == 200, await answer.read()
            assert answer.headers["content-type"].startswith("text/event-stream")
            return await answer.read()

    @property
    def journal(self) -> Remembering:
        journal = self.server.runs.journal
        assert isinstance(journal, Remembering)
        return journal


@contextlib.asynccontextmanager
async def serving(
    door: Door,
    model: Provider | str,
    *tools: Tool,
    spec: str = "script:test",
    journal: Journal | None = None,
    catalog: str | None = None,
    catalog_timeout: float = 5.0,
    **config: Any,
) -> AsyncIterator[Behind]:
    """A server whose model is `spec`, answered by a provider or by what is at an address."""
    address = model if isinstance(model, str) else None
    server = Server(
        config_of({"model": spec, "base_url": address, "retry": QUICK, **config}),
        journal or Remembering(),
        provider=None if isinstance(model, str) else model,
        tools=tools,
        catalog=SqliteCatalog(catalog, timeout=catalog_timeout) if catalog is not None else None,
    )
    door._app = create_app(server)
    try:
        yield Behind(server, door.url.removesuffix("/v1"), door.http)
    finally:
        door._app = None
        async with soon():
            await server.runs.close()
        await server.catalog.close()


# ---- reading streams ---------------------------------------------------------------------------------------------------


def frames(body: bytes) -> list[tuple[str, str]]:
    """(event, data) of every event."""
    found = []
    for block in body.decode().split("\n\n"):
        fields = dict(line.split(": ", 1) for line in block.split("\n") if line and not line.startswith(":"))
        if fields:
            found.append((fields.get("event", ""), fields["data"]))
    return found


def chunks(body: bytes) -> list[Json]:
    """The chunks of a completion: data only, and ended as they should be."""
    read = frames(body)
    assert [event for event, _ in read] == [""] * len(read)
    assert read[-1][1] == "[DONE]"
    return [json.loads(data) for _, data in read[:-1]]


@dataclass
class Folded:
    """A completion that came in chunks, added up."""

    messages: list[Json] = field(default_factory=list)
    finish_reason: str | None = None
    usage: Json | None = None
    progress: list[Json] = field(default_factory=list)
    top: Json = field(default_factory=dict)  # what else the chunks say


def fold(read: Iterable[Json], choice: int = 0) -> Folded:
    """A `role` begins the next message; pieces of calls are joined by their index."""
    folded = Folded()
    for chunk in read:
        if chunk["object"] == "error":  # for SDKs, which pass over the error of the chunk before it
            assert chunk == {"object": "error", **folded.top["error"]}
            continue
        if "agentic_tool_call_progress" in chunk:
            [empty] = chunk["choices"]
            assert (empty["delta"], empty["finish_reason"]) == ({"content": ""}, None)
            folded.progress.append(chunk["agentic_tool_call_progress"])
            continue
        folded.usage = chunk.get("usage", folded.usage)
        folded.top |= {name: chunk[name] for name in ("warnings", "limit", "error", "session_id") if name in chunk}
        for part in [one for one in chunk["choices"] if one["index"] == choice]:
            folded.finish_reason = part["finish_reason"] or folded.finish_reason
            _add(part["delta"], folded.messages)
    return folded


def _add(delta: Json, messages: list[Json]) -> None:
    if "role" in delta:
        messages.append({"role": delta["role"], "content": ""})
    if "content" in delta:
        messages[-1]["content"] = _joined(messages[-1]["content"], delta["content"])
    for piece in delta.get("tool_calls", ()):
        calls = messages[-1].setdefault("tool_calls", [])
        if piece["index"] == len(calls):
            calls.append({**piece, "function": {**piece["function"]}})
        else:
            call = calls[piece["index"]]
            assert call["id"] == piece["id"]
            call["function"]["name"] += piece["function"]["name"]
            call["function"]["arguments"] += piece["function"]["arguments"]


def _joined(said: str | list[Json], more: str | list[Json]) -> str | list[Json]:
    if isinstance(said, str) and isinstance(more, str):
        return said + more
    chunks = _chunks(said) + _chunks(more)
    joined: list[Json] = []
    for chunk in chunks:
        last = joined[-1] if joined else None
        if last is None or last["type"] != chunk["type"]:
            joined.append(json.loads(json.dumps(chunk)))
        elif chunk["type"] == "text":
            last["text"] += chunk["text"]
        else:
            last["thinking"][0]["text"] += chunk["thinking"][0]["text"]
    return joined


def _chunks(said: str | list[Json]) -> list[Json]:
    if isinstance(said, str):
        return [{"type": "text", "text": said}] if said else []
    return said


def function(name: str, **properties: str) -> Json:
    """A caller's tool, as it stands in a request."""
    schema = {"type": "object", "properties": {key: {"type": kind} for key, kind in properties.items()}}
    return {"type": "function", "function": {"name": name, "description": f"{name}s", "parameters": schema}}


def without_ids(message: Any) -> Any:
    """A message whose calls are numbered: their own ids are of the run that made them."""
    calls = [{**call, "id": str(at)} for at, call in enumerate(message.get("tool_calls") or ())]
    return {**message, "tool_calls": calls} if calls else message
