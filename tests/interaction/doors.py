"""What the interaction tests share: our server on a real socket, and official clients in front of it.

Everything lives on one event loop with the tests, so a test can wait for an `asyncio.Event` that a tool, an upstream or a
client sets: nothing here sleeps.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import sys
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

import aiohttp
import httpx2
import msgspec
import openai
import pytest
import uvicorn
from pytest_asyncio import is_async_test
from starlette.types import Receive, Scope, Send
from tests.timeouts import TIMEOUT as TIMEOUT
from tests.timeouts import soon as soon

from ronda.agent.compaction import AnyCompaction
from ronda.core.events import Event, RunFinished
from ronda.core.guardrails import AnyGuardrails
from ronda.core.limits import Retry
from ronda.drive import Capabilities, Provider, Tool
from ronda.host.supervisor import Sleep
from ronda.journal import Journal
from ronda.journal.memory import MemoryJournal
from ronda.server.app import App, Server, create_app
from ronda.server.config import MAX_BODY, ServerConfig
from ronda.server.features.contract import Feature
from ronda.server.features.table import make_config
from ronda.server.http.auth import Auth
from ronda.server.http.failure import ErrorWriter
from ronda.server.http.protocol import BoundedProtocol
from ronda.server.http.sockets import BoundedSockets
from ronda.server.services.hosted_tools import OperatorServers
from ronda.store.catalog import Catalog
from ronda.testing import ScriptedModel
from ronda.tools.mcp.config import McpServer
from ronda.tools.mcp.servers import ServersPerLoop
from ronda.wire.shared.capabilities import Capability

QUICK = Retry(initial_interval=0.0, max_interval=0.01)

Json: TypeAlias = dict[str, Any]


def on_one_loop(items: Iterable[pytest.Item], folder: Path) -> None:
    """Run the async tests of a folder on the session's loop, where its server is."""
    for item in items:
        if item.path.is_relative_to(folder) and is_async_test(item):
            item.add_marker(pytest.mark.asyncio(loop_scope="session"), append=False)


class TakesFiles(ScriptedModel):
    """A scripted model whose service takes files as they are, and keeps some."""

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(takes_addresses=True, takes_file=lambda media_type: True, keeps_files=True)


# ---- our server ------------------------------------------------------------------------------------------------------


@dataclass
class Said:
    """An answer of ours as a client reads it, plain or streamed: equal when they say the same."""

    content: str = ""
    reasoning: str = ""
    refusal: str = ""
    calls: list[tuple[str, str, str]] = field(default_factory=list)
    finish_reason: str | None = None
    usage: tuple[int, int] | None = None
    limit: str | None = None
    warnings: list[str] = field(default_factory=list)
    records: list[Json] = field(default_factory=list)
    session: str = field(default="", compare=False)
    progress: list[Json] = field(default_factory=list, compare=False)
    message: Json = field(default_factory=dict, compare=False)  # to be sent back as the assistant's


def _read_plain(answer: Json, choice: int = 0) -> Said:
    said = Said()
    chosen = answer["choices"][choice]
    message = chosen["message"]
    said.content = message.get("content") or ""
    said.reasoning = message.get("reasoning_content") or ""
    said.refusal = message.get("refusal") or ""
    for call in message.get("tool_calls") or ():
        said.calls.append((call["id"], call["function"]["name"], call["function"]["arguments"]))
    said.finish_reason = chosen["finish_reason"]
    said.message = {key: value for key, value in message.items() if value is not None}
    _read_top(answer, said)
    said.records = [record for record in answer.get("agentic_tool_calls", []) if record.get("choice", 0) == choice]
    return said


def _read_top(part: Json, said: Said) -> None:
    if usage := part.get("usage"):
        said.usage = (usage["prompt_tokens"], usage["completion_tokens"])
    said.limit = part.get("limit", said.limit)
    said.warnings = part.get("warnings", said.warnings)
    said.session = part.get("session_id", said.session)


def fold_chunks(chunks: Iterable[Json], choice: int = 0) -> Said:
    """Add up a stream as clients do."""
    said = Said()
    calls: dict[int, list[str]] = {}
    for chunk in chunks:
        _read_top(chunk, said)
        mine = [part for part in chunk["choices"] if part["index"] == choice]
        if chunk.get("type") == "agentic_tool_call_progress":
            if mine:
                said.progress.append(chunk)
                _record(chunk, choice, said)
            continue
        for part in mine:
            delta = part["delta"]
            said.content += delta.get("content") or ""
            said.reasoning += delta.get("reasoning_content") or ""
            said.refusal += delta.get("refusal") or ""
            for piece in delta.get("tool_calls") or ():
                call = calls.setdefault(piece["index"], ["", "", ""])
                function = piece.get("function") or {}
                call[0] += piece.get("id") or ""
                call[1] += function.get("name") or ""
                call[2] += function.get("arguments") or ""
            said.finish_reason = part["finish_reason"] or said.finish_reason
    said.calls = [(call[0], call[1], call[2]) for _, call in sorted(calls.items())]
    said.message = {"role": "assistant", "content": said.content or None}
    if said.calls:
        said.message["tool_calls"] = [
            {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}
            for call_id, name, arguments in said.calls
        ]
    return said


def _record(chunk: Json, choice: int, said: Said) -> None:
    """What a plain answer would have recorded of a call whose end a stream showed."""
    data = chunk["data"]
    if chunk["phase"] != "complete":
        return
    record = {
        "round": chunk["round"],
        "tool_call_id": chunk["tool_call_id"],
        "name": chunk["tool_name"],
        "arguments": data["arguments"],
        "result_content": data["content"],
    }
    if data.get("failed"):
        record["failed"] = True
    if choice:
        record["choice"] = choice
    said.records.append(record)


class Served:
    """A server of ours and the clients that talk to it."""

    def __init__(self, server: Server, door: Door) -> None:
        self.server = server
        self.url = door.url
        self.http = door.http
        self._door = door

    @property
    def mcp(self) -> ServersPerLoop | None:
        """The operator's MCP servers."""
        found: ServersPerLoop | None = self.server.features.provided(OperatorServers)
        return found

    def client(self, key: str = "test") -> openai.AsyncOpenAI:
        return self._door.client(key)

    async def ask(
        self, messages: str | Sequence[Mapping[str, Any]] = "go", *, stream: bool, key: str = "test", **request: Any
    ) -> Said:
        """Ask through the official SDK."""
        return (await self.ask_for(messages, stream=stream, key=key, **request))[0]

    async def ask_for(
        self, messages: str | Sequence[Mapping[str, Any]] = "go", *, stream: bool, key: str = "test", **request: Any
    ) -> list[Said]:
        """All choices of an answer."""
        if isinstance(messages, str):
            messages = [{"role": "user", "content": messages}]
        extra = {name: request.pop(name) for name in _NOT_OF_THE_SDK & request.keys()}
        create: Any = self.client(key).chat.completions.create
        async with soon():
            answer = await create(model="default", messages=messages, stream=stream, extra_body=extra, **request)
            if not stream:
                whole = answer.to_dict()
                return [_read_plain(whole, choice["index"]) for choice in whole["choices"]]
            chunks = [chunk.to_dict() async for chunk in answer]
        return [fold_chunks(chunks, choice) for choice in range(request.get("n", 1))]

    async def post(
        self, body: Json | bytes, shown: asyncio.Event | None = None, headers: Mapping[str, str] | None = None
    ) -> Raw:
        """Ask without a client library, and keep every byte. `shown` is set when the first of them are here."""
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        sent = {"content-type": "application/json", **(headers or {})}
        async with soon(), self.http.post(f"{self.url}/chat/completions", data=data, headers=sent) as answer:
            received = {name.lower(): said for name, said in answer.headers.items()}
            first = await answer.content.readany()
            if shown is not None:
                shown.set()
            return Raw(answer.status, received, first + await answer.read())

    @property
    async def events(self) -> list[list[Event]]:
        """What the journal has of every run, in the order they started."""
        journal = self.server.runs.journal
        assert isinstance(journal, Remembering)
        return [await journal.read(run) for run in journal.runs]

    @property
    async def ends(self) -> list[RunFinished]:
        """How every run ended."""
        last = [events[-1] for events in await self.events]
        return [event for event in last if isinstance(event, RunFinished)]

    async def all_over(self) -> None:
        """Wait until no run is under way."""
        async with soon():
            tasks = [live.task for live in self.server.runs.live.values() if live.task is not None]
            await asyncio.gather(*tasks, return_exceptions=True)


_NOT_OF_THE_SDK = {"max_tool_rounds", "session_id", "on_disconnect", "tool_dispatch_url", "top_k", "truncate_sequence"}


@dataclass(frozen=True)
class Raw:
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def frames(self) -> list[str]:
        """The data of every event, the named ones too."""
        return [data for _, data in self.events]

    @property
    def events(self) -> list[tuple[str, str]]:
        found = []
        for block in self.body.decode().split("\n\n"):
            fields = dict(line.split(": ", 1) for line in block.split("\n") if line and not line.startswith(":"))
            if fields:
                found.append((fields.get("event", "message"), fields["data"]))
        return found

    @property
    def chunks(self) -> list[Json]:
        """All but the error, which is no chunk."""
        return [frame for frame in self.objects if "choices" in frame]

    @property
    def objects(self) -> list[Json]:
        assert self.frames[-1] == "[DONE]", self.body
        return [json.loads(frame) for frame in self.frames[:-1]]

    @property
    def said(self) -> Said:
        if self.headers["content-type"].startswith("text/event-stream"):
            return fold_chunks(self.chunks)
        return _read_plain(self.json)

    @property
    def error(self) -> Json:
        """The error of a plain answer, or of a stream; always in OpenAI's shape."""
        if self.headers["content-type"].startswith("text/event-stream"):
            errors = [frame["error"] for frame in self.objects if "error" in frame]
            assert len(errors) == 1, self.body
            error = errors[0]
        else:
            assert list(self.json) == ["error"], self.body
            error = self.json["error"]
        assert sorted(error) == ["code", "message", "param", "type"]
        return dict(error)


class Remembering(MemoryJournal):
    """A journal that knows the order of its runs."""

    def __init__(self) -> None:
        super().__init__()
        self.runs: list[str] = []
        self._awaited: defaultdict[type, asyncio.Event] = defaultdict(asyncio.Event)

    def append(self, run: str, events: Sequence[Event], size: int | None = None) -> None:
        if run not in self.runs:
            self.runs.append(run)
        super().append(run, events, size)
        for event in events:
            self._awaited[type(event)].set()

    async def until(self, kind: type) -> None:
        """Wait for the first event of a kind."""
        async with soon():
            await self._awaited[kind].wait()


class Pauses:
    """Time for a server that does not pass by itself: a pause is over at once, or when it is told so."""

    def __init__(self, *, are_over: bool = True) -> None:
        self.asked: list[float] = []  # seconds
        self._are_over = are_over
        self._ends: list[asyncio.Event] = []
        self._news = asyncio.Event()

    async def __call__(self, seconds: float) -> None:
        end = asyncio.Event()
        self._ends.append(end)
        self.asked.append(seconds)
        self._news.set()
        if self._are_over:
            end.set()
        await end.wait()

    async def until(self, *seconds: float) -> None:
        """Wait until these were asked for, in this order."""
        async with soon():
            while self.asked[: len(seconds)] != [*seconds]:
                assert list(seconds[: len(self.asked)]) == self.asked, self.asked
                self._news.clear()
                await self._news.wait()

    async def until_count(self, count: int) -> None:
        """Wait until so many were asked for."""
        async with soon():
            while len(self.asked) < count:
                self._news.clear()
                await self._news.wait()

    def end(self) -> None:
        """Of those that have begun."""
        for one in self._ends:
            one.set()


def config_of(settings: Mapping[str, Any]) -> ServerConfig:
    """The settings of the core as they are, those of features as a settings file has them."""
    core = {name: value for name, value in settings.items() if name in ServerConfig.__struct_fields__}
    others = {name: value for name, value in settings.items() if name not in core}
    parts = make_config({"features": list(settings.get("features", ())), **others}).parts if others else {}
    return ServerConfig(**core, parts=parts)


class Door:
    """One socket for a whole session. Each test puts a server of its own behind it."""

    def __init__(self, http: aiohttp.ClientSession) -> None:
        self.http = http
        self.url = ""
        self._app: Any = None
        self._served: App | None = None  # the last that was
        self._clients: dict[str, openai.AsyncOpenAI] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        assert self._app is not None, "no server runs"
        await self._app(scope, receive, send)

    def error_writer(self, path: str) -> ErrorWriter:
        assert self._served is not None, "no server runs"
        return self._served.error_writer(path)

    def client(self, key: str) -> openai.AsyncOpenAI:
        if key not in self._clients:
            self._clients[key] = openai.AsyncOpenAI(base_url=self.url, api_key=key, max_retries=0, timeout=TIMEOUT)
        return self._clients[key]

    @property
    def shared_clients(self) -> set[httpx2.AsyncClient]:
        """That all tests ask through."""
        return {client._client for client in self._clients.values()}

    @contextlib.asynccontextmanager
    async def serving(
        self,
        model: Provider | str,
        /,
        *tools: Tool,
        callbacks: Mapping[str, Callable[..., Any]] | None = None,
        capabilities: Mapping[Capability, Sequence[Tool]] | None = None,
        journal: Journal | None = None,
        catalog: Catalog | None = None,
        auth: Auth | None = None,
        guardrails: AnyGuardrails | None = None,
        compaction: AnyCompaction | None = None,
        mcp: Sequence[McpServer] = (),
        sleep: Sleep = asyncio.sleep,
        features: Sequence[type[Feature]] | None = None,
        **config: Any,
    ) -> AsyncIterator[Served]:
        """A server with this model (or the address of an upstream) and these tools, as long as the block lasts."""
        if isinstance(model, str):
            settings = {"model": "openai-chat:gpt-test", "base_url": model, **config}
        else:
            settings = {"model": "script:test", **config}
        server = Server(
            config_of({"retry": QUICK, **settings}),
            journal or Remembering(),
            provider=None if isinstance(model, str) else model,
            tools=tools,
            tool_callbacks=callbacks,
            capabilities=capabilities,
            catalog=catalog,
            auth=auth,
            guardrails=guardrails,
            compaction=compaction,
            given={"mcp": mcp} if mcp else {},
            sleep=sleep,
            features=features,
        )
        self._app = self._served = create_app(server)
        try:
            yield Served(server, self)
        finally:
            self._app = None
            async with soon():
                await server.close()

    def put(self, app: Any) -> None:
        """Serve this for the rest of the block."""
        self._app = app

    async def close(self) -> None:
        for client in self._clients.values():
            await client.close()


class _Uvicorn(uvicorn.Server):
    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield  # signals are pytest's


@contextlib.asynccontextmanager
async def open_door() -> AsyncIterator[Door]:
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    listener.listen()  # a client that is quicker than the server waits for it
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(force_close=True)) as http:
        door = Door(http)
        door.url = f"http://127.0.0.1:{listener.getsockname()[1]}/v1"
        server = _Uvicorn(
            uvicorn.Config(
                door,
                lifespan="off",
                log_level="critical",
                timeout_keep_alive=75,  # as `ronda serve` has it
                ws=BoundedSockets,
                ws_max_size=MAX_BODY,
                ws_per_message_deflate=False,
                http=partial(BoundedProtocol, error_writer=door.error_writer),  # type: ignore[arg-type]  # called as its class is
            )
        )
        task = asyncio.create_task(server.serve([listener]))
        try:
            yield door
        finally:
            await door.close()
            server.should_exit = True
            async with soon():
                await task


# ---- tools of a caller -----------------------------------------------------------------------------------------------


def declared(name: str, **properties: str) -> Json:
    """A caller's tool, as it stands in a request. All its parameters are required."""
    schema = {
        "type": "object",
        "properties": {key: {"type": kind} for key, kind in properties.items()},
        "required": list(properties),
    }
    return {"type": "function", "function": {"name": name, "description": f"{name}s", "parameters": schema}}


def result(id: str, content: str) -> Json:
    return {"role": "tool", "tool_call_id": id, "content": content}


def user(text: str) -> Json:
    return {"role": "user", "content": text}


def encoded(value: Any) -> Any:
    """A value of ours as plain JSON, for comparing."""
    return msgspec.to_builtins(value)


def python() -> str:
    return sys.executable
